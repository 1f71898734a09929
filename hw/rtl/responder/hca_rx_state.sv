// What a job of hca_rx_ctrl makes of the state of its QP: combinational. At most one of the first six is set; none: a
// message of hca_rx_exec or of hca_mw.
module hca_rx_state
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic     looks_i,       // the expected request is asked for again
  input  logic     writes_i,      // qpc_wr_i
  input  logic     resp_i,        // a request
  input  logic     ack_i,         // an answer, or another job of the acknowledge unit
  input  logic     flush_i,       // a WQE is over
  input  logic     tell_i,        // credits
  input  rx_st_t   st_i,
  input  rx_ctx_t  ctx_i,
  input  qpc_wr_t  qpc_wr_i,
  input  hw_mark_t mark_i,
  input  logic     goes_on_i,     // of a context write: the send queue does, behind its error;
  input  logic     leaves_i,      // a slot of an SRQ is lost
  input  resp_st_t resp_new_i,
  input  logic     resp_dead_i,
  input  ack_st_t  ack_new_i,
  input  logic     ack_dead_i,
  input  logic     flush_sq_i,
  input  wqe_idx_t flush_idx_i,
  input  logic     dry_i,
  input  rx_msg_t  msg_i,
  input  logic     is_inv_i,      // it is of a key that was to be invalidated: inv_st_i
  input  rx_st_t   inv_st_i,
  output rx_st_t   st_o
);

  logic     restores, begins_rq, begins_sq;
  rx_st_t   changed, restored;
  resp_st_t begun_resp;
  ack_st_t  begun_ack;

  assign restores   = writes_i && qpc_wr_i.qpc.restores;
  assign begins_rq  = writes_i && !qpc_wr_i.qpc.restores && qpc_wr_i.init_rq;
  assign begins_sq  = writes_i && !qpc_wr_i.qpc.restores && qpc_wr_i.init_sq;
  assign restored   = st_restored(qpc_wr_i.qpc);
  assign begun_resp = resp_init(qpc_wr_i.qpc.rq_psn);
  assign begun_ack  = ack_init(qpc_wr_i.qpc);

  // Single fields. What the units make is below.
  always_comb begin
    changed = st_i;
    if (looks_i) {changed.resp.nak_sent, changed.resp.nak_all} = '1;
    else if (writes_i) changed = st_written(st_i, ctx_i, qpc_wr_i, mark_i, goes_on_i, leaves_i);
    else if (resp_i) begin
      changed.dead    = st_i.dead || resp_dead_i;
      changed.sq_dead = st_i.sq_dead || resp_dead_i;
    end else if (ack_i) begin
      changed.dead    = st_i.dead || (ack_dead_i && ctx_i.is_rc);
      changed.sq_dead = ack_dead_i;
    end else if (flush_i) begin
      changed.dead    = st_i.dead || !ctx_i.is_sqe;
      changed.sq_dead = 1'b1;
      if (flush_sq_i) changed.ack.una_wqe = flush_idx_i;
      else changed.resp.rq_ci = flush_idx_i;
    end else if (tell_i) changed.resp.ran_dry = dry_i;
    else changed = is_inv_i ? inv_st_i : st_refused(st_i, msg_i, ctx_i);
  end

  // Which one counts is known early and in bits of its own: a LUT then makes one bit of five hundred, of what it was,
  // what its side's unit makes of it, and what a context write brings.
  always_comb begin
    st_o.resp = (changed.resp & {$bits(resp_st_t){!resp_i && !restores && !begins_rq}})
                | (resp_new_i & {$bits(resp_st_t){resp_i}})
                | (restored.resp & {$bits(resp_st_t){restores}})
                | (begun_resp & {$bits(resp_st_t){begins_rq}});
    st_o.ack  = (changed.ack & {$bits(ack_st_t){!ack_i && !restores && !begins_sq}})
                | (ack_new_i & {$bits(ack_st_t){ack_i}})
                | (restored.ack & {$bits(ack_st_t){restores}})
                | (begun_ack & {$bits(ack_st_t){begins_sq}});
    st_o.dead    = restores ? restored.dead : changed.dead && !begins_rq;
    st_o.sq_dead = restores ? restored.sq_dead : changed.sq_dead && !begins_rq;
    if (writes_i && qpc_wr_i.qpc.asks_again) {st_o.resp.nak_sent, st_o.resp.nak_all} = '1;
  end

endmodule
