// QPs that want their lines, in the order in which they came: doorbells, packets that were dropped, and what firmware
// wants. A packet that finds no room is not known of. Whoever cannot have its line yet comes again from a queue of its
// own, one of them every 16 cycles. Doorbells wait for nothing here: without room_o hca_doorbell takes another way.
module hca_line_queue
  import hca_pkg::*;
#(
  parameter int unsigned Depth = 512,
  parameter int unsigned Again = 128,
  localparam int unsigned AgainW = $clog2(Again) + 1
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              db_valid_i,
  output logic              db_ready_o,
  input  line_want_t        db_i,
  input  logic              pkt_valid_i,    // strobe
  input  line_want_t        pkt_i,
  input  logic              fw_valid_i,     // strobe, only with fw_room_o
  output logic              fw_room_o,
  input  line_want_t        fw_i,
  input  logic              again_valid_i,  // strobe: there is room, by again_count_o
  input  line_want_t        again_i,
  output logic [AgainW-1:0] again_count_o,
  input  logic              fresh_en_i,     // else only those that come again
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output line_want_t        out_o
);

  localparam int unsigned W = $bits(line_want_t);

  logic       pkt_q, fw_q, in_valid, in_ready, fresh_valid, again_valid, takes_again, unused_ready;
  line_want_t pkt_want_q, fw_want_q, in, fresh, again;
  logic [3:0] pace_q;

  assign fw_room_o  = !fw_q;
  assign in_valid   = fw_q || pkt_q || db_valid_i;
  assign in         = fw_q ? fw_want_q : pkt_q ? pkt_want_q : db_i;
  assign db_ready_o = in_ready && !fw_q && !pkt_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {fw_q, pkt_q} <= '0;
      pace_q        <= '0;
    end else begin
      if (fw_valid_i) fw_q <= 1'b1;
      else if (in_ready) fw_q <= 1'b0;
      if (pkt_valid_i) pkt_q <= 1'b1;
      else if (in_ready && !fw_q) pkt_q <= 1'b0;
      if (takes_again) pace_q <= '1;
      else if (pace_q != '0) pace_q <= pace_q - 4'd1;
    end
    if (fw_valid_i) fw_want_q <= fw_i;
    if (pkt_valid_i) pkt_want_q <= pkt_i;
  end

  hca_fifo #(.Width(W), .Depth(Depth)) u_fresh (
    .clk_i, .rst_i, .in_valid_i(in_valid), .in_ready_o(in_ready), .in_i(in),
    .out_valid_o(fresh_valid), .out_ready_i(out_ready_i && fresh_en_i && !again_valid), .out_o(fresh), .count_o()
  );

  logic again_there;
  hca_fifo #(.Width(W), .Depth(Again)) u_again (
    .clk_i, .rst_i, .in_valid_i(again_valid_i), .in_ready_o(unused_ready), .in_i(again_i),
    .out_valid_o(again_there), .out_ready_i(takes_again), .out_o(again), .count_o(again_count_o)
  );

  assign again_valid = again_there && pace_q == '0;
  assign takes_again = again_valid && out_ready_i;
  assign out_valid_o = again_valid || (fresh_valid && fresh_en_i);
  assign out_o       = again_valid ? again : fresh;

endmodule
