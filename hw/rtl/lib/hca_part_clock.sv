// The clock of a part of the card. Synthesized it is the card's own clock. A simulator that knows that nothing in the
// part would change at an edge leaves this edge out; en_i changes only while clk_i is low.
module hca_part_clock (
  input  logic clk_i,
  input  logic en_i,
  output logic clk_o
);

`ifdef VERILATOR
  assign clk_o = clk_i & en_i;
`else
  assign clk_o = clk_i;
  logic unused_en;
  assign unused_en = en_i;
`endif

endmodule
