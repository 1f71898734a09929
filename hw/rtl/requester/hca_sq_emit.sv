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
  input  logic             fresh_i,
  output logic             again_o,
  output logic             park_o,
  output logic             redo_o,
  output logic             deaf_o,        // acknowledges change nothing
  input  logic             pause_i,
  output logic             idle_o,        // between two turns
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
  input  logic [15:0]      slot_pi_i,
  output logic             ctx_re_o,
  input  sq_ack_t          ctx_ack_i,
  input  logic [15:0]      ctx_placed_i,  // READs whose data is in memory
  input  sq_qpc_t          ctx_qpc_i,
  output logic             rel_valid_o,
  input  logic             rel_ready_i,
  output logic             rel_requeue_o,
  output logic             rel_idle_o,    // nothing is posted that it has not sent
  // Fetcher.
  output logic             restart_o,
  output logic             limit_o,
  output logic             pop_o,
  output sq_ring_t         ring_o,
  output logic [15:0]      idx_o,         // with restart_o
  output logic [15:0]      pi_o,          // with limit_o
  output logic [3:0]       pop_blocks_o,
  input  logic [BlkW:0]    have_i,
  input  logic [BlkW-1:0]  head_i,
  input  logic             fetch_err_i,
  input  logic             exhausted_i,
  output logic             blk_re_o,
  output logic [BlkW-1:0]  blk_ptr_o,
  input  beat_t            blk_i,
  output tx_path_t         path_o,        // of the packet
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

  localparam int unsigned CountW = $clog2(Burst + Large);

  typedef enum logic [4:0] {
    StIdle, StLoad, StCtx, StEval, StRedo, StWqe, StSeek, StCheck, StPacket, StSeg, StNext, StHead, StErr, StEnd, StRel,
    StOpen, StShut
  } state_e;

  // How a turn ends: more to do, waiting for news, for WQEs, slot given back (Requeue: work is left).
  typedef enum logic [2:0] {EndAgain, EndPark, EndWait, EndRelease, EndRequeue} end_e;

  state_e           state_q, after_pkt;
  end_e             end_q, end_pkt, end_now;
  logic             scrub, parked_q;
  logic [QpW-1:0]   qpn_q;
  logic [SlotW-1:0] slot_q;
  sq_dyn_t          dyn, dyn_q, dyn_redo;
  sq_ack_t          ack_q;
  sq_qpc_t          qpc_q;
  logic [15:0]      pi_q, placed_q;
  logic [BlkW:0]    have_q, have_next;
  logic [BlkW-1:0]  head_q;
  logic             fetch_err_q, exhausted_q;
  sq_wqe_ctrl_t     hdr, h_q;
  beat_t            block;         // with hdr
  logic [63:0]      inline_va_q;
  logic [31:0]      left_q;        // bytes of the message not yet sent
  logic [12:0]      pkt_left_q, pkt_left, piece;
  logic [CountW-1:0] count_q, weight;  // packets of this turn, by weight
  logic             in_pkt_q, check_sum_q, omt_done_q;
  logic [7:0]       status_q;
  sq_pkt_t          pkt_q, pkt_new;
  logic [6:0]       quota_q [Slots];  // packets since the slot was bound, saturating

  // ---- Derived from the context ---------------------------------------------------------------------
  logic [3:0]  stride;          // blocks
  logic [15:0] ring_slot;
  logic        state_ok, moves, pi_bad, plain, stay, same;  // same: its WQEs need not be read again

  assign stride    = 4'd1 << qpc_q.log_stride;
  assign ring_slot = dyn_q.wqe & ~(16'hffff << qpc_q.log_size);

  hca_sq_news u_news (
    .qpc_i(qpc_q), .ack_i(ack_q), .dyn_i(dyn_q), .pi_i(pi_q),
    .state_ok_o(state_ok), .moves_o(moves), .redo_o(dyn_redo), .pi_bad_o(pi_bad), .same_o(same)
  );

  // ---- Checks of a WQE (header in the block held by u_sge) ------------------------------------------
  logic        wqe_ok, wqe_malformed, wqe_long, many_sges, payload, hold, seek;
  logic        sge_busy, sum_first_bad, sum_bad, empty0;
  logic [31:0] sge_left, sge_lkey;
  logic [63:0] sge_va;
  logic        is_new;         // this WQE has never been begun
  logic        datagram;       // all of this QP's are
  logic        direct;         // StWqe: its first packet needs no further look
  logic        late_q;         // no packet of this turn is direct
  logic        local_op;       // it makes no packet: hca_mw carries it out

  hca_sq_check u_check (
    .hdr_i(hdr), .qpc_i(qpc_q), .dyn_i(dyn_q),
    .malformed_o(wqe_malformed), .too_long_o(wqe_long), .many_sges_o(many_sges), .payload_o(payload)
  );

  assign wqe_ok        = !wqe_malformed && !wqe_long
                         && (hdr.inline_data || many_sges || !sum_first_bad);
  assign is_new        = !psn_ge({dyn_q.started - dyn_q.wqe - 16'd1, 8'd0}, '0);
  assign hold          = (qpc_q.state == QpsSqd) && is_new;
  // A rate, of a group or of the QP, shuts behind a packet: it is looked at a cycle later. So is the room of hca_mw.
  assign direct        = state_q == StWqe && wqe_ok && !hold && !seek && dyn_q.offset == '0
                         && !late_q && !local_op;
  // So is the lane of a datagram, which its WQE names.
  assign seek          = many_sges || datagram || (!hdr.inline_data && payload && (dyn_q.offset != '0 || empty0));

  // ---- Packet decisions -----------------------------------------------------------------------------
  logic        blocked, is_read, stop, pkt_fire;
  logic [31:0] left;        // of the message; in StWqe, too
  logic [23:0] all_psns;

  assign left    = (state_q == StWqe) ? hdr.length : left_q;
  assign is_read = is_answered((state_q == StWqe) ? hdr.opcode : h_q.opcode);

  assign local_op = is_local((state_q == StWqe) ? hdr.opcode : h_q.opcode);

  hca_sq_packet u_packet (
    .qpc_i     (qpc_q),
    .dyn_i     (dyn_q),
    .ack_i     (ack_q),
    .read_i    (is_read),
    .local_i   (local_op),
    .fence_i   ((state_q == StWqe) ? hdr.fence : h_q.fence),
    .new_i     (is_new),
    .left_i    (left),
    .placed_i  (placed_q),
    .msg_room_i,
    .pkt_o     (pkt_new),
    .all_psns_o(all_psns),
    .blocked_o (blocked)
  );

  // ---- Datagrams ------------------------------------------------------------------------------------
  logic               lane_open;
  logic [AvSlotW-1:0] av_slot;

  hca_sq_datagram u_datagram (
    .clk_i, .rst_i, .sl_open_i, .class_i,
    .qpc_i  (qpc_q),
    .look_i (state_q == StWqe),
    .block_i(block),
    .made_i (pkt_fire),
    .left_i (av_left_i),
    .is_o   (datagram),
    .path_o,
    .open_o (lane_open),
    .full_o (av_full_o),
    .slot_o (av_slot),
    .av_wr_o
  );

  // Its own lane counts, not that of the slot. A datagram that must wait gives its lane to the slot until it has left;
  // and when the position moves nobody knows what is next.
  assign stop        = blocked || (datagram ? !lane_open || av_full_o : gate_i.shut) || (local_op && !mw_room_i);
  assign dry_o       = state_q == StCheck && datagram && av_full_o;
  assign follow_o    = datagram && ((state_q == StRedo && moves) || (state_q == StCheck && stop) || pkt_fire);
  assign follow_sl_o = (state_q == StCheck) ? path_o.sl : qpc_q.path.sl;

  // ---- Emission -------------------------------------------------------------------------------------
  logic seg_fire, pkt_end, step, used_up, burst_end;

  assign pkt_left = (state_q == StSeg) ? pkt_left_q : pkt_q.bytes;
  assign piece    = (h_q.inline_data || sge_left >= 32'(pkt_left)) ? pkt_left : sge_left[12:0];

  assign omt_valid_o = state_q == StPacket && !omt_done_q;
  assign pkt_fire    = state_q == StPacket && txp_ready_i && (seg_ready_i || !pkt_q.payload)
                       && (!omt_valid_o || omt_ready_i);
  assign txp_valid_o = pkt_fire && !local_op;  // into registers of hca_requester: never waits for anything outside
  assign mw_valid_o  = pkt_fire && local_op;
  assign seg_fire    = (pkt_fire && pkt_q.payload) || (state_q == StSeg && seg_ready_i);
  assign seg_valid_o = seg_fire;
  assign pkt_end     = (pkt_fire && !pkt_q.payload) || (seg_fire && piece == pkt_left);
  assign step        = seg_fire && !h_q.inline_data;
  assign used_up     = step && sge_left == 32'(piece);
  // A large packet counts for many small ones: in a row they cost others no more time than a few large ones.
  assign weight      = (pkt_q.bytes > 13'd256) ? CountW'(Large) : CountW'(1);
  assign burst_end   = count_q + weight >= (gate_i.urgent ? CountW'(4) : CountW'(Burst));

  hca_sq_build u_build (
    .qpn_i      (qpn_q),
    .qpc_i      (qpc_q),
    .dyn_i      (dyn_q),
    .hdr_i      (h_q),
    .pkt_i      (pkt_q),
    .left_i     (left_q),
    .all_psns_i (all_psns),
    .va_i       (h_q.inline_data ? inline_va_q : sge_va),
    .lkey_i     (sge_lkey),
    .piece_i    (piece),
    .seg_last_i (pkt_end),
    .av_slot_i  (av_slot),
    .block_i    (block),
    .omt_o, .txp_o, .seg_o, .mw_o
  );

  // ---- What follows a packet ------------------------------------------------------------------------
  assign have_next = have_q - (BlkW+1)'(stride);
  always_comb begin
    after_pkt = StEnd;
    end_pkt   = EndAgain;
    if (!pkt_q.last) begin
      if (!burst_end) after_pkt = used_up ? StSeek : StCheck;
    end else if (dyn_q.wqe + 16'd1 == pi_q) begin
      end_pkt = EndPark;
    end else if (have_next < (BlkW+1)'(stride)) begin
      end_pkt = EndWait;
    end else if (!burst_end) begin
      after_pkt = (state_q == StPacket) ? StWqe : StNext;
    end
  end

  // How the turn really ends: a wait is over if the fetcher has stopped; slots go back when others wait.
  always_comb begin
    end_now = end_q;
    if (end_q == EndWait && (fetch_err_i || exhausted_i)) end_now = EndAgain;
    if (end_q == EndPark && (want_slot_i || gate_i.others)) end_now = EndRelease;
    if (end_q == EndAgain && want_slot_i && gate_i.shut && !gate_i.keep) end_now = EndRequeue;
    if (end_q == EndAgain && gate_i.others && quota_q[slot_q][6]) end_now = EndRequeue;
  end

  // ---- Control --------------------------------------------------------------------------------------
  assign busy_o        = state_q != StIdle;
  assign idle_o        = state_q == StIdle && !next_valid_i;
  assign slot_o        = slot_q;
  assign next_take_o   = next_valid_i && !scrub
                         && (state_q == StIdle || (state_q == StEnd && end_now < EndRelease)
                             || state_q == StOpen || (state_q == StRel && rel_ready_i));
  assign stay          = end_now == EndAgain && !next_valid_i && !pause_i && !gate_i.shut;
  assign again_o       = (state_q == StEnd && end_now == EndAgain && !stay) || state_q == StShut;
  assign stopped_o     = again_o && gate_i.shut && count_q == '0;
  assign served_o      = state_q == StCtx;
  assign park_o        = state_q == StEnd && end_now == EndPark;
  assign redo_o        = state_q == StRedo || state_q == StOpen;
  assign deaf_o        = state_q == StOpen || (state_q == StEnd && (end_now == EndWait || (park_o && rel_idle_o)));
  assign ctx_re_o      = state_q == StLoad;
  assign rel_valid_o   = state_q == StRel;
  assign rel_requeue_o = end_q == EndRequeue;
  assign rel_idle_o    = pi_q == dyn_q.wqe;
  assign restart_o     = (redo_o && (fresh_i || fetch_err_q || !same)) || (rel_valid_o && rel_ready_i)
                         || (state_q == StErr && err_ready_i);
  assign plain         = state_ok && !moves && !dyn_q.err && !ack_q.halt && !pi_bad;
  assign limit_o       = (state_q == StEval && plain && !fresh_i) || state_q == StOpen;
  assign idx_o         = dyn_redo.wqe;
  assign pi_o          = pi_q;
  assign pop_o         = pkt_end && pkt_q.last;
  assign pop_blocks_o  = stride;
  assign ring_o        = '{func: qpc_q.func, base: qpc_q.base, log_size: qpc_q.log_size,
                           log_stride: qpc_q.log_stride};
  assign err_valid_o   = state_q == StErr;

  always_comb begin
    err_o           = '0;
    err_o.kind      = MsgSqError;
    err_o.qpn       = qpn_q;
    err_o.wqe_index = dyn_q.wqe;
    err_o.status    = status_q;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle:   if (next_take_o) state_q <= StLoad;
        // Nothing of a QP with a shut gate is looked at, but its WQEs are read; an idle one may leave.
        StLoad: begin
          if (!gate_i.shut || parked_q) state_q <= StCtx;
          else state_q <= (want_slot_i && !gate_i.keep) ? StRel : fresh_i ? StCtx : StShut;
        end
        StCtx:    state_q <= StEval;
        StEval: begin
          state_q <= StEnd;
          if (plain && fresh_i && pi_q != dyn_q.wqe) state_q <= StOpen;
          else if (state_ok && (fresh_i || moves)) state_q <= StRedo;
          else if (!state_ok || dyn_q.err || ack_q.halt) state_q <= StEnd;
          else if (pi_bad) state_q <= StErr;
          else if (pi_q == dyn_q.wqe) state_q <= StEnd;
          else if (have_q >= (BlkW+1)'(stride)) state_q <= StWqe;
          else if (fetch_err_q) state_q <= StErr;
        end
        StRedo:   state_q <= StEval;
        StWqe: begin
          if (!wqe_ok) state_q <= StErr;
          else if (hold) state_q <= StEnd;
          else if (direct) state_q <= (blocked || gate_i.shut) ? StEnd : StPacket;
          else state_q <= seek ? StSeek : StCheck;
        end
        StSeek: begin
          if (!sge_busy) state_q <= (check_sum_q && sum_bad) ? StErr : in_pkt_q ? StSeg : StCheck;
        end
        StCheck:  state_q <= stop ? StEnd : StPacket;
        StPacket, StSeg: begin
          if (pkt_end) state_q <= after_pkt;
          else if (seg_fire) state_q <= StSeek;
        end
        StNext:   state_q <= StHead;
        StHead:   state_q <= StWqe;
        StErr:    if (err_ready_i) state_q <= StEnd;
        StEnd: begin
          if (end_now >= EndRelease) state_q <= StRel;
          else state_q <= (next_take_o || stay) ? StLoad : StIdle;
        end
        StRel:    if (rel_ready_i) state_q <= next_take_o ? StLoad : StIdle;
        // StOpen: WQEs of a new QP are asked for. StShut: until the gate opens.
        default:  state_q <= next_take_o ? StLoad : StIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (next_take_o) {slot_q, parked_q} <= {next_slot_i, next_parked_i};
    else if (state_q == StEnd) parked_q <= 1'b0;
    unique case (state_q)
      StLoad: begin
        qpn_q   <= slot_qpn_i;
        count_q <= '0;
        end_q   <= EndRequeue;  // if its gate is shut
        // Together with the read of the head block: a block written in this cycle is not in what it returns.
        have_q      <= have_i;
        head_q      <= head_i;
        fetch_err_q <= fetch_err_i;
        exhausted_q <= exhausted_i;
      end
      StCtx: begin
        {dyn_q, ack_q} <= {dyn, ctx_ack_i};
        placed_q    <= ctx_placed_i;
        qpc_q       <= ctx_qpc_i;
        pi_q        <= slot_pi_i;
      end
      StEval: begin
        status_q <= WcLocQpOpErr;
        late_q   <= qpc_q.path.group != '0 || gate_i.paced;
        end_q    <= EndPark;
        if (!state_ok) end_q <= EndRelease;
        else if (!dyn_q.err && !ack_q.halt && pi_q != dyn_q.wqe) end_q <= exhausted_q ? EndRequeue : EndWait;
      end
      StRedo: begin
        dyn_q <= dyn_redo;
        if (restart_o) {have_q, head_q, fetch_err_q, exhausted_q} <= '0;
      end
      StWqe: begin
        h_q         <= hdr;
        left_q      <= hdr.length - dyn_q.offset;
        inline_va_q <= qpc_q.base + (64'(ring_slot) << (4'd6 + 4'(qpc_q.log_stride)))
                       + (datagram ? 64'(SqWqeUdCtrlBytes) : 64'(SqWqeCtrlBytes)) + 64'(dyn_q.offset);
        in_pkt_q    <= 1'b0;
        check_sum_q <= many_sges;
        pkt_q       <= pkt_new;
        omt_done_q  <= 1'b0;
        end_q       <= (direct && !blocked) ? EndAgain : EndPark;
        status_q    <= wqe_malformed ? WcLocQpOpErr : WcLocLenErr;
      end
      StSeek: if (!sge_busy) check_sum_q <= 1'b0;
      StCheck: begin
        pkt_q      <= pkt_new;
        omt_done_q <= 1'b0;
        end_q      <= blocked ? EndPark : EndAgain;
      end
      StPacket: if (omt_valid_o && omt_ready_i) omt_done_q <= 1'b1;
      StErr: begin
        dyn_q.err <= 1'b1;
        end_q     <= EndPark;
      end
      StEnd:   end_q <= end_now;
      default: ;
    endcase
    if (redo_o && fresh_i) quota_q[slot_q] <= '0;
    if (seg_fire) begin
      pkt_left_q <= pkt_left - piece;
      in_pkt_q   <= !pkt_end;
      if (h_q.inline_data) inline_va_q <= inline_va_q + 64'(piece);
    end
    if (pkt_end) begin
      end_q        <= end_pkt;
      count_q      <= count_q + weight;
      left_q       <= left_q - 32'(pkt_q.bytes);
      dyn_q.psn    <= dyn_q.psn + pkt_q.psns;
      dyn_q.retx   <= 1'b0;
      dyn_q.offset <= pkt_q.last ? '0 : dyn_q.offset + 32'(pkt_q.bytes);
      if (is_new) dyn_q.started <= dyn_q.wqe + 16'd1;
      if (is_read) dyn_q.rd_issued <= dyn_q.rd_issued + 16'd1;
      dyn_q.local_op <= local_op;
      if (!quota_q[slot_q][6]) quota_q[slot_q] <= quota_q[slot_q] + 7'd1;
    end
    if (pop_o) begin
      dyn_q.wqe <= dyn_q.wqe + 16'd1;
      have_q    <= have_next;
      head_q    <= head_q + BlkW'(stride);
    end
  end

  // ---- WQE blocks -----------------------------------------------------------------------------------
  logic            sge_re, load;
  logic [BlkW-1:0] sge_ptr;

  assign load = state_q == StCtx || state_q == StHead
                || (state_q == StPacket && pkt_end && after_pkt == StWqe);

  hca_sq_sge #(.BlkW(BlkW)) u_sge (
    .clk_i, .rst_i,
    .datagram_i(datagram),
    .load_i   (load),
    .start_i  (state_q == StWqe && wqe_ok && !hold && !hdr.inline_data),
    .seek_i   (payload),
    .skip_i   (dyn_q.offset),
    .step_i   (step),
    .bytes_i  (piece),
    .more_i   (!(pkt_end && (pkt_q.last || burst_end))),
    .busy_o   (sge_busy),
    .sum_first_bad_o(sum_first_bad),
    .sum_bad_o(sum_bad),
    .hdr_o    (hdr),
    .block_o  (block),
    .empty0_o (empty0),
    .va_o     (sge_va),
    .left_o   (sge_left),
    .lkey_o   (sge_lkey),
    .blk_re_o (sge_re),
    .blk_ptr_o(sge_ptr),
    .blk_i    (blk_i)
  );

  always_comb begin  // the header of the next WQE is read ahead
    blk_re_o  = 1'b1;
    blk_ptr_o = head_q;
    if (sge_re) blk_ptr_o = head_q + sge_ptr;
    else if (state_q == StLoad) blk_ptr_o = head_i;
    else if (state_q == StWqe || (state_q == StCheck && pkt_new.last)) blk_ptr_o = head_q + BlkW'(stride);
    else if (state_q != StNext) blk_re_o = 1'b0;
  end

  hca_sq_pos u_pos (
    .clk_i, .rst_i,
    .scrub_o (scrub),
    .we_i    (state_q == StEnd),
    .wr_qpn_i(qpn_q),
    .wr_i    (dyn_q),
    .re_i    (state_q == StLoad),
    .rd_qpn_i(slot_qpn_i),
    .rd_o    (dyn)
  );

endmodule
