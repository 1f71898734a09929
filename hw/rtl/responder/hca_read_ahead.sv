// READ data behind a gap, of a QP with selective repeat: what hca_ack_unit knows of it, one cycle behind look_i, and
// what it asks for. Marks are what they were two cycles before look_i (early_i: they are searched from then on), oldest
// PSN and response what they were one cycle before it.
//
// The ordering rule (decision 0071). READs that have not completed may reach memory in any order, also those to the
// same bytes; each packet goes there once, before its READ completes, and completions come in the order of the WQEs. So
// nothing that a READ brings is written behind its completion: a packet before the oldest unacknowledged PSN goes
// nowhere, and so does one that has a mark. Only where every WQE from the oldest one to the packet's own is a READ does
// a packet get a mark (hca_ack_unit looks); a QP's oldest WQE is a READ while there are marks.
//
// Marks are hca_resp_ahead's: bit i is PSN una_psn + 1 + i. What is asked for is the first hole, as far as the oldest
// READ goes: when a gap is met, again with every sixteenth packet behind it, and at once when a packet out of
// the hole comes and not its first one.
module hca_read_ahead
  import hca_pkg::*, hca_rx_pkg::*, hca_rx_state_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 look_i,
  input  logic [AheadPsns-1:0] early_i,    // marks of st_i in the next cycle
  input  ack_st_t              st_i,
  input  logic [23:0]          between_i,  // PSNs between the oldest one and the response's
  input  logic [23:0]          rest_i,     // with look_i: PSNs of the oldest WQE behind the oldest one
  input  omt_row_t             row_i,      // with look_i of the oldest WQE, with seek_i of wqe_o
  // Where data belongs that is behind a gap, near enough, and has no mark: row after row, from the oldest WQE on.
  input  logic                 seek_i,
  input  logic [23:0]          psn_i,      // with seek_i: the response's; not in front of wqe_o
  input  logic                 map_i,
  input  logic [MsgBlkW-1:0]   blk_i,      // with map_i
  output logic                 seek_o,     // with seek_i: wqe_o is the next one
  output logic                 found_o,    // or it is here
  output wqe_idx_t             wqe_o,
  output logic [MsgBlkW-1:0]   blk_o,
  output logic                 asks_o,     // then: the hole should be asked for once more
  output logic [MissingW-1:0]  hole_o,     // and so many packets of it
  output logic [AheadPsns-1:0] with_o,     // marks with it
  // If it is the oldest one itself:
  output logic [6:0]           passed_o,   // so many behind it are here
  output logic                 row_ends_o, // as many as rest_i, or more
  output logic                 row_only_o, // just as many
  output logic [AheadPsns-1:0] left_o,     // marks behind the PSN that is the oldest one then
  output logic                 some_o,     // there are some
  output logic [6:0]           still_o     // packets missing there, if marks are left
);

  typedef struct packed {
    logic                 fits;     // near enough, and without a mark
    logic [6:0]           ahead;    // low bits of how far
    logic                 leads;
    logic [6:0]           first;
    logic [6:0]           passed;
    logic [6:0]           hole;
  } found_t;

  found_t               found_d, found_q;
  logic                 near, known, fits_q, in_row;
  logic [23:0]          behind;      // PSNs of the row behind the response's; negative: it belongs to a later one
  logic [6:0]           missing;

  logic                 unused_in;
  assign unused_in = ^{row_i, behind[22:0]};

  // A message has half of all PSNs at most, and what fits is near: the sign says it, behind one chain.
  assign behind  = row_i.last_psn - psn_i;
  assign in_row  = !behind[23];
  assign found_o = fits_q && row_i.opcode == WrOpRdmaRead && in_row;
  assign seek_o  = seek_i && fits_q && row_i.opcode == WrOpRdmaRead && !in_row;

  hca_resp_ahead u_ahead (
    .clk_i, .early_i, .marks_i(marks_of(st_i)), .between_i, .near_o(near), .known_o(known),
    .leads_o(found_d.leads), .first_o(found_d.first), .passed_o(found_d.passed), .hole_o(found_d.hole)
  );

  assign found_d.fits  = near && !known;
  assign found_d.ahead = between_i[6:0] + 7'd1;
  assign missing       = found_q.leads ? found_q.ahead : found_q.first;

  always_ff @(posedge clk_i) begin
    found_q <= found_d;
    if (look_i) begin
      fits_q   <= found_q.fits;
      // It is the one that was missing last, or the sixteenth.
      asks_o   <= found_q.ahead[3:0] == '0 || (found_q.ahead == missing && marks_of(st_i) != '0);
      hole_o   <= hole_of(missing, row_i.last_psn - st_i.una_psn);
      with_o   <= marks_with(marks_of(st_i), found_q.ahead);
      passed_o <= found_q.passed;
      row_ends_o <= 24'(found_q.passed) >= rest_i;
      row_only_o <= 24'(found_q.passed) == rest_i;
      left_o   <= marks_behind(marks_of(st_i), found_q.passed);
      some_o   <= !found_q.hole[6];
      still_o  <= found_q.hole - found_q.passed;
      {wqe_o, blk_o} <= {st_i.una_wqe, st_i.blk};
    end
    if (seek_o) wqe_o <= wqe_o + 1'b1;
    if (map_i) blk_o <= blk_i;
  end

endmodule
