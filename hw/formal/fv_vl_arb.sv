// Proof of hca_vl_arb: how the two lists share the turns (that each list is fair inside its turns: fv_vl_list).
// Nothing is picked that does not ask. Policy `iba`: while low has a packet, high sends Limit x 64 packets at most
// (limit 0: one) between two of low; while high has one, low sends one at most between two of high; limit 255: low
// waits for high. Policy `round-quantum`: high begins a lap ahead of low only if its budget pays for it, and the
// budget grows through packets of low alone; so a low that waits gets the turn after as many laps as the budget had
// units, and 17 more (the round's free lap; and 16 jumped ones while the weights of high are not summed yet). In both
// the turn is never with a list that has nothing while the other has.
module fv_vl_arb #(
  parameter int unsigned NumVls  = 2,
  parameter int unsigned Entries = 2,
  localparam int unsigned VlW    = (NumVls > 1) ? $clog2(NumVls) : 1,
  localparam int unsigned EntryW = $clog2(Entries)
) (
  input logic                                         clk_i,
  input logic                                         clear_i,
  input logic                                         round_quantum_i,
  input logic [7:0]                                   limit_i,
  input logic [2:0]                                   mtu_i,
  input logic                                         tbl_we_i,
  input logic                                         tbl_low_i,
  input logic [EntryW-1:0]                            tbl_idx_i,
  input hca_link_pkg::vl_entry_t                      tbl_i,
  input logic [NumVls-1:0]                            req_i,
  input logic [NumVls-1:0]                            wait_i,
  input logic [NumVls-1:0][hca_link_pkg::PacketW-1:0] bytes_i,
  input logic [NumVls-1:0][hca_link_pkg::BlocksW-1:0] blocks_i,
  input logic                                         take_i
);
  import hca_link_pkg::*;

  logic           rst_q = 1'b1;
  logic           pick_valid, round_quantum_q;
  logic [BlocksW-1:0] pick_blocks;
  logic [VlW-1:0] pick_vl;
  logic [NumVls-1:0] pick;
  logic [7:0]     limit_q;

  logic           tbl_q = 1'b1;   // what follows from the table is a cycle behind it

  always_ff @(posedge clk_i) begin
    rst_q <= 1'b0;
    tbl_q <= rst_q || u_dut.u_high.we_q || u_dut.u_low.we_q;
  end

  hca_vl_arb #(.NumVls(NumVls), .Entries(Entries)) u_dut (
    .clk_i, .rst_i(rst_q), .clear_i, .round_quantum_i, .limit_i, .mtu_i, .tbl_we_i, .tbl_low_i, .tbl_idx_i, .tbl_i,
    .req_i, .wait_i, .bytes_i, .blocks_i, .pick_valid_o(pick_valid), .pick_o(pick), .pick_vl_o(pick_vl),
    .pick_blocks_o(pick_blocks), .take_i
  );

  // Packets of high since the last one of low; of low since the last one of high.
  logic [15:0] high_run_q;
  logic        low_ran_q;
  logic [15:0] bound;

  assign bound = (limit_i == 8'd0) ? 16'd1 : {2'd0, limit_i, 6'd0};

  always_ff @(posedge clk_i) begin
    limit_q         <= limit_i;
    round_quantum_q <= round_quantum_i;
    if (rst_q || clear_i || u_dut.low_take) high_run_q <= '0;
    else if (u_dut.high_take && !high_run_q[15]) high_run_q <= high_run_q + 16'd1;
    if (rst_q || clear_i || u_dut.high_take) low_ran_q <= 1'b0;
    else if (u_dut.low_take) low_ran_q <= 1'b1;
  end

  localparam int unsigned BudgetW = 15 + 8 + EntryW;

  // Laps of high, a jump with all of its laps, while low waits without a turn; the budget that low left it; whether one
  // of these laps opened a round.
  logic        waits, begun_q, fresh_q;
  logic [31:0] laps_q;
  logic signed [31:0] budget, granted, granted_q;
  logic [4:0]  lap_units;
  logic [1:0]  high_jump;

  assign waits     = !tbl_q && u_dut.high_any && u_dut.low_any && !u_dut.u_low.step_i && u_dut.low_jump == 2'd0 &&
                     !u_dut.releases;
  assign budget    = 32'(u_dut.budget_q);
  assign granted   = begun_q ? granted_q : budget;
  assign high_jump = u_dut.u_high.jump;
  assign lap_units = (high_jump == 2'd0) ? 5'(u_dut.u_high.begin_o) : 5'd1 << {high_jump - 2'd1, 1'b0};

  always_ff @(posedge clk_i) begin
    granted_q <= granted;
    if (rst_q || clear_i || !waits) begin
      begun_q <= 1'b0;
      fresh_q <= 1'b0;
      laps_q  <= '0;
    end else begin
      begun_q <= 1'b1;
      if (u_dut.high_lap) laps_q <= laps_q + 32'(lap_units);
      if (u_dut.high_lap && u_dut.fresh) fresh_q <= 1'b1;
    end
  end

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_vl
    always_comb begin
      m_bytes:  assume (bytes_i[v] != '0);
      m_blocks: assume (blocks_i[v] == blocks_of(bytes_i[v]));
    end
  end

  always_comb begin
    m_mtu: assume (mtu_i >= 3'd1 && mtu_i <= 3'd5);
    if (!rst_q) begin
      m_wait:   assume ((req_i & wait_i) == '0);
      m_policy: assume (limit_i == limit_q && round_quantum_i == round_quantum_q);
    end
  end

  always_comb begin
    if (!rst_q) begin
      a_asks:  assert (!pick_valid || (32'(pick_vl) < NumVls && req_i[pick_vl] && !wait_i[pick_vl]));
      a_bits:  assert (pick == (pick_valid ? NumVls'(1) << pick_vl : '0));
      a_blocks: assert (!pick_valid || pick_blocks == blocks_of(bytes_i[pick_vl]));
      a_turn:  assert (u_dut.use_high ? u_dut.high_any : (u_dut.low_any || !u_dut.high_any));
      a_one:   assert (!(u_dut.high_take && u_dut.low_take) &&
                       (take_i && pick_valid) == (u_dut.high_take || u_dut.low_take));
      if (!round_quantum_i && limit_i != 8'd255) begin
        if (u_dut.high_take && u_dut.low_any) a_low:  assert (high_run_q < bound);
        if (u_dut.low_take && u_dut.high_any) a_high: assert (!low_ran_q);
      end
      if (limit_i == 8'd255 && u_dut.low_take) a_unlimited: assert (!u_dut.high_any);
      if (round_quantum_i && limit_i != 8'd255 && u_dut.high_lap && u_dut.use_high && u_dut.low_any)
        a_budget: assert (u_dut.rich_1 || u_dut.low_done_q);

      h_limit: assert (u_dut.unlimited_q == (limit_i == 8'd255) && u_dut.limit_0_q == (limit_i == 8'd0));
      h_begin: assert (begun_q || (laps_q == '0 && !fresh_q));
      h_range: assert (!begun_q || granted_q == 32'(signed'(granted_q[BudgetW-1:0])));
      if (round_quantum_i && limit_i != 8'd255) begin
        h_small: assert (!laps_q[31]);
        a_turn_comes: assert (signed'(laps_q) <= ((granted > 0) ? granted : 32'sd0) + 32'sd17);
        h_sum:   assert (!begun_q || u_dut.high_sum != '0);
        h_paid:  assert (fresh_q || signed'(laps_q) <= granted - budget + (begun_q ? 32'sd16 : 32'sd0));
        h_rich:  assert (fresh_q || !begun_q || laps_q == '0 || budget >= 0);
        h_fresh: assert (!fresh_q || (budget <= 0 && !u_dut.low_done_q));
      end
      h_allowed: assert (u_dut.allowed_q
                         == ((limit_i == 8'd0) ? u_dut.used_q == '0 : u_dut.used_q[15:6] < {2'd0, limit_i}));
      h_used:  assert (u_dut.used_q <= 16'd32767 + 16'd127);
      h_run:   assert (high_run_q <= u_dut.used_q);
      h_ran:   assert (!low_ran_q || u_dut.used_q == '0);
      h_high:  assert (!u_dut.u_high.valid_q || 32'(u_dut.u_high.cur_vl_q) < NumVls);
      h_low:   assert (!u_dut.u_low.valid_q || 32'(u_dut.u_low.cur_vl_q) < NumVls);

      c_low:   cover (u_dut.low_take && high_run_q >= 16'd2);
      c_high:  cover (u_dut.high_take && low_ran_q);
      c_lap:   cover (round_quantum_i && u_dut.high_lap && u_dut.low_any && !u_dut.low_done_q);
    end
  end

  // The tables' RAMs. What the search sees beside them is the same, where there is an entry.
  vl_entry_t [Entries-1:0] high_entry, low_entry;

  for (genvar e = 0; e < int'(Entries); e++) begin : gen_table_entry
    assign high_entry[e] = vl_entry_t'(u_dut.u_high.mem[e]);
    assign low_entry[e]  = vl_entry_t'(u_dut.u_low.mem[e]);
  end
  always_comb begin
    if (!rst_q) h_k: assert (u_dut.k_q <= 15'd4080);
    if (!rst_q && u_dut.u_high.we_q) begin
      h_old_on: assert (u_dut.u_high.old_on_q == u_dut.u_high.on_q[u_dut.u_high.write_q]);
      h_old:    assert (u_dut.u_high.old_q == high_entry[u_dut.u_high.write_q]);
    end
  end

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_table
    logic [15:0] sum;

    always_comb begin
      sum = '0;
      for (int unsigned e = 0; e < Entries; e++) begin
        if (u_dut.u_high.on_q[e] && 32'(u_dut.u_high.entry_q[e][VlW-1:0]) == v) sum = sum + 16'(high_entry[e].weight);
      end
      if (!rst_q) h_weights: assert (16'(u_dut.u_high.weights_q[v]) == sum);
      if (!rst_q && !tbl_q) h_listed: assert (u_dut.u_high.listed_q[v] == (u_dut.u_high.weights_q[v] != '0));
    end
  end

  for (genvar e = 0; e < int'(Entries); e++) begin : gen_entry
    always_comb begin
      if (!rst_q && u_dut.u_high.on_q[e])
        h_high: assert (32'(u_dut.u_high.entry_q[e][VlW-1:0]) < NumVls && high_entry[e].weight != '0 &&
                        u_dut.u_high.entry_q[e] == {high_entry[e].weight, high_entry[e].vl[VlW-1:0]} &&
                        high_entry[e].vl == 4'(u_dut.u_high.entry_q[e][VlW-1:0]));
      if (!rst_q && u_dut.u_low.on_q[e])
        h_low: assert (32'(u_dut.u_low.entry_q[e][VlW-1:0]) < NumVls &&
                       low_entry[e].vl == 4'(u_dut.u_low.entry_q[e][VlW-1:0]));
    end
  end
endmodule
