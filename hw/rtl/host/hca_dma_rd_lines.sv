// DMA read ports of clients that read lines of 64 bytes, eight at a time each. Their answers are in one RAM: it takes
// what comes, a beat a cycle at most for all of them together, and gives out one a cycle, in turns; one client has a
// beat in every second cycle at most, for whose turn it is, is known a cycle before. Each has its own order and its own
// output register, so none waits for another one's reads.
module hca_dma_rd_lines
  import hca_pkg::*;
#(
  parameter int unsigned Clients = 4,
  parameter int unsigned Tags    = 8
) (
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  logic                      tick_i,
  output logic [Clients-1:0]        busy_o,
  input  logic [Clients-1:0]        req_valid_i,
  output logic [Clients-1:0]        req_ready_o,
  input  dma_rd_req_t [Clients-1:0] req_i,
  output logic [Clients-1:0]        rsp_valid_o,
  input  logic [Clients-1:0]        rsp_ready_i,
  output dma_rd_rsp_t [Clients-1:0] rsp_o,
  // To and from hca_dma_rd_mux.
  output logic [Clients-1:0]        mreq_valid_o,
  input  logic [Clients-1:0]        mreq_ready_i,
  output dma_rd_req_t [Clients-1:0] mreq_o,
  output logic [Clients-1:0][5:0]   mreq_tag_o,
  input  logic [Clients-1:0]        mrsp_valid_i,   // one at most
  input  logic [5:0]                mrsp_tag_i,
  input  dma_rd_rsp_t               mrsp_i
);

  localparam int unsigned TagW    = $clog2(Tags);
  localparam int unsigned ClientW = $clog2(Clients);

  logic [Clients-1:0]           we, ask, wants, grant, grant_q;
  logic [Clients-1:0][TagW-1:0] waddr, raddr;
  logic [ClientW-1:0]           writer, reader, reader_q;
  beat_t                        rows [Clients * Tags];
  beat_t                        data;

  for (genvar c = 0; c < int'(Clients); c++) begin : gen_client
    hca_dma_rd_port #(.Tags(Tags), .Bytes(DataBytes), .OwnData(1'b0)) u_port (
      .clk_i, .rst_i, .tick_i, .busy_o(busy_o[c]), .req_valid_i(req_valid_i[c]), .req_ready_o(req_ready_o[c]),
      .req_i(req_i[c]), .rsp_valid_o(rsp_valid_o[c]), .rsp_ready_i(rsp_ready_i[c]), .rsp_o(rsp_o[c]), .done_idx_o(),
      .done_strb_o(), .done_err_o(), .mreq_valid_o(mreq_valid_o[c]), .mreq_ready_i(mreq_ready_i[c]),
      .mreq_o(mreq_o[c]), .mreq_tag_o(mreq_tag_o[c]), .mrsp_valid_i(mrsp_valid_i[c]), .mrsp_tag_i, .mrsp_i,
      .data_we_o(we[c]), .data_waddr_o(waddr[c]), .data_ask_o(ask[c]), .data_raddr_o(raddr[c]),
      .data_grant_i(grant_q[c]), .data_i(data)
    );
  end

  hca_onehot_index #(.N(Clients)) u_writer (.onehot_i(we), .idx_o(writer));

  assign wants = ask & ~grant_q;

  hca_rr_arb #(.N(Clients)) u_arb (
    .clk_i, .rst_i, .req_i(wants), .advance_i(|wants), .grant_o(grant), .idx_o(reader)
  );

  assign data = rows[{reader_q, raddr[reader_q]}];

  always_ff @(posedge clk_i) begin
    grant_q  <= rst_i ? '0 : grant;
    reader_q <= reader;
    if (|we) rows[{writer, waddr[writer]}] <= mrsp_i.data;
  end

endmodule
