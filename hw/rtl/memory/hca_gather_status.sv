// Says when a packet is complete: walks over the chunks in order, waits for the read of each, and gives
// one verdict per packet: XlOk, or the first error of its segments and reads. One chunk per cycle.
module hca_gather_status
  import hca_pkg::*;
#(
  parameter int unsigned Depth = 64  // chunks on their way; at least the tags of the read port
) (
  input  logic    clk_i,
  input  logic    rst_i,
  // One mark per chunk, when its read (if any) was issued.
  input  logic    mark_valid_i,
  output logic    mark_ready_o,
  input  logic    mark_is_read_i,
  input  logic    mark_pkt_last_i,
  input  xl_err_e mark_err_i,
  // Reads completed, in order (hca_dma_rd_port).
  input  logic    done_strb_i,
  input  logic    done_err_i,
  output logic    status_valid_o,
  input  logic    status_ready_i,
  output xl_err_e status_o
);

  localparam int unsigned StatusDepth = 16;

  typedef struct packed {
    logic    is_read;
    logic    pkt_last;
    xl_err_e err;
  } mark_t;

  mark_t   mark_in, mark;
  logic    mark_valid, take, done_valid, done_err, status_ready;
  xl_err_e chunk_err, err_q, err;

  assign mark_in = '{is_read: mark_is_read_i, pkt_last: mark_pkt_last_i, err: mark_err_i};

  hca_fifo #(
    .Width($bits(mark_t)),
    .Depth(Depth)
  ) u_marks (
    .clk_i,
    .rst_i,
    .in_valid_i (mark_valid_i),
    .in_ready_o (mark_ready_o),
    .in_i       (mark_in),
    .out_valid_o(mark_valid),
    .out_ready_i(take),
    .out_o      (mark),
    .count_o    ()
  );

  // Never full: a read that has completed keeps its tag until its packet has passed here.
  hca_fifo #(
    .Width(1),
    .Depth(Depth)
  ) u_done (
    .clk_i,
    .rst_i,
    .in_valid_i (done_strb_i),
    .in_ready_o (),
    .in_i       (done_err_i),
    .out_valid_o(done_valid),
    .out_ready_i(take && mark.is_read),
    .out_o      (done_err),
    .count_o    ()
  );

  assign take = mark_valid && (!mark.is_read || done_valid) && (!mark.pkt_last || status_ready);

  always_comb begin
    chunk_err = mark.err;
    if (mark.is_read && done_err) chunk_err = XlDma;
    err = (err_q != XlOk) ? err_q : chunk_err;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) err_q <= XlOk;
    else if (take) err_q <= mark.pkt_last ? XlOk : err;
  end

  logic [2:0] status_bits;

  hca_fifo #(
    .Width(3),
    .Depth(StatusDepth)
  ) u_status (
    .clk_i,
    .rst_i,
    .in_valid_i (take && mark.pkt_last),
    .in_ready_o (status_ready),
    .in_i       (err),
    .out_valid_o(status_valid_o),
    .out_ready_i(status_ready_i),
    .out_o      (status_bits),
    .count_o    ()
  );

  assign status_o = xl_err_e'(status_bits);

endmodule
