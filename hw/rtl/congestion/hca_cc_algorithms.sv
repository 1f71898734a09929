// The algorithms of this build, by cc_algorithm. A new one is a module with these ports, a line here and one in the
// contract.
module hca_cc_algorithms
  import hca_pkg::*;
  import hca_cc_pkg::*;
(
  input  logic    clk_i,
  input  cc_in_t  in_i,
  output cc_out_t out_o
);

  cc_out_t dcqcn, delay;

  hca_cc_dcqcn u_dcqcn (.clk_i, .in_i, .out_o(dcqcn));
  hca_cc_delay u_delay (.clk_i, .in_i, .out_o(delay));

  always_comb begin
    unique case (in_i.cfg.algorithm)
      CcDelay: out_o = delay;
      default: out_o = dcqcn;
    endcase
  end

endmodule
