// The clock of reads that the host may never answer: a tick every 2^Log2 cycles of the card's time while a read is
// under way. A read ends between one and two periods after it began (hca_dma_rd_age): with 2^22 cycles of 4 ns, between
// 16.8 and 33.6 ms, PCI Express' completion time-out of "16 to 55 ms".
//
// The cycle of the next tick joins that of the other timers here: nothing changes by itself before wake_at_o.
module hca_read_timer #(
  parameter int unsigned Clients = 4,
  parameter int unsigned Log2    = 22
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic [63:0]        now_i,
  input  logic [Clients-1:0] busy_i,
  output logic               tick_o,
  input  logic               timer_active_i,
  input  logic [63:0]        timer_wake_at_i,
  output logic               active_o,
  output logic [63:0]        wake_at_o
);

  logic             busy, first;
  logic [63-Log2:0] period_q;   // of the next tick; a cycle old
  logic [63:0]      tick_at;

  assign busy      = busy_i != '0;
  assign tick_at   = {period_q, Log2'(0)};
  assign first     = busy && (!timer_active_i || tick_at < timer_wake_at_i);
  assign active_o  = busy || timer_active_i;
  assign wake_at_o = first ? tick_at : timer_wake_at_i;

  always_ff @(posedge clk_i) begin
    period_q <= now_i[63:Log2] + 1'b1;
    tick_o   <= !rst_i && busy && now_i[Log2-1:0] == '0;
  end

endmodule
