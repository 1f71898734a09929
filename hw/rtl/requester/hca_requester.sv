// Requester: doorbells in, packet descriptors out. Schedules send queues, prefetches their WQEs, cuts
// messages into packets within the window, and goes back when rx_ctrl says so. Takes nothing for NumQps
// cycles after reset. ack_upd and sq_db wait at most about ten cycles, whatever the transmit side does.
// Ports, timing, ordering and stalls: README.md.
module hca_requester
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots      = 64,  // QPs that may have WQEs on chip at the same time
  parameter int unsigned SlotBlocks = SendSlotBlocks,  // 64-byte WQE blocks of one slot
  parameter int unsigned Burst      = 16,  // packets a slot may emit in a row
  parameter int unsigned Large      = 4,   // what one above 256 bytes counts for
  parameter int unsigned Inflight   = RdTagsMany  // WQE reads under way
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [63:0]    now_i,
  input  cc_pace_t [NumPorts-1:0] cc_pace_i,  // congestion control
  input  cc_rate_wr_t    cc_rate_i,
  output logic           cc_sent_valid_o,
  input  logic           cc_sent_ready_i,
  output cc_sent_t       cc_sent_o,
  output logic           held_o,         // QPs are held to their rates
  input  logic [NumPorts-1:0] ib_i,      // personality of the ports, before the first context write
  input  logic [NumLanes-1:0] sl_open_i, // lanes (port and SL) that may send
  input  eth_class_t [NumPorts-1:0] class_i,  // Ethernet ports: priorities
  input  logic [NumRateGroups-1:0] rate_open_i,  // rate groups that may
  output logic           made_valid_o,        // a packet was made
  output tx_made_t       made_o,
  input  logic           qpc_wr_valid_i,
  output logic           qpc_wr_ready_o,
  input  qpc_wr_t        qpc_wr_i,
  input  logic           sq_db_valid_i,
  output logic           sq_db_ready_o,
  input  qp_db_t         sq_db_i,
  input  logic           push_wr_valid_i,   // always taken
  input  push_wr_t       push_wr_i,
  input  logic           ack_upd_valid_i,
  output logic           ack_upd_ready_o,
  input  ack_upd_t       ack_upd_i,
  input  logic           rd_placed_valid_i,  // from rx_exec: a READ of this QP has all its data in memory
  output logic           rd_placed_ready_o,
  input  logic [QpW-1:0] rd_placed_i,
  output logic           fetch_req_valid_o,
  input  logic           fetch_req_ready_i,
  output dma_rd_req_t    fetch_req_o,
  input  logic           fetch_rsp_valid_i,
  output logic           fetch_rsp_ready_o,
  input  dma_rd_rsp_t    fetch_rsp_i,
  output logic           fetch_begun_o,      // strobe: a read of WQEs is on its way
  output logic           omt_valid_o,
  input  logic           omt_ready_i,
  input  logic           av_left_i,          // strobe: a place for the destination of a datagram is free again
  output av_wr_t         av_wr_o,            // always taken
  input  logic           msg_room_i,         // a QP with messages outstanding may begin a further block of them
  output omt_wr_t        omt_o,
  output logic           txp_valid_o,
  input  logic           txp_ready_i,
  output txp_t           txp_o,
  output logic           seg_valid_o,
  input  logic           seg_ready_i,
  output seg_t           seg_o,
  output logic           mw_valid_o,         // to hca_mw
  input  logic           mw_ready_i,
  output mw_op_t         mw_o,
  output logic           err_valid_o,
  input  logic           err_ready_i,
  output pipe_msg_t      err_o,
  output tx_round_t      round_o,
  // Trace: strobe for every packet descriptor made.
  output logic           ev_emit_valid_o,
  output logic [QpW-1:0] ev_emit_qpn_o,
  output logic [7:0]     ev_emit_opcode_o,
  output logic [23:0]    ev_emit_psn_o
);

  localparam int unsigned SlotW = $clog2(Slots);
  localparam int unsigned BlkW  = $clog2(SlotBlocks);

  localparam int unsigned Queues = $bits(sl_open_i) + NumRateGroups;

  logic [Slots-1:0] kick, open_at, halt, wake, active, open, rated, spare, first;
  logic [Queues-1:0]     waiting;
  logic [RateGroupW-1:0] group;
  tx_path_t              path;
  logic                  others, hand, urgent;
  logic             follow, dry, av_full;
  logic [LaneW-1:0] follow_sl, slot_sl;
  logic             sl_set, shut, keep, stopped, served, next_parked;
  logic [SlotW-1:0] sl_slot;
  logic [LaneW-1:0] sl;
  logic             want_slot, waits_qpc, pause, paused, held_q;
  logic [1:0]       set_q;
  logic             next_valid, next_take, busy, fresh, again, park, redo, deaf;
  logic [Slots-1:0] soft_kick;
  logic             leave_valid, leave_ready, leave_requeue, leave_idle, leave_hand, leaving, gone;
  logic [SlotW-1:0] leave_slot;
  logic [QpW-1:0]   leave_qpn;
  logic [LaneW-1:0] leave_sl;
  logic [SlotW-1:0] next_slot, slot;
  logic             rel_valid, rel_ready, rel_requeue, rel_idle;
  logic             ctx_re;
  logic [QpW-1:0]   slot_qpn;
  wqe_idx_t         slot_pi, bind_pi, start;
  logic             binds, bind_ready, open_idle, open_re, opened, asked, quiet, visits;
  logic [SlotW-1:0] bind_slot, open_slot;
  logic [QpW-1:0]   bind_qpn, open_qpn;
  sq_ask_t          ask, open_ask;
  sq_dyn_t          ctx_dyn;
  sq_ack_t          ctx_ack;
  logic [15:0]      ctx_placed;
  sq_qpc_t          ctx_qpc;
  logic             pop, fetch_err, exhausted, blk_re;
  logic [3:0]       pop_blocks;
  logic [BlkW:0]    have;
  logic [BlkW-1:0]  head, blk_ptr;
  beat_t            blk, push_block;
  push_t            slot_push, bind_push;
  logic             push_re, early;
  logic [SlotW-1:0] early_slot;
  wqe_idx_t         early_pi;
  push_t            early_push;
  logic [PushRowW-1:0] push_row;
  logic             txp_valid, txp_ready, seg_valid, seg_ready, mw_valid, mw_room;
  logic [12:0]      made_bytes;
  txp_t             txp;
  seg_t             seg;
  mw_op_t           mw;

  logic [Slots-1:0]    hold_open;
  logic [NumPorts-1:0] cc_on;
  logic                paced, held, due_valid, due_ready, lift;
  logic [QpW-1:0]      due_qpn;
  logic [SlotW-1:0]    lift_slot;
  sq_gate_t            gate;

  hca_sq_sched #(.Slots(Slots)) u_sched (
    .clk_i, .rst_i, .ib_i, .sl_open_i, .rate_open_i,
    .qpc_wr_valid_i, .qpc_wr_ready_o, .qpc_wr_i,
    .sq_db_valid_i, .sq_db_ready_o, .sq_db_i,
    .ack_upd_valid_i, .ack_upd_ready_o, .ack_upd_i,
    .rd_placed_valid_i, .rd_placed_ready_o, .rd_placed_i,
    .rel_valid_i  (leave_valid),
    .rel_ready_o  (leave_ready),
    .rel_slot_i   (leave_slot),
    .rel_qpn_i    (leave_qpn),
    .rel_requeue_i(leave_requeue),
    .rel_idle_i   (leave_idle),
    .rel_sl_i     (leave_sl),
    .rel_hand_i   (leave_hand),
    .held_i       (~hold_open),
    .due_valid_i  (due_valid),
    .due_ready_o  (due_ready),
    .due_qpn_i    (due_qpn),
    .lift_o       (lift),
    .lift_slot_o  (lift_slot),
    .soft_o       (soft_kick),
    .gone_o       (gone),
    .pause_o      (waits_qpc),
    .paused_i     (paused),
    .ctx_re_i     (ctx_re || open_re),
    .ctx_qpn_i    (ctx_re ? slot_qpn : open_qpn),
    .ctx_ack_o    (ctx_ack),
    .ctx_placed_o (ctx_placed),
    .ctx_qpc_o    (ctx_qpc),
    .slot_i       (slot),
    .slot_qpn_o   (slot_qpn),
    .slot_pi_o    (slot_pi),
    .slot_push_o  (slot_push),
    .active_i     (active),
    .kick_o       (kick),
    .early_o      (early), .early_slot_o(early_slot), .early_pi_o(early_pi), .early_push_o(early_push),
    .bind_o       (binds), .bind_slot_o(bind_slot), .bind_qpn_o(bind_qpn), .bind_pi_o(bind_pi), .bind_push_o(bind_push),
    .bind_ready_i (bind_ready), .halt_o(halt), .round_o,
    .want_slot_o  (want_slot),
    .sl_set_o     (sl_set),
    .sl_slot_o    (sl_slot),
    .sl_o         (sl),
    .group_o      (group),
    .waiting_o    (waiting)
  );

  hca_sq_leave #(.Slots(Slots)) u_leave (
    .clk_i, .rst_i,
    .in_valid_i (rel_valid),
    .in_ready_o (rel_ready),
    .slot_i     (slot), .qpn_i(slot_qpn), .requeue_i(rel_requeue), .idle_i(rel_idle), .sl_i(slot_sl), .hand_i(hand),
    .out_valid_o(leave_valid),
    .out_ready_i(leave_ready),
    .slot_o     (leave_slot),
    .qpn_o      (leave_qpn),
    .requeue_o  (leave_requeue),
    .idle_o     (leave_idle),
    .sl_o       (leave_sl),
    .hand_o     (leave_hand),
    .busy_o     (leaving),
    .gone_i     (gone)
  );

  // For a context write no turn begins, and none of its QP is under way, prepared, or on its way back; turns of others
  // go on. A slot whose QP has another context has it when it has its turn.
  assign pause  = held_q || set_q != '0;
  assign paused = held_q && !(busy && slot_qpn == qpc_wr_i.qpn) && !(!open_idle && open_qpn == qpc_wr_i.qpn)
                  && !(leaving && leave_qpn == qpc_wr_i.qpn);

  always_ff @(posedge clk_i) begin
    held_q <= waits_qpc;
    set_q  <= {set_q[0], sl_set && !binds};
  end

  hca_sq_open #(.Slots(Slots)) u_open (
    .clk_i, .rst_i,
    .bind_i     (binds), .bind_slot_i(bind_slot), .bind_qpn_i(bind_qpn), .bind_pi_i(bind_pi), .bind_push_i(bind_push),
    .ready_o    (bind_ready),
    .idle_o     (open_idle),
    .busy_i     (ctx_re),
    .re_o       (open_re), .qpn_o(open_qpn),
    .ctx_qpc_i  (ctx_qpc), .ctx_ack_i(ctx_ack), .ctx_dyn_i(ctx_dyn),
    .quiet_i    (quiet),
    .ask_o      (open_ask),
    .done_o     (opened),
    .asked_o    (asked),
    .slot_o     (open_slot)
  );

  assign open_at = Slots'(opened) << open_slot;

  // QPs held to a rate: their slots are shut, and others may have them.
  for (genvar p = 0; p < NumPorts; p++) begin : gen_on
    assign cc_on[p] = cc_pace_i[p].on;
  end

  if (HasCongestion) begin : gen_pace
    cc_debt_t       debt;
    logic           wait_valid, wait_ready, in_line;
    logic [QpW-1:0] wait_qpn;
    logic           made_q;   // a packet, a cycle ago: before the next one is looked at, or another QP is read
    logic [12:0]    bytes_q;

    always_ff @(posedge clk_i) {made_q, bytes_q} <= {made_valid_o && !rst_i, made_o.bytes};

    hca_cc_pace u_pace (
      .clk_i, .rst_i, .now_i,
      .cc_i        (cc_pace_i),
      .rate_wr_i   (cc_rate_i),
      .re_i        (ctx_re && cc_on != '0),
      .qpn_i       (slot_qpn),
      .port_i      (PortW'(path.sl >> 4)),
      .made_i      (made_q),
      .bytes_i     (bytes_q),
      .paced_o     (paced),
      .held_o      (held),
      .debt_o      (debt),
      .sent_valid_o(cc_sent_valid_o),
      .sent_ready_i(cc_sent_ready_i),
      .sent_o      (cc_sent_o)
    );

    hca_sq_hold #(.Slots(Slots)) u_hold (
      .clk_i, .rst_i, .now_i,
      .hold_i     (held && visits),
      .slot_i     (slot),
      .qpn_i      (slot_qpn),
      .debt_i     (debt),
      .bind_i     (Slots'(binds) << bind_slot),
      .due_valid_o(wait_valid),
      .due_ready_i(wait_ready),
      .due_qpn_o  (wait_qpn),
      .lift_i     (lift),
      .lift_slot_i(lift_slot),
      .open_o     (hold_open),
      .held_o     (in_line)
    );

    // Whether the scheduler takes one is known late, and one that has waited may wait a cycle more.
    hca_skid #(.Width(QpW)) u_due (
      .clk_i, .rst_i,
      .in_valid_i (wait_valid),
      .in_ready_o (wait_ready),
      .in_i       (wait_qpn),
      .out_valid_o(due_valid),
      .out_ready_i(due_ready),
      .out_o      (due_qpn)
    );

    assign held_o = in_line || due_valid;
  end else begin : gen_no_pace
    logic unused_pace;
    assign unused_pace = ^{now_i, cc_on, cc_rate_i, cc_sent_ready_i, due_ready, lift, lift_slot, visits};
    assign hold_open   = '1;
    assign held_o      = 1'b0;
    assign {paced, held}                = '0;
    assign {due_valid, due_qpn}         = '0;
    assign {cc_sent_valid_o, cc_sent_o} = '0;
  end

  assign gate = '{shut: shut || held || !hold_open[slot], keep: keep && hold_open[slot], paced: paced, others: others,
                  urgent: urgent && !rated[slot]};

  hca_sq_gate #(.Slots(Slots)) u_gate (
    .clk_i, .rst_i, .sl_open_i, .rate_open_i,
    .hold_i    (made_valid_o && made_o.group != '0 && made_bytes > 13'(RateSmallBytes)),
    .hold_group_i(made_o.group),
    .waiting_i (waiting),
    .want_slot_i(want_slot),
    .set_i     (sl_set),
    .set_slot_i(sl_slot),
    .set_sl_i  (sl),
    .set_group_i(group),
    .follow_i  (follow),
    .follow_sl_i(follow_sl),
    .dry_i     (dry),
    .full_i    (av_full),
    .sl_o      (slot_sl),
    .open_o    (open),
    .rated_o   (rated),
    .others_o  (others),
    .hand_o    (hand),
    .spare_o   (spare),
    .first_o   (first),
    .slot_i    (slot),
    .next_take_i(next_take),
    .next_slot_i(next_slot),
    .shut_o    (shut),
    .keep_o    (keep),
    .stopped_i (stopped),
    .done_i    (served || park || (rel_valid && rel_ready))
  );

  hca_sq_pick #(.Slots(Slots)) u_pick (
    .clk_i, .rst_i,
    .kick_i      (kick),
    .soft_i      (soft_kick),
    .wake_i      (wake),
    .bind_i      (open_at),
    .asked_i     (asked),
    .open_i      (open & hold_open),
    .spare_i     (spare | ~hold_open),
    .first_i     (first & hold_open),
    .rated_i     (rated),
    .urgent_o    (urgent),
    .sent_i      (made_valid_o),
    .want_slot_i (want_slot),
    .busy_i      (busy),
    .busy_slot_i (slot),
    .again_i     (again),
    .park_i      (park),
    .redo_i      (redo),
    .deaf_i      (deaf),
    .leaving_i   (leaving),
    .leaving_slot_i(leave_slot),
    .gone_i      (gone),
    .fresh_o     (fresh),
    .next_valid_o(next_valid),
    .next_slot_o (next_slot),
    .next_parked_o(next_parked),
    .next_take_i (next_take),
    .active_o    (active)
  );

  hca_sq_push u_push (
    .clk_i,
    .wr_valid_i(push_wr_valid_i),
    .wr_i      (push_wr_i),
    .re_i      (push_re),
    .row_i     (push_row),
    .block_o   (push_block)
  );

  hca_sq_fetch #(.Slots(Slots), .SlotBlocks(SlotBlocks), .Inflight(Inflight)) u_fetch (
    .clk_i, .rst_i,
    .ask_i       (opened ? open_ask : ask),
    .ask_slot_i  (opened ? open_slot : slot),
    .pop_i       (pop),
    .slot_i      (slot),
    .early_i     (early),
    .early_slot_i(early_slot),
    .early_pi_i  (early_pi),
    .early_push_i(early_push),
    .pop_blocks_i(pop_blocks),
    .have_o      (have),
    .head_o      (head), .start_o(start),
    .err_o       (fetch_err),
    .exhausted_o (exhausted),
    .rated_i     (rated),
    .halt_i      (halt),
    .begun_o     (fetch_begun_o),
    .want_slot_i (want_slot),
    .wake_o      (wake),
    .blk_re_i    (blk_re),
    .blk_ptr_i   (blk_ptr),
    .blk_o       (blk),
    .push_re_o   (push_re),
    .push_row_o  (push_row),
    .push_block_i(push_block),
    .fetch_req_valid_o, .fetch_req_ready_i, .fetch_req_o,
    .fetch_rsp_valid_i, .fetch_rsp_ready_o, .fetch_rsp_i
  );

  hca_sq_emit #(.Slots(Slots), .SlotBlocks(SlotBlocks), .Burst(Burst), .Large(Large)) u_emit (
    .clk_i, .rst_i,
    .next_valid_i (next_valid),
    .next_slot_i  (next_slot),
    .next_parked_i(next_parked),
    .next_take_o  (next_take),
    .busy_o       (busy),
    .slot_o       (slot),
    .fresh_i      (fresh),
    .bind_i       (open_at), .asked_i(asked), .set_i(sl_set), .set_slot_i(sl_slot),
    .again_o      (again),
    .park_o       (park),
    .redo_o       (redo),
    .deaf_o       (deaf),
    .pause_i      (pause),
    .visits_o     (visits),
    .want_slot_i  (want_slot),
    .gate_i       (gate),
    .path_o       (path), .made_bytes_o(made_bytes),
    .sl_open_i, .class_i, .av_left_i, .av_wr_o,
    .av_full_o    (av_full),
    .dry_o        (dry),
    .follow_o     (follow),
    .follow_sl_o  (follow_sl),
    .stopped_o    (stopped),
    .served_o     (served),
    .slot_qpn_i   (slot_qpn),
    .slot_pi_i    (slot_pi),
    .slot_push_i  (slot_push),
    .ctx_re_o     (ctx_re),
    .ctx_ack_i    (ctx_ack),
    .ctx_placed_i (ctx_placed),
    .ctx_qpc_i    (ctx_qpc),
    .rel_valid_o  (rel_valid),
    .rel_ready_i  (rel_ready),
    .rel_requeue_o(rel_requeue),
    .rel_idle_o   (rel_idle),
    .open_re_i    (open_re), .open_qpn_i(open_qpn), .ctx_dyn_o(ctx_dyn), .quiet_o(quiet),
    .ask_o        (ask),
    .pop_o        (pop),
    .pop_blocks_o (pop_blocks),
    .have_i       (have),
    .head_i       (head), .start_i(start),
    .fetch_err_i  (fetch_err),
    .exhausted_i  (exhausted),
    .blk_re_o     (blk_re),
    .blk_ptr_o    (blk_ptr),
    .blk_i        (blk),
    .omt_valid_o, .omt_ready_i, .omt_o, .msg_room_i,
    .txp_valid_o  (txp_valid),
    .txp_ready_i  (txp_ready),
    .txp_o        (txp),
    .seg_valid_o  (seg_valid),
    .seg_ready_i  (seg_ready),
    .seg_o        (seg),
    .mw_valid_o   (mw_valid),
    .mw_room_i    (mw_room),
    .mw_o         (mw),
    .err_valid_o, .err_ready_i, .err_o
  );

  hca_skid #(.Width($bits(txp_t))) u_txp (
    .clk_i, .rst_i, .in_valid_i(txp_valid), .in_ready_o(txp_ready), .in_i(txp_built(txp)), .out_valid_o(txp_valid_o),
    .out_ready_i(txp_ready_i), .out_o(txp_o)
  );

  hca_skid #(.Width($bits(seg_t))) u_seg (
    .clk_i, .rst_i,
    .in_valid_i (seg_valid),
    .in_ready_o (seg_ready),
    .in_i       (seg),
    .out_valid_o(seg_valid_o),
    .out_ready_i(seg_ready_i),
    .out_o      (seg_o)
  );

  if (HasKeyWr) begin : gen_mw
    hca_skid #(.Width($bits(mw_op_t))) u_mw (
      .clk_i, .rst_i, .in_valid_i(mw_valid), .in_ready_o(mw_room), .in_i(mw), .out_valid_o(mw_valid_o),
      .out_ready_i(mw_ready_i), .out_o(mw_o)
    );
  end else begin : gen_no_mw
    logic unused_mw;
    assign unused_mw = ^{mw_valid, mw, mw_ready_i};
    assign {mw_room, mw_valid_o, mw_o} = '0;
  end

  assign made_valid_o     = txp_valid;
  assign made_o           = sq_made_of(txp, path, made_bytes);

  assign ev_emit_valid_o  = txp_valid && txp_ready;
  assign ev_emit_qpn_o    = txp.qpn;
  assign ev_emit_opcode_o = txp.opcode;
  assign ev_emit_psn_o    = txp.psn;

endmodule
