// What has come of the PSNs behind the expected one: bit i of the marks says that packet epsn + 1 + i has been placed.
// Combinational: where a packet stands, the marks with it, and the marks when the expected packet comes. Proof:
// hw/formal/fv_resp_ahead.sv. The ordering rule: docs/decisions/0066.
module hca_resp_ahead
  import hca_pkg::*;
(
  input  logic [AheadPsns-1:0] marks_i,
  input  logic [23:0]          ahead_i,    // packet's PSN less the expected one, not 0
  output logic                 near_o,     // it has a bit
  output logic                 known_o,    // and that is set
  output logic [AheadPsns-1:0] with_o,     // marks with it, if it has a bit
  output logic [6:0]           missing_o,  // packets from the expected one on that are missing then
  // When the expected packet comes:
  output logic [6:0]           passed_o,   // so many behind it are here already
  output logic [AheadPsns-1:0] left_o,     // marks behind the PSN that is expected then
  output logic [6:0]           hole_o      // place of the first of them: hole_o - passed_o packets are missing there
);

  logic [$clog2(AheadPsns)-1:0] at;
  logic [AheadPsns-1:0]         gone;   // marks without the first run
  logic [AheadPsns-1:0]         upto;   // as far as the packet
  logic                         leads;  // no mark is before the packet, nor its own

  // Place of the lowest bit set, and more; of none AheadPsns. A carry finds the bit, and its place is read from it.
  function automatic logic [6:0] lowest(logic [AheadPsns-1:0] bits, int unsigned more);
    logic [AheadPsns:0]   less;
    logic [AheadPsns-1:0] one;
    logic [6:0]           found;
    less  = {1'b0, ~bits} + 1'b1;
    one   = bits & less[AheadPsns-1:0];
    found = less[AheadPsns] ? 7'(AheadPsns + more) : '0;
    for (int unsigned i = 0; i < AheadPsns; i++) begin
      if (one[i]) found = found | 7'(i + more);
    end
    return found;
  endfunction

  assign at        = ahead_i[5:0] - 6'd1;
  assign near_o    = ahead_i != '0 && ahead_i <= 24'(AheadPsns);
  assign known_o   = near_o && marks_i[at];
  assign with_o    = marks_i | (near_o ? AheadPsns'(1) << at : '0);
  assign leads     = near_o && (marks_i & upto) == '0;
  assign missing_o = leads ? ahead_i[6:0] : lowest(marks_i, 1);

  always_comb begin
    for (int unsigned i = 0; i < AheadPsns; i++) upto[i] = 6'(i) <= at;
  end

  assign passed_o  = lowest(~marks_i, 0);
  assign gone      = marks_i & (marks_i + AheadPsns'(1));
  assign left_o    = marks_behind(marks_i, passed_o);
  assign hole_o    = lowest(gone, 0);

endmodule
