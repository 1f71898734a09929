// Codes of the credits that an ACK tells of a QP's own receive queue: as it is, and when the packet at hand takes one
// more. What the QP's tables say (held) is taken in every cycle, and the codes are there in the next one, made of the
// counts that were taken. 31: none are told.
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

  logic     tells_q;
  wqe_idx_t there_q, less_q;

  always_ff @(posedge clk_i) begin
    tells_q <= tells_i;
    there_q <= rq_pi_i - rq_ci_i;
    less_q  <= rq_pi_i + ~rq_ci_i;
  end

  assign now_o  = tells_q ? credit_code(there_q) : NoCredits;
  assign less_o = tells_q ? credit_code(less_q) : NoCredits;

endmodule
