// What a rate makes of the time since `since_i`: bytes_o, as fine as rates are, for inputs of two cycles before. A long
// time counts as 2^22 cycles, 17 ms, in which CcRateMin has paid any debt.
module hca_cc_drain
  import hca_pkg::*;
(
  input  logic               clk_i,
  input  logic               en_i,         // the inputs count: at rest nothing here follows the time
  input  logic [31:0]        now_i,
  input  logic [31:0]        since_i,
  input  logic [CcRateW-1:0] rate_i,
  output logic [CcDebtW-1:0] bytes_o,
  output logic               over_o        // and more than any debt
);

  localparam int unsigned TimeW = 22;
  localparam int unsigned ProdW = TimeW + CcRateW;

  logic [31:0]        passed;
  logic [TimeW-1:0]   passed_q;
  logic [CcRateW-1:0] rate_q;
  logic [ProdW-1:0]   product_q;

  assign passed = en_i ? now_i - since_i : '0;

  always_ff @(posedge clk_i) begin
    if (en_i) begin
      passed_q <= (passed[31:TimeW] != '0) ? '1 : passed[TimeW-1:0];
      rate_q   <= rate_i;
    end
    product_q <= ProdW'(passed_q) * ProdW'(rate_q);
  end

  assign bytes_o = product_q[CcDebtW-1:0];
  assign over_o  = product_q[ProdW-1:CcDebtW] != '0;

endmodule
