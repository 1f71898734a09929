// Knows of every slot whether its QP may send: the gate of its SL is open, and that of its rate group. A slot
// that may not is not picked; it stays as it is until its gates open, or goes back when another QP needs the
// slot. One slot per shut SL or group is kept all the same (at most half of all slots) and served first when
// the gate opens: it has its WQEs, so a gate that opens for a moment lets something through. Latency of a gate:
// one cycle; of `hold_i` too, which comes a cycle before the group's gate shuts.
// The SL of a slot is the QP's, or that of the datagram at its head once the emitter has looked at it. A datagram
// that found no place in the header stage waits for one behind the gate, too; it keeps its slot, as places come back
// as fast as packets leave. One that was picked but came too late for a place is served first when there is one.
module hca_sq_gate
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW  = $clog2(Slots),
  localparam int unsigned Queues = NumLanes + RateGroups,
  localparam int unsigned QueueW = $clog2(Queues)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [NumLanes-1:0] sl_open_i,
  input  logic [RateGroups-1:0] rate_open_i,
  input  logic             hold_i,       // strobe: this group sends a packet and will be shut
  input  logic [RateGroupW-1:0] hold_group_i,
  input  logic [Queues-1:0] waiting_i,   // by SL, then by group: QPs wait for a slot
  input  logic             want_slot_i,  // one that may send does
  // SL and group of the QP in a slot, at its binding and when its context changes; they count two cycles later, before
  // that slot can have a turn.
  input  logic             set_i,
  input  logic [SlotW-1:0] set_slot_i,
  input  logic [LaneW-1:0] set_sl_i,
  input  logic [RateGroupW-1:0] set_group_i,
  // Strobes of the slot that the emitter serves: it has this SL from now on; it waits for room.
  input  logic             follow_i,
  input  logic [LaneW-1:0] follow_sl_i,
  input  logic             dry_i,
  input  logic             full_i,       // there is no room for a datagram
  output logic [LaneW-1:0] sl_o,         // of slot_i
  output logic [Slots-1:0] open_o,
  output logic [Slots-1:0] rated_o,    // has a group
  output logic [Slots-1:0] spare_o,    // shut, and may be given back
  output logic [Slots-1:0] first_o,    // kept or late, and open now
  // The slot that the emitter serves, and the one that it takes next.
  input  logic [SlotW-1:0] slot_i,
  input  logic             next_take_i,
  input  logic [SlotW-1:0] next_slot_i,
  output logic             shut_o,
  output logic             keep_o,     // if shut: it is kept, or only waits for room
  output logic             others_o,   // others may have it when its QP has had its share
  output logic             hand_o,     // given back now, it is for the next QP of its group
  input  logic             stopped_i,  // strobes: found shut before it could send
  input  logic             done_i      //          found open, or parked, or given back
);

  logic [LaneW-1:0]      sl_q [Slots];
  logic [RateGroupW-1:0] group_q [Slots];
  logic [Slots-1:0]  kept_q;
  logic [Slots-1:0]  dry_q;        // wait for room
  logic [Slots-1:0]  late_q;       // and have been picked in vain
  logic [Slots-1:0]  gates_q;      // their gates are open
  logic [Queues-1:0] has_kept_q;   // one of its slots is kept
  logic [SlotW:0]    count_q;      // kept slots
  logic [LaneW-1:0]      slot_sl_q;  // of slot_i
  logic [RateGroupW-1:0] slot_group_q;
  logic [QueueW-1:0] gate, drop_gate;
  logic [Slots-1:0]  gates;
  logic              keep_new, keep_gate, keep_now, drop_slot;
  logic              set_q, drop_q;  // what is set was there a cycle ago; two cycles ago, and its slot was kept
  logic [SlotW-1:0]      set_slot_q, drop_slot_q;
  logic [LaneW-1:0]      set_sl_q, drop_sl_q;
  logic [RateGroupW-1:0] set_group_q, drop_group_q;
  logic              kept_new_q, kept_less_q, late_new_q;  // a cycle ago: one more, one less; the slot was late
  logic [SlotW-1:0]  late_slot_q;

  function automatic logic [QueueW-1:0] gate_of(logic [LaneW-1:0] sl, logic [RateGroupW-1:0] group);
    return (group != '0) ? QueueW'(NumLanes) + QueueW'(group) : QueueW'(sl);
  endfunction

  assign gate     = gate_of(slot_sl_q, slot_group_q);

  assign drop_gate = gate_of(drop_sl_q, drop_group_q);

  assign sl_o     = slot_sl_q;
  assign shut_o   = !open_o[slot_i];
  // The slot of a group goes from one of its QPs to the next, whoever else wants one: a group that had to wait
  // for a slot would lose its rate.
  assign others_o = (slot_group_q != '0) ? waiting_i[gate] : want_slot_i;
  assign hand_o   = slot_group_q != '0 && waiting_i[gate] && keep_gate;
  assign spare_o  = ~gates_q & ~kept_q;
  assign first_o  = open_o & (kept_q | late_q);
  assign keep_new = !has_kept_q[gate] && count_q < (SlotW + 1)'(Slots / 2);
  assign keep_gate = kept_q[slot_i] || keep_new;
  assign keep_o   = keep_gate || gates_q[slot_i];
  assign keep_now = stopped_i && keep_new && !gates_q[slot_i];

  // A binding or a new context never falls together with a strobe of the turn's slot: turns pause for it.
  assign drop_slot = done_i && kept_q[slot_i];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {set_q, drop_q, kept_new_q, kept_less_q, late_new_q} <= '0;
      kept_q     <= '0;
      has_kept_q <= '0;
      count_q    <= '0;
    end else begin
      set_q  <= set_i;
      late_new_q <= stopped_i && gates_q[slot_i];
      drop_q <= set_q && kept_q[set_slot_q] && !(drop_q && drop_slot_q == set_slot_q);
      if (drop_q) begin
        kept_q[drop_slot_q]     <= 1'b0;
        has_kept_q[drop_gate] <= 1'b0;
      end
      if (drop_slot) begin
        kept_q[slot_i]   <= 1'b0;
        has_kept_q[gate] <= 1'b0;
      end
      if (keep_now) begin
        kept_q[slot_i]   <= 1'b1;
        has_kept_q[gate] <= 1'b1;
      end
      // Counted a cycle later: slots are never stopped one cycle after the other.
      kept_new_q  <= keep_now;
      kept_less_q <= drop_slot;
      count_q <= count_q + (SlotW + 1)'(kept_new_q) - (SlotW + 1)'(drop_q) - (SlotW + 1)'(kept_less_q);
    end
  end

  always_comb begin
    for (int unsigned s = 0; s < Slots; s++) begin
      gates[s] = sl_open_i[sl_q[s]]
                 && (group_q[s] == '0 || (rate_open_i[group_q[s]] && !(hold_i && hold_group_i == group_q[s])));
    end
  end

  always_ff @(posedge clk_i) begin
    // The emitter's slot is neither bound nor does its context change while its turn lasts; and it is not kept then.
    if (follow_i) sl_q[slot_i] <= follow_sl_i;
    // A new context or a binding never comes in the cycle in which the slot is taken.
    slot_sl_q    <= next_take_i ? sl_q[next_slot_i] : follow_i ? follow_sl_i : sl_q[slot_i];
    slot_group_q <= next_take_i ? group_q[next_slot_i] : group_q[slot_i];
    {set_slot_q, set_sl_q, set_group_q} <= {set_slot_i, set_sl_i, set_group_i};
    drop_slot_q <= set_slot_q;
    {drop_sl_q, drop_group_q} <= {sl_q[set_slot_q], group_q[set_slot_q]};
    if (set_q) sl_q[set_slot_q] <= set_sl_q;
    if (set_q) {dry_q[set_slot_q], late_q[set_slot_q]} <= '0;
    if (done_i) {dry_q[slot_i], late_q[slot_i]} <= '0;
    late_slot_q <= slot_i;
    if (late_new_q) late_q[late_slot_q] <= 1'b1;
    if (dry_i) dry_q[slot_i] <= 1'b1;
    if (set_q) group_q[set_slot_q] <= set_group_q;
    gates_q <= gates;
    open_o  <= gates & ~(dry_q & {Slots{full_i}});
    for (int unsigned s = 0; s < Slots; s++) rated_o[s] <= group_q[s] != '0;
  end

endmodule
