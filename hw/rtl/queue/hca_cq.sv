// Completion queues: writes CQEs into the rings, raises completion events of armed queues. One job at a
// time, so the state of a queue has one writer: two cycles per CQE or doorbell, one more with an event.
//
// A CQE that has no place (ring full, queue not valid) puts the queue into error: one CQ_ERROR event to
// firmware, and no further CQE until the context is written again. The receive path never waits for
// firmware: these events have a place for every queue.
module hca_cq
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [63:0]    now_i,
  // Context writes; also reset indices, arming and error of the queue, unless the row says to keep them: then the next
  // CQE goes to the new ring.
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
  output logic [31:0]    bad_db_cnt_o  // doorbells of a queue that is not valid or not the function's
);

  // cause of CQ_ERROR
  localparam logic [7:0] CauseOverflow = 8'd1;
  localparam logic [7:0] CauseNotValid = 8'd2;

  typedef enum logic [2:0] {
    StIdle,
    StCqe,
    StDb,
    StOwed,
    StEqe
  } state_e;

  typedef struct packed {
    logic           valid;
    logic [7:0]     func;
    logic [63:0]    base;
    logic [4:0]     log_size;
    logic [EqW-1:0] eqn;
  } cfg_t;

  typedef struct packed {
    logic [23:0] pi;
    logic [23:0] ci;
    logic [23:0] sol;  // index after the newest solicited (or error) CQE
    logic [1:0]  arm;  // cq_arm_e
    logic        err;
    logic        owed; // an event found its queue full: it comes when there is room
  } dyn_t;

  state_e         state_q;
  logic           db_first_q;  // whose turn it is when both wait
  logic           pick_db, pick_cqe, pick_owed;
  logic [63:0]    now_q;
  logic [EqW-1:0] eqe_eqn_q;
  logic [CqW-1:0] cqn, eqe_cqn_q;

  // ---- State RAMs --------------------------------------------------------------------------------
  cfg_t cfg, cfg_new;
  dyn_t dyn, dyn_d, dyn_last_q;  // dyn_last_q: written last
  logic dyn_we, init;

  assign cqc_wr_ready_o = state_q == StIdle;
  assign init           = cqc_wr_valid_i && cqc_wr_ready_o;
  assign cfg_new        = '{valid: cqc_wr_i.valid && (cqc_wr_i.log_size <= 5'(MaxLogCqSize)),
                            func: cqc_wr_i.func, base: cqc_wr_i.base, log_size: cqc_wr_i.log_size,
                            eqn: cqc_wr_i.eqn[EqW-1:0]};

  // ---- Events that found no room: every queue once, another try each when an event queue has been read ----------
  logic           owed_valid, owed_ready, owe, owed_first_q;
  logic [CqW-1:0] owed_cqn, owed_cqn_q;
  logic [$clog2(NumCqs):0] owed_count, tries_q;

  assign owe       = state_q == StEqe && eqe_ready_i && eqe_full_i && !dyn_last_q.owed && owed_ready;
  assign pick_owed = (state_q == StIdle) && !init && owed_valid && tries_q != '0
                     && (owed_first_q || !(cq_db_valid_i || cqe_valid_i));

  hca_fifo #(
    .Width(CqW),
    .Depth(NumCqs)
  ) u_owed (
    .clk_i,
    .rst_i,
    .in_valid_i (owe),
    .in_ready_o (owed_ready),
    .in_i       (eqe_cqn_q),
    .out_valid_o(owed_valid),
    .out_ready_i(pick_owed),
    .out_o      (owed_cqn),
    .count_o    (owed_count)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) tries_q <= '0;
    else if (eq_room_i) tries_q <= owed_count;
    else if (pick_owed) tries_q <= tries_q - 1'b1;
    if (pick_owed) owed_cqn_q <= owed_cqn;
    if (pick_db || pick_cqe || pick_owed) owed_first_q <= !pick_owed;
    if (dyn_we) dyn_last_q <= dyn_d;
  end

  assign pick_db  = (state_q == StIdle) && !init && !pick_owed && cq_db_valid_i && (db_first_q || !cqe_valid_i);
  assign pick_cqe = (state_q == StIdle) && !init && !pick_owed && cqe_valid_i && !pick_db;

  // The chosen stream stays valid until the job is done, so its payload needs no register here.
  always_comb begin
    cqn = (pick_db || state_q == StDb) ? cq_db_i.cqn : cqe_i.cqn;
    if (pick_owed) cqn = owed_cqn;
    if (state_q == StOwed) cqn = owed_cqn_q;
    if (state_q == StEqe) cqn = eqe_cqn_q;
  end

  hca_ram_1r1w #(
    .Width($bits(cfg_t)),
    .Depth(NumCqs)
  ) u_cfg (
    .clk_i,
    .we_i   (init),
    .waddr_i(cqc_wr_cqn_i),
    .wdata_i(cfg_new),
    .re_i   (pick_db || pick_cqe || pick_owed),
    .raddr_i(cqn),
    .rdata_o(cfg)
  );

  hca_ram_1r1w #(
    .Width($bits(dyn_t)),
    .Depth(NumCqs)
  ) u_dyn (
    .clk_i,
    .we_i   ((init && !cqc_wr_i.keep) || dyn_we),
    .waddr_i(init ? cqc_wr_cqn_i : cqn),
    .wdata_i(init ? '0 : dyn_d),
    .re_i   (pick_db || pick_cqe || pick_owed),
    .raddr_i(cqn),
    .rdata_o(dyn)
  );

  // ---- CQE ---------------------------------------------------------------------------------------
  logic [23:0] size, used, slot;
  logic        writable, overrun, wants_event, fire_cqe, deliver, ev_push, ev_room;
  cqe_t        cqe;

  assign size        = 24'd1 << cfg.log_size;
  assign used        = dyn.pi - dyn.ci;
  assign slot        = dyn.pi & (size - 24'd1);
  // The last free entry takes the completion for which there is no room, as an error: nobody misses it (V-57).
  assign overrun     = used == size - 24'd1;
  assign writable    = cqe_i.valid && cfg.valid && !dyn.err && (used < size) && (ev_room || !overrun);
  assign wants_event = cqe_i.solicited || (cqe.status != WcSuccess);
  assign fire_cqe    = (dyn.arm == CqArmNext) || (dyn.arm == CqArmSolicited && wants_event);
  assign deliver     = (state_q == StCqe) && writable && wr_ready_i;
  assign ev_push     = (deliver && overrun) || ((state_q == StCqe) && cqe_i.valid && !writable && !dyn.err);

  always_comb begin
    cqe           = cqe_i.cqe;
    cqe.timestamp = now_q;
    cqe.phase     = !dyn.pi[cfg.log_size];
    cqe.reserved1 = '0;
    if (overrun) cqe.status = WcGeneralErr;
  end

  assign wr_valid_o  = (state_q == StCqe) && writable;
  assign wr_o.msix   = 1'b0;
  assign wr_o.last   = 1'b1;
  assign wr_o.func   = cfg.func;
  assign wr_o.addr   = {cfg.base[63:6], 6'd0} + {34'd0, slot, 6'd0};
  assign wr_o.strb   = '1;
  assign wr_o.data   = cqe;
  assign cqe_ready_o = (state_q == StCqe) && (!writable || wr_ready_i);

  // ---- Doorbell ----------------------------------------------------------------------------------
  logic        db_ok, fire_db;
  logic [23:0] sol_ahead;

  assign cq_db_ready_o = state_q == StDb;
  assign db_ok         = cfg.valid && (cfg.func == cq_db_i.func) && !dyn.err;
  assign sol_ahead     = dyn.sol - cq_db_i.ci;
  // A CQE that the host has not seen yet fires at once: it would otherwise wait for an event that came
  // before the arming.
  assign fire_db       = db_ok && ((cq_db_i.arm == CqArmNext && dyn.pi != cq_db_i.ci)
                                   || (cq_db_i.arm == CqArmSolicited && sol_ahead != '0 && !sol_ahead[23]));

  always_comb begin
    dyn_d  = dyn;
    dyn_we = 1'b0;
    if (state_q == StDb) begin
      dyn_we   = db_ok;
      dyn_d.ci = cq_db_i.ci;
      if (fire_db) dyn_d.arm = CqArmNone;
      else if (cq_db_i.arm == CqArmNext || cq_db_i.arm == CqArmSolicited) dyn_d.arm = cq_db_i.arm;
    end else if (deliver) begin
      dyn_we   = 1'b1;
      dyn_d.pi = dyn.pi + 1'b1;
      if (wants_event) dyn_d.sol = dyn.pi + 1'b1;
      if (fire_cqe) dyn_d.arm = CqArmNone;
      dyn_d.err = overrun;
    end else if (ev_push && ev_room) begin
      dyn_we    = 1'b1;
      dyn_d.err = 1'b1;
    end else if (state_q == StOwed) begin
      dyn_we     = dyn.owed && cfg.valid;
      dyn_d.owed = 1'b0;
    end else if (owe) begin
      dyn_we     = 1'b1;
      dyn_d      = dyn_last_q;
      dyn_d.owed = 1'b1;
    end
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
          if (pick_db) state_q <= StDb;
          else if (pick_cqe) state_q <= StCqe;
          else if (pick_owed) state_q <= StOwed;
          if (pick_db || pick_cqe) db_first_q <= pick_cqe;
        end
        StCqe: if (cqe_ready_o) state_q <= (deliver && fire_cqe) ? StEqe : StIdle;
        StDb: begin
          state_q <= fire_db ? StEqe : StIdle;
          if (!cfg.valid || cfg.func != cq_db_i.func) bad_db_cnt_o <= bad_db_cnt_o + 1'b1;
        end
        StOwed:  state_q <= (dyn.owed && cfg.valid) ? StEqe : StIdle;
        StEqe:   if (eqe_ready_i) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (pick_cqe) now_q <= now_i;
    if (state_q == StCqe || state_q == StDb || state_q == StOwed) begin
      eqe_eqn_q <= cfg.eqn;
      eqe_cqn_q <= cqn;
    end
  end

  assign eqe_valid_o = state_q == StEqe;
  assign eqe_o       = '{eqn: eqe_eqn_q, kind: EventCompletion, id: 32'(eqe_cqn_q), data0: '0, data1: '0};

  // ---- CQ_ERROR events ---------------------------------------------------------------------------
  typedef struct packed {
    logic [7:0]     func;
    logic [7:0]     cause;
    logic [CqW-1:0] cqn;
  } err_ev_t;

  err_ev_t   err_in, err_out;
  hw_event_t ev;

  assign err_in = '{func: cfg.func, cause: cfg.valid ? CauseOverflow : CauseNotValid, cqn: cqe_i.cqn};

  hca_fifo #(
    .Width($bits(err_ev_t)),
    .Depth(NumCqs)
  ) u_err_fifo (
    .clk_i,
    .rst_i,
    .in_valid_i (ev_push),
    .in_ready_o (ev_room),
    .in_i       (err_in),
    .out_valid_o(ev_valid_o),
    .out_ready_i(ev_ready_i),
    .out_o      (err_out),
    .count_o    ()
  );

  assign ev   = '{cause: 32'(err_out.cause), id: 32'(err_out.cqn), reserved0: '0, func: err_out.func,
                  kind: HwEventCqError};
  assign ev_o = ev;

  logic unused_bits;
  assign unused_bits = ^{cqc_wr_i, cqe.timestamp};

endmodule
