// The ring that a QP's packets wait in, and what has left it: for hca_timers. One register stage. A lane without a VL
// for data has no ring: nothing is left of what went there.
module hca_lane_age
  import hca_pkg::*;
#(
  parameter int unsigned NumVls = hca_link_pkg::NumVlsDefault
) (
  input  logic                               clk_i,
  input  logic [NumPorts-1:0]                ib_i,
  input  logic [NumPorts-1:0][15:0][3:0]     sl2vl_i,
  input  ring_age_t [NumPorts-1:0][NumVls-1:0] age_i,
  input  lane_ask_t                          ask_i,
  output ring_age_t                          age_o
);

  localparam int unsigned PrioMask = (NumVls < 8) ? NumVls - 1 : 7;

  logic [3:0] vl;

  assign vl = ib_i[ask_i.port] ? sl2vl_i[ask_i.port][ask_i.sl] : {1'b0, ask_i.prio & 3'(PrioMask)};

  always_ff @(posedge clk_i) begin
    age_o <= '{empty: 1'b1, default: '0};
    for (int unsigned v = 0; v < NumVls; v++) begin
      if (32'(vl) == v) age_o <= age_i[ask_i.port][v];
    end
  end

endmodule
