// Joins N write streams into the one ordered write path to the host. A source keeps the path from the
// first beat of a burst to the one with `last`. An accepted beat has its place in the total order: whoever
// saw ready may raise the thing that must come later. Register stage at the output, one beat per cycle.
module hca_dma_wr_mux
  import hca_pkg::*;
#(
  parameter int unsigned N = 4
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic [N-1:0]    wr_valid_i,
  output logic [N-1:0]    wr_ready_o,
  input  dma_wr_t [N-1:0] wr_i,
  output logic            hwr_valid_o,
  input  logic            hwr_ready_i,
  output dma_wr_t         hwr_o,
  output logic [1:0]      held_o   // accepted, and not handed on
);

  localparam int unsigned IdxW = (N > 1) ? $clog2(N) : 1;

  logic [N-1:0]    req, grant, owner_q;
  logic [IdxW-1:0] idx;
  logic            in_burst_q, sel_valid, sel_ready, take;
  dma_wr_t         sel;

  assign req        = in_burst_q ? (wr_valid_i & owner_q) : wr_valid_i;
  assign sel_valid  = |req;
  assign sel        = wr_i[idx];
  assign take       = sel_valid && sel_ready;
  assign wr_ready_o = grant & {N{sel_ready}};

  hca_rr_arb #(
    .N(N)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (req),
    .advance_i(take && sel.last),
    .grant_o  (grant),
    .idx_o    (idx)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_burst_q <= 1'b0;
      owner_q    <= '0;
    end else if (take) begin
      in_burst_q <= !sel.last;
      owner_q    <= grant;
    end
  end

  assign held_o = 2'(hwr_valid_o) + 2'(!sel_ready);

  hca_skid #(
    .Width($bits(dma_wr_t))
  ) u_skid (
    .clk_i,
    .rst_i,
    .in_valid_i (sel_valid),
    .in_ready_o (sel_ready),
    .in_i       (sel),
    .out_valid_o(hwr_valid_o),
    .out_ready_i(hwr_ready_i),
    .out_o      (hwr_o)
  );

endmodule
