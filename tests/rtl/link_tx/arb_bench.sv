// Drives hca_vl_arb for tests/rtl/link_tx/test_vl_arb.py: VLs that always have packets, a link that takes a beat per
// cycle and asks for the next packet while one leaves, and counters that are read once per measurement.
// Sizes of a VL: bytes_i plus random bits under spread_i. Window: from the first packet of mark_vl_i after arm_i to
// the last one so far.
module arb_bench
  import hca_link_pkg::*;
#(
  parameter int unsigned  NumVls = 8,
  localparam int unsigned VlW    = (NumVls > 1) ? $clog2(NumVls) : 1
) (
  output logic                    clk_o,
  input  logic                    rst_i,
  input  logic                    clear_i,
  input  logic                    round_quantum_i,
  input  logic [7:0]              limit_i,
  input  logic [2:0]              mtu_i,
  input  logic                    tbl_we_i,
  input  logic [6:0]              tbl_idx_i,        // bit 6: low list
  input  logic [3:0]              tbl_vl_i,
  input  logic [7:0]              tbl_weight_i,
  input  logic [NumVls-1:0]       active_i,         // VLs that have packets
  input  logic [NumVls-1:0][12:0] size_i,
  input  logic [12:0]             spread_i,
  input  logic                    paced_i,          // 1: a beat per cycle; 0: take whatever is picked
  input  logic                    arm_i,
  input  logic [VlW-1:0]          mark_vl_i,
  output logic                    pick_o,           // a decision in this cycle
  output logic [VlW-1:0]          pick_vl_o,
  output logic [12:0]             pick_bytes_o,
  output logic [NumVls-1:0][47:0] bytes_o,          // inside the window
  output logic [NumVls-1:0][31:0] packets_o,
  output logic [31:0]             idle_o            // cycles without a beat since arm_i, though a VL had packets
);

  // Its own clock: a clock that comes from Python costs more than the arbiter.
  logic clk_i = 1'b0;

  always #1 clk_i = !clk_i;

  assign clk_o = clk_i;

  logic [NumVls-1:0]       req, wait_q;
  logic [NumVls-1:0][12:0] bytes_q;
  logic [NumVls-1:0][BlocksW-1:0] blocks;
  logic [31:0]             lfsr_q;
  logic                    pick_valid, take, next_valid_q, armed_q, marked_q;
  logic [VlW-1:0]          pick_vl;
  logic [7:0]              beats_q, next_beats_q;

  assign req = active_i & ~wait_q;

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_blocks
    assign blocks[v] = blocks_of(bytes_q[v]);
  end

  hca_vl_arb #(
    .NumVls(NumVls)
  ) u_arb (
    .clk_i,
    .rst_i,
    .clear_i,
    .round_quantum_i,
    .limit_i,
    .mtu_i,
    .tbl_we_i,
    .tbl_low_i   (tbl_idx_i[6]),
    .tbl_idx_i   (tbl_idx_i[5:0]),
    .tbl_i       ({tbl_vl_i, tbl_weight_i}),
    .req_i       (req),
    .wait_i      (wait_q & active_i),
    .bytes_i     (bytes_q),
    .blocks_i    (blocks),
    .pick_valid_o(pick_valid),
    .pick_vl_o   (pick_vl),
    .pick_blocks_o(),
    .take_i      (take)
  );

  assign take         = pick_valid && (!paced_i || !next_valid_q);
  assign pick_o       = take;
  assign pick_vl_o    = pick_vl;
  assign pick_bytes_o = bytes_q[pick_vl];

  // The link: one packet on the wire, one that waits.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      next_valid_q <= 1'b0;
      beats_q      <= '0;
      idle_o       <= '0;
    end else begin
      if (beats_q <= 8'd1) begin
        beats_q      <= next_valid_q ? next_beats_q : 8'd0;
        next_valid_q <= 1'b0;
      end else begin
        beats_q <= beats_q - 8'd1;
      end
      if (take && paced_i) begin
        next_valid_q <= 1'b1;
        next_beats_q <= blocks_of(bytes_q[pick_vl]);
      end
      if (arm_i) idle_o <= '0;
      else if (beats_q == 8'd0 && active_i != '0) idle_o <= idle_o + 1'b1;
    end
  end

  // The VLs. A new length is known with the packet, one cycle after the last one was taken.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wait_q  <= '1;
      lfsr_q  <= 32'h1234_5678;
      bytes_q <= '0;
    end else begin
      lfsr_q <= {lfsr_q[30:0], lfsr_q[31] ^ lfsr_q[21] ^ lfsr_q[1] ^ lfsr_q[0]};
      wait_q <= '0;
      if (take) wait_q[pick_vl] <= 1'b1;
      for (int unsigned v = 0; v < NumVls; v++) begin
        if (wait_q[v]) bytes_q[v] <= size_i[v] + ((lfsr_q[12:0] ^ lfsr_q[24:12]) & spread_i);
      end
    end
  end

  // Counters: what came since the window opened, latched at each packet of the marked VL.
  logic [NumVls-1:0][47:0] bytes_sum_q;
  logic [NumVls-1:0][31:0] packets_sum_q;

  always_ff @(posedge clk_i) begin
    if (rst_i || arm_i) begin
      armed_q       <= arm_i;
      marked_q      <= 1'b0;
      bytes_sum_q   <= '0;
      packets_sum_q <= '0;
      bytes_o       <= '0;
      packets_o     <= '0;
    end else if (take && armed_q) begin
      if (pick_vl == mark_vl_i) begin
        marked_q  <= 1'b1;
        bytes_o   <= bytes_sum_q;
        packets_o <= packets_sum_q;
      end
      if (marked_q || pick_vl == mark_vl_i) begin
        bytes_sum_q[pick_vl]   <= bytes_sum_q[pick_vl] + 48'(bytes_q[pick_vl]);
        packets_sum_q[pick_vl] <= packets_sum_q[pick_vl] + 1'b1;
      end
    end
  end

endmodule
