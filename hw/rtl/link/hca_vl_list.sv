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
  input  logic                           take_i,       // the VL at vl_o sends: only with step_i and ready_o
  output logic                           any_o,        // some entry has a VL with a packet
  output logic                           start_o,      // between two laps
  output logic                           ready_o,      // vl_o may send
  output logic [VlW-1:0]                 vl_o,
  output logic                           begin_o,      // strobe: a lap begins
  output logic [1:0]                     jump_o,       // strobe: 1, 4 or 16 laps were jumped (1, 2, 3)
  output logic                           lap_o,        // strobe: a lap ends
  output logic                           visit_o,      // strobe: weight_o goes to the account of vl_o
  output logic [7:0]                     weight_o,
  output logic                           leave_o,      // strobe: the visit ends
  output logic [SumW-1:0]                early_o,      // weights given without a visit at the beginning of a lap
  output logic [SumW-1:0]                sum_o         // weights of all VLs with a packet, one cycle old
);

  localparam int unsigned AccW = 15;   // accounts: -8190 .. 16320

  typedef logic signed [AccW-1:0] acc_t;

  // ---- Table ---------------------------------------------------------------------------------------
  logic [NumVls-1:0][Entries-1:0] mask_q;      // entries of a VL with a weight
  logic [NumVls-1:0][SumW-1:0]    weights_q;   // their sum
  // A cycle behind it: there are some; what a lap gives the VL, where above any debt it counts as 255, and one less.
  logic [NumVls-1:0]              listed_q;
  logic [NumVls-1:0][7:0]         lap_q, less_q;
  logic [11:0]                    mem [Entries];
  vl_entry_t                      old;

  assign old = mem[tbl_idx_i];

  always_ff @(posedge clk_i) begin
    if (tbl_we_i) mem[tbl_idx_i] <= tbl_i;
  end

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_table
    logic       is_new, was_old;
    logic [7:0] clipped;

    assign is_new  = tbl_i.vl == 4'(v) && tbl_i.weight != 8'd0;
    assign was_old = mask_q[v][tbl_idx_i];
    assign clipped = (weights_q[v] > SumW'(255)) ? 8'd255 : weights_q[v][7:0];

    always_ff @(posedge clk_i) begin
      listed_q[v] <= !rst_i && weights_q[v] != '0;
      lap_q[v]    <= clipped;
      less_q[v]   <= clipped - 8'd1;
    end

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        mask_q[v]    <= '0;
        weights_q[v] <= '0;
      end else if (tbl_we_i) begin
        mask_q[v][tbl_idx_i] <= is_new;
        weights_q[v] <= weights_q[v] + (is_new ? SumW'(tbl_i.weight) : '0) - (was_old ? SumW'(old.weight) : '0);
      end
    end
  end

  logic unused_old;
  assign unused_old = ^old.vl;

  // ---- The next entry whose VL has a packet -----------------------------------------------------------
  logic [NumVls-1:0]  back;                          // has a packet, or may have one
  logic [NumVls-1:0]  skip_q;                        // has had its weights of this lap
  logic               any;
  logic [Entries-1:0] ok, later, next;
  logic [Entries:0]   first_ok, first_later;         // a carry finds the first one; out of the top: there is none
  logic               wraps, some;
  logic [EntryW-1:0]  next_idx;
  vl_entry_t          next_entry;

  assign back = req_i | wait_i;

  always_comb begin
    any = 1'b0;
    ok  = '0;
    for (int unsigned v = 0; v < NumVls; v++) begin
      if (back[v] && listed_q[v]) any = 1'b1;
      if (back[v] && !skip_q[v]) ok = ok | mask_q[v];
    end
  end

  // The entry in hand. At the start of a lap it is looked for again until the lap begins.
  logic               start_q, valid_q, added_q, search;
  logic [Entries-1:0] later_q;                       // entries behind it
  vl_entry_t          cur_q;
  logic [VlW-1:0]     cur_vl;

  assign search      = start_q && !(step_i && valid_q);
  assign later       = ok & later_q;
  assign first_ok    = {1'b0, ~ok} + 1'b1;
  assign first_later = {1'b0, ~later} + 1'b1;
  assign wraps       = first_later[Entries];
  assign some        = !first_ok[Entries];
  assign next        = (search || wraps) ? ok & first_ok[Entries-1:0] : later & first_later[Entries-1:0];

  hca_onehot_index #(
    .N(Entries)
  ) u_next (
    .onehot_i(next),
    .idx_o   (next_idx)
  );

  assign next_entry = mem[next_idx];
  assign cur_vl     = cur_q.vl[VlW-1:0];

  // ---- Debts -------------------------------------------------------------------------------------------
  // A VL that owes more than its weights of a whole lap cannot send during that lap. When that holds for all VLs with a
  // packet, the lap is jumped, and further ones with it; when it holds for many, they get their weights at once, and
  // the lap visits only the others. Who sends when is the same as if every entry was visited.
  localparam int unsigned ManyVls = 4;

  logic [NumVls-1:0][AccW-1:0] acc_q;
  logic [NumVls-1:0]           member, owes, owes_4, owes_16;
  logic [1:0]                  jump;
  logic                        look, all_1, all_4, all_16, early, early_q;
  logic [SumW-1:0]             early_sum;

  assign look = start_q && !early_q && (step_i || lap_only_i);

  // Sums as trees: of weights of some VLs, and of four VLs each whether they owe.
  function automatic logic [SumW-1:0] sum_of(logic [NumVls-1:0] some_vls, logic [NumVls-1:0][SumW-1:0] weights);
    logic [15:0][SumW-1:0] part;
    part = '0;
    for (int unsigned n = 0; n < NumVls; n++) part[n] = some_vls[n] ? weights[n] : '0;
    for (int unsigned width = 8; width != 0; width = width / 2) begin
      for (int unsigned n = 0; n < width; n++) part[n] = part[n] + part[n + width];
    end
    return part[0];
  endfunction

  function automatic logic are_many(logic [15:0] bits);
    logic [3:0][2:0] part;
    for (int unsigned n = 0; n < 4; n++) begin
      part[n] = (3'(bits[4*n]) + 3'(bits[4*n+1])) + (3'(bits[4*n+2]) + 3'(bits[4*n+3]));
    end
    return (5'(part[0]) + 5'(part[1])) + (5'(part[2]) + 5'(part[3])) >= 5'(ManyVls);
  endfunction

  // An account that is not above zero behind so many laps; gain_less: what these give, less one.
  function automatic logic still_owes(acc_t now, logic [17:0] gain_less);
    logic [18:0] left;
    logic        unused;
    left   = 19'(now) + 19'(gain_less);
    unused = ^left[17:0];
    return left[18];
  endfunction

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_debt
    assign member[v]  = back[v] && listed_q[v];
    assign owes[v]    = member[v] && still_owes(acc_q[v], 18'({less_q[v], 6'h3f}));
    assign owes_4[v]  = !member[v] || still_owes(acc_q[v], 18'({less_q[v], 8'hff}));
    assign owes_16[v] = !member[v] || still_owes(acc_q[v], {less_q[v], 10'h3ff});
  end

  assign all_1     = look && member != '0 && owes == member;
  assign all_4     = owes_4 == '1;
  assign all_16    = owes_16 == '1;
  assign early     = look && step_i && !all_1 && are_many(16'(owes));
  assign early_sum = sum_of(owes, weights_q);

  always_comb begin
    if (!all_1) jump = 2'd0;
    else if (all_16 && laps_max_i == 2'd3) jump = 2'd3;
    else if (all_4 && laps_max_i >= 2'd2) jump = 2'd2;
    else jump = (laps_max_i != 2'd0) ? 2'd1 : 2'd0;
  end

  // ---- The visit ------------------------------------------------------------------------------------------
  logic            act, has, send, leave;
  acc_t            account, rest;
  logic [SumW-1:0] sum_q;

  assign account = acc_t'(acc_q[cur_vl]) + (added_q ? '0 : acc_t'({cur_q.weight, 6'd0}));
  assign rest    = account - acc_t'(bytes_i[cur_vl]);
  assign has     = valid_q && req_i[cur_vl];
  assign act     = step_i && valid_q && !wait_i[cur_vl] && jump == 2'd0 && !early && (has || !start_q);
  assign send    = take_i && act && has;
  assign leave   = act && (!has || account <= 0 || (send && rest <= 0));

  assign any_o    = any;
  assign start_o  = start_q && !early_q;
  assign ready_o  = has && !wait_i[cur_vl] && account > 0 && jump == 2'd0 && !early;
  assign vl_o     = cur_vl;
  assign begin_o  = early || (start_q && !early_q && (leave || send));
  assign jump_o   = jump;
  assign lap_o    = (leave && wraps) || (early_q && start_q && step_i && !valid_q && !some);
  assign visit_o  = !added_q && has && (leave || send);
  assign weight_o = cur_q.weight;
  assign leave_o  = leave;
  assign early_o  = early ? early_sum : '0;

  always_ff @(posedge clk_i) begin
    if (rst_i || clear_i) begin
      start_q <= 1'b1;
      valid_q <= 1'b0;
      added_q <= 1'b0;
      early_q <= 1'b0;
      skip_q  <= '0;
    end else begin
      if (early) begin
        early_q <= 1'b1;
        skip_q  <= owes;
      end else if (lap_o) begin
        early_q <= 1'b0;
        skip_q  <= '0;
      end
      if (leave) begin
        start_q <= wraps;
        added_q <= 1'b0;
      end else if (send) begin
        start_q <= 1'b0;
        added_q <= 1'b1;
      end
      if (early || (early_q && lap_o)) valid_q <= 1'b0;
      else if (search || leave) valid_q <= some;
      else if (start_q && !has && !wait_i[cur_vl]) valid_q <= 1'b0;
    end
    if (search || leave) begin
      cur_q   <= next_entry;
      later_q <= ~(next | (next - 1'b1));
    end
  end

  logic [2:0] jumped;   // 1, 4 or 16 laps: so many bits
  assign jumped = {jump == 2'd3, jump == 2'd2, 1'b0};

  // An account without a packet to send keeps its debt, never its gain.
  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_account
    always_ff @(posedge clk_i) begin
      if (rst_i || clear_i) acc_q[v] <= '0;
      else if (jump != 2'd0 || early) begin
        if (owes[v]) acc_q[v] <= acc_q[v] + AccW'({lap_q[v], 6'd0} << jumped);
      end else if (act && cur_vl == VlW'(v)) begin
        if (send) acc_q[v] <= rest;
        else if (has && account <= 0) acc_q[v] <= account;
        else if (!has && acc_t'(acc_q[v]) > 0) acc_q[v] <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) sum_q <= sum_of(back, weights_q);

  assign sum_o = sum_q;

endmodule
