// Last stage before the physical stream: no packet is cut in two but by the physical link itself, and no beat that was
// offered is taken back while that link is up. While it is down packets wait; the rest of one that had begun is thrown
// away (its beginning is lost, and the far end must not take the rest for a packet). While the port is DOWN whole
// packets are thrown away, so nothing old leaves when it comes up again; one that is leaving, or offered already, is
// finished first, for the far end may be up. Nothing stored, no latency. Proof: hw/formal/fv_phy_gate.sv.
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

  logic inside_q;    // a packet has begun
  logic cut_q;       // its rest is thrown away
  logic offered_q;   // its first beat was offered and not taken
  logic discard;

  assign discard     = inside_q ? cut_q || !phy_up_i : down_i && !offered_q;
  assign out_valid_o = in_valid_i && phy_up_i && !discard;
  assign in_ready_o  = discard || (phy_up_i && out_ready_i);
  assign out_o       = in_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      inside_q  <= 1'b0;
      cut_q     <= 1'b0;
      offered_q <= 1'b0;
    end else begin
      offered_q <= out_valid_o && !out_ready_i;
      if (in_valid_i && in_ready_o) inside_q <= !in_i.last;
      cut_q <= (inside_q || in_valid_i) && discard && !(in_valid_i && in_i.last);
    end
  end

endmodule
