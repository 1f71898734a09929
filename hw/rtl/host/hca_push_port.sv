// The push slots' part of BAR 0: MMIO writes of a function to what hca_sq_push stores. Each is taken at once and is in
// its slot two cycles later, before a doorbell behind it reaches the requester. Only whole 64-bit words count.
module hca_push_port
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        mmio_wr_valid_i,
  input  logic [7:0]  mmio_wr_func_i,
  input  logic [15:0] mmio_wr_addr_i,
  input  logic [63:0] mmio_wr_data_i,
  input  logic [7:0]  mmio_wr_strb_i,
  output logic        wr_valid_o,
  output push_wr_t    wr_o
);

  localparam int unsigned AddrW = PushWordW + 3;

  logic here, unused_low;

  assign here = mmio_wr_valid_i && mmio_wr_addr_i[15:AddrW] == (16 - AddrW)'(PushSlotsOffset >> AddrW)
                && mmio_wr_func_i < 8'(NumFuncs) && mmio_wr_strb_i == '1;
  assign unused_low = ^mmio_wr_addr_i[2:0];

  always_ff @(posedge clk_i) begin
    wr_valid_o <= !rst_i && here;
    if (here) wr_o <= '{func: mmio_wr_func_i[FuncIdxW-1:0], word: mmio_wr_addr_i[AddrW-1:3], data: mmio_wr_data_i};
  end

endmodule
