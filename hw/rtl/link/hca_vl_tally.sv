// Sixteen 32-bit counters that wrap, of which all may step in the same cycle: each counts up to sixteen steps by
// itself, then it is its turn to be added. One read a cycle (data at once), which may be so much behind.
module hca_vl_tally (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [15:0] step_i,
  input  logic [3:0]  rd_vl_i,
  output logic [31:0] rd_o
);

  logic [15:0][4:0] steps_q;
  logic [3:0]       turn_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      turn_q  <= '0;
      steps_q <= '0;
    end else begin
      if (step_i != '0 || steps_q != '0) turn_q <= turn_q + 1'b1;
      for (int unsigned v = 0; v < 16; v++) begin
        steps_q[v] <= ((turn_q == 4'(v)) ? 5'd0 : steps_q[v]) + 5'(step_i[v]);
      end
    end
  end

  hca_vl_count #(
    .AddW(5)
  ) u_count (
    .clk_i, .rst_i, .add_i(1'b1), .vl_i(turn_q), .amount_i(steps_q[turn_q]), .rd_vl_i, .rd_o
  );

endmodule
