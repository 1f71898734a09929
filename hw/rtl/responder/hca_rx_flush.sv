// A slice of the flush of one work queue of a QP in ERR: counts off WQEs from the oldest one towards the producer
// index, one per cycle from the second cycle on. A queue of which WQEs are left, or which went back behind a flush
// (again_*), is offered on left_*; until it is taken there is neither a next slice nor another one that goes back.
module hca_rx_flush
  import hca_pkg::*, hca_rx_pkg::*;
#(
  parameter int unsigned Slice = 8
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           start_i,
  input  flush_t         queue_i,
  input  wqe_idx_t       first_i,
  input  wqe_idx_t       pi_i,
  input  logic [4:0]     log_size_i,
  input  logic           busy_i,      // in a slice
  input  logic           ready_i,
  output logic           emit_o,      // flush WQE idx_o (and ready_i)
  output logic           done_o,      // slice over: idx_o is the oldest WQE left
  output wqe_idx_t       idx_o,
  input  logic           again_i,     // strobe
  input  flush_t         again_queue_i,
  output logic           left_valid_o,
  input  logic           left_ready_i,
  output flush_t         left_o
);

  localparam int unsigned CntW = $clog2(Slice + 1);

  wqe_idx_t        idx_q, left_q, size_q;
  logic            fresh_q;   // first cycle of a slice
  logic            some_q;    // behind it: some are left
  logic [CntW-1:0] cnt_q;

  assign done_o = busy_i && !fresh_q && (!some_q || cnt_q == CntW'(Slice));
  assign emit_o = busy_i && !fresh_q && !done_o && ready_i;
  assign idx_o  = idx_q;

  always_ff @(posedge clk_i) begin
    fresh_q <= start_i;
    if (start_i) begin
      idx_q  <= first_i;
      cnt_q  <= '0;
      left_q <= pi_i - first_i;
      size_q <= WqeIndexBits'(1) << log_size_i;
    end else if (fresh_q) begin
      if (left_q > size_q) left_q <= '0;   // a producer index outside the ring is not worth believing
      some_q <= left_q <= size_q && left_q != '0;
    end else if (emit_o) begin
      idx_q  <= idx_q + 1'b1;
      left_q <= left_q - 1'b1;
      some_q <= left_q != WqeIndexBits'(1);
      cnt_q  <= cnt_q + 1'b1;
    end
    if (rst_i) begin
      left_valid_o <= 1'b0;
    end else if (done_o) begin
      left_valid_o <= some_q;
      left_o       <= queue_i;
    end else if (again_i) begin
      left_valid_o <= 1'b1;
      left_o       <= again_queue_i;
    end else if (left_ready_i) begin
      left_valid_o <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && left_valid_o) assert (!done_o && !again_i) else $error("hca_rx_flush: a queue to flush is lost");
  end
`endif

endmodule
