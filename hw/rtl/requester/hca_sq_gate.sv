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
  // SL and group of the QP in a slot, at its binding and when its context changes.
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
  // The slot that the emitter serves.
  input  logic [SlotW-1:0] slot_i,
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
  logic [QueueW-1:0] gate, set_gate;
  logic [Slots-1:0]  gates;
  logic              keep_new, keep_gate, keep_now, drop_set, drop_slot;

  function automatic logic [QueueW-1:0] gate_of(logic [LaneW-1:0] sl, logic [RateGroupW-1:0] group);
    return (group != '0) ? QueueW'(NumLanes) + QueueW'(group) : QueueW'(sl);
  endfunction

  assign gate     = gate_of(sl_q[slot_i], group_q[slot_i]);
  assign set_gate = gate_of(sl_q[set_slot_i], group_q[set_slot_i]);

  assign sl_o     = sl_q[slot_i];
  assign shut_o   = !open_o[slot_i];
  // The slot of a group goes from one of its QPs to the next, whoever else wants one: a group that had to wait
  // for a slot would lose its rate.
  assign others_o = (group_q[slot_i] != '0) ? waiting_i[gate] : want_slot_i;
  assign hand_o   = group_q[slot_i] != '0 && waiting_i[gate] && keep_gate;
  assign spare_o  = ~gates_q & ~kept_q;
  assign first_o  = open_o & (kept_q | late_q);
  assign keep_new = !has_kept_q[gate] && count_q < (SlotW + 1)'(Slots / 2);
  assign keep_gate = kept_q[slot_i] || keep_new;
  assign keep_o   = keep_gate || gates_q[slot_i];
  assign keep_now = stopped_i && keep_new && !gates_q[slot_i];

  // A binding or a new context never falls together with a strobe of the turn's slot: turns pause for it.
  assign drop_set  = set_i && kept_q[set_slot_i];
  assign drop_slot = done_i && kept_q[slot_i];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      kept_q     <= '0;
      has_kept_q <= '0;
      count_q    <= '0;
    end else begin
      if (drop_set) begin
        kept_q[set_slot_i]   <= 1'b0;
        has_kept_q[set_gate] <= 1'b0;
      end
      if (drop_slot) begin
        kept_q[slot_i]   <= 1'b0;
        has_kept_q[gate] <= 1'b0;
      end
      if (keep_now) begin
        kept_q[slot_i]   <= 1'b1;
        has_kept_q[gate] <= 1'b1;
      end
      count_q <= count_q + (SlotW + 1)'(keep_now) - (SlotW + 1)'(drop_set)
                 - (SlotW + 1)'(drop_slot);
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
    if (set_i) sl_q[set_slot_i] <= set_sl_i;
    if (set_i) {dry_q[set_slot_i], late_q[set_slot_i]} <= '0;
    if (done_i) {dry_q[slot_i], late_q[slot_i]} <= '0;
    if (stopped_i && gates_q[slot_i]) late_q[slot_i] <= 1'b1;
    if (dry_i) dry_q[slot_i] <= 1'b1;
    if (set_i) group_q[set_slot_i] <= set_group_i;
    gates_q <= gates;
    open_o  <= gates & ~(dry_q & {Slots{full_i}});
    for (int unsigned s = 0; s < Slots; s++) rated_o[s] <= group_q[s] != '0;
  end

endmodule
