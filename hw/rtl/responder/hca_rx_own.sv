// Items of hca_rx_ctrl that neither a request nor an answer makes: a packet that was dropped, a flushed WQE, a receive
// WQE that failed, the slot of an SRQ that a QP still held when it left, and what the peer is told without being asked.
module hca_rx_own
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic           drops_i,     // pkt_i
  input  logic           flushes_i,   // WQE flush_idx_i of the send queue (flush_sq_i) or the receive queue
  input  logic           flush_sq_i,
  input  wqe_idx_t       flush_idx_i,
  input  logic           leaves_i,    // it still held a slot
  input  logic           asks_i,      // for the request that is expected
  input  logic           tells_i,     // of credits_i
  input  logic [4:0]     credits_i,
  input  resp_st_t       st_i,
  input  logic [QpW-1:0] qpn_i,
  input  rx_ctx_t        ctx_i,
  input  rxd_t           pkt_i,
  input  rx_msg_t        msg_i,       // else: what it says
  output rxw_t           item_o
);

  logic rq_error, flushed, of_sq, unused_in;

  assign unused_in = ^{st_i, ctx_i, pkt_i, msg_i};
  assign rq_error  = msg_i.msg.kind == MsgRqError;
  assign flushed   = flushes_i || leaves_i;
  assign of_sq     = flushes_i && flush_sq_i;

  always_comb begin
    item_o      = '0;
    item_o.kind = RxwNone;
    item_o.qpn  = qpn_i;
    item_o.func = ctx_i.func;
    item_o.cqe.wc.qpn = full_qpn(ctx_i.gen, qpn_i);
    if (drops_i) begin
      item_o.frees     = pkt_i.kind != RxdCopy;
      item_o.buf_beat  = pkt_i.buf_beat;
      item_o.buf_beats = pkt_i.buf_beats;
      item_o.place     = pkt_i.place;
    end else begin
      item_o.resumes             = !flushed && msg_i.from_exec;
      item_o.shared              = leaves_i;
      // Of an SRQ's slot hca_rx_exec has told itself.
      item_o.cqe.valid           = flushed || (rq_error && !ctx_i.has_srq);
      item_o.cqe.cqn             = of_sq ? ctx_i.send_cqn : ctx_i.recv_cqn;
      item_o.cqe.wc.opcode      = of_sq ? WcOpSend : WcOpRecv;
      item_o.wqe_index           = leaves_i ? st_i.rq_ci : flushes_i ? flush_idx_i : msg_i.msg.wqe_index;
      if (leaves_i && ctx_i.is_xrc) begin
        item_o.cqe.cqn        = st_i.srq_cqn;
        item_o.cqe.wc.is_xrc = 1'b1;
        item_o.cqe.wc.srqn   = st_i.srqn;
      end
      item_o.cqe.wc.status      = flushed ? WcWrFlushErr : msg_i.msg.status;
      item_o.cqe.wc.vendor_err  = flushed ? '0 : msg_i.msg.syndrome;
    end
    if (asks_i || tells_i) begin
      item_o.resumes   = 1'b0;
      item_o.cqe.valid = 1'b0;
      item_o.rsp       = '{valid: 1'b1, read: 1'b0, atomic: 1'b0, cas: 1'b0, stores: 1'b0, again: 1'b0, aside: 1'b0,
                           qpn: qpn_i,
                           psn: tells_i ? st_i.epsn - 24'd1 : st_i.epsn,
                           syndrome: tells_i ? {3'b000, credits_i} : NakPsnSequence,
                           msn: st_i.msn, va: '0, rkey: '0, len_bytes: '0};
    end
    item_o.cqe.wc.wqe_index = item_o.wqe_index[15:0];
  end

endmodule
