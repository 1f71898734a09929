// Proof of hca_same and hca_next: the carry says what == says, of the numbers and of the one behind.
module fv_same #(
  parameter int unsigned Width = 24
) (
  input logic             clk_i,
  input logic [Width-1:0] a_i,
  input logic [Width-1:0] b_i
);
  logic same, next;

  hca_same #(.Width(Width)) u_same (.a_i, .b_i, .same_o(same));
  hca_next #(.Width(Width)) u_next (.a_i, .b_i, .next_o(next));

  always_ff @(posedge clk_i) begin
    a_same: assert (same == (a_i == b_i));
    a_next: assert (next == (b_i == Width'(a_i + 1'b1)));
    c_same: cover (same);
    c_next: cover (next && b_i == '0);
  end
endmodule
