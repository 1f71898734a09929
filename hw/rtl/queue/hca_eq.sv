// Event queues: writes EQEs into the rings and the MSI-X message behind each. One job at a time, so the
// state of a queue has one writer: three cycles per EQE, two per doorbell. While an EQE or its message waits for its
// place on the way to the host, doorbells go on; the next EQE waits.
//
// An EQE that finds its ring full (or its queue not valid) is dropped and counted, and reported to
// firmware once until the host moves the consumer index. Nothing here waits for firmware.
module hca_eq
  import hca_pkg::*;
#(
  parameter int unsigned Sources = 2
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  logic [63:0]            now_i,
  // Context writes; also reset the indices of the queue.
  input  logic                   eqc_wr_valid_i,
  output logic                   eqc_wr_ready_o,
  input  logic [EqW-1:0]         eqc_wr_eqn_i,
  input  eqc_t                   eqc_wr_i,
  input  logic [Sources-1:0]     eqe_valid_i,
  output logic [Sources-1:0]     eqe_ready_o,
  input  eqe_job_t [Sources-1:0] eqe_i,
  output logic                   eqe_full_o,   // beside ready: dropped, for its ring is full
  output logic                   room_o,       // strobe: a ring has been read
  input  logic                   eq_db_valid_i,
  output logic                   eq_db_ready_o,
  input  eq_db_t                 eq_db_i,
  output logic                   wr_valid_o,
  input  logic                   wr_ready_i,
  output dma_wr_t                wr_o,
  output logic                   ev_valid_o,
  input  logic                   ev_ready_i,
  output hw_ev_t                 ev_o,
  output logic [31:0]            drop_cnt_o,
  output logic [31:0]            bad_db_cnt_o
);

  // cause of EQ_OVERFLOW
  localparam logic [7:0] CauseFull     = 8'd1;
  localparam logic [7:0] CauseNotValid = 8'd2;

  localparam int unsigned SrcW = (Sources > 1) ? $clog2(Sources) : 1;

  typedef enum logic [1:0] {
    StIdle,
    StEqe,
    StDb
  } state_e;

  typedef struct packed {
    logic        valid;
    logic [7:0]  func;
    logic [63:0] base;
    logic [4:0]  log_size;
    logic [10:0] vector;
  } cfg_t;

  typedef struct packed {
    logic [15:0] pi;
    logic [15:0] ci;
    logic [15:0] used;      // pi - ci: kept, for it is what an EQE looks at first
    logic        reported;  // this overflow is known to firmware
  } dyn_t;

  state_e             state_q;
  logic               db_first_q;
  logic               pick_db, pick_eqe, eqe_wait;
  logic               held_q, msix_q;  // an EQE waits for its place; its message does, behind it
  logic [Sources-1:0] grant, src_q;
  logic [SrcW-1:0]    idx;
  eqe_job_t           job_q;
  logic [63:0]        now_q;
  logic [EqW-1:0]     eqn;

  // ---- State RAMs --------------------------------------------------------------------------------
  cfg_t cfg, cfg_new;
  dyn_t dyn, dyn_d;
  logic dyn_we, init;

  // Whose context is written has nothing under way; while a write waits no EQE begins.
  assign eqc_wr_ready_o = state_q == StIdle && !held_q && !msix_q;
  assign init           = eqc_wr_valid_i && eqc_wr_ready_o;
  assign cfg_new        = '{valid: eqc_wr_i.valid && (eqc_wr_i.log_size <= 5'(MaxLogEqSize)),
                            func: eqc_wr_i.func, base: eqc_wr_i.base, log_size: eqc_wr_i.log_size,
                            vector: eqc_wr_i.vector};

  assign eqe_wait = (|eqe_valid_i) && !held_q && !msix_q && !eqc_wr_valid_i;
  assign pick_db  = (state_q == StIdle) && !init && eq_db_valid_i && (db_first_q || !eqe_wait);
  assign pick_eqe = (state_q == StIdle) && !init && eqe_wait && !pick_db;

  always_comb begin
    if (state_q != StIdle) eqn = (state_q == StDb) ? eq_db_i.eqn : job_q.eqn;
    else eqn = pick_db ? eq_db_i.eqn : eqe_i[idx].eqn;
  end

  hca_rr_arb #(
    .N(Sources)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (eqe_valid_i),
    .advance_i(|(eqe_ready_o & eqe_valid_i)),
    .grant_o  (grant),
    .idx_o    (idx)
  );

  hca_ram_1r1w #(
    .Width($bits(cfg_t)),
    .Depth(NumEqs)
  ) u_cfg (
    .clk_i,
    .we_i   (init),
    .waddr_i(eqc_wr_eqn_i),
    .wdata_i(cfg_new),
    .re_i   (pick_db || pick_eqe),
    .raddr_i(eqn),
    .rdata_o(cfg)
  );

  hca_ram_1r1w #(
    .Width($bits(dyn_t)),
    .Depth(NumEqs)
  ) u_dyn (
    .clk_i,
    .we_i   (init || dyn_we),
    .waddr_i(init ? eqc_wr_eqn_i : eqn),
    .wdata_i(init ? '0 : dyn_d),
    .re_i   (pick_db || pick_eqe),
    .raddr_i(eqn),
    .rdata_o(dyn)
  );

  // ---- EQE and interrupt -------------------------------------------------------------------------
  logic [15:0] mask, slot;   // mask: of a slot's number
  logic        writable, sent, deliver, drop, ev_push, ev_room, db_ok, phase, phase_q;
  logic [7:0]  func_q;
  logic [10:0] vector_q;
  logic [63:0] addr, addr_q;
  eqe_t        eqe;

  for (genvar b = 0; b < 16; b++) begin : gen_mask
    assign mask[b] = 5'(b) < cfg.log_size;
  end
  assign slot     = dyn.pi & mask;
  assign writable = cfg.valid && (dyn.used & ~mask) == '0;
  assign sent     = wr_valid_o && wr_ready_i;   // the only look at a ready that moves with all writes (decision 0020)
  assign deliver  = (state_q == StEqe) && writable;
  assign drop     = (state_q == StEqe) && !writable;
  assign ev_push  = drop && !dyn.reported;

  always_comb begin
    eqe           = '0;
    eqe.kind      = job_q.kind;
    eqe.eqn       = 16'(job_q.eqn);
    eqe.id        = job_q.id;
    eqe.data0     = job_q.data0;
    eqe.data1     = job_q.data1;
    eqe.timestamp = now_q;
    eqe.phase     = held_q ? phase_q : phase;
  end

  assign eqe_full_o = drop && cfg.valid;
  assign room_o     = state_q == StDb && db_ok && eq_db_i.ci != dyn.ci;

  assign addr  = {cfg.base[63:6], 6'd0} + {42'd0, slot, 6'd0};
  assign phase = !dyn.pi[cfg.log_size[3:0]];

  // The job is taken off its stream with the write of its EQE (or when it is dropped).
  assign eqe_ready_o = src_q & {Sources{drop || (sent && !msix_q)}};

  assign wr_valid_o = deliver || held_q || msix_q;
  assign wr_o.msix  = msix_q;
  assign wr_o.last  = 1'b1;
  assign wr_o.func  = deliver ? cfg.func : func_q;
  assign wr_o.strb  = msix_q ? '0 : '1;
  assign wr_o.data  = msix_q ? '0 : eqe;
  assign wr_o.addr  = msix_q ? 64'(vector_q) : deliver ? addr : addr_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      held_q <= 1'b0;
      msix_q <= 1'b0;
    end else begin
      held_q <= (deliver || held_q) && !sent;
      msix_q <= msix_q ? !sent : sent;
    end
    if (deliver) begin
      func_q   <= cfg.func;
      vector_q <= cfg.vector;
      addr_q   <= addr;
      phase_q  <= phase;
    end
  end

  // ---- Doorbell ----------------------------------------------------------------------------------
  assign eq_db_ready_o = state_q == StDb;
  assign db_ok         = cfg.valid && (cfg.func == eq_db_i.func);

  always_comb begin
    dyn_d  = dyn;
    dyn_we = 1'b0;
    if (state_q == StDb) begin
      dyn_we     = db_ok;
      dyn_d.ci   = eq_db_i.ci;
      dyn_d.used = dyn.pi - eq_db_i.ci;
      if (eq_db_i.ci != dyn.ci) dyn_d.reported = 1'b0;
    end else if (deliver) begin
      dyn_we     = 1'b1;
      dyn_d.pi   = dyn.pi + 1'b1;
      dyn_d.used = dyn.used + 1'b1;
    end else if (ev_push && ev_room) begin
      dyn_we         = 1'b1;
      dyn_d.reported = 1'b1;
    end
  end

  // ---- Control -----------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q      <= StIdle;
      db_first_q   <= 1'b0;
      src_q        <= '0;
      drop_cnt_o   <= '0;
      bad_db_cnt_o <= '0;
    end else begin
      unique case (state_q)
        StIdle: begin
          if (pick_db) state_q <= StDb;
          else if (pick_eqe) state_q <= StEqe;
          if (pick_db || pick_eqe) db_first_q <= pick_eqe;
          if (pick_eqe) src_q <= grant;
        end
        StEqe: begin
          state_q <= StIdle;
          if (drop) drop_cnt_o <= drop_cnt_o + 1'b1;
        end
        StDb: begin
          state_q <= StIdle;
          if (!db_ok) bad_db_cnt_o <= bad_db_cnt_o + 1'b1;
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (pick_eqe) begin
      job_q <= eqe_i[idx];
      now_q <= now_i;
    end
  end

  // ---- EQ_OVERFLOW events ------------------------------------------------------------------------
  // No room here means the queue stays unreported, so its next drop tries again.
  typedef struct packed {
    logic [7:0]     func;
    logic [7:0]     cause;
    logic [EqW-1:0] eqn;
  } ovf_ev_t;

  ovf_ev_t   ovf_in, ovf_out;
  hw_event_t ev;

  assign ovf_in = '{func: cfg.func, cause: cfg.valid ? CauseFull : CauseNotValid, eqn: job_q.eqn};

  hca_fifo #(
    .Width($bits(ovf_ev_t)),
    .Depth(NumEqs)
  ) u_ovf_fifo (
    .clk_i,
    .rst_i,
    .in_valid_i (ev_push),
    .in_ready_o (ev_room),
    .in_i       (ovf_in),
    .out_valid_o(ev_valid_o),
    .out_ready_i(ev_ready_i),
    .out_o      (ovf_out),
    .count_o    ()
  );

  assign ev   = '{cause: 32'(ovf_out.cause), id: 32'(ovf_out.eqn), reserved0: '0, func: ovf_out.func,
                  kind: HwEventEqOverflow};
  assign ev_o = ev;

  logic unused_bits;
  assign unused_bits = ^eqc_wr_i;

endmodule
