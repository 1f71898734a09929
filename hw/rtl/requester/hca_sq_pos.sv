// Send position of every QP. The row read in one cycle is there in the next one. Takes NumQps cycles after reset to
// clear all rows; nothing may be written meanwhile.
module hca_sq_pos
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  output logic           scrub_o,
  input  logic           we_i,
  input  logic [QpW-1:0] wr_qpn_i,
  input  sq_dyn_t        wr_i,
  input  logic           re_i,
  input  logic [QpW-1:0] rd_qpn_i,
  output sq_dyn_t        rd_o
);

  logic [QpW-1:0] scrub_qpn_q;

  hca_ram_1r1w #(.Width($bits(sq_dyn_t)), .Depth(NumQps)) u_dyn (
    .clk_i,
    .we_i   (scrub_o || we_i),
    .waddr_i(scrub_o ? scrub_qpn_q : wr_qpn_i),
    .wdata_i(scrub_o ? '0 : wr_i),
    .re_i,
    .raddr_i(rd_qpn_i),
    .rdata_o(rd_o)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      scrub_o     <= 1'b1;
      scrub_qpn_q <= '0;
    end else begin
      scrub_qpn_q <= scrub_qpn_q + QpW'(scrub_o);
      if (scrub_qpn_q == QpW'(NumQps - 1)) scrub_o <= 1'b0;
    end
  end

endmodule
