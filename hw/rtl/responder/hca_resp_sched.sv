// Schedules what the responder sends: READ responses packet by packet and answers of atomics, round robin over QPs, and
// one cumulative ACK per QP behind them. Per QP up to 16 such jobs (hca_resp_list) and one pending ACK: `rsp` is ready
// again soon, whatever the transmit side does. 3 cycles per READ packet, which is made in the one behind them, while
// the next event is picked: none of its own QP. Where nothing of a QP waits, a new job of one packet is answered in the
// 2 cycles that a job takes, and comes into no list. An ACK never overtakes READ responses of its QP: it waits until
// they have passed the header stage. The ACK of a repeated request never replaces a NAK.
// QPs wait in a queue per SL or rate group, and nobody looks at them while its gate is shut. A QP with a rate of
// congestion control takes 6 cycles per READ packet, and waits in hca_resp_pace while it is held; on such a port the
// others take 4. Takes nothing for NumQps cycles after reset.
module hca_resp_sched
  import hca_pkg::*, hca_features_pkg::*, hca_rx_resp_pkg::*, hca_rx_pkg::resp_list_t;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [NumPorts-1:0] ib_i,         // personality of the ports, before the first context write
  input  logic [NumLanes-1:0] sl_open_i,    // lanes (port and SL) that may send
  input  logic [NumRateGroups-1:0] rate_open_i,  // rate groups that may
  input  logic [63:0]    now_i,
  input  cc_pace_t [NumPorts-1:0] cc_pace_i,  // congestion control
  input  cc_rate_wr_t    cc_rate_i,
  output logic           cc_sent_valid_o,
  input  logic           cc_sent_ready_i,
  output cc_sent_t       cc_sent_o,
  output logic           held_o,           // QPs wait for their rates
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

  localparam int unsigned Queues = RespQueues;
  localparam int unsigned QueueW = RespQueueW;

  typedef enum logic [1:0] {EvJob, EvQpc, EvTurn} ev_e;
  // StBlock, StMatch, StFind: is an atomic's result here? Of READs that come again it is found where they belong, with
  // their last PSN, a cycle behind the MTU. StLink: the second link of a new job.
  // StPace: may the QP send already? StRead: its job comes. StResume, StResumed: where does its job go on?
  typedef enum logic [3:0] {
    StPick, StBlock, StMatch, StFind, StRow, StPace, StRead, StLink, StResume, StResumed
  } state_e;

  state_e         state_q;
  ev_e            ev_q;
  logic           scrub_q, init_q;
  logic [QpW-1:0] scrub_qpn_q, qpn_q, qpn_a, turn_qpn;
  rsp_job_t       rsp_q;
  resp_ctx_t      ctx_q, ctx;
  resp_row_t      row, row_new;
  logic           paces, go, hold, late, due_valid, due_ready, turn;
  logic [QpW-1:0] due_qpn;
  resp_job_t      job_came, job, job_new, job_now;
  logic [2:0]     req, grant;
  logic [1:0]     grant_idx, jobs_q;  // jobs taken since the last turn
  logic           take, push, row_we, send_read;
  logic [Queues-1:0] resort;
  logic [NumRateGroups-1:0] rate_open;
  logic           txp_free, seg_free, ack_free;
  logic           found, found_q, lost;  // lost: it comes again, and is too old to be here
  logic [63:0]    result;

  // ---- StPick: choose an event, read the QP's row ----------------------------------------------------
  // The row of a QP whose packet is made now is written now; in the queues of turns it is not.
  assign req[EvJob]  = rsp_valid_i && !(send_read && rsp_i.qpn == qpn_q);
  assign req[EvQpc]  = qpc_wr_valid_i && !(send_read && qpc_wr_i.qpn == qpn_q);
  // Jobs go first, three for a turn at most: what waits meanwhile is answered by one acknowledge.
  assign req[EvTurn] = turn && ((txp_free && seg_free) || ack_free)
                       && (!rsp_valid_i || (&jobs_q));
  assign take        = state_q == StPick && !scrub_q && req != '0;

  assign rsp_ready_o    = take && grant[EvJob];
  assign qpc_wr_ready_o = take && grant[EvQpc];
  assign qpn_a          = grant[EvJob] ? rsp_i.qpn : grant[EvQpc] ? qpc_wr_i.qpn : turn_qpn;

  hca_rr_arb #(.N(3)) u_events (
    .clk_i, .rst_i,
    .req_i    (req),
    .advance_i(take),
    .grant_o  (grant),
    .idx_o    (grant_idx)
  );

  tx_path_t path;
  assign path = tx_path_of(qpc_wr_i.qpc, ib_i);

  always_ff @(posedge clk_i) begin
    if (take) begin
      ev_q  <= ev_e'(grant_idx);
      qpn_q <= qpn_a;
    end
    if (rsp_ready_o) rsp_q <= rsp_i;
    if (qpc_wr_ready_o) begin
      init_q         <= qpc_wr_i.init_rq;
      ctx_q.state    <= qpc_wr_i.qpc.state;
      ctx_q.func     <= qpc_wr_i.qpc.func;
      ctx_q.pd       <= qpc_wr_i.qpc.pd;
      ctx_q.gen      <= qpc_wr_i.qpc.qpn[23:QpW];
      ctx_q.lane      <= path.sl;
      ctx_q.group     <= path.group;
      ctx_q.interval  <= path.interval;
      ctx_q.ack_bytes <= path.overhead + 7'(AethBytes);
      ctx_q.path_mtu <= (qpc_wr_i.qpc.path_mtu > MtuBytes4096) ? MtuBytes4096 : qpc_wr_i.qpc.path_mtu;
    end
  end

  // ---- StRow: act on the row ---------------------------------------------------------------------------
  logic        open, alive, passed, start_read, send_ack, store_job, is_nak, was_nak, job_row, last_word, stale;
  logic        more_jobs, add, replace, link, relink, free_list_q, flush, goes_on, direct, direct_q;
  logic        put_q, set_q, link_q, relink_q, gone_q;   // what StRow has found: done in the cycle behind it
  resp_list_t  jobs_with, jobs_sent, jobs_resumed;
  logic        rsp_only, rsp_some;
  logic [23:0] rsp_last_psn, rsp_last_psn_q;
  logic [12:0] rsp_tail;
  logic [JobPlaceW-1:0] new_place, next_came, next_place, from, to, new_place_q, from_q, to_q;
  logic [15:0] seq_q;         // of the newest READ packet of the card
  logic [15:0] done_seq_q;    // of the newest one that had passed in the cycle before
  logic        has_jobs, last_above, last_upto;

  assign rate_open  = rate_open_i | NumRateGroups'(1);   // who has no group is in one that is open
  assign open       = sl_open_i[ctx.lane] && rate_open[ctx.group];
  // A NAK that has itself moved the QP to ERR still goes out, behind the READs that came before it.
  assign last_word  = ctx.state == QpsErr && row.ack && row.ack_syndrome[6:5] == 2'b11
                      && !(row.ack_syndrome inside {NakPsnSequence, NakSelective});
  assign alive      = ctx.state inside {QpsRtr, QpsRts, QpsSqd, QpsSqe} || last_word;
  // Of a FLUSH there is no result to keep: one that comes again is answered, however old it is.
  assign flush      = rsp_q.cas && rsp_q.stores;
  assign lost       = rsp_q.again && rsp_q.atomic && !found_q && !flush;
  // A NAK acknowledges everything before its PSN, so a repeated request's ACK says nothing new. Only an ACK of that
  // PSN makes the NAK void: the packet has come again.
  assign is_nak     = rsp_q.syndrome[6:5] != 2'b00;
  assign was_nak    = row.ack_syndrome[6:5] != 2'b00;
  assign stale      = row.ack && was_nak && !is_nak && !psn_ge(rsp_q.psn, row.ack_psn);
  assign job_row    = state_q == StRow && ev_q == EvJob && rsp_q.read;
  assign store_job  = job_row && !lost && (add || replace);
  assign has_jobs   = row.jobs.count != '0;
  assign start_read = alive && open && has_jobs && txp_free && seg_free;
  // Who is not queued has neither jobs nor an acknowledge; who has a rate to keep is looked at first.
  assign direct     = job_row && !rsp_q.again && rsp_only && !row.queued && !paces && alive && open && txp_free
                      && seg_free;

  hca_resp_span u_span (
    .clk_i, .take_i(rsp_ready_o), .rsp_i, .path_mtu_i(ctx.path_mtu), .last_psn_o(rsp_last_psn), .only_o(rsp_only),
    .some_o(rsp_some), .tail_o(rsp_tail)
  );

  always_comb begin
    job_new = '{psn: rsp_q.psn, va: (rsp_q.again && rsp_q.atomic) ? result : rsp_q.va, rkey: rsp_q.rkey,
                last_psn: rsp_last_psn, only: rsp_only, tail: rsp_tail, msn: rsp_q.msn, credits: rsp_q.syndrome[4:0],
                atomic: rsp_q.atomic && !rsp_q.stores && !is_nak, failed: rsp_q.atomic && is_nak};
    if (rsp_q.atomic) job_new.rkey = '0;
  end

  // READ packets of the card that have not passed are the newest ones: is this QP's last among them?
  // Behind the one that has passed and not behind the newest, around: three comparisons side by side.
  assign last_above = row.last_seq > done_seq_q;
  assign last_upto  = row.last_seq <= seq_q;
  assign passed     = !row.sent || !((done_seq_q > seq_q) ? last_above || last_upto : last_above && last_upto);
  assign send_ack   = state_q == StRow && ev_q == EvTurn && row.ack && ack_free && open
                      && alive && row.jobs.count == '0 && passed;

  // ---- Behind StRead: one packet of the head job; behind StRow: that of a job that just came ----------------
  logic        is_last, ends, has_payload;
  logic [23:0] read_psn;
  logic [12:0] bytes, wire_bytes;
  logic [31:0] off;   // bytes of the job before the packet

  // What the RAMs of jobs say goes through registers, for they are deep; what is made of it there and of the row as
  // well. Row and context are still the QP's in the cycle behind.
  assign job_now = (state_q == StRow) ? job_new : job_came;
  assign ends    = row.jobs.partly ? row.jobs.ends : job_now.only;

  always_ff @(posedge clk_i) begin
    send_read   <= !rst_i && (state_q == StRead || direct);
    direct_q    <= direct;
    job         <= job_now;
    next_place  <= next_came;
    read_psn    <= row.jobs.partly ? row.jobs.at_psn : job_now.psn;
    off         <= row.jobs.partly ? {25'(24'(row.jobs.at_psn - row.jobs.head_psn)) << ctx.path_mtu, 7'd0} : '0;
    is_last     <= ends;
    bytes       <= ends ? job_now.tail : mtu_bytes(ctx.path_mtu);
    has_payload <= !ends || ((state_q == StRow) ? rsp_some : job_came.tail != '0);
  end

  // Who has the turn stays queued, and is pushed again: [0] if its READ packets have passed, [1] if not.
  logic [1:0] stays, pushes;
  logic [1:0] acks_on;
  assign acks_on = {row.ack, row.ack && !(open && ack_free)};
  assign stays   = {2{alive}} & ({2{has_jobs}} | acks_on);
  assign pushes  = {2{alive}} & (has_jobs ? {2{!(open && txp_free && seg_free)}} : acks_on);

  // Of the list of jobs, which is the last to be known: what becomes of it otherwise.
  logic       takes_job, drops;
  resp_list_t jobs_else;
  assign takes_job = job_row && !lost;
  assign drops     = state_q == StRow && ((ev_q == EvQpc && init_q) || (ev_q == EvTurn && !alive));
  assign jobs_else = (jobs_sent & {$bits(resp_list_t){send_read}})
                     | (jobs_resumed & {$bits(resp_list_t){state_q == StResumed}})
                     | (row.jobs & {$bits(resp_list_t){!send_read && state_q != StResumed && !drops}});

  always_comb begin
    row_new   = row;
    row_new.jobs = takes_job ? jobs_with : jobs_else;
    row_we    = 1'b0;
    push      = 1'b0;
    if (state_q == StRow && ev_q == EvJob) begin
      row_we         = 1'b1;
      push           = !row.queued && !direct;   // whose row is written in the next cycle
      row_new.queued = 1'b1;
      if (!rsp_q.read && !stale) begin
        row_new.ack          = 1'b1;
        row_new.ack_psn      = rsp_q.psn;
        row_new.ack_syndrome = rsp_q.syndrome;
        row_new.ack_msn      = rsp_q.msn;
      end
      if (rsp_q.read) begin
        // The READ response acknowledges everything before it.
        if (!lost && !was_nak && psn_ge(rsp_q.psn, row.ack_psn)) row_new.ack = 1'b0;
      end
    end
    if (state_q == StRow && ev_q == EvQpc && init_q) begin
      row_we       = 1'b1;
      row_new.ack  = 1'b0;
      row_new.sent = 1'b0;
    end
    if (state_q == StRow && ev_q == EvTurn) begin
      row_we = 1'b1;
      if (!alive) row_new.ack = 1'b0;
      if (send_ack) begin
        row_new.ack  = 1'b0;
        row_new.sent = 1'b0;
      end
    end
    if (send_read) begin
      row_we           = 1'b1;
      row_new.sent     = 1'b1;
      row_new.last_seq = seq_q + 16'd1;
      row_new.queued   = !direct_q && (!is_last || row.jobs.count != 1 || row.ack);
      push             = row_new.queued;
    end
    if (state_q == StResumed) begin
      row_we = 1'b1;
      push   = 1'b1;
    end
    if (late) begin
      row_we = 1'b1;
      push   = 1'b1;
    end
    // It is queued still, and nothing of it goes out now that would queue it later: said without the two ways out, for
    // whether it may go at all comes late. Whether its READs have passed comes last, and selects.
    if (state_q == StRow && ev_q == EvTurn) begin
      {row_new.queued, push} = passed ? {stays[0], pushes[0]} : {stays[1], pushes[1]};
    end
    if (!row.queued || ev_q == EvTurn) begin
      // Behind the shut SL before the group: others of the group may go on.
      row_new.waits_in = (ctx.group != '0 && sl_open_i[ctx.lane]) ? QueueW'(NumLanes) + QueueW'(ctx.group)
                                                                          : QueueW'(ctx.lane);
    end
    // A QP that waits in the queue of its old SL or group: that queue is looked through.
    resort               = '0;
    resort[row.waits_in] = state_q == StRow && ev_q == EvQpc && row.queued
                           && {ctx_q.lane, ctx_q.group} != {ctx.lane, ctx.group};
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q     <= StPick;
      scrub_q     <= 1'b1;
      scrub_qpn_q <= '0;
      seq_q       <= '0;
      jobs_q      <= '0;
    end else begin
      if (take && grant[EvTurn]) jobs_q <= '0;
      else if (take && grant[EvJob] && !(&jobs_q)) jobs_q <= jobs_q + 2'd1;
      scrub_qpn_q <= scrub_qpn_q + QpW'(scrub_q);
      if (scrub_qpn_q == QpW'(NumQps - 1)) scrub_q <= 1'b0;
      if (send_read) seq_q <= seq_q + 16'd1;
      done_seq_q  <= resp_done_seq_i;
      unique case (state_q)
        StPick:  if (take) state_q <= (grant[EvJob] && rsp_i.again) ? StBlock : StRow;
        StBlock: state_q <= StMatch;
        StMatch: state_q <= StFind;
        StFind:  state_q <= StRow;
        StPace:  if (go || hold) state_q <= (go && !late) ? StRead : StPick;
        StRow:   state_q <= (ev_q == EvTurn && start_read) ? (goes_on ? StResume : paces ? StPace : StRead)
                            : (job_row && row.jobs.replaying) ? StLink : StPick;
        StResume: state_q <= StResumed;
        default: state_q <= StPick;
      endcase
    end
  end

  // ---- Rates of congestion control: a lane may have been shut meanwhile -----------------------------------
  assign late = state_q == StPace && go && !open;

  if (HasCongestion) begin : gen_pace
    hca_resp_pace u_pace (
      .clk_i, .rst_i, .now_i, .cc_i(cc_pace_i), .rate_wr_i(cc_rate_i),
      .take_i      (take),
      .qpn_i       (qpn_a),
      .port_i      (PortW'(ctx.lane >> 4)),
      .ask_i       (state_q == StPace),
      .made_i      (send_read),
      .bytes_i     (wire_bytes),
      .on_o        (paces),
      .go_o        (go),
      .hold_o      (hold),
      .due_valid_o (due_valid),
      .due_ready_i (due_ready),
      .due_qpn_o   (due_qpn),
      .held_o,
      .sent_valid_o(cc_sent_valid_o),
      .sent_ready_i(cc_sent_ready_i),
      .sent_o      (cc_sent_o)
    );
  end else begin : gen_no_pace
    logic unused_pace;
    assign unused_pace = ^{now_i, cc_pace_i, cc_rate_i, cc_sent_ready_i, due_ready, wire_bytes};
    assign paces       = 1'b0;
    assign go          = state_q == StPace;
    assign hold        = 1'b0;
    assign held_o      = 1'b0;
    assign {due_valid, due_qpn}         = '0;
    assign {cc_sent_valid_o, cc_sent_o} = '0;
  end

  // ---- Outputs --------------------------------------------------------------------------------------------
  hca_resp_out u_out (
    .clk_i, .rst_i, .send_read_i(send_read), .send_ack_i(send_ack), .qpn_i(qpn_q), .seq_i(seq_q + 16'd1), .row_i(row),
    .ctx_i(ctx), .job_i(job), .psn_i(read_psn), .off_i(off), .bytes_i(bytes), .has_payload_i(has_payload),
    .is_last_i(is_last), .txp_free_o(txp_free), .txp_valid_o, .txp_ready_i, .txp_o, .seg_free_o(seg_free), .seg_valid_o,
    .seg_ready_i, .seg_o, .ack_free_o(ack_free), .ack_valid_o, .ack_ready_i, .ack_o, .wire_bytes_o(wire_bytes), .made_o
  );

  assign made_valid_o = send_read || send_ack;
  assign made_read_o  = send_read;

  assign rsp_popped_valid_o = (send_read && is_last) || gone_q;
  assign rsp_popped_qpn_o   = qpn_q;

  // ---- Results of atomics -----------------------------------------------------------------------------------
  if (HasAtomic) begin : gen_results
    hca_atomic_results u_results (
      .clk_i, .rst_i,
      .qpn_i     (qpn_q),
      .clear_i   (state_q == StRow && ev_q == EvQpc && init_q),
      .add_i     (job_row && rsp_q.atomic && !rsp_q.again && !is_nak && !flush),
      .scrub_i   (scrub_q),
      .scrub_qpn_i(scrub_qpn_q),
      .find_i    (rsp_ready_o && rsp_i.atomic),
      .find_qpn_i(rsp_i.qpn),
      .read_i    (state_q == StFind),
      .psn_i     (rsp_q.psn),
      .value_i   (rsp_q.va),
      .found_o   (found),
      .value_o   (result)
    );
  end else begin : gen_no_results
    assign {found, result} = '0;
  end

  always_ff @(posedge clk_i) begin
    if (state_q == StFind) found_q <= found;
    rsp_last_psn_q <= rsp_last_psn;
  end

  hca_resp_list u_list (
    .clk_i, .list_i(row.jobs), .fresh_i(!rsp_q.again), .psn_i(rsp_q.psn), .last_psn_i(job_new.last_psn),
    .more_i(more_jobs), .new_i(new_place), .aside_i(rsp_q.aside), .found_last_psn_i(rsp_last_psn_q),
    .add_o(add), .replace_o(replace), .link_o(link), .from_o(from), .to_o(to),
    .relink_o(relink), .with_o(jobs_with), .job_psn_i(job.psn), .job_last_psn_i(job.last_psn), .sent_psn_i(read_psn),
    .is_last_i(is_last), .lone_i(direct_q), .next_i(next_place), .sent_o(jobs_sent), .goes_on_o(goes_on),
    .resumed_o(jobs_resumed)
  );

  // The list and its QP's row are looked at in StRow; the pool is written behind it, the second link behind StLink.
  always_ff @(posedge clk_i) begin
    put_q  <= !rst_i && store_job && add && !direct;
    set_q  <= !rst_i && store_job && replace;
    link_q <= !rst_i && ((store_job && link) || (state_q == StLink && relink_q));
    gone_q <= !rst_i && job_row && (lost || !add) && !direct;
    from_q <= (state_q == StLink) ? new_place_q : from;
    to_q   <= (state_q == StLink) ? row.jobs.main_head : to;
    if (state_q == StRow) {new_place_q, relink_q} <= {new_place, store_job && relink};
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && put_q) assert (new_place == new_place_q) else $error("hca_resp_sched: another place than the row's");
    if (!rst_i && direct) assert (!has_jobs && !row.ack && !row.jobs.partly && !row.jobs.replaying)
      else $error("hca_resp_sched: a QP has jobs and is not queued");
    if (!rst_i && job_row && !rsp_q.again && has_jobs) assert (!psn_ge(row.jobs.newest_psn, rsp_q.psn))
      else $error("hca_resp_sched: what has come before is said to be new");
  end
`endif

  // ---- Tables ---------------------------------------------------------------------------------------------
  logic unused_bits;
  assign unused_bits = ^{qpc_wr_i, rsp_q, job};

  hca_resp_turns #(.Queues(Queues)) u_turns (
    .clk_i, .rst_i,
    .open_i      ({rate_open_i, sl_open_i}),
    .push_i      (push),
    .push_open_i (open && !(state_q == StRow && ev_q == EvTurn)),   // who could not go now may wait
    .push_queue_i(row_new.waits_in),
    .push_qpn_i  (qpn_q),
    .due_valid_i (due_valid),
    .due_ready_o (due_ready),
    .due_qpn_i   (due_qpn),
    .sort_i      (resort),
    .valid_o     (turn),
    .take_i      (take && grant[EvTurn]),
    .qpn_o       (turn_qpn)
  );

  hca_ram_1r1w #(.Width($bits(resp_row_t)), .Depth(NumQps)) u_rows (
    .clk_i,
    .we_i   (row_we || scrub_q),
    .waddr_i(scrub_q ? scrub_qpn_q : qpn_q),
    .wdata_i(scrub_q ? '0 : row_new),
    .re_i   (take),
    .raddr_i(qpn_a),
    .rdata_o(row)
  );

  hca_ram_1r1w #(.Width($bits(resp_ctx_t)), .Depth(NumQps)) u_ctxs (
    .clk_i,
    .we_i   (state_q == StRow && ev_q == EvQpc),
    .waddr_i(qpn_q),
    .wdata_i(ctx_q),
    .re_i   (take),
    .raddr_i(qpn_a),
    .rdata_o(ctx)
  );

  // All jobs of a QP are dropped, behind StRow. Its row is still there then.
  always_ff @(posedge clk_i) begin
    free_list_q <= !rst_i && state_q == StRow && row.jobs.count != '0
                   && ((ev_q == EvTurn && !alive) || (ev_q == EvQpc && init_q));
  end

  hca_resp_jobs #(.Width($bits(resp_job_t))) u_jobs (
    .clk_i, .rst_i,
    .more_o      (more_jobs),
    .put_i       (put_q),
    .set_i       (set_q),
    .link_i      (link_q),
    .from_i      (from_q),
    .to_i        (to_q),
    .put_job_i   (job),
    .new_o       (new_place),
    .get_i       (state_q == StRow && ev_q == EvTurn && start_read),
    .head_i      (row.jobs.head),
    .job_o       (job_came),
    .next_o      (next_came),
    .free_i      (free_list_q || (send_read && is_last && !direct_q)),
    .free_head_i (row.jobs.head),
    .free_tail_i (send_read ? row.jobs.head : row.jobs.tail),
    .free_count_i(send_read ? (JobPlaceW + 1)'(1) : (JobPlaceW + 1)'(row.jobs.count))
  );

endmodule
