// Turns WQEs into packets. One turn serves one slot: load the QP's context, act on news (rewind, late
// acknowledge, errors), then emit up to Burst packets: omt record, txp, segments. Owns QPs' send positions.
// A turn costs 4 cycles, giving a slot back 1, a one-segment packet 2 (3 of a QP with a static rate), a datagram 5
// (without entries 4). Only the txp, seg, omt and err streams can stall it. See README.md.
module hca_sq_emit
  import hca_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots      = 64,
  parameter int unsigned SlotBlocks = 64,
  parameter int unsigned Burst      = 4,
  parameter int unsigned Large      = 4,
  localparam int unsigned SlotW = $clog2(Slots),
  localparam int unsigned BlkW  = $clog2(SlotBlocks)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  // Slot choice.
  input  logic             next_valid_i,
  input  logic [SlotW-1:0] next_slot_i,
  input  logic             next_parked_i,
  output logic             next_take_o,
  output logic             busy_o,
  output logic [SlotW-1:0] slot_o,
  input  logic             fresh_i,       // its QP has not been seen
  input  logic [Slots-1:0] bind_i,        // strobes: the slot has another QP
  input  logic             asked_i,       // with bind_i: whose WQEs have been asked for
  input  logic             set_i,         // strobe: the QP in set_slot_i has another context
  input  logic [SlotW-1:0] set_slot_i,
  output logic             again_o,
  output logic             park_o,
  output logic             redo_o,
  output logic             deaf_o,        // acknowledges change nothing
  input  logic             pause_i,       // no turn begins
  output logic             visits_o,      // the context that was read last is that of the slot
  input  logic             want_slot_i,
  input  sq_gate_t         gate_i,        // of slot_o
  // Datagrams: lanes, and places of the header stage. The slot follows the lane of the datagram at its head.
  input  logic [NumLanes-1:0] sl_open_i,
  input  eth_class_t [NumPorts-1:0] class_i,
  input  logic             av_left_i,
  output av_wr_t           av_wr_o,
  output logic             av_full_o,
  output logic             dry_o,         // strobes: the slot waits for a place
  output logic             follow_o,      //          its SL is now this
  output logic [LaneW-1:0] follow_sl_o,
  output logic             stopped_o,     // strobes: it was found so
  output logic             served_o,      //          it has its turn
  // Scheduler tables.
  input  logic [QpW-1:0]   slot_qpn_i,
  input  wqe_idx_t         slot_pi_i,
  input  push_t            slot_push_i,   // of the WQE before it
  output logic             ctx_re_o,
  input  sq_ack_t          ctx_ack_i,
  input  logic [15:0]      ctx_placed_i,  // READs whose data is in memory
  input  sq_qpc_t          ctx_qpc_i,
  output logic             rel_valid_o,
  input  logic             rel_ready_i,
  output logic             rel_requeue_o,
  output logic             rel_idle_o,    // nothing is posted that it has not sent
  // hca_sq_open: reads positions in other cycles, and tells the fetcher of slots.
  input  logic             open_re_i,
  input  logic [QpW-1:0]   open_qpn_i,
  output sq_dyn_t          ctx_dyn_o,
  output logic             quiet_o,
  // Fetcher.
  output sq_ask_t          ask_o,
  output logic             pop_o,
  output logic [3:0]       pop_blocks_o,
  input  logic [BlkW:0]    have_i,
  input  logic [BlkW-1:0]  head_i,
  input  wqe_idx_t         start_i,
  input  logic             fetch_err_i,
  input  logic             exhausted_i,
  output logic             blk_re_o,
  output logic [BlkW-1:0]  blk_ptr_o,
  input  beat_t            blk_i,
  output tx_path_t         path_o,        // of the packet
  output logic [12:0]      made_bytes_o,  // on the wire
  // To rx_ctrl, gather and trace.
  output logic             omt_valid_o,
  input  logic             omt_ready_i,
  input  logic             msg_room_i,
  output omt_wr_t          omt_o,
  output logic             txp_valid_o,
  input  logic             txp_ready_i,
  output txp_t             txp_o,
  output logic             seg_valid_o,
  input  logic             seg_ready_i,
  output seg_t             seg_o,
  output logic             mw_valid_o,    // strobe: to hca_mw, if there is room
  input  logic             mw_room_i,
  output mw_op_t           mw_o,
  output logic             err_valid_o,
  input  logic             err_ready_i,
  output pipe_msg_t        err_o
);

  typedef enum logic [3:0] {
    StIdle, StLoad, StCtx, StEval, StRedo, StWqe, StSeek, StCheck, StPacket, StSeg, StErr, StEnd, StRel, StShut
  } state_e;
  localparam int unsigned States = int'(StShut) + 1;

  // One flip-flop per state.
  function automatic logic [States-1:0] to(state_e state);
    return States'(1) << state;
  endfunction

  logic [States-1:0] at_q, at_d;
  state_e           after_eval, after_pkt;
  sq_end_e          end_q, end_pkt, end_now;
  logic             scrub, parked_q;
  logic [QpW-1:0]   qpn_q;
  logic [SlotW-1:0] slot_q;
  logic             first, asked, begun_q, restart;   // begun: its WQEs are there, from its oldest one on
  logic             leave, left_q;    // a parked slot is given back
  sq_dyn_t          dyn, dyn_q, dyn_redo;
  sq_ack_t          ack_q;
  sq_qpc_t          qpc_q;
  sq_news_t         news;
  wqe_idx_t         pi_q;
  logic [15:0]      placed_q;
  logic             ready, starved, fetch_err, exhausted;
  sq_wqe_ctrl_t     h_q;              // the WQE
  sq_look_t         look, look_q;     // the next one, this one
  beat_t            next_block, block;
  logic [32:0]      next_sum;
  logic [31:0]      next_offset;
  wqe_idx_t         next_wqe;         // its index
  logic             new_q;            // this WQE has never been begun
  logic [63:0]      inline_va_q;
  logic             in_pkt_q, omt_done_q;
  logic             late_q;           // no packet of this turn is direct
  logic [7:0]       status_q;

  // ---- Derived from the context ---------------------------------------------------------------------
  logic [3:0]  stride;          // blocks
  logic [MissingW-1:0] few_left;
  logic        plain, stay, same, plan, pkt_end, ends_again, goes_back, few, unused_bits;

  assign unused_bits = news.pi_far;
  assign stride = 4'd1 << qpc_q.log_stride;

  hca_sq_context #(.Slots(Slots)) u_context (
    .clk_i, .first_i (first),
    .slot_i   (slot_q),
    .read_i   (at_q[StLoad]), .load_i(at_q[StCtx]),
    .ctx_qpc_i, .ctx_ack_i,
    .ctx_dyn_i(dyn),
    .ctx_pi_i (slot_pi_i),
    .redo_i   (at_q[StRedo]),
    .plan_i   (plan), .ends_o(ends_again), .few_o(few), .left_o(few_left), .sent_i(pkt_end), .many_i(look_q.read),
    .over_i   (at_q[StEnd]),
    .pop_i    (pop_o), .last_i(look_q.last_wqe), .back_o(goes_back),
    .qpc_i    (qpc_q), .ack_i(ack_q), .dyn_i(dyn_q), .pi_i(pi_q),
    .news_o   (news), .redo_o(dyn_redo), .same_o(same)
  );

  // ---- The WQE ------------------------------------------------------------------------------------------
  // Its first block is looked at in the cycle before load: in StEval, or while a packet of the one before it is made.
  logic        load, good, bad, direct, blocked, sge_busy, first_bad, sum_bad;
  logic        datagram;  // all of this QP's are
  logic [31:0] sge_left, sge_lkey;
  logic [63:0] sge_va;

  hca_sq_look u_look (
    .clk_i,
    .load_i  (at_q[StCtx] || at_q[StWqe]),
    .blk_i,
    .wqe_i   (next_wqe), .begun_i(at_q[StEval]),
    .qpc_i   (qpc_q),
    .dyn_i   (dyn_q),
    .ack_i   (ack_q),
    .pi_i    (pi_q),
    .block_o (next_block),
    .sum_o   (next_sum),
    .offset_o(next_offset),
    .look_o  (look)
  );

  assign good = !look_q.malformed && !look_q.misfit && !look_q.too_long;
  assign bad  = !good || (!look_q.is_inline && !look_q.many && first_bad);
  // A rate, of a group or of the QP, shuts behind a packet: it is looked at a cycle later. So is the room of hca_mw,
  // and the lane of a datagram, which its WQE names.
  assign direct = look_q.direct && !late_q;

  // ---- Packet decisions -----------------------------------------------------------------------------
  sq_pkt_t     pkt;
  logic [31:0] left;
  logic [23:0] rest;
  logic [12:0] piece;
  logic        full, none, was_shut, probes;  // full: no packet of the turn follows
  logic        big, lone, pkt_fire, seg_fire, fits, used_up, check, stop;

  assign plan = at_q[StWqe] || at_q[StCheck];

  hca_sq_packet u_packet (
    .clk_i,
    .qpc_i     (qpc_q),
    .dyn_i     (dyn_q),
    .load_i    (load),
    .look_i    (look),
    .wqe_i     (look_q), .hdr_i(h_q), .path_i(path_o),
    .probes_i  (probes), .next_i(plan),
    .go_on_i   (at_q[StSeek]),
    .sge_left_i(sge_left),
    .seg_i     (seg_fire),
    .end_i     (pkt_end),
    .pkt_o     (pkt), .left_o(left), .rest_o(rest), .large_o(big), .lone_o(lone),
    .piece_o   (piece), .fits_o(fits), .used_up_o(used_up), .made_bytes_o
  );

  hca_sq_window u_window (
    .clk_i,
    .start_i  (at_q[StEval]),
    .qpc_i    (qpc_q),
    .dyn_i    (dyn_q),
    .ack_i    (ack_q),
    .placed_i (placed_q),
    .msg_room_i,
    .sent_i   (pkt_end),
    .psns_i   (pkt.psns), .pop_i(pop_o),
    .wqe_i    (look_q),
    .is_new_i (new_q),
    .rest_i   (rest),
    .probes_o (probes), .blocked_o(blocked)
  );

  // ---- Datagrams ------------------------------------------------------------------------------------
  logic               lane_open;
  logic [AvSlotW-1:0] av_slot;

  hca_sq_datagram u_datagram (
    .clk_i, .rst_i, .sl_open_i, .class_i,
    .qpc_i  (qpc_q),
    .look_i (at_q[StWqe]),
    .block_i(block),
    .made_i (pkt_fire),
    .left_i (av_left_i),
    .is_o   (datagram), .open_o(lane_open), .full_o(av_full_o), .slot_o(av_slot),
    .path_o, .av_wr_o
  );

  // Its own lane counts, not that of the slot. A datagram that must wait gives its lane to the slot until it has left;
  // and when the position moves nobody knows what is next.
  assign check       = at_q[StCheck] && !(look_q.many && sum_bad);
  assign stop        = blocked || (datagram ? !lane_open || av_full_o : gate_i.shut) || (look_q.local_op && !mw_room_i);
  assign dry_o       = check && datagram && av_full_o;
  assign follow_o    = datagram && ((at_q[StRedo] && news.moves) || (check && stop) || pkt_fire);
  assign follow_sl_o = at_q[StCheck] ? path_o.sl : qpc_q.path.sl;

  // ---- Emission -------------------------------------------------------------------------------------
  assign omt_valid_o = at_q[StPacket] && !omt_done_q;
  assign pkt_fire    = at_q[StPacket] && txp_ready_i && (seg_ready_i || !pkt.payload)
                       && (!omt_valid_o || omt_ready_i);
  assign txp_valid_o = pkt_fire && !look_q.local_op;  // into registers of hca_requester: waits for nothing outside
  assign mw_valid_o  = pkt_fire && look_q.local_op;
  assign seg_fire    = (pkt_fire && pkt.payload) || (at_q[StSeg] && seg_ready_i);
  assign seg_valid_o = seg_fire;
  assign pkt_end     = (pkt_fire && !pkt.payload) || (seg_fire && fits);

  hca_sq_build u_build (
    .qpn_i      (qpn_q), .qpc_i(qpc_q),
    .dyn_i      (dyn_q),
    .hdr_i      (h_q),
    .pkt_i      (pkt), .left_i(left),
    .rest_i     (rest), .round_i(ack_q.round),
    .few_i      (few), .few_left_i(few_left),
    .va_i       ((look_q.is_inline || look_q.masks) ? inline_va_q : sge_va),
    .lkey_i     (sge_lkey),
    .piece_i    (piece),
    .seg_last_i (fits),
    .av_slot_i  (av_slot),
    .block_i    (block),
    .omt_o, .txp_o, .seg_o, .mw_o
  );

  // ---- What follows a packet ------------------------------------------------------------------------
  always_comb begin
    after_pkt = StEnd;
    end_pkt   = EndAgain;
    if (goes_back) begin
      after_pkt = StEnd;
    end else if (!pkt.last) begin
      if (!full) after_pkt = used_up ? StSeek : StCheck;
    end else if (look_q.last_wqe) begin
      end_pkt = EndPark;
    end else if (starved) begin
      end_pkt = EndWait;
    end else if (!full) begin
      after_pkt = StWqe;
    end
  end

  assign load = at_q[StEval] || (pkt_end && pkt.last && !look_q.last_wqe && !starved && !full);

  hca_sq_turn #(.Slots(Slots), .Burst(Burst), .Large(Large)) u_turn (
    .clk_i,
    .slot_i   (slot_q),
    .begin_i  (at_q[StLoad]),
    .read_i   (at_q[StCtx]),
    .bind_i, .asked_i, .set_i, .set_slot_i, .asked_o(asked), .first_o(first),
    .idle_i   (news.idle), .left_i(left_q), .idle_o(rel_idle_o),
    .plan_i   (plan), .ends_i(ends_again),
    .large_i  (big), .lone_i(lone),
    .made_i   (pkt_end),
    .over_i   (at_q[StEnd]),
    .end_i    (end_q),
    .gate_i,
    .want_slot_i,
    .stopped_i(fetch_err_i || exhausted_i),
    .full_o   (full), .none_o(none), .shut_o(was_shut), .end_o(end_now)
  );

  // ---- Control --------------------------------------------------------------------------------------
  assign busy_o        = !at_q[StIdle];
  assign slot_o        = slot_q;
  assign next_take_o   = next_valid_i && !pause_i && !scrub
                         && (at_q[StIdle] || (at_q[StEnd] && end_now < EndRelease)
                             || (at_q[StRel] && rel_ready_i));
  assign stay          = end_now == EndAgain && !next_valid_i && !pause_i && !was_shut;
  assign again_o       = (at_q[StEnd] && end_now == EndAgain && !stay) || at_q[StShut];
  assign stopped_o     = again_o && was_shut && none;
  assign served_o      = at_q[StCtx];
  assign park_o        = at_q[StEnd] && end_now == EndPark;
  assign redo_o        = at_q[StRedo];
  assign deaf_o        = at_q[StEnd] && (end_now == EndWait || (park_o && news.idle));
  assign ctx_re_o      = at_q[StLoad];
  assign rel_valid_o   = at_q[StRel];
  assign rel_requeue_o = end_q == EndRequeue && !left_q;
  assign leave         = next_take_o && next_parked_i;
  assign visits_o      = busy_o && !left_q;
  assign restart       = (redo_o && (fresh_i || fetch_err || !(same || begun_q))) || (rel_valid_o && rel_ready_i)
                         || (at_q[StErr] && err_ready_i);
  assign plain         = news.state_ok && !news.moves && !dyn_q.err && !ack_q.halt && !news.pi_bad;
  assign quiet_o       = !(at_q[StEval] || at_q[StRedo] || at_q[StPacket] || at_q[StSeg] || at_q[StErr] || at_q[StRel]);
  assign ctx_dyn_o     = dyn;
  assign pop_o         = pkt_end && pkt.last;
  assign pop_blocks_o  = stride;
  // The limit is the producer index of when the turn began.
  assign ask_o = '{
    restart: restart, limit: at_q[StEval] && plain && !fresh_i, idx: dyn_redo.wqe, pi: pi_q,
    ring: '{func: qpc_q.func, base: qpc_q.base, log_size: qpc_q.log_size, log_stride: qpc_q.log_stride},
    push: '{valid: slot_push_i.valid && slot_pi_i == pi_q, slot: slot_push_i.slot}
  };
  assign err_valid_o   = at_q[StErr];

  assign err_o = '{kind: MsgSqError, qpn: qpn_q, wqe_index: dyn_q.wqe, status: status_q, default: '0};

  always_comb begin
    after_eval = StEnd;
    if (news.state_ok && (fresh_i || news.moves)) after_eval = StRedo;
    else if (!news.state_ok || dyn_q.err || ack_q.halt) after_eval = StEnd;
    else if (news.pi_bad) after_eval = StErr;
    else if (news.idle) after_eval = StEnd;
    else if (ready) after_eval = StWqe;
    else if (fetch_err) after_eval = StErr;
  end

  always_comb begin
    at_d = '0;
    if (next_take_o) at_d = to(leave ? StRel : StLoad);
    else if (at_q[StIdle]) at_d = to(StIdle);
    // Nothing of a QP with a shut gate is looked at, but its WQEs are read; an idle one may leave.
    if (at_q[StLoad] && (!gate_i.shut || parked_q)) at_d |= to(StCtx);
    else if (at_q[StLoad]) at_d |= to((want_slot_i && !gate_i.keep) ? StRel : fresh_i ? StCtx : StShut);
    if (at_q[StShut]) at_d |= to(StIdle);
    if (at_q[StCtx]) at_d |= to(StEval);
    if (at_q[StEval]) at_d |= to(after_eval);
    if (at_q[StRedo]) at_d |= to(StEval);
    if (at_q[StWqe]) begin
      if (bad) at_d |= to(StErr);
      else if (look_q.hold) at_d |= to(StEnd);
      else if (direct) at_d |= to((blocked || gate_i.shut) ? StEnd : StPacket);
      else at_d |= to(look_q.seek ? StSeek : StCheck);
    end
    if (at_q[StSeek]) at_d |= to(sge_busy ? StSeek : in_pkt_q ? StSeg : StCheck);
    if (at_q[StCheck]) at_d |= to(!check ? StErr : stop ? StEnd : StPacket);
    if (at_q[StPacket] || at_q[StSeg]) begin
      if (pkt_end) at_d |= to(after_pkt);
      else if (seg_fire) at_d |= to(StSeek);
      else at_d |= at_q;
    end
    if (at_q[StErr]) at_d |= to(err_ready_i ? StEnd : StErr);
    if (at_q[StEnd]) begin
      if (end_now >= EndRelease) at_d |= to(StRel);
      else if (!next_take_o) at_d |= to(stay ? StLoad : StIdle);
    end
    if (at_q[StRel] && !next_take_o) at_d |= to(rel_ready_i ? StIdle : StRel);
  end

  always_ff @(posedge clk_i) at_q <= rst_i ? to(StIdle) : at_d;

  always_ff @(posedge clk_i) begin
    if (next_take_o) {slot_q, parked_q, left_q} <= {next_slot_i, next_parked_i, leave};
    else if (at_q[StEnd]) parked_q <= 1'b0;
    if (at_q[StLoad]) qpn_q <= slot_qpn_i;
    if (at_q[StCtx]) begin
      ack_q    <= ctx_ack_i;
      placed_q <= ctx_placed_i;
      qpc_q    <= ctx_qpc_i;
      pi_q     <= slot_pi_i;
      begun_q  <= asked && start_i == ctx_ack_i.una_wqe;
    end
    if (at_q[StEval]) late_q <= qpc_q.path.group != '0 || gate_i.paced;
    if (at_q[StWqe] || at_q[StCheck]) omt_done_q <= 1'b0;
    else if (omt_valid_o && omt_ready_i) omt_done_q <= 1'b1;
    if (at_q[StEval]) status_q <= WcLocQpOpErr;
    else if (at_q[StWqe]) status_q <= (look_q.malformed || look_q.misfit) ? WcLocQpOpErr : WcLocLenErr;
    if (load) begin
      h_q    <= next_block[255:0];
      look_q <= look;
      new_q  <= look.is_new;
    end else if (pkt_end) new_q <= 1'b0;
    if (at_q[StLoad]) in_pkt_q <= 1'b0;
    else if (seg_fire) in_pkt_q <= !pkt_end;
    if (at_q[StWqe]) inline_va_q <= qpc_q.base + 64'(look_q.inline_at);
    else if (seg_fire && look_q.is_inline) inline_va_q <= inline_va_q + 64'(piece);
  end

  always_ff @(posedge clk_i) begin
    if (at_q[StLoad]) end_q <= EndRequeue;  // if its gate is shut
    if (at_q[StEval]) begin
      if (!news.state_ok) end_q <= EndRelease;
      else if (dyn_q.err || ack_q.halt || news.idle) end_q <= EndPark;
      else end_q <= exhausted ? EndRequeue : EndWait;
    end
    if (at_q[StErr]) end_q <= EndPark;
    if (at_q[StEnd]) end_q <= end_now;
    if (at_q[StCheck]) end_q <= blocked ? EndPark : EndAgain;
    if (at_q[StWqe]) end_q <= (direct && !blocked) ? EndAgain : EndPark;
    if (pkt_end) end_q <= end_pkt;
  end

  // ---- WQE blocks -----------------------------------------------------------------------------------
  logic [BlkW-1:0] sge_ptr;

  hca_sq_sge #(.BlkW(BlkW)) u_sge (
    .clk_i, .rst_i,
    .datagram_i(datagram),
    .load_i   (load),
    .block_i  (next_block),
    .sum_i    (next_sum),
    .skip_i   (next_offset),
    .begin_i  (at_q[StWqe]),
    .start_i  (good && !look_q.hold && !look_q.is_inline),
    .wqe_i    (look_q),
    .step_i   (seg_fire && !look_q.is_inline),
    .bytes_i  (piece),
    .used_up_i(used_up && !(fits && (pkt.last || full))),
    .busy_o   (sge_busy),
    .first_bad_o(first_bad),
    .sum_bad_o(sum_bad),
    .block_o  (block), .va_o(sge_va), .left_o(sge_left), .lkey_o(sge_lkey),
    .blk_ptr_o(sge_ptr), .blk_i
  );

  assign blk_re_o = busy_o;

  hca_sq_blocks #(.BlkW(BlkW)) u_blocks (
    .clk_i,
    .load_i     (at_q[StLoad]),
    .have_i, .head_i, .fetch_err_i, .exhausted_i,
    .clear_i    (at_q[StRedo] && restart),
    .look_i     (at_q[StEval]),
    .stride_i   (stride),
    .begin_i    (at_q[StWqe]),
    .ahead_i    ((at_q[StPacket] || at_q[StSeg]) && pkt.last && fits),
    .sge_ptr_i  (sge_ptr),
    .pop_i      (pop_o),
    .ready_o    (ready), .starved_o(starved), .fetch_err_o(fetch_err), .exhausted_o(exhausted),
    .blk_ptr_o
  );

  hca_sq_pos u_pos (
    .clk_i, .rst_i,
    .scrub_o   (scrub),
    .re_i      (at_q[StLoad]),
    .qpn_i     (slot_qpn_i),
    .open_re_i, .open_qpn_i,
    .row_o     (dyn),
    .load_i    (at_q[StCtx]),
    .redo_i    (at_q[StRedo]),
    .redo_row_i(dyn_redo),
    .begin_i   (at_q[StWqe]),
    .bad_i     (at_q[StErr]),
    .sent_i    (pkt_end),
    .pkt_i     (pkt),
    .is_new_i  (new_q),
    .wqe_i     (look_q),
    .we_i      (at_q[StEnd]),
    .dyn_o     (dyn_q),
    .next_o    (next_wqe)
  );

endmodule
