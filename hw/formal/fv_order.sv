// The observer of a queue: counts words in and out and follows one of them, chosen by the solver.
module fv_order #(
  parameter int unsigned Width = 4,
  parameter int unsigned SeqW = 4   // counters: wider than the queue is deep
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             push_i,
  input  logic             pop_i,
  input  logic [Width-1:0] in_i,
  output logic [SeqW-1:0]  in_seq_o,
  output logic [SeqW-1:0]  out_seq_o,
  output logic [SeqW-1:0]  held_o,     // words inside
  output logic [SeqW-1:0]  watched_o,  // number of the word that is followed
  output logic             inside_o,   // it is inside
  output logic [SeqW-1:0]  age_o,      // with inside: words in front of it
  output logic [Width-1:0] word_o      // with inside: its value
);
  logic [SeqW-1:0]  in_seq_q, out_seq_q, watched_q;
  logic             inside_q;
  logic [Width-1:0] word_q;

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;  // any value, for ever
    if (rst_i) begin
      in_seq_q  <= '0;
      out_seq_q <= '0;
      inside_q  <= 1'b0;
    end else begin
      if (push_i) in_seq_q <= in_seq_q + 1'b1;
      if (pop_i) out_seq_q <= out_seq_q + 1'b1;
      if (push_i && in_seq_q == watched_q) begin
        word_q   <= in_i;
        inside_q <= 1'b1;
      end else if (pop_i && out_seq_q == watched_q) begin
        inside_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      if (inside_q) h_in: assert (age_o < held_o);
      else h_out: assert (age_o >= held_o);
    end
  end

  assign in_seq_o  = in_seq_q;
  assign out_seq_o = out_seq_q;
  assign held_o    = in_seq_q - out_seq_q;
  assign watched_o = watched_q;
  assign inside_o  = inside_q;
  assign age_o     = watched_q - out_seq_q;
  assign word_o    = word_q;
endmodule
