// Proof of hca_vl_arb: how the two lists share the turns (that each list is fair inside its turns: fv_vl_list).
// Nothing is picked that does not ask. Policy `iba`: while low has a packet, high sends Limit x 64 packets at most
// (limit 0: one) between two of low; while high has one, low sends one at most between two of high; limit 255: low
// waits for high. Policy `round-quantum`: high begins a lap ahead of low only if its budget pays for it, and the
// budget grows through packets of low alone. In both the turn is never with a list that has nothing while the other
// has.
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
  input logic                                         take_i
);
  import hca_link_pkg::*;

  logic           rst_q = 1'b1;
  logic           pick_valid, round_quantum_q;
  logic [VlW-1:0] pick_vl;
  logic [7:0]     limit_q;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_vl_arb #(.NumVls(NumVls), .Entries(Entries)) u_dut (
    .clk_i, .rst_i(rst_q), .clear_i, .round_quantum_i, .limit_i, .mtu_i, .tbl_we_i, .tbl_low_i, .tbl_idx_i, .tbl_i,
    .req_i, .wait_i, .bytes_i, .pick_valid_o(pick_valid), .pick_vl_o(pick_vl), .take_i
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

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_vl
    always_comb m_bytes: assume (bytes_i[v] != '0);
  end

  always_comb begin
    m_mtu: assume (mtu_i >= 3'd1 && mtu_i <= 3'd5);
    if (!rst_q) begin
      m_take:   assume (!take_i || pick_valid);
      m_wait:   assume ((req_i & wait_i) == '0);
      m_policy: assume (limit_i == limit_q && round_quantum_i == round_quantum_q);
    end
  end

  always_comb begin
    if (!rst_q) begin
      a_asks:  assert (!pick_valid || (32'(pick_vl) < NumVls && req_i[pick_vl] && !wait_i[pick_vl]));
      a_turn:  assert (u_dut.use_high ? u_dut.high_any : (u_dut.low_any || !u_dut.high_any));
      a_one:   assert (!(u_dut.high_take && u_dut.low_take) && take_i == (u_dut.high_take || u_dut.low_take));
      if (!round_quantum_i && limit_i != 8'd255) begin
        if (u_dut.high_take && u_dut.low_any) a_low:  assert (high_run_q < bound);
        if (u_dut.low_take && u_dut.high_any) a_high: assert (!low_ran_q);
      end
      if (limit_i == 8'd255 && u_dut.low_take) a_unlimited: assert (!u_dut.high_any);
      if (round_quantum_i && limit_i != 8'd255 && u_dut.high_lap && u_dut.use_high && u_dut.low_any)
        a_budget: assert (u_dut.rich_1 || u_dut.low_done_q);

      h_run:   assert (high_run_q <= u_dut.used_q);
      h_ran:   assert (!low_ran_q || u_dut.used_q == '0);
      h_high:  assert (!u_dut.u_high.valid_q || 32'(u_dut.u_high.cur_q.vl) < NumVls);
      h_low:   assert (!u_dut.u_low.valid_q || 32'(u_dut.u_low.cur_q.vl) < NumVls);

      c_low:   cover (u_dut.low_take && high_run_q >= 16'd2);
      c_high:  cover (u_dut.high_take && low_ran_q);
      c_lap:   cover (round_quantum_i && u_dut.high_lap && u_dut.low_any && !u_dut.low_done_q);
    end
  end

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_table
    for (genvar e = 0; e < int'(Entries); e++) begin : gen_entry
      always_comb begin
        if (!rst_q && u_dut.u_high.mask_q[v][e]) h_high: assert (u_dut.u_high.mem[e][11:8] == 4'(v));
        if (!rst_q && u_dut.u_low.mask_q[v][e])  h_low:  assert (u_dut.u_low.mem[e][11:8] == 4'(v));
      end
    end
  end
endmodule
