// Send queue scheduler: takes doorbells, acknowledge updates and context writes, keeps the per-QP tables that
// they write, and binds QPs with news to slots. One event per cycle, of two cycles each, round robin over the seven
// kinds: no input waits longer than about seven cycles; only a context write also waits for the end of a turn of its
// QP.
// A QP is in at most one place: bound to a slot, in a ready queue, or neither. A ready queue per SL and one
// per rate group: while its gate is shut nobody looks at its QPs. One that congestion control holds and that has no
// slot any more is in none of them until hca_sq_hold says that it has waited. See README.md.
module hca_sq_sched
  import hca_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW  = $clog2(Slots),
  localparam int unsigned Queues = NumLanes + NumRateGroups,
  localparam int unsigned QueueW = $clog2(Queues)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [NumPorts-1:0] ib_i,
  input  logic [NumLanes-1:0] sl_open_i,
  input  logic [NumRateGroups-1:0] rate_open_i,
  input  logic             qpc_wr_valid_i,
  output logic             qpc_wr_ready_o,
  input  qpc_wr_t          qpc_wr_i,
  input  logic             sq_db_valid_i,
  output logic             sq_db_ready_o,
  input  qp_db_t           sq_db_i,
  input  logic             ack_upd_valid_i,
  output logic             ack_upd_ready_o,
  input  ack_upd_t         ack_upd_i,
  input  logic             rd_placed_valid_i,
  output logic             rd_placed_ready_o,
  input  logic [QpW-1:0]   rd_placed_i,
  // The emitter gives a slot back; `requeue`: its QP still has work; `sl`: what that waits for;
  // `hand`: to the next QP of the same group.
  input  logic             rel_valid_i,
  output logic             rel_ready_o,
  input  logic [SlotW-1:0] rel_slot_i,
  input  logic [QpW-1:0]   rel_qpn_i,
  input  logic             rel_requeue_i,
  input  logic             rel_idle_i,   // all that was posted has been sent: acknowledges are no news
  input  logic [LaneW-1:0] rel_sl_i,
  input  logic             rel_hand_i,
  // Congestion control: slots whose QP waits there, QPs that have waited, and the slot of such a one.
  input  logic [Slots-1:0] held_i,
  input  logic             due_valid_i,
  output logic             due_ready_o,
  input  logic [QpW-1:0]   due_qpn_i,
  output logic             lift_o,       // strobe
  output logic [SlotW-1:0] lift_slot_o,
  // A context write waits while a turn of its QP is under way; meanwhile none begins.
  output logic             pause_o,
  input  logic             paused_i,
  // Context of a QP, one cycle after ctx_re_i.
  input  logic             ctx_re_i,
  input  logic [QpW-1:0]   ctx_qpn_i,
  output sq_ack_t          ctx_ack_o,
  output logic [15:0]      ctx_placed_o,
  output sq_qpc_t          ctx_qpc_o,
  // Slot table.
  input  logic [SlotW-1:0] slot_i,
  output logic [QpW-1:0]   slot_qpn_o,
  output wqe_idx_t         slot_pi_o,
  output push_t            slot_push_o,  // of the WQE before it
  input  logic [Slots-1:0] active_i,
  output logic             gone_o,       // strobe: the slot that was given back is free
  output logic [Slots-1:0] kick_o,       // strobe: news for a bound slot
  output logic [Slots-1:0] soft_o,       // strobe: news for it if it waits for acknowledges
  // Strobe: the QP of that slot was told of WQEs up to an index, and the last one is pushed.
  output logic             early_o,
  output logic [SlotW-1:0] early_slot_o,
  output wqe_idx_t         early_pi_o,
  output push_t            early_push_o,
  // Strobe: slot has a new QP, and this was posted to it; while hca_sq_open takes another one.
  output logic             bind_o,
  output logic [SlotW-1:0] bind_slot_o,
  output logic [QpW-1:0]   bind_qpn_o,
  output wqe_idx_t         bind_pi_o,
  output push_t            bind_push_o,
  input  logic             bind_ready_i,
  output logic [Slots-1:0] halt_o,       // strobe: the slot's QP may not send any more
  output logic             want_slot_o,  // a QP that may send waits and no slot is free
  output logic [Queues-1:0] waiting_o,  // queues with QPs: by SL, then by group
  // SL and rate group of the QP in a slot.
  output logic             sl_set_o,
  output logic [SlotW-1:0] sl_slot_o,
  output logic [LaneW-1:0] sl_o,
  output logic [RateGroupW-1:0] group_o,
  output tx_round_t        round_o       // for what of a QP is on its way out; of all of them at first
);

  typedef enum logic [2:0] {EvRel, EvAck, EvBind, EvDb, EvQpc, EvPlaced, EvDue} ev_e;

  // What the scheduler knows about a QP.
  typedef struct packed {
    logic              bound;
    logic [SlotW-1:0]  slot;
    logic              queued;    // in a ready queue; if held, wants to be
    logic              held;      // has no slot and waits in hca_sq_hold
    logic              idle;      // neither, and has nothing to send
    logic [QueueW-1:0] waits_in;  // queue, while queued
    logic [LaneW-1:0]  sl;        // of the context, or of the datagram that is next
    logic [RateGroupW-1:0] group;
    logic              halt;
    logic              init;
    logic [7:0]        seq;
    logic [MissingW-1:0] again;   // as in sq_ack_t
    logic [RoundW-1:0] round;
    wqe_idx_t          pi;
    push_t             push;
    logic [15:0]       placed;  // READs whose data is in memory
  } row_t;

  // All rows are cleared after reset.
  logic             scrub_q;
  logic [QpW-1:0]   scrub_qpn_q;

  logic             busy_q;        // an event is in its second cycle
  ev_e              ev_q;
  logic [QpW-1:0]   ev_qpn_q;
  logic [SlotW-1:0] ev_slot_q;
  logic             ev_flag_q;     // EvRel: requeue; EvQpc: init_sq; EvBind: only sort
  logic             ev_hand_q, ev_idle_q, ev_restores_q, ev_empty_q;  // the last two of EvQpc: goes on; empty
  logic [LaneW-1:0] ev_sl_q;
  wqe_idx_t         ev_pi_q;
  push_t            ev_push_q;
  ack_upd_t         ev_ack_q;
  sq_qpc_t          ev_qpc_q;

  logic [6:0]       req, grant;
  logic [2:0]       grant_idx;
  logic             take, qpc_may_q;
  logic [SlotW-1:0] free_slot, bind_slot_q;
  logic              free_valid, free_room, wants, push_q, pop, sort, waits, next_valid, next_sort;
  logic              bind_valid_q, bind_sort_q;
  logic [Queues-1:0] queue_used, resort, emptied, hand;
  logic [QueueW-1:0] next_queue, sort_queue, push_queue_q;
  logic [QpW-1:0]    pop_qpn, push_qpn_q, bind_qpn_q;

  logic             push;
  row_t             row, row_new, row_ram, row_last_q;
  logic             before_q, again;   // the event before, and its QP: its row is what that wrote
  logic [QpW-1:0]   before_qpn_q;
  logic [QpW-1:0]   qpn_a;
  logic             is_ack, is_init, is_placed, is_news, is_bind, is_rel, is_due, is_plain, wr_ack, all_again;
  sq_ack_t          ack_new;

  // ---- First cycle: choose an event, read its row --------------------------------------------------
  assign req[EvRel]  = rel_valid_i;
  assign req[EvAck]  = ack_upd_valid_i;
  // While a context write waits no turn is prepared.
  assign req[EvBind] = bind_valid_q && bind_ready_i && !qpc_wr_valid_i;
  assign req[EvDb]   = sq_db_valid_i;
  assign req[EvQpc]  = qpc_may_q;
  assign req[EvPlaced] = rd_placed_valid_i;
  assign req[EvDue]    = due_valid_i;
  assign take        = !scrub_q && (req != '0);
  assign pause_o     = qpc_wr_valid_i;

  // No turn begins before the write is through.
  always_ff @(posedge clk_i) qpc_may_q <= !rst_i && qpc_wr_valid_i && paused_i && !qpc_wr_ready_o;

  assign rel_ready_o     = take && grant[EvRel];
  assign ack_upd_ready_o = take && grant[EvAck];
  assign sq_db_ready_o   = take && grant[EvDb];
  assign qpc_wr_ready_o  = take && grant[EvQpc];
  assign rd_placed_ready_o = take && grant[EvPlaced];
  assign due_ready_o       = take && grant[EvDue];

  hca_rr_arb #(.N(7)) u_events (
    .clk_i, .rst_i, .req_i(req), .advance_i(take), .grant_o(grant), .idx_o(grant_idx)
  );

  // A QP, or one to be sorted, and its slot wait here until it is their turn among the events.
  assign pop       = next_valid && !bind_valid_q;
  assign waiting_o = queue_used;

  always_ff @(posedge clk_i) begin
    if (rst_i) bind_valid_q <= 1'b0;
    else if (pop) bind_valid_q <= 1'b1;
    else if (take && grant[EvBind]) bind_valid_q <= 1'b0;
    if (pop) {bind_qpn_q, bind_slot_q, bind_sort_q} <= {pop_qpn, free_slot, next_sort};
  end

  // The SLs and groups that may send get slots in turn; a group that a slot was handed to before all others, also while
  // its gate is shut.
  hca_sq_next #(.Queues(Queues)) u_next (
    .clk_i, .rst_i,
    .used_i      (queue_used),
    .open_i      ({rate_open_i, sl_open_i}),
    .hand_i      (hand),
    .free_i      (free_valid),
    .sort_valid_i(sort), .sort_queue_i(sort_queue),
    .emptied_i   (emptied),
    .pop_i       (pop),
    .valid_o     (next_valid),
    .sort_o      (next_sort),
    .queue_o     (next_queue),
    .waits_o     (waits)
  );

  // Free slots, all of them after reset.
  hca_fifo #(.Width(SlotW), .Depth(Slots)) u_free (
    .clk_i, .rst_i,
    .in_valid_i (gone_o || (scrub_q && 32'(scrub_qpn_q) < Slots)),
    .in_ready_o (free_room),
    .in_i       (scrub_q ? scrub_qpn_q[SlotW-1:0] : ev_slot_q),
    .out_valid_o(free_valid),
    .out_ready_i(pop && !next_sort),
    .out_o      (free_slot),
    .count_o    ()
  );

  always_comb begin
    unique case (1'b1)
      grant[EvRel]:  qpn_a = rel_qpn_i;
      grant[EvAck]:  qpn_a = ack_upd_i.qpn;
      grant[EvBind]: qpn_a = bind_qpn_q;
      grant[EvDb]:   qpn_a = sq_db_i.qpn;
      grant[EvPlaced]: qpn_a = rd_placed_i;
      grant[EvDue]:  qpn_a = due_qpn_i;
      default:       qpn_a = qpc_wr_i.qpn;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      ev_q      <= ev_e'(grant_idx);
      ev_qpn_q  <= qpn_a;
      ev_slot_q <= grant[EvBind] ? bind_slot_q : rel_slot_i;
      ev_flag_q <= grant[EvRel] ? rel_requeue_i : grant[EvBind] ? bind_sort_q : qpc_wr_i.init_sq;
    end
    if (rel_ready_o) begin
      ev_hand_q <= rel_hand_i;
      ev_idle_q <= rel_idle_i;
      ev_sl_q   <= rel_sl_i;
    end
    if (sq_db_ready_o) begin
      ev_pi_q   <= sq_db_i.pi;
      ev_push_q <= sq_db_i.push;
    end
    if (ack_upd_ready_o) ev_ack_q <= ack_upd_i;
    if (qpc_wr_ready_o) begin
      ev_qpc_q.path          <= tx_path_of(qpc_wr_i.qpc, ib_i);
      // Datagrams go to many places: they have no rate.
      if (qpc_wr_i.qpc.service == ServiceUd) ev_qpc_q.path.group <= '0;
      ev_qpc_q.selective     <= qpc_wr_i.qpc.selective && qpc_wr_i.qpc.service == ServiceRc;
      ev_qpc_q.credits       <= qpc_wr_i.qpc.credits && qpc_wr_i.qpc.service == ServiceRc;
      ev_qpc_q.ib            <= ib_i[port_of(qpc_wr_i.qpc.port)];
      // A target of XRC has no send queue, whatever its process rings.
      ev_qpc_q.state         <= qpc_wr_i.qpc.is_target ? QpsReset : qpc_wr_i.qpc.state;
      ev_qpc_q.service       <= qpc_wr_i.qpc.service;
      ev_qpc_q.func          <= qpc_wr_i.qpc.func;
      ev_qpc_q.pd            <= qpc_wr_i.qpc.pd;
      ev_qpc_q.path_mtu      <= (qpc_wr_i.qpc.path_mtu > MtuBytes4096) ? MtuBytes4096 : qpc_wr_i.qpc.path_mtu;
      ev_qpc_q.sq_sig_all    <= qpc_wr_i.qpc.sq_sig_all;
      ev_qpc_q.base          <= qpc_wr_i.qpc.sq_base;
      ev_qpc_q.log_size      <= qpc_wr_i.qpc.sq_log_size;
      ev_qpc_q.log_stride    <= qpc_wr_i.qpc.sq_log_stride;
      ev_qpc_q.max_rd_atomic <= qpc_wr_i.qpc.max_rd_atomic;
      ev_qpc_q.gen           <= qpc_wr_i.qpc.qpn[23:QpW];
      ev_ack_q.una_psn       <= qpc_wr_i.qpc.restores ? qpc_wr_i.qpc.una_psn : qpc_wr_i.qpc.sq_psn;
      ev_ack_q.una_wqe       <= qpc_wr_i.qpc.una_wqe;
      ev_ack_q.rd_done       <= qpc_wr_i.qpc.rd_done;
      ev_pi_q                <= qpc_wr_i.qpc.sq_pi;
      ev_restores_q          <= qpc_wr_i.qpc.restores;
      ev_empty_q             <= qpc_wr_i.init_sq
                                && (!qpc_wr_i.qpc.restores || qpc_wr_i.qpc.sq_pi == qpc_wr_i.qpc.una_wqe);
    end
  end

  // ---- Second cycle: act on the row -----------------------------------------------------------------
  hca_same #(.Width(QpW + 1)) u_again (.a_i({1'b1, ev_qpn_q}), .b_i({before_q, before_qpn_q}), .same_o(again));
  assign row = again ? row_last_q : row_ram;

  always_ff @(posedge clk_i) begin
    before_q     <= busy_q;
    before_qpn_q <= ev_qpn_q;
    row_last_q   <= row_new;
  end

  assign is_ack  = ev_q == EvAck;
  assign is_init = (ev_q == EvQpc) && ev_flag_q;
  assign is_placed = ev_q == EvPlaced;
  assign is_bind   = (ev_q == EvBind) && !ev_flag_q;
  assign is_rel    = ev_q == EvRel;
  assign is_due    = ev_q == EvDue;
  assign is_plain  = is_placed || (is_ack && !ev_ack_q.rewind && !ev_ack_q.halt);
  // What only moves a window is news for who waits for that.
  assign is_news = (is_ack && !is_plain) || (ev_q == EvDb) || (ev_q == EvQpc);
  assign wr_ack  = busy_q && (is_ack || is_init);
  assign all_again = is_ack && ev_ack_q.rewind && ev_ack_q.again == '0;

  always_comb begin
    row_new = row;
    if (is_ack) begin
      row_new.halt = ev_ack_q.halt || (row.halt && !ev_ack_q.rewind);
      row_new.init = row.init && !ev_ack_q.rewind;
      row_new.seq  = row.seq + 8'(ev_ack_q.rewind);
      // Whatever moves behind it, the hole may be filled, and what is next may be new: then all comes again from there.
      row_new.again = ev_ack_q.rewind ? ev_ack_q.again : '0;
      row_new.round = row.round + RoundW'(all_again);
    end
    if (is_init) begin
      row_new.halt = 1'b0;
      row_new.init = 1'b1;
      row_new.seq  = row.seq + 8'd1;
      row_new.again = '0;
      row_new.pi   = ev_restores_q ? ev_pi_q : '0;
      row_new.push = '0;
      row_new.placed = ev_restores_q ? ev_ack_q.rd_done : '0;
    end
    if (is_placed) row_new.placed = row.placed + 16'd1;
    if (ev_q == EvDb) begin
      row_new.pi   = ev_pi_q;
      row_new.push = ev_push_q;
    end
    if (ev_q == EvQpc) {row_new.sl, row_new.group} = {ev_qpc_q.path.sl, ev_qpc_q.path.group};
    if (is_bind) begin
      row_new.bound  = 1'b1;
      row_new.slot   = ev_slot_q;
      row_new.queued = 1'b0;
    end
    if (is_rel) begin
      row_new.bound = 1'b0;
      row_new.idle  = ev_idle_q;
      row_new.sl    = ev_sl_q;
      row_new.held  = held_i[ev_slot_q];
    end
    if (is_due) row_new.held = 1'b0;
    wants = (((is_news && !(ev_q == EvQpc && ev_empty_q)) || (is_plain && !row.idle)) && !row.bound && !row.queued)
            || (ev_q == EvBind && !is_bind)
            || (is_rel && (ev_flag_q || active_i[ev_slot_q]))
            || (is_due && row.queued);
    push = busy_q && wants && !row_new.held;
    if (wants) row_new.queued = 1'b1;
    if (push) begin
      // Behind the shut SL before the group: others of the group may go on.
      row_new.waits_in = (row_new.group != '0 && sl_open_i[row_new.sl]) ? QueueW'(NumLanes) + QueueW'(row_new.group)
                                                                        : QueueW'(row_new.sl);
    end
    hand = '0;
    hand[QueueW'(NumLanes) + QueueW'(row.group)] = busy_q && is_rel && ev_hand_q;
    // A QP that waits in the queue of its old SL or group: that queue is looked through.
    resort            = '0;
    resort[row.waits_in] = busy_q && ev_q == EvQpc && row.queued && !row.held
                           && {row_new.sl, row_new.group} != {row.sl, row.group};
  end

  assign sl_set_o  = busy_q && (is_bind || (ev_q == EvQpc && row.bound));
  assign sl_slot_o = is_bind ? ev_slot_q : row.slot;
  assign sl_o      = row_new.sl;
  assign group_o   = row_new.group;

  always_comb begin
    ack_new               = '0;
    ack_new.init          = row_new.init;
    ack_new.halt          = row_new.halt;
    ack_new.seq           = row_new.seq;
    ack_new.again         = row_new.again;
    ack_new.round         = row_new.round;
    ack_new.una_psn       = ev_ack_q.una_psn;
    ack_new.una_first_psn = ev_ack_q.una_psn;
    if (is_ack || ev_restores_q) begin
      ack_new.una_wqe = ev_ack_q.una_wqe;
      ack_new.rd_done = ev_ack_q.rd_done;
    end
    if (is_ack) ack_new.una_first_psn = ev_ack_q.una_first_psn;
    // Who begins, or goes on in another row, has what one packet tells it.
    ack_new.credit = is_ack ? ev_ack_q.credit : '{on: ev_qpc_q.credits, probe: 1'b1, limit: ack_new.una_wqe};
  end

  always_comb begin
    kick_o = '0;
    soft_o = '0;
    soft_o[row.slot]  = busy_q && is_plain && row.bound;
    kick_o[row.slot]  = busy_q && is_news && row.bound;
    halt_o = (ev_q == EvQpc && !(ev_qpc_q.state inside {QpsRts, QpsSqd})) ? kick_o : '0;
  end

  assign bind_o       = busy_q && is_bind;
  assign {bind_slot_o, bind_qpn_o} = {ev_slot_q, ev_qpn_q};
  assign {bind_pi_o, bind_push_o}  = {row.pi, row.push};
  assign lift_o       = busy_q && is_due && row.bound;
  assign lift_slot_o  = row.slot;
  assign gone_o       = busy_q && is_rel;
  assign early_o      = busy_q && ev_q == EvDb && row.bound && ev_push_q.valid;
  assign early_slot_o = row.slot;
  assign early_pi_o   = ev_pi_q;
  assign early_push_o = ev_push_q;

  logic [QpW-1:0] slot_qpn_q [Slots];
  wqe_idx_t       slot_pi_q [Slots];
  push_t          slot_push_q [Slots];

  assign slot_qpn_o = slot_qpn_q[slot_i];
  assign slot_pi_o  = slot_pi_q[slot_i];
  assign slot_push_o = slot_push_q[slot_i];

  always_ff @(posedge clk_i) begin
    if (busy_q && is_bind) slot_qpn_q[ev_slot_q] <= ev_qpn_q;
    if (busy_q && is_bind) begin
      slot_pi_q[ev_slot_q]   <= row.pi;
      slot_push_q[ev_slot_q] <= row.push;
    end else if (busy_q && row.bound && (ev_q == EvDb || is_init)) begin
      slot_pi_q[row.slot]   <= row_new.pi;
      slot_push_q[row.slot] <= row_new.push;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      busy_q      <= 1'b0;
      scrub_q     <= 1'b1;
      scrub_qpn_q <= '0;
      want_slot_o <= 1'b0;
      push_q      <= 1'b0;
    end else begin
      busy_q      <= take;
      push_q      <= push;
      scrub_qpn_q <= scrub_qpn_q + QpW'(scrub_q);
      if (scrub_qpn_q == QpW'(NumQps - 1)) scrub_q <= 1'b0;
      want_slot_o <= waits && !free_valid;
    end
    {push_queue_q, push_qpn_q} <= {row_new.waits_in, ev_qpn_q};
    round_o.valid <= !rst_i && (scrub_q || (busy_q && all_again));
    if (scrub_q) {round_o.qpn, round_o.round} <= {scrub_qpn_q, RoundW'(0)};
    else if (busy_q && all_again) {round_o.qpn, round_o.round} <= {ev_qpn_q, row_new.round};
  end

  // ---- Tables ---------------------------------------------------------------------------------------
  logic unused_bits;
  assign unused_bits = ^{qpc_wr_i, sq_db_i.sq, ev_ack_q.qpn, free_room};

  hca_id_queues #(.Queues(Queues), .Ids(NumQps)) u_ready (
    .clk_i, .rst_i,
    .push_i      (push_q),
    .push_queue_i(push_queue_q),
    .push_id_i   (push_qpn_q),
    .used_o      (queue_used),
    .valid_o     (),
    .pop_i       (pop),
    .pop_queue_i (next_queue),
    .pop_id_o    (pop_qpn),
    .emptied_o   (emptied),
    .sort_i      (resort),
    .sort_valid_o(sort),
    .sort_queue_o(sort_queue)
  );

  hca_ram_1r1w #(.Width($bits(row_t)), .Depth(NumQps)) u_rows (
    .clk_i,
    .we_i   (busy_q || scrub_q),
    .waddr_i(scrub_q ? scrub_qpn_q : ev_qpn_q),
    .wdata_i(scrub_q ? '0 : row_new),
    .re_i   (take),
    .raddr_i(qpn_a),
    .rdata_o(row_ram)
  );

  hca_ram_1r1w #(.Width($bits(sq_ack_t)), .Depth(NumQps)) u_acks (
    .clk_i,
    .we_i   (wr_ack),
    .waddr_i(ev_qpn_q),
    .wdata_i(ack_new),
    .re_i   (ctx_re_i), .raddr_i(ctx_qpn_i),
    .rdata_o(ctx_ack_o)
  );

  hca_ram_1r1w #(.Width(16), .Depth(NumQps)) u_placed (
    .clk_i,
    .we_i   (busy_q && (is_placed || is_init)),
    .waddr_i(ev_qpn_q),
    .wdata_i(row_new.placed),
    .re_i   (ctx_re_i), .raddr_i(ctx_qpn_i),
    .rdata_o(ctx_placed_o)
  );

  hca_ram_1r1w #(.Width($bits(sq_qpc_t)), .Depth(NumQps)) u_qpcs (
    .clk_i,
    .we_i   (busy_q && ev_q == EvQpc),
    .waddr_i(ev_qpn_q),
    .wdata_i(ev_qpc_q),
    .re_i   (ctx_re_i), .raddr_i(ctx_qpn_i),
    .rdata_o(ctx_qpc_o)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && busy_q) begin
      assert (!gone_o || free_room) else $error("hca_sq_sched: more slots come back than there are");
      assert (!is_bind || !row.bound) else $error("hca_sq_sched: QP %0d has two slots", ev_qpn_q);
      assert (!is_rel || (row.bound && row.slot == ev_slot_q)) else $error("hca_sq_sched: not in slot %0d", ev_slot_q);
      assert (!push || !row.queued || ev_q == EvBind || is_due)
        else $error("hca_sq_sched: QP %0d waits twice", ev_qpn_q);
    end
  end
`endif

endmodule
