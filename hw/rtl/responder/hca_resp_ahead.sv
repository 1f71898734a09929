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
  output logic [6:0]           still_o     // packets missing there, if marks are left
);

  logic [$clog2(AheadPsns)-1:0] at;
  logic [AheadPsns-1:0]         gone;   // marks without the first run
  logic [6:0]                   first, hole;

  // Place of the lowest bit set; AheadPsns: none is. A carry finds the bit, and its place is read from it.
  function automatic logic [6:0] lowest(logic [AheadPsns-1:0] bits);
    logic [AheadPsns:0]   less;
    logic [AheadPsns-1:0] one;
    logic [6:0]           found;
    less  = {1'b0, ~bits} + 1'b1;
    one   = bits & less[AheadPsns-1:0];
    found = {less[AheadPsns], 6'd0};
    for (int unsigned i = 0; i < AheadPsns; i++) begin
      if (one[i]) found[5:0] = found[5:0] | 6'(i);
    end
    return found;
  endfunction

  assign at        = ahead_i[5:0] - 6'd1;
  assign near_o    = ahead_i != '0 && ahead_i <= 24'(AheadPsns);
  assign known_o   = near_o && marks_i[at];
  assign with_o    = marks_i | (near_o ? AheadPsns'(1) << at : '0);
  assign first     = lowest(marks_i);
  assign missing_o = (near_o && 7'(at) < first) ? 7'(at) + 7'd1 : first + 7'd1;

  assign passed_o  = lowest(~marks_i);
  assign gone      = marks_i & (marks_i + AheadPsns'(1));
  assign left_o    = marks_behind(marks_i, passed_o);
  assign hole      = lowest(gone);
  assign still_o   = hole - passed_o;

endmodule
