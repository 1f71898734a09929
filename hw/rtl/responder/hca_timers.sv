// Transport and RNR timers. A scanner visits the QPs that have something outstanding, one per four cycles, and compares
// with what it saw last time: a timer starts when a change is first seen, and fires when its time is over. Between two
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
    logic [1:0]        pass;
    logic [EpochW-1:0] mark;
    logic [1:0]        gen;
    logic [23:0]       una_psn;
    logic [StampW-1:0] stamp;    // when the phase began
  } own_t;

  logic           active_q, sleep_q, due, recent;
  logic [63:0]    at_q;
  logic [NumQps-1:0] known_q;   // what was seen of it last time is about what it waits for
  logic           ask_q;        // the reads of qpn have returned, its ring is being asked
  logic           look_q;       // and has answered
  logic           act_q;        // judged: act on it
  logic           scan, here, done;
  logic [QpW-1:0] qpn;
  tmr_ctx_t       ctx;
  tmr_st_t        st;
  own_t           own, own_new_q;
  logic [SerialW-1:0] made_q, left_q, behind;
  made_t          made;
  logic           away, waiting, waits, fresh, changed, expired, overdue, step, own_we, gone, piped, redo;
  logic           waiting_q, waits_q, fire_q, own_we_q;
  phase_e         phase;
  logic [StampW-1:0] elapsed, left_at_q, since_left;
  logic [27:0]    rnr_cycles;
  logic           unused_bits;

  assign unused_bits = ^{rnr_cycles[3:0], behind[SerialW-2:0]};
  assign active_o   = active_q;
  assign wake_at_o  = at_q;
  assign scan       = active_q && !sleep_q;
  assign mark_en_o  = here && !ask_q && !look_q && !act_q;
  assign mark_qpn_o = qpn;

  // A mark is written after its strobe; nobody is dropped meanwhile. Who may send again may have something outstanding
  // from before.
  hca_qp_set u_set (
    .clk_i, .rst_i, .add_i({ctx_we_i && ctx_i.live, wake_i}), .add_qpn_i({wr_qpn_i, wake_qpn_i}),
    .drop_i(step && !waiting_q && !recent), .drop_qpn_i(qpn),
    .walk_i(scan), .valid_o(here), .qpn_o(qpn), .next_i(step), .done_o(done)
  );

  hca_ram_1r1w #(
    .Width($bits(tmr_ctx_t)),
    .Depth(NumQps)
  ) u_ctx (
    .clk_i,
    .we_i   (ctx_we_i),
    .waddr_i(wr_qpn_i),
    .wdata_i(ctx_i),
    .re_i   (scan ? mark_en_o : wake_i),
    .raddr_i(scan ? qpn : wake_qpn_i),
    .rdata_o(ctx)
  );

  hca_ram_1r1w #(
    .Width($bits(tmr_st_t)),
    .Depth(NumQps)
  ) u_st (
    .clk_i,
    .we_i   (st_we_i),
    .waddr_i(wr_qpn_i),
    .wdata_i(st_i),
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

  assign behind = made.serial - left_q;
  assign away   = look_q && !behind[SerialW-1];

  // The epoch is compared modulo 2^16: one that has gone round in between only costs a further visit.
  assign lane_ask_o = ctx.lane;
  assign gone       = lane_age_i.empty
                      || EpochW'(lane_age_i.epoch - own.mark - EpochW'(1)) < (EpochW'(1) << (EpochW - 1));
  assign since_left = look_q ? now_i[StampW-1:0] - left_at_q : '0;
  assign piped      = since_left >= StampW'(PipeCycles);   // all that has left the gather is in its ring

  // ---- Judge one QP --------------------------------------------------------------------------------
  assign waiting    = ctx.live && !st.dead && (st.rnr_wait || st.una_psn != mark_psn_i);
  assign waits      = waiting && (st.rnr_wait || ctx.timeout != '0);
  assign changed    = !waits || !known_q[qpn] || own.una_psn != st.una_psn;
  assign fresh      = changed || own.gen != st.gen;
  assign elapsed    = look_q ? now_i[StampW-1:0] - own.stamp : '0;   // at rest nothing follows the time
  assign rnr_cycles = 28'(RnrTimeUs[st.rnr_code] * CyclesPerUs);
  // 4.096 us are 1024 cycles; timeout 0 never fires (REL-6, REL-7).
  assign expired    = st.rnr_wait ? elapsed >= StampW'(rnr_cycles)
                                  : (ctx.timeout != '0) && (elapsed >> (6'd10 + 6'(ctx.timeout))) != '0;

  assign overdue    = !fresh && (elapsed >> (6'd11 + 6'(ctx.timeout))) != '0;
  assign redo       = known_q[qpn] && made.pass == own.pass && (own.gen != st.gen || own.phase == PhRedo);

  // A RNR wait is for the peer: nothing of the QP is under way to it.
  always_comb begin
    if (st.rnr_wait) phase = PhWire;
    else if (redo) phase = overdue ? PhWire : PhRedo;
    else if (away) phase = PhAway;
    else if (fresh || own.phase inside {PhRedo, PhAway}) phase = !piped ? PhPipe : lane_age_i.empty ? PhWire : PhRing;
    else if (own.phase == PhPipe && elapsed >= StampW'(PipeCycles)) phase = lane_age_i.empty ? PhWire : PhRing;
    else if (own.phase == PhRing && (gone || overdue)) phase = PhWire;
    else phase = own.phase;
  end

  always_ff @(posedge clk_i) begin
    waiting_q <= waiting;
    waits_q   <= waits;
    if (look_q) begin
      fire_q    <= !fresh && phase == PhWire && own.phase == PhWire && expired;
      own_we_q  <= fresh || phase != own.phase;
      own_new_q <= '{phase: phase, pass: (phase == PhRedo) ? own.pass : made.pass, mark: lane_age_i.mark, gen: st.gen,
                     una_psn: st.una_psn, stamp: now_i[StampW-1:0]};
    end
  end

  assign msg_valid_o = act_q && fire_q;
  assign {msg_o.syndrome, msg_o.status, msg_o.wqe_index} = timer_tag(st.gen, st.una_psn);
  assign msg_o.kind  = st.rnr_wait ? MsgRnrDone : MsgTimeout;
  assign msg_o.qpn   = qpn;
  assign step        = act_q && (!msg_valid_o || msg_ready_i);
  assign own_we      = step && (own_we_q || fire_q);

  // ---- How long to sleep -----------------------------------------------------------------------------
  localparam int unsigned MarkCycles = 8;   // a mark is written that much later than its strobe, at most

  logic                  wrap, rnr_new, again, again_q, any_q, peek_q, ended_q;
  logic [MarkCycles-1:0] recent_q;          // strobes
  logic [PeriodW-1:0]    least_q, asked;    // of a sweep; of who comes meanwhile

  // A sixteenth of 2^timeout * 1024 cycles.
  function automatic logic [PeriodW-1:0] sixteenth(logic [4:0] timeout);
    return (timeout == '0) ? '1 : PeriodW'(1) << (6'd6 + 6'(timeout));
  endfunction

  function automatic logic [PeriodW-1:0] lesser(logic [PeriodW-1:0] a, logic [PeriodW-1:0] b);
    return (a < b) ? a : b;
  endfunction

  assign recent  = wake_i || recent_q != '0;
  assign wrap    = scan && done;
  assign rnr_new = st_we_i && st_i.rnr_wait && !st_i.dead;
  assign again   = again_q || rnr_new || recent || asked != '1;   // somebody may have come behind the scanner
  assign due     = sleep_q && now_i >= at_q;

  always_comb begin
    asked = '1;
    if (ctx_we_i && ctx_i.live) asked = sixteenth(ctx_i.timeout);
    else if (ended_q) asked = sixteenth(5'd1);
    if (peek_q) asked = lesser(asked, sixteenth(ctx.timeout));
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      known_q <= '0;
    end else begin
      if (step) known_q[qpn] <= waits_q;
      // Every new life begins so; a change in mid-life lets the timer run on.
      if (ctx_we_i && !ctx_i.live) known_q[wr_qpn_i] <= 1'b0;
    end
  end

  // ---- Sweep, sleep ------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q <= 1'b0;
      sleep_q  <= 1'b0;
      any_q    <= 1'b0;
      again_q  <= 1'b0;
      ask_q    <= 1'b0;
      look_q   <= 1'b0;
      act_q    <= 1'b0;
      peek_q   <= 1'b0;
      ended_q  <= 1'b0;
      recent_q <= '0;
      least_q  <= '1;
    end else begin
      recent_q <= {recent_q[MarkCycles-2:0], wake_i};
      peek_q   <= wake_i && !scan;
      ended_q  <= active_q && ((ctx_we_i && !ctx_i.live) || (st_we_i && st_i.dead));
      ask_q    <= mark_en_o;
      look_q   <= ask_q;
      act_q    <= look_q || (act_q && !step);
      any_q    <= scan && !wrap && (any_q || (step && waits_q));
      again_q  <= scan && !wrap && again;
      if (!scan) begin
        active_q <= active_q || rnr_new || asked != '1;
        sleep_q  <= !rnr_new && !due && (active_q || asked != '1);
        least_q  <= '1;
      end else begin
        if (step && waits_q && !st.rnr_wait) least_q <= lesser(least_q, sixteenth(ctx.timeout));
        if (step && waits_q && st.rnr_wait) least_q <= lesser(least_q, PeriodW'(rnr_cycles[27:4]));
        if (wrap) begin
          active_q <= any_q || again;
          sleep_q  <= any_q || again;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (wrap) at_q <= again ? now_i : now_i + 64'(lesser(least_q, asked));
    else if (asked != '1 && (!active_q || now_i + 64'(asked) < at_q)) at_q <= now_i + 64'(asked);
  end

endmodule
