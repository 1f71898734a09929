// Joins the DMA read ports of N clients into the host port: requests round robin through one register
// stage, responses straight to the client named by the upper tag bits. The host's tag has eight bits: the first
// three clients have 64 reads under way, the others 8. Tag = {client, 6 bits} or {3, client - 3, 3 bits}.
module hca_dma_rd_mux
  import hca_pkg::*;
#(
  parameter int unsigned N = 4
) (
  input  logic                clk_i,
  input  logic                rst_i,
  // Clients (hca_dma_rd_port).
  input  logic [N-1:0]        mreq_valid_i,
  output logic [N-1:0]        mreq_ready_o,
  input  dma_rd_req_t [N-1:0] mreq_i,
  input  logic [N-1:0][5:0]   mreq_tag_i,
  output logic [N-1:0]        mrsp_valid_o,
  output logic [5:0]          mrsp_tag_o,
  output dma_rd_rsp_t         mrsp_o,
  // Host port. Responses are never back-pressured: a client asks only for what it can store.
  output logic                hrd_req_valid_o,
  input  logic                hrd_req_ready_i,
  output dma_rd_req_t         hrd_req_o,
  output logic [7:0]          hrd_req_tag_o,
  input  logic                hrd_rsp_valid_i,
  input  logic [7:0]          hrd_rsp_tag_i,
  input  dma_rd_rsp_t         hrd_rsp_i
);

  localparam int unsigned IdxW = (N > 1) ? $clog2(N) : 1;

  localparam int unsigned Wide = 3;

  if (N < 1 || N > Wide + 8) begin : gen_bad_n
    $error("hca_dma_rd_mux: the tag has room for 1 to 11 clients");
  end

  logic [N-1:0]    grant;
  logic [IdxW-1:0] idx;
  logic            sel_valid, sel_ready;

  logic [7:0]      sel_tag;
  assign sel_tag      = (32'(idx) < Wide) ? {2'(idx), mreq_tag_i[idx]} : {2'd3, 3'(32'(idx) - Wide), mreq_tag_i[idx][2:0]};
  assign sel_valid    = |mreq_valid_i;
  assign mreq_ready_o = grant & {N{sel_ready}};

  hca_rr_arb #(
    .N(N)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (mreq_valid_i),
    .advance_i(sel_valid && sel_ready),
    .grant_o  (grant),
    .idx_o    (idx)
  );

  hca_skid #(
    .Width(8 + $bits(dma_rd_req_t))
  ) u_skid (
    .clk_i,
    .rst_i,
    .in_valid_i (sel_valid),
    .in_ready_o (sel_ready),
    .in_i       ({sel_tag, mreq_i[idx]}),
    .out_valid_o(hrd_req_valid_o),
    .out_ready_i(hrd_req_ready_i),
    .out_o      ({hrd_req_tag_o, hrd_req_o})
  );

  assign mrsp_tag_o = (hrd_rsp_tag_i[7:6] == 2'd3) ? {3'd0, hrd_rsp_tag_i[2:0]} : hrd_rsp_tag_i[5:0];
  assign mrsp_o     = hrd_rsp_i;

  always_comb begin
    for (int unsigned i = 0; i < N; i++) begin
      if (i < Wide) mrsp_valid_o[i] = hrd_rsp_valid_i && hrd_rsp_tag_i[7:6] == 2'(i);
      else mrsp_valid_o[i] = hrd_rsp_valid_i && hrd_rsp_tag_i[7:3] == {2'd3, 3'(i - Wide)};
    end
  end

endmodule
