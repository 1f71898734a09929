// Reads the ports' counters a word at a time: the word is there in the next cycle. A read of a low word keeps the high
// word for the read after it, so that both are of one moment; a counter or port that is not there reads 0. Words of
// rules are hca_rule_counts'.
module hca_counter_read
  import hca_pkg::*;
#(
  parameter int unsigned NumCounters = 25
) (
  input  logic        clk_i,
  input  logic        rd_i,
  input  logic [7:0]  word_i,                 // port, counter, half; or rule, word
  input  logic [31:0] rule_word_i,            // a cycle behind rd_i
  output logic [31:0] data_o,
  input  logic [NumPorts-1:0][63:0] rows_i   // of each port, the counter that word_i names
);

  logic [31:0] data_q, high_q;
  logic        is_rule_q;

  always_ff @(posedge clk_i) begin
    if (rd_i) is_rule_q <= word_i[7];
    if (rd_i && word_i[0]) data_q <= high_q;
    if (rd_i && !word_i[0]) begin
      {high_q, data_q} <= '0;
      if (word_i[5:1] < 5'(NumCounters) && 32'(word_i[6]) < NumPorts)
        {high_q, data_q} <= rows_i[PortW'(word_i[6])];
    end
  end

  assign data_o = is_rule_q ? rule_word_i : data_q;

endmodule
