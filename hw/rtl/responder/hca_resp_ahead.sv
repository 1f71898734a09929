// What has come of the PSNs behind the expected one: bit i of the marks says that packet epsn + 1 + i has been placed.
// Combinational: where a packet stands, and what the marks are when the expected packet comes. Proof:
// hw/formal/fv_resp_ahead.sv. The ordering rule: docs/decisions/0066. Who looks puts together a cycle later what is
// late here: packets that are missing are as many as it is ahead if leads_o, else first_o; marks with the packet are
// marks_with.
module hca_resp_ahead
  import hca_pkg::*;
(
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

  // Place of the lowest bit set; of none AheadPsns. By eights, for a carry over all of them would be the longest chain
  // of its block.
  function automatic logic [6:0] lowest(groups_t groups);
    logic [2:0] eight;
    eight = lowest_of_8(groups.some[6:0]);
    return (groups.some == '0) ? 7'(AheadPsns) : {1'b0, eight, groups.place[eight]};
  endfunction

  // Of a bit set behind the first run of ones. In a group that the run reaches and does not fill, behind its end there;
  // in those above, any.
  function automatic groups_t behind_run(logic [AheadPsns-1:0] bits);
    groups_t groups;
    logic [7:0] rest, own;
    for (int unsigned g = 0; g < Groups; g++) begin
      own  = bits[8*g +: 8];
      for (int unsigned i = 0; i < 8; i++) rest[i] = own[i] && (own | (8'hff << i)) != '1;
      if ((bits | ({AheadPsns{1'b1}} << (8 * g))) == '1) begin
        groups.some[g]  = rest != '0;
        groups.place[g] = lowest_of_8(rest[6:0]);
      end else begin
        groups.some[g]  = own != '0;
        groups.place[g] = lowest_of_8(own[6:0]);
      end
    end
    return groups;
  endfunction

  assign at        = between_i[5:0];
  assign near_o    = between_i[23:6] == '0;
  assign known_o   = near_o && marks_i[at];
  assign leads_o   = near_o && (marks_i & upto) == '0;

  always_comb begin
    for (int unsigned i = 0; i < AheadPsns; i++) upto[i] = 6'(i) <= at;
  end

  // One more than its place is the place where it stands one further up.
  groups_t first;
  assign first     = groups_of({marks_i[AheadPsns-2:0], 1'b0});
  assign first_o   = (first.some == '0) ? 7'(AheadPsns) + 7'(!marks_i[AheadPsns-1]) : lowest(first);
  assign passed_o  = lowest(groups_of(~marks_i));
  assign hole_o    = lowest(behind_run(marks_i));

endmodule
