// Sixteen 32-bit counters that wrap, of which all may step in the same cycle, by StepW bits: each counts the steps of
// sixteen cycles by itself, then it is its turn to be added. One read a cycle (data at once), which may be so much
// behind. busy_o: something is not added yet.
module hca_vl_tally #(
  parameter int unsigned  StepW  = 1,
  localparam int unsigned StepsW = StepW + 4
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [15:0][StepW-1:0] step_i,
  input  logic [3:0]  rd_vl_i,
  output logic [31:0] rd_o,
  output logic        busy_o
);

  logic [15:0][StepsW-1:0] steps_q;
  logic [3:0]              turn_q;

  assign busy_o = steps_q != '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      turn_q  <= '0;
      steps_q <= '0;
    end else begin
      if (step_i != '0 || busy_o) turn_q <= turn_q + 1'b1;
      for (int unsigned v = 0; v < 16; v++) begin
        steps_q[v] <= ((turn_q == 4'(v)) ? '0 : steps_q[v]) + StepsW'(step_i[v]);
      end
    end
  end

  hca_vl_count #(
    .AddW(StepsW)
  ) u_count (
    .clk_i, .rst_i, .add_i(1'b1), .vl_i(turn_q), .amount_i(steps_q[turn_q]), .rd_vl_i, .rd_o
  );

endmodule
