// What has come of the PSNs behind the expected one: bit i of the marks says that packet epsn + 1 + i has been placed.
// Combinational: where a packet stands, and what the marks are when the expected packet comes. Proof:
// hw/formal/fv_resp_ahead.sv. The ordering rule: docs/decisions/0066. Who looks puts together a cycle later what is
// late here: packets that are missing are leads_o ? ahead_i : first_o, marks with the packet are marks_with.
module hca_resp_ahead
  import hca_pkg::*;
(
  input  logic [AheadPsns-1:0] marks_i,
  input  logic [23:0]          ahead_i,    // packet's PSN less the expected one, not 0
  output logic                 near_o,     // it has a bit
  output logic                 known_o,    // and that is set
  output logic                 leads_o,    // it comes before all marks: what is missing then is what is before it,
  output logic [6:0]           first_o,    // else so many from the expected one on
  // When the expected packet comes:
  output logic [6:0]           passed_o,   // so many behind it are here already
  output logic [6:0]           hole_o      // place of the first mark behind these: hole_o - passed_o are missing there
);

  logic [$clog2(AheadPsns)-1:0] at;
  logic [AheadPsns-1:0]         gone;   // marks without the first run
  logic [AheadPsns-1:0]         upto;   // as far as the packet

  // Place of the lowest bit set, and more; of none AheadPsns and more. By eights, for a carry over all of them would be
  // the longest chain of its block.
  function automatic logic [6:0] lowest(logic [AheadPsns-1:0] bits, int unsigned more);
    logic [7:0]      some;
    logic [7:0][2:0] places;
    logic [2:0]      eight;
    for (int unsigned g = 0; g < 8; g++) begin
      some[g]   = bits[8*g +: 8] != '0;
      places[g] = '0;
      for (int unsigned i = 8; i > 0; i--) if (bits[8*g+i-1]) places[g] = 3'(i - 1);
    end
    eight = '0;
    for (int unsigned g = 8; g > 0; g--) if (some[g-1]) eight = 3'(g - 1);
    return (some == '0) ? 7'(AheadPsns + more) : {1'b0, eight, places[eight]} + 7'(more);
  endfunction

  assign at        = ahead_i[5:0] - 6'd1;
  assign near_o    = ahead_i != '0 && ahead_i <= 24'(AheadPsns);
  assign known_o   = near_o && marks_i[at];
  assign leads_o   = near_o && (marks_i & upto) == '0;
  assign first_o   = lowest(marks_i, 1);

  always_comb begin
    for (int unsigned i = 0; i < AheadPsns; i++) upto[i] = 6'(i) <= at;
  end

  assign passed_o  = lowest(~marks_i, 0);
  assign gone      = marks_i & (marks_i + AheadPsns'(1));
  assign hole_o    = lowest(gone, 0);

endmodule
