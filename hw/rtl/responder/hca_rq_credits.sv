// Codes of the credits that an ACK tells of a QP's own receive queue: as it is, and when the packet at hand takes one
// more. What the QP's tables say (held) is taken in every cycle, and the codes are there in the next one. 31: none are
// told.
module hca_rq_credits
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        tells_i,
  input  wqe_idx_t    rq_pi_i,
  input  wqe_idx_t    rq_ci_i,
  output logic [4:0]  now_o,
  output logic [4:0]  less_o
);

  wqe_idx_t there;
  assign there = rq_pi_i - rq_ci_i;

  always_ff @(posedge clk_i) begin
    now_o  <= tells_i ? credit_code(there) : NoCredits;
    less_o <= tells_i ? credit_code(there - 1'b1) : NoCredits;
  end

endmodule
