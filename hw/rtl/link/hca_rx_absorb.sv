// Receive side of the self-loopback for a receiver that never stalls (hca_rx_wire): merges the wire, which
// cannot be stalled, with looped packets. Beats of the wire wait here while a looped packet passes; one
// begins only when all that may arrive meanwhile has room, so nothing is ever lost. A wire that fills every
// cycle holds looped packets back for as long; it is never held back by them for longer than one packet.
// Needs: a looped packet, once offered, comes without a gap (hca_loopback). Latency two cycles.
module hca_rx_absorb
  import hca_pkg::*;
(
  input  logic clk_i,
  input  logic rst_i,
  input  logic wire_valid_i,
  input  mac_t wire_i,
  input  logic loop_valid_i,
  output logic loop_ready_o,
  input  mac_t loop_i,
  output logic out_valid_o,
  output mac_t out_o
);

  localparam int unsigned Depth    = 128;
  // Beats of the largest packet this card sends: 14 + 40 + 8 + 12 + 20 + 4096 + 4 bytes.
  localparam int unsigned MaxBeats = 66;

  logic                   waiting_valid, waiting_ready, unused_ready, hold;
  logic [$clog2(Depth):0] waiting;
  mac_t                   waiting_beat;

  // One more for the beat that arrives while the decision is made.
  assign hold = waiting >= ($clog2(Depth) + 1)'(Depth - MaxBeats - 1);

  hca_fifo #(
    .Width($bits(mac_t)),
    .Depth(Depth)
  ) u_wire (
    .clk_i,
    .rst_i,
    .in_valid_i (wire_valid_i),
    .in_ready_o (unused_ready),
    .in_i       (wire_i),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_ready),
    .out_o      (waiting_beat),
    .count_o    (waiting)
  );

  hca_rx_merge u_merge (
    .clk_i,
    .rst_i,
    .wire_valid_i(waiting_valid),
    .wire_ready_o(waiting_ready),
    .wire_i      (waiting_beat),
    .loop_valid_i,
    .loop_ready_o,
    .loop_i,
    .loop_hold_i (hold),
    .out_valid_o,
    .out_ready_i (1'b1),
    .out_o
  );

endmodule
