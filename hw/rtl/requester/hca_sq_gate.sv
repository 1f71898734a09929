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
  localparam int unsigned Queues = NumLanes + NumRateGroups,
  localparam int unsigned QueueW = $clog2(Queues)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [NumLanes-1:0] sl_open_i,
  input  logic [NumRateGroups-1:0] rate_open_i,
  input  logic             hold_i,       // strobe: this group (not 0) sends a packet and will be shut
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

  typedef struct packed {
    logic [LaneW-1:0]      sl;
    logic [RateGroupW-1:0] group;
  } row_t;

  // Of all slots at once for their gates. Who asks for one of them reads tables of one writer each, RAMs of LUTs.
  logic [LaneW-1:0]      sl_q [Slots];
  logic [RateGroupW-1:0] group_q [Slots];
  row_t                  rows_q [Slots];      // as set
  logic [LaneW-1:0]      follows_q [Slots];   // as the emitter has said since
  logic [Slots-1:0]      followed_q, grouped_q;   // grouped: has a group
  logic [Slots-1:0]  kept_q;
  logic [Slots-1:0]  dry_q;        // wait for room
  logic [Slots-1:0]  late_q;       // and have been picked in vain
  logic [Slots-1:0]  gates_q;      // their gates are open
  logic [Queues-1:0] has_kept_q;   // one of its slots is kept
  logic [SlotW:0]    count_q;      // kept slots
  logic [LaneW-1:0]      slot_sl_q;  // of slot_i
  logic [RateGroupW-1:0] slot_group_q;
  logic [QueueW-1:0] gate_q, drop_gate;   // of slot_i
  logic [Slots-1:0]  gates;
  logic [Slots-1:0]  slot_at, drop_at;
  logic              slot_gate_q;  // of slot_i, a cycle ago: it stops in the second cycle of its turn at the earliest
  logic              few, keep_new, keep_may, keep_gate, keep_now, drop_slot;
  // What is set was there a cycle ago; two cycles ago; and its slot was kept.
  logic              set_q, was_set_q, drop_q;
  logic [SlotW-1:0]      set_slot_q, drop_slot_q;
  row_t                  set_row_q, was_row_q, slot_row, next_row, drop_row, drop_row_q;
  logic [NumRateGroups-1:0] rates;
  logic              kept_new_q, kept_less_q, late_new_q;  // a cycle ago: one more, one less; the slot was late
  logic [SlotW-1:0]  late_slot_q;

  function automatic logic [QueueW-1:0] gate_of(logic [LaneW-1:0] sl, logic [RateGroupW-1:0] group);
    return (group != '0) ? QueueW'(NumLanes) + QueueW'(group) : QueueW'(sl);
  endfunction

  assign drop_gate = gate_of(drop_row_q.sl, drop_row_q.group);

  assign sl_o     = slot_sl_q;
  assign shut_o   = !open_o[slot_i];
  // The slot of a group goes from one of its QPs to the next, whoever else wants one: a group that had to wait
  // for a slot would lose its rate.
  assign others_o = (slot_group_q != '0) ? waiting_i[gate_q] : want_slot_i;
  assign hand_o   = slot_group_q != '0 && waiting_i[gate_q] && keep_gate;
  assign spare_o  = ~gates_q & ~kept_q;
  assign first_o  = open_o & (kept_q | late_q);
  assign few      = count_q < (SlotW + 1)'(Slots / 2);
  assign keep_new = !has_kept_q[gate_q] && few;
  assign keep_may = stopped_i && few && !slot_gate_q;
  assign keep_gate = kept_q[slot_i] || keep_new;
  assign keep_o   = keep_gate || gates_q[slot_i];
  assign keep_now = keep_may && !has_kept_q[gate_q];
  assign slot_at  = Slots'(1) << slot_i;
  assign drop_at  = Slots'(1) << drop_slot_q;

  // A slot's row is read when it is taken. A new context or a binding comes in that cycle or later, between turns.
  always_comb begin
    slot_row = '{sl: slot_sl_q, group: slot_group_q};
    if (was_set_q && drop_slot_q == slot_i) slot_row = was_row_q;
    if (follow_i) slot_row.sl = follow_sl_i;
    if (next_take_i) slot_row = next_row;
  end

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
      late_new_q <= stopped_i && slot_gate_q;
      drop_q <= set_q && kept_q[set_slot_q] && !(drop_q && drop_slot_q == set_slot_q);
      kept_q     <= (kept_q & ~({Slots{drop_q}} & drop_at) & ~({Slots{done_i}} & slot_at))
                    | ({Slots{keep_now}} & slot_at);
      // One that has a kept slot keeps no other: without a look at whether this one has.
      has_kept_q <= (has_kept_q & ~(Queues'(drop_q) << drop_gate) & ~(Queues'(drop_slot) << gate_q))
                    | (~has_kept_q & (Queues'(keep_may) << gate_q));
      // Counted a cycle later: slots are never stopped one cycle after the other.
      kept_new_q  <= keep_now;
      kept_less_q <= drop_slot;
      count_q <= count_q + (SlotW + 1)'(kept_new_q) - (SlotW + 1)'(drop_q) - (SlotW + 1)'(kept_less_q);
    end
  end

  // No group: always open. What holds one is late, and comes last.
  assign rates = rate_open_i | NumRateGroups'(1);

  always_comb begin
    for (int unsigned s = 0; s < Slots; s++) begin
      gates[s] = sl_open_i[sl_q[s]] && rates[group_q[s]] && !(hold_i && hold_group_i == group_q[s]);
    end
  end

  assign next_row = '{sl: followed_q[next_slot_i] ? follows_q[next_slot_i] : rows_q[next_slot_i].sl,
                      group: rows_q[next_slot_i].group};
  assign drop_row = '{sl: followed_q[set_slot_q] ? follows_q[set_slot_q] : rows_q[set_slot_q].sl,
                      group: rows_q[set_slot_q].group};

  always_ff @(posedge clk_i) begin
    // The emitter's slot is neither bound nor does its context change while its turn lasts; and it is not kept then.
    if (follow_i) begin
      sl_q[slot_i]       <= follow_sl_i;
      follows_q[slot_i]  <= follow_sl_i;
      followed_q[slot_i] <= 1'b1;
    end
    if (set_q) begin
      sl_q[set_slot_q]       <= set_row_q.sl;
      group_q[set_slot_q]    <= set_row_q.group;
      rows_q[set_slot_q]     <= set_row_q;
      grouped_q[set_slot_q]  <= set_row_q.group != '0;
      followed_q[set_slot_q] <= 1'b0;
    end
    was_set_q   <= set_q;
    was_row_q   <= set_row_q;
    set_slot_q  <= set_slot_i;
    set_row_q   <= '{sl: set_sl_i, group: set_group_i};
    drop_slot_q <= set_slot_q;
    drop_row_q  <= drop_row;
    {slot_sl_q, slot_group_q} <= slot_row;
    gate_q <= gate_of(slot_row.sl, slot_row.group);
    if (set_q) {dry_q[set_slot_q], late_q[set_slot_q]} <= '0;
    if (done_i) {dry_q[slot_i], late_q[slot_i]} <= '0;
    late_slot_q <= slot_i;
    if (late_new_q) late_q[late_slot_q] <= 1'b1;
    if (dry_i) dry_q[slot_i] <= 1'b1;
    gates_q <= gates;
    slot_gate_q <= gates_q[slot_i];
    open_o  <= gates & ~(dry_q & {Slots{full_i}});
    rated_o <= grouped_q;
  end

`ifndef SYNTHESIS
  logic [SlotW-1:0] slot_next_q;
  logic             known_q;

  always_ff @(posedge clk_i) begin
    known_q     <= !rst_i && (next_take_i || known_q);
    slot_next_q <= next_take_i ? next_slot_i : slot_i;
    if (!rst_i) begin
      assert (!known_q || slot_i == slot_next_q) else $error("hca_sq_gate: slot %0d was never taken", slot_i);
      assert (!(next_take_i && follow_i)) else $error("hca_sq_gate: slot %0d has a lane behind its turn", slot_i);
    end
  end
`endif

endmodule
