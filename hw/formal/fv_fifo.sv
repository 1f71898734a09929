// Proof of hca_fifo: what goes in comes out once, in order, and the count is right; both implementations (registers,
// RAM) by Depth.
module fv_fifo #(
  parameter int unsigned Depth = 4,
  localparam int unsigned CountW = $clog2(Depth) + 1
) (
  input logic       clk_i,
  input logic       in_valid_i,
  input logic       out_ready_i,
  input logic [3:0] in_i
);
  localparam int unsigned PtrW = CountW - 1;
  localparam int unsigned SeqW = CountW + 1;

  logic              rst_q = 1'b1;
  logic              in_ready, out_valid, present;
  logic [3:0]        out, word;
  logic [CountW-1:0] count;
  logic [SeqW-1:0]   in_seq, out_seq, held, watched, age;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_fifo #(
    .Width(4),
    .Depth(Depth)
  ) u_dut (
    .clk_i, .rst_i(rst_q), .in_valid_i, .in_ready_o(in_ready), .in_i, .out_valid_o(out_valid), .out_ready_i,
    .out_o(out), .count_o(count)
  );

  fv_order #(.SeqW(SeqW)) u_order (
    .clk_i, .rst_i(rst_q), .push_i(in_valid_i && in_ready), .pop_i(out_valid && out_ready_i), .in_i,
    .in_seq_o(in_seq), .out_seq_o(out_seq), .held_o(held), .watched_o(watched), .inside_o(present), .age_o(age),
    .word_o(word)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      a_count: assert (SeqW'(count) == held && held <= SeqW'(Depth));
      a_full:  assert (in_ready == (count != CountW'(Depth)));
      if (present && age == '0 && out_valid) a_data: assert (out == word);
      h_wr: assert (u_dut.wr_ptr_q == PtrW'(in_seq));
      c_full: cover (count == CountW'(Depth) && present);
    end
  end

  if (Depth <= 16) begin : gen_regs
    always_ff @(posedge clk_i) begin
      if (!rst_q) begin
        h_rd: assert (u_dut.rd_ptr_q == PtrW'(out_seq));
        if (present) h_mem: assert (u_dut.gen_regs.mem[PtrW'(watched)] == word);
      end
    end
  end else begin : gen_ram
    always_ff @(posedge clk_i) begin
      if (!rst_q) begin
        h_rd: assert (u_dut.rd_ptr_q == PtrW'(out_seq) + PtrW'(out_valid));
        h_valid: assert (!out_valid || count != '0);
        if (present && !(age == '0 && out_valid)) h_mem: assert (u_dut.gen_ram.u_ram.mem[PtrW'(watched)] == word);
      end
    end
  end
endmodule
