// Carries out, in order, what hca_rx_ctrl decided: finds the place of each payload (hca_rx_place), has it
// translated (hca_xlate #(4096), wired beside this block between `seg` and `chunk`), moves it
// (hca_rx_mover), and then answers, completes and frees (hca_rx_end). Atomics go to hca_atomic; so that all is in
// order, a burst waits for those before it that are near. Several items are in flight, so translation latency is
// hidden. Stalls: write mux, completion unit; never hca_rx_ctrl.
module hca_rx_exec
  import hca_pkg::*, hca_features_pkg::*, hca_rx_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              qpc_wr_valid_i,
  output logic              qpc_wr_ready_o,
  input  qpc_wr_t           qpc_wr_i,
  input  logic              rxw_valid_i,
  output logic              rxw_ready_o,
  input  rxw_t              rxw_i,
  input  logic              list_valid_i,
  output logic              list_ready_o,
  input  dma_rd_rsp_t       list_i,
  output logic              seg_valid_o,
  input  logic              seg_ready_i,
  output seg_t              seg_o,
  input  logic              chunk_valid_i,
  output logic              chunk_ready_o,
  input  chunk_t            chunk_i,
  output logic              buf_re_o,
  output logic [RxBufW:0]   buf_raddr_o,
  input  beat_t             buf_rdata_i,
  output logic              buf_free_o,
  output logic [6:0]        buf_free_beats_o,
  output rx_place_t         buf_free_place_o,
  output logic              wr_valid_o,
  input  logic              wr_ready_i,
  output dma_wr_t           wr_o,
  // hca_atomic: its own reads and writes.
  output logic              at_req_valid_o,
  input  logic              at_req_ready_i,
  output dma_rd_req_t       at_req_o,
  input  logic              at_rsp_valid_i,
  output logic              at_rsp_ready_o,
  input  dma_rd_rsp_t       at_rsp_i,
  output logic              at_wr_valid_o,
  input  logic              at_wr_ready_i,
  output dma_wr_t           at_wr_o,
  output logic              rsp_valid_o,
  input  logic              rsp_ready_i,
  output rsp_job_t          rsp_o,
  output logic              cqe_valid_o,
  input  logic              cqe_ready_i,
  output cqe_job_t          cqe_o,
  output logic              err_valid_o,
  input  logic              err_ready_i,
  output pipe_msg_t         err_o,
  output logic              rd_placed_valid_o,  // a READ's data is complete
  input  logic              rd_placed_ready_i,
  output logic [QpW-1:0]    rd_placed_o,
  // Trace: strobe for every item that is over.
  output logic              ev_end_valid_o,
  output rxw_kind_e         ev_end_kind_o,
  output logic              ev_end_frees_o,
  output logic              ev_end_ok_o,       // not held back, did not fail
  output logic [11:0]       ev_end_beats_o     // write beats up to its end, modulo 4096
);

  localparam int unsigned SegDepth  = 32;  // at least MaxSge: an item's segments wait here for its record
  localparam int unsigned ItemDepth = 32;
  // All wait behind an atomic that reads memory; else behind the beats of a few.
  localparam int unsigned DoneDepth = HasAtomic ? 64 : 32;

  logic     seg_valid, seg_ready, meta_in_valid, meta_in_ready, meta_valid, meta_ready;
  logic     beat_valid, beat_ready, done_in_valid, done_in_ready, done_valid, done_ready;
  seg_t     seg;
  rx_meta_t meta_in, meta;
  dma_wr_t  beat;
  rx_done_t done_in, done;
  logic [$clog2(SegDepth):0]  unused_segs;
  logic [$clog2(ItemDepth):0] unused_metas;
  logic [$clog2(DoneDepth):0] unused_dones;
  logic       op_valid, op_ready, result_valid, result_ready, hold, burst_q, beat_waits, wrote;
  logic [11:0] beats_wrote;
  at_op_t     op;
  at_result_t result;

  hca_rx_place u_place (
    .clk_i,
    .rst_i,
    .rxw_valid_i,
    .rxw_ready_o,
    .rxw_i,
    .list_valid_i,
    .list_ready_o,
    .list_i,
    .seg_valid_o (seg_valid),
    .seg_ready_i (seg_ready),
    .seg_o       (seg),
    .meta_valid_o(meta_in_valid),
    .meta_ready_i(meta_in_ready),
    .meta_o      (meta_in)
  );

  hca_fifo #(
    .Width($bits(seg_t)),
    .Depth(SegDepth)
  ) u_segs (
    .clk_i,
    .rst_i,
    .in_valid_i (seg_valid),
    .in_ready_o (seg_ready),
    .in_i       (seg),
    .out_valid_o(seg_valid_o),
    .out_ready_i(seg_ready_i),
    .out_o      (seg_o),
    .count_o    (unused_segs)
  );

  hca_fifo #(
    .Width($bits(rx_meta_t)),
    .Depth(ItemDepth)
  ) u_metas (
    .clk_i,
    .rst_i,
    .in_valid_i (meta_in_valid),
    .in_ready_o (meta_in_ready),
    .in_i       (meta_in),
    .out_valid_o(meta_valid),
    .out_ready_i(meta_ready),
    .out_o      (meta),
    .count_o    (unused_metas)
  );

  hca_rx_mover u_mover (
    .clk_i,
    .rst_i,
    .qpc_wr_valid_i,
    .qpc_wr_ready_o,
    .qpc_wr_i,
    .meta_valid_i (meta_valid),
    .meta_ready_o (meta_ready),
    .meta_i       (meta),
    .chunk_valid_i,
    .chunk_ready_o,
    .chunk_i,
    .buf_re_o,
    .buf_raddr_o,
    .buf_rdata_i,
    .beat_valid_o (beat_valid),
    .beat_ready_i (beat_ready),
    .beat_o       (beat),
    .op_valid_o   (op_valid),
    .op_ready_i   (op_ready),
    .op_o         (op),
    .wrote_i      (beats_wrote),
    .done_valid_o (done_in_valid),
    .done_ready_i (done_in_ready),
    .done_o       (done_in)
  );

  // Its digest comes with it: hca_atomic compares it with all of its own before the burst may begin.
  at_digest_t digest;
  hca_skid #(
    .Width($bits(at_digest_t) + $bits(dma_wr_t))
  ) u_wr (
    .clk_i,
    .rst_i,
    .in_valid_i (beat_valid),
    .in_ready_o (beat_ready),
    .in_i       ({at_digest_of(beat.addr[63:8]), beat}),
    .out_valid_o(beat_waits),
    .out_ready_i(wrote),
    .out_o      ({digest, wr_o})
  );

  // A burst waits for the atomics before it that are near to it; inside a burst nothing waits, the mux waits for it.
  assign wr_valid_o = beat_waits && (burst_q || !hold);
  assign wrote      = wr_valid_o && wr_ready_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) burst_q <= 1'b0;
    else if (wrote) burst_q <= !wr_o.last;
  end

  if (HasAtomic) begin : gen_atomic
    hca_atomic u_atomic (
      .clk_i,
      .rst_i,
      .op_valid_i    (op_valid),
      .op_ready_o    (op_ready),
      .op_i          (op),
      .result_valid_o(result_valid),
      .result_ready_i(result_ready),
      .result_o      (result),
      .look_func_i   (wr_o.func),
      .look_digest_i (digest),
      .hold_o        (hold),
      .rd_req_valid_o(at_req_valid_o),
      .rd_req_ready_i(at_req_ready_i),
      .rd_req_o      (at_req_o),
      .rd_rsp_valid_i(at_rsp_valid_i),
      .rd_rsp_ready_o(at_rsp_ready_o),
      .rd_rsp_i      (at_rsp_i),
      .wr_valid_o    (at_wr_valid_o),
      .wr_ready_i    (at_wr_ready_i),
      .wr_o          (at_wr_o)
    );
  end else begin : gen_no_atomic
    // hca_resp_check lets none through.
    logic unused_atomic;
    assign unused_atomic  = ^{digest, op_valid, op, result_ready, at_req_ready_i, at_rsp_valid_i, at_rsp_i,
                              at_wr_ready_i};
    assign op_ready       = 1'b1;
    assign {result_valid, result} = '0;
    assign hold           = 1'b0;
    assign {at_req_valid_o, at_req_o} = '0;
    assign at_rsp_ready_o = 1'b1;
    assign {at_wr_valid_o, at_wr_o}   = '0;
  end

  hca_fifo #(
    .Width($bits(rx_done_t)),
    .Depth(DoneDepth)
  ) u_dones (
    .clk_i,
    .rst_i,
    .in_valid_i (done_in_valid),
    .in_ready_o (done_in_ready),
    .in_i       (done_in),
    .out_valid_o(done_valid),
    .out_ready_i(done_ready),
    .out_o      (done),
    .count_o    (unused_dones)
  );

  hca_rx_end u_end (
    .clk_i,
    .rst_i,
    .wrote_i     (wrote),
    .wrote_o     (beats_wrote),
    .result_valid_i(result_valid),
    .result_ready_o(result_ready),
    .result_i    (result),
    .done_valid_i(done_valid),
    .done_ready_o(done_ready),
    .done_i      (done),
    .rsp_valid_o,
    .rsp_ready_i,
    .rsp_o,
    .cqe_valid_o,
    .cqe_ready_i,
    .cqe_o,
    .err_valid_o,
    .err_ready_i,
    .err_o,
    .rd_placed_valid_o,
    .rd_placed_ready_i,
    .rd_placed_o,
    .buf_free_o,
    .buf_free_beats_o,
    .buf_free_place_o,
    .ended_o      (ev_end_valid_o),
    .end_kind_o   (ev_end_kind_o),
    .end_frees_o  (ev_end_frees_o),
    .end_ok_o     (ev_end_ok_o),
    .end_beats_o  (ev_end_beats_o)
  );

endmodule
