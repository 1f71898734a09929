// Inferred block RAM like hca_ram_1r1w, but a row is written word by word: one enable per word. Never reset.
// Writers of different widths share its one write port; a second port of another width would make registers of it.
module hca_ram_words #(
  parameter int unsigned WordW = 32,
  parameter int unsigned Words = 16,
  parameter int unsigned Depth = 64,
  localparam int unsigned AddrW = (Depth > 1) ? $clog2(Depth) : 1
) (
  input  logic                        clk_i,
  input  logic [Words-1:0]            we_i,
  input  logic [AddrW-1:0]            waddr_i,
  input  logic [Words-1:0][WordW-1:0] wdata_i,
  input  logic                        re_i,
  input  logic [AddrW-1:0]            raddr_i,
  output logic [Words-1:0][WordW-1:0] rdata_o
);

  (* ram_style = "block" *) logic [Words-1:0][WordW-1:0] mem [Depth];
  logic [Words-1:0][WordW-1:0] rdata_q;

  always_ff @(posedge clk_i) begin
    for (int unsigned w = 0; w < Words; w++) begin
      if (we_i[w]) mem[waddr_i][w] <= wdata_i[w];
    end
    if (re_i) rdata_q <= mem[raddr_i];
  end

  assign rdata_o = rdata_q;

endmodule
