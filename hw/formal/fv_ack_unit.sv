// Proof of hca_ack_unit, the bookkeeping of acknowledges, for one job of a QP, against numbers that never wrap: PSNs
// and WQE indices of the card are their low bits. A job begins with a state that keeps to m_state, and ends with one
// that does (a_state), so all do: what the requester makes between two jobs only moves the marks on.
// Neighbours: hca_omt answers with the row of the WQE that it is asked for, if that has been begun, and hca_msg_pool
// with that WQE's block; hca_rx_tables holds context and marks; hca_rx_ctrl starts what is for this unit, and voids the
// packets that its filter refuses. Without selective repeat, whose marks are looked at by fv_resp_ahead.
module fv_ack_unit
  import hca_pkg::*;
  import hca_rx_pkg::*;
  import hca_rx_state_pkg::*;
(
  input logic         clk_i,
  input logic         start_i,
  input logic         has_pkt_i,
  input rxd_t         rxd_i,
  input rx_msg_t      msg_i,
  input logic [QpW-1:0] qpn_i,
  input rx_ctx_t      ctx_i,
  input logic         dead_i,
  input logic         refused_i,     // the filter's verdict, a cycle late
  input ack_st_t      st_i,
  input logic         item_ready_i,
  // True numbers, with start_i.
  input logic [25:0]  una_psn_i, first_psn_i, mark_psn_i,
  input logic [18:0]  una_wqe_i, mark_wqe_i,
  input logic         local_i,       // the newest WQE has no packets: hca_mw has it
  // What the table says next.
  input logic [23:0]  length_i,      // PSNs of the row behind its first one
  input omt_row_t     row_i,
  input logic [MsgBlkW-1:0] blk_i, next_blk_i
);
  // A QP's state and marks, and the WQE that the walk is at.
  typedef struct packed {
    logic [25:0] psn, first;
    logic [18:0] wqe;
  } at_t;

  logic         rst_q = 1'b1;
  logic         void_q, start, item_valid, done, upd_valid, ev_valid, dead;
  omt_ask_t     ask;
  omt_row_t     row_q;
  logic [MsgBlkW-1:0] blk_q, mapped_q;   // of the row that the walk is at; what was answered
  rxw_t         item;
  ack_st_t      st, st_q;
  ack_upd_t     upd;
  rx_ev_t       ev;
  ack_job_t     job, job_q;
  rx_ctx_t      ctx_q;
  rxd_t         rxd_q;
  hw_mark_t     mark, mark_q;
  logic         dead_q, pkt_q, busy_q, second_q;

  assign job   = has_pkt_i ? ack_job_of_packet(qpn_i, rxd_i) : ack_job_of_msg(qpn_i, msg_i);
  assign mark  = '{wqe: mark_wqe_i[WqeIndexBits-1:0], psn: mark_psn_i[23:0]};
  assign start = start_i && !busy_q && !rst_q;

  hca_ack_unit u_dut (
    .clk_i, .rst_i(rst_q), .start_i(start), .now_job_i(job), .void_i(void_q), .has_pkt_i(pkt_q), .rxd_i(rxd_q),
    .now_ctx_i(ctx_i), .now_dead_i(dead_i), .now_mark_i(mark), .st_i, .ctx_i(ctx_q), .dead_i(dead_q), .mark_i(mark_q),
    .ask_o(ask), .blk_i(mapped_q), .row_i(row_q), .item_valid_o(item_valid), .item_ready_i, .item_o(item), .list_o(),
    .done_o(done), .st_o(st), .dead_o(dead), .upd_valid_o(upd_valid), .upd_o(upd), .ev_valid_o(ev_valid), .ev_o(ev)
  );

  localparam logic [2:0] StIdle = 3'd0, StMap = 3'd1, StWalk = 3'd2, StRead = 3'd3, StEnd = 3'd7;   // of the unit
  logic [2:0] state, state_d;
  assign state   = u_dut.state_q;
  assign state_d = u_dut.state_d;

  // ---- The walk, by true numbers -----------------------------------------------------------------------
  at_t          from_q, at_q, begin_at;     // the state that the job began with; where the walk is
  logic [25:0]  all_q, said, target, said_q, target_q, last, ask_first;   // all: everything before it has been sent
  logic [18:0]  begun_q, row_wqe_q, ask_wqe;
  logic [23:0]  length_q;
  logic         local_q, in_window, live, live_q, answers, over, row_here, fresh_q;

  assign begin_at  = '{psn: una_psn_i, first: first_psn_i, wqe: una_wqe_i};
  // The PSN that the packet names: the one with those low bits from the oldest one on.
  assign said      = una_psn_i + 26'(24'(job.psn - una_psn_i[23:0]));
  assign in_window = said < mark_psn_i;
  // Reserved codes answer nothing.
  assign answers   = job.kind == AjRead || (job.kind == AjAck && !job.syndrome[7] && job.syndrome[6:5] != 2'b10);
  assign live      = in_window && answers;
  assign target    = said + 26'(job.kind == AjAck && job.syndrome[6:5] == 2'b00);
  assign last      = at_q.first + 26'(length_q);
  assign row_here  = row_wqe_q == at_q.wqe && at_q.wqe < begun_q;
  assign over      = u_dut.over;
  assign ask_wqe   = busy_q ? at_q.wqe : una_wqe_i;
  assign ask_first = busy_q ? at_q.first : first_psn_i;

  always_ff @(posedge clk_i) begin
    rst_q    <= 1'b0;
    void_q   <= start && has_pkt_i && (refused_i || dead_i);
    busy_q   <= !rst_q && (start || (busy_q && !done && !void_q));
    fresh_q  <= start;
    if (start) second_q <= 1'b0;
    if (!busy_q) begin
      {ctx_q, dead_q, mark_q, rxd_q, pkt_q, job_q, st_q} <= {ctx_i, dead_i, mark, rxd_i, has_pkt_i, job, st_i};
      {from_q, at_q, all_q, begun_q, local_q}            <= {begin_at, begin_at, mark_psn_i, mark_wqe_i, local_i};
      {said_q, target_q, live_q}                         <= {said, target, live};
      blk_q <= blk_i;
    end else if (over && !done) begin
      // What completes without packets is the last thing of its job.
      at_q <= '{psn: last + 26'd1, first: last + 26'd1, wqe: at_q.wqe + 19'd1};
      if (at_q.wqe[MsgRowW-1:0] == '1) blk_q <= next_blk_i;
      second_q <= state == StEnd;
    end else if (state == StWalk && u_dut.walk_on && !u_dut.pend_here && !u_dut.row_read && !u_dut.row_in) begin
      at_q.psn <= target_q;   // amid a message
    end
    if (ask.row_en) begin
      row_q          <= row_i;
      row_q.last_psn <= 24'(ask_first + 26'(length_i));
      {row_wqe_q, length_q} <= {ask_wqe, length_i};
    end
    if (ask.map_en) mapped_q <= busy_q ? blk_q : blk_i;
  end

  // ---- What its neighbours keep to ---------------------------------------------------------------------
  // Of a state and marks: what is outstanding is a window, from inside the oldest WQE to inside the newest one.
  function automatic logic state_ok(at_t at, logic [25:0] all, logic [18:0] begun, logic is_local, logic [18:0] most);
    return at.first <= at.psn && at.psn <= all && at.wqe <= begun && begun - at.wqe <= most
           && all - at.first < 26'h100_0000
           && (at.wqe != begun || (at.first == all && at.psn == all))
           && (at.wqe == begun || (is_local && at.wqe + 19'd1 == begun ? at.first == all : at.first < all));
  endfunction

  function automatic logic pend_ok(ack_st_t s);
    wqe_idx_t ahead;
    ahead = s.pend_wqe - s.una_wqe;
    return !s.pend_valid || (ahead < wqe_idx_t'(1 << 15) && s.pend_status != WcSuccess);
  endfunction

  rx_st_t rx_st;
  always_comb begin
    rx_st         = '0;
    rx_st.ack     = st_i;
    rx_st.sq_dead = dead_i;
  end

  logic ends_row, ends_next;
  assign ends_row  = ask_first + 26'(length_i) + 26'd1 < (busy_q ? all_q : mark_psn_i);
  assign ends_next = ask_first + 26'(length_i) + 26'd1 == (busy_q ? all_q : mark_psn_i);

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      if (start) begin
        // Far from where the true numbers themselves end.
        m_far:   assume (first_psn_i < 26'h200_0000 && una_wqe_i < 19'h4_0000);
        m_state: assume (state_ok(begin_at, mark_psn_i, mark_wqe_i, local_i, 19'(MaxOutstanding)) && pend_ok(st_i));
        m_low:   assume (st_i.una_psn == una_psn_i[23:0] && st_i.una_first_psn == first_psn_i[23:0]
                         && st_i.una_wqe == una_wqe_i[WqeIndexBits-1:0]);
        m_blk:   assume (!st_i.blk_ok || st_i.blk == blk_i);
        m_job:   assume (has_pkt_i || msg_is_for_ack(msg_i.msg, ctx_i, rx_st));
        // hca_mw has the newest WQE, alone (hca_sq_window), and no other one is behind it to fail.
        m_local: assume (job.kind != AjMwDone || (local_i && una_wqe_i + 19'd1 == mark_wqe_i && !st_i.pend_valid));
        // Local errors are of WQEs that have been begun, or of the next one; of hca_rx_exec's of READs that have
        // completed or are the oldest one.
        m_status: assume (job.kind != AjSqError || job.status != WcSuccess);
        m_error: assume (job.kind != AjSqError || job.from_exec
                         || wqe_idx_t'(job.wqe_index - st_i.una_wqe) <= wqe_idx_t'(mark_wqe_i - una_wqe_i)
                         || wqe_idx_t'(job.wqe_index - st_i.una_wqe) >= wqe_idx_t'(1 << 16));
      end
      m_plain: assume (!(start || !busy_q) || (!ctx_i.selective && !st_i.few_on && st_i.marks == '0));
      if (ask.row_en && ask_wqe < (busy_q ? begun_q : mark_wqe_i)) begin
        m_answered: assume (row_i.answered == is_answered(row_i.opcode));
        // All of a message that another one stands behind has been sent, of the newest one its first packet.
        if (ask_wqe + 19'd1 < (busy_q ? begun_q : mark_wqe_i)) begin
          m_row: assume (((busy_q ? local_q : local_i) && ask_wqe + 19'd2 == (busy_q ? begun_q : mark_wqe_i))
                         ? ends_next : ends_row);
        end else begin
          m_new: assume ((busy_q ? local_q : local_i) || !ends_row);
        end
        // The oldest unacknowledged PSN is inside the oldest message.
        m_oldest: assume ((busy_q ? local_q : local_i) && ask_wqe + 19'd1 == (busy_q ? begun_q : mark_wqe_i)
                          || ask_first + 26'(length_i) >= (busy_q ? at_q.psn : una_psn_i));
      end
    end
  end

  // ---- What is promised --------------------------------------------------------------------------------
  // The state behind the job, by true numbers: its WQE and PSNs are ahead of where the job began.
  at_t  behind;
  logic is_ack, is_read, moved, taken, success, failure, at_read, waits_read, by_exec, from_mw;
  assign behind = '{psn:   from_q.psn + 26'(24'(st.una_psn - from_q.psn[23:0])),
                    first: from_q.first + 26'(24'(st.una_first_psn - from_q.first[23:0])),
                    wqe:   from_q.wqe + 19'(wqe_idx_t'(st.una_wqe - from_q.wqe[WqeIndexBits-1:0]))};
  assign is_ack  = job_q.kind == AjAck;
  assign is_read = job_q.kind == AjRead;
  assign by_exec = job_q.kind == AjSqError && job_q.from_exec;
  assign from_mw = job_q.kind == AjMwDone;
  assign moved   = behind != from_q;
  assign taken   = item_valid && item_ready_i && !void_q;
  assign success = taken && item.cqe.valid && item.cqe.wc.status == WcSuccess;
  assign failure = taken && item.cqe.valid && item.cqe.wc.status != WcSuccess;
  // The walk stands before a READ or an atomic without its data.
  assign at_read    = row_here && row_q.answered;
  assign waits_read = at_read && behind.wqe == at_q.wqe && behind.psn == at_q.psn;

  logic [7:0] freed_q;
  logic       failed_q;
  always_ff @(posedge clk_i) begin
    if (start) {freed_q, failed_q} <= '0;
    else begin
      if (taken && item.frees) freed_q <= freed_q + 8'd1;
      if (failure) failed_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      // Order: forward, a WQE at a time, in a window that stays one.
      a_idle:     assert (busy_q || !(item_valid || done));
      a_void:     assert (!void_q || !(done || over));
      if (done && !void_q && !by_exec && !dead) begin
        a_state:  assert (state_ok(behind, all_q, begun_q, local_q, 19'(MaxOutstanding)) && pend_ok(st));
        a_forward: assert (behind.psn >= from_q.psn && behind.wqe >= from_q.wqe);
        a_inside: assert (!(live_q && row_here && behind.wqe == at_q.wqe) || local_q || behind.psn <= last);
      end
      if (done && !void_q) begin
        a_step:   assert (by_exec || (behind.wqe - at_q.wqe <= 19'd1 && behind.psn <= all_q));
        a_blk:    assert (!st.blk_ok || by_exec || dead || from_mw || st.blk == blk_q);
        // A WQE that has failed here fails when it is the oldest one, or its answer has come for all that.
        a_pend:   assert (dead || !st.pend_valid || st.pend_wqe != st.una_wqe
                          || (taken && item.kind != RxwNone && !item.msg_last));
        // Only as far as it says; a response acknowledges itself, if it is the next one.
        a_most:   assert (!live_q || behind.psn <= target_q + 26'(is_read));
        a_ack:    assert (!(live_q && is_ack && !dead) || behind.psn == target_q || waits_read);
        a_stale:  assert (live_q || dead || from_mw || job_q.kind == AjSqError || !moved);
        a_told:   assert (upd_valid || (!moved && dead == dead_q && st.rnr_wait == st_q.rnr_wait
                                        && st.gen == st_q.gen));
        a_upd:    assert (!upd_valid || (upd.una_psn == st.una_psn && upd.una_wqe == st.una_wqe
                                         && upd.una_first_psn == st.una_first_psn && upd.rd_done == st.rd_done
                                         && upd.qpn == job_q.qpn));
        // Back to the oldest one, or halted; never both, and never with an error.
        a_rewind: assert (!(upd_valid && upd.rewind) || (!upd.halt && !dead && !st.rnr_wait && st.gen != st_q.gen));
        a_halt:   assert (!upd_valid || upd.rewind || upd.halt == (dead || st.rnr_wait));
        a_plain:  assert (!(is_ack && live_q && job_q.syndrome[6:5] == 2'b00) || !upd.rewind || !upd_valid
                          || waits_read);
        a_gap:    assert (!(is_ack && live_q && job_q.syndrome == NakPsnSequence && !st_q.rnr_wait
                            && behind.psn == target_q) || upd.rewind || dead || st.rnr_wait);
        a_rnr:    assert (!(is_ack && live_q && job_q.syndrome[6:5] == 2'b01 && behind.psn == target_q)
                          || st.rnr_wait || dead);
        a_paid:   assert (!(is_ack && live_q && job_q.syndrome[6:5] == 2'b01 && st.rnr_wait && !st_q.rnr_wait && !moved
                            && behind.psn == target_q)
                          || st.rnr_left == (st_q.rnr_left == 3'd7 ? 3'd7 : st_q.rnr_left - 3'd1));
        a_timeout: assert (!(job_q.kind == AjTimeout && ctx_q.tx_live && !st_q.rnr_wait && from_q.psn != all_q)
                           || (upd_valid && (upd.rewind || dead || st.rnr_wait)));
        a_retry:  assert (!(upd_valid && upd.rewind) || moved || job_q.kind == AjRnrDone
                          || st.retry_left == st_q.retry_left - 3'd1);
        // An error takes the QP down with the oldest WQE; once.
        a_fails:  assert (dead == (dead_q || failed_q || failure) && (!failure || !failed_q));
        a_failed: assert (!(failure && !by_exec) || behind.wqe == at_q.wqe + 19'd1);
        a_frees:  assert (freed_q + 8'(taken && item.frees) == 8'(pkt_q));
        a_event:  assert ((ev_valid && ev.kind == HwEventQpError) == (dead && !dead_q));
        a_drained: assert (!(ev_valid && ev.kind == HwEventSqDrained)
                           || (!dead && !st.draining && behind.wqe == begun_q && behind.psn == all_q));
        a_draining: assert (!(st_q.draining || job_q.kind == AjSqDrain) || dead || st.draining || ev_valid);
        a_limit:  assert ((!st.credit.on || st_q.credit.on)
                          && wqe_idx_t'(st.credit.limit - st_q.credit.limit) < wqe_idx_t'(1 << 16));
      end
      // Completions: in order, each WQE once, and only what has been answered.
      a_over:     assert (!over || void_q || at_q.wqe < begun_q);
      if (success) begin
        a_which:  assert (item.cqe.wc.wqe_index == at_q.wqe[15:0] && over && row_here && row_q.signaled
                          && item.cqe.wc.byte_len == row_q.len_bytes);
        a_acked:  assert (from_mw || (live_q && (row_q.answered ? is_read && said_q == last
                                                                : last < target_q)));
      end
      a_silent:   assert (!(over && !void_q && row_here && row_q.signaled) || success);
      a_order:    assert (!(over && !void_q) || from_mw || (live_q && (row_q.answered ? is_read && said_q == last
                                                                                     : last < target_q)));
      if (failure) begin
        a_oldest: assert (item.cqe.wc.wqe_index == (by_exec ? job_q.wqe_index[15:0] : at_q.wqe[15:0]) && done && dead);
      end
      // Data goes to the oldest WQE, where it belongs.
      if (taken && item.kind != RxwNone) begin
        a_places: assert (is_read && live_q && said_q == at_q.psn && item.wqe_index == at_q.wqe[WqeIndexBits-1:0]
                          && row_here && row_q.answered && item.msg_last == (said_q == last));
        a_offset: assert (item.msg_offset == 32'({(said_q - at_q.first), 7'd0} << ctx_q.path_mtu));
      end
      a_free:     assert (!ask.free || (ask.free_blk == blk_q && at_q.wqe[MsgRowW-1:0] == '1
                                        && ask.free_wqe == at_q.wqe[WqeIndexBits-1:0]));
      a_row:      assert (!(ask.row_en && busy_q && !void_q && live_q && at_q.wqe < begun_q && !done)
                          || (ask.blk == blk_q && ask.wqe == at_q.wqe[WqeIndexBits-1:0]));
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      c_two:     cover (done && is_ack && success && behind.wqe == from_q.wqe + 19'd2 && state == StWalk
                        && behind.psn[23:0] < from_q.psn[23:0]);
      c_read:    cover (done && is_read && success && behind.wqe == from_q.wqe + 19'd2 && item.msg_last);
      c_implied: cover (done && is_ack && upd_valid && upd.rewind && waits_read && moved);
      c_second:  cover (done && second_q && failure);
      c_retire:  cover (done && from_mw && success);
    end
  end

  // ---- Helpers -----------------------------------------------------------------------------------------
  logic walks, ends, newest;
  assign walks  = state inside {StWalk, StMap, StRead};
  assign ends   = state == StEnd && !second_q;
  assign newest = at_q.wqe + 19'd1 == begun_q;
  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      h_busy:  assert (busy_q == (state != StIdle) && (!busy_q || state inside {StMap, StWalk, StRead, StEnd}));
      h_void:  assert (!void_q || (busy_q && pkt_q && fresh_q));
      h_dead:  assert (!(busy_q && dead_q && pkt_q) || void_q);
      if (busy_q) begin
        h_job:    assert (u_dut.job_q == job_q && (pkt_q ? job_q == ack_job_of_packet(job_q.qpn, rxd_q)
                          : job_q.kind != AjRead && (job_q.kind != AjAck || job_q.syndrome == AethAck)));
        h_live:   assert (u_dut.live_q == live_q && u_dut.plain_q == (is_ack && job_q.syndrome[6:5] == 2'b00)
                          && (!(is_ack || is_read) || u_dut.target_q == target_q[23:0]));
        h_said:   assert (u_dut.said == ack_said(job_q, ctx_q.is_xrc) && (!live_q || is_ack || is_read));
        h_target: assert (!live_q || (said_q[23:0] == job_q.psn && said_q >= from_q.psn && said_q < all_q
                          && target_q == said_q + 26'(u_dut.plain_q)));
        h_from:   assert (state_ok(from_q, all_q, begun_q, local_q, 19'(MaxOutstanding)) && pend_ok(st_q)
                          && from_q.first < 26'h200_0000 && from_q.wqe < 19'h4_0000
                          && st_q.una_psn == from_q.psn[23:0] && st_q.una_first_psn == from_q.first[23:0]
                          && st_q.una_wqe == from_q.wqe[WqeIndexBits-1:0] && mark_q.psn == all_q[23:0]
                          && mark_q.wqe == begun_q[WqeIndexBits-1:0]);
        h_at:     assert (state_ok(at_q, all_q, begun_q, local_q, 19'(MaxOutstanding)) && at_q.psn >= from_q.psn
                          && at_q.first >= from_q.first && at_q.wqe >= from_q.wqe);
        h_low:    assert (u_dut.ack_q.una_psn == at_q.psn[23:0] && u_dut.ack_q.una_first_psn == at_q.first[23:0]
                          && u_dut.ack_q.una_wqe == at_q.wqe[WqeIndexBits-1:0]);
        h_blk:    assert (!(u_dut.ack_q.blk_ok || (live_q && at_q.psn < all_q && (state == StWalk || (ends && is_read)))
                            || (from_mw && state != StMap))
                          || u_dut.ack_q.blk == blk_q);
        h_map:    assert (state != StMap || mapped_q == blk_q);
        h_before: assert (live_q ? at_q.psn <= target_q + 26'(second_q) : at_q == from_q);
        h_first:  assert (second_q || !(fresh_q && at_q != from_q));
        h_second: assert (u_dut.second_q == second_q && (!second_q
                          || (state == StEnd && is_read && live_q && u_dut.pend_q)));
        h_moved:  assert (u_dut.moved_q == (at_q != from_q));
        h_plain:  assert (!ctx_q.selective && !u_dut.ack_q.few_on && u_dut.ack_q.marks == '0
                          && {u_dut.looked_q, u_dut.passes_q, u_dut.found_q, u_dut.few} == '0);
        h_keep:   assert (u_dut.ack_q.rnr_wait == st_q.rnr_wait && u_dut.ack_q.gen == st_q.gen
                          && u_dut.ack_q.pend_valid == st_q.pend_valid && u_dut.ack_q.pend_wqe == st_q.pend_wqe
                          && u_dut.ack_q.pend_status == st_q.pend_status);
        h_kept:   assert (second_q || (u_dut.ack_q.retry_left == st_q.retry_left
                          && u_dut.ack_q.rnr_left == st_q.rnr_left && u_dut.ack_q.gap_seen == st_q.gap_seen
                          && u_dut.ack_q.draining == st_q.draining
                          && u_dut.ack_q.credit == st_q.credit));
        h_credit: assert ((!u_dut.ack_q.credit.on || st_q.credit.on)
                          && wqe_idx_t'(u_dut.ack_q.credit.limit - st_q.credit.limit) < wqe_idx_t'(1 << 16));
        h_pend:   assert (!st_q.pend_valid || wqe_idx_t'(st_q.pend_wqe - u_dut.ack_q.una_wqe) < wqe_idx_t'(1 << 15));
        h_pend_q: assert (state != StEnd || u_dut.pend_q == (st_q.pend_valid
                                                            && st_q.pend_wqe == u_dut.ack_q.una_wqe));
        h_freed:  assert (freed_q == 8'(second_q && pkt_q) && !failed_q);
        h_waits:  assert (!u_dut.waits || (job_q.kind == AjSqError && !job_q.from_exec
                          && wqe_idx_t'(job_q.wqe_index - st_q.una_wqe) <= wqe_idx_t'(begun_q - from_q.wqe)));
        h_status: assert (job_q.kind != AjSqError || job_q.status != WcSuccess);
        h_here:   assert (u_dut.is_here == (job_q.wqe_index == st_q.una_wqe) && u_dut.idle == (from_q.psn == all_q));
        h_mw:     assert (!from_mw || (local_q && newest && !st_q.pend_valid && !dead_q));
        h_kind:   assert (!dead_q || pkt_q || job_q.kind == AjSqError);
        h_errors: assert (!(job_q.kind inside {AjSqError, AjTimeout, AjRnrDone, AjSqDrain}) || state == StEnd);
        // The row in hand; none between two.
        h_none:   assert (state != StRead || (live_q && row_wqe_q + 19'd1 == at_q.wqe && at_q.psn == at_q.first));
        if (at_q.wqe < begun_q && (state == StWalk || (ends && (is_read || from_mw || (live_q && row_here))))) begin
          h_row:     assert (row_wqe_q == at_q.wqe && row_q.last_psn == last[23:0]
                             && row_q.answered == is_answered(row_q.opcode));
          h_row_end: assert (newest ? local_q || last + 26'd1 >= all_q
                             : local_q && at_q.wqe + 19'd2 == begun_q ? last + 26'd1 == all_q
                                                                      : last + 26'd1 < all_q);
          h_row_psn: assert ((local_q && newest) || last >= at_q.psn);
        end
        h_there:   assert (state != StWalk || u_dut.at_target_q == (u_dut.ack_q.una_psn == u_dut.target_q));
        h_implied: assert (!u_dut.implied_q || (state == StEnd && !second_q && live_q && at_read
                          && at_q.psn < target_q));
        h_into:    assert (!is_read || !(state inside {StMap, StWalk} || ends)
                           || u_dut.into_q == 24'(job_q.psn - at_q.first[23:0]));
        if (ends && is_read) begin
          h_offset: assert (u_dut.rd_offset == {25'(u_dut.into_q) << ctx_q.path_mtu, 7'd0});
          h_good:   assert (!u_dut.rd_good || !live_q || (row_q.answered
                            && (!row_here || u_dut.rest_none == (row_q.last_psn == u_dut.ack_q.una_psn))));
          h_stops:  assert (u_dut.implied_q || u_dut.stopped_q || !live_q || at_q.psn == target_q);
          h_stopped: assert (!u_dut.stopped_q || u_dut.pend_q);
        end
        if (ends && (is_read || from_mw)) begin
          h_row_q:  assert (u_dut.row_next_q == row_q.last_psn + 24'd1 && u_dut.row_signaled_q == row_q.signaled
                            && u_dut.row_at_q == is_atomic(row_q.opcode) && u_dut.row_is_last_q
                               == (24'(row_q.last_psn + 24'd1) == mark_q.psn));
        end
        if (ends && is_ack) begin
          h_stays:  assert (!live_q || u_dut.implied_q || at_q.psn == target_q || u_dut.pend_q);
        end
      end
    end
  end
endmodule
