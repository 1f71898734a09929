// Everything hca_rx_ctrl remembers per QP: context subset, state, doorbell snapshots, finished READ jobs, the
// outstanding message table, and the timers that watch over them. Reads return in the next cycle and are
// held; kept_*_o is the same a cycle later, out of registers: for who acts on what was looked at. The doorbell streams
// wait only in the cycle in which an index is cleared, that of receive queues also some cycles for hca_rq_news.
module hca_rx_tables
  import hca_pkg::*, hca_features_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           rd_en_i,
  input  logic [QpW-1:0] rd_qpn_i,
  output rx_ctx_t        ctx_o,
  output rx_st_t         st_o,
  output wqe_idx_t       sq_pi_o,
  output wqe_idx_t       rq_pi_o,
  output logic [5:0]     rd_popped_o,
  output hw_mark_t       mark_o,
  output rx_ctx_t        kept_ctx_o,
  output rx_st_t         kept_st_o,
  output hw_mark_t       kept_mark_o,
  output logic           kept_quiet_o,      // the QP had nothing to do
  // Outstanding message table, QP wr_qpn_i
  input  omt_ask_t       ask_i,
  output omt_row_t       row_o,
  output logic [MsgBlkW-1:0] blk_o,
  input  logic           clear_init_i,      // mark_init_i comes then
  input  logic           clear_quiet_i,     // it has nothing to do
  input  logic           peek_i,            // a context write is looked at
  input  logic           clear_i,           // its rows come back; held until clear_done_o
  output logic           clear_done_o,
  output logic           msg_room_o,
  input  logic [QpW-1:0] wr_qpn_i,
  input  logic           ctx_we_i,
  input  rx_ctx_t        ctx_i,
  input  logic           st_we_i,
  input  rx_st_t         st_i,
  input  logic           sq_pi_clr_i,
  input  logic           rq_pi_clr_i,
  input  wqe_idx_t       sq_pi_i,           // what they become then
  input  wqe_idx_t       rq_pi_i,
  output logic           pop_busy_o,        // pop_clr_i must wait
  input  logic           pop_clr_i,         // receive queue initialised: no READ job finished yet
  input  logic           mark_init_i,       // send queue initialised: it goes on from mark_i
  input  hw_mark_t       mark_i,
  input  logic           sq_db_valid_i,
  output logic           sq_db_ready_o,
  input  qp_db_t         sq_db_i,
  input  logic           rq_db_valid_i,
  output logic           rq_db_ready_o,
  input  qp_db_t         rq_db_i,
  output logic           news_valid_o,      // a receive came where the peer knows of none
  input  logic           news_ready_i,
  output logic [QpW-1:0] news_qpn_o,
  // Strobe: a READ job of this QP has been finished.
  input  logic           rsp_popped_i,
  input  logic [QpW-1:0] rsp_popped_qpn_i,
  input  logic           omt_valid_i,
  output logic           omt_ready_o,
  input  omt_wr_t        omt_i,
  input  logic           left_i,            // strobe: a packet of the requester has left the gather, or was dropped
  output lane_ask_t      lane_ask_o,
  input  ring_age_t      lane_age_i,        // next cycle
  input  logic [63:0]    now_i,
  input  logic [QpW-1:0] line_i,
  output line_hint_t     hint_o,            // of the line of a cycle ago
  output logic           tmr_valid_o,
  input  logic           tmr_ready_i,
  output pipe_msg_t      tmr_o,
  output logic           active_o,
  output logic [63:0]    wake_at_o
);

  // What no QP of this card has is no question for whoever reads a context.
  rx_ctx_t ctx_row;
  always_comb begin
    ctx_o           = ctx_row;
    ctx_o.has_srq   = ctx_row.has_srq && HasSrq;
    ctx_o.is_xrc    = ctx_row.is_xrc && HasSrq;
    ctx_o.is_raw    = ctx_row.is_raw && HasRaw;
    ctx_o.selective = ctx_row.selective && HasSelective;
  end

  hca_ram_1r1w #(
    .Width($bits(rx_ctx_t)),
    .Depth(NumQps)
  ) u_ctx (
    .clk_i,
    .we_i   (ctx_we_i),
    .waddr_i(wr_qpn_i),
    .wdata_i(ctx_i),
    .re_i   (rd_en_i),
    .raddr_i(rd_qpn_i),
    .rdata_o(ctx_row)
  );

  hca_ram_1r1w #(
    .Width($bits(rx_st_t)),
    .Depth(NumQps)
  ) u_st (
    .clk_i,
    .we_i   (st_we_i),
    .waddr_i(wr_qpn_i),
    .wdata_i(st_i),
    .re_i   (rd_en_i),
    .raddr_i(rd_qpn_i),
    .rdata_o(st_o)
  );

  always_ff @(posedge clk_i) begin
    {kept_ctx_o, kept_st_o, kept_mark_o} <= {ctx_o, st_o, mark_o};
    kept_quiet_o <= is_quiet(ctx_o, st_o, sq_pi_o, rd_popped_o);
  end

  // ---- Doorbell snapshots --------------------------------------------------------------------------
  logic unused_db, news_busy;
  assign unused_db     = ^{sq_db_i, rq_db_i};
  assign sq_db_ready_o = !sq_pi_clr_i;
  assign rq_db_ready_o = !rq_pi_clr_i && !news_busy;

  hca_rq_news u_news (
    .clk_i, .rst_i, .pick_i(rd_en_i), .pick_qpn_i(rd_qpn_i), .we_i(st_we_i), .qpn_i(wr_qpn_i),
    .dry_i(st_i.resp.ran_dry), .db_i(rq_db_valid_i && rq_db_ready_o), .db_qpn_i(rq_db_i.qpn),
    .busy_o(news_busy), .valid_o(news_valid_o), .ready_i(news_ready_i), .qpn_o(news_qpn_o)
  );

  hca_ram_1r1w #(
    .Width(WqeIndexBits),
    .Depth(NumQps)
  ) u_sq_pi (
    .clk_i,
    .we_i   (sq_pi_clr_i || sq_db_valid_i),
    .waddr_i(sq_pi_clr_i ? wr_qpn_i : sq_db_i.qpn),
    .wdata_i(sq_pi_clr_i ? sq_pi_i : sq_db_i.pi),
    .re_i   (rd_en_i),
    .raddr_i(rd_qpn_i),
    .rdata_o(sq_pi_o)
  );

  hca_ram_1r1w #(
    .Width(WqeIndexBits),
    .Depth(NumQps)
  ) u_rq_pi (
    .clk_i,
    .we_i   (rq_pi_clr_i || (rq_db_valid_i && rq_db_ready_o)),
    .waddr_i(rq_pi_clr_i ? wr_qpn_i : rq_db_i.qpn),
    .wdata_i(rq_pi_clr_i ? rq_pi_i : rq_db_i.pi),
    .re_i   (rd_en_i),
    .raddr_i(rd_qpn_i),
    .rdata_o(rq_pi_o)
  );

  if (HasContextMemory) begin : gen_rests
    hca_rx_rests u_rests (
      .clk_i, .rst_i, .pick_i(rd_en_i), .we_i(st_we_i), .qpn_i(wr_qpn_i), .ctx_i(ctx_we_i ? ctx_i : ctx_o), .st_i,
      .sq_pi_i(sq_pi_clr_i ? sq_pi_i : sq_pi_o), .popped_i(pop_clr_i ? '0 : rd_popped_o),
      .db_i(sq_db_valid_i && sq_db_ready_o), .db_qpn_i(sq_db_i.qpn), .line_i, .hint_o
    );
  end else begin : gen_no_rests
    logic unused_line;
    assign unused_line = ^line_i;
    assign hint_o      = '0;
  end

  // ---- Finished READ jobs, modulo 64 -----------------------------------------------------------------
  logic           pop_q, fwd_q, pop_we;
  logic [QpW-1:0] pop_qpn_q, fwd_qpn_q, pop_waddr;
  logic [5:0]     pop_old, pop_new, pop_wdata, fwd_val_q;

  // The row just written is not in the read data yet when the next strobe names the same QP.
  assign pop_new    = ((fwd_q && fwd_qpn_q == pop_qpn_q) ? fwd_val_q : pop_old) + 6'd1;
  assign pop_busy_o = pop_q;
  assign pop_we     = pop_q || pop_clr_i;
  assign pop_waddr  = pop_q ? pop_qpn_q : wr_qpn_i;
  assign pop_wdata  = pop_q ? pop_new : '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      pop_q <= 1'b0;
      fwd_q <= 1'b0;
    end else begin
      pop_q <= rsp_popped_i;
      fwd_q <= pop_we;
    end
    pop_qpn_q <= rsp_popped_qpn_i;
    fwd_qpn_q <= pop_waddr;
    fwd_val_q <= pop_wdata;
  end

  hca_ram_1r1w #(
    .Width(6),
    .Depth(NumQps)
  ) u_pop_own (
    .clk_i,
    .we_i   (pop_we),
    .waddr_i(pop_waddr),
    .wdata_i(pop_wdata),
    .re_i   (rsp_popped_i),
    .raddr_i(rsp_popped_qpn_i),
    .rdata_o(pop_old)
  );

  hca_ram_1r1w #(
    .Width(6),
    .Depth(NumQps)
  ) u_pop_ctrl (
    .clk_i,
    .we_i   (pop_we),
    .waddr_i(pop_waddr),
    .wdata_i(pop_wdata),
    .re_i   (rd_en_i),
    .raddr_i(rd_qpn_i),
    .rdata_o(rd_popped_o)
  );

  // ---- Outstanding messages and timers ---------------------------------------------------------------
  logic           tmr_en;
  logic [QpW-1:0] tmr_qpn;
  logic [23:0]    tmr_psn;

  hca_omt u_omt (
    .clk_i,
    .rst_i,
    .omt_valid_i,
    .omt_ready_o,
    .omt_i,
    .room_o    (msg_room_o),
    .qpn_i     (wr_qpn_i),
    .clear_i,
    .clear_init_i, .clear_quiet_i, .peek_i,
    .clear_done_o,
    .init_i    (mark_init_i),
    .init_mark_i(mark_i),
    .mark_en_i (rd_en_i),
    .mark_qpn_i(rd_qpn_i),
    .mark_o,
    .ask_i,
    .row_o,
    .blk_o,
    .tmr_en_i  (tmr_en),
    .tmr_qpn_i (tmr_qpn),
    .tmr_psn_o (tmr_psn)
  );

  hca_timers u_timers (
    .clk_i,
    .rst_i,
    .now_i,
    .wake_i     (omt_valid_i && omt_ready_o && !is_local(omt_i.opcode)),
    .wake_qpn_i (omt_i.qpn),
    .wake_psn_i (omt_i.next_psn),
    .left_i,
    .lane_ask_o,
    .lane_age_i,
    .active_o,
    .wake_at_o,
    .wr_qpn_i,
    .ctx_we_i,
    .ctx_i      ('{live: ctx_i.tx_live, timeout: ctx_i.timeout, lane: ctx_i.lane}),
    .st_we_i,
    .st_i       ('{dead: st_i.sq_dead, rnr_wait: st_i.ack.rnr_wait, dry: st_i.ack.dry,
                   rnr_code: st_i.ack.rnr_wait ? st_i.ack.rnr_code : ProbeCode,
                   gen: st_i.ack.gen, una_psn: st_i.ack.una_psn}),
    .mark_en_o  (tmr_en),
    .mark_qpn_o (tmr_qpn),
    .mark_psn_i (tmr_psn),
    .msg_valid_o(tmr_valid_o),
    .msg_ready_i(tmr_ready_i),
    .msg_o      (tmr_o)
  );

endmodule
