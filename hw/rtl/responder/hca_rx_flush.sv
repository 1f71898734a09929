// Flush of one work queue of a QP in ERR: counts off the WQEs from the oldest one to the producer index, one
// per cycle, in slices. What a slice leaves over is offered as cont_* and goes on when start_i comes again.
module hca_rx_flush
  import hca_pkg::*;
#(
  parameter int unsigned Slice = 8
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           start_i,
  input  logic           drop_i,      // what was left over is void: the QP left ERR
  input  logic           sq_i,
  input  logic [QpW-1:0] qpn_i,
  input  logic [15:0]    first_i,
  input  logic [15:0]    pi_i,
  input  logic [3:0]     log_size_i,
  input  logic           busy_i,      // in a slice
  input  logic           ready_i,
  output logic           emit_o,      // flush WQE idx_o (and ready_i)
  output logic           done_o,      // slice over: idx_o is the oldest WQE left
  output logic [15:0]    idx_o,
  output logic           cont_o,
  output logic           cont_sq_o,
  output logic [QpW-1:0] cont_qpn_o
);

  localparam int unsigned CntW = $clog2(Slice + 1);

  logic [15:0]     idx_q, left_q, left;
  logic [CntW-1:0] cnt_q;

  assign left   = pi_i - first_i;
  assign done_o = busy_i && (left_q == '0 || cnt_q == CntW'(Slice));
  assign emit_o = busy_i && !done_o && ready_i;
  assign idx_o  = idx_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      idx_q  <= first_i;
      cnt_q  <= '0;
      // A producer index outside the ring is not worth believing.
      left_q <= (left <= 16'd1 << log_size_i) ? left : '0;
    end else if (emit_o) begin
      idx_q  <= idx_q + 16'd1;
      left_q <= left_q - 16'd1;
      cnt_q  <= cnt_q + 1'b1;
    end
    if (rst_i || drop_i) begin
      cont_o <= 1'b0;
    end else if (done_o) begin
      cont_o     <= left_q != '0;
      cont_sq_o  <= sq_i;
      cont_qpn_o <= qpn_i;
    end
  end

endmodule
