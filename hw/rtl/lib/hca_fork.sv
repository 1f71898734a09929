// One stream to N takers: each sees every item once and takes it in its own time; the input advances when
// all have. The payload is wired around this cell. No latency.
module hca_fork #(
  parameter int unsigned N = 2
) (
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic         in_valid_i,
  output logic         in_ready_o,
  output logic [N-1:0] out_valid_o,
  input  logic [N-1:0] out_ready_i
);
  logic [N-1:0] taken_q, taken;

  assign out_valid_o = {N{in_valid_i}} & ~taken_q;
  assign taken       = taken_q | (out_valid_o & out_ready_i);
  assign in_ready_o  = &taken;

  always_ff @(posedge clk_i) begin
    if (rst_i || (in_valid_i && in_ready_o)) taken_q <= '0;
    else taken_q <= taken;
  end
endmodule
