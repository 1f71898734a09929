// Completion queues: writes CQEs into the rings, raises completion events of armed queues. One job at a
// time, so the state of a queue has one writer: two cycles per CQE or doorbell, up to four more with an event.
//
// A job never waits for anything that goes out: while a CQE or an event waits for its place on the way to the host,
// doorbells go on. The next CQE and the next event wait; an event waits for all CQEs before it, too.
//
// A CQE that has no place (ring full, queue not valid) puts the queue into error: one CQ_ERROR event to
// firmware, and no further CQE until the context is written again. The receive path never waits for
// firmware: these events have a place for every queue.
//
// Moderation: an armed queue that has what it was armed for waits for a number of completions that the host has not
// seen, or until its timer (hca_cq_timers) has run since the first of them.
module hca_cq
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [63:0]    now_i,
  // Context writes; also reset indices, arming and error of the queue, unless the row says to keep them: then the next
  // CQE goes to the new ring; or only the moderation is written.
  input  logic           cqc_wr_valid_i,
  output logic           cqc_wr_ready_o,
  input  logic [CqW-1:0] cqc_wr_cqn_i,
  input  cqc_t           cqc_wr_i,
  input  logic           cqe_valid_i,
  output logic           cqe_ready_o,
  input  cqe_job_t       cqe_i,
  input  logic           cq_db_valid_i,
  output logic           cq_db_ready_o,
  input  cq_db_t         cq_db_i,
  output logic           wr_valid_o,
  input  logic           wr_ready_i,
  output dma_wr_t        wr_o,
  output logic           eqe_valid_o,
  input  logic           eqe_ready_i,
  output eqe_job_t       eqe_o,
  input  logic           eqe_full_i,   // beside eqe_ready_i: the event queue was full, try again
  input  logic           eq_room_i,    // strobe: an event queue has been read
  output logic           ev_valid_o,
  input  logic           ev_ready_i,
  output hw_ev_t         ev_o,
  output logic [31:0]    bad_db_cnt_o, // doorbells of a queue that is not valid or not the function's
  output logic           active_o,     // timers run: nothing changes by itself before ...
  output logic [63:0]    wake_at_o     // ... this cycle
);

  // cause of CQ_ERROR
  localparam logic [7:0] CauseOverflow = 8'd1;
  localparam logic [7:0] CauseNotValid = 8'd2;

  typedef enum logic [2:0] {
    StIdle,
    StCqe,
    StDb,
    StOwed,   // an event is due: offer it
    StFull,   // its event queue was full
    StTime    // the timer of its moderation is over
  } state_e;

  typedef struct packed {
    logic           valid;
    logic [7:0]     func;
    logic [57:0]    base;       // in entries
    logic [4:0]     log_size;
    logic [4:0]     fours;      // of log_size, a bit each: a mask's bit hangs on three bits of these two, not on five
    logic [2:0]     rest;       // of log_size by four, a bit each
    logic [EqW-1:0] eqn;
    logic           overwrite;  // when it is full
  } cfg_t;

  if (MaxLogCqSize > 23) begin : gen_too_large
    $error("hca_cq: fours has bits for rings of 2^23 entries");
  end

  typedef struct packed {
    logic [15:0] more;    // completions beside the first one; 0: no moderation
    logic [23:0] cycles;
  } mod_t;

  typedef struct packed {
    logic [23:0] pi;
    logic [23:0] used; // behind the consumer's index
    logic [23:0] sol;  // index after the newest solicited (or error) CQE
    logic [1:0]  arm;  // cq_arm_e
    logic        err;
    logic        owed; // an event is due, and the queue is in u_events
    logic        wait_mod; // what it was armed for is there: the event waits for more, or for the timer
  } dyn_t;

  state_e         state_q;
  logic           idle, db_first_q;  // whose turn it is when both wait
  logic           pick_db, pick_cqe, pick_owed, pick_full, pick_time, pick, time_valid;
  logic           out_valid_q, full_valid_q;
  logic [63:0]    now_q;
  logic [CqW-1:0] next_cqn, cqn_q;  // the queue of the next job, and of the one at work
  logic [CqW-1:0] owed_cqn, owed_cqn_q, full_cqn_q, time_cqn;

  // ---- State RAMs --------------------------------------------------------------------------------
  cfg_t cfg, cfg_new;
  mod_t moderation, mod_new;
  dyn_t dyn, dyn_d;
  logic dyn_we, init, moderated;

  // A queue begins.
  logic fresh;
  assign fresh = init && !cqc_wr_i.keep && !cqc_wr_i.moderate;

  // Whose context is written has nothing under way; while a write waits nothing new goes out.
  assign cqc_wr_ready_o = state_q == StIdle && !out_valid_q && !eqe_valid_o && !full_valid_q;
  assign init           = cqc_wr_valid_i && cqc_wr_ready_o;
  assign cfg_new        = '{valid: cqc_wr_i.valid && (cqc_wr_i.log_size <= 5'(MaxLogCqSize)),
                            func: cqc_wr_i.func, base: cqc_wr_i.base[63:6], log_size: cqc_wr_i.log_size,
                            fours: 5'((6'd1 << cqc_wr_i.log_size[4:2]) - 1'b1),
                            rest: 3'((4'd1 << cqc_wr_i.log_size[1:0]) - 1'b1),
                            eqn: cqc_wr_i.eqn[EqW-1:0], overwrite: cqc_wr_i.ignore_overrun};
  assign moderated      = cqc_wr_i.mod_count != '0 && cqc_wr_i.mod_cycles != '0;
  assign mod_new        = moderated ? '{more: cqc_wr_i.mod_count - 16'd1, cycles: cqc_wr_i.mod_cycles} : '0;

  // ---- Pick a job --------------------------------------------------------------------------------
  logic owed_valid, owed_first_q, event_room, fire, again, park, park_ready;
  logic may_out, would_owed, would_db, would_cqe, others;

  assign idle      = (state_q == StIdle) && !init && event_room;
  // Who would have the turn is known before it is known whether a timer is over: that goes before them.
  assign may_out    = !out_valid_q && !cqc_wr_valid_i;
  assign would_owed = may_out && owed_valid && !eqe_valid_o && (owed_first_q || !(cq_db_valid_i || cqe_valid_i));
  assign would_db   = !would_owed && cq_db_valid_i && (db_first_q || !cqe_valid_i || !may_out);
  assign would_cqe  = may_out && !would_owed && !would_db && cqe_valid_i;
  assign others     = idle && !full_valid_q && !time_valid;
  assign pick_full  = idle && full_valid_q;
  assign pick_time  = idle && !full_valid_q && time_valid;   // at most one for each CQE or doorbell
  assign pick_owed  = others && would_owed;
  assign pick_db    = others && would_db;
  assign pick_cqe   = others && would_cqe;
  assign pick       = idle && (full_valid_q || time_valid || would_owed || would_db || would_cqe);

  // The chosen stream stays valid until the job is done, so only its queue's number needs a register here: whoever acts
  // in the job looks at that, and not at who is next.
  assign next_cqn = full_valid_q ? full_cqn_q : time_valid ? time_cqn : would_owed ? owed_cqn
                    : would_db ? cq_db_i.cqn : cqe_i.cqn;

  always_ff @(posedge clk_i) begin
    if (pick_owed) owed_cqn_q <= owed_cqn;
    if (pick) cqn_q <= next_cqn;
    if (pick_cqe) now_q <= now_i;
    if (pick) owed_first_q <= !pick_owed;
  end

  hca_ram_1r1w #(
    .Width($bits(cfg_t)),
    .Depth(NumCqs)
  ) u_cfg (
    .clk_i,
    .we_i   (init && !cqc_wr_i.moderate),
    .waddr_i(cqc_wr_cqn_i),
    .wdata_i(cfg_new),
    .re_i   (pick),
    .raddr_i(next_cqn),
    .rdata_o(cfg)
  );

  hca_ram_1r1w #(
    .Width($bits(mod_t)),
    .Depth(NumCqs)
  ) u_mod (
    .clk_i,
    .we_i   (init && !cqc_wr_i.keep),
    .waddr_i(cqc_wr_cqn_i),
    .wdata_i(mod_new),
    .re_i   (pick),
    .raddr_i(next_cqn),
    .rdata_o(moderation)
  );

  hca_ram_1r1w #(
    .Width($bits(dyn_t)),
    .Depth(NumCqs)
  ) u_dyn (
    .clk_i,
    .we_i   (fresh || dyn_we),
    .waddr_i(init ? cqc_wr_cqn_i : cqn_q),
    .wdata_i(init ? '0 : dyn_d),
    .re_i   (pick),
    .raddr_i(next_cqn),
    .rdata_o(dyn)
  );

  // ---- CQE ---------------------------------------------------------------------------------------
  logic [23:0] mask, slot;   // mask: of a slot's number
  logic        fits, writable, overrun, wants_event, meant_cqe, fire_cqe, deliver, ev_push, ev_room;
  cqe_t        cqe;

  logic [6:0] fours;
  assign fours = {1'b0, cfg.fours, 1'b1};
  for (genvar g = 0; g < 6; g++) begin : gen_mask
    assign mask[4*g +: 4] = {4{fours[g+1]}} | {1'b0, {3{fours[g]}} & cfg.rest};
  end
  assign slot        = dyn.pi & mask;
  // The last free entry takes the completion for which there is no room, as an error: nobody misses it (V-57).
  // Beyond it there is nothing; nor is it there while nobody can be told. The carry says whether more is used than the
  // mask, or as much.
  logic [25:0] past;
  assign past        = {1'b0, dyn.used, !ev_room} + {1'b0, ~mask, 1'b1};
  assign overrun     = !cfg.overwrite && dyn.used >= mask;
  assign fits        = cfg.overwrite || !past[25];
  assign writable    = cqe_i.valid && cfg.valid && !dyn.err && fits;
  assign wants_event = cqe_i.solicited || (cqe.status != WcSuccess);
  assign meant_cqe   = (dyn.arm == CqArmNext) || (dyn.arm == CqArmSolicited && wants_event) || dyn.wait_mod;
  assign fire_cqe    = meant_cqe && (dyn.used >= 24'(moderation.more) || overrun);
  assign deliver     = (state_q == StCqe) && writable;
  assign ev_push     = (state_q == StCqe) && cqe_i.valid && !dyn.err && (!cfg.valid || overrun);

  // The CQE goes out in the cycle of its job, or waits: its job stays on the stream, the rest in registers.
  logic [7:0]  func_q;
  logic [63:0] addr, addr_q;
  logic        phase, phase_q, overrun_q;

  assign addr  = {cfg.base + 58'(slot), 6'd0};
  assign phase = !dyn.pi[cfg.log_size];

  function automatic cqe_t cqe_of(wc_t wc);
    return '{
      is_xrc: wc.is_xrc, srqn: wc.srqn, vendor_err: wc.vendor_err, dlid_path_bits: 8'(wc.dlid_path_bits), slid: wc.slid,
      pkey_index: 16'(wc.pkey_index), sl: 8'(wc.sl), wc_flags: 8'(wc.wc_flags), src_qp: 32'(wc.src_qp),
      imm_data: wc.imm_data, byte_len: wc.byte_len, qpn: 32'(wc.qpn), status: wc.status, opcode: wc.opcode,
      wqe_index: wc.wqe_index, default: '0
    };
  endfunction

  always_comb begin
    cqe           = cqe_of(cqe_i.wc);
    cqe.timestamp = now_q;
    cqe.phase     = out_valid_q ? phase_q : phase;
    if (out_valid_q ? overrun_q : overrun) cqe.status = WcGeneralErr;
  end

  assign wr_valid_o  = deliver || out_valid_q;
  assign wr_o.msix   = 1'b0;
  assign wr_o.last   = 1'b1;
  assign wr_o.func   = out_valid_q ? func_q : cfg.func;
  assign wr_o.addr   = out_valid_q ? addr_q : addr;
  assign wr_o.strb   = '1;
  assign wr_o.data   = cqe;
  assign cqe_ready_o = ((state_q == StCqe) && !writable) || (wr_valid_o && wr_ready_i);

  always_ff @(posedge clk_i) begin
    if (rst_i) out_valid_q <= 1'b0;
    else out_valid_q <= wr_valid_o && !wr_ready_i;
    if (deliver) begin
      func_q    <= cfg.func;
      addr_q    <= addr;
      phase_q   <= phase;
      overrun_q <= overrun;
    end
  end

  // ---- Doorbell ----------------------------------------------------------------------------------
  logic        db_ok, arms, none, sol_none, meant_db, again_db, wants_db, fire_db;
  logic [23:0] ahead, sol_ahead;

  assign cq_db_ready_o = state_q == StDb;
  assign db_ok         = cfg.valid && (cfg.func == cq_db_i.func) && !dyn.err;
  assign arms          = cq_db_i.arm == CqArmNext || cq_db_i.arm == CqArmSolicited;
  assign ahead         = dyn.pi - cq_db_i.ci;
  assign sol_ahead     = dyn.sol - cq_db_i.ci;
  hca_same #(
    .Width(24)
  ) u_none (
    .a_i   (dyn.pi),
    .b_i   (cq_db_i.ci),
    .same_o(none)
  );

  hca_same #(
    .Width(24)
  ) u_sol_none (
    .a_i   (dyn.sol),
    .b_i   (cq_db_i.ci),
    .same_o(sol_none)
  );

  // ahead > more, in one chain: of pi - ci - more - 1 as a number with a sign, around if ci is beyond pi.
  logic [25:0] less, minus_ci, minus_more;
  logic [24:0] carries;
  logic        around, beyond, unused_less;

  assign minus_ci    = {2'b11, ~cq_db_i.ci};
  assign minus_more  = {10'h3ff, ~moderation.more};
  assign carries     = (25'(dyn.pi) & minus_ci[24:0]) | (25'(dyn.pi) & minus_more[24:0])
                       | (minus_ci[24:0] & minus_more[24:0]);
  assign less        = (26'(dyn.pi) ^ minus_ci ^ minus_more) + {carries, 1'b1};
  assign unused_less = ^less[23:0];
  assign around      = dyn.pi < cq_db_i.ci;
  assign beyond      = around ? less[24] : !less[25];
  // A CQE that the host has not seen yet fires at once: it would otherwise wait for an event that came
  // before the arming.
  assign meant_db      = (cq_db_i.arm == CqArmNext && !none)
                         || (cq_db_i.arm == CqArmSolicited && !sol_none && !sol_ahead[23]);
  // One that waits and whose completions the host has taken meanwhile has its event before the next one begins.
  assign again_db      = dyn.wait_mod && arms && !meant_db;
  assign wants_db      = meant_db ? beyond : dyn.wait_mod && arms;
  assign fire_db       = db_ok && wants_db;

  // ---- Moderation --------------------------------------------------------------------------------
  logic fire_time, begin_wait;

  assign fire_time  = state_q == StTime && dyn.wait_mod && cfg.valid && !dyn.err;
  assign fire       = (deliver && fire_cqe) || (state_q == StDb && fire_db) || fire_time;
  assign begin_wait = !dyn.wait_mod && ((deliver && meant_cqe && !fire_cqe)
                                        || (state_q == StDb && db_ok && meant_db && !wants_db));

  hca_cq_timers u_timers (
    .clk_i,
    .rst_i,
    .now_i,
    .set_i    (fresh || fire || state_q == StTime || (state_q != StIdle && !dyn.wait_mod)),   // off again does no harm
    .set_on_i (begin_wait),
    .set_cqn_i(fresh ? cqc_wr_cqn_i : cqn_q),
    .cycles_i (moderation.cycles),
    .valid_o  (time_valid),
    .ready_i  (pick_time),
    .cqn_o    (time_cqn),
    .active_o,
    .wake_at_o
  );

  // What each job makes of the queue, whether it is done or not: that is known last.
  dyn_t by_cqe, by_db;

  always_comb begin
    by_cqe          = dyn;
    by_cqe.pi       = dyn.pi + 1'b1;
    by_cqe.used     = dyn.used + 1'b1;
    by_cqe.err      = overrun || !writable;   // and then only what is owed counts
    by_cqe.wait_mod = meant_cqe && !fire_cqe;
    if (wants_event) by_cqe.sol = dyn.pi + 1'b1;
    if (fire_cqe) by_cqe.arm = CqArmNone;
    if (fire_cqe && writable) by_cqe.owed = 1'b1;
    by_db          = dyn;
    by_db.used     = ahead;
    by_db.wait_mod = (meant_db || dyn.wait_mod) && !wants_db;
    if (wants_db && !again_db) by_db.arm = CqArmNone;
    else if (arms) by_db.arm = cq_db_i.arm;
    if (wants_db) by_db.owed = 1'b1;
  end

  always_comb begin
    dyn_d  = dyn;
    dyn_we = 1'b0;
    unique case (state_q)
      StCqe: begin
        dyn_we = writable || (ev_push && ev_room);
        dyn_d  = by_cqe;
      end
      StDb: begin
        dyn_we = db_ok;
        dyn_d  = by_db;
      end
      StOwed: begin
        dyn_we     = dyn.owed && cfg.valid;
        dyn_d.owed = 1'b0;
      end
      StFull: begin
        dyn_we     = park || again;
        dyn_d.owed = 1'b1;
      end
      default: begin
        dyn_we         = fire_time;
        dyn_d.arm      = CqArmNone;
        dyn_d.owed     = 1'b1;
        dyn_d.wait_mod = 1'b0;
      end
    endcase
  end

  // ---- Control -----------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q      <= StIdle;
      db_first_q   <= 1'b0;
      bad_db_cnt_o <= '0;
    end else begin
      unique case (state_q)
        StIdle: begin
          if (pick_full) state_q <= StFull;
          else if (pick_time) state_q <= StTime;
          else if (pick_owed) state_q <= StOwed;
          else if (pick_db) state_q <= StDb;
          else if (pick_cqe) state_q <= StCqe;
          if (pick_db || pick_cqe) db_first_q <= pick_cqe;
        end
        default: state_q <= StIdle;
      endcase
      if (state_q == StDb && (!cfg.valid || cfg.func != cq_db_i.func)) bad_db_cnt_o <= bad_db_cnt_o + 1'b1;
    end
  end

  // ---- Completion events ---------------------------------------------------------------------------
  // A queue is in u_events once, however often it fires before its event leaves: the event that comes then is about
  // all of it.
  logic [EqW-1:0] eqe_eqn_q;

  // An event queue that was read since the answer came has room by now, perhaps: then the event is tried again at once.
  logic room_q;
  assign again = state_q == StFull && !dyn.owed && cfg.valid && (room_q || eq_room_i);
  assign park  = state_q == StFull && !dyn.owed && cfg.valid && !again && park_ready;
  always_ff @(posedge clk_i) room_q <= full_valid_q && (room_q || eq_room_i);

  hca_cq_events u_events (
    .clk_i,
    .rst_i,
    .add_i       ((fire && !dyn.owed) || again),
    .add_cqn_i   (cqn_q),
    .add_ready_o (event_room),
    .park_i      (park),
    .park_cqn_i  (cqn_q),
    .park_ready_o(park_ready),
    .room_i      (eq_room_i),
    .valid_o     (owed_valid),
    .ready_i     (pick_owed),
    .cqn_o       (owed_cqn)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      eqe_valid_o  <= 1'b0;
      full_valid_q <= 1'b0;
    end else begin
      if (state_q == StOwed) eqe_valid_o <= dyn.owed && cfg.valid;
      else if (eqe_ready_i) eqe_valid_o <= 1'b0;
      if (eqe_valid_o && eqe_ready_i) full_valid_q <= eqe_full_i;
      else if (state_q == StFull) full_valid_q <= 1'b0;
    end
    if (state_q == StOwed) eqe_eqn_q <= cfg.eqn;
    if (eqe_valid_o) full_cqn_q <= owed_cqn_q;
  end

  assign eqe_o = '{eqn: eqe_eqn_q, kind: EventCompletion, id: 32'(owed_cqn_q), data0: '0, data1: '0};

  // ---- CQ_ERROR events ---------------------------------------------------------------------------
  typedef struct packed {
    logic [7:0]     func;
    logic [7:0]     cause;
    logic [CqW-1:0] cqn;
  } err_ev_t;

  err_ev_t   err_in_q, err_out;
  logic      err_push_q;
  hw_event_t ev;

  // It is in the FIFO before the next job asks for room.
  always_ff @(posedge clk_i) begin
    err_push_q <= !rst_i && ev_push && ev_room;
    err_in_q   <= '{func: cfg.func, cause: cfg.valid ? CauseOverflow : CauseNotValid, cqn: cqe_i.cqn};
  end

  hca_fifo #(
    .Width($bits(err_ev_t)),
    .Depth(NumCqs)
  ) u_err_fifo (
    .clk_i,
    .rst_i,
    .in_valid_i (err_push_q),
    .in_ready_o (ev_room),
    .in_i       (err_in_q),
    .out_valid_o(ev_valid_o),
    .out_ready_i(ev_ready_i),
    .out_o      (err_out),
    .count_o    ()
  );

  assign ev   = '{cause: 32'(err_out.cause), id: 32'(err_out.cqn), reserved0: '0, func: err_out.func,
                  kind: HwEventCqError};
  assign ev_o = ev;

  logic unused_bits;
  assign unused_bits = ^{cqc_wr_i, cqe.timestamp, past[24:0], sol_ahead[22:0]};

endmodule
