// Proof of hca_skid: nothing lost, nothing twice, in order; valid and payload stable while stalled.
module fv_skid (
  input logic       clk_i,
  input logic       in_valid_i,
  input logic       out_ready_i,
  input logic [3:0] in_i
);
  logic       rst_q = 1'b1;
  logic       in_ready, out_valid, push, pop, stalled_q, inside_q;
  logic [3:0] out, out_was_q, word_q;
  logic [2:0] in_seq_q, out_seq_q, watched_q, held;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_skid #(.Width(4)) u_dut (
    .clk_i, .rst_i(rst_q), .in_valid_i, .in_ready_o(in_ready), .in_i, .out_valid_o(out_valid), .out_ready_i, .out_o(out)
  );

  assign push = in_valid_i && in_ready;
  assign pop  = out_valid && out_ready_i;
  assign held = in_seq_q - out_seq_q;

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    out_was_q <= out;
    stalled_q <= !rst_q && out_valid && !out_ready_i;
    if (rst_q) begin
      in_seq_q  <= '0;
      out_seq_q <= '0;
      inside_q  <= 1'b0;
    end else begin
      if (push) in_seq_q <= in_seq_q + 1'b1;
      if (pop) out_seq_q <= out_seq_q + 1'b1;
      if (push && in_seq_q == watched_q) begin
        word_q   <= in_i;
        inside_q <= 1'b1;
      end else if (pop && out_seq_q == watched_q) begin
        inside_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      a_held: assert (held == 3'(u_dut.out_valid_q) + 3'(u_dut.skid_valid_q));
      h_order: assert (u_dut.out_valid_q || !u_dut.skid_valid_q);
      if (stalled_q) a_stable: assert (out_valid && out == out_was_q);
      if (inside_q) begin
        h_in: assert (3'(watched_q - out_seq_q) < held);
        if (watched_q == out_seq_q) a_data: assert (out == word_q);
        else h_skid: assert (u_dut.skid_q == word_q);
      end else begin
        h_out: assert (3'(watched_q - out_seq_q) >= held);
      end
      c_both: cover (held == 3'd2 && pop);
    end
  end
endmodule
