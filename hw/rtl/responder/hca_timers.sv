// Transport and RNR timers of all QPs: a scanner visits one QP per two cycles and compares with the state it
// saw last time. A timer starts when a change is first seen and fires when it is over: up to two sweeps
// (2 * 2 * NumQps cycles) late, never early. When a whole sweep finds nothing to wait for the scanner sleeps
// (active_o = 0) until the requester emits; the sweep after waking starts every timer afresh, because the
// clock may have jumped.
module hca_timers
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [63:0]    now_i,     // cycles of 4 ns
  input  logic           wake_i,    // strobe: something was emitted
  output logic           active_o,
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

  typedef struct packed {
    logic [1:0]        gen;
    logic [23:0]       una_psn;
    logic [StampW-1:0] stamp;
  } own_t;

  logic           active_q, cold_q, any_q, woken_q;
  logic           look_q;       // the reads of idx_q have returned
  logic [QpW-1:0] idx_q;
  tmr_ctx_t       ctx;
  tmr_st_t        st;
  own_t           own, own_new;
  logic           waiting, fresh, expired, step, own_we;
  logic [StampW-1:0] elapsed;
  logic [27:0]    rnr_cycles;
  logic           unused_now;

  assign unused_now = ^now_i[63:StampW];
  assign active_o   = active_q;
  assign mark_en_o  = active_q && !look_q;
  assign mark_qpn_o = idx_q;

  hca_ram_1r1w #(
    .Width($bits(tmr_ctx_t)),
    .Depth(NumQps)
  ) u_ctx (
    .clk_i,
    .we_i   (ctx_we_i),
    .waddr_i(wr_qpn_i),
    .wdata_i(ctx_i),
    .re_i   (mark_en_o),
    .raddr_i(idx_q),
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
    .raddr_i(idx_q),
    .rdata_o(st)
  );

  hca_ram_1r1w #(
    .Width($bits(own_t)),
    .Depth(NumQps)
  ) u_own (
    .clk_i,
    .we_i   (own_we),
    .waddr_i(idx_q),
    .wdata_i(own_new),
    .re_i   (mark_en_o),
    .raddr_i(idx_q),
    .rdata_o(own)
  );

  // ---- Judge one QP --------------------------------------------------------------------------------
  assign waiting    = ctx.live && !st.dead && (st.rnr_wait || st.una_psn != mark_psn_i);
  assign fresh      = cold_q || !waiting || own.una_psn != st.una_psn || own.gen != st.gen;
  assign elapsed    = now_i[StampW-1:0] - own.stamp;
  assign rnr_cycles = 28'(RnrTimeUs[st.rnr_code] * CyclesPerUs);
  // 4.096 us are 1024 cycles; timeout 0 never fires (REL-6, REL-7).
  assign expired    = st.rnr_wait ? elapsed >= StampW'(rnr_cycles)
                                  : (ctx.timeout != '0) && (elapsed >> (6'd10 + 6'(ctx.timeout))) != '0;

  assign msg_valid_o = look_q && !fresh && expired;
  assign {msg_o.syndrome, msg_o.status, msg_o.wqe_index} = timer_tag(st.gen, st.una_psn);
  assign msg_o.kind  = st.rnr_wait ? MsgRnrDone : MsgTimeout;
  assign msg_o.qpn   = idx_q;
  assign step        = look_q && (!msg_valid_o || msg_ready_i);
  assign own_we      = step && (fresh || msg_valid_o);
  assign own_new     = '{gen: st.gen, una_psn: st.una_psn, stamp: now_i[StampW-1:0]};

  // ---- Sweep ---------------------------------------------------------------------------------------
  logic wrap;
  assign wrap = step && (idx_q == QpW'(NumQps - 1));

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q <= 1'b0;
      cold_q   <= 1'b0;
      any_q    <= 1'b0;
      woken_q  <= 1'b0;
      look_q   <= 1'b0;
      idx_q    <= '0;
    end else if (!active_q) begin
      active_q <= wake_i;
      cold_q   <= wake_i;
      woken_q  <= wake_i;  // the mark itself is written a little later than the strobe
      any_q    <= 1'b0;
      look_q   <= 1'b0;
      idx_q    <= '0;
    end else begin
      look_q <= !look_q || !step;
      if (step) idx_q <= idx_q + 1'b1;
      if (wrap) begin
        cold_q   <= 1'b0;
        any_q    <= 1'b0;
        woken_q  <= wake_i;
        active_q <= any_q || waiting || woken_q || wake_i;
      end else begin
        if (step && waiting) any_q <= 1'b1;
        if (wake_i) woken_q <= 1'b1;
      end
    end
  end

endmodule
