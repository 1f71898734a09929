// Two clients at one hca_dma_rd_port, in turn: answers come in the order of the requests. A client that does not take
// its answer holds up the other.
module hca_rd_share
  import hca_pkg::*;
#(
  parameter int unsigned Reads = 4  // under way, at least as many as the port has tags
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic [1:0]        req_valid_i,
  output logic [1:0]        req_ready_o,
  input  dma_rd_req_t [1:0] req_i,
  output logic [1:0]        rsp_valid_o,
  input  logic [1:0]        rsp_ready_i,
  output dma_rd_rsp_t       rsp_o,
  output logic              port_req_valid_o,
  input  logic              port_req_ready_i,
  output dma_rd_req_t       port_req_o,
  input  logic              port_rsp_valid_i,
  output logic              port_rsp_ready_o,
  input  dma_rd_rsp_t       port_rsp_i
);

  logic [1:0]             grant;
  logic                   idx, room, whose_valid, whose;
  logic [$clog2(Reads):0] unused_count;

  hca_rr_arb #(
    .N(2)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (req_valid_i),
    .advance_i(port_req_ready_i && room),
    .grant_o  (grant),
    .idx_o    (idx)
  );

  assign port_req_valid_o = req_valid_i != '0 && room;
  assign port_req_o       = req_i[idx];
  assign req_ready_o      = grant & {2{port_req_ready_i && room}};

  hca_fifo #(
    .Width(1),
    .Depth(Reads)
  ) u_order (
    .clk_i,
    .rst_i,
    .in_valid_i (port_req_valid_o && port_req_ready_i),
    .in_ready_o (room),
    .in_i       (idx),
    .out_valid_o(whose_valid),
    .out_ready_i(port_rsp_valid_i && port_rsp_ready_o && port_rsp_i.last),
    .out_o      (whose),
    .count_o    (unused_count)
  );

  assign rsp_valid_o      = {whose, !whose} & {2{port_rsp_valid_i && whose_valid}};
  assign rsp_o            = port_rsp_i;
  assign port_rsp_ready_o = whose_valid && rsp_ready_i[whose];

endmodule
