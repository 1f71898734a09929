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

  logic [3*Groups-1:0] differs;
  logic [Groups-1:0]   group;
  logic [Groups:0]     less;

  assign differs = (3 * Groups)'(a_i ^ b_i);
  for (genvar g = 0; g < int'(Groups); g++) begin : gen_group
    assign group[g] = differs[3*g +: 3] != '0;
  end
  // One less than nothing borrows from beyond the top.
  assign less   = {1'b0, group} - 1'b1;
  assign same_o = less[Groups];

  logic unused_less;
  assign unused_less = ^less[Groups-1:0];

endmodule
