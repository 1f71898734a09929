// QPs that want their lines, in the order in which they came: doorbells, packets that wait or were dropped, and what
// firmware wants. A dropped packet that finds no room is not known of, nor is one of the QP of the packet before, which
// waits still.
// Doorbells wait for nothing here: without room hca_doorbell takes another way. Who cannot have its line yet comes
// again from queues of its own: one of those every 8 cycles, or every 4 while no new one may go, and every 8 one of
// those for whom a line's holder is to leave.
module hca_line_queue
  import hca_pkg::*;
#(
  parameter int unsigned Depth  = 2048,  // a burst of doorbells: of those beyond firmware gives one every 28 cycles
  parameter int unsigned Again  = 512,
  parameter int unsigned Drains = 128,
  localparam int unsigned AgainW = $clog2(Again) + 1,
  localparam int unsigned DrainW = $clog2(Drains) + 1
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              db_valid_i,
  output logic              db_ready_o,
  input  line_want_t        db_i,
  input  logic              pkt_valid_i,    // strobe
  input  line_want_t        pkt_i,
  input  logic              park_valid_i,   // packets that wait: each one
  output logic              park_ready_o,
  input  line_want_t        park_i,
  input  logic              fw_valid_i,     // strobe, only with fw_room_o
  output logic              fw_room_o,
  input  line_want_t        fw_i,
  input  logic              again_valid_i,  // strobe: there is room, by the counts
  input  logic              again_drains_i,
  input  line_want_t        again_i,
  output logic [AgainW-1:0] again_count_o,
  output logic [DrainW-1:0] drain_count_o,
  input  logic              fresh_en_i,     // else only those that come again
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output logic              out_drains_o,
  output line_want_t        out_o
);

  localparam int unsigned W = $bits(line_want_t);
  localparam logic [3:0] Pace = 4'd7;
  localparam logic [3:0] Quick = 4'd4;   // left of it when the next one goes if nobody else may

  logic       pkt_q, fw_q, in_valid, in_ready, fresh_valid, again_there, drain_there, takes_again, takes_drain;
  logic       again_valid, drain_valid;
  logic [1:0] unused_ready;
  line_want_t pkt_want_q, fw_want_q, in, fresh, again, drain;
  logic [3:0] again_pace_q, drain_pace_q;
  logic       alone, again_may_q, drain_may_q, last_q, is_last, last_leaves, takes_fresh, pushes_pkt;
  logic [$clog2(Depth):0] fresh_count, fresh_less, ahead_q;

  assign fw_room_o  = !fw_q;
  assign in_valid   = fw_q || pkt_q || park_valid_i || db_valid_i;
  assign in         = fw_q ? fw_want_q : pkt_q ? pkt_want_q : db_valid_i ? db_i : park_i;
  assign db_ready_o   = in_ready && !fw_q && !pkt_q;
  assign park_ready_o = db_ready_o && !db_valid_i;   // it can wait

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {fw_q, pkt_q}                <= '0;
      {again_pace_q, drain_pace_q} <= '0;
      {again_may_q, drain_may_q}   <= '1;
    end else begin
      again_may_q <= !takes_again && (again_pace_q <= 4'd1 || (alone && again_pace_q <= Quick + 4'd1));
      drain_may_q <= !takes_drain && drain_pace_q <= 4'd1;
      if (fw_valid_i) fw_q <= 1'b1;
      else if (in_ready) fw_q <= 1'b0;
      if (pkt_valid_i && !is_last) pkt_q <= 1'b1;
      else if (in_ready && !fw_q) pkt_q <= 1'b0;
      if (takes_again) again_pace_q <= Pace;
      else if (again_pace_q != '0) again_pace_q <= again_pace_q - 4'd1;
      if (takes_drain) drain_pace_q <= Pace;
      else if (drain_pace_q != '0) drain_pace_q <= drain_pace_q - 4'd1;
    end
    if (fw_valid_i) fw_want_q <= fw_i;
    if (pkt_valid_i) pkt_want_q <= pkt_i;
    // The newest packet that waits, and how many are before it.
    if (pushes_pkt) ahead_q <= takes_fresh ? fresh_less : fresh_count;
    else if (takes_fresh) ahead_q <= ahead_q - 1'b1;
    if (rst_i) last_q <= 1'b0;
    else if (pkt_valid_i) last_q <= 1'b1;
    else if (last_leaves) last_q <= 1'b0;
  end

  assign fresh_less  = fresh_count - 1'b1;
  assign takes_fresh = out_ready_i && fresh_valid && fresh_en_i && !again_valid && !drain_valid;
  assign pushes_pkt  = pkt_q && in_ready && !fw_q;
  assign last_leaves = takes_fresh && !pkt_q && ahead_q == '0;
  assign is_last     = last_q && pkt_i.qpn == pkt_want_q.qpn && !last_leaves;

  hca_fifo #(.Width(W), .Depth(Depth)) u_fresh (
    .clk_i, .rst_i, .in_valid_i(in_valid), .in_ready_o(in_ready), .in_i(in), .out_valid_o(fresh_valid),
    .out_ready_i(takes_fresh), .out_o(fresh), .count_o(fresh_count)
  );
  hca_fifo #(.Width(W), .Depth(Again)) u_again (
    .clk_i, .rst_i, .in_valid_i(again_valid_i && !again_drains_i), .in_ready_o(unused_ready[0]), .in_i(again_i),
    .out_valid_o(again_there), .out_ready_i(takes_again), .out_o(again), .count_o(again_count_o)
  );
  hca_fifo #(.Width(W), .Depth(Drains)) u_drain (
    .clk_i, .rst_i, .in_valid_i(again_valid_i && again_drains_i), .in_ready_o(unused_ready[1]), .in_i(again_i),
    .out_valid_o(drain_there), .out_ready_i(takes_drain), .out_o(drain), .count_o(drain_count_o)
  );

  // Whose turn may be next is found a cycle before.
  assign alone        = !(fresh_valid && fresh_en_i);
  assign drain_valid  = drain_there && drain_may_q;
  assign again_valid  = again_there && again_may_q;
  assign takes_drain  = drain_valid && out_ready_i;
  assign takes_again  = again_valid && !drain_valid && out_ready_i;
  assign out_valid_o  = drain_valid || again_valid || (fresh_valid && fresh_en_i);
  assign out_drains_o = drain_valid;
  assign out_o        = drain_valid ? drain : again_valid ? again : fresh;

  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!again_valid_i || (again_drains_i ? unused_ready[1] : unused_ready[0]))
      else $error("hca_line_queue: one that comes again finds no room");
    if (!rst_i) assert (!fw_valid_i || fw_room_o) else $error("hca_line_queue: a wish of firmware's is overwritten");
  end
  `endif

endmodule
