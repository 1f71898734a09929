// Last stage before the physical stream: no packet is cut in two when the link goes away. While the physical link is
// down packets wait; the rest of one that had begun is thrown away (its beginning is lost, and the far end must not
// take the rest for a packet). While the port is DOWN everything is thrown away, so nothing old leaves when it comes
// up again. Nothing stored, no latency.
module hca_phy_gate
  import hca_link_pkg::*;
(
  input  logic clk_i,
  input  logic rst_i,
  input  logic phy_up_i,
  input  logic down_i,        // port state DOWN
  input  logic in_valid_i,
  output logic in_ready_o,
  input  phy_t in_i,
  output logic out_valid_o,
  input  logic out_ready_i,
  output phy_t out_o
);

  logic inside_q;   // a packet has begun to leave
  logic cut_q;      // the rest of it is thrown away
  logic discard;

  assign discard     = cut_q || down_i || (inside_q && !phy_up_i);
  assign out_valid_o = in_valid_i && phy_up_i && !discard;
  assign in_ready_o  = discard || (phy_up_i && out_ready_i);
  assign out_o       = in_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      inside_q <= 1'b0;
      cut_q    <= 1'b0;
    end else if (in_valid_i && in_ready_o) begin
      inside_q <= !in_i.last;
      cut_q    <= discard && !in_i.last;
    end else if (inside_q && (down_i || !phy_up_i)) begin
      cut_q    <= 1'b1;
    end
  end

endmodule
