// What has come of the PSNs behind the expected one: bit i of the marks says that packet epsn + 1 + i has been placed.
// Where a packet stands, and what the marks are when the expected packet comes: combinational, but that eights of marks
// are looked at in the cycle before (early_i). Proof: hw/formal/fv_resp_ahead.sv. The ordering rule:
// docs/decisions/0066. Who looks puts together a cycle later what is late here: packets that are missing are as many as
// it is ahead if leads_o, else first_o; marks with the packet are marks_with.
module hca_resp_ahead
  import hca_pkg::*;
(
  input  logic                 clk_i,
  input  logic [AheadPsns-1:0] early_i,    // marks_i of the next cycle
  input  logic [AheadPsns-1:0] marks_i,
  input  logic [23:0]          between_i,  // packet's PSN less the expected one, less one
  output logic                 near_o,     // it has a bit
  output logic                 known_o,    // and that is set
  output logic                 leads_o,    // it comes before all marks: what is missing then is what is before it,
  output logic [6:0]           first_o,    // else so many from the expected one on
  // When the expected packet comes:
  output logic [6:0]           passed_o,   // so many behind it are here already
  output logic [6:0]           hole_o      // place of the first mark behind these: hole_o - passed_o are missing there
);

  localparam int unsigned Groups = AheadPsns / 8;

  typedef struct packed {
    logic [Groups-1:0]      some;
    logic [Groups-1:0][2:0] place;   // of the lowest one
  } groups_t;

  logic [$clog2(AheadPsns)-1:0] at;
  logic [AheadPsns-1:0]         upto;   // as far as the packet

  // Place of the lowest bit set of eight, of which the last need not be seen, said bit by bit: a search is a chain of
  // multiplexers.
  function automatic logic [2:0] lowest_of_8(logic [6:0] bits);
    logic [2:0] place;
    place[2] = bits[3:0] == '0;
    place[1] = bits[1:0] == '0 && (bits[3:2] != '0 || bits[5:4] == '0);
    place[0] = !bits[0] && (bits[1] || (!bits[2] && (bits[3] || (!bits[4] && (bits[5] || !bits[6])))));
    return place;
  endfunction

  function automatic groups_t groups_of(logic [AheadPsns-1:0] bits);
    groups_t groups;
    for (int unsigned g = 0; g < Groups; g++) begin
      groups.some[g]  = bits[8*g +: 8] != '0;
      groups.place[g] = lowest_of_8(bits[8*g +: 7]);
    end
    return groups;
  endfunction

  // Bits of each eight behind the ones that it begins with.
  function automatic logic [AheadPsns-1:0] behind_ones(logic [AheadPsns-1:0] bits);
    logic [AheadPsns-1:0] rest;
    for (int unsigned i = 0; i < AheadPsns; i++) begin
      rest[i] = bits[i] && (bits[8*(i/8) +: 8] | (8'hff << (i % 8))) != '1;
    end
    return rest;
  endfunction

  // Place of the lowest bit set; of none AheadPsns. By eights, for a carry over all of them would be the longest chain
  // of its block.
  function automatic logic [6:0] lowest(groups_t groups);
    logic [2:0] eight;
    eight = lowest_of_8(groups.some[6:0]);
    return (groups.some == '0) ? 7'(AheadPsns) : {1'b0, eight, groups.place[eight]};
  endfunction

  // ---- Early: each eight by itself -------------------------------------------------------------------------
  // Whether all are set, and the lowest one: of all of it, of zeros, of ones behind a run of ones from its beginning.
  logic [Groups-1:0] full_q;
  groups_t           first_q, own_q, zero_q, rest_q;

  always_ff @(posedge clk_i) begin
    for (int unsigned g = 0; g < Groups; g++) full_q[g] <= early_i[8*g +: 8] == '1;
    first_q <= groups_of({early_i[AheadPsns-2:0], 1'b0});   // one more than its place: it stands one further up
    own_q   <= groups_of(early_i);
    zero_q  <= groups_of(~early_i);
    rest_q  <= groups_of(behind_ones(early_i));
  end

  // ---- All of them -----------------------------------------------------------------------------------------
  // Of a bit set behind the first run of ones. In an eight that the run reaches and does not fill, behind its end
  // there; in those above, any.
  groups_t behind_run;
  logic    reaches;
  always_comb begin
    for (int unsigned g = 0; g < Groups; g++) begin
      reaches                = (full_q | ({Groups{1'b1}} << g)) == '1;
      behind_run.some[g]     = reaches ? rest_q.some[g] : own_q.some[g];
      behind_run.place[g]    = reaches ? rest_q.place[g] : own_q.place[g];
    end
  end

  assign at        = between_i[5:0];
  assign near_o    = between_i[23:6] == '0;
  assign known_o   = near_o && marks_i[at];
  assign leads_o   = near_o && (marks_i & upto) == '0;

  always_comb begin
    for (int unsigned i = 0; i < AheadPsns; i++) upto[i] = 6'(i) <= at;
  end

  assign first_o   = (first_q.some == '0) ? 7'(AheadPsns) + 7'(!marks_i[AheadPsns-1]) : lowest(first_q);
  assign passed_o  = lowest(zero_q);
  assign hole_o    = lowest(behind_run);

endmodule
