// What a datagram needs besides what every packet does: the slot in which its WQE waits for the header stage, and the
// lane that this WQE names. look_i: its first block is at block_i (for a cycle); judged_i, check_i: until it is decided
// whether it may leave (shut_o); made_i: it does.
//
// A slot counts as used until its datagram has left (av_left_i). One that was filled in vain is filled again.
module hca_sq_datagram
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic                datagram_i,  // of the QP whose turn it is
  input  tx_path_t            path_i,      // of its context
  input  logic                ib_i,        // personality of its port
  input  logic                look_i,
  input  beat_t               block_i,
  input  logic                judged_i,
  input  logic                check_i,
  input  logic                made_i,
  input  logic [NumLanes-1:0] sl_open_i,
  output av_wr_t              av_wr_o,
  input  logic                av_left_i,
  output logic [AvSlotW-1:0]  av_slot_o,
  output logic                shut_o,      // its lane is, or there is no slot
  output tx_path_t            path_o,      // of the packet, a datagram or not
  // The emitter's slot waits for that lane from now on; behind the datagram for the lane of the context again.
  output logic                move_o,
  output logic [LaneW-1:0]    move_sl_o
);

  logic [AvSlotW-1:0] next_q;
  logic [AvSlotW:0]   used_q;
  logic               full_q;
  tx_path_t           path_q;

  assign av_slot_o = next_q;
  assign av_wr_o   = '{valid: look_i && datagram_i && !full_q, slot: next_q, port: PortW'(path_i.sl >> 4),
                       wqe: block_i};
  assign path_o    = datagram_i ? path_q : path_i;
  assign shut_o    = datagram_i && (full_q || !sl_open_i[path_q.sl]);
  assign move_o    = (check_i && shut_o && !full_q) || made_i;
  assign move_sl_o = made_i ? path_i.sl : path_q.sl;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      next_q <= '0;
      used_q <= '0;
      full_q <= 1'b0;
    end else begin
      next_q <= next_q + AvSlotW'(made_i);
      used_q <= used_q + (AvSlotW + 1)'(made_i) - (AvSlotW + 1)'(av_left_i);
      // The same from the look to the packet. The count is two datagrams late at most.
      if (!look_i && !judged_i) full_q <= used_q >= (AvSlotW + 1)'(AvSlots - 2);
    end
    if (look_i) path_q <= datagram_path(path_i, ib_i, block_i);
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!made_i || used_q < (AvSlotW + 1)'(AvSlots)) else $error("hca_sq_datagram: a slot twice");
    if (!rst_i) assert (!av_left_i || used_q != '0) else $error("hca_sq_datagram: a slot came back twice");
  end
`endif

endmodule
