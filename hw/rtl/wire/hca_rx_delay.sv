// Delays received beats by the five cycles that the CRC checks and the parser take. Data waits in a small
// RAM, so only a write and a read toggle per beat. Never stalls.
module hca_rx_delay
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_i,
  input  logic     valid_i,
  input  rx_beat_t beat_i,
  input  logic     store_i,   // of beat_i, as its data in the buffer
  input  beat_t    data_i,
  output logic     valid_o,
  output logic     last_o,
  output logic     bad_o,
  output logic     store_o,
  output beat_t    data_o
);

  localparam int unsigned Cycles = 5;

  logic [Cycles-1:0] valid_q, last_q, bad_q, store_q;   // bit 0: youngest
  logic [2:0]        slot_q;

  logic unused_beat;
  assign unused_beat = ^beat_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      valid_q <= '0;
      slot_q  <= '0;
    end else begin
      valid_q <= {valid_q[Cycles-2:0], valid_i};
      if (valid_i || valid_q != '0) slot_q <= slot_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    last_q  <= {last_q[Cycles-2:0], beat_i.last};
    bad_q   <= {bad_q[Cycles-2:0], beat_i.bad};
    store_q <= {store_q[Cycles-2:0], store_i};
  end

  hca_ram_1r1w #(
    .Width(DataW),
    .Depth(8)
  ) u_data (
    .clk_i,
    .we_i   (valid_i),
    .waddr_i(slot_q),
    .wdata_i(data_i),
    .re_i   (valid_q[Cycles-2]),
    .raddr_i(slot_q - 3'(Cycles - 1)),
    .rdata_o(data_o)
  );

  assign valid_o = valid_q[Cycles-1];
  assign last_o  = last_q[Cycles-1];
  assign bad_o   = bad_q[Cycles-1];
  assign store_o = store_q[Cycles-1];

endmodule
