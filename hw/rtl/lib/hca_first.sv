// The earliest of N times, N even, of those that are valid: all are compared with each other side by side, two by two
// the earlier one is taken, and which pair's is the earliest is selected from what they were compared. Of equal ones
// the lower one. Combinational; 0 if none is valid. What is compared (order_i) is the time itself, or one less where
// that is there earlier and no other is that one with a higher number.
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

  localparam int unsigned Pairs = N / 2;

  if (N % 2 != 0) begin : gen_odd
    $error("hca_first: N must be even");
  end

  // [j][i], i < j: j is before i.
  logic [N-1:0][N-1:0] sooner;
  for (genvar j = 0; j < int'(N); j++) begin : gen_time
    for (genvar i = 0; i < int'(N); i++) begin : gen_other
      assign sooner[j][i] = (i < j) && order_i[j] < order_i[i];
    end
  end

  logic [Pairs-1:0]            some, upper, wins;   // upper: the second one of the pair
  logic [Pairs-1:0][Width-1:0] at;
  logic [Pairs-1:0][Pairs-1:0] beats;               // [q][p], p < q: q's is before p's

  always_comb begin
    for (int unsigned p = 0; p < Pairs; p++) begin
      some[p]  = valid_i[2*p] || valid_i[2*p+1];
      upper[p] = valid_i[2*p+1] && (!valid_i[2*p] || sooner[2*p+1][2*p]);
      at[p]    = upper[p] ? at_i[2*p+1] : at_i[2*p];
    end
    beats = '0;
    for (int unsigned q = 0; q < Pairs; q++) begin
      for (int unsigned p = 0; p < q; p++) begin
        beats[q][p] = upper[q] ? (upper[p] ? sooner[2*q+1][2*p+1] : sooner[2*q+1][2*p])
                               : (upper[p] ? sooner[2*q][2*p+1] : sooner[2*q][2*p]);
      end
    end
    wins = some;
    for (int unsigned q = 0; q < Pairs; q++) begin
      for (int unsigned p = 0; p < q; p++) begin
        if (some[q] && beats[q][p]) wins[p] = 1'b0;
        if (some[p] && !beats[q][p]) wins[q] = 1'b0;
      end
    end
    at_o = '0;
    for (int unsigned p = 0; p < Pairs; p++) at_o |= at[p] & {Width{wins[p]}};
  end

  assign valid_o = valid_i != '0;

endmodule
