// Takes packets from the sources of the gather, whole packets, round robin: first the descriptor, then
// its segments (if it has payload) up to the one with `last`. Two cycles for a packet of one segment.
module hca_gather_src
  import hca_pkg::*;
#(
  parameter int unsigned N = 2
) (
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic [N-1:0] txp_valid_i,
  output logic [N-1:0] txp_ready_o,
  input  txp_t [N-1:0] txp_i,
  input  logic [N-1:0] seg_valid_i,
  output logic [N-1:0] seg_ready_o,
  input  seg_t [N-1:0] seg_i,
  output logic         txp_valid_o,
  input  logic         txp_ready_i,
  output txp_t         txp_o,
  output logic         seg_valid_o,
  input  logic         seg_ready_i,
  output seg_t         seg_o
);

  localparam int unsigned IdxW = (N > 1) ? $clog2(N) : 1;

  logic [N-1:0]    grant;
  logic [IdxW-1:0] idx, src_q;
  logic            in_packet_q, take;

  assign txp_valid_o = !in_packet_q && (|txp_valid_i);
  assign txp_o       = txp_i[idx];
  assign take        = txp_valid_o && txp_ready_i;
  assign txp_ready_o = grant & {N{!in_packet_q && txp_ready_i}};

  hca_rr_arb #(
    .N(N)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (txp_valid_i),
    .advance_i(take),
    .grant_o  (grant),
    .idx_o    (idx)
  );

  assign seg_valid_o = in_packet_q && seg_valid_i[src_q];
  assign seg_o       = seg_i[src_q];

  always_comb begin
    seg_ready_o        = '0;
    seg_ready_o[src_q] = in_packet_q && seg_ready_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_packet_q <= 1'b0;
      src_q       <= '0;
    end else if (take) begin
      in_packet_q <= txp_o.has_payload;
      src_q       <= idx;
    end else if (seg_valid_o && seg_ready_i && seg_o.last) begin
      in_packet_q <= 1'b0;
    end
  end

endmodule
