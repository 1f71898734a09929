// The ring that a QP's packets wait in, and what has left it: for hca_timers. One register stage. A lane without a VL
// for data has no ring: nothing is left of what went there.
module hca_lane_age
  import hca_pkg::*;
#(
  parameter int unsigned NumVls = hca_link_pkg::NumVlsDefault
) (
  input  logic                               clk_i,
  input  logic [NumPorts-1:0][15:0][3:0]     sl2vl_i,
  input  ring_age_t [NumPorts-1:0][NumVls-1:0] age_i,
  input  lane_ask_t                          ask_i,
  output ring_age_t                          age_o
);

  logic [3:0] vl;

  assign vl = sl2vl_i[ask_i.port][ask_i.sl];

  always_ff @(posedge clk_i) begin
    age_o <= '{empty: 1'b1, default: '0};
    for (int unsigned v = 0; v < NumVls; v++) begin
      if (32'(vl) == v) age_o <= age_i[ask_i.port][v];
    end
  end

endmodule
