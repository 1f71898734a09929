// The channel adapter: wiring only, vendor-neutral. Host port (MMIO, DMA reads, ordered DMA writes), one physical
// stream each way per port, the firmware bus. One clock. What each block does: hw/README.md.
module hca_core
  import hca_pkg::*;
  import hca_host_pkg::*;
  import hca_link_pkg::*;
  import hca_mad_pkg::*;
(
    input  logic         clk_i,
    input  logic         rst_i,
    input  logic [63:0]  now_i,                // cycles since power on
    input  logic [NumParts-1:0] part_en_i,     // all ones; a simulator stops clocks of parts in vain (hca_part_clock)
    // Host: MMIO of BAR0. Writes: address is a multiple of 8, bytes by strobe. Reads: 32 bits.
    input  logic         mmio_wr_valid_i,
    output logic         mmio_wr_ready_o,
    input  logic [7:0]   mmio_wr_func_i,
    input  logic [15:0]  mmio_wr_addr_i,
    input  logic [63:0]  mmio_wr_data_i,
    input  logic [7:0]   mmio_wr_strb_i,
    input  logic         mmio_rd_valid_i,
    output logic         mmio_rd_ready_o,
    input  logic [7:0]   mmio_rd_func_i,
    input  logic [15:0]  mmio_rd_addr_i,
    output logic         mmio_rdata_valid_o,
    output logic [31:0]  mmio_rdata_o,
    // Host: DMA reads.
    output logic         hrd_req_valid_o,
    input  logic         hrd_req_ready_i,
    output logic [7:0]   hrd_req_tag_o,
    output logic [7:0]   hrd_req_func_o,
    output logic [63:0]  hrd_req_addr_o,
    output logic [9:0]   hrd_req_len_o,
    input  logic         hrd_rsp_valid_i,
    input  logic [7:0]   hrd_rsp_tag_i,
    input  logic         hrd_rsp_last_i,
    input  logic         hrd_rsp_err_i,
    input  logic [511:0] hrd_rsp_data_i,
    // Host: DMA writes and MSI-X, one ordered stream.
    output logic         hwr_valid_o,
    input  logic         hwr_ready_i,
    output logic         hwr_msix_o,
    output logic         hwr_last_o,
    output logic [7:0]   hwr_func_o,
    output logic [63:0]  hwr_addr_o,
    output logic [63:0]  hwr_strb_o,
    output logic [511:0] hwr_data_o,
    // Wire of the first port.
    output logic         mac_tx_valid_o,
    input  logic         mac_tx_ready_i,
    output logic         mac_tx_link_o,       // a link packet (InfiniBand flow control)
    output logic         mac_tx_last_o,
    output logic [6:0]   mac_tx_len_o,
    output logic [511:0] mac_tx_data_o,
    input  logic         mac_up_i,            // the physical link is up
    input  logic         mac_rx_valid_i,
    input  logic         mac_rx_err_i,        // with any beat: a symbol error in this packet
    input  logic         mac_rx_link_i,
    input  logic         mac_rx_last_i,
    input  logic [6:0]   mac_rx_len_i,
    input  logic [511:0] mac_rx_data_i,
    // Wire of the second port. Without it: mac1_up_i, mac1_rx_valid_i 0, mac1_tx_ready_i 1.
    input  logic [1:0]   num_ports_i,         // strap: ports fitted, 1 or 2
    output logic         mac1_tx_valid_o,
    input  logic         mac1_tx_ready_i,
    output logic         mac1_tx_link_o,
    output logic         mac1_tx_last_o,
    output logic [6:0]   mac1_tx_len_o,
    output logic [511:0] mac1_tx_data_o,
    input  logic         mac1_up_i,
    input  logic         mac1_rx_valid_i,
    input  logic         mac1_rx_err_i,
    input  logic         mac1_rx_link_i,
    input  logic         mac1_rx_last_i,
    input  logic [6:0]   mac1_rx_len_i,
    input  logic [511:0] mac1_rx_data_i,
    // Firmware bus.
    input  logic         fw_req_i,
    input  logic         fw_we_i,
    input  logic [19:0]  fw_addr_i,
    input  logic [31:0]  fw_wdata_i,
    output logic         fw_req_stall_o,
    output logic         fw_rd_ack_o,
    output logic         fw_wr_ack_o,
    output logic [31:0]  fw_rdata_o,
    output logic         fw_irq_o,
    // Activity.
    output logic         timer_active_o,       // QPs' timers run; nothing changes by itself before
    output logic [63:0]  wake_at_o,            // ... this cycle
    output logic         link_active_o,        // and nothing on the links before
    output logic [63:0]  link_wake_at_o,       // ... this one
    // Trace: no effect on the card (hca_trace.sv).
    output logic [10:0]        trace_strobe_o,
    output logic [23:0]        trace_qpc_qpn_o,
    output logic               trace_qpc_init_o,
    output logic [7:0]         trace_qpc_func_o,
    output logic [23:0]        trace_qpc_dest_qpn_o,
    output logic [63:0]        trace_qpc_sq_base_o,
    output logic [7:0]         trace_qpc_sq_logs_o,
    output logic [31:0]        trace_qpc_cqns_o,
    output logic [QpW-1:0]     trace_omt_qpn_o,
    output logic [31:0]        trace_omt_wqe_index_o,
    output logic [7:0]         trace_omt_opcode_o,
    output logic               trace_omt_signaled_o,
    output logic [23:0]        trace_omt_last_psn_o,
    output logic [31:0]        trace_omt_len_o,
    output logic [QpW-1:0]     trace_emit_qpn_o,
    output logic [23:0]        trace_emit_psn_o,
    output logic [QpW-1:0]     trace_sent_qpn_o,
    output logic [7:0]         trace_sent_opcode_o,
    output logic [23:0]        trace_sent_psn_o,
    output logic [23:0]        trace_rxd_qpn_o,
    output logic [7:0]         trace_rxd_opcode_o,
    output logic [23:0]        trace_rxd_psn_o,
    output logic [7:0]         trace_rxd_syndrome_o,
    output logic [2:0]         trace_end_kind_o,
    output logic               trace_end_frees_o,
    output logic               trace_end_ok_o,
    output logic [11:0]        trace_end_beats_o,
    output logic [QpW-1:0]     trace_upd_qpn_o,
    output logic [31:0]        trace_upd_una_wqe_o
);
  // Takers of QP contexts.
  localparam int unsigned QpcReq = 0, QpcResp = 1, QpcRxCtrl = 2, QpcExec = 3, QpcTx = 4, QpcDb = 5, NumQpc = 6;
  // Sources of pipeline messages.
  localparam int unsigned MsgGather = 0, MsgReq = 1, MsgDb = 2, MsgMgmt = 3, MsgMw = 4, NumMsg = 5;
  // Sources of events (the management block adds its own).
  localparam int unsigned EvRxCtrl = 0, EvDb = 1, EvCq = 2, EvEq = 3, EvSrq = 4, EvLines = 5, NumEv = 6;

  // ---- Clocks of the parts -------------------------------------------------------------------------
  logic [NumParts-1:0] pclk;
  for (genvar p = 0; p < NumParts; p++) begin : gen_part
    hca_part_clock u_clock (.clk_i, .en_i(part_en_i[p]), .clk_o(pclk[p]));
  end

  // ---- Host: reads and writes ----------------------------------------------------------------------
  logic [NumRd-1:0]        rreq_valid, rreq_ready, rrsp_valid, rrsp_ready;
  dma_rd_req_t [NumRd-1:0] rreq;
  dma_rd_rsp_t [NumRd-1:0] rrsp;
  logic                    rd_tick, gather_rd_busy, mreq_valid, mreq_ready, mrsp_valid;
  logic [5:0]              mreq_tag, mrsp_tag;
  dma_rd_req_t             mreq, hrd_req;
  dma_rd_rsp_t             mrsp;
  logic [NumWr-1:0]        wr_valid, wr_ready;
  dma_wr_t [NumWr-1:0]     wr;
  dma_wr_t                 hwr;
  logic [1:0]              qps_held;
  logic                    qp_timers, cq_timers, dm_wr_valid, dm_wr_ready;
  dm_page_t                  dm_wr;
  logic [63:0]             qp_wake_at, cq_wake_at;
  hca_host u_host (
    .clk_i, .pclk_i(pclk), .rst_i, .now_i, .rd_tick_o(rd_tick), .rreq_valid_i(rreq_valid), .rreq_ready_o(rreq_ready),
    .rreq_i(rreq), .rrsp_valid_o(rrsp_valid), .rrsp_ready_i(rrsp_ready), .rrsp_o(rrsp), .gather_busy_i(gather_rd_busy),
    .gather_req_valid_i(mreq_valid), .gather_req_ready_o(mreq_ready), .gather_req_i(mreq), .gather_req_tag_i(mreq_tag),
    .gather_rsp_valid_o(mrsp_valid), .gather_rsp_tag_o(mrsp_tag), .gather_rsp_o(mrsp), .wr_valid_i(wr_valid),
    .wr_ready_o(wr_ready), .wr_i(wr), .hrd_req_valid_o, .hrd_req_ready_i, .hrd_req_tag_o, .hrd_req_o(hrd_req),
    .hrd_rsp_valid_i, .hrd_rsp_tag_i, .hrd_rsp_i('{last: hrd_rsp_last_i, err: hrd_rsp_err_i, data: hrd_rsp_data_i}),
    .hwr_valid_o, .hwr_ready_i, .hwr_o(hwr), .dm_wr_valid_i(dm_wr_valid), .dm_wr_ready_o(dm_wr_ready), .dm_wr_i(dm_wr),
    .held_i(qps_held != '0), .timer_active_i({cq_timers, qp_timers}), .timer_wake_at_i({cq_wake_at, qp_wake_at}),
    .active_o(timer_active_o), .wake_at_o
  );
  assign {hrd_req_func_o, hrd_req_addr_o, hrd_req_len_o} = hrd_req;
  assign {hwr_msix_o, hwr_last_o, hwr_func_o, hwr_addr_o, hwr_strb_o, hwr_data_o} = hwr;
  assign {rreq_valid[RdGather], rrsp_ready[RdGather], rreq[RdGather]} = '0;   // the gather's reads come cut

  // ---- Host: MMIO --------------------------------------------------------------------------------
  // Page 0: registers; hca_doorbell has the others.
  logic reg_wr_ready, db_wr_ready, is_reg, push_wr_valid;
  assign is_reg = mmio_wr_addr_i[15:12] == 4'd0;
  assign mmio_wr_ready_o = is_reg ? reg_wr_ready : db_wr_ready;

  logic [NumQpc-1:0] qpc_valid, qpc_ready, fw_qpc_valid, fw_qpc_ready;
  qpc_wr_t           qpc_wr, fw_qpc; qpc_record_t record;
  logic [NumMsg-1:0] msg_valid, msg_ready;
  pipe_msg_t         msg [NumMsg] /* verilator split_var */;
  logic [NumEv-1:0]  ev_valid, ev_ready;
  hw_ev_t            ev [NumEv];

  logic   sq_db_valid, sq_db_ready, rq_db_valid, rq_db_ready, cq_db_valid, cq_db_ready, eq_db_valid, eq_db_ready;
  push_wr_t push_wr; qp_db_t sq_db, rq_db; cq_db_t cq_db; eq_db_t eq_db; srq_db_t srq_db;
  logic [1:0] sq_db_fork_valid, sq_db_fork_ready;
  logic         srq_db_valid, srq_db_ready, db_miss_valid, db_miss_ready, again_valid, again_ready, door_free,
                quiet, look_valid, look_done, look_asks, pkt_miss, record_wr_valid, record_wr_ready, lines_held,
                lines_room, sq_req_valid, sq_req_ready, sq_rsp_valid, sq_rsp_ready;
  line_want_t   db_miss, again; line_shut_t line_shut; lines_cfg_t lines_cfg; line_hint_t look_hint;
  line_holder_t line_holder; record_wr_t record_wr; dma_rd_req_t sq_req; logic [7:0] fence_enter, fence_leave;
  logic [QpW-1:0] look_line;
  hca_doorbell u_doorbell (
    .clk_i(pclk[PartDoorbell]), .rst_i, .mmio_wr_valid_i(mmio_wr_valid_i && !is_reg), .mmio_wr_ready_o(db_wr_ready),
    .mmio_wr_func_i, .mmio_wr_addr_i, .mmio_wr_data_i, .mmio_wr_strb_i, .push_wr_valid_o(push_wr_valid),
    .push_wr_o(push_wr), .qpc_wr_valid_i(qpc_valid[QpcDb]), .qpc_wr_ready_o(qpc_ready[QpcDb]), .qpc_wr_i(qpc_wr),
    .shut_i(line_shut), .lines_on_i(lines_cfg.enable), .miss_valid_o(db_miss_valid), .miss_ready_i(db_miss_ready),
    .miss_o(db_miss), .again_valid_i(again_valid), .again_ready_o(again_ready), .again_i(again), .free_o(door_free),
    .sq_db_valid_o(sq_db_valid), .sq_db_ready_i(sq_db_ready), .sq_db_o(sq_db), .rq_db_valid_o(rq_db_valid),
    .rq_db_ready_i(rq_db_ready), .rq_db_o(rq_db), .cq_db_valid_o(cq_db_valid), .cq_db_ready_i(cq_db_ready),
    .cq_db_o(cq_db), .eq_db_valid_o(eq_db_valid), .eq_db_ready_i(eq_db_ready), .eq_db_o(eq_db),
    .srq_db_valid_o(srq_db_valid), .srq_db_ready_i(srq_db_ready), .srq_db_o(srq_db), .msg_valid_o(msg_valid[MsgDb]),
    .msg_ready_i(msg_ready[MsgDb]), .msg_o(msg[MsgDb]), .ev_valid_o(ev_valid[EvDb]), .ev_ready_i(ev_ready[EvDb]),
    .ev_o(ev[EvDb]), .bad_db_cnt_o()
  );

  // The send doorbell goes to the requester (work) and to rx_ctrl (how far to flush).
  hca_fork #(.N(2)) u_sq_db_fork (
    .clk_i, .rst_i, .in_valid_i(sq_db_valid), .in_ready_o(sq_db_ready), .out_valid_o(sq_db_fork_valid),
    .out_ready_i(sq_db_fork_ready)
  );

  // ---- Keys ----------------------------------------------------------------------------------------
  localparam int unsigned KeyGather = 0, KeyExec = 1, LnGather = RdLines, LnExec = RdLines + 2;
  key_place_t                key_wr;
  key_place_t [NumFuncs-1:0] key_tables;
  logic [FuncIdxW-1:0]       key_wr_func;
  logic                      key_wr_valid, fw_forget_valid, fw_forget_ready, mw_op_valid, mw_op_ready, inv_valid;
  key_forget_t               fw_forget, forget;
  logic [1:0][1:0]           forget_valid, forget_ready;
  mw_op_t  mw_op;
  mw_inv_t inv;

  // Congestion control: what QPs have sent, and their rates.
  cc_pace_t [NumPorts-1:0] cc_pace;
  cc_rate_wr_t             cc_rate;
  cc_sent_t [1:0]          cc_sent;     // requester, responder
  logic [1:0]              cc_sent_valid, cc_sent_ready;

  // Rates. What the two schedulers have made: [0] the response scheduler, [1] the requester.
  logic [1:0]                 made_valid, gather_left;
  tx_made_t [1:0]             made;
  logic [1:0][NumRateGroups-1:0] rate_open;
  hca_static_rate u_static_rate (
    .clk_i(pclk[PartRate]), .rst_i, .made_valid_i(made_valid), .made_i(made), .open_o(rate_open), .busy_o()
  );

  // ---- Transmit --------------------------------------------------------------------------------------
  logic [NumPorts-1:0] ib;
  logic [NumLanes-1:0] sl_open; eth_class_t [NumPorts-1:0] eth_class;
  logic [1:0] src_txp_valid, src_txp_ready, src_seg_valid, src_seg_ready, unacked_left, unacked_lost;
  txp_t [1:0] src_txp;
  seg_t [1:0] src_seg;
  logic       txp_valid, txp_ready, pay_valid, pay_ready, ack_valid, ack_ready;
  txp_t       txp, ack;
  pay_t       pay;
  logic       upd_valid, upd_ready, omt_valid, omt_ready, msg_room, rd_placed_valid, rd_placed_ready;
  omt_wr_t    omt;
  ack_upd_t   upd;
  logic [QpW-1:0] rd_placed, emit_qpn; tx_round_t round;
  av_wr_t         av_wr;
  gid_wr_t        gid_wr;
  group_wr_t      group_wr; rule_wr_t rule_wr; logic rule_busy; rss_wr_t rss_wr; rss_qp_wr_t rss_qp_wr;
  logic           group_wr_valid, group_wr_ready, sent_full, emit, fetch_begun, made_read, item_made, refusal_done;
  logic [23:0]    emit_psn;

  hca_requester u_requester (
    .clk_i(pclk[PartRequester]), .rst_i, .ib_i(ib), .sl_open_i(sl_open), .class_i(eth_class), .push_wr_i(push_wr),
    .rate_open_i(rate_open[1]), .made_valid_o(made_valid[1]), .made_o(made[1]), .push_wr_valid_i(push_wr_valid), .now_i,
    .cc_pace_i(cc_pace), .cc_rate_i(cc_rate), .cc_sent_valid_o(cc_sent_valid[0]), .cc_sent_ready_i(cc_sent_ready[0]),
    .cc_sent_o(cc_sent[0]), .held_o(qps_held[0]), .qpc_wr_valid_i(qpc_valid[QpcReq]),
    .qpc_wr_ready_o(qpc_ready[QpcReq]), .qpc_wr_i(qpc_wr), .sq_db_valid_i(sq_db_fork_valid[0]),
    .sq_db_ready_o(sq_db_fork_ready[0]), .sq_db_i(sq_db), .ack_upd_valid_i(upd_valid), .ack_upd_ready_o(upd_ready),
    .ack_upd_i(upd), .rd_placed_valid_i(rd_placed_valid), .rd_placed_ready_o(rd_placed_ready), .rd_placed_i(rd_placed),
    .fetch_req_valid_o(sq_req_valid), .fetch_req_ready_i(sq_req_ready), .fetch_req_o(sq_req),
    .fetch_rsp_valid_i(sq_rsp_valid), .fetch_rsp_ready_o(sq_rsp_ready), .fetch_rsp_i(rrsp[RdSq]),
    .fetch_begun_o(fetch_begun), .txp_valid_o(src_txp_valid[0]), .txp_ready_i(src_txp_ready[0]), .txp_o(src_txp[0]),
    .seg_valid_o(src_seg_valid[0]), .seg_ready_i(src_seg_ready[0]), .seg_o(src_seg[0]), .omt_valid_o(omt_valid),
    .omt_ready_i(omt_ready), .omt_o(omt), .mw_valid_o(mw_op_valid), .mw_ready_i(mw_op_ready), .mw_o(mw_op),
    .msg_room_i(msg_room), .err_valid_o(msg_valid[MsgReq]), .err_ready_i(msg_ready[MsgReq]), .err_o(msg[MsgReq]),
    .av_wr_o(av_wr), .av_left_i(unacked_left[0]), .ev_emit_valid_o(emit), .ev_emit_qpn_o(emit_qpn), .ev_emit_opcode_o(),
    .ev_emit_psn_o(emit_psn), .round_o(round)
  );

  hca_gather u_gather (
    .clk_i(pclk[PartGather]), .rst_i, .txp_valid_i(src_txp_valid), .txp_ready_o(src_txp_ready), .txp_i(src_txp),
    .seg_valid_i(src_seg_valid), .seg_ready_o(src_seg_ready), .seg_i(src_seg), .txp_valid_o(txp_valid),
    .txp_ready_i(txp_ready), .txp_o(txp), .pay_valid_o(pay_valid), .pay_ready_i(pay_ready), .pay_o(pay),
    .err_valid_o(msg_valid[MsgGather]), .err_ready_i(msg_ready[MsgGather]), .err_o(msg[MsgGather]),
    .left_o(gather_left), .lost_o(unacked_lost), .tick_i(rd_tick), .rd_busy_o(gather_rd_busy), .tables_i(key_tables),
    .forget_valid_i(forget_valid[KeyGather]), .forget_ready_o(forget_ready[KeyGather]), .forget_i(forget),
    .line_req_valid_o(rreq_valid[LnGather+:2]), .line_req_ready_i(rreq_ready[LnGather+:2]),
    .line_req_o(rreq[LnGather+:2]), .line_rsp_valid_i(rrsp_valid[LnGather+:2]),
    .line_rsp_ready_o(rrsp_ready[LnGather+:2]), .line_rsp_i(rrsp[LnGather+:2]), .mreq_valid_o(mreq_valid),
    .mreq_ready_i(mreq_ready), .mreq_o(mreq), .mreq_tag_o(mreq_tag), .mrsp_valid_i(mrsp_valid), .mrsp_tag_i(mrsp_tag),
    .mrsp_i(mrsp)
  );

  // ---- Ports -----------------------------------------------------------------------------------------
  port_cfg_t [NumPorts-1:0]  port_cfg;
  logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl;
  logic [15:0]               resp_done_seq;
  logic                      sent; txp_t sent_txp;
  logic              rxd_valid, rxd_ready, buf_re, buf_free, park, park_valid, park_ready, back_valid, back_ready;
  rxd_t              rxd;
  logic [RxBufW:0]   buf_raddr;
  beat_t             buf_rdata;
  logic [6:0]        buf_free_beats; rx_place_t buf_free_place;
  park_want_t        park_want; logic [ParkW-1:0] back_slot;
  rx_strobes_t       rx_strobes;
  link_wr_t          link_wr;
  logic [8:0]        link_stat_addr; logic [31:0] link_stat_data;
  mad_req_t          mad_req; mad_rsp_t mad_rsp;
  logic [NumPorts-1:0] link_event;
  counter_req_t counter_req; logic [31:0] counter_data;
  logic [NumPorts-1:0] phy_tx_valid; phy_t phy_tx [NumPorts], phy_rx [NumPorts];
  lane_ask_t           lane_ask; ring_age_t lane_age;

  hca_ports u_ports (
    .clk_i, .pclk_i(pclk[PartCounters:PartTxWire]), .rst_i, .now_i, .port_cfg_i(port_cfg), .pkey_tbl_i(pkey_tbl),
    .link_wr_i(link_wr), .av_wr_i(av_wr), .gid_wr_i(gid_wr), .rule_wr_i(rule_wr), .rule_busy_o(rule_busy),
    .rss_wr_i(rss_wr), .rss_qp_wr_i(rss_qp_wr), .group_wr_valid_i(group_wr_valid), .group_wr_ready_o(group_wr_ready),
    .group_wr_i(group_wr), .qpc_wr_valid_i(qpc_valid[QpcTx]), .qpc_wr_ready_o(qpc_ready[QpcTx]), .qpc_wr_i(qpc_wr),
    .ack_valid_i(ack_valid), .ack_ready_o(ack_ready), .ack_i(ack), .txp_hold_i(sent_full), .txp_valid_i(txp_valid),
    .txp_ready_o(txp_ready), .txp_i(txp), .pay_valid_i(pay_valid), .pay_ready_o(pay_ready), .pay_i(pay),
    .resp_done_seq_o(resp_done_seq), .sent_o(sent), .sent_txp_o(sent_txp), .upd_i(upd_valid && upd_ready),
    .upd_data_i(upd), .cc_sent_valid_i(cc_sent_valid), .cc_sent_ready_o(cc_sent_ready), .cc_sent_i(cc_sent),
    .cc_pace_o(cc_pace), .cc_rate_o(cc_rate), .ib_o(ib), .class_o(eth_class), .sl_open_o(sl_open),
    .made_valid_i(made_valid), .made_i(made), .left_i({gather_left[0], gather_left[1]}), .lane_ask_i(lane_ask),
    .lane_age_o(lane_age), .round_i(round), .rxd_valid_o(rxd_valid), .rxd_ready_i(rxd_ready), .rxd_o(rxd),
    .buf_re_i(buf_re), .buf_raddr_i(buf_raddr), .buf_rdata_o(buf_rdata), .buf_free_i(buf_free),
    .buf_free_beats_i(buf_free_beats), .buf_free_place_i(buf_free_place), .shut_i(line_shut), .park_i(park),
    .park_valid_o(park_valid), .park_ready_i(park_ready), .park_o(park_want), .back_valid_i(back_valid),
    .back_ready_o(back_ready), .back_slot_i(back_slot), .phy_tx_valid_o(phy_tx_valid), .phy_tx_o(phy_tx),
    .phy_tx_ready_i(NumPorts'({mac1_tx_ready_i, mac_tx_ready_i})), .phy_rx_i(phy_rx),
    .phy_up_i(NumPorts'({mac1_up_i, mac_up_i})), .phy_rx_valid_i(NumPorts'({mac1_rx_valid_i, mac_rx_valid_i})),
    .phy_rx_err_i(NumPorts'({mac1_rx_err_i, mac_rx_err_i})), .stat_addr_i(link_stat_addr), .stat_data_o(link_stat_data),
    .rx_strobes_i(rx_strobes), .mad_req_i(mad_req), .mad_rsp_o(mad_rsp), .counter_req_i(counter_req),
    .counter_data_o(counter_data), .link_event_o(link_event), .active_o(link_active_o), .wake_at_o(link_wake_at_o)
  );
  assign phy_rx[0] = '{link: mac_rx_link_i, last: mac_rx_last_i, len_bytes: mac_rx_len_i, data: mac_rx_data_i};
  assign mac_tx_valid_o = phy_tx_valid[0];
  assign {mac_tx_link_o, mac_tx_last_o, mac_tx_len_o, mac_tx_data_o} = phy_tx[0];
  if (NumPorts > 1) begin : gen_second
    assign phy_rx[1] = '{link: mac1_rx_link_i, last: mac1_rx_last_i, len_bytes: mac1_rx_len_i, data: mac1_rx_data_i};
    assign mac1_tx_valid_o = phy_tx_valid[1];
    assign {mac1_tx_link_o, mac1_tx_last_o, mac1_tx_len_o, mac1_tx_data_o} = phy_tx[1];
  end else begin : gen_one
    logic unused_second;
    assign unused_second = ^{mac1_rx_link_i, mac1_rx_last_i, mac1_rx_len_i, mac1_rx_data_i, mac1_tx_ready_i,
                             mac1_up_i, mac1_rx_valid_i, mac1_rx_err_i};
    assign {mac1_tx_valid_o, mac1_tx_link_o, mac1_tx_last_o, mac1_tx_len_o, mac1_tx_data_o} = '0;
  end

  // ---- Receive -----------------------------------------------------------------------------------------
  logic        cqe_valid, cqe_ready, refused, ended, end_frees, end_ok;
  cqe_job_t    cqe;
  rxw_kind_e   end_kind;
  logic [11:0] end_beats;
  logic            srqc_valid, srqc_ready;
  logic [SrqW-1:0] srqc_srqn;
  srqc_t           srqc;
  hca_receive u_receive (
    .pclk_i(pclk[PartRespSched:PartRxCtrl]), .rst_i, .now_i, .pkey_tbl_i(pkey_tbl), .cc_pace_i(cc_pace),
    .cc_rate_i(cc_rate), .cc_sent_valid_o(cc_sent_valid[1]), .cc_sent_ready_i(cc_sent_ready[1]), .cc_sent_o(cc_sent[1]),
    .held_o(qps_held[1]), .qpc_wr_valid_i({qpc_valid[QpcExec], qpc_valid[QpcRxCtrl], qpc_valid[QpcResp]}),
    .qpc_wr_ready_o({qpc_ready[QpcExec], qpc_ready[QpcRxCtrl], qpc_ready[QpcResp]}), .qpc_wr_i(qpc_wr),
    .record_o(record), .quiet_o(quiet), .look_valid_i(look_valid), .look_done_o(look_done), .look_asks_i(look_asks),
    .look_line_i(look_line), .look_hint_o(look_hint), .shut_i(line_shut), .lines_on_i(lines_cfg.enable),
    .miss_valid_o(pkt_miss), .park_o(park), .qpc_wr_hold_i(qpc_valid[QpcReq]), .sq_db_valid_i(sq_db_fork_valid[1]),
    .sq_db_ready_o(sq_db_fork_ready[1]), .sq_db_i(sq_db), .rq_db_valid_i(rq_db_valid), .rq_db_ready_o(rq_db_ready),
    .rq_db_i(rq_db), .omt_valid_i(omt_valid), .omt_ready_o(omt_ready), .omt_i(omt), .left_i(gather_left[0]),
    .lane_ask_o(lane_ask), .lane_age_i(lane_age), .msg_room_o(msg_room), .ack_upd_valid_o(upd_valid),
    .ack_upd_ready_i(upd_ready), .ack_upd_o(upd), .rd_placed_valid_o(rd_placed_valid),
    .rd_placed_ready_i(rd_placed_ready), .rd_placed_o(rd_placed), .msg_gather_valid_i(msg_valid[MsgGather]),
    .msg_gather_ready_o(msg_ready[MsgGather]), .msg_gather_i(msg[MsgGather]), .msg_requester_valid_i(msg_valid[MsgReq]),
    .msg_requester_ready_o(msg_ready[MsgReq]), .msg_requester_i(msg[MsgReq]), .msg_doorbell_valid_i(msg_valid[MsgDb]),
    .msg_doorbell_ready_o(msg_ready[MsgDb]), .msg_doorbell_i(msg[MsgDb]), .msg_mgmt_valid_i(msg_valid[MsgMgmt]),
    .msg_mgmt_ready_o(msg_ready[MsgMgmt]), .msg_mgmt_i(msg[MsgMgmt]), .msg_mw_valid_i(msg_valid[MsgMw]),
    .msg_mw_ready_o(msg_ready[MsgMw]), .msg_mw_i(msg[MsgMw]), .inv_valid_o(inv_valid), .inv_o(inv),
    .ev_valid_o(ev_valid[EvRxCtrl]), .ev_ready_i(ev_ready[EvRxCtrl]), .ev_o(ev[EvRxCtrl]),
    .sent_i({sent_txp.unacked && !sent_txp.datagram, sent_txp.datagram} & {2{sent}}), .sent_qpn_i(sent_txp.qpn),
    .sent_psn_i(sent_txp.psn), .sent_full_o(sent_full), .unacked_lost_i(unacked_lost), .unacked_left_o(unacked_left),
    .rxd_valid_i(rxd_valid), .rxd_ready_o(rxd_ready), .rxd_i(rxd), .buf_re_o(buf_re), .buf_raddr_o(buf_raddr),
    .buf_rdata_i(buf_rdata), .buf_free_o(buf_free), .buf_free_beats_o(buf_free_beats),
    .buf_free_place_o(buf_free_place), .list_req_valid_o(rreq_valid[RdList]), .list_req_ready_i(rreq_ready[RdList]),
    .list_req_o(rreq[RdList]), .list_rsp_valid_i(rrsp_valid[RdList]), .list_rsp_ready_o(rrsp_ready[RdList]),
    .list_rsp_i(rrsp[RdList]), .at_req_valid_o(rreq_valid[RdAtomic]), .at_req_ready_i(rreq_ready[RdAtomic]),
    .at_req_o(rreq[RdAtomic]), .at_rsp_valid_i(rrsp_valid[RdAtomic]), .at_rsp_ready_o(rrsp_ready[RdAtomic]),
    .at_rsp_i(rrsp[RdAtomic]), .at_wr_valid_o(wr_valid[WrAtomic]), .at_wr_ready_i(wr_ready[WrAtomic]),
    .at_wr_o(wr[WrAtomic]), .wr_valid_o(wr_valid[WrExec]), .wr_ready_i(wr_ready[WrExec]), .wr_o(wr[WrExec]),
    .tables_i(key_tables), .forget_valid_i(forget_valid[KeyExec]), .forget_ready_o(forget_ready[KeyExec]),
    .forget_i(forget), .line_req_valid_o(rreq_valid[LnExec+:2]), .line_req_ready_i(rreq_ready[LnExec+:2]),
    .line_req_o(rreq[LnExec+:2]), .line_rsp_valid_i(rrsp_valid[LnExec+:2]), .line_rsp_ready_o(rrsp_ready[LnExec+:2]),
    .line_rsp_i(rrsp[LnExec+:2]), .srqc_wr_valid_i(srqc_valid), .srqc_wr_ready_o(srqc_ready),
    .srqc_wr_srqn_i(srqc_srqn), .srqc_wr_i(srqc), .srq_db_valid_i(srq_db_valid), .srq_db_ready_o(srq_db_ready),
    .srq_db_i(srq_db), .srq_req_valid_o(rreq_valid[RdSrq]), .srq_req_ready_i(rreq_ready[RdSrq]),
    .srq_req_o(rreq[RdSrq]), .srq_rsp_valid_i(rrsp_valid[RdSrq]), .srq_rsp_ready_o(rrsp_ready[RdSrq]),
    .srq_rsp_i(rrsp[RdSrq]), .srq_ev_valid_o(ev_valid[EvSrq]), .srq_ev_ready_i(ev_ready[EvSrq]), .srq_ev_o(ev[EvSrq]),
    .cqe_valid_o(cqe_valid), .cqe_ready_i(cqe_ready), .cqe_o(cqe), .ib_i(ib), .sl_open_i(sl_open),
    .rate_open_i(rate_open[0]), .made_valid_o(made_valid[0]), .made_o(made[0]), .txp_valid_o(src_txp_valid[1]),
    .txp_ready_i(src_txp_ready[1]), .txp_o(src_txp[1]), .seg_valid_o(src_seg_valid[1]), .seg_ready_i(src_seg_ready[1]),
    .seg_o(src_seg[1]), .ack_valid_o(ack_valid), .ack_ready_i(ack_ready), .ack_o(ack), .resp_done_seq_i(resp_done_seq),
    .made_read_o(made_read), .item_made_o(item_made), .refused_o(refused), .refusal_done_o(refusal_done),
    .active_o(qp_timers), .wake_at_o(qp_wake_at), .strobes_o(rx_strobes), .ended_o(ended), .end_kind_o(end_kind),
    .end_frees_o(end_frees), .end_ok_o(end_ok), .end_beats_o(end_beats)
  );

  // ---- Completions -------------------------------------------------------------------------------------
  logic [1:0]     eqe_valid, eqe_ready;
  logic           eqe_full, eq_room;
  eqe_job_t [1:0] eqe;
  logic           cqc_valid, cqc_ready, eqc_valid, eqc_ready;
  logic [CqW-1:0] cqc_cqn; logic [EqW-1:0] eqc_eqn;
  cqc_t           cqc;
  eqc_t           eqc;
  hca_cq u_cq (
    .clk_i(pclk[PartCq]), .rst_i, .now_i, .cqc_wr_valid_i(cqc_valid), .cqc_wr_ready_o(cqc_ready),
    .cqc_wr_cqn_i(cqc_cqn), .cqc_wr_i(cqc), .cqe_valid_i(cqe_valid), .cqe_ready_o(cqe_ready), .cqe_i(cqe),
    .cq_db_valid_i(cq_db_valid), .cq_db_ready_o(cq_db_ready), .cq_db_i(cq_db), .wr_valid_o(wr_valid[WrCq]),
    .wr_ready_i(wr_ready[WrCq]), .wr_o(wr[WrCq]), .eqe_valid_o(eqe_valid[0]), .eqe_ready_i(eqe_ready[0]),
    .eqe_o(eqe[0]), .eqe_full_i(eqe_full), .eq_room_i(eq_room), .ev_valid_o(ev_valid[EvCq]),
    .ev_ready_i(ev_ready[EvCq]), .ev_o(ev[EvCq]), .bad_db_cnt_o(), .active_o(cq_timers), .wake_at_o(cq_wake_at)
  );
  hca_eq #(.Sources(2)) u_eq (
    .clk_i(pclk[PartEq]), .rst_i, .now_i, .eqc_wr_valid_i(eqc_valid), .eqc_wr_ready_o(eqc_ready),
    .eqc_wr_eqn_i(eqc_eqn), .eqc_wr_i(eqc), .eqe_valid_i(eqe_valid), .eqe_ready_o(eqe_ready), .eqe_i(eqe),
    .eqe_full_o(eqe_full), .room_o(eq_room), .eq_db_valid_i(eq_db_valid), .eq_db_ready_o(eq_db_ready), .eq_db_i(eq_db),
    .wr_valid_o(wr_valid[WrEq]), .wr_ready_i(wr_ready[WrEq]), .wr_o(wr[WrEq]), .ev_valid_o(ev_valid[EvEq]),
    .ev_ready_i(ev_ready[EvEq]), .ev_o(ev[EvEq]), .drop_cnt_o(), .bad_db_cnt_o()
  );

  // ---- Windows, fences: whatever may touch memory for a QP or by a key enters, and leaves ------------------
  logic        fence_start, fence_busy, fw_rd_valid, fw_rd_ready, fw_rsp_valid, fw_rsp_ready;
  dma_rd_req_t fw_rd;
  assign fence_enter = {rreq_valid[RdSrq] && rreq_ready[RdSrq], {src_txp[0].unacked && !src_txp[0].datagram,
                        src_txp[0].datagram} & {2{src_txp_valid[0] && src_txp_ready[0]}}, refused, fetch_begun,
                        made_read, emit, item_made};
  assign fence_leave = {rrsp_valid[RdSrq] && rrsp_ready[RdSrq], unacked_left, refusal_done,
                        sq_rsp_valid && sq_rsp_ready && rrsp[RdSq].last, gather_left, ended};
  hca_keys u_keys (
    .clk_i, .rst_i, .mw_clk_i(pclk[PartRdMgmt]), .key_wr_valid_i(key_wr_valid), .key_wr_func_i(key_wr_func),
    .key_wr_i(key_wr), .fw_forget_valid_i(fw_forget_valid), .fw_forget_ready_o(fw_forget_ready),
    .fw_forget_i(fw_forget), .fw_req_valid_i(fw_rd_valid), .fw_req_ready_o(fw_rd_ready), .fw_req_i(fw_rd),
    .fw_rsp_valid_o(fw_rsp_valid), .fw_rsp_ready_i(fw_rsp_ready), .fw_fence_start_i(fence_start),
    .fw_fence_busy_o(fence_busy), .enter_i(fence_enter), .leave_i(fence_leave), .tables_o(key_tables),
    .forget_valid_o(forget_valid), .forget_ready_i(forget_ready), .forget_o(forget),
    .op_made_i(omt_valid && omt_ready && is_local(omt.opcode)), .op_valid_i(mw_op_valid), .op_ready_o(mw_op_ready),
    .op_i(mw_op), .inv_valid_i(inv_valid), .inv_i(inv), .msg_valid_o(msg_valid[MsgMw]), .msg_ready_i(msg_ready[MsgMw]),
    .msg_o(msg[MsgMw]), .wr_valid_o(wr_valid[WrMw]), .wr_ready_i(wr_ready[WrMw]), .wr_o(wr[WrMw]),
    .req_valid_o(rreq_valid[RdMgmt]), .req_ready_i(rreq_ready[RdMgmt]), .req_o(rreq[RdMgmt]),
    .rsp_valid_i(rrsp_valid[RdMgmt]), .rsp_ready_o(rrsp_ready[RdMgmt]), .rsp_i(rrsp[RdMgmt])
  );

  // ---- Contexts, and lines that change hands ---------------------------------------------------------------
  hca_contexts #(.Sinks(NumQpc), .RxCtrl(QpcRxCtrl), .Door(QpcDb)) u_contexts (
    .clk_i, .rst_i, .now_i, .fw_qpc_valid_i(fw_qpc_valid), .fw_qpc_ready_o(fw_qpc_ready), .fw_qpc_i(fw_qpc),
    .cfg_i(lines_cfg), .held_o(lines_held), .room_o(lines_room), .holder_o(line_holder),
    .record_wr_valid_i(record_wr_valid), .record_wr_ready_o(record_wr_ready), .record_wr_i(record_wr),
    .ev_valid_o(ev_valid[EvLines]), .ev_ready_i(ev_ready[EvLines]), .ev_o(ev[EvLines]), .qpc_valid_o(qpc_valid),
    .qpc_ready_i(qpc_ready), .qpc_o(qpc_wr), .record_i(record), .quiet_i(quiet), .look_valid_o(look_valid),
    .look_done_i(look_done), .look_asks_o(look_asks), .look_line_o(look_line), .look_hint_i(look_hint),
    .shut_o(line_shut), .db_miss_valid_i(db_miss_valid), .db_miss_ready_o(db_miss_ready), .db_miss_i(db_miss),
    .pkt_miss_i(pkt_miss), .pkt_miss_qpn_i(rxd.dest_qpn), .park_valid_i(park_valid), .park_ready_o(park_ready),
    .park_i(park_want), .back_valid_o(back_valid), .back_ready_i(back_ready), .back_slot_o(back_slot),
    .again_valid_o(again_valid), .again_ready_i(again_ready), .again_o(again),
    .door_free_i(door_free), .enter_i(fence_enter), .leave_i(fence_leave), .sq_req_valid_i(sq_req_valid),
    .sq_req_ready_o(sq_req_ready), .sq_req_i(sq_req), .sq_rsp_valid_o(sq_rsp_valid), .sq_rsp_ready_i(sq_rsp_ready),
    .req_valid_o(rreq_valid[RdSq]), .req_ready_i(rreq_ready[RdSq]), .req_o(rreq[RdSq]), .rsp_valid_i(rrsp_valid[RdSq]),
    .rsp_ready_o(rrsp_ready[RdSq]), .rsp_i(rrsp[RdSq]), .wr_valid_o(wr_valid[WrLines]), .wr_ready_i(wr_ready[WrLines]),
    .wr_o(wr[WrLines])
  );

  // ---- Management ----------------------------------------------------------------------------------------
  hca_mgmt #(.NumQpcSinks(NumQpc), .RecordSink(QpcRxCtrl), .NumEvSources(NumEv + 1), .DoorbellSource(EvDb)) u_mgmt (
    .clk_i(pclk[PartMgmt]), .clk_bus_i(pclk[PartBus]), .rst_i, .now_i, .num_ports_i,
    .mmio_wr_valid_i(mmio_wr_valid_i && is_reg), .mmio_wr_ready_o(reg_wr_ready), .mmio_wr_func_i,
    .mmio_wr_addr_i(mmio_wr_addr_i[11:0]), .mmio_wr_data_i, .mmio_wr_strb_i, .mmio_rd_valid_i, .mmio_rd_ready_o,
    .mmio_rd_func_i, .mmio_rd_addr_i, .mmio_rdata_valid_o, .mmio_rdata_o, .fw_req_i, .fw_we_i, .fw_addr_i, .fw_wdata_i,
    .fw_req_stall_o, .fw_rd_ack_o, .fw_wr_ack_o, .fw_rdata_o, .fw_irq_o, .qpc_wr_valid_o(fw_qpc_valid),
    .qpc_wr_ready_i(fw_qpc_ready), .qpc_wr_o(fw_qpc), .record_i(record), .key_wr_valid_o(key_wr_valid),
    .key_wr_func_o(key_wr_func), .key_wr_o(key_wr), .forget_valid_o(fw_forget_valid), .forget_ready_i(fw_forget_ready),
    .forget_o(fw_forget), .cqc_wr_valid_o(cqc_valid), .cqc_wr_ready_i(cqc_ready), .cqc_wr_cqn_o(cqc_cqn),
    .cqc_wr_o(cqc), .eqc_wr_valid_o(eqc_valid), .eqc_wr_ready_i(eqc_ready), .eqc_wr_eqn_o(eqc_eqn), .eqc_wr_o(eqc),
    .srqc_wr_valid_o(srqc_valid), .srqc_wr_ready_i(srqc_ready), .srqc_wr_srqn_o(srqc_srqn), .srqc_wr_o(srqc),
    .link_wr_o(link_wr), .gid_wr_o(gid_wr), .rule_wr_o(rule_wr), .rule_busy_i(rule_busy), .rss_wr_o(rss_wr),
    .rss_qp_wr_o(rss_qp_wr), .group_wr_valid_o(group_wr_valid), .group_wr_ready_i(group_wr_ready),
    .group_wr_o(group_wr), .dm_wr_valid_o(dm_wr_valid), .dm_wr_ready_i(dm_wr_ready), .dm_wr_o(dm_wr),
    .record_wr_valid_o(record_wr_valid), .record_wr_ready_i(record_wr_ready), .record_wr_o(record_wr),
    .lines_cfg_o(lines_cfg), .line_holder_i(line_holder), .lines_held_i(lines_held), .lines_room_i(lines_room),
    .link_stat_addr_o(link_stat_addr), .link_stat_data_i(link_stat_data), .mad_req_o(mad_req), .mad_rsp_i(mad_rsp),
    .link_event_i(link_event), .msg_valid_o(msg_valid[MsgMgmt]), .msg_ready_i(msg_ready[MsgMgmt]), .msg_o(msg[MsgMgmt]),
    .eqe_valid_o(eqe_valid[1]), .eqe_ready_i(eqe_ready[1]), .eqe_o(eqe[1]), .ev_valid_i(ev_valid),
    .ev_ready_o(ev_ready), .ev_i(ev), .rd_req_valid_o(fw_rd_valid), .rd_req_ready_i(fw_rd_ready), .rd_req_o(fw_rd),
    .rd_rsp_valid_i(fw_rsp_valid), .rd_rsp_ready_o(fw_rsp_ready), .rd_rsp_i(rrsp[RdMgmt]),
    .wr_valid_o(wr_valid[WrMgmt]), .wr_ready_i(wr_ready[WrMgmt]), .wr_o(wr[WrMgmt]), .fence_start_o(fence_start),
    .fence_busy_i(fence_busy), .port_cfg_o(port_cfg), .pkey_tbl_o(pkey_tbl), .counter_req_o(counter_req),
    .counter_data_i(counter_data)
  );

  // ---- Trace -----------------------------------------------------------------------------------------------
  hca_trace u_trace (
    .qpc_i(qpc_valid[QpcReq] && qpc_ready[QpcReq]), .qpc_wr_i(qpc_wr), .omt_i(omt_valid && omt_ready && omt.first),
    .omt_rec_i(omt), .emit_i(emit), .emit_qpn_i(emit_qpn), .emit_psn_i(emit_psn), .sent_i(sent),
    .sent_txp_i(sent_txp), .rxd_take_i(rxd_valid && rxd_ready && rxd.kind != RxdCopy && !park), .rxd_i(rxd),
    .end_i(ended), .end_kind_i(end_kind), .end_frees_i(end_frees), .end_ok_i(end_ok), .end_beats_i(end_beats),
    .upd_take_i(upd_valid && upd_ready), .upd_i(upd),
    .wr_take_i(wr_valid[WrAtomic-1:0] & wr_ready[WrAtomic-1:0]), .trace_strobe_o,
    .trace_qpc_qpn_o, .trace_qpc_init_o, .trace_qpc_func_o, .trace_qpc_dest_qpn_o, .trace_qpc_sq_base_o,
    .trace_qpc_sq_logs_o, .trace_qpc_cqns_o, .trace_omt_qpn_o, .trace_omt_wqe_index_o, .trace_omt_opcode_o,
    .trace_omt_signaled_o, .trace_omt_last_psn_o, .trace_omt_len_o, .trace_emit_qpn_o, .trace_emit_psn_o,
    .trace_sent_qpn_o, .trace_sent_opcode_o, .trace_sent_psn_o, .trace_rxd_qpn_o, .trace_rxd_opcode_o,
    .trace_rxd_psn_o, .trace_rxd_syndrome_o, .trace_end_kind_o, .trace_end_frees_o, .trace_end_ok_o,
    .trace_end_beats_o, .trace_upd_qpn_o, .trace_upd_una_wqe_o
  );
endmodule
