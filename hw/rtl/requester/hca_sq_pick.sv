// Which slot the emitter serves next: round robin over the bound slots that have news and whose gate is open,
// first over the urgent ones: kept behind a gate that was shut, or of a rate group, which is open for a packet
// only. But when the newest packet was one of a rate group, first over all others. What counts is who has sent: a
// slot that was picked may find its gate shut again.
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
  input  logic             release_i,    //                          given back
  output logic             fresh_o,      // busy_slot_i has a QP not seen yet
  output logic             next_valid_o,
  output logic [SlotW-1:0] next_slot_o,
  output logic             next_parked_o, // it has no news
  input  logic             next_take_i,
  output logic             urgent_o,      // an urgent slot waits for its turn
  output logic [Slots-1:0] active_o
);

  logic [Slots-1:0] active_q, parked_q, fresh_q, bound_q;
  logic [Slots-1:0] busy_onehot, next_onehot, candidates, urgent, rated, others, first, choice, grant, picked;
  logic [SlotW-1:0] idx;
  logic             pick, rated_last_q;

  assign active_o = active_q;
  assign fresh_o  = fresh_q[busy_slot_i];

  always_comb begin
    busy_onehot = '0;
    busy_onehot[busy_slot_i] = 1'b1;
    next_onehot = '0;
    next_onehot[next_slot_o] = next_valid_o;
  end

  assign candidates = ((active_q & open_i) | (want_slot_i ? ((active_q & spare_i) | parked_q) : '0)) & bound_q
                      & ~(busy_i ? busy_onehot : '0) & ~next_onehot;
  assign rated      = candidates & active_q & open_i & rated_i;
  assign others     = candidates & ~rated;
  assign first      = others & active_q & first_i;
  assign urgent     = rated | first;

  always_comb begin
    choice = candidates;
    if (rated_last_q && others != '0) choice = (first != '0) ? first : others;
    else if (urgent != '0) choice = urgent;
  end
  assign pick       = !pause_i && (candidates != '0) && (!next_valid_o || next_take_i);
  assign picked     = pick ? grant : '0;

  hca_rr_arb #(.N(Slots)) u_arb (
    .clk_i, .rst_i,
    .req_i    (choice),
    .advance_i(pick),
    .grant_o  (grant),
    .idx_o    (idx)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q     <= '0;
      parked_q     <= '0;
      fresh_q      <= '0;
      bound_q      <= '0;
      next_valid_o <= 1'b0;
      urgent_o     <= 1'b0;
    end else begin
      urgent_o <= (urgent & ~picked) != '0;
      active_q <= (active_q & ~picked & ~(release_i ? busy_onehot : '0))
                  | kick_i | wake_i | bind_i | (again_i ? busy_onehot : '0);
      parked_q <= (parked_q & ~picked & ~bind_i) | (park_i ? busy_onehot : '0);
      fresh_q  <= (fresh_q & ~(redo_i ? busy_onehot : '0)) | bind_i;
      bound_q  <= (bound_q & ~(release_i ? busy_onehot : '0)) | bind_i;
      if (pick) next_valid_o <= 1'b1;
      else if (next_take_i) next_valid_o <= 1'b0;
    end
    if (sent_i) rated_last_q <= rated_i[busy_slot_i];
    if (pick) next_slot_o <= idx;
    if (pick) next_parked_o <= !active_q[idx];
  end

endmodule
