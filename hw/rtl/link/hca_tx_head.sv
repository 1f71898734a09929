// The two packets in front of a transmit ring, as far as the arbiter must know them. One that comes in is the head in
// the next cycle if there is no other. Each knows whether it is stale: a request of a QP that has begun another round
// since (tx_round_t), for a rewind sends everything again, and the peer takes nothing of what it sent before.
//   in_stale_i: of what came in the cycle before.
//   round_i:    a round that begins, in the cycle behind the one in which in_stale_i's table learns of it: those that
//               are here compare, those that come later are told.
// So of the packets of a QP those leave that were chosen before its round was told, and none behind them.
module hca_tx_head
  import hca_pkg::*;
  import hca_link_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_i,
  input  tx_round_t          round_i,
  input  logic               in_valid_i,
  output logic               in_ready_o,
  input  logic [PacketW-1:0] in_bytes_i,
  input  tx_round_t          in_round_i,
  input  logic               in_stale_i,
  output logic               out_valid_o,
  input  logic               out_ready_i,
  output logic [PacketW-1:0] out_bytes_o,
  output logic [BlocksW-1:0] out_blocks_o,
  output logic               out_stale_o
);

  typedef struct packed {
    tx_round_t          round;
    logic [BlocksW-1:0] blocks;
    logic [PacketW-1:0] bytes;
  } item_t;

  item_t in, head_q, next_q;
  logic  head_valid_q, next_valid_q, head_stale_q, next_stale_q, next_stale;
  logic  head_came_q, next_came_q;   // in the cycle before: in_stale_i is its
  logic  take, gone, to_head;

  function automatic logic passed(tx_round_t round, tx_round_t begins);
    return begins.valid && round.valid && round.qpn == begins.qpn && round.round != begins.round;
  endfunction

  assign in         = '{round: in_round_i, blocks: blocks_of(in_bytes_i), bytes: in_bytes_i};
  assign in_ready_o = !next_valid_q;
  assign take       = in_valid_i && in_ready_o;
  assign gone       = out_ready_i && head_valid_q;
  assign to_head    = take && (!head_valid_q || gone);
  assign next_stale = next_stale_q || (next_came_q && in_stale_i) || passed(next_q.round, round_i);

  always_ff @(posedge clk_i) begin
    if (rst_i) {head_valid_q, next_valid_q, head_came_q, next_came_q} <= '0;
    else begin
      head_valid_q <= (head_valid_q && !gone) || next_valid_q || take;
      next_valid_q <= (next_valid_q && !gone) || (take && !to_head);
      head_came_q  <= to_head;
      next_came_q  <= take && !to_head;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!head_valid_q || gone) begin
      head_q       <= next_valid_q ? next_q : in;
      head_stale_q <= next_valid_q && next_stale;
    end else head_stale_q <= out_stale_o || passed(head_q.round, round_i);
    if (take) begin
      next_q       <= in;
      next_stale_q <= 1'b0;
    end else next_stale_q <= next_stale;
  end

  assign out_valid_o  = head_valid_q;
  assign out_bytes_o  = head_q.bytes;
  assign out_blocks_o = head_q.blocks;
  assign out_stale_o  = head_stale_q || (head_came_q && in_stale_i);

endmodule
