// Whether two numbers are the same, told by a carry: three bits of each to a LUT, all LUTs side by side, and one chain
// over them. Open synthesis strings conditions that come late along a comparison bit by bit; behind a carry they wait
// for its end alone.
module hca_same #(
  parameter  int unsigned Width  = 32,
  localparam int unsigned Groups = (Width + 2) / 3
) (
  input  logic [Width-1:0] a_i,
  input  logic [Width-1:0] b_i,
  output logic             same_o
);

  logic [Width-1:0]    wrong;
  logic [3*Groups-1:0] differs;
  logic [Groups-1:0]   group;
  logic [Groups:0]     more;

  assign wrong   = a_i ^ b_i;
  assign differs = (3 * Groups)'(wrong);
  for (genvar g = 0; g < int'(Groups); g++) begin : gen_group
    assign group[g] = differs[3*g +: 3] == '0;
  end
  // One more than all ones is beyond the top. (One less than nothing is, too, but takes a LUT in front of the chain:
  // there a cell's data is not its select.)
  assign more   = {1'b0, group} + 1'b1;
  assign same_o = more[Groups];

  logic unused_more;
  assign unused_more = ^more[Groups-1:0];

endmodule
