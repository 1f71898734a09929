// The second half of a SEND with invalidate: hca_mw has answered. Its payload is under way to memory, in front of the
// item made here. The peer gets its acknowledge, and the receive WQE completes; or the key was not to be invalidated by
// this QP: NAK, and the QP is dead. What came from the peer meanwhile was dropped: a NAK of the sequence asks for it
// at once, and acknowledges the SEND as well. Combinational.
module hca_rx_inv
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic [QpW-1:0] qpn_i,
  input  rx_ctx_t        ctx_i,
  input  rx_st_t         st_i,
  input  rx_msg_t        msg_i,
  input  logic [4:0]     credits_i, // code of those that are left then
  output logic           is_o,     // the message is one of hca_mw
  output logic           acts_o,   // and the QP still waits for it
  output rxw_t           item_o,
  output rx_st_t         st_o
);

  inv_t        kept;
  logic        failed;
  logic [23:0] next_psn;
  logic        unused_in;

  assign unused_in = ^{ctx_i, msg_i, kept};
  assign kept      = st_i.resp.wr_left;
  assign failed    = msg_i.msg.status != WcSuccess;
  assign next_psn  = st_i.resp.epsn + 24'd1;
  assign is_o      = msg_i.msg.kind == MsgInvDone;
  assign acts_o    = is_o && ctx_i.rx_ok && !st_i.dead && st_i.resp.in_msg == MsgpInv;

  always_comb begin
    st_o = st_i;
    if (acts_o && failed) begin
      {st_o.dead, st_o.sq_dead} = '1;
    end else if (acts_o) begin
      st_o.resp.epsn     = next_psn;
      st_o.resp.msn      = st_i.resp.msn + 24'd1;
      st_o.resp.in_msg   = MsgpNone;
      st_o.resp.nak_sent = kept.passed;
      st_o.resp.held     = 1'b0;
      if (!kept.passed) st_o.resp.ran_dry = credits_i == '0;
      if (!ctx_i.has_srq) st_o.resp.rq_ci = st_i.resp.rq_ci + 1'b1;
    end
  end

  always_comb begin
    item_o               = '0;
    item_o.kind          = RxwNone;
    item_o.qpn           = qpn_i;
    item_o.func          = ctx_i.func;
    item_o.shared        = ctx_i.has_srq;
    item_o.wqe_index     = st_i.resp.rq_ci;
    item_o.rsp.valid     = 1'b1;
    item_o.rsp.qpn       = qpn_i;
    item_o.rsp.msn       = st_o.resp.msn;
    item_o.rsp.psn       = (!failed && kept.passed) ? next_psn : st_i.resp.epsn;
    item_o.rsp.syndrome  = failed ? NakRemoteAccess : kept.passed ? NakPsnSequence : {3'b000, credits_i};
    item_o.cqe.valid     = !failed;
    item_o.cqe.solicited = kept.solicited;
    item_o.cqe.cqn       = ctx_i.is_xrc ? st_i.resp.srq_cqn : ctx_i.recv_cqn;
    item_o.cqe.wc.wqe_index = st_i.resp.rq_ci[15:0];
    item_o.cqe.wc.opcode    = WcOpRecv;
    item_o.cqe.wc.status    = WcSuccess;
    item_o.cqe.wc.qpn       = full_qpn(ctx_i.gen, qpn_i);
    item_o.cqe.wc.byte_len  = st_i.resp.msg_bytes;
    item_o.cqe.wc.imm_data  = key_of(st_i.resp.wr_rkey);
    item_o.cqe.wc.wc_flags  = 4'(WcFlagWithInv);
    item_o.cqe.wc.src_qp    = ctx_i.dest_qpn;
    item_o.cqe.wc.is_xrc    = ctx_i.is_xrc;
    if (ctx_i.is_xrc) item_o.cqe.wc.srqn = st_i.resp.srqn;
  end

endmodule
