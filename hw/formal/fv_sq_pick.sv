// Proof of hca_sq_pick: who is offered is bound, is neither the slot under way nor one that leaves, and has news or is
// wanted back. Fair: of those that may have a turn, each is passed over by another one of its kind once at most (slots
// of rate groups are a kind, those kept behind a gate another); and after a packet of a rate group a slot without one
// comes first. A turn is never forgotten: who has news keeps it until it is offered or given back.
module fv_sq_pick #(
  parameter int unsigned Slots = 4,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input logic             clk_i,
  input logic [Slots-1:0] kick_i,
  input logic [Slots-1:0] soft_i,
  input logic [Slots-1:0] wake_i,
  input logic [Slots-1:0] bind_i,
  input logic [Slots-1:0] open_i,
  input logic [Slots-1:0] spare_i,
  input logic [Slots-1:0] rated_i,
  input logic [Slots-1:0] first_i,
  input logic             want_slot_i,
  input logic             pause_i,
  input logic             busy_i,
  input logic [SlotW-1:0] busy_slot_i,
  input logic             again_i,
  input logic             park_i,
  input logic             sent_i,
  input logic             redo_i,
  input logic             deaf_i,
  input logic             leaving_i,
  input logic [SlotW-1:0] leaving_slot_i,
  input logic             gone_i,
  input logic             next_take_i
);
  logic             rst_q = 1'b1;
  logic             fresh, next_valid, next_parked, urgent, pick, use_rated, waits, mine, news, deaf_q, of_rated,
                    of_rated_q;
  logic [SlotW-1:0] next_slot, watched_q, other_q, picked;
  logic [Slots-1:0] active;
  logic             passed_q, news_q;  // the other one was picked while the watched one waited; it has news
  logic [Slots-1:0] mask;              // the round of its kind

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_sq_pick #(.Slots(Slots)) u_dut (
    .clk_i, .rst_i(rst_q), .kick_i, .soft_i, .wake_i, .bind_i, .open_i, .spare_i, .rated_i, .first_i, .want_slot_i,
    .pause_i, .busy_i, .busy_slot_i, .again_i, .park_i, .sent_i, .redo_i, .deaf_i, .leaving_i, .leaving_slot_i, .gone_i,
    .fresh_o(fresh), .next_valid_o(next_valid), .next_slot_o(next_slot), .next_parked_o(next_parked), .next_take_i,
    .urgent_o(urgent), .active_o(active)
  );

  assign pick      = u_dut.pick;
  assign picked    = u_dut.idx;
  assign use_rated = u_dut.use_rated;
  // The watched one waits for its kind's turn: of a rate group, or of all others while nobody is kept behind a gate.
  assign of_rated  = u_dut.rated[watched_q];
  assign mine      = of_rated == use_rated;
  assign waits     = u_dut.candidates[watched_q] && (of_rated || u_dut.first == '0);
  assign mask      = of_rated ? u_dut.u_rated.mask_q : u_dut.u_others.mask_q;
  assign news      = kick_i[watched_q] || wake_i[watched_q] || bind_i[watched_q]
                     || (soft_i[watched_q] && !deaf_q) || (again_i && busy_slot_i == watched_q);

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    other_q   <= other_q;
    of_rated_q <= of_rated;
    if (rst_q || !waits || (pick && picked == watched_q)) passed_q <= 1'b0;
    else if (pick && mine && picked == other_q) passed_q <= 1'b1;
    else if (of_rated != of_rated_q) passed_q <= 1'b0;
    // What it must not forget.
    if (rst_q || (pick && picked == watched_q && !news)
        || (gone_i && leaving_i && leaving_slot_i == watched_q && !news)) begin
      news_q <= 1'b0;
    end else if (news) begin
      news_q <= 1'b1;
    end
    if (rst_q) deaf_q <= 1'b0;
    else if (bind_i[watched_q] || (pick && picked == watched_q)) deaf_q <= deaf_i && busy_slot_i == watched_q;
    else if (deaf_i && busy_slot_i == watched_q) deaf_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q && watched_q != other_q) begin
      if (pick) begin
        a_bound: assert (u_dut.bound_q[picked] && !(busy_i && picked == busy_slot_i)
                         && !(leaving_i && picked == leaving_slot_i));
        a_cause: assert (u_dut.active_q[picked] || (want_slot_i && u_dut.parked_q[picked]));
        a_turns: assert (!(u_dut.rated_last_q && u_dut.others != '0 && u_dut.rated[picked]));
        a_somebody: assert (u_dut.grant != '0 && u_dut.grant[picked]);
      end
      a_news: assert (!news_q || u_dut.active_q[watched_q]);
      // Its kind has not changed: the round knows of it.
      if (waits && passed_q && of_rated == of_rated_q) begin
        if (pick && mine) a_fair: assert (picked != other_q);
        if (other_q < watched_q) h_below: assert (mask[watched_q] && !mask[other_q]);
        if (!mask[watched_q]) h_above: assert (!mask[other_q]);
      end
      h_rounds: assert ((~u_dut.u_rated.mask_q & (~u_dut.u_rated.mask_q + 1'b1)) == '0
                        && (~u_dut.u_others.mask_q & (~u_dut.u_others.mask_q + 1'b1)) == '0);
      h_deaf: assert (deaf_q == u_dut.deaf_q[watched_q]);
      c_soft: cover (soft_i[watched_q] && deaf_q && u_dut.bound_q[watched_q]);
      c_rated: cover (pick && use_rated && u_dut.others != '0);
      c_leaving: cover (leaving_i && news && leaving_slot_i == watched_q);
    end
  end
endmodule
