// Proof of hca_vl_list, one list of the VL arbitration table. Only a VL that asks and has a weight is offered.
// Fair: a VL (any, chosen by the solver) with a weight that keeps asking is served within MaxLaps laps, whatever it
// owes and whatever the others do; a lap visits each entry once at most, a visit begins no packet after 255 blocks,
// and the list stands still for IdleMax cycles at most while it has the turn. So the grants of others in between
// are bounded. Accounts stay in bounds: a debt is less than the longest packet, a gain exists inside a visit alone.
module fv_vl_list #(
  parameter int unsigned NumVls  = 2,
  parameter int unsigned Entries = 4,
  parameter int unsigned IdleMax = 4,
  parameter bit          Table   = 1'b0,  // 1: proves that the sums of weights are right; 0: takes that from there
  localparam int unsigned VlW    = (NumVls > 1) ? $clog2(NumVls) : 1,
  localparam int unsigned EntryW = $clog2(Entries),
  localparam int unsigned SumW   = 8 + EntryW
) (
  input logic                                           clk_i,
  input logic                                           clear_i,
  input logic                                           tbl_we_i,
  input logic [EntryW-1:0]                              tbl_idx_i,
  input hca_link_pkg::vl_entry_t                        tbl_i,
  input logic [NumVls-1:0]                              req_i,
  input logic [NumVls-1:0]                              wait_i,
  input logic [NumVls-1:0][hca_link_pkg::PacketW-1:0]   bytes_i,
  input logic                                           step_i,
  input logic [1:0]                                     laps_max_i,
  input logic                                           take_i
);
  import hca_link_pkg::*;

  // The longest debt, 8190 bytes, is paid with 64 bytes or more a lap; and the lap in which the VL began to ask.
  localparam int unsigned MaxLaps = 128;

  logic              rst_q = 1'b1;
  logic              ready, take, start, lap, any, asking, unused;
  logic [VlW-1:0]    vl, watched_q;
  logic [1:0]        jump;
  logic              first, visit, leave;
  logic [NumVls-1:0] wait_q, req_q, taken_q;
  logic              step_q;
  logic              tbl_q = 1'b1;   // what follows from the table is a cycle behind it
  logic [EntryW:0]   ahead;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_vl_list #(.NumVls(NumVls), .Entries(Entries)) u_dut (
    .clk_i, .rst_i(rst_q), .clear_i, .tbl_we_i, .tbl_idx_i, .tbl_i, .req_i, .wait_i, .bytes_i, .step_i,
    .lap_only_i(1'b0), .laps_max_i, .take_i, .any_o(any), .start_o(start), .ready_o(ready), .could_o(),
    .offer_o(), .ahead_o(), .vl_o(vl), .bytes_o(), .begin_o(), .lap_if_o(), .jump_if_o(),
    .jump_o(jump), .laps_o(), .lap_o(lap), .first_o(), .visit_o(first), .weight_o(),
    .leave_o(leave), .early_o(), .early_sum_o(), .sum_o()
  );

  assign unused = ^{start, any};
  assign take   = take_i && step_i && ready;
  assign visit  = first && (leave || take);

  // ---- What the list may rely on --------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    wait_q    <= rst_q ? '0 : wait_i;
    req_q     <= rst_q ? '0 : req_i;
    step_q    <= !rst_q && step_i;
    tbl_q     <= rst_q || u_dut.we_q;
    taken_q   <= '0;
    if (!rst_q && take) taken_q[vl] <= 1'b1;
  end

  always_comb begin
    m_vl: assume (32'(watched_q) < NumVls);
    if (!rst_q) begin
      m_wait: assume ((req_i & wait_i) == '0 && (wait_i & wait_q) == '0);
      // Who has the turn takes: then a VL is in doubt only behind its own packet.
      if (step_q) m_doubt: assume ((wait_i & ~taken_q) == '0);
      m_keep: assume ((req_q & ~taken_q & ~req_i) == '0);
      m_tbl:  assume (!(u_dut.we_q && asking));
    end
  end

  // ---- The watched VL ----------------------------------------------------------------------------------------
  logic        asked_q;   // the search knows that it asks
  logic        full_q, given_q, skips, idle;
  logic [8:0]  laps_q;
  logic [2:0]  idle_q;
  logic [4:0]  jumped;
  logic [14:0] sent_q;    // bytes of this visit

  assign asking = req_i[watched_q] && u_dut.weights_q[watched_q] != '0 && !clear_i && !tbl_q;
  assign jumped = (jump == 2'd0) ? 5'd0 : 5'd1 << {jump - 2'd1, 1'b0};
  assign skips  = u_dut.early_q && u_dut.skip_q[watched_q];
  assign idle   = step_i && !u_dut.act && jump == 2'd0 && !u_dut.early && !lap;

  always_ff @(posedge clk_i) begin
    asked_q <= asking;
    if (rst_q || !asking || (take && vl == watched_q)) begin
      full_q  <= 1'b0;
      given_q <= 1'b0;
      laps_q  <= '0;
      idle_q  <= '0;
    end else begin
      if (lap && asked_q) full_q <= 1'b1;
      if (lap) given_q <= 1'b0;
      else if (visit && vl == watched_q) given_q <= 1'b1;
      else if (u_dut.early && u_dut.owes[watched_q]) given_q <= 1'b1;
      laps_q <= laps_q + 9'(lap && full_q) + 9'(jumped);
      idle_q <= idle ? idle_q + 3'd1 : '0;
    end
    if (rst_q || clear_i || leave) sent_q <= '0;
    else if (take) sent_q <= sent_q + 15'(bytes_i[vl]);
  end

  // What a lap goes on to: an entry behind the one before it. Those behind an entry say which one it is.
  logic               went_on_q;
  logic [Entries-1:0] later, later_was_q, taken_up;

  for (genvar e = 0; e < int'(Entries); e++) begin : gen_later
    assign later[e] = u_dut.behind_q[e];
  end
  assign taken_up = ~later & Entries'({1'b1, later} >> 1);

  always_ff @(posedge clk_i) begin
    went_on_q   <= !rst_q && leave && !lap;
    later_was_q <= later;
  end

  // ---- Accounts as numbers with a sign ------------------------------------------------------------------------
  // The table's RAM. What the search sees beside it is the same, where there is an entry.
  vl_entry_t [Entries-1:0] entry;
  vl_entry_t               cur;    // the one in hand, until it is in the account

  assign cur = {4'(u_dut.cur_vl_q), u_dut.cur_weight_q};

  for (genvar e = 0; e < int'(Entries); e++) begin : gen_table_entry
    assign entry[e] = vl_entry_t'(u_dut.mem[e]);
  end
  always_comb begin
    if (!rst_q && u_dut.we_q) begin
      h_old_on: assert (u_dut.old_on_q == u_dut.on_q[u_dut.write_q]);
      h_old:    assert (u_dut.old_q == entry[u_dut.write_q]);
    end
  end

  logic signed [17:0] account [NumVls];
  logic signed [17:0] own;
  logic [NumVls-1:0][Entries-1:0] mask;   // entries of each VL

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_vl
    assign account[v] = 18'($signed(u_dut.acc_q[v])) + 18'sd1;   // kept is one less

    always_comb begin
      m_bytes: assume (bytes_i[v] != '0);
      if (!rst_q) begin
        if (!Table) a_debt: assert (account[v] > -18'sd8191);
        if (!Table) a_gain: assert (account[v] <= ((u_dut.added_q && u_dut.cur_vl_q == VlW'(v)) ? 18'sd16320 : 18'sd0));
      end
    end

    logic [SumW-1:0] sum [Entries + 1];
    assign sum[0] = '0;
    for (genvar e = 0; e < int'(Entries); e++) begin : gen_entry
      assign sum[e + 1] = sum[e] + (mask[v][e] ? SumW'(entry[e].weight) : '0);
      assign mask[v][e]  = u_dut.on_q[e] && 32'(u_dut.entry_q[e][VlW-1:0]) == v;
      always_comb begin
        if (!rst_q && !Table && idle_q >= 3'd2 && u_dut.ok_q[e] &&
            32'(u_dut.entry_q[e][VlW-1:0]) == v) h_asks: assert (req_i[v]);
        if (!rst_q && !Table && went_on_q && !tbl_q && taken_up[e]) a_entry: assert (cur == entry[e]);
        if (!rst_q && mask[v][e]) 
          h_entry: assert (entry[e].vl == 4'(v) && entry[e].weight != '0 &&
                           u_dut.entry_q[e][VlW +: 8] == entry[e].weight);
      end
    end
    logic [SumW-1:0] weights;
    logic [7:0]      clipped;
    assign weights = u_dut.weights_q[v];
    assign clipped = (weights > SumW'(255)) ? 8'd255 : weights[7:0];
    always_comb begin
      if (!rst_q) h_lap: assert (!u_dut.listed_q[v] || u_dut.lap_q[v] != '0);
      if (!rst_q && !tbl_q) h_behind: assert (u_dut.listed_q[v] == (weights != '0) && u_dut.lap_q[v] == clipped);
    end
    if (Table) begin : gen_table
      always_comb if (!rst_q) a_sum: assert (u_dut.weights_q[v] == sum[Entries]);
    end else begin : gen_no_table
      always_comb if (!rst_q) l_sum: assume ((u_dut.weights_q[v] == '0) == (mask[v] == '0));
    end
  end

  assign own = account[watched_q];

  always_comb begin
    ahead = '0;
    for (int unsigned e = 0; e < Entries; e++) ahead = ahead + (EntryW + 1)'(later[e]);
  end

  always_comb begin
    if (!rst_q && !Table) begin
      // Never to one that does not ask, is not known to ask or has no place in the table.
      a_asks:   assert (!ready || (32'(vl) < NumVls && req_i[vl] && !wait_i[vl]));
      a_weight: assert (!ready || u_dut.added_q || cur.weight != '0);
      a_laps:   assert (32'(laps_q) <= MaxLaps);
      a_idle:   assert (32'(idle_q) <= IdleMax);
      a_visit:  assert (32'(sent_q) <= 16320 + 8191 && (!take || 32'(sent_q) < 16320));
      a_order:  assert (!leave || lap || ((u_dut.behind_next & ~later) == '0 && u_dut.behind_next != later));
      a_behind: assert (!went_on_q || ($onehot(taken_up) && (taken_up & later_was_q) != '0));

      h_valid:  assert (!u_dut.valid_q || (32'(cur.vl) < NumVls && (u_dut.added_q || cur.weight != '0)));
      h_zero:   assert (!u_dut.added_q || u_dut.cur_weight_q == '0);
      h_mask:   assert (!u_dut.valid_q || ((later << 1) & ~later) == '0);
      h_added:  assert (!u_dut.added_q || (u_dut.valid && !u_dut.start_q));
      h_hand:   assert (u_dut.start_q || u_dut.valid);
      h_sent:   assert (u_dut.added_q ? (18'(sent_q) + account[u_dut.cur_vl_q] <= 18'sd16320) : sent_q == '0);
      if (u_dut.added_q) h_more: assert (account[u_dut.cur_vl_q] > 18'sd0);
      // Each lap counted has paid 64 bytes or more.
      h_paid:   assert (own + 18'sd8190 >= $signed({3'd0, 15'({laps_q, 6'd0})} + (given_q ? 18'd64 : 18'd0)));
      // A whole lap has an entry of the watched VL in front of it until it was given.
      if (full_q && !given_q)
        h_ahead: assert ((u_dut.start_q && !u_dut.valid) || (later & mask[watched_q]) != '0 ||
                         (u_dut.valid && u_dut.cur_vl_q == watched_q && !u_dut.added_q));
      if (idle_q != '0) h_idle: assert (step_q && taken_q == '0 && (wait_i == '0));
      // One that was in doubt may have been found; the next search knows.
      if (idle_q != '0) h_told: assert (!u_dut.stale_q);
      if (idle_q == 3'd3) h_idle_3: assert (!u_dut.valid || u_dut.has);
      if (idle_q == 3'd4) h_idle_4: assert (u_dut.valid && u_dut.has);
      // What the search sees: entries of the table, all of the watched VL among them.
      h_on:     assert ((u_dut.ok_q & ~u_dut.on_q) == '0);
      h_asked:  assert (asked_q || (!full_q && idle_q == '0));
      if (asked_q && !u_dut.stale_q && !skips)
        h_seen: assert ((mask[watched_q] & ~u_dut.ok_q) == '0);
      h_stale:  assert (!u_dut.stale_q || u_dut.start_q);
      h_given:  assert (!(full_q && !given_q && skips));

      c_lap:    cover (full_q && laps_q == 9'd2);
      c_jump:   cover (laps_q >= 9'd16);
      c_sent:   cover (take && sent_q != '0 && asking && vl != watched_q);
      c_idle:   cover (32'(idle_q) == 2);
    end
  end
endmodule
