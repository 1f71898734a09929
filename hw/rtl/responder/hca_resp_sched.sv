// Schedules what the responder sends: READ responses packet by packet and answers of atomics, round robin over QPs, and
// one cumulative ACK per QP behind them. Per QP up to 16 such jobs (hca_resp_list) and one pending ACK: `rsp` is ready
// again soon, whatever the transmit side does. An ACK never overtakes READ responses of its QP: it waits until they have
// passed the header stage. The ACK of a repeated request never replaces a NAK. QPs wait in a queue per SL or rate group
// (hca_resp_turn), and nobody looks at them while its gate is shut. Takes nothing for NumQps cycles after reset.
//
// Four stages, an event in every second cycle: pick (a job, a context, a QP that has its turn), fetch (its row is there),
// look (compare, into registers), act (the new row, and what leaves). README.md tells what one event sees of the one
// before.
module hca_resp_sched
  import hca_pkg::*, hca_resp_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [NumPorts-1:0] ib_i,         // personality of the ports, before the first context write
  input  logic [NumLanes-1:0] sl_open_i,    // lanes (port and SL) that may send
  input  logic [RateGroups-1:0] rate_open_i,  // rate groups that may
  output logic           made_valid_o,     // a packet was made
  output tx_made_t       made_o,
  output logic           made_read_o,      // it goes to the gather
  input  logic           qpc_wr_valid_i,
  output logic           qpc_wr_ready_o,
  input  qpc_wr_t        qpc_wr_i,
  input  logic           rsp_valid_i,
  output logic           rsp_ready_o,
  input  rsp_job_t       rsp_i,
  input  logic [15:0]    resp_done_seq_i,  // resp_seq of the last READ packet that passed the header stage
  output logic           txp_valid_o,
  input  logic           txp_ready_i,
  output txp_t           txp_o,
  output logic           seg_valid_o,
  input  logic           seg_ready_i,
  output seg_t           seg_o,
  output logic           ack_valid_o,
  input  logic           ack_ready_i,
  output txp_t           ack_o,
  // Strobe: a READ or atomic job of the QP has left its list (last packet made, or dropped).
  output logic           rsp_popped_valid_o,
  output logic [QpW-1:0] rsp_popped_qpn_o
);

  logic           scrub_q, fetch_q, find_q, value_q, look_q, act_q;   // an event is in this stage
  logic [QpW-1:0] scrub_qpn_q;

  // ---- Pick: choose an event, read the QP's row --------------------------------------------------------
  // Of the event that was picked last: from fetch on until the next one is picked, behind look at the earliest.
  resp_ev_e       ev_q;
  logic [QpW-1:0] qpn_q, pick_qpn, turn_qpn;
  rsp_job_t       rsp_q;
  resp_ctx_t      qpc_q;
  logic           init_q;
  logic [2:0]     req, grant;
  logic [1:0]     grant_idx, jobs_q;  // jobs taken since the last turn
  logic           responds_q;         // the last turn sent a READ response, or an atomic's answer
  logic           take, turn_valid, turn_clear_q, read_room, ack_room;
  // Of the event in look or act.
  resp_ev_e       held_ev_q;
  logic [QpW-1:0] held_qpn_q;
  rsp_job_t       held_rsp_q;
  logic           held_init_q;
  resp_row_t      row_q;
  resp_ctx_t      ctx_q;

  assign req[EvJob]  = rsp_valid_i;
  assign req[EvQpc]  = qpc_wr_valid_i;
  // Jobs go first, three for a turn at most: what waits meanwhile is answered by one acknowledge. Responses are not: while
  // turns send them, one job for a turn. The row of the QP
  // that has a turn must be there in fetch, so it does not come directly behind an event of its own (turn_clear_q: it
  // was offered in that event's fetch, and is another QP).
  assign req[EvTurn] = turn_valid && (read_room || ack_room) && (!rsp_valid_i || (&jobs_q) || (responds_q && jobs_q != '0))
                       && (!look_q || turn_clear_q);
  assign take        = !(scrub_q || fetch_q || find_q || value_q) && req != '0;

  assign rsp_ready_o    = take && grant[EvJob];
  assign qpc_wr_ready_o = take && grant[EvQpc];
  assign pick_qpn       = grant[EvJob] ? rsp_i.qpn : grant[EvQpc] ? qpc_wr_i.qpn : turn_qpn;

  hca_rr_arb #(.N(3)) u_events (
    .clk_i, .rst_i,
    .req_i    (req),
    .advance_i(take),
    .grant_o  (grant),
    .idx_o    (grant_idx)
  );

  always_ff @(posedge clk_i) begin
    if (take) begin
      ev_q  <= resp_ev_e'(grant_idx);
      qpn_q <= pick_qpn;
    end
    if (rsp_ready_o) rsp_q <= rsp_i;
    if (qpc_wr_ready_o) begin
      init_q         <= qpc_wr_i.init_rq;
      qpc_q.state    <= qpc_wr_i.qpc.state;
      qpc_q.func     <= qpc_wr_i.qpc.func;
      qpc_q.pd       <= qpc_wr_i.qpc.pd;
      qpc_q.gen      <= qpc_wr_i.qpc.qpn[23:QpW];
      qpc_q.path     <= tx_path_of(qpc_wr_i.qpc, ib_i);
      qpc_q.path_mtu <= (qpc_wr_i.qpc.path_mtu > MtuBytes4096) ? MtuBytes4096 : qpc_wr_i.qpc.path_mtu;
    end
  end

  // A job that asks for the result of an atomic stays two cycles longer in front of look.
  logic asks;
  assign asks = ev_q == EvJob && rsp_q.again;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {fetch_q, find_q, value_q, look_q, act_q} <= '0;
      scrub_q     <= 1'b1;
      scrub_qpn_q <= '0;
      jobs_q      <= '0;
    end else begin
      fetch_q <= take;
      find_q  <= fetch_q && asks;
      value_q <= find_q;
      look_q  <= (fetch_q && !asks) || value_q;
      act_q   <= look_q;
      if (take && grant[EvTurn]) jobs_q <= '0;
      else if (take && grant[EvJob] && !(&jobs_q)) jobs_q <= jobs_q + 2'd1;
      scrub_qpn_q <= scrub_qpn_q + QpW'(scrub_q);
      if (scrub_qpn_q == QpW'(NumQps - 1)) scrub_q <= 1'b0;
    end
  end

  // ---- Fetch: the row, with what the event before has made of it ------------------------------------------
  resp_row_t      row_read, row_late, row_new, written_q;
  logic           row_we, written_valid_q;
  logic [QpW-1:0] written_qpn_q;
  resp_ctx_t      ctx;
  resp_job_t      job;

  // Written while it was read.
  assign row_late = (written_valid_q && written_qpn_q == qpn_q) ? written_q : row_read;

  always_ff @(posedge clk_i) begin
    written_valid_q <= row_we && !rst_i;
    if (row_we) {written_q, written_qpn_q} <= {row_new, held_qpn_q};
    turn_clear_q <= turn_valid && turn_qpn != qpn_q;
    if (fetch_q) begin
      held_ev_q   <= ev_q;
      held_qpn_q  <= qpn_q;
      held_rsp_q  <= rsp_q;
      held_init_q <= ev_q == EvQpc && init_q;
      ctx_q       <= ctx;
      row_q       <= (row_we && held_qpn_q == qpn_q) ? row_new : row_late;
    end
  end

  // ---- Look: what is true of the row -----------------------------------------------------------------------
  typedef struct packed {
    logic                  open;        // the gates it waits behind
    logic                  alive;
    logic                  start_read;
    logic                  send_ack;
    logic                  stale;       // a NAK says more
    logic                  covers;      // this READ response acknowledges what the pending ACK does
    logic                  lost;        // it comes again, and is too old to be here
    logic                  is_nak;
    logic                  moved;       // to another lane or group
    logic [RespQueueW-1:0] waits_in;
  } look_t;

  look_t       seen, seen_q;
  resp_pkt_t   pkt, pkt_q;
  logic        found, last_word, passed, unused_bits;
  logic [15:0] seq_q, seq_next_q;  // of the newest READ packet of the card, and one more

  // A NAK that has itself moved the QP to ERR still goes out, behind the READs that came before it.
  assign last_word = ctx_q.state == QpsErr && row_q.ack && row_q.ack_syndrome[6:5] == 2'b11
                     && row_q.ack_syndrome != NakPsnSequence;
  // READ packets of the card that have not passed are the newest ones: is this QP's last among them?
  assign passed    = !row_q.sent || 16'(seq_q - row_q.last_seq) >= 16'(seq_q - resp_done_seq_i);

  always_comb begin
    seen.open       = sl_open_i[ctx_q.path.sl] && (ctx_q.path.group == '0 || rate_open_i[ctx_q.path.group]);
    seen.alive      = ctx_q.state inside {QpsRtr, QpsRts, QpsSqd, QpsSqe} || last_word;
    seen.start_read = held_ev_q == EvTurn && seen.alive && seen.open && row_q.jobs.count != '0 && read_room;
    seen.send_ack   = held_ev_q == EvTurn && seen.alive && seen.open && row_q.jobs.count == '0 && row_q.ack && ack_room
                      && passed;
    seen.is_nak     = held_rsp_q.syndrome[6:5] != 2'b00;
    seen.lost       = held_rsp_q.again && !found;
    // A NAK acknowledges everything before its PSN, so a repeated request's ACK says nothing new. Only an ACK of that
    // PSN makes the NAK void: the packet has come again.
    seen.covers     = !row_q.nak && psn_ge(held_rsp_q.psn, row_q.ack_psn);
    seen.stale      = row_q.ack && row_q.nak && !seen.is_nak && !psn_ge(held_rsp_q.psn, row_q.ack_psn);
    seen.moved      = row_q.queued && {qpc_q.path.sl, qpc_q.path.group} != {ctx_q.path.sl, ctx_q.path.group};
    // Behind the shut SL before the group: others of the group may go on.
    seen.waits_in   = (ctx_q.path.group != '0 && sl_open_i[ctx_q.path.sl])
                      ? RespQueueW'(NumLanes) + RespQueueW'(ctx_q.path.group) : RespQueueW'(ctx_q.path.sl);
    pkt.psn         = job.psn + 24'(row_q.jobs.off >> mtu_shift(ctx_q.path_mtu));
    pkt.va          = job.va + 64'(row_q.jobs.off);
    pkt.left        = job.len_bytes - row_q.jobs.off;
    pkt.left_less   = job.len_bytes + ~row_q.jobs.off;
    pkt.none        = job.none;
    pkt.first       = row_q.jobs.off == '0;
    {pkt.rkey, pkt.msn, pkt.atomic, pkt.failed} = {job.rkey, job.msn, job.atomic, job.failed};
  end

  always_ff @(posedge clk_i) begin
    if (look_q) begin
      seen_q     <= seen;
      pkt_q      <= pkt;
      seq_next_q <= seq_q + 16'd1;
    end
  end

  // ---- Act -------------------------------------------------------------------------------------------------
  logic                  is_job, is_read_job, is_turn, send_read, send_ack, is_last, push, free_list;
  logic                  add, replace, link, relink, relink_q, more_jobs;
  logic [JobPlaceW-1:0]  new_place, new_place_q, main_head_q, next_place, from, to;
  resp_list_t            jobs_with, jobs_sent;
  logic [63:0]           result;
  resp_job_t             job_new;
  logic [RespQueues-1:0] resort;

  assign is_job      = act_q && held_ev_q == EvJob;
  assign is_read_job = is_job && held_rsp_q.read;
  assign is_turn     = act_q && held_ev_q == EvTurn;
  assign send_read   = act_q && seen_q.start_read;
  assign send_ack    = act_q && seen_q.send_ack;
  assign is_last     = pkt_q.none || (pkt_q.left_less >> mtu_shift(ctx_q.path_mtu)) == '0;

  always_comb begin
    row_new = row_q;
    unique case (held_ev_q)
      EvJob: begin
        row_new.queued = 1'b1;
        if (held_rsp_q.read) begin
          if (!seen_q.lost) row_new.jobs = jobs_with;
          if (!seen_q.lost && seen_q.covers) row_new.ack = 1'b0;
        end else if (!seen_q.stale) begin
          row_new.ack          = 1'b1;
          row_new.nak          = seen_q.is_nak;
          row_new.ack_psn      = held_rsp_q.psn;
          row_new.ack_syndrome = held_rsp_q.syndrome;
          row_new.ack_msn      = held_rsp_q.msn;
        end
      end
      EvQpc: begin
        if (held_init_q) {row_new.jobs, row_new.ack, row_new.sent} = '0;
      end
      default: begin
        if (!seen_q.alive) {row_new.jobs, row_new.ack} = '0;
        if (seen_q.send_ack) {row_new.ack, row_new.sent} = '0;
        if (seen_q.start_read) begin
          row_new.jobs     = jobs_sent;
          row_new.sent     = 1'b1;
          row_new.last_seq = seq_next_q;
        end
        row_new.queued = row_new.jobs.count != '0 || row_new.ack;
      end
    endcase
    push = (is_job && !row_q.queued) || (is_turn && row_new.queued);
    if (push) row_new.waits_in = seen_q.waits_in;
    // A QP that waits in the queue of its old SL or group: that queue is looked through.
    resort                 = '0;
    resort[row_q.waits_in] = act_q && held_ev_q == EvQpc && seen_q.moved;
    job_new = '{psn: held_rsp_q.psn, va: held_rsp_q.again ? result : held_rsp_q.va, rkey: held_rsp_q.rkey,
                len_bytes: held_rsp_q.len_bytes, msn: held_rsp_q.msn,
                none: held_rsp_q.atomic || held_rsp_q.len_bytes == '0, atomic: held_rsp_q.atomic,
                failed: held_rsp_q.atomic && seen_q.is_nak};
    if (held_rsp_q.atomic) {job_new.rkey, job_new.len_bytes} = '0;
  end
  assign row_we = act_q && (held_ev_q != EvQpc || held_init_q);

  always_ff @(posedge clk_i) begin
    if (rst_i) seq_q <= '0;
    else if (send_read) seq_q <= seq_next_q;
    if (rst_i) responds_q <= 1'b0;
    else if (is_turn) responds_q <= send_read;
    relink_q <= is_read_job && !seen_q.lost && relink && !rst_i;
    if (act_q) {new_place_q, main_head_q} <= {new_place, row_q.jobs.main_head};
  end

  hca_resp_list u_list (
    .clk_i, .list_i(row_q.jobs), .path_mtu_i(ctx_q.path_mtu), .psn_i(held_rsp_q.psn),
    .len_bytes_i(held_rsp_q.atomic ? '0 : held_rsp_q.len_bytes),
    .more_i(more_jobs), .new_i(new_place), .add_o(add), .replace_o(replace), .link_o(link), .from_o(from), .to_o(to),
    .relink_o(relink), .with_o(jobs_with), .sent_i(pkt_q), .is_last_i(is_last), .next_i(next_place), .sent_o(jobs_sent)
  );

  hca_resp_out u_out (
    .clk_i, .rst_i, .read_i(send_read), .pkt_i(pkt_q), .is_last_i(is_last), .ack_i(send_ack), .qpn_i(held_qpn_q), .row_i(row_q),
    .ctx_i(ctx_q), .resp_seq_i(seq_next_q), .read_room_o(read_room), .ack_room_o(ack_room),
    .made_o, .txp_valid_o, .txp_ready_i, .txp_o, .seg_valid_o, .seg_ready_i, .seg_o, .ack_valid_o, .ack_ready_i, .ack_o
  );

  assign made_valid_o = send_read || send_ack;
  assign made_read_o  = send_read;

  assign rsp_popped_valid_o = (send_read && is_last) || (is_read_job && (seen_q.lost || !add));
  assign rsp_popped_qpn_o   = held_qpn_q;

  hca_resp_turn u_turn (
    .clk_i, .rst_i,
    .open_i      ({rate_open_i, sl_open_i}),
    .push_i      (push),
    .push_queue_i(seen_q.waits_in),
    .push_qpn_i  (held_qpn_q),
    .push_open_i (seen_q.open),
    .sort_i      (resort),
    .valid_o     (turn_valid),
    .ready_i     (take && grant[EvTurn]),
    .qpn_o       (turn_qpn)
  );

  // ---- Tables ----------------------------------------------------------------------------------------------
  assign unused_bits = ^{qpc_wr_i, held_rsp_q};

  hca_ram_1r1w #(.Width($bits(resp_row_t)), .Depth(NumQps)) u_rows (
    .clk_i,
    .we_i   (row_we || scrub_q),
    .waddr_i(scrub_q ? scrub_qpn_q : held_qpn_q),
    .wdata_i(scrub_q ? '0 : row_new),
    .re_i   (take),
    .raddr_i(pick_qpn),
    .rdata_o(row_read)
  );

  // A context is written in fetch: the next event that is picked sees it.
  hca_ram_1r1w #(.Width($bits(resp_ctx_t)), .Depth(NumQps)) u_ctxs (
    .clk_i,
    .we_i   (fetch_q && ev_q == EvQpc),
    .waddr_i(qpn_q),
    .wdata_i(qpc_q),
    .re_i   (take),
    .raddr_i(pick_qpn),
    .rdata_o(ctx)
  );

  // All jobs of a QP are dropped.
  assign free_list = row_we && held_ev_q != EvJob && row_q.jobs.count != '0 && (held_init_q || !seen_q.alive);

  hca_resp_jobs #(.Width($bits(resp_job_t))) u_jobs (
    .clk_i, .rst_i,
    .more_o      (more_jobs),
    .put_i       (is_read_job && !seen_q.lost && add),
    .set_i       (is_read_job && !seen_q.lost && replace),
    .link_i      ((is_read_job && !seen_q.lost && link) || relink_q),
    .from_i      (relink_q ? new_place_q : from),
    .to_i        (relink_q ? main_head_q : to),
    .put_job_i   (job_new),
    .new_o       (new_place),
    .get_i       (fetch_q && ev_q == EvTurn),
    .get_place_i (row_late.jobs.head),
    .job_o       (job),
    .next_i      (look_q && held_ev_q == EvTurn),
    .head_i      (row_q.jobs.head),
    .next_o      (next_place),
    .free_i      (free_list || (send_read && is_last)),
    .free_head_i (row_q.jobs.head),
    .free_tail_i (send_read ? row_q.jobs.head : row_q.jobs.tail),
    .free_count_i(send_read ? (JobPlaceW + 1)'(1) : (JobPlaceW + 1)'(row_q.jobs.count))
  );

  hca_atomic_results u_results (
    .clk_i, .rst_i,
    .qpn_i     (qpn_q),
    .clear_i   (fetch_q && ev_q == EvQpc && init_q),
    .add_i     (fetch_q && ev_q == EvJob && rsp_q.read && rsp_q.atomic && !rsp_q.again && rsp_q.syndrome[6:5] == 2'b00),
    .scrub_i   (scrub_q),
    .scrub_qpn_i(scrub_qpn_q),
    .find_i    (rsp_ready_o && rsp_i.atomic),
    .find_qpn_i(rsp_i.qpn),
    .read_i    (find_q),
    .psn_i     (rsp_q.psn),
    .value_i   (rsp_q.va),
    .found_o   (found),
    .value_o   (result)
  );

  // ---- Assertions ------------------------------------------------------------------------------------------
`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert (32'(fetch_q) + 32'(find_q) + 32'(value_q) + 32'(look_q) < 2) else $error("hca_resp_sched: two in front of act");
      assert (!(look_q && act_q)) else $error("hca_resp_sched: an event directly behind another one");
      assert (!(fetch_q && ev_q == EvTurn && act_q && held_qpn_q == qpn_q))
      else $error("hca_resp_sched: the first job of a row that is being written");
    end
  end
`endif

endmodule
