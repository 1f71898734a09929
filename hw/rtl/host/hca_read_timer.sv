// The clock of reads that the host may never answer: a tick every 2^Log2 cycles of the card's time while a read is
// under way. A read ends between one and two periods after it began (hca_dma_rd_age): with 2^22 cycles of 4 ns, between
// 16.8 and 33.6 ms, PCI Express' completion time-out of "16 to 55 ms".
module hca_read_timer #(
  parameter int unsigned Clients = 4,
  parameter int unsigned Log2    = 22
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic [63:0]        now_i,
  input  logic [Clients-1:0] busy_i,
  output logic               tick_o,
  output logic               active_o,      // a read is under way
  output logic [63:0]        wake_at_o      // the cycle of the next tick
);

  logic [63-Log2:0] period_q;   // of the next tick; a cycle old

  assign active_o  = busy_i != '0;
  assign wake_at_o = {period_q, Log2'(0)};

  always_ff @(posedge clk_i) begin
    period_q <= now_i[63:Log2] + 1'b1;
    tick_o   <= !rst_i && active_o && now_i[Log2-1:0] == '0;
  end

endmodule
