// Writes to context memory: what a QP was that has left its line (what of a qpc follows sq_pi), or a record of
// firmware's, whole or what comes before that. One at a time: taken when it is not busy_o, which it is from the next
// cycle on.
module hca_line_store
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [63:8] base_i,
  input  logic [4:0]  index_bits_i,
  input  logic        old_valid_i,
  input  logic [23:0] old_qpn_i,
  input  logic [QpW-1:0] old_line_i,
  input  qpc_record_t old_i,
  input  logic        record_valid_i,  // strobe, while not busy_o, and nothing old is there
  input  record_wr_t  record_i,
  output logic        busy_o,
  output logic [QpW-1:0] line_o,       // the line of its QP
  output logic        wr_valid_o,
  input  logic        wr_ready_i,
  output dma_wr_t     wr_o
);

  logic              valid_q, takes;
  logic [1:0]        beat_q, last_q;
  logic [63:8]       block_q;
  logic [3:0][DataW-1:0] data_q;
  logic [23:0]       index;

  assign index  = (old_valid_i ? old_qpn_i : record_i.index) & ~({24{1'b1}} << index_bits_i);
  assign busy_o = valid_q;
  assign takes  = !valid_q && (old_valid_i || record_valid_i);

  always_ff @(posedge clk_i) begin
    if (rst_i) valid_q <= 1'b0;
    else if (takes) valid_q <= 1'b1;
    else if (wr_ready_i && beat_q == last_q) valid_q <= 1'b0;
    if (takes) begin
      block_q <= base_i + 56'(index);
      line_o  <= old_valid_i ? old_line_i : record_i.index[QpW-1:0];
      beat_q  <= old_valid_i ? 2'd2 : 2'd0;
      last_q  <= (old_valid_i || record_i.whole) ? 2'd3 : 2'd1;
      if (old_valid_i) data_q[3:2] <= (2 * DataW)'(old_i);
      else data_q <= record_i.qpc;
    end else if (wr_valid_o && wr_ready_i) begin
      beat_q <= beat_q + 2'd1;
    end
  end

  assign wr_valid_o = valid_q;
  assign wr_o       = '{msix: 1'b0, last: beat_q == last_q, func: '0, addr: {block_q, beat_q, 6'd0}, strb: '1,
                        data: data_q[beat_q]};

endmodule
