// Joins the DMA read ports of N clients into the host port: requests round robin through one register
// stage, responses straight to the client named by the upper tag bits. The host's tag has eight bits: the first
// three clients have 64 reads under way, the last one 16, the others 8. Tag = {client, 6 bits}, or {3, 3, 4 bits} of
// the last one, or {3, client - 3, 3 bits}.
// The others take turns among themselves first, one cycle earlier, and have one turn in four together; their answers
// come one cycle later, on a bus that stands still while all others' pass.
module hca_dma_rd_mux
  import hca_pkg::*;
#(
  parameter int unsigned N = 10
) (
  input  logic                clk_i,
  input  logic                rst_i,
  // Clients (hca_dma_rd_port).
  input  logic [N-1:0]        mreq_valid_i,
  output logic [N-1:0]        mreq_ready_o,
  input  dma_rd_req_t [N-1:0] mreq_i,
  input  logic [N-1:0][5:0]   mreq_tag_i,
  output logic [N-1:0]        mrsp_valid_o,
  output logic [5:0]          mrsp_tag_o,      // of the first three
  output dma_rd_rsp_t         mrsp_o,
  output logic [5:0]          mrsp_few_tag_o,  // of the others
  output dma_rd_rsp_t         mrsp_few_o,
  // Host port. Responses are never back-pressured: a client asks only for what it can store.
  output logic                hrd_req_valid_o,
  input  logic                hrd_req_ready_i,
  output dma_rd_req_t         hrd_req_o,
  output logic [7:0]          hrd_req_tag_o,
  input  logic                hrd_rsp_valid_i,
  input  logic [7:0]          hrd_rsp_tag_i,
  input  dma_rd_rsp_t         hrd_rsp_i
);

  localparam int unsigned Wide   = 3;
  localparam int unsigned Narrow = N - Wide;

  if (N < Wide + 2 || N > Wide + 7) begin : gen_bad_n
    $error("hca_dma_rd_mux: the tag has room for 5 to 10 clients");
  end

  // ---- Those with few reads ------------------------------------------------------------------------
  typedef struct packed {
    logic [5:0]  tag;
    dma_rd_req_t req;
  } few_t;

  logic [Narrow-1:0] few_grant;
  logic              few_ready, all_valid_few, all_ready_few;
  few_t              few_in, few;

  // By the grant itself: its number would come two levels of logic later. The last one has the room of two.
  always_comb begin
    few_in = '0;
    for (int unsigned i = 0; i < Narrow - 1; i++) begin
      if (few_grant[i]) few_in = few_in | {3'(i), mreq_tag_i[Wide+i][2:0], mreq_i[Wide+i]};
    end
    if (few_grant[Narrow-1]) few_in = few_in | {2'd3, mreq_tag_i[N-1][3:0], mreq_i[N-1]};
  end
  assign mreq_ready_o[N-1:Wide] = few_grant & {Narrow{few_ready}};

  hca_rr_arb #(
    .N(Narrow)
  ) u_few_arb (
    .clk_i,
    .rst_i,
    .req_i    (mreq_valid_i[N-1:Wide]),
    .advance_i(|mreq_valid_i[N-1:Wide] && few_ready),
    .grant_o  (few_grant),
    .idx_o    ()
  );

  hca_skid #(
    .Width($bits(few_t))
  ) u_few (
    .clk_i,
    .rst_i,
    .in_valid_i (|mreq_valid_i[N-1:Wide]),
    .in_ready_o (few_ready),
    .in_i       (few_in),
    .out_valid_o(all_valid_few),
    .out_ready_i(all_ready_few),
    .out_o      (few)
  );

  // ---- All -----------------------------------------------------------------------------------------
  logic [Wide:0]        valid, grant;
  logic [Wide:0][5:0]   tag;
  dma_rd_req_t [Wide:0] req;
  logic [1:0]           idx;
  logic                 sel_valid, sel_ready;

  assign valid     = {all_valid_few, mreq_valid_i[Wide-1:0]};
  assign tag       = {few.tag, mreq_tag_i[Wide-1:0]};
  assign req       = {few.req, mreq_i[Wide-1:0]};
  assign sel_valid = |valid;
  assign {all_ready_few, mreq_ready_o[Wide-1:0]} = grant & {(Wide + 1){sel_ready}};

  hca_rr_arb #(
    .N(Wide + 1)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (valid),
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
    .in_i       ({idx, tag[idx], req[idx]}),
    .out_valid_o(hrd_req_valid_o),
    .out_ready_i(hrd_req_ready_i),
    .out_o      ({hrd_req_tag_o, hrd_req_o})
  );

  // ---- Responses -----------------------------------------------------------------------------------
  logic              few_rsp;
  logic [Wide-1:0]   wide_valid;
  logic [Narrow-1:0] few_valid_q;

  assign few_rsp    = hrd_rsp_valid_i && hrd_rsp_tag_i[7:6] == 2'd3;
  assign mrsp_tag_o = hrd_rsp_tag_i[5:0];
  assign mrsp_o     = hrd_rsp_i;

  assign mrsp_valid_o = {few_valid_q, wide_valid};

  for (genvar i = 0; i < Wide; i++) begin : gen_wide
    assign wide_valid[i] = hrd_rsp_valid_i && hrd_rsp_tag_i[7:6] == 2'(i);
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Narrow - 1; i++) few_valid_q[i] <= !rst_i && few_rsp && hrd_rsp_tag_i[5:3] == 3'(i);
    few_valid_q[Narrow-1] <= !rst_i && few_rsp && hrd_rsp_tag_i[5:4] == 2'd3;
    if (few_rsp) begin
      mrsp_few_tag_o <= {2'd0, hrd_rsp_tag_i[3:0]};
      mrsp_few_o     <= hrd_rsp_i;
    end
  end

endmodule
