// Which slot the emitter serves next: round robin over the bound slots that have news and whose gate is open, and those
// with a new QP that hca_sq_open has left to the emitter, behind a shut gate, too; first over the urgent ones: kept
// behind a gate that was shut, or of a rate group, which is open for a packet only. But when the newest packet was one
// of a rate group, first over all others. What counts is who has sent: a slot that was picked may find its gate shut
// again. While another QP waits for a slot, parked slots (blocked or idle) and spare ones (gate shut) get a turn too,
// in which the emitter gives them back.
// The slot under way (busy_slot_i) is never picked; news for it is kept for its next turn.
// Three stages, one pick at a time: who may, of which kind, who. A pick is there three cycles after the one before it
// was taken, and four after the news that it is for; a turn takes longer, unless its gate is found shut.
module hca_sq_pick #(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [Slots-1:0] kick_i,       // strobes: doorbell, acknowledge or context news
  input  logic [Slots-1:0] soft_i,       //          an acknowledge that is news only for who waits for one
  input  logic [Slots-1:0] wake_i,       //          WQEs have arrived
  input  logic [Slots-1:0] bind_i,       //          slot has a new QP, and may have turns
  input  logic             asked_i,      // with bind_i: there is nothing to see to before its WQEs come
  input  logic [Slots-1:0] open_i,
  input  logic [Slots-1:0] spare_i,
  input  logic [Slots-1:0] rated_i,
  input  logic [Slots-1:0] first_i,
  input  logic             want_slot_i,
  input  logic             busy_i,
  input  logic [SlotW-1:0] busy_slot_i,
  input  logic             again_i,      // strobes for busy_slot_i: more to do now
  input  logic             park_i,       //                          nothing to do before the next news
  input  logic             sent_i,       //                          it has sent a packet
  input  logic             redo_i,       //                          the new QP has been seen
  input  logic             deaf_i,       //                          acknowledges change nothing before its next turn
  input  logic             leaving_i,    // leaving_slot_i is on its way back to the scheduler: no turns
  input  logic [SlotW-1:0] leaving_slot_i,
  input  logic             gone_i,       // strobe: it is there
  output logic             fresh_o,      // busy_slot_i has a QP not seen yet
  output logic             next_valid_o,
  output logic [SlotW-1:0] next_slot_o,
  output logic             next_parked_o, // it has no news
  input  logic             next_take_i,
  output logic             urgent_o,      // an urgent slot waits for its turn
  output logic [Slots-1:0] active_o
);

  logic [Slots-1:0] active_q, parked_q, fresh_q, bound_q, deaf_q;
  logic [Slots-1:0] busy_at, next_at_q, leaving, fresh, gone, candidates, rated, others, grant, picked;
  logic [SlotW-1:0] idx;
  logic             pick, wanted, rated_last_q;

  assign active_o = active_q;
  assign fresh_o  = fresh_q[busy_slot_i];
  assign busy_at  = Slots'(busy_i) << busy_slot_i;
  assign leaving  = Slots'(leaving_i) << leaving_slot_i;
  assign gone     = gone_i ? leaving : '0;
  assign fresh    = asked_i ? '0 : bind_i;

  // ---- Who may have a turn --------------------------------------------------------------------------
  // Two cycles pass from here to the pick. Whoever is neither under way nor next stays so until then.
  logic [Slots-1:0] rated_q, first_q, others_q;
  logic             seen_q;  // these are of a time when the place of the next one was free

  assign candidates = ((active_q & (open_i | fresh_q)) | (want_slot_i ? ((active_q & spare_i) | parked_q) : '0))
                      & bound_q & ~busy_at & ~next_at_q & ~leaving;
  assign rated      = candidates & active_q & open_i & rated_i;
  assign others     = candidates & ~rated;
  assign wanted     = !next_valid_o || next_take_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) seen_q <= 1'b0;
    else seen_q <= wanted && !pick;
    rated_q  <= rated;
    first_q  <= others & active_q & first_i;
    others_q <= others;
  end

  // ---- Of which kind, and who of it has not had a turn in this round --------------------------------
  // Kinds have rounds of their own: with one for both, a slot of a group that is always open would bring it back to the
  // same neighbour each time.
  logic [Slots-1:0] rated_round_q, others_round_q, rated_left, first_left, others_left, from, from_q;
  logic             use_rated, use_first, use_others, again_rated, again_others, use_rated_q, found_q;

  assign use_rated    = rated_q != '0 && !(rated_last_q && others_q != '0);
  assign use_first    = !use_rated && first_q != '0;
  assign use_others   = !use_rated && first_q == '0;
  assign rated_left   = rated_q & rated_round_q;
  assign first_left   = first_q & others_round_q;
  assign others_left  = others_q & others_round_q;
  // A round begins again. What all have in common is decided first: two LUTs are left for each.
  assign again_rated  = rated_left == '0;
  assign again_others = (first_q != '0) ? first_left == '0 : others_left == '0;
  assign from         = ({Slots{use_rated}} & rated_q & (rated_round_q | {Slots{again_rated}}))
                        | ((({Slots{use_first}} & first_q) | ({Slots{use_others}} & others_q))
                           & (others_round_q | {Slots{again_others}}));

  always_ff @(posedge clk_i) begin
    if (rst_i) found_q <= 1'b0;
    else found_q <= seen_q && wanted && !pick && (rated_q | others_q) != '0;
    from_q      <= from;
    use_rated_q <= use_rated;
  end

  // ---- The pick -------------------------------------------------------------------------------------
  logic [Slots-1:0] negated, round;

  assign negated = ~from_q + 1'b1;             // the same up to the lowest set bit, the opposite above it
  assign grant   = from_q & negated;           // lowest set bit
  assign round   = (from_q | negated) & ~grant;  // all above it
  assign pick    = found_q && wanted;
  assign picked  = pick ? grant : '0;

  // Its number, and whether it has news, are found beside the chain for all that hangs on each slot.
  logic picked_news, unused_none, unused_wraps, unused_note;
  logic [SlotW-1:0] unused_behind;

  hca_low_index #(.N(Slots)) u_low (
    .bits_i(from_q), .notes_i(active_q), .later_i('0), .none_o(unused_none), .idx_o(idx), .note_o(picked_news),
    .wraps_o(unused_wraps), .behind_o(unused_behind), .behind_note_o(unused_note)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q     <= '0;
      parked_q     <= '0;
      fresh_q      <= '0;
      bound_q      <= '0;
      deaf_q       <= '0;
      next_at_q    <= '0;
      next_valid_o <= 1'b0;
      urgent_o     <= 1'b0;
      rated_round_q  <= '1;
      others_round_q <= '1;
    end else begin
      urgent_o <= !pick && ((rated_q | first_q) & ~next_at_q) != '0;
      active_q <= (active_q & ~picked & ~gone)
                  | kick_i | (soft_i & ~deaf_q) | wake_i | fresh | (again_i ? busy_at : '0);
      parked_q <= (parked_q & ~picked & ~bind_i) | (park_i ? busy_at : '0);
      fresh_q  <= (fresh_q & ~(redo_i ? busy_at : '0)) | fresh;
      bound_q  <= (bound_q & ~gone) | bind_i;
      deaf_q   <= (deaf_q & ~picked & ~bind_i) | (deaf_i ? busy_at : '0) | (bind_i & ~fresh);
      if (pick || next_take_i) {next_valid_o, next_at_q} <= {pick, picked};
      if (pick && use_rated_q) rated_round_q <= round;
      if (pick && !use_rated_q) others_round_q <= round;
    end
    if (sent_i) rated_last_q <= rated_i[busy_slot_i];
    if (pick) next_slot_o <= idx;
    if (pick) next_parked_o <= !picked_news;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert ((bind_i & bound_q) == '0) else $error("hca_sq_pick: a slot that has a QP gets one");
      assert (!gone_i || (bound_q & leaving) != '0) else $error("hca_sq_pick: slot %0d has no QP", leaving_slot_i);
      assert ((picked & (busy_at | next_at_q | leaving | ~bound_q)) == '0)
        else $error("hca_sq_pick: slot %0d may have no turn now", idx);
    end
  end
`endif

endmodule
