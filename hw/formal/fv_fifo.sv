// Proof of hca_fifo: what goes in comes out once, in order, and the count is right. The harness counts what went in and
// came out and watches one symbolic word. Both implementations (registers, RAM) by Depth.
module fv_fifo #(
  parameter int unsigned Depth = 4,
  localparam int unsigned CountW = $clog2(Depth) + 1
) (
  input logic       clk_i,
  input logic       in_valid_i,
  input logic       out_ready_i,
  input logic [3:0] in_i
);
  localparam int unsigned SeqW = CountW + 1;

  logic              rst_q = 1'b1;
  logic              in_ready, out_valid, push, pop;
  logic [3:0]        out;
  logic [CountW-1:0] count;
  logic [SeqW-1:0]   in_seq_q, out_seq_q, watched_q, age;
  logic [3:0]        word_q;
  logic              inside_q;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_fifo #(
    .Width(4),
    .Depth(Depth)
  ) u_dut (
    .clk_i, .rst_i(rst_q), .in_valid_i, .in_ready_o(in_ready), .in_i, .out_valid_o(out_valid), .out_ready_i,
    .out_o(out), .count_o(count)
  );

  assign push = in_valid_i && in_ready;
  assign pop  = out_valid && out_ready_i;
  assign age  = watched_q - out_seq_q;  // words in front of the watched one

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;  // any value, for ever
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
      a_count: assert (count == CountW'(in_seq_q - out_seq_q) && SeqW'(in_seq_q - out_seq_q) <= SeqW'(Depth));
      a_full:  assert (in_ready == (count != CountW'(Depth)));
      if (inside_q && age == '0 && out_valid) a_data: assert (out == word_q);
      if (inside_q) h_place: assert (age < SeqW'(count));
      else h_out: assert (age >= SeqW'(count));
      h_wr: assert (u_dut.wr_ptr_q == in_seq_q[CountW-2:0]);
      c_full: cover (count == CountW'(Depth) && inside_q);
    end
  end

  if (Depth <= 16) begin : gen_regs
    always_ff @(posedge clk_i) begin
      if (!rst_q) begin
        h_rd: assert (u_dut.rd_ptr_q == out_seq_q[CountW-2:0]);
        if (inside_q) h_mem: assert (u_dut.gen_regs.mem[watched_q[CountW-2:0]] == word_q);
      end
    end
  end else begin : gen_ram
    logic at_output;
    assign at_output = age == '0 && out_valid;
    always_ff @(posedge clk_i) begin
      if (!rst_q) begin
        h_rd: assert (u_dut.rd_ptr_q == out_seq_q[CountW-2:0] + (CountW-1)'(out_valid));
        h_valid: assert (!out_valid || count != '0);
        if (inside_q && !at_output) h_mem: assert (u_dut.gen_ram.u_ram.mem[watched_q[CountW-2:0]] == word_q);
      end
    end
  end
endmodule
