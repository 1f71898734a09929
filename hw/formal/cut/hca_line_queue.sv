// In place of hca_line_queue in the proof of hca_lines: anybody may want a line at any time, and the queues of those
// that come again are as full as they like. What the queue itself does is proved by fv_line_queue.
module hca_line_queue
  import hca_pkg::*;
#(
  parameter int unsigned Depth  = 512,
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
  input  logic              pkt_valid_i,
  input  line_want_t        pkt_i,
  input  logic              park_valid_i,
  output logic              park_ready_o,
  input  line_want_t        park_i,
  input  logic              fw_valid_i,
  output logic              fw_room_o,
  input  line_want_t        fw_i,
  input  logic              again_valid_i,
  input  logic              again_drains_i,
  input  line_want_t        again_i,
  output logic [AgainW-1:0] again_count_o,
  output logic [DrainW-1:0] drain_count_o,
  input  logic              fresh_en_i,
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output logic              out_drains_o,
  output line_want_t        out_o
);
  assign db_ready_o    = 1'b0;
  assign park_ready_o  = 1'b0;
  assign fw_room_o     = 1'b0;
  assign again_count_o = '0;
  assign drain_count_o = DrainW'(fv_lines.drain_count_i);
  assign out_valid_o   = fv_lines.next_valid_i;
  assign out_drains_o  = fv_lines.next_drains_i;
  assign out_o         = fv_lines.next_i;
endmodule
