// Whether a number is the one behind another, around, told by a carry as hca_same does, and without an adder in front:
// a bit of the sum has changed exactly where the one below was 1 and has become 0. Two bits to a LUT of hca_same, with
// the ones below.
module hca_next #(
  parameter  int unsigned Width  = 32,
  localparam int unsigned Groups = (Width + 1) / 2
) (
  input  logic [Width-1:0] a_i,
  input  logic [Width-1:0] b_i,
  output logic             next_o   // b_i is a_i + 1
);

  logic [Width-1:0]       wrong;
  logic [2*Groups-1:0]    pairs;
  logic [Groups-1:0][2:0] groups;

  assign wrong = a_i ^ b_i ^ {a_i[Width-2:0] & ~b_i[Width-2:0], 1'b1};
  assign pairs = (2 * Groups)'(wrong);
  for (genvar g = 0; g < int'(Groups); g++) begin : gen_group
    assign groups[g] = {1'b0, pairs[2*g +: 2]};
  end

  hca_same #(
    .Width(3 * Groups)
  ) u_same (
    .a_i   (groups),
    .b_i   ('0),
    .same_o(next_o)
  );

endmodule
