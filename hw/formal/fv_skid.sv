// Proof of hca_skid: nothing lost, nothing twice, in order; valid and payload stable while stalled.
module fv_skid #(
  parameter bit Eager = 1'b0
) (
  input logic       clk_i,
  input logic       in_valid_i,
  input logic       out_ready_i,
  input logic [3:0] in_i
);
  logic       rst_q = 1'b1;
  logic       in_ready, out_valid, stalled_q, present;
  logic [3:0] out, out_was_q, word;
  logic [2:0] in_seq, out_seq, held, watched, age;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_skid #(.Width(4), .Eager(Eager)) u_dut (
    .clk_i, .rst_i(rst_q), .in_valid_i, .in_ready_o(in_ready), .in_i, .out_valid_o(out_valid), .out_ready_i, .out_o(out)
  );

  fv_order #(.SeqW(3)) u_order (
    .clk_i, .rst_i(rst_q), .push_i(in_valid_i && in_ready), .pop_i(out_valid && out_ready_i), .in_i,
    .in_seq_o(in_seq), .out_seq_o(out_seq), .held_o(held), .watched_o(watched), .inside_o(present), .age_o(age),
    .word_o(word)
  );

  always_ff @(posedge clk_i) begin
    out_was_q <= out;
    stalled_q <= !rst_q && out_valid && !out_ready_i;
    if (!rst_q) begin
      a_held: assert (held == 3'(u_dut.out_valid_q) + 3'(u_dut.skid_valid_q));
      h_order: assert (u_dut.out_valid_q || !u_dut.skid_valid_q);
      if (stalled_q) a_stable: assert (out_valid && out == out_was_q);
      if (present && age == '0) a_data: assert (out == word);
      if (present && age != '0) h_skid: assert (u_dut.skid_q == word);
      c_both: cover (held == 3'd2 && out_ready_i);
    end
  end
endmodule
