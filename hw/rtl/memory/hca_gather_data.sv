// Turns the beats of the read port into payload pieces, packet by packet as commanded: one beat per cycle,
// across chunks and packets. A chunk without a read costs one cycle. Dropped packets are drained here.
module hca_gather_data
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  // Chunks in order of issue.
  input  logic        piece_valid_i,
  output logic        piece_ready_o,
  input  logic        piece_is_read_i,
  input  logic        piece_pkt_last_i,
  input  logic [5:0]  piece_lane_i,
  input  logic [9:0]  piece_bytes_i,
  input  logic        piece_short_i,     // its first beat is not filled to the end
  input  logic        rsp_valid_i,
  output logic        rsp_ready_o,
  input  dma_rd_rsp_t rsp_i,
  // What to do with the next packet.
  input  logic        cmd_valid_i,
  output logic        cmd_ready_o,
  input  logic        cmd_drop_i,
  input  logic [12:0] cmd_bytes_i,
  output logic        pay_valid_o,
  input  logic        pay_ready_i,
  output pay_t        pay_o
);

  logic        later_q;       // not the first beat of this chunk
  logic [9:0]  left_q;        // later: bytes of this chunk that have not left
  logic [12:0] pkt_done_q;    // bytes of this packet that have left
  logic        active, beat, piece_end, ends_here;
  logic [9:0]  chunk_left;
  logic [12:0] pkt_left;
  logic [6:0]  room, n;

  assign active     = cmd_valid_i && piece_valid_i;
  // 64 less the lane, bit by bit: a bit stays where it and all below it are 0, or all below it are.
  always_comb begin
    room[6] = later_q || piece_lane_i == '0;
    for (int unsigned i = 0; i < 6; i++) begin
      room[i] = !later_q && (piece_lane_i[i] ^ ((piece_lane_i & 6'((1 << i) - 1)) != '0));
    end
  end
  assign chunk_left = later_q ? left_q : piece_bytes_i;
  assign ends_here  = later_q ? left_q[9:6] == '0 : piece_short_i;
  assign n          = ends_here ? 7'(chunk_left) : room;
  // Whether the packet ends with the beat: of both that the beat may have, side by side.
  assign pkt_left   = cmd_bytes_i - pkt_done_q;

  assign pay_valid_o     = active && piece_is_read_i && rsp_valid_i && !cmd_drop_i;
  assign pay_o.last      = ends_here ? pkt_left == 13'(chunk_left) : pkt_left == 13'(room);
  assign pay_o.lane      = later_q ? '0 : piece_lane_i;
  assign pay_o.len_bytes = n;
  assign pay_o.data      = rsp_i.data;

  assign rsp_ready_o   = active && piece_is_read_i && (cmd_drop_i || pay_ready_i);
  assign beat          = rsp_valid_i && rsp_ready_o;
  assign piece_end     = active && (!piece_is_read_i || (beat && rsp_i.last));
  assign piece_ready_o = piece_end;
  assign cmd_ready_o   = piece_end && piece_pkt_last_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      later_q    <= 1'b0;
      pkt_done_q <= '0;
    end else begin
      if (piece_end) later_q <= 1'b0;
      else if (beat) later_q <= 1'b1;
      if (cmd_ready_o) pkt_done_q <= '0;
      else if (beat) pkt_done_q <= pkt_done_q + 13'(n);
    end
    if (beat) left_q <= chunk_left - 10'd64 + (later_q ? 10'd0 : 10'(piece_lane_i));
  end

  logic unused_err;
  assign unused_err = rsp_i.err;  // judged by hca_gather_status

endmodule
