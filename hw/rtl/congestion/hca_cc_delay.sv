// The worked example of another algorithm: round trips alone decide, as in Swift (Kumar et al., SIGCOMM 2020) without
// its windows. One that is short enough adds a step to the rate. A longer one takes a part of it, in proportion to what
// is too much, and no more than one such cut in a period. Marks and CNPs mean nothing.
module hca_cc_delay
  import hca_pkg::*;
  import hca_cc_pkg::*;
(
  input  logic    clk_i,
  input  cc_in_t  in_i,
  output cc_out_t out_o
);

  localparam logic [CcRateW-1:0] Full = CcRateW'(CcRateFull);

  typedef struct packed {
    logic [CcRateW-1:0] rate;
    logic               cut;      // ever
    logic [31:0]        cut_at;   // tick of the last one
  } state_t;

  state_t             s, s_q, s_new;
  logic               is_long_q, may_cut_q, is_far_q, unused_in;
  logic [19:0]        over, over_q;
  logic [CcRateW+19:0] product_q;
  logic [5:0]         shift_q;
  logic [CcRateW-1:0] least, room_q, whole_q, cut_q, lower;
  logic [CcRateW:0]   higher;

  assign unused_in = ^in_i;

  always_comb begin
    s = state_t'(in_i.state[$bits(state_t)-1:0]);
    if (in_i.first) s = '{rate: Full, default: '0};
  end

  assign over = in_i.rtt - in_i.cfg.delay_target;

  always_ff @(posedge clk_i) begin
    // First cycle.
    s_q       <= s;
    is_long_q <= in_i.rtt > in_i.cfg.delay_target;
    may_cut_q <= !s.cut || in_i.tick - s.cut_at >= 32'(in_i.cfg.rate_period);
    over_q    <= over;
    shift_q   <= 6'(in_i.cfg.delay_scale) + 6'(in_i.cfg.delay_shift);
    // Second and third. What is too much counts up to 2^scale: then the cut is the whole one, without the product.
    is_far_q  <= (over_q >> in_i.cfg.delay_scale) != '0;
    whole_q   <= s_q.rate >> in_i.cfg.delay_shift;
    product_q <= (CcRateW + 20)'(s_q.rate) * (CcRateW + 20)'(over_q);
    room_q    <= s_q.rate - least;   // no rate is less
    cut_q     <= is_far_q ? whole_q : CcRateW'(product_q >> shift_q);
  end

  assign least  = CcRateW'(in_i.cfg.min_rate);
  assign lower  = (cut_q > room_q) ? least : s_q.rate - cut_q;
  assign higher = (CcRateW + 1)'(s_q.rate) + (CcRateW + 1)'(in_i.cfg.additive);

  always_comb begin
    s_new = s_q;
    if (in_i.kind == CcRtt && !is_long_q) begin
      s_new.rate = (higher > (CcRateW + 1)'(Full)) ? Full : higher[CcRateW-1:0];
    end else if (in_i.kind == CcRtt && may_cut_q) begin
      s_new.rate   = lower;
      s_new.cut    = 1'b1;
      s_new.cut_at = in_i.tick;
    end
    out_o.more  = 1'b0;
    out_o.state = CcStateW'(s_new);
    out_o.rate  = s_new.rate;
  end

endmodule
