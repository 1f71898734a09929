// Which slot the emitter serves next: round robin over the bound slots that have news and whose gate is open, and those
// with a new QP, whose WQEs are asked for behind a shut gate, too; first over the urgent ones: kept behind a gate that
// was shut, or of a rate group, which is open for a packet only. But when the newest packet was one of a rate group,
// first over all others. What counts is who has sent: a slot that was picked may find its gate shut again.
// While another QP waits for a slot, parked slots (blocked or idle) and spare ones (gate shut) get a turn too,
// in which the emitter can give them back.
// The slot under way (busy_slot_i) is never picked; news for it is kept for its next turn.
module hca_sq_pick #(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [Slots-1:0] kick_i,       // strobes: doorbell, acknowledge or context news
  input  logic [Slots-1:0] soft_i,       //          an acknowledge that is news only for who waits for one
  input  logic [Slots-1:0] wake_i,       //          WQEs have arrived
  input  logic [Slots-1:0] bind_i,       //          slot has a new QP
  input  logic [Slots-1:0] open_i,
  input  logic [Slots-1:0] spare_i,
  input  logic [Slots-1:0] rated_i,
  input  logic [Slots-1:0] first_i,
  input  logic             want_slot_i,
  input  logic             pause_i,
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
  logic [Slots-1:0] busy_onehot, next_onehot, leaving, gone, candidates, urgent, rated, others, first, grant, picked;
  logic [SlotW-1:0] idx, rated_idx, other_idx;
  logic [Slots-1:0] rated_grant, other_grant;
  logic             pick, rated_last_q, use_rated;

  assign active_o = active_q;
  assign fresh_o  = fresh_q[busy_slot_i];

  always_comb begin
    busy_onehot = '0;
    busy_onehot[busy_slot_i] = 1'b1;
    next_onehot = '0;
    next_onehot[next_slot_o] = next_valid_o;
    leaving = '0;
    leaving[leaving_slot_i] = leaving_i;
  end

  assign candidates = ((active_q & (open_i | fresh_q)) | (want_slot_i ? ((active_q & spare_i) | parked_q) : '0))
                      & bound_q & ~(busy_i ? busy_onehot : '0) & ~next_onehot & ~leaving;
  assign rated      = candidates & active_q & open_i & rated_i;
  assign others     = candidates & ~rated;
  assign first      = others & active_q & first_i;
  assign urgent     = rated | first;

  assign pick       = !pause_i && (candidates != '0) && (!next_valid_o || next_take_i);
  assign picked     = pick ? grant : '0;
  assign gone       = gone_i ? leaving : '0;

  // In turns of their own: with one pointer for both, a slot of a group that is always open would bring it back to the
  // same neighbour each time.
  assign use_rated = rated != '0 && !(rated_last_q && others != '0);
  assign grant     = use_rated ? rated_grant : other_grant;
  assign idx       = use_rated ? rated_idx : other_idx;

  hca_rr_arb #(.N(Slots)) u_rated (
    .clk_i, .rst_i,
    .req_i    (rated),
    .advance_i(pick && use_rated),
    .grant_o  (rated_grant),
    .idx_o    (rated_idx)
  );

  hca_rr_arb #(.N(Slots)) u_others (
    .clk_i, .rst_i,
    .req_i    ((first != '0) ? first : others),
    .advance_i(pick && !use_rated),
    .grant_o  (other_grant),
    .idx_o    (other_idx)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q     <= '0;
      parked_q     <= '0;
      fresh_q      <= '0;
      bound_q      <= '0;
      deaf_q       <= '0;
      next_valid_o <= 1'b0;
      urgent_o     <= 1'b0;
    end else begin
      urgent_o <= (urgent & ~picked) != '0;
      active_q <= (active_q & ~picked & ~gone)
                  | kick_i | (soft_i & ~deaf_q) | wake_i | bind_i | (again_i ? busy_onehot : '0);
      parked_q <= (parked_q & ~picked & ~bind_i) | (park_i ? busy_onehot : '0);
      fresh_q  <= (fresh_q & ~(redo_i ? busy_onehot : '0)) | bind_i;
      bound_q  <= (bound_q & ~gone) | bind_i;
      deaf_q   <= (deaf_q & ~picked & ~bind_i) | (deaf_i ? busy_onehot : '0);
      if (pick) next_valid_o <= 1'b1;
      else if (next_take_i) next_valid_o <= 1'b0;
    end
    if (sent_i) rated_last_q <= rated_i[busy_slot_i];
    if (pick) next_slot_o <= idx;
    if (pick) next_parked_o <= !active_q[idx];
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert ((bind_i & bound_q) == '0) else $error("hca_sq_pick: a slot that has a QP gets one");
      assert (!gone_i || (bound_q & leaving) != '0) else $error("hca_sq_pick: slot %0d has no QP", leaving_slot_i);
    end
  end
`endif

endmodule
