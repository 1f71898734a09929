// WQEs that ride with their doorbell: each function has PushSlots places that its driver fills by MMIO, 64 bits at a
// time, before the doorbell that names one. Writes are always taken. A slot may be overwritten at any time: what is
// read is then as good as any WQE that a driver may write, and only of the function's own.
module hca_sq_push
  import hca_pkg::*;
(
  input  logic                clk_i,
  input  logic                wr_valid_i,
  input  push_wr_t            wr_i,
  input  logic                re_i,
  input  logic [PushRowW-1:0] row_i,    // {function, slot, block}
  output beat_t               block_o   // next cycle, held
);

  localparam int unsigned Words  = DataBytes / 8;
  localparam int unsigned WordsW = $clog2(Words);

  hca_ram_words #(
    .WordW(64),
    .Words(Words),
    .Depth(1 << PushRowW)
  ) u_slots (
    .clk_i,
    .we_i   (Words'(wr_valid_i) << wr_i.word[WordsW-1:0]),
    .waddr_i({wr_i.func, wr_i.word[PushWordW-1:WordsW]}),
    .wdata_i({Words{wr_i.data}}),
    .re_i,
    .raddr_i(row_i),
    .rdata_o(block_o)
  );

endmodule
