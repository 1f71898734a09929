// Keeps reads of host memory behind the writes that were accepted before: a read goes when all that the write mux held
// when it came to the head of the queue has gone, in an earlier cycle. So who has seen a write accepted may read what
// it wrote. At rest a read passes at once; beside a stream of writes it waits one or two cycles.
module hca_rd_order (
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       in_valid_i,
  output logic       in_ready_o,
  output logic       out_valid_o,
  input  logic       out_ready_i,
  input  logic [1:0] wr_held_i,   // writes that the mux has accepted and not handed on
  input  logic       wr_gone_i    // strobe: it hands one on
);

  logic       new_q;
  logic [1:0] ahead_q, ahead;     // writes that the read at the head must not pass

  assign ahead       = new_q ? wr_held_i : ahead_q;
  assign out_valid_o = in_valid_i && ahead == '0;
  assign in_ready_o  = out_ready_i && ahead == '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) new_q <= 1'b1;
    else if (in_valid_i) new_q <= out_valid_o && out_ready_i;
    if (in_valid_i) ahead_q <= ahead - 2'(wr_gone_i && ahead != '0);
  end

endmodule
