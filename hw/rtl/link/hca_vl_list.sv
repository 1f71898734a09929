// One list of a VL arbitration table: weighted round robin over its entries, in bytes, with the debt of a VL
// carried over. A visit adds an entry's weight to its VL's account; while the account is above zero the VL sends.
// A lap is one pass over the table; laps that only pay debts are jumped, all VLs in one cycle. Acts only while
// step_i is 1; one visit per cycle, and a packet of a VL in every second cycle. Never waits. README.md: rules.
module hca_vl_list
  import hca_link_pkg::*;
#(
  parameter int unsigned  NumVls  = NumVlsDefault,
  parameter int unsigned  Entries = ArbEntries,
  localparam int unsigned VlW     = (NumVls > 1) ? $clog2(NumVls) : 1,
  localparam int unsigned EntryW  = $clog2(Entries),
  localparam int unsigned SumW    = 8 + EntryW   // sum of all weights
) (
  input  logic                           clk_i,
  input  logic                           rst_i,
  input  logic                           clear_i,      // forget all accounts, start a new lap
  input  logic                           tbl_we_i,
  input  logic [EntryW-1:0]              tbl_idx_i,
  input  vl_entry_t                      tbl_i,
  input  logic [NumVls-1:0]              req_i,        // the VL has a packet that may leave
  input  logic [NumVls-1:0]              wait_i,       // whether it has one is known in the next cycle
  input  logic [NumVls-1:0][PacketW-1:0] bytes_i,      // length of that packet
  input  logic                           step_i,       // this list has the turn
  input  logic                           lap_only_i,   // no turn, but one lap may be jumped
  input  logic [1:0]                     laps_max_i,   // at most 0, 1, 4 or 16 laps at once
  input  logic                           take_i,       // the VL at vl_o sends if step_i and ready_o
  output logic                           any_o,        // some entry has a VL with a packet
  output logic                           start_o,      // between two laps
  output logic                           ready_o,      // vl_o may send; counts with step_i alone
  output logic                           could_o,      // ... but for ahead_o, which is late: ready_o is both
  output logic [NumVls-1:0]              offer_o,      // the same, a bit for each VL
  output logic                           ahead_o,      // laps are jumped, or weights given, if step_i: no visit now
  output logic [VlW-1:0]                 vl_o,
  output logic [PacketW-1:0]             bytes_o,      // length of its packet
  output logic                           begin_o,      // strobe: a lap begins
  output logic                           lap_if_o,     // a lap begins or is jumped, if step_i
  output logic                           jump_if_o,    // laps are jumped, if step_i
  output logic [1:0]                     jump_o,       // strobe: 1, 4 or 16 laps were jumped (1, 2, 3)
  output logic [1:0]                     laps_o,       // how many, if they are: 16 (bit 1), else 4 (bit 0), else 1
  output logic                           lap_o,        // strobe: a lap ends
  output logic                           first_o,      // the account does not have the weight yet
  output logic                           visit_o,      // a packet or leave_o of now is the first thing of a visit:
  output logic [7:0]                     weight_o,     // weight_o goes to the account of vl_o
  output logic                           leave_o,      // strobe: the visit ends
  output logic                           early_o,      // strobe, a cycle late: weights were given without a visit at a
  output logic [SumW-1:0]                early_sum_o,  // lap's start, these together
  output logic [SumW-1:0]                sum_o         // weights of all VLs with a packet, one cycle old
);

  // Accounts are -8190 .. 16320. Kept is one less: then the sign says whether there is nothing left.
  localparam int unsigned AccW = 15;

  typedef logic signed [AccW-1:0] acc_t;

  // ---- Table ---------------------------------------------------------------------------------------
  logic [Entries-1:0]             on_q;        // entries of a VL there is, with a weight
  logic [Entries-1:0][VlW+7:0]    entry_q;     // weight, and whose; all of them at once, which a RAM cannot say
  logic [NumVls-1:0][SumW-1:0]    weights_q;   // sum of a VL's weights
  // A cycle behind it: there are some; what a lap gives the VL, where above any debt it counts as 255.
  logic [NumVls-1:0]              listed_q;
  logic [NumVls-1:0][7:0]         lap_q;
  logic [11:0]                    mem [Entries];
  // What firmware writes is here a cycle later, with what it writes over.
  logic                           we_q, on, old_on_q;
  logic [EntryW-1:0]              write_q;           // the entry
  vl_entry_t                      new_q, old, old_q;
  logic signed [8:0]              lost, change;      // without the old weight, and with the new one

  assign on     = 32'(new_q.vl) < NumVls && new_q.weight != 8'd0;
  assign lost   = -$signed({1'b0, old_q.weight});
  assign change = $signed({1'b0, new_q.weight}) - $signed({1'b0, old_q.weight});

  always_comb begin
    old = mem[tbl_idx_i];
    if (we_q && write_q == tbl_idx_i) old = new_q;
  end

  always_ff @(posedge clk_i) begin
    we_q       <= tbl_we_i && !rst_i;
    write_q    <= tbl_idx_i;
    new_q      <= tbl_i;
    old_q      <= old;
    old_on_q   <= (we_q && write_q == tbl_idx_i) ? on : on_q[tbl_idx_i];
    if (we_q) mem[write_q] <= new_q;
    if (we_q) entry_q[write_q] <= {new_q.weight, new_q.vl[VlW-1:0]};
    if (rst_i) on_q <= '0;
    else if (we_q) on_q[write_q] <= on;
  end

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_table
    logic              is_new, was_old;
    logic [7:0]        clipped;
    logic signed [8:0] more;   // weight that it gets, or loses

    assign is_new  = new_q.vl == 4'(v) && new_q.weight != 8'd0;
    assign was_old = old_on_q && old_q.vl == 4'(v);
    assign clipped = (weights_q[v] > SumW'(255)) ? 8'd255 : weights_q[v][7:0];

    always_comb begin
      unique case ({is_new, was_old})
        2'b10:   more = {1'b0, new_q.weight};
        2'b01:   more = lost;
        2'b11:   more = change;
        default: more = '0;
      endcase
    end

    always_ff @(posedge clk_i) begin
      listed_q[v] <= !rst_i && weights_q[v] != '0;
      lap_q[v]    <= clipped;
    end

    always_ff @(posedge clk_i) begin
      if (rst_i) weights_q[v] <= '0;
      else if (we_q) weights_q[v] <= weights_q[v] + SumW'(more);
    end
  end

  // ---- The next entry whose VL has a packet -----------------------------------------------------------
  logic [NumVls-1:0]  back;                          // has a packet, or may have one
  logic               early_q, early_was_q;          // weights were given at the beginning of this lap: just now;
  logic [NumVls-1:0]  skip_q;                        // to these, while early_q
  logic [2**VlW-1:0]  open;                          // may be visited in this lap
  logic [Entries-1:0] ok_q;                          // entries that may be, a cycle before
  logic               stale_q;                       // skip_q has just changed: ok_q does not know yet
  logic               none, wraps;
  logic [VlW-1:0]     vl, vl_later;                  // whose
  logic [7:0]         vl_weight, weight_later;

  assign back = req_i | wait_i;

  assign open = (2**VlW)'(early_q ? back & ~skip_q : back);

  // An entry that is being written is none: what was true of it is not true of the VL that it has then.
  for (genvar e = 0; e < int'(Entries); e++) begin : gen_ok
    always_ff @(posedge clk_i) begin
      ok_q[e] <= !rst_i && on_q[e] && open[entry_q[e][VlW-1:0]] && !(we_q && write_q == EntryW'(e));
    end
  end

  // The entry in hand. At the start of a lap it is looked for again until the lap begins.
  logic               start_q, valid_q, valid, added_q, search, leave, send;
  logic [VlW-1:0]     cur_vl_q;

  // None that was found before weights were given early, or before such a lap ended.
  assign valid  = valid_q && !stale_q;
  assign search = start_q && !(step_i && valid) && !stale_q;

  // The first one of the lap and the first one behind the entry in hand, side by side: which one counts is known late.
  // Which entries are behind one comes with it, out of a carry chain: bits that a negation turns are above the lowest.
  logic [Entries-1:0] behind_q, later, behind_first, behind_next;

  assign later        = ok_q & behind_q;
  assign behind_first = ok_q ^ (~ok_q + 1'b1);
  assign behind_next  = later ^ (~later + 1'b1);

  hca_low_index #(
    .N    (Entries),
    .NoteW(VlW + 8)
  ) u_first (
    .bits_i       (ok_q),
    .notes_i      (entry_q),
    .later_i      (later),
    .none_o       (none),
    .idx_o        (),
    .note_o       ({vl_weight, vl}),
    .wraps_o      (wraps),
    .behind_o     (),
    .behind_note_o({weight_later, vl_later})
  );

  // Whose it is and its weight come with the search, for all else hangs on them. The weight counts until the account
  // has it: then it is none.
  logic [7:0] cur_weight_q;

  always_ff @(posedge clk_i) begin
    if (search || leave) cur_weight_q <= (search || wraps) ? vl_weight : weight_later;
    else if (send) cur_weight_q <= '0;
    if (search || leave) begin
      behind_q <= (search || wraps) ? behind_first : behind_next;
      cur_vl_q <= (search || wraps) ? vl : vl_later;
    end
  end

  // ---- Debts -------------------------------------------------------------------------------------------
  // A VL that owes more than its weights of a whole lap cannot send during that lap. When that holds for all VLs with a
  // packet, the lap is jumped, and further ones with it; when it holds for many, they get their weights at once, and
  // the lap visits only the others. Who sends when is the same as if every entry was visited.
  localparam int unsigned ManyVls = 4;   // 1..4

  typedef logic [4:1] at_least_t;   // a bit for each number

  logic [NumVls-1:0][AccW-1:0] acc_q;
  logic [NumVls-1:0]           member, owes, able, owes_4, owes_16;
  logic [1:0]                  laps, jump;   // laps: as jump, if there is one
  logic                        laps_16, laps_4;
  at_least_t                   owing;
  logic                        bound, any, many_owe, all_4, all_16, may_jump, may_give, jumps, gives_early, ahead;
  logic                        early;

  // Weights of some VLs together, which ones is known late: two weights and their sum are there before, and a number of
  // the three or none is taken.
  function automatic logic [SumW-1:0] sum_of(logic [NumVls-1:0] some_vls, logic [NumVls-1:0][SumW-1:0] weights);
    logic [15:0][SumW-1:0] weight;
    logic [7:0][SumW-1:0]  part;
    logic [15:0]           some;
    weight = (16 * SumW)'(weights);
    some   = 16'(some_vls);
    for (int unsigned n = 0; n < 8; n++) begin
      unique case (some[2*n +: 2])
        2'd1:    part[n] = weight[2*n];
        2'd2:    part[n] = weight[2*n+1];
        2'd3:    part[n] = weight[2*n] + weight[2*n+1];
        default: part[n] = '0;
      endcase
    end
    for (int unsigned width = 4; width != 0; width = width / 2) begin
      for (int unsigned n = 0; n < width; n++) part[n] = part[2*n] + part[2*n+1];
    end
    return part[0];
  endfunction

  // At least 1, 2, 3, 4 of nine bits: how many of each three, in two bits, and that of all three without a carry.
  function automatic at_least_t at_least_of_nine(logic [8:0] bits);
    logic [2:0] twos, ones;
    logic       two_twos, two_ones;
    for (int unsigned n = 0; n < 3; n++) begin
      twos[n] = (bits[3*n] && bits[3*n+1]) || (bits[3*n] && bits[3*n+2]) || (bits[3*n+1] && bits[3*n+2]);
      ones[n] = ^bits[3*n +: 3];
    end
    two_twos = (twos[0] && twos[1]) || (twos[0] && twos[2]) || (twos[1] && twos[2]);
    two_ones = (ones[0] && ones[1]) || (ones[0] && ones[2]) || (ones[1] && ones[2]);
    at_least_of_nine[1] = twos != '0 || ones != '0;
    at_least_of_nine[2] = twos != '0 || two_ones;
    at_least_of_nine[3] = two_twos || (twos != '0 && ones != '0) || ones == '1;
    at_least_of_nine[4] = two_twos || (twos != '0 && two_ones);
  endfunction

  function automatic at_least_t at_least_of(logic [15:0] bits);
    at_least_t a, b;
    a = at_least_of_nine(bits[8:0]);
    b = at_least_of_nine({2'd0, bits[15:9]});
    at_least_of[1] = a[1] || b[1];
    at_least_of[2] = a[2] || b[2] || (a[1] && b[1]);
    at_least_of[3] = a[3] || b[3] || (a[2] && b[1]) || (a[1] && b[2]);
    at_least_of[4] = a[4] || b[4] || (a[3] && b[1]) || (a[1] && b[3]) || (a[2] && b[2]);
  endfunction

  // An account below zero behind 1, 4 and 16 laps, without its sign and the bits that stay: a carry says that it owes
  // nothing any more. For one lap a comparison says it, which is there a bit earlier than a sum's last one.
  logic [NumVls-1:0]      pays;
  logic [NumVls-1:0][7:0] behind;
  logic [NumVls-1:0][6:0] behind_4;
  logic [NumVls-1:0][4:0] behind_16;

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_debt
    assign pays[v]      = lap_q[v] > ~acc_q[v][13:6];
    assign behind[v]    = acc_q[v][13:6] + lap_q[v];
    assign behind_4[v]  = {1'b0, acc_q[v][13:8]} + {1'b0, lap_q[v][5:0]};
    assign behind_16[v] = {1'b0, acc_q[v][13:10]} + {1'b0, lap_q[v][3:0]};
    assign member[v]    = back[v] && listed_q[v];
    assign owes[v]      = member[v] && acc_q[v][AccW-1] && !pays[v];
    assign able[v]      = member[v] && !(acc_q[v][AccW-1] && !pays[v]);
    assign owes_4[v]    = !member[v] || (acc_q[v][AccW-1] && !behind_4[v][6] && lap_q[v][7:6] == '0);
    assign owes_16[v]   = !member[v] || (acc_q[v][AccW-1] && !behind_16[v][4] && lap_q[v][7:4] == '0);
  end

  assign bound       = start_q && !early_q;
  assign any         = member != '0;
  assign owing       = at_least_of(16'(owes));
  assign many_owe    = owing[ManyVls];
  assign all_4       = any && owes_4 == '1;    // more than one lap, so one lap too
  assign all_16      = any && owes_16 == '1;
  assign early_sum_o = sum_of(skip_q, weights_q);

  // No visit now: laps are jumped, or weights given early, if this list has the turn. Whose turn it is comes last.
  // Many who owe are some, so that what is ahead is one of two things that are known by then.
  assign may_jump    = bound && any && laps_max_i != 2'd0;
  assign may_give    = bound && many_owe;
  assign jumps       = may_jump && able == '0;
  assign gives_early = may_give && able != '0;
  assign ahead       = (able == '0) ? may_jump : may_give;
  assign early       = gives_early && step_i;

  // A bit each: numbers of laps would be a level more in front of what each of them makes of an account or a budget.
  assign laps_16 = all_16 && laps_max_i == 2'd3;
  assign laps_4  = all_4 && laps_max_i[1];
  assign laps    = laps_16 ? 2'd3 : laps_4 ? 2'd2 : 2'd1;

  assign jump = (jumps && (step_i || lap_only_i)) ? laps : 2'd0;

  // ---- The visit ------------------------------------------------------------------------------------------
  logic            act, has, could, may_act, goes_on, visits;   // whose turn is late: may_act, goes_on, visits, if ours
  acc_t            acc, gain, account, unpaid, half, rest;   // account and rest: one less
  logic [AccW-1:0] carry;
  logic            unused_carry;
  logic [SumW-1:0] sum_q;

  // account - bytes, of three numbers in one chain: it does not wait for the account. Weights are in units of 64.
  assign acc     = acc_q[cur_vl_q];
  assign gain    = acc_t'({cur_weight_q, 6'd0});
  assign unpaid  = ~acc_t'(bytes_o);
  assign half    = acc ^ gain ^ unpaid;
  assign carry   = (acc & gain) | (acc & unpaid) | (gain & unpaid);
  assign unused_carry = carry[AccW-1];
  assign account = {acc[AccW-1:6] + gain[AccW-1:6], acc[5:0]};
  assign rest    = half + {carry[AccW-2:0], 1'b1};

  assign has     = valid && req_i[cur_vl_q];
  assign could   = has && !wait_i[cur_vl_q] && !account[AccW-1];
  assign ready_o = could && !ahead;
  assign may_act = valid && !wait_i[cur_vl_q] && !ahead && (has || !start_q);
  assign goes_on = may_act && (!has || account[AccW-1] || (take_i && rest[AccW-1]));
  assign act     = step_i && may_act;
  // Of the first visit of a lap, if nothing is ahead of it: who has a packet sends it, or is in debt and left.
  assign visits  = bound && has && !wait_i[cur_vl_q] && (account[AccW-1] || take_i);
  assign send    = take_i && step_i && ready_o;
  assign leave   = step_i && goes_on;

  assign any_o    = any;
  assign start_o  = bound;
  assign vl_o     = cur_vl_q;
  assign bytes_o  = bytes_i[cur_vl_q];
  assign begin_o  = step_i && (gives_early || (visits && !ahead));
  assign lap_if_o = ahead || visits;
  assign jump_if_o = jumps;
  assign jump_o   = jump;
  assign laps_o   = {laps_16, laps_4};
  assign could_o  = could;
  assign ahead_o  = ahead;
  assign lap_o    = (leave && wraps) || (early_q && start_q && step_i && !valid && none && !stale_q);
  assign first_o  = !added_q;
  assign visit_o  = !added_q && has;
  assign weight_o = cur_weight_q;
  assign leave_o  = leave;
  assign early_o  = early_was_q;

  always_ff @(posedge clk_i) begin
    if (rst_i || clear_i) begin
      start_q <= 1'b1;
      valid_q <= 1'b0;
      added_q <= 1'b0;
      early_q <= 1'b0;
      stale_q <= 1'b1;
      early_was_q <= 1'b0;
    end else begin
      early_was_q <= early;
      stale_q <= early || (early_q && lap_o);
      early_q <= early || (early_q && !lap_o);
      if (early) skip_q <= owes;
      if (leave) begin
        start_q <= wraps;
        added_q <= 1'b0;
      end else if (send) begin
        start_q <= 1'b0;
        added_q <= 1'b1;
      end
      if (stale_q) valid_q <= 1'b0;
      else if (search || leave) valid_q <= !none;
      else if (start_q && !has && !wait_i[cur_vl_q]) valid_q <= 1'b0;
    end
  end

  // An account without a packet to send keeps its debt, never its gain. What it becomes is known before whether it
  // changes now: that waits for whose turn it is, and whether there is room for a packet.
  logic give;      // those who owe get the weights of a lap or more
  acc_t visited;   // account of the VL in hand behind this cycle, if it changes

  assign give    = ahead && (step_i || (lap_only_i && jumps));
  assign visited = !has ? '1 : account[AccW-1] ? account : rest;

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_account
    logic       visit;
    logic [7:0] given;

    always_comb begin
      if (laps_16) given = {behind_16[v][3:0], acc_q[v][9:6]};
      else if (laps_4) given = {behind_4[v][5:0], acc_q[v][7:6]};
      else given = behind[v];
    end

    assign offer_o[v] = valid && req_i[v] && cur_vl_q == VlW'(v) && !wait_i[v] && !account[AccW-1];

    assign visit = act && cur_vl_q == VlW'(v) && (has ? account[AccW-1] || send : !acc[AccW-1]);

    always_ff @(posedge clk_i) begin
      if (rst_i || clear_i) acc_q[v] <= '1;
      else begin
        if (visit || (give && owes[v])) acc_q[v][AccW-1:6] <= ahead ? {1'b1, given} : visited[AccW-1:6];
        if (visit) acc_q[v][5:0] <= visited[5:0];
      end
    end
  end

  always_ff @(posedge clk_i) sum_q <= sum_of(back, weights_q);

  assign sum_o = sum_q;

endmodule
