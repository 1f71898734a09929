// Packet arbiter in front of the receiver: packets of the wire and looped packets, each unbroken, in turns
// when both wait. While `loop_hold_i` no looped packet begins; one that has begun goes on. No latency, one
// beat per cycle, nothing stored: who may not be stalled (the wire) needs a store in front.
module hca_rx_merge
  import hca_pkg::*;
(
  input  logic clk_i,
  input  logic rst_i,
  input  logic wire_valid_i,
  output logic wire_ready_o,
  input  mac_t wire_i,
  input  logic loop_valid_i,
  output logic loop_ready_o,
  input  mac_t loop_i,
  input  logic loop_hold_i,
  output logic out_valid_o,
  input  logic out_ready_i,
  output mac_t out_o
);

  logic locked_q;     // a packet has been offered or begun: from_loop_q says whose
  logic from_loop_q;  // the newest packet is a looped one
  logic from_loop, loop_may;

  assign loop_may  = loop_valid_i && !loop_hold_i;
  assign from_loop = locked_q ? from_loop_q : (loop_may && (!wire_valid_i || !from_loop_q));

  assign out_valid_o  = from_loop ? loop_valid_i : wire_valid_i;
  assign out_o        = from_loop ? loop_i : wire_i;
  assign wire_ready_o = out_ready_i && !from_loop;
  assign loop_ready_o = out_ready_i && from_loop;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      locked_q    <= 1'b0;
      from_loop_q <= 1'b1;  // the wire goes first
    end else if (out_valid_o) begin
      locked_q    <= !(out_ready_i && out_o.last);
      from_loop_q <= from_loop;
    end
  end

endmodule
