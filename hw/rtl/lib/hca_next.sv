// Whether a number is the one behind another, around, told by a carry as hca_same does, and without an adder in front:
// a bit of the sum has changed exactly where the one below was 1 and has become 0.
module hca_next #(
  parameter int unsigned Width = 32
) (
  input  logic [Width-1:0] a_i,
  input  logic [Width-1:0] b_i,
  output logic             next_o   // b_i is a_i + 1
);

  logic [Width-1:0] carried;

  assign carried    = {a_i[Width-2:0] & ~b_i[Width-2:0], 1'b1};

  hca_same #(
    .Width(Width)
  ) u_same (
    .a_i   (a_i ^ b_i),
    .b_i   (carried),
    .same_o(next_o)
  );

endmodule
