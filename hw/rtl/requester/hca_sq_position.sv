// Where each QP's sending stands between two turns of the emitter. Cleared after reset, one QP per cycle: scrub_o.
module hca_sq_position
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  output logic           scrub_o,
  input  logic           we_i,
  input  logic [QpW-1:0] qpn_i,
  input  sq_dyn_t        dyn_i,
  input  logic           re_i,
  input  logic [QpW-1:0] rqpn_i,
  output sq_dyn_t        dyn_o    // next cycle, held
);

  logic           scrub_q;
  logic [QpW-1:0] scrub_qpn_q;

  assign scrub_o = scrub_q;

  hca_ram_1r1w #(.Width($bits(sq_dyn_t)), .Depth(NumQps)) u_dyn (
    .clk_i,
    .we_i   (scrub_q || we_i),
    .waddr_i(scrub_q ? scrub_qpn_q : qpn_i),
    .wdata_i(scrub_q ? '0 : dyn_i),
    .re_i   (re_i),
    .raddr_i(rqpn_i),
    .rdata_o(dyn_o)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      scrub_q     <= 1'b1;
      scrub_qpn_q <= '0;
    end else begin
      scrub_qpn_q <= scrub_qpn_q + QpW'(scrub_q);
      if (scrub_qpn_q == QpW'(NumQps - 1)) scrub_q <= 1'b0;
    end
  end

endmodule
