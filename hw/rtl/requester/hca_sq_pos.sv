// Send position of every QP, and that of the QP that is served. The row read in one cycle is there in the next one
// (row_o); the emitter loads it, moves it, and writes it back. Takes NumQps cycles after reset to clear all rows;
// nothing may be written meanwhile.
module hca_sq_pos
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  output logic           scrub_o,
  input  logic           re_i,
  input  logic [QpW-1:0] qpn_i,
  input  logic           open_re_i, // otherwise: row_o for hca_sq_open
  input  logic [QpW-1:0] open_qpn_i,
  output sq_dyn_t        row_o,
  input  logic           load_i,    // row_o is the QP that is served from the next cycle on
  input  logic           redo_i,    // its position is redo_row_i from then on
  input  sq_dyn_t        redo_row_i,
  input  logic           begin_i,   // a WQE is begun, or goes on
  input  logic           bad_i,     // and is bad
  input  logic           sent_i,    // strobe: a packet of it is sent
  input  sq_pkt_t        pkt_i,
  input  logic           is_new_i,  // the first one ever
  input  sq_look_t       wqe_i,
  input  logic           we_i,      // strobe: the QP is served no more
  output sq_dyn_t        dyn_o,
  output wqe_idx_t       next_o     // index of the next WQE to be looked at
);

  logic [QpW-1:0] scrub_qpn_q, qpn_q;
  logic           unused_bits;

  assign unused_bits = ^{pkt_i, wqe_i};

  hca_ram_1r1w #(.Width($bits(sq_dyn_t)), .Depth(NumQps)) u_dyn (
    .clk_i,
    .we_i   (scrub_o || we_i),
    .waddr_i(scrub_o ? scrub_qpn_q : qpn_q),
    .wdata_i(scrub_o ? '0 : dyn_o),
    .re_i   (re_i || open_re_i),
    .raddr_i(re_i ? qpn_i : open_qpn_i),
    .rdata_o(row_o)
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

  // Behind begin_i the next WQE is the one behind this one.
  always_ff @(posedge clk_i) begin
    if (re_i) qpn_q <= qpn_i;
    if (load_i) {dyn_o, next_o} <= {row_o, row_o.wqe};
    if (redo_i) {dyn_o, next_o} <= {redo_row_i, redo_row_i.wqe};
    if (begin_i) next_o <= next_o + 1'b1;
    if (bad_i) dyn_o.err <= 1'b1;
    if (sent_i) begin
      dyn_o.psn      <= dyn_o.psn + pkt_i.psns;
      dyn_o.retx     <= 1'b0;
      dyn_o.offset   <= pkt_i.last ? '0 : dyn_o.offset + 32'(pkt_i.bytes);
      dyn_o.local_op <= wqe_i.local_op;
      if (is_new_i) dyn_o.started <= next_o;
      if (wqe_i.read) dyn_o.rd_issued <= dyn_o.rd_issued + 16'd1;
      if (pkt_i.last) dyn_o.wqe <= next_o;
    end
  end

endmodule
