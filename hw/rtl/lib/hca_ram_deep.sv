// A RAM as hca_ram_1r1w is, of which a bit or a few lie in each block RAM: all rows of them, so that nothing has to be
// chosen behind the blocks. For what is looked at as soon as it is read; it takes a few blocks more.
module hca_ram_deep #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 4096,
  localparam int unsigned AddrW = $clog2(Depth)
) (
  input  logic             clk_i,
  input  logic             we_i,
  input  logic [AddrW-1:0] waddr_i,
  input  logic [Width-1:0] wdata_i,
  input  logic             re_i,
  input  logic [AddrW-1:0] raddr_i,
  output logic [Width-1:0] rdata_o
);

`ifdef VERILATOR
  // One array: simulated, a slice would cost as much as the whole.
  if (1) begin : gen_ram
    hca_ram_1r1w #(.Width(Width), .Depth(Depth)) u_ram (
      .clk_i, .we_i, .waddr_i, .wdata_i, .re_i, .raddr_i, .rdata_o
    );
  end
`else
  localparam int unsigned BlockBits = 32768;
  localparam int unsigned SliceW    = (BlockBits >> AddrW) > 1 ? (BlockBits >> AddrW) : 1;

  for (genvar b = 0; b < int'(Width); b += int'(SliceW)) begin : gen_slice
    localparam int unsigned Bits = (Width - b < SliceW) ? Width - b : SliceW;
    hca_ram_1r1w #(.Width(Bits), .Depth(Depth)) u_ram (
      .clk_i, .we_i, .waddr_i, .wdata_i(wdata_i[b +: Bits]), .re_i, .raddr_i, .rdata_o(rdata_o[b +: Bits])
    );
  end
`endif

endmodule
