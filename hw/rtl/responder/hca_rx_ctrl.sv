// Judges every received packet and every internal message, one at a time and in order: the single writer of
// responder and acknowledge state. Context writes go first; messages, and slices of a long flush, take turns
// with packets. 2 cycles per request or acknowledge, 3 behind a job of the same QP, with XRC or where marks are
// searched, 2 more for each further send WQE that completes; a time-out has a cycle more. A job starts only when its
// outputs have room; it never waits for firmware.
module hca_rx_ctrl
  import hca_pkg::*, hca_features_pkg::*, hca_rx_pkg::*, hca_rx_state_pkg::ack_job_of_packet;
(
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic [63:0]                now_i,
  input  logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_i,
  output logic                       active_o,     // something is outstanding: timers may fire
  output logic [63:0]                wake_at_o,    // and look again then
  output rx_strobes_t                strobes_o,
  output logic                       item_made_o,  // strobe: an item more is on its way to rx_exec
  output logic                       refusal_done_o,  // strobe: a message of rx_exec is dealt with
  input  logic                       rxd_valid_i,
  output logic                       rxd_ready_o,
  input  rxd_t                       rxd_i,
  input  logic                       qpc_wr_valid_i,
  output logic                       qpc_wr_ready_o,
  input  qpc_wr_t                    qpc_wr_i,
  output qpc_record_t                record_o,     // what the QP was before the context write that is taken
  output logic                       quiet_o,      // and that it had nothing to do: else a swap is refused
  input  logic                       look_valid_i, look_asks_i,  // hca_lines asks whether it has; its peer is told
  output logic                       look_done_o,
  input  logic [QpW-1:0]             look_line_i,
  output line_hint_t                 look_hint_o,  // of look_line_i a cycle ago: whether it has to ask
  input  line_shut_t                 shut_i,
  input  logic                       lines_on_i,   // who misses goes to hca_lines:
  output logic                       miss_valid_o, park_o, // strobes: of rxd_i; it waits for its QP
  input  logic                       sq_db_valid_i,
  output logic                       sq_db_ready_o,
  input  qp_db_t                     sq_db_i,
  input  logic                       rq_db_valid_i,
  output logic                       rq_db_ready_o,
  input  qp_db_t                     rq_db_i,
  input  logic                       omt_valid_i,
  output logic                       omt_ready_o,
  input  omt_wr_t                    omt_i,
  input  logic                       left_i,       // strobe: omt's oldest packet has left the gather, or was dropped
  output lane_ask_t                  lane_ask_o,   // of a timer: which ring; next cycle: what has left it
  input  ring_age_t                  lane_age_i,
  output logic                       msg_room_o,   // QPs may take a further block of outstanding messages
  input  logic                       msg_gather_valid_i,
  output logic                       msg_gather_ready_o,
  input  pipe_msg_t                  msg_gather_i,
  input  logic                       msg_requester_valid_i,
  output logic                       msg_requester_ready_o,
  input  pipe_msg_t                  msg_requester_i,
  input  logic                       msg_exec_valid_i,
  output logic                       msg_exec_ready_o,
  input  pipe_msg_t                  msg_exec_i,
  input  logic                       msg_doorbell_valid_i,
  output logic                       msg_doorbell_ready_o,
  input  pipe_msg_t                  msg_doorbell_i,
  input  logic                       msg_mgmt_valid_i,
  output logic                       msg_mgmt_ready_o,
  input  pipe_msg_t                  msg_mgmt_i,
  input  logic                       msg_mw_valid_i,
  output logic                       msg_mw_ready_o,
  input  pipe_msg_t                  msg_mw_i,
  output logic                       inv_valid_o,       // strobe: to hca_mw
  output mw_inv_t                    inv_o,
  // The SRQ of a packet's QP: its head in the cycle after srq_look_o; taken with srq_pop_o in that cycle.
  output logic                       srq_look_o,
  output logic [SrqW-1:0]            srq_look_srqn_o,
  input  srq_head_t                  srq_head_i,
  output logic                       srq_pop_o,
  input  logic                       rsp_popped_i,      // strobe: a READ job of this QP is finished
  input  logic [QpW-1:0]             rsp_popped_qpn_i,
  output logic                       rxw_valid_o,
  input  logic                       rxw_ready_i,
  output rxw_t                       rxw_o,
  output logic                       list_req_valid_o,
  input  logic                       list_req_ready_i,
  output dma_rd_req_t                list_req_o,
  output logic                       ack_upd_valid_o,
  input  logic                       ack_upd_ready_i,
  output ack_upd_t                   ack_upd_o,
  output logic                       ev_valid_o,
  input  logic                       ev_ready_i,
  output hw_ev_t                     ev_o
);

  typedef enum logic [2:0] {
    StIdle,
    StRead,   // tables have answered
    StLate,   // marks are searched (selective repeat), or the row of an SRQ comes (XRC)
    StResp,   // request or dropped packet: act
    StAck,    // acknowledge unit works
    StMsg,    // receive-side error message: act
    StTell,   // the peer hears of receives
    StFlush
  } state_e;

  typedef enum logic [1:0] {JobQpc, JobMsg, JobFlush, JobPkt} job_e;

  state_e         state_q, state_d;
  job_e           job_q, job_d;
  logic [QpW-1:0] qpn_q, qpn_d, news_qpn;
  rx_msg_t        msg_q;
  rxd_t           pkt_q;    // behind StRead: the packet
  logic           drop_q, voids, qpc_look, look_q, qpc_waits, refuses;  // voids: it is an answer

  rx_ctx_t        ctx, ctx_new, kept_ctx;   // kept: behind StRead, out of registers

  // ---- Outputs and their room ----------------------------------------------------------------------
  logic        item_push, item_ready, ack_upd_valid, ev_push, ev_spare, look_ev_valid, room;
  rxw_t        item;
  wqe_at_t     list;
  ack_upd_t    ack_upd, resume_upd;
  rx_ev_t      ev, look_ev;
  logic        resume, at_qpc, leaving, leaves, asks;  // the send queue goes on behind its error: from SQE to RTS

  assign item_made_o = item_push && item_ready;

  hca_rx_out u_out (
    .clk_i, .rst_i,
    .item_valid_i(item_push), .item_ready_o(item_ready), .item_i(item), .list_i(list), .room_o(room),
    .upd_valid_i(ack_upd_valid || resume), .upd_i(resume ? resume_upd : ack_upd),
    .ev_valid_i(ev_push), .ev_i(ev), .look_valid_i(look_ev_valid), .look_i(look_ev), .ev_spare_o(ev_spare),
    .ev_gen_i(kept_ctx.gen), .rxw_valid_o, .rxw_ready_i, .rxw_o, .list_req_valid_o, .list_req_ready_i, .list_req_o,
    .ack_upd_valid_o, .ack_upd_ready_i, .ack_upd_o, .ev_valid_o, .ev_ready_i, .ev_o
  );

  // ---- Messages ------------------------------------------------------------------------------------
  logic      news_valid, news_ready, tells;
  logic      msg_valid, msg_take, tmr_valid, tmr_ready, flush_valid, flush_take, left_valid, left_ready;
  rx_msg_t   msg;
  pipe_msg_t tmr_msg;
  flush_t    flush, flush_q, flush_left;

  hca_rx_msgs #(.N(6), .Flushing(6'b001100)) u_msgs (   // doorbells and firmware ask for flushes
    .clk_i, .rst_i,
    .in_valid_i  ({msg_gather_valid_i, msg_requester_valid_i, msg_doorbell_valid_i, msg_mgmt_valid_i,
                   msg_mw_valid_i, tmr_valid}),
    .in_ready_o  ({msg_gather_ready_o, msg_requester_ready_o, msg_doorbell_ready_o, msg_mgmt_ready_o,
                   msg_mw_ready_o, tmr_ready}),
    .in_i        ({msg_gather_i, msg_requester_i, msg_doorbell_i, msg_mgmt_i, msg_mw_i, tmr_msg}),
    .exec_valid_i(msg_exec_valid_i), .exec_ready_o(msg_exec_ready_o), .exec_i(msg_exec_i),
    .out_valid_o (msg_valid),
    .out_ready_i (msg_take),
    .out_o       (msg),
    .flush_valid_o(flush_valid),
    .flush_ready_i(flush_take),
    .flush_o      (flush),
    .left_valid_i (left_valid), .left_ready_o(left_ready), .left_i(flush_left),
    .news_valid_i (news_valid), .news_ready_o(news_ready), .news_qpn_i(news_qpn)
  );

  // ---- Pick a job ----------------------------------------------------------------------------------
  logic pick, first, ends, beside, ack_done, inner_waits, inner, inner_turn_q;  // messages, flush slices: in turn
  assign inner_waits = msg_valid || flush_valid;
  assign inner      = inner_turn_q || !rxd_valid_i;
  // Beside the end of a packet's job, which writes the state of its QP: a packet of another one, if it has its turn.
  assign ends       = state_q == StResp || (state_q == StAck && ack_done && job_q == JobPkt) || voids;
  assign beside     = ends && rxd_valid_i && !qpc_waits && !(inner_turn_q && inner_waits)
                      && rxd_i.dest_qpn[QpW-1:0] != qpn_q;
  assign qpc_waits  = qpc_wr_valid_i || look_valid_i;
  assign first      = state_q == StIdle && room && (qpc_waits || (inner_waits && !left_valid) || rxd_valid_i);
  assign pick       = first || (beside && room);
  assign msg_take   = first && job_d == JobMsg;
  assign flush_take = first && job_d == JobFlush;
  assign refusal_done_o = msg_take && msg.from_exec;

  always_comb begin
    if (qpc_waits) begin
      job_d = JobQpc;
      qpn_d = qpc_wr_valid_i ? qpc_wr_i.qpn : look_line_i;
    end else if (msg_valid && !left_valid && inner) begin
      job_d = JobMsg;
      qpn_d = msg.msg.qpn;
    end else if (flush_valid && !left_valid && inner) begin
      job_d = JobFlush;
      qpn_d = flush.qpn;
    end else begin
      job_d = JobPkt;
      qpn_d = rxd_i.dest_qpn[QpW-1:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (pick) begin
      {job_q, qpn_q, look_q} <= {job_d, qpn_d, !qpc_wr_valid_i};
      if (msg_take) msg_q <= msg;
      if (flush_take) flush_q <= flush;
    end
    if (rst_i) inner_turn_q <= 1'b1;
    else if (pick && job_d != JobQpc) inner_turn_q <= job_d == JobPkt;
  end

  // ---- Tables --------------------------------------------------------------------------------------
  rx_st_t          st, st_new, kept_st;
  logic            st_we, pop_busy, clear, goes_on, clear_done, looked_q, qpc_apply, sq_pi_clr, rq_pi_clr;
  wqe_idx_t        sq_pi, rq_pi;
  logic [5:0]      rd_popped;
  hw_mark_t        mark, kept_mark;
  omt_row_t        row;
  omt_ask_t        ask;
  logic [MsgBlkW-1:0] blk;

  // From the second cycle on: what is cleared hangs on what the context was. Behind reset it was nothing.
  assign at_qpc    = state_q == StRead && job_q == JobQpc;
  assign qpc_look  = at_qpc && (looked_q || qpc_wr_i.sweep) && !look_q && !refuses;
  assign refuses   = qpc_wr_i.swap && !quiet_o;
  assign look_done_o = at_qpc && looked_q && look_q;
  assign goes_on   = qpc_look && kept_ctx.is_sqe && qpc_wr_i.qpc.state == QpsRts && !qpc_wr_i.init_sq;
  assign clear     = qpc_look && !qpc_wr_i.sweep && (qpc_wr_i.init_sq || qpc_wr_i.qpc.state == QpsReset) || goes_on;
  assign qpc_apply = qpc_look && !pop_busy && (!clear || clear_done);
  assign ctx_new   = rx_ctx(qpc_wr_i.qpc);
  // A receive queue may be filled in INIT, before init_rq brings the first PSN (QPS-7): keep those doorbells.
  assign sq_pi_clr = qpc_apply && (qpc_wr_i.init_sq || qpc_wr_i.qpc.state == QpsReset);
  assign rq_pi_clr = qpc_apply && ((qpc_wr_i.init_rq && qpc_wr_i.qpc.state == QpsInit)
                                   || qpc_wr_i.qpc.state == QpsReset || qpc_wr_i.qpc.restores);
  if (RecordW > 448) begin : gen_too_long
    $error("hca_rx_ctrl: the state of a QP does not fit into its record");
  end
  assign record_o  = '{st: $bits(record_o.st)'(st), una_psn: st.ack.una_first_psn, reserved: '0, has_record: 1'b0,
                       rd_done: st.ack.rd_done, una_wqe: st.ack.una_wqe, rq_pi: rq_pi, sq_pi: sq_pi};
  assign qpc_wr_ready_o = qpc_apply || (at_qpc && looked_q && !look_q && refuses);
  // What was flushed is over, and what was sent of it is forgotten: the next WQE takes a new block, and a PSN that was
  // not used: of what has left hca_sent may still tell.
  assign resume     = goes_on && qpc_apply;
  // A slot of an SRQ whose message will not be completed any more.
  assign leaving    = at_qpc && !look_q && st.resp.held && ctx_new.has_srq
                      && (qpc_wr_i.init_rq || qpc_wr_i.qpc.state inside {QpsErr, QpsReset});
  assign leaves     = qpc_apply && leaving;
  assign resume_upd = '{rewind: 1'b1, halt: 1'b0, qpn: qpn_q, una_wqe: st.ack.una_wqe,
                        una_first_psn: mark.psn, una_psn: mark.psn, rd_done: st.ack.rd_done, again: '0, credit: '0};

  hca_rx_tables u_tables (
    .clk_i, .rst_i, .rd_en_i(pick), .rd_qpn_i(qpn_d),
    .ctx_o(ctx), .st_o(st), .sq_pi_o(sq_pi), .rq_pi_o(rq_pi), .rd_popped_o(rd_popped), .mark_o(mark),
    .kept_ctx_o(kept_ctx), .kept_st_o(kept_st), .kept_mark_o(kept_mark), .kept_quiet_o(quiet_o),
    .ask_i(ask), .row_o(row), .blk_o(blk), .clear_init_i(qpc_wr_i.init_sq || goes_on),
    .clear_i(clear), .clear_done_o(clear_done), .clear_quiet_i(qpc_wr_i.swap), .peek_i(at_qpc && !look_q),
    .msg_room_o,
    .wr_qpn_i(qpn_q), .ctx_we_i(qpc_apply), .ctx_i(ctx_new), .st_we_i(st_we), .st_i(st_new),
    .sq_pi_clr_i     (sq_pi_clr),
    .rq_pi_clr_i     (rq_pi_clr),
    .sq_pi_i         (qpc_wr_i.qpc.restores ? qpc_wr_i.qpc.sq_pi : '0),
    .rq_pi_i         (qpc_wr_i.qpc.restores ? qpc_wr_i.qpc.rq_pi : '0),
    .pop_busy_o      (pop_busy),
    .pop_clr_i       (qpc_apply && qpc_wr_i.init_rq),
    .mark_init_i     (qpc_apply && (qpc_wr_i.init_sq || resume)),
    .mark_i          (goes_on ? '{wqe: st.ack.una_wqe, psn: mark.psn}
                      : qpc_wr_i.qpc.restores ? '{wqe: qpc_wr_i.qpc.una_wqe, psn: qpc_wr_i.qpc.una_psn}
                      : '{wqe: '0, psn: qpc_wr_i.qpc.sq_psn}),
    .sq_db_valid_i, .sq_db_ready_o, .sq_db_i, .rq_db_valid_i, .rq_db_ready_o, .rq_db_i,
    .news_valid_o(news_valid), .news_ready_i(news_ready), .news_qpn_o(news_qpn),
    .rsp_popped_i, .rsp_popped_qpn_i, .omt_valid_i, .omt_ready_o, .omt_i,
    .left_i, .lane_ask_o, .lane_age_i, .now_i,
    .line_i(look_line_i), .hint_o(look_hint_o), .tmr_valid_o(tmr_valid), .tmr_ready_i(tmr_ready),
    .tmr_o           (tmr_msg),
    .active_o, .wake_at_o
  );

  // ---- Packets: is it for a live QP of this port and partition, and from its peer, or with its Q_Key? --------
  rx_verdict_t verdict;
  logic        pkt_ok, is_answer, pkt_read, parked_q;
  logic [4:0]  pkey_index;   // of the packet before
  hca_rx_filter u_filter (
    .clk_i, .pkey_tbl_i,
    .rd_en_i     (pick), .rd_qpn_i(qpn_d),
    .we_i        (qpc_apply), .wr_qpn_i(qpn_q), .qpc_i(qpc_wr_i.qpc), .swap_i(qpc_wr_i.swap), .shut_i,
    .rxd_i, .ctx_i(ctx),
    .dead_i      (st.dead),
    .verdict_o   (verdict), .pkey_index_o(pkey_index)
  );

  assign {miss_valid_o, park_o} = {2{pkt_read && verdict.miss && lines_on_i && !is_answer}} &
                                  ((rxd_i.place.parks && !rxd_i.again) ? 2'b01 : 2'b10);
  assign pkt_ok    = verdict.accept;
  assign is_answer = ctx.is_rc && rxd_i.opcode[4:0] >= BthRcReadResponseFirst[4:0]
                     && rxd_i.opcode[4:0] <= BthRcAtomicAcknowledge[4:0];

  assign pkt_read  = state_q == StRead && job_q == JobPkt;
  // What is only told of waits a cycle: the job is still the packet's then.
  rx_verdict_t verdict_q;
  logic dup, timed_out, dg_full, dg_wrong, answer_q;
  assign strobes_o = '{port: verdict_q.stray ? pkt_q.port : ctx.port,  // who is not there has none
                       qpn: qpn_q, pkey_viol: verdict_q.pkey_viol, qkey_viol: verdict_q.qkey_viol, dup: dup,
                       timeout: timed_out, bad_source: verdict_q.bad_source,
                       rewind: ack_upd_valid && ack_upd.rewind, marked: verdict_q.marked,
                       cnp: verdict_q.cnp, qp1_drop: dg_full && ctx.is_gsi,
                       stray: verdict_q.stray || dg_wrong, dry: dg_full && !ctx.is_gsi};
  always_ff @(posedge clk_i) begin
    if (pkt_read) {drop_q, parked_q, answer_q, pkt_q} <= {!pkt_ok, park_o, is_answer, rxd_built(rxd_i)};
    verdict_q <= (pkt_read && !rst_i) ? verdict : '0;
  end

  // ---- Credits ---------------------------------------------------------------------------------------
  logic [4:0] credits, less;
  hca_rq_credits u_rq_credits (
    .clk_i, .tells_i(ctx.tells), .rq_pi_i(rq_pi), .rq_ci_i(st.resp.rq_ci), .now_o(credits), .less_o(less)
  );
  // A receive was posted to a queue of which the peer had heard that it is empty.
  assign tells = state_q == StRead && job_q == JobFlush && !flush_q.sq && ctx.tells && ctx.rx_ok && !st.dead
                 && st.resp.ran_dry && st.resp.in_msg != MsgpInv;

  // ---- Requests ------------------------------------------------------------------------------------
  rxw_t        resp_item;
  wqe_at_t     resp_list;
  resp_st_t    resp_new;
  logic        resp_act, late, resp_dead, resp_ev_valid;
  rx_ev_t      resp_ev;

  assign resp_act = state_q == StResp && !drop_q;
  assign srq_look_o      = (pkt_read || state_q == StLate) && ctx.has_srq;
  assign srq_look_srqn_o = !ctx.is_xrc ? ctx.srqn : pkt_read ? rxd_i.xrcsrq[SrqW-1:0] : pkt_q.xrcsrq[SrqW-1:0];

  hca_rx_request u_request (
    .clk_i,
    .look_i     (pkt_read), .late_o(late), .apply_i(resp_act),
    .rxd_i, .req_i(pkt_q),
    .qpn_i      (qpn_q), .now_ctx_i(ctx), .now_st_i(st.resp), .ctx_i(kept_ctx), .st_i(kept_st.resp),
    .rq_pi_i    (rq_pi), .rd_popped_i(rd_popped), .credits_i(credits), .less_i(less),
    .srq_i      (srq_head_i), .pkey_index_i(pkey_index),
    .srq_pop_o, .full_o(dg_full), .wrong_o(dg_wrong),
    .item_o     (resp_item), .list_o(resp_list), .st_o(resp_new),
    .dead_o     (resp_dead), .dup_o(dup), .inv_valid_o, .inv_o,
    .ev_valid_o (resp_ev_valid), .ev_o(resp_ev)
  );

  // ---- Answers and send-side messages -----------------------------------------------------------------
  ack_job_t    ack_job;
  logic        ack_start, ack_item_valid, ack_dead, ack_ev_valid, msg_to_ack, msg_names, msg_waits, named_q, meant_q;
  rxw_t        ack_item;
  wqe_at_t     ack_list;
  ack_st_t     ack_new;
  rx_ev_t      ack_ev;

  assign ack_job    = (job_q == JobMsg) ? ack_job_of_msg(qpn_q, msg_q) : ack_job_of_packet(qpn_q, rxd_i);
  // A message that names what it is about is compared with the QP's state in a cycle of its own.
  assign msg_names  = msg_q.msg.kind inside {MsgTimeout, MsgMwDone};
  assign msg_waits  = state_q == StRead && job_q == JobMsg && msg_names && !named_q;
  assign msg_to_ack = msg_names ? named_q && meant_q : msg_is_for_ack(msg_q.msg, ctx, st);
  // The verdict on an answer comes too late for the state: of one that is dropped the unit does nothing.
  assign ack_start = state_q == StRead && ((job_q == JobPkt && is_answer) || (job_q == JobMsg && msg_to_ack));
  assign voids     = state_q == StAck && job_q == JobPkt && drop_q;

  assign timed_out = ack_start && ack_job.kind == AjTimeout;
  hca_ack_unit u_ack_unit (
    .clk_i, .rst_i,
    .start_i     (ack_start),
    .now_job_i   (ack_job),
    .void_i      (voids),
    .has_pkt_i   (job_q == JobPkt),
    .rxd_i       (pkt_q),
    .now_ctx_i   (ctx), .now_dead_i(st.sq_dead), .now_mark_i(mark), .st_i(st.ack),
    .ctx_i       (kept_ctx), .dead_i(kept_st.sq_dead), .mark_i(kept_mark),
    .ask_o       (ask),
    .blk_i       (blk),
    .row_i       (row),
    .item_valid_o(ack_item_valid), .item_ready_i(item_ready), .item_o(ack_item), .list_o(ack_list),
    .done_o      (ack_done), .st_o(ack_new), .dead_o(ack_dead),
    .upd_valid_o (ack_upd_valid), .upd_o(ack_upd), .ev_valid_o(ack_ev_valid), .ev_o(ack_ev)
  );

  // ---- Flush ---------------------------------------------------------------------------------------
  logic        flush_sq, flush_start, flush_again, flush_emit, flush_done;
  wqe_idx_t    flush_idx;

  // Of a QP that has left ERR nothing is to be flushed.
  assign flush_sq    = flush_q.sq;
  assign flush_start = state_q == StRead && (ctx.is_err || (ctx.is_sqe && flush_sq)) && job_q == JobFlush;
  // A flush may have passed what rx_exec refused: once more from there.
  assign flush_again = kept_ctx.is_err && job_q == JobMsg && msg_q.from_exec && (ack_done || state_q == StMsg);

  hca_rx_flush u_flush (
    .clk_i, .rst_i,
    .start_i   (flush_start), .queue_i(flush_q),
    .first_i   (flush_sq ? st.ack.una_wqe : st.resp.rq_ci),
    // What is in an SRQ is the others'. A target of XRC has no send queue.
    .pi_i      (flush_sq ? (ctx.is_target ? st.ack.una_wqe : sq_pi) : ctx.has_srq ? st.resp.rq_ci : rq_pi),
    .log_size_i(flush_sq ? ctx.sq_log_size : ctx.rq_log_size),
    .busy_i    (state_q == StFlush),
    .ready_i   (item_ready),
    .emit_o    (flush_emit), .done_o(flush_done), .idx_o(flush_idx),
    .again_i   (flush_again),
    .again_queue_i('{qpn: qpn_q, sq: ack_done}),
    .left_valid_o(left_valid),
    .left_ready_i(left_ready),
    .left_o      (flush_left)
  );

  // ---- State machine -------------------------------------------------------------------------------
  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle, StResp: state_d = pick ? StRead : StIdle;
      StRead: begin
        state_d = StIdle;
        if ((job_q == JobQpc && !qpc_wr_ready_o && !look_done_o) || msg_waits) state_d = StRead;
        else if (ack_start) state_d = StAck;
        else if (flush_start) state_d = StFlush;
        else if (tells) state_d = StTell;
        else if (job_q == JobPkt) state_d = late ? StLate : StResp;
        else if (job_q == JobMsg && msg_q.msg.kind inside {MsgRqError, MsgReqError, MsgInvDone}) state_d = StMsg;
      end
      StLate:  state_d = StResp;
      StAck:   if (ack_done || voids) state_d = pick ? StRead : StIdle;
      StFlush: if (flush_done) state_d = StIdle;
      default: state_d = StIdle;  // StMsg, StTell: one cycle
    endcase
  end

  always_ff @(posedge clk_i) begin
    state_q  <= rst_i ? StIdle : state_d;
    looked_q <= at_qpc;
    named_q  <= msg_waits;
    meant_q  <= msg_is_for_ack(msg_q.msg, ctx, st);
  end

  // ---- New state -----------------------------------------------------------------------------------
  logic   msg_live;  // not live: the QP was reset while the message was under way
  logic   is_inv, inv_acts;
  rxw_t   inv_item;
  rx_st_t inv_st;
  hca_rx_inv u_inv (
    .qpn_i(qpn_q), .ctx_i(kept_ctx), .st_i(kept_st), .msg_i(msg_q), .credits_i(less), .is_o(is_inv), .acts_o(inv_acts),
    .item_o(inv_item), .st_o(inv_st)
  );
  assign msg_live = (kept_ctx.rx_ok || kept_ctx.is_err) && (!is_inv || inv_acts);
  assign st_we    = qpc_apply || (look_done_o && asks) || resp_act || ack_done || flush_done || state_q == StTell
                    || (state_q == StMsg && msg_live);

  hca_rx_state u_state (
    .looks_i(state_q == StRead && look_q), .writes_i(state_q == StRead && !look_q), .resp_i(state_q == StResp),
    .ack_i(state_q == StAck), .flush_i(state_q == StFlush), .tell_i(state_q == StTell),
    .st_i(kept_st), .ctx_i(kept_ctx), .qpc_wr_i, .mark_i(mark), .goes_on_i(resume), .leaves_i(leaves),
    .resp_new_i(resp_new), .resp_dead_i(resp_dead), .ack_new_i(ack_new), .ack_dead_i(ack_dead),
    .flush_sq_i(flush_sq), .flush_idx_i(flush_idx), .dry_i(credits == '0), .msg_i(msg_q), .is_inv_i(is_inv),
    .inv_st_i(inv_st), .st_o(st_new)
  );

  // ---- What goes out -------------------------------------------------------------------------------
  rxw_t   own_item;   // dropped packet, flushed WQE, failed receive WQE
  rx_ev_t msg_ev;

  assign msg_ev = '{kind: HwEventQpError, func: kept_ctx.func, qpn: qpn_q, who: 2'(HwWhoResponder),
                    syndrome: msg_q.msg.syndrome,
                    status: (msg_q.msg.status == '0) ? WcRemAccessErr : msg_q.msg.status};

  hca_rx_own u_own (
    .drops_i    (state_q == StResp || voids), .pkt_i(pkt_q),
    .flushes_i  (state_q == StFlush), .flush_sq_i(flush_sq), .flush_idx_i(flush_idx),
    // What they say does not wait for whether they are pushed.
    .leaves_i   (leaving), .asks_i(at_qpc && (look_q || qpc_wr_i.qpc.asks_again)), .tells_i(state_q == StTell),
    .credits_i(credits), .st_i(kept_st.resp), .qpn_i(qpn_q), .ctx_i(kept_ctx), .msg_i(msg_q), .item_o(own_item)
  );

  // The peer is told what is expected, once: requests of it were dropped while the QP had no row.
  assign asks      = (qpc_apply && qpc_wr_i.qpc.asks_again)
                     || (look_done_o && look_asks_i && kept_ctx.rx_ok && !kept_st.dead
                         && !kept_st.resp.nak_sent);
  assign item_push = (state_q == StResp && !parked_q) || voids || leaves || asks || (state_q == StTell && credits != '0)
                     || (state_q == StAck && ack_item_valid) || flush_emit
                     || (state_q == StMsg && (msg_q.from_exec || is_inv) && msg_live);
  assign item      = resp_act ? resp_item : (state_q == StAck && !voids) ? ack_item
                     : (state_q == StMsg && is_inv) ? inv_item : own_item;
  assign list      = (state_q == StAck) ? ack_list : resp_list;

  hca_rx_look_ev u_look_ev (
    .spare_i(ev_spare), .verdict_i(verdict_q), .lines_on_i, .rxd_i(pkt_q), .func_i(kept_ctx.func), .qpn_i(qpn_q),
    .is_answer_i(answer_q), .valid_o(look_ev_valid), .ev_o(look_ev)
  );

  always_comb begin
    unique case (state_q)   // nobody tells of anything out of turn
      StAck: {ev, ev_push} = {ack_ev, ack_ev_valid && (ack_ev.kind != HwEventPathFailed || ev_spare)};
      StMsg: begin
        ev      = msg_ev;
        ev_push = !kept_st.dead && msg_live && !refusal_is_loss(msg_q, kept_ctx)
                  && !(is_inv && msg_q.msg.status == WcSuccess);
      end
      default: {ev, ev_push} = {resp_ev, resp_act && resp_ev_valid};
    endcase
  end

  // A packet leaves with the look at it: the next one may be picked beside its end.
  assign rxd_ready_o = pkt_read;

endmodule
