// Knows of every slot whether its QP may send: the gate of its SL. A slot that may not is not picked; it
// stays as it is until its gate opens, or goes back when another QP needs the slot. One slot per shut SL is
// kept all the same (at most half of all slots) and served first when the gate opens: it has its WQEs, so a
// gate that opens for a moment lets something through. Latency of a gate: one cycle.
module hca_sq_gate
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [NumLanes-1:0] sl_open_i,
  // SL of the QP in a slot, at its binding and when its context changes.
  input  logic             set_i,
  input  logic [SlotW-1:0] set_slot_i,
  input  logic [LaneW-1:0] set_sl_i,
  output logic [Slots-1:0] open_o,
  output logic [Slots-1:0] spare_o,    // shut, and may be given back
  output logic [Slots-1:0] first_o,    // kept, and open now
  // The slot that the emitter serves.
  input  logic [SlotW-1:0] slot_i,
  output logic             shut_o,
  output logic             keep_o,     // if shut: it is kept
  input  logic             stopped_i,  // strobes: found shut
  input  logic             done_i      //          found open, or parked, or given back
);

  logic [LaneW-1:0] sl_q [Slots];
  logic [Slots-1:0] kept_q;
  logic [NumLanes-1:0] has_kept_q; // by SL: one of its slots is kept
  logic [SlotW:0]   count_q;      // kept slots
  logic             keep_new, drop_set, drop_slot;

  assign shut_o   = !open_o[slot_i];
  assign spare_o  = ~open_o & ~kept_q;
  assign first_o  = open_o & kept_q;
  assign keep_new = !has_kept_q[sl_q[slot_i]] && count_q < (SlotW + 1)'(Slots / 2);
  assign keep_o   = kept_q[slot_i] || keep_new;

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
        kept_q[set_slot_i]           <= 1'b0;
        has_kept_q[sl_q[set_slot_i]] <= 1'b0;
      end
      if (drop_slot) begin
        kept_q[slot_i]           <= 1'b0;
        has_kept_q[sl_q[slot_i]] <= 1'b0;
      end
      if (stopped_i && keep_new) begin
        kept_q[slot_i]           <= 1'b1;
        has_kept_q[sl_q[slot_i]] <= 1'b1;
      end
      count_q <= count_q + (SlotW + 1)'(stopped_i && keep_new) - (SlotW + 1)'(drop_set)
                 - (SlotW + 1)'(drop_slot);
    end
  end

  always_ff @(posedge clk_i) begin
    if (set_i) sl_q[set_slot_i] <= set_sl_i;
    for (int unsigned s = 0; s < Slots; s++) open_o[s] <= sl_open_i[sl_q[s]];
  end

endmodule
