// DCQCN's reaction point (Zhu et al., SIGCOMM 2015, 5.2): a CNP cuts the rate by alpha / 2 and moves alpha up; time
// without CNP moves it down. Time and bytes bring the rate back: halfway to where it was for a few times, and beyond by
// steps. Timers have no clock of their own: what is due is done when a packet is made, a turn for each.
module hca_cc_dcqcn
  import hca_pkg::*;
  import hca_cc_pkg::*;
(
  input  logic    clk_i,
  input  cc_in_t  in_i,
  output cc_out_t out_o
);

  localparam logic [CcRateW-1:0] Full = CcRateW'(CcRateFull);

  typedef struct packed {
    logic [15:0]        alpha;     // of 2^16
    logic [CcRateW-1:0] rate;
    logic [CcRateW-1:0] target;
    logic [31:0]        alpha_at;  // tick of its last change
    logic [31:0]        rate_at;   // tick of the last increase by time
    logic [23:0]        bytes;     // since the last increase by bytes
    logic [4:0]         timed;     // increases since the last CNP
    logic [4:0]         counted;
  } state_t;

  if ($bits(state_t) > CcStateW) begin : gen_too_long
    $error("hca_cc_dcqcn: the state does not fit");
  end

  // ---- First cycle: the state, and what is due --------------------------------------------------------------------
  state_t      s, s_q;
  logic        alpha_due_q, time_due_q, bytes_due_q, unused_in;
  logic [24:0] sum;

  assign unused_in = ^in_i;
  assign sum       = 25'(s.bytes) + ((in_i.kind == CcSent && !in_i.again) ? 25'(in_i.bytes) : 25'd0);

  always_comb begin
    s = state_t'(in_i.state[$bits(state_t)-1:0]);
    if (in_i.first) s = '{alpha: '1, rate: Full, target: Full, alpha_at: in_i.tick, rate_at: in_i.tick, default: '0};
  end

  always_ff @(posedge clk_i) begin
    s_q         <= s;
    if (s.rate == Full) s_q.alpha <= '1;   // a QP at the full rate has forgotten: it begins anew
    s_q.bytes   <= sum[24] ? '1 : sum[23:0];
    alpha_due_q <= in_i.tick - s.alpha_at >= 32'(in_i.cfg.alpha_period);
    time_due_q  <= in_i.tick - s.rate_at >= 32'(in_i.cfg.rate_period);
    bytes_due_q <= sum >= 25'(in_i.cfg.rate_bytes);
  end

  // ---- Second: products, and counts of increases ------------------------------------------------------------------
  logic [15:0]        up_q, down_q;
  logic [CcRateW-1:0] cut_q, step_q;
  logic               by_time, grows_q;
  logic [4:0]         timed, counted, timed_q, counted_q;

  assign by_time = time_due_q;
  assign timed   = s_q.timed + 5'(by_time && s_q.timed != '1);
  assign counted = s_q.counted + 5'(!by_time && bytes_due_q && s_q.counted != '1);

  function automatic logic [CcRateW-1:0] step_of(logic [4:0] a, logic [4:0] b, link_congestion_t cfg);
    logic unused_cfg;
    unused_cfg = ^cfg;
    if (a > cfg.recovery_steps && b > cfg.recovery_steps) return CcRateW'(cfg.hyper);
    if (a > cfg.recovery_steps || b > cfg.recovery_steps) return CcRateW'(cfg.additive);
    return '0;
  endfunction

  always_ff @(posedge clk_i) begin
    cut_q     <= CcRateW'((37'(s_q.rate) * 37'(s_q.alpha)) >> 17);
    up_q      <= s_q.alpha + ((16'hffff - s_q.alpha) >> in_i.cfg.alpha_shift);
    down_q    <= s_q.alpha - (s_q.alpha >> in_i.cfg.alpha_shift);
    grows_q   <= by_time || bytes_due_q;
    timed_q   <= timed;
    counted_q <= counted;
    step_q    <= step_of(timed, counted, in_i.cfg);
  end

  // ---- Third: new rates -------------------------------------------------------------------------------------------
  logic [CcRateW-1:0] least, lower_q, target, target_q, higher_q;
  logic [CcRateW:0]   beyond;

  assign least  = CcRateW'(in_i.cfg.min_rate);
  assign beyond = (CcRateW + 1)'(s_q.target) + (CcRateW + 1)'(step_q);
  assign target = (beyond > (CcRateW + 1)'(Full)) ? Full : beyond[CcRateW-1:0];

  always_ff @(posedge clk_i) begin
    lower_q  <= (s_q.rate - cut_q < least) ? least : s_q.rate - cut_q;
    target_q <= target;
    higher_q <= CcRateW'(((CcRateW + 2)'(target) + (CcRateW + 2)'(s_q.rate) + (CcRateW + 2)'(1)) >> 1);
  end

  // ---- Last -------------------------------------------------------------------------------------------------------
  state_t s_new;

  always_comb begin
    s_new      = s_q;
    out_o.more = 1'b0;
    if (in_i.kind == CcCnp) begin
      s_new = '{alpha: up_q, rate: lower_q, target: s_q.rate, alpha_at: in_i.tick, rate_at: in_i.tick, default: '0};
    end else if (in_i.kind == CcSent) begin
      out_o.more = alpha_due_q || grows_q;
      if (alpha_due_q) begin
        s_new.alpha    = down_q;
        s_new.alpha_at = s_q.alpha_at + 32'(in_i.cfg.alpha_period);
      end
      if (grows_q) begin
        s_new.timed   = timed_q;
        s_new.counted = counted_q;
        s_new.target  = target_q;
        s_new.rate    = higher_q;
      end
      if (by_time) s_new.rate_at = s_q.rate_at + 32'(in_i.cfg.rate_period);
      else if (bytes_due_q) s_new.bytes = s_q.bytes - in_i.cfg.rate_bytes;
    end
    out_o.state = CcStateW'(s_new);
    out_o.rate  = s_new.rate;
  end

endmodule
