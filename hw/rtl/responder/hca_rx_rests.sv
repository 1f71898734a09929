// Which QPs have nothing to do, so that hca_lines need not ask hca_rx_ctrl about each holder of a line. A bit for each
// line, made of the state that a job writes; a doorbell clears it. What READs have been answered is not told here: of a
// QP that waits for nothing else hca_rx_ctrl has to be asked (`ask`).
// Only a hint: hca_rx_ctrl judges when the line changes hands, and is asked about a holder that is never done.
//
// Ordering: a doorbell beside a job of its QP, which the job has not seen, wins. A doorbell is seen by who looks behind
// it; the end of a job two cycles later, three beside a doorbell.
// Timing: a state at most every other cycle. hint_o is of line_i a cycle ago.
module hca_rx_rests
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           pick_i,    // a job begins: the producer index is read
  input  logic           we_i,      // it ends, QP qpn_i: with these
  input  logic [QpW-1:0] qpn_i,
  input  rx_ctx_t        ctx_i,
  input  rx_st_t         st_i,
  input  wqe_idx_t       sq_pi_i,
  input  logic [5:0]     popped_i,
  input  logic           db_i,      // a doorbell of a send queue is taken
  input  logic [QpW-1:0] db_qpn_i,
  input  logic [QpW-1:0] line_i,
  output line_hint_t     hint_o
);

  logic           db_q, new_q, rung_q, missed_q, hits, hits_new;
  logic [QpW-1:0] db_qpn_q, qpn_q;
  rx_ctx_t        ctx_q;
  rx_st_t         st_q;
  wqe_idx_t       sq_pi_q;
  logic [5:0]     popped_q;
  line_hint_t     hint;

  // A doorbell of the cycle of the pick is not in what the job reads.
  assign hits     = db_q && db_qpn_q == qpn_i;
  assign hits_new = db_q && db_qpn_q == qpn_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) {db_q, new_q} <= '0;
    else begin
      db_q  <= db_i;
      new_q <= we_i || (new_q && db_i);
    end
    if (db_i) db_qpn_q <= db_qpn_i;
    rung_q   <= !pick_i && (rung_q || hits);
    missed_q <= we_i ? rung_q || hits : missed_q || hits_new;
    if (we_i) {qpn_q, ctx_q, st_q, sq_pi_q, popped_q} <= {qpn_i, ctx_i, st_i, sq_pi_i, popped_i};
  end

  always_comb begin
    hint.rests = is_quiet(ctx_q, st_q, sq_pi_q, popped_q);
    hint.ask   = is_quiet(ctx_q, st_q, sq_pi_q, st_q.resp.rd_pushed);
    if (db_i || missed_q || hits_new) hint = '0;
  end

  hca_ram_1r1w #(
    .Width($bits(line_hint_t)),
    .Depth(NumQps)
  ) u_hints (
    .clk_i,
    .we_i   (db_i || new_q),
    .waddr_i(db_i ? db_qpn_i : qpn_q),
    .wdata_i(hint),
    .re_i   (1'b1),
    .raddr_i(line_i),
    .rdata_o(hint_o)
  );

  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!(we_i && new_q && db_i)) else $error("hca_rx_rests: the end of a job is lost");
  end
  `endif

endmodule
