// The earliest of N times, of those that are valid: all pairs are compared side by side. Of equal ones the lower one.
// Combinational; 0 if none is valid. What is compared (order_i) is the time itself, or one less where that is there
// earlier and no other is that one with a higher number.
module hca_first #(
  parameter int unsigned N     = 2,
  parameter int unsigned Width = 64
) (
  input  logic [N-1:0]            valid_i,
  input  logic [N-1:0][Width-1:0] at_i,
  input  logic [N-1:0][Width-1:0] order_i,
  output logic                    valid_o,
  output logic [Width-1:0]        at_o
);

  logic [N-1:0] first;

  for (genvar i = 0; i < int'(N); i++) begin : gen_time
    logic [N-1:0] beaten;   // by another one
    for (genvar j = 0; j < int'(N); j++) begin : gen_other
      if (i < j) begin : gen_compare
        logic sooner;   // one that is not valid is behind all that are: a bit more of the comparison
        assign sooner    = {!valid_i[j], order_i[j]} < {!valid_i[i], order_i[i]};
        assign beaten[j] = sooner;
      end else if (i == j) begin : gen_self
        assign beaten[j] = 1'b0;
      end else begin : gen_compared
        assign beaten[j] = !gen_time[j].gen_other[i].gen_compare.sooner;
      end
    end
    assign first[i] = valid_i[i] && beaten == '0;
  end

  assign valid_o = valid_i != '0;
  always_comb begin
    at_o = '0;
    for (int unsigned i = 0; i < N; i++) at_o = at_o | (at_i[i] & {Width{first[i]}});
  end

endmodule
