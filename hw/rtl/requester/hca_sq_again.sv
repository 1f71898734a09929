// Packets that are sent again alone: how many are left, and where the QP goes on then. A place for each slot, not for
// each QP: whoever loses its slot meanwhile sends all from there on, as after any other rewind, and the peer drops what
// it has. The ordering rule: docs/decisions/0066.
module hca_sq_again
  import hca_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic [SlotW-1:0] slot_i,     // constant from read_i to we_i
  input  logic             read_i,     // a turn begins: what stands for the slot is looked at
  input  logic             first_i,    // of the slot's QP
  input  logic             redo_i,     // the position moves:
  input  logic             few_i,      // some packets are sent again alone
  input  logic [MissingW-1:0] count_i, // so many
  input  sq_dyn_t          dyn_i,      // the position before
  input  logic             plan_i,     // a packet is made next
  input  logic             sent_i,     // strobe: it is made
  input  logic             many_i,     // with sent_i: it takes several PSNs (READ), and ends what is sent again alone
  input  logic             we_i,       // the turn ends
  output logic             over_o,     // behind read_i: all of them have been made, the position moves back
  output logic             active_o,   // behind read_i: some are being sent again alone
  output logic [MissingW-1:0] left_o,  // so many, the next one included
  output logic             ends_o,     // with plan_i: the packet is the last one of them
  output logic             last_o,     // the same from then on
  output sq_back_t         back_o
);

  typedef struct packed {
    logic [MissingW-1:0] left;
    sq_back_t            back;
  } place_t;

  place_t places_q [Slots];
  place_t place_q;
  logic [Slots-1:0] active_q, over_q;
  logic   on_q, all_q, unused_bits;

  assign unused_bits = ^{dyn_i, many_i};
  assign over_o      = on_q && all_q;
  assign active_o    = on_q;
  assign left_o      = place_q.left;
  assign ends_o      = on_q && (place_q.left == MissingW'(1) || many_i);
  assign back_o      = place_q.back;

  always_ff @(posedge clk_i) begin
    if (plan_i) last_o <= ends_o;
    if (read_i) {place_q, all_q, on_q} <= {places_q[slot_i], over_q[slot_i], active_q[slot_i] && !first_i};
    else if (redo_i) begin
      on_q <= few_i;
      if (few_i) place_q.left <= count_i;
      // A second gap before the first one is filled: on from the same place.
      if (few_i && !on_q) place_q.back <= '{wqe: dyn_i.wqe, psn: dyn_i.psn, offset: dyn_i.offset,
                                                rd_issued: dyn_i.rd_issued};
    end else if (sent_i && on_q) begin
      place_q.left <= last_o ? '0 : place_q.left - MissingW'(1);
    end
    if (we_i) begin
      places_q[slot_i] <= place_q;
      active_q[slot_i] <= on_q;
      over_q[slot_i]   <= place_q.left == '0;
    end
  end

endmodule
