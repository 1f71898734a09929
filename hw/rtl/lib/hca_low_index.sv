// The lowest bit that is set: alone, and its number. A carry chain finds it and a reduction per bit of the number names
// it; the carry out of the top says that there is none. Combinational; without a bit the number is 0.
module hca_low_index #(
  parameter int unsigned N = 2,
  localparam int unsigned IdxW = (N > 1) ? $clog2(N) : 1
) (
  input  logic [N-1:0]    bits_i,
  output logic            none_o,
  output logic [N-1:0]    onehot_o,
  output logic [N-1:0]    above_o,   // all places above it, whatever is in them; none if there is no bit
  output logic [IdxW-1:0] idx_o
);

  logic [N:0] negated;

  assign negated  = {1'b0, ~bits_i} + 1'b1;
  assign none_o   = negated[N];
  assign onehot_o = bits_i & negated[N-1:0];
  // Below the lowest bit both have zeros, above it they are contrary.
  assign above_o  = bits_i ^ negated[N-1:0];

  hca_onehot_index #(
    .N(N)
  ) u_index (
    .onehot_i(onehot_o),
    .idx_o
  );

endmodule
