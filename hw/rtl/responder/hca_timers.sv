// Transport and RNR timers. A scanner visits the QPs that have something outstanding, one per ten cycles (fourteen
// where a row of hca_qp_set begins), and compares with what it saw last time: a timer starts when a change is first
// seen, and fires when its time is over. Between two
// sweeps the scanner sleeps for a sixteenth of the shortest time that somebody waits for. So a timer is never early,
// and late by an eighth of that time and two sweeps at most. Whoever emits something shortens the sleep by its own
// time-out; a new RNR wait ends it; a QP that ends, which may have been the one to wait for, shortens it, too. While it
// sleeps nothing here but the count of packets changes before `wake_at_o`. When a whole sweep meets nobody to wait for
// it ends (active_o = 0), until something with a time-out is emitted.
//
// The transport timer rests while a packet of the QP is between the requester and the wire:
//   Redo   the QP goes back, and what it sends again has not been made: its PSNs have not gone back yet (`pass`)
//   Away   the QP's newest packet waits in the gather for its payload; requests leave there in the order in which they
//          are made, so serial numbers tell
//   Pipe   it has left the gather at the visit before, and is in its ring PipeCycles later
//   Ring   it was in its ring at the visit before, which has let out what was there (credits, PFC, its turn) when the
//          ring's epoch has gone past its mark
//   Wire   it is on the wire: only now time runs
// A phase is left at a visit, or passed over when nothing is in that place; so a loaded port makes the timer later by
// another eighth of its time. Redo, Pipe and Ring end after twice the QP's time in any case: a lane that never gets
// credits is a path that has failed.
//
// Who has no end-to-end credit and nothing outstanding (dry) waits as after an RNR NAK, for the time of ProbeCode.
module hca_timers
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [63:0]    now_i,     // cycles of 4 ns
  input  logic           wake_i,    // strobe: something of QP wake_qpn_i is emitted
  input  logic [QpW-1:0] wake_qpn_i,
  input  logic [23:0]    wake_psn_i, // PSN behind it
  input  logic           left_i,    // strobe: the oldest packet emitted has left the gather, or was dropped
  output lane_ask_t      lane_ask_o,
  input  ring_age_t      lane_age_i, // of that lane's ring, in the next cycle
  output logic           active_o,
  output logic [63:0]    wake_at_o, // cycle of the next sweep, if active_o; in a sweep one that is over
  input  logic [QpW-1:0] wr_qpn_i,
  input  logic           ctx_we_i,
  input  tmr_ctx_t       ctx_i,
  input  logic           st_we_i,
  input  tmr_st_t        st_i,
  // PSN high-water mark of QP mark_qpn_o, in the next cycle, held
  output logic           mark_en_o,
  output logic [QpW-1:0] mark_qpn_o,
  input  logic [23:0]    mark_psn_i,
  output logic           msg_valid_o,
  input  logic           msg_ready_i,
  output pipe_msg_t      msg_o      // MsgTimeout, MsgRnrDone
);

  localparam int unsigned StampW     = 44;   // 2^31 * 4.096 us is 2^41 cycles
  localparam int unsigned CyclesPerUs = 250;
  localparam int unsigned SerialW     = 44;   // no wrap in the longest time-out at 100 million packets per second
  localparam int unsigned PeriodW     = 38;   // a sixteenth of 2^31 * 4.096 us is 2^37 cycles

  localparam int unsigned PipeCycles  = 512;  // from the gather's exit into a ring, at most

  typedef enum logic [2:0] {PhRedo, PhAway, PhPipe, PhRing, PhWire} phase_e;

  // Of the newest packet: it has gone back `pass` times.
  typedef struct packed {
    logic [1:0]         pass;
    logic [SerialW-1:0] serial;
  } made_t;

  typedef struct packed {
    phase_e            phase;
    logic              paused;   // it waits for the peer to be ready
    logic [1:0]        pass;
    logic [EpochW-1:0] mark;
    logic [1:0]        gen;
    logic [23:0]       una_psn;
    logic [StampW-1:0] stamp;    // when the phase began
  } own_t;

  // A visit: the tables are read, then
  //   Read   they have answered
  //   Ask    their answers are in registers; the QP's ring is asked
  //   Look   it has answered; times are taken
  //   Weigh  times are compared
  //   Judge  the phase is chosen
  //   Act    until a message is taken
  localparam int unsigned Read = 0, Look = 2, Judge = 4, Act = 5, Stages = 6;

  logic           active_q, sleep_q, due, recent, pending;
  logic [63:0]    at_q;
  logic [Stages-1:0] stage_q;   // one at a time
  logic           scan, here, done, step, own_we;
  logic           waiting_q, ended_q, begun_q;   // a life of the QP has ended, begun or gone on during the visit
  logic [QpW-1:0] qpn;
  tmr_ctx_t       ctx, ctx_q;
  tmr_st_t        st, st_q;
  own_t           own, own_q, own_new_q;
  logic [SerialW-1:0] made_q, left_q, behind;
  made_t          made, newest_q;
  logic [StampW-1:0] left_at_q;

  // What is written comes late, and is taken a cycle later.
  logic           ctx_we_q, st_we_q;
  logic [QpW-1:0] wr_qpn_q;
  tmr_ctx_t       ctx_new_q;
  tmr_st_t        st_new_q;
  always_ff @(posedge clk_i) begin
    {ctx_we_q, st_we_q}             <= rst_i ? '0 : {ctx_we_i, st_we_i};
    {wr_qpn_q, ctx_new_q, st_new_q} <= {wr_qpn_i, ctx_i, st_i};
  end

  assign active_o   = active_q || pending;
  assign wake_at_o  = pending ? '0 : at_q;
  assign scan       = active_q && !sleep_q;
  assign mark_en_o  = here && stage_q == '0;
  assign mark_qpn_o = qpn;

  // A mark is written after its strobe; nobody is dropped meanwhile. Who may send again may have something outstanding
  // from before.
  hca_qp_set u_set (
    .clk_i, .rst_i, .add_i({ctx_we_q && ctx_new_q.live, wake_i}), .add_qpn_i({wr_qpn_q, wake_qpn_i}),
    .drop_i(step && !waiting_q && !recent && !begun_q), .drop_qpn_i(qpn),
    .walk_i(scan), .valid_o(here), .qpn_o(qpn), .next_i(step), .done_o(done)
  );

  hca_ram_1r1w #(
    .Width($bits(tmr_ctx_t)),
    .Depth(NumQps)
  ) u_ctx (
    .clk_i,
    .we_i   (ctx_we_q),
    .waddr_i(wr_qpn_q),
    .wdata_i(ctx_new_q),
    .re_i   (scan ? mark_en_o : wake_i),
    .raddr_i(scan ? qpn : wake_qpn_i),
    .rdata_o(ctx)
  );

  hca_ram_1r1w #(
    .Width($bits(tmr_st_t)),
    .Depth(NumQps)
  ) u_st (
    .clk_i,
    .we_i   (st_we_q),
    .waddr_i(wr_qpn_q),
    .wdata_i(st_new_q),
    .re_i   (mark_en_o),
    .raddr_i(qpn),
    .rdata_o(st)
  );

  hca_ram_1r1w #(
    .Width($bits(own_t)),
    .Depth(NumQps)
  ) u_own (
    .clk_i,
    .we_i   (own_we),
    .waddr_i(qpn),
    .wdata_i(own_new_q),
    .re_i   (mark_en_o),
    .raddr_i(qpn),
    .rdata_o(own)
  );

  // ---- Packets on their way to the wire --------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    made_q <= rst_i ? '0 : made_q + SerialW'(wake_i);
    left_q <= rst_i ? '0 : left_q + SerialW'(left_i);
    if (left_i) left_at_q <= now_i[StampW-1:0];
  end

  // PSNs of a QP go up but where it goes back. One packet per two cycles.
  typedef struct packed {
    logic [1:0]  pass;
    logic [23:0] psn;
  } pass_t;

  pass_t          last;
  logic           woken_q;
  logic [QpW-1:0] woken_qpn_q;
  logic [23:0]    woken_psn_q;
  logic [1:0]     pass;

  assign pass = last.pass + 2'(psn_ge(last.psn, woken_psn_q));

  always_ff @(posedge clk_i) begin
    woken_q     <= wake_i && !rst_i;
    woken_qpn_q <= wake_qpn_i;
    woken_psn_q <= wake_psn_i;
  end

  hca_ram_1r1w #(
    .Width($bits(pass_t)),
    .Depth(NumQps)
  ) u_pass (
    .clk_i,
    .we_i   (woken_q),
    .waddr_i(woken_qpn_q),
    .wdata_i({pass, woken_psn_q}),
    .re_i   (wake_i),
    .raddr_i(wake_qpn_i),
    .rdata_o(last)
  );

  hca_ram_1r1w #(
    .Width($bits(made_t)),
    .Depth(NumQps)
  ) u_made (
    .clk_i,
    .we_i   (woken_q),
    .waddr_i(woken_qpn_q),
    .wdata_i({pass, SerialW'(made_q - 1'b1)}),
    .re_i   (mark_en_o),
    .raddr_i(qpn),
    .rdata_o(made)
  );

  // ---- Judge one QP --------------------------------------------------------------------------------
  function automatic logic [31:0][27:0] rnr_table();
    logic [31:0][27:0] cycles;
    for (int unsigned c = 0; c < 32; c++) cycles[c] = 28'(RnrTimeUs[c] * CyclesPerUs);
    return cycles;
  endfunction

  localparam logic [31:0][27:0] RnrCycles = rnr_table();

  // A sixteenth of 2^timeout * 1024 cycles.
  function automatic logic [PeriodW-1:0] sixteenth(logic [4:0] timeout);
    return (timeout == '0) ? '1 : PeriodW'(1) << (6'd6 + 6'(timeout));
  endfunction

  logic [23:0]        mark_psn_q;
  logic               known, known_now_q;
  logic               open_q, same_psn_q, same_gen_q, same_pass_q;
  logic [27:0]        rnr_cycles_q;
  logic [StampW-1:0]  beyond_time_q;           // bits of a time that is over
  logic               away_q, piped_q, gone_q, empty_q;
  logic [EpochW-1:0]  mark_q, beyond;
  logic [StampW-1:0]  elapsed_q, since_left;
  logic [PeriodW-1:0] span_q;                  // how long the scanner may sleep for this QP
  logic               waits, changed, fresh, paused_q;
  logic               waits_q, fresh_q, redo_q, expired_q, overdue_q, aged_q, fire_q, own_we_q;
  phase_e             phase;

  always_ff @(posedge clk_i) begin
    if (stage_q[Read]) begin
      ctx_q       <= ctx;
      st_q        <= st;
      own_q       <= own;
      newest_q    <= made;
      mark_psn_q  <= mark_psn_i;
      known_now_q <= known;
    end
    ended_q <= (ended_q && !mark_en_o) || (ctx_we_q && !ctx_new_q.live && wr_qpn_q == qpn);
    begun_q <= (begun_q && !mark_en_o) || (ctx_we_q && ctx_new_q.live && wr_qpn_q == qpn);
  end

  // Ask.
  assign lane_ask_o = ctx_q.lane;

  always_ff @(posedge clk_i) begin
    open_q       <= st_q.una_psn != mark_psn_q;
    same_psn_q   <= own_q.una_psn == st_q.una_psn;
    same_gen_q   <= own_q.gen == st_q.gen;
    same_pass_q  <= newest_q.pass == own_q.pass;
    rnr_cycles_q <= RnrCycles[st_q.rnr_code];
    // 4.096 us are 1024 cycles.
    beyond_time_q <= {{(StampW-10){1'b1}} << ctx_q.timeout, 10'd0};
  end

  // Look. The epoch is compared modulo 2^16: one that has gone round in between only costs a further visit.
  assign behind     = newest_q.serial - left_q;
  assign beyond     = lane_age_i.epoch - own_q.mark - EpochW'(1);
  assign since_left = now_i[StampW-1:0] - left_at_q;

  always_ff @(posedge clk_i) begin
    if (stage_q[Look]) begin   // at rest nothing follows the time
      waiting_q <= ctx_q.live && !st_q.dead && (st_q.rnr_wait || st_q.dry || open_q);
      paused_q  <= st_q.rnr_wait || (st_q.dry && !open_q);
      away_q    <= !behind[SerialW-1];
      piped_q   <= since_left >= StampW'(PipeCycles);   // all that has left the gather is in its ring
      gone_q    <= lane_age_i.empty || !beyond[EpochW-1];
      empty_q   <= lane_age_i.empty;
      mark_q    <= lane_age_i.mark;
      elapsed_q <= now_i[StampW-1:0] - own_q.stamp;
      span_q    <= (st_q.rnr_wait || (st_q.dry && !open_q)) ? PeriodW'(rnr_cycles_q[27:4]) : sixteenth(ctx_q.timeout);
    end
  end

  // Weigh. Timeout 0 never fires (REL-6, REL-7).
  assign waits   = waiting_q && (paused_q || ctx_q.timeout != '0);
  assign changed = !waits || !known_now_q || ended_q || !same_psn_q || own_q.paused != paused_q;
  assign fresh   = changed || !same_gen_q;

  always_ff @(posedge clk_i) begin
    waits_q   <= waits;
    fresh_q   <= fresh;
    redo_q    <= known_now_q && same_pass_q && (!same_gen_q || own_q.phase == PhRedo);
    expired_q <= paused_q ? elapsed_q >= StampW'(rnr_cycles_q) : (elapsed_q & beyond_time_q) != '0;
    overdue_q <= !fresh && (elapsed_q & (beyond_time_q << 1)) != '0;
    aged_q    <= elapsed_q >= StampW'(PipeCycles);
  end

  // Judge. A wait for the peer: nothing of the QP is under way to it.
  always_comb begin
    if (paused_q) phase = PhWire;
    else if (redo_q) phase = overdue_q ? PhWire : PhRedo;
    else if (away_q) phase = PhAway;
    else if (fresh_q || own_q.phase inside {PhRedo, PhAway}) phase = !piped_q ? PhPipe : empty_q ? PhWire : PhRing;
    else if (own_q.phase == PhPipe && aged_q) phase = empty_q ? PhWire : PhRing;
    else if (own_q.phase == PhRing && (gone_q || overdue_q)) phase = PhWire;
    else phase = own_q.phase;
  end

  always_ff @(posedge clk_i) begin
    if (stage_q[Judge]) begin
      fire_q    <= !fresh_q && phase == PhWire && own_q.phase == PhWire && expired_q;
      own_we_q  <= fresh_q || phase != own_q.phase;
      own_new_q <= '{phase: phase, paused: paused_q, mark: mark_q, gen: st_q.gen,
                     pass: (phase == PhRedo) ? own_q.pass : newest_q.pass,
                     una_psn: st_q.una_psn, stamp: now_i[StampW-1:0]};
    end
  end

  // Act.
  assign msg_valid_o = stage_q[Act] && fire_q;
  assign {msg_o.syndrome, msg_o.status, msg_o.wqe_index} = timer_tag(st_q.gen, st_q.una_psn);
  assign msg_o.kind  = paused_q ? MsgRnrDone : MsgTimeout;
  assign msg_o.qpn   = qpn;
  assign step        = stage_q[Act] && (!fire_q || msg_ready_i);
  assign own_we      = step && (own_we_q || fire_q);

  always_ff @(posedge clk_i) begin
    if (rst_i) stage_q <= '0;
    else stage_q <= {stage_q[Judge] || (stage_q[Act] && !step), stage_q[Judge-1:0], mark_en_o};
  end

  // ---- How long to sleep -----------------------------------------------------------------------------
  // A mark is written eight cycles after its strobe at most; and so long takes a visit that has nothing to tell.
  localparam int unsigned RecentCycles = 8 + Stages;

  // How long is what somebody asks for who comes between two sweeps: told and peeked at, the lesser one, when that is.
  logic                    wrap, rnr_q, ended, again, again_q, any_q, peek, peek_q, told_q, wish_q, sum_q;
  logic [RecentCycles-1:0] recent_q;        // strobes
  logic [4:0]              told_timeout_q, wish_timeout_q;
  logic [63:0]             sum_at_q;
  logic [PeriodW-1:0]      least_q;         // of a sweep

  assign recent  = wake_i || recent_q != '0;
  assign wrap    = scan && done;
  assign ended   = active_q && ((ctx_we_q && !ctx_new_q.live) || (st_we_q && st_new_q.dead));
  assign peek    = peek_q && ctx.timeout != '0;
  assign pending = rnr_q || told_q || peek_q || wish_q || sum_q;
  assign again   = again_q || recent || pending;   // somebody may have come behind the scanner
  assign due     = sleep_q && now_i >= at_q;

  always_ff @(posedge clk_i) begin
    told_timeout_q <= ended ? 5'd1 : ctx_new_q.timeout;   // 1: the shortest
    wish_timeout_q <= (peek && !(told_q && told_timeout_q < ctx.timeout)) ? ctx.timeout : told_timeout_q;
    if (wish_q) sum_at_q <= now_i + 64'(sixteenth(wish_timeout_q));
  end

  // Is what was seen of it last time about what it waits for? Every new life begins without; a change in mid-life lets
  // the timer run on. What a visit has found is written when no life begins, three cycles before the next visit looks.
  logic           begins, told_known_q, told_value_q;
  logic [QpW-1:0] told_qpn_q;

  assign begins = ctx_we_q && !ctx_new_q.live;

  always_ff @(posedge clk_i) begin
    told_known_q <= !rst_i && (step ? !(begins && wr_qpn_q == qpn)
                                    : told_known_q && begins && wr_qpn_q != told_qpn_q);
    if (step) begin
      told_qpn_q   <= qpn;
      told_value_q <= waits_q && !ended_q;
    end
  end

  hca_ram_1r1w #(
    .Width(1),
    .Depth(NumQps)
  ) u_known (
    .clk_i,
    .we_i   (begins || told_known_q),
    .waddr_i(begins ? wr_qpn_q : told_qpn_q),
    .wdata_i(!begins && told_value_q),
    .re_i   (mark_en_o),
    .raddr_i(qpn),
    .rdata_o(known)
  );

  // ---- Sweep, sleep ------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q <= 1'b0;
      sleep_q  <= 1'b0;
      any_q    <= 1'b0;
      again_q  <= 1'b0;
      peek_q   <= 1'b0;
      told_q   <= 1'b0;
      rnr_q    <= 1'b0;
      wish_q   <= 1'b0;
      sum_q    <= 1'b0;
      recent_q <= '0;
      least_q  <= '1;
    end else begin
      recent_q <= {recent_q[RecentCycles-2:0], wake_i};
      peek_q   <= wake_i && !scan;
      told_q   <= ended || (ctx_we_q && ctx_new_q.live && ctx_new_q.timeout != '0);
      wish_q   <= told_q || peek;
      rnr_q    <= st_we_q && (st_new_q.rnr_wait || st_new_q.dry) && !st_new_q.dead;
      sum_q    <= wish_q;
      any_q    <= scan && !wrap && (any_q || (step && waits_q));
      again_q  <= scan && !wrap && again;
      if (!scan) begin
        active_q <= active_q || rnr_q || sum_q;
        sleep_q  <= !rnr_q && !due && (active_q || sum_q);
        least_q  <= '1;
      end else begin
        if (step && waits_q && span_q < least_q) least_q <= span_q;
        if (wrap) begin
          active_q <= any_q || again;
          sleep_q  <= any_q || again;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (wrap) at_q <= again ? now_i : now_i + 64'(least_q);
    else if (sum_q && (!active_q || sum_at_q < at_q)) at_q <= sum_at_q;
  end

endmodule
