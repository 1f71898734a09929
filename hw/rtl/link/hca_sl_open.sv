// Which SLs may send now: the gates of their VLs; on Ethernet which priorities, by their traffic classes. An SL without
// a VL for data counts as open: its packets are dropped and counted by the link. One register stage.
module hca_sl_open
  import hca_pkg::*;
(
  input  logic             clk_i,
  input  logic [15:0]      vl_open_i,
  input  logic [15:0][3:0] sl2vl_i,
  output logic [15:0]      sl_open_o
);

  always_ff @(posedge clk_i) begin
    for (int unsigned sl = 0; sl < 16; sl++) begin
      sl_open_o[sl] <= vl_open_i[sl2vl_i[sl]] || sl2vl_i[sl] == 4'(MgmtVl);
    end
  end

endmodule
