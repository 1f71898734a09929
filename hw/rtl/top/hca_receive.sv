// The receive side of the card behind its ports: judge (hca_rx_ctrl), carry out (hca_rx_exec), answer (hca_resp_sched),
// and what has left of services without acknowledges (hca_sent). Wiring only.
module hca_receive
  import hca_pkg::*;
  import hca_features_pkg::*;
(
  input  logic [PartRespSched:PartRxCtrl] pclk_i,    // one clock, for each part (hca_part_clock)
  input  logic                      rst_i,
  input  logic [63:0]               now_i,
  input  cc_pace_t [NumPorts-1:0]   cc_pace_i,       // congestion control
  input  cc_rate_wr_t               cc_rate_i,
  output logic                      cc_sent_valid_o,
  input  logic                      cc_sent_ready_i,
  output cc_sent_t                  cc_sent_o,
  output logic                      held_o,          // QPs wait for their rates
  input  logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_i,
  // Contexts: to the response scheduler, to rx_ctrl, to rx_exec. Those of rx_ctrl are held back outside until the
  // requester has taken them.
  input  logic [2:0]                qpc_wr_valid_i,
  output logic [2:0]                qpc_wr_ready_o,
  input  qpc_wr_t                   qpc_wr_i,
  output qpc_record_t               record_o,        // rx_ctrl's, of the row that is written
  output logic                      quiet_o,
  input  logic                      look_valid_i,
  output logic                      look_done_o,
  input  logic                      look_asks_i,
  input  logic [QpW-1:0]            look_line_i,
  output line_hint_t                look_hint_o,
  input  line_shut_t                shut_i,
  input  logic                      lines_on_i,
  output logic                      miss_valid_o,    // strobes: of rxd_i
  output logic                      park_o,
  input  logic                      qpc_wr_hold_i,   // ... the requester has not
  input  logic                      sq_db_valid_i,
  output logic                      sq_db_ready_o,
  input  qp_db_t                    sq_db_i,
  input  logic                      srqc_wr_valid_i,
  output logic                      srqc_wr_ready_o,
  input  logic [SrqW-1:0]           srqc_wr_srqn_i,
  input  srqc_t                     srqc_wr_i,
  input  logic                      rq_db_valid_i,
  output logic                      rq_db_ready_o,
  input  qp_db_t                    rq_db_i,
  input  logic                      srq_db_valid_i,
  output logic                      srq_db_ready_o,
  input  srq_db_t                   srq_db_i,
  // Requester and gather.
  input  logic                      omt_valid_i,
  output logic                      omt_ready_o,
  input  omt_wr_t                   omt_i,
  input  logic                      left_i,          // strobe: the oldest packet of omt has left, or was dropped
  output lane_ask_t                 lane_ask_o,
  input  ring_age_t                 lane_age_i,
  output logic                      msg_room_o,
  output logic                      ack_upd_valid_o,
  input  logic                      ack_upd_ready_i,
  output ack_upd_t                  ack_upd_o,
  output logic                      rd_placed_valid_o,
  input  logic                      rd_placed_ready_i,
  output logic [QpW-1:0]            rd_placed_o,
  // Messages.
  input  logic                      msg_gather_valid_i,
  output logic                      msg_gather_ready_o,
  input  pipe_msg_t                 msg_gather_i,
  input  logic                      msg_requester_valid_i,
  output logic                      msg_requester_ready_o,
  input  pipe_msg_t                 msg_requester_i,
  input  logic                      msg_doorbell_valid_i,
  output logic                      msg_doorbell_ready_o,
  input  pipe_msg_t                 msg_doorbell_i,
  input  logic                      msg_mgmt_valid_i,
  output logic                      msg_mgmt_ready_o,
  input  pipe_msg_t                 msg_mgmt_i,
  input  logic                      msg_mw_valid_i,
  output logic                      msg_mw_ready_o,
  input  pipe_msg_t                 msg_mw_i,
  output logic                      inv_valid_o,
  output mw_inv_t                   inv_o,
  output logic                      ev_valid_o,
  input  logic                      ev_ready_i,
  output hw_ev_t                    ev_o,
  output logic                      srq_ev_valid_o,
  input  logic                      srq_ev_ready_i,
  output hw_ev_t                    srq_ev_o,
  // What left the header stage.
  input  logic [1:0]                sent_i,          // strobes: a packet of UC, a datagram
  input  logic [QpW-1:0]            sent_qpn_i,
  input  logic [23:0]               sent_psn_i,
  output logic                      sent_full_o,
  input  logic [1:0]                unacked_lost_i,  // the same
  output logic [1:0]                unacked_left_o,
  // Packets.
  input  logic                      rxd_valid_i,
  output logic                      rxd_ready_o,
  input  rxd_t                      rxd_i,
  output logic                      buf_re_o,
  output logic [RxBufW:0]           buf_raddr_o,
  input  beat_t                     buf_rdata_i,
  output logic                      buf_free_o,
  output logic [6:0]                buf_free_beats_o,
  output rx_place_t                 buf_free_place_o,
  // Host memory: lists of WQEs, lists of SRQs, payload, lines of keys and of pages.
  output logic                      list_req_valid_o,
  input  logic                      list_req_ready_i,
  output dma_rd_req_t               list_req_o,
  input  logic                      list_rsp_valid_i,
  output logic                      list_rsp_ready_o,
  input  dma_rd_rsp_t               list_rsp_i,
  output logic                      srq_req_valid_o,
  input  logic                      srq_req_ready_i,
  output dma_rd_req_t               srq_req_o,
  input  logic                      srq_rsp_valid_i,
  output logic                      srq_rsp_ready_o,
  input  dma_rd_rsp_t               srq_rsp_i,
  output logic                      wr_valid_o,
  input  logic                      wr_ready_i,
  output dma_wr_t                   wr_o,
  output logic                      at_req_valid_o,  // atomics
  input  logic                      at_req_ready_i,
  output dma_rd_req_t               at_req_o,
  input  logic                      at_rsp_valid_i,
  output logic                      at_rsp_ready_o,
  input  dma_rd_rsp_t               at_rsp_i,
  output logic                      at_wr_valid_o,
  input  logic                      at_wr_ready_i,
  output dma_wr_t                   at_wr_o,
  input  key_place_t [NumFuncs-1:0] tables_i,
  input  logic [1:0]                forget_valid_i,
  output logic [1:0]                forget_ready_o,
  input  key_forget_t               forget_i,
  output logic [1:0]                line_req_valid_o,
  input  logic [1:0]                line_req_ready_i,
  output dma_rd_req_t [1:0]         line_req_o,
  input  logic [1:0]                line_rsp_valid_i,
  output logic [1:0]                line_rsp_ready_o,
  input  dma_rd_rsp_t [1:0]         line_rsp_i,
  output logic                      cqe_valid_o,
  input  logic                      cqe_ready_i,
  output cqe_job_t                  cqe_o,
  // Answers.
  input  logic [NumPorts-1:0]       ib_i,
  input  logic [NumLanes-1:0]       sl_open_i,
  input  logic [NumRateGroups-1:0]     rate_open_i,
  output logic                      made_valid_o,
  output tx_made_t                  made_o,
  output logic                      txp_valid_o,
  input  logic                      txp_ready_i,
  output txp_t                      txp_o,
  output logic                      seg_valid_o,
  input  logic                      seg_ready_i,
  output seg_t                      seg_o,
  output logic                      ack_valid_o,
  input  logic                      ack_ready_i,
  output txp_t                      ack_o,
  input  logic [15:0]               resp_done_seq_i,
  // For the fence: strobes.
  output logic                      made_read_o,
  output logic                      item_made_o,
  output logic                      refused_o,       // rx_exec has refused something
  output logic                      refusal_done_o,
  // Status and trace.
  output logic                      active_o,        // timers of QPs run
  output logic [63:0]               wake_at_o,
  output rx_strobes_t               strobes_o,
  output logic                      ended_o,
  output rxw_kind_e                 end_kind_o,
  output logic                      end_frees_o,
  output logic                      end_ok_o,
  output logic [11:0]               end_beats_o
);

  // Takers of contexts.
  localparam int unsigned QpcResp = 0, QpcRxCtrl = 1, QpcExec = 2;

  logic           rxw_valid, rxw_ready, rsp_valid, rsp_popped, exec_msg_valid, exec_msg_ready;
  logic [QpW-1:0] rsp_popped_qpn;
  rxw_t           rxw;
  rsp_job_t       rsp;
  pipe_msg_t      exec_msg;
  logic      told_valid, told_ready;  // what nobody acknowledges has left, in order with the gather's errors
  pipe_msg_t told;
  hca_sent u_sent (
    .clk_i(pclk_i[PartRxCtrl]), .rst_i, .done_i(sent_i), .done_qpn_i(sent_qpn_i), .done_psn_i(sent_psn_i),
    .full_o(sent_full_o), .lost_i(unacked_lost_i), .left_o(unacked_left_o),
    .init_i(qpc_wr_valid_i[QpcRxCtrl] && qpc_wr_ready_o[QpcRxCtrl] && qpc_wr_i.init_sq), .init_qpn_i(qpc_wr_i.qpn),
    .err_valid_i(msg_gather_valid_i), .err_ready_o(msg_gather_ready_o), .err_i(msg_gather_i),
    .msg_valid_o(told_valid), .msg_ready_i(told_ready), .msg_o(told)
  );

  logic            srq_look, srq_pop;
  logic [SrqW-1:0] srq_look_srqn;
  srq_head_t       srq_head;
  if (HasSrq) begin : gen_srq
    hca_srq u_srq (
      .clk_i(pclk_i[PartRxCtrl]), .rst_i, .srqc_wr_valid_i, .srqc_wr_ready_o, .srqc_wr_srqn_i, .srqc_wr_i,
      .srq_db_valid_i, .srq_db_ready_o, .srq_db_i, .look_i(srq_look), .look_srqn_i(srq_look_srqn), .head_o(srq_head),
      .pop_i(srq_pop), .req_valid_o(srq_req_valid_o), .req_ready_i(srq_req_ready_i), .req_o(srq_req_o),
      .rsp_valid_i(srq_rsp_valid_i), .rsp_ready_o(srq_rsp_ready_o), .rsp_i(srq_rsp_i), .ev_valid_o(srq_ev_valid_o),
      .ev_ready_i(srq_ev_ready_i), .ev_o(srq_ev_o), .bad_db_cnt_o()
    );
  end else begin : gen_no_srq
    // There is no slot for anybody.
    logic unused_srq;
    assign unused_srq       = ^{srqc_wr_valid_i, srqc_wr_srqn_i, srqc_wr_i, srq_db_valid_i, srq_db_i, srq_look,
                                srq_look_srqn, srq_pop, srq_req_ready_i, srq_rsp_valid_i, srq_rsp_i, srq_ev_ready_i};
    assign srqc_wr_ready_o  = 1'b1;
    assign srq_db_ready_o   = 1'b1;
    assign srq_head         = '0;
    assign {srq_req_valid_o, srq_req_o} = '0;
    assign srq_rsp_ready_o  = 1'b1;
    assign {srq_ev_valid_o, srq_ev_o}   = '0;
  end

  // Context writes behind the requester: whose messages it takes back begins no more.
  hca_rx_ctrl u_rx_ctrl (
    .clk_i(pclk_i[PartRxCtrl]), .rst_i, .now_i, .pkey_tbl_i,
    .qpc_wr_valid_i(qpc_wr_valid_i[QpcRxCtrl] && (!qpc_wr_hold_i || qpc_wr_i.sweep)),
    .qpc_wr_ready_o(qpc_wr_ready_o[QpcRxCtrl]), .qpc_wr_i, .record_o, .quiet_o, .look_valid_i, .look_done_o,
    .look_asks_i, .look_line_i, .look_hint_o, .shut_i, .lines_on_i,
    .miss_valid_o, .park_o, .sq_db_valid_i, .sq_db_ready_o, .sq_db_i, .rq_db_valid_i, .rq_db_ready_o, .rq_db_i,
    .omt_valid_i, .omt_ready_o, .omt_i, .left_i, .lane_ask_o, .lane_age_i, .msg_room_o, .msg_gather_valid_i(told_valid),
    .msg_gather_ready_o(told_ready), .msg_gather_i(told), .msg_requester_valid_i, .msg_requester_ready_o,
    .msg_requester_i, .msg_exec_valid_i(exec_msg_valid), .msg_exec_ready_o(exec_msg_ready), .msg_exec_i(exec_msg),
    .msg_doorbell_valid_i, .msg_doorbell_ready_o, .msg_doorbell_i, .msg_mgmt_valid_i, .msg_mgmt_ready_o, .msg_mgmt_i,
    .msg_mw_valid_i, .msg_mw_ready_o, .msg_mw_i, .inv_valid_o, .inv_o,
    .rxd_valid_i, .rxd_ready_o, .rxd_i, .rxw_valid_o(rxw_valid), .rxw_ready_i(rxw_ready), .rxw_o(rxw),
    .list_req_valid_o, .list_req_ready_i, .list_req_o, .ack_upd_valid_o, .ack_upd_ready_i, .ack_upd_o, .ev_valid_o,
    .ev_ready_i, .ev_o, .rsp_popped_i(rsp_popped), .rsp_popped_qpn_i(rsp_popped_qpn), .active_o, .wake_at_o,
    .strobes_o, .item_made_o, .refusal_done_o, .srq_look_o(srq_look), .srq_look_srqn_o(srq_look_srqn),
    .srq_head_i(srq_head), .srq_pop_o(srq_pop)
  );

  logic   rsp_ready, ex_seg_valid, ex_seg_ready, ex_chunk_valid, ex_chunk_ready;
  seg_t   ex_seg;
  chunk_t ex_chunk;
  hca_rx_exec u_rx_exec (
    .clk_i(pclk_i[PartRxExec]), .rst_i, .qpc_wr_valid_i(qpc_wr_valid_i[QpcExec]),
    .qpc_wr_ready_o(qpc_wr_ready_o[QpcExec]), .qpc_wr_i, .rxw_valid_i(rxw_valid), .rxw_ready_o(rxw_ready),
    .rxw_i(rxw), .list_valid_i(list_rsp_valid_i), .list_ready_o(list_rsp_ready_o), .list_i(list_rsp_i), .buf_re_o,
    .buf_raddr_o, .buf_rdata_i, .buf_free_o, .buf_free_beats_o, .buf_free_place_o, .seg_valid_o(ex_seg_valid),
    .seg_ready_i(ex_seg_ready), .seg_o(ex_seg), .chunk_valid_i(ex_chunk_valid), .chunk_ready_o(ex_chunk_ready),
    .chunk_i(ex_chunk), .at_req_valid_o, .at_req_ready_i, .at_req_o, .at_rsp_valid_i, .at_rsp_ready_o, .at_rsp_i,
    .at_wr_valid_o, .at_wr_ready_i, .at_wr_o, .wr_valid_o, .wr_ready_i, .wr_o, .rsp_valid_o(rsp_valid),
    .rsp_ready_i(rsp_ready), .rsp_o(rsp), .cqe_valid_o, .cqe_ready_i, .cqe_o, .err_valid_o(exec_msg_valid),
    .err_ready_i(exec_msg_ready), .err_o(exec_msg), .rd_placed_valid_o, .rd_placed_ready_i, .rd_placed_o,
    .ev_end_valid_o(ended_o), .ev_end_kind_o(end_kind_o), .ev_end_frees_o(end_frees_o), .ev_end_ok_o(end_ok_o),
    .ev_end_beats_o(end_beats_o)
  );

  hca_xlate #(.ChunkBytes(4096)) u_exec_xlate (
    .clk_i(pclk_i[PartRxExec]), .rst_i, .seg_valid_i(ex_seg_valid), .seg_ready_o(ex_seg_ready), .seg_i(ex_seg),
    .chunk_valid_o(ex_chunk_valid), .chunk_ready_i(ex_chunk_ready), .chunk_o(ex_chunk), .tables_i, .forget_valid_i,
    .forget_ready_o, .forget_i, .line_req_valid_o, .line_req_ready_i, .line_req_o, .line_rsp_valid_i,
    .line_rsp_ready_o, .line_rsp_i
  );

  hca_resp_sched u_resp_sched (
    .clk_i(pclk_i[PartRespSched]), .rst_i, .ib_i, .sl_open_i, .rate_open_i, .now_i, .cc_pace_i, .cc_rate_i,
    .cc_sent_valid_o, .cc_sent_ready_i, .cc_sent_o, .held_o, .made_valid_o, .made_o, .made_read_o,
    .qpc_wr_valid_i(qpc_wr_valid_i[QpcResp]), .qpc_wr_ready_o(qpc_wr_ready_o[QpcResp]), .qpc_wr_i,
    .rsp_valid_i(rsp_valid), .rsp_ready_o(rsp_ready), .rsp_i(rsp), .txp_valid_o, .txp_ready_i, .txp_o, .seg_valid_o,
    .seg_ready_i, .seg_o, .ack_valid_o, .ack_ready_i, .ack_o, .resp_done_seq_i, .rsp_popped_valid_o(rsp_popped),
    .rsp_popped_qpn_o(rsp_popped_qpn)
  );
  assign refused_o = exec_msg_valid && exec_msg_ready;

endmodule
