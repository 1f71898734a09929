// Proof of hca_sq_pick: who is offered is bound, is neither the slot under way nor one that leaves, and had news or was
// wanted back two cycles before. Fair: of those that might have a turn then, each is passed over by another one of its
// kind once at most (slots of rate groups are a kind, those kept behind a gate another); and after a packet of a rate
// group a slot without one comes first. A turn is never forgotten: who has news keeps it until it is offered or given
// back. Taken for granted: only the slot that was offered and taken gets under way, and only the one under way leaves.
module fv_sq_pick #(
  parameter int unsigned Slots = 4,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input logic             clk_i,
  input logic [Slots-1:0] kick_i,
  input logic [Slots-1:0] soft_i,
  input logic [Slots-1:0] wake_i,
  input logic [Slots-1:0] bind_i,
  input logic             asked_i,
  input logic [Slots-1:0] open_i,
  input logic [Slots-1:0] spare_i,
  input logic [Slots-1:0] rated_i,
  input logic [Slots-1:0] first_i,
  input logic             want_slot_i,
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
  logic             fresh, next_valid, next_parked, urgent, pick, use_rated, rests, news, deaf_q, of_rated_q;
  logic [SlotW-1:0] next_slot, watched_q, other_q, picked;
  logic [Slots-1:0] active;
  logic             passed_q, news_q;  // the other one was picked while the watched one waited; it has news
  logic [Slots-1:0] round, of_kind;    // of the watched one's kind; of the pick's

  // Of what the pick was made from: is the watched one there, of a rate group, and must that be another one's turn?
  logic             watched_at, of_rated_at, lone_at;
  // The emitter: what it took last, whom it serves, who leaves.
  logic             is_taken_q, was_busy_q, is_leaving_q;
  logic [SlotW-1:0] taken_q, was_slot_q, left_q;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_sq_pick #(.Slots(Slots)) u_dut (
    .clk_i, .rst_i(rst_q), .kick_i, .soft_i, .wake_i, .bind_i, .asked_i, .open_i, .spare_i, .rated_i, .first_i,
    .want_slot_i, .busy_i, .busy_slot_i, .again_i, .park_i, .sent_i, .redo_i, .deaf_i, .leaving_i,
    .leaving_slot_i, .gone_i, .fresh_o(fresh), .next_valid_o(next_valid), .next_slot_o(next_slot),
    .next_parked_o(next_parked), .next_take_i, .urgent_o(urgent), .active_o(active)
  );

  assign pick      = u_dut.pick;
  assign picked    = u_dut.idx;
  assign use_rated = u_dut.use_rated_q;
  assign news      = kick_i[watched_q] || wake_i[watched_q] || (bind_i[watched_q] && !asked_i)
                     || (soft_i[watched_q] && !deaf_q) || (again_i && busy_i && busy_slot_i == watched_q);

  assign rests     = u_dut.bound_q[watched_q] && !u_dut.next_at_q[watched_q] && !(is_taken_q && taken_q == watched_q)
                     && !(is_leaving_q && left_q == watched_q) && !(was_busy_q && was_slot_q == watched_q);
  assign of_kind   = use_rated ? u_dut.rated_round_q : u_dut.others_round_q;
  assign round     = of_rated_q ? u_dut.rated_round_q : u_dut.others_round_q;

  always_ff @(posedge clk_i) begin
    watched_q   <= watched_q;
    other_q     <= other_q;
    // The watched one waited for its kind's turn: of a rate group, or of all others while nobody is kept behind a gate.
    of_rated_at <= u_dut.rated_q[watched_q];
    watched_at  <= u_dut.rated_q[watched_q] || (u_dut.others_q[watched_q] && u_dut.first_q == '0);
    lone_at     <= u_dut.rated_last_q && u_dut.others_q != '0;
    if (rst_q) passed_q <= 1'b0;
    else if (pick && picked == watched_q) passed_q <= 1'b0;
    else if (pick && picked == other_q && watched_at && of_rated_at == use_rated) begin
      passed_q   <= 1'b1;
      of_rated_q <= of_rated_at;
    end else if (pick && !(watched_at && of_rated_at == of_rated_q) && use_rated == of_rated_q) begin
      passed_q <= 1'b0;  // it did not ask in that round
    end
    // What it must not forget.
    if (rst_q || (pick && picked == watched_q && !news)
        || (gone_i && leaving_i && leaving_slot_i == watched_q && !news)) begin
      news_q <= 1'b0;
    end else if (news) begin
      news_q <= 1'b1;
    end
    if (rst_q) deaf_q <= 1'b0;
    else if (bind_i[watched_q] || (pick && picked == watched_q)) begin
      deaf_q <= (deaf_i && busy_i && busy_slot_i == watched_q) || (bind_i[watched_q] && asked_i);
    end else if (deaf_i && busy_i && busy_slot_i == watched_q) begin
      deaf_q <= 1'b1;
    end
    is_taken_q   <= !rst_q && (next_take_i || (busy_i && is_taken_q));
    was_busy_q   <= !rst_q && busy_i;
    is_leaving_q <= !rst_q && leaving_i && !gone_i;
    was_slot_q   <= busy_slot_i;
    left_q       <= leaving_slot_i;
    if (next_take_i) taken_q <= next_slot;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      m_take: assume (!next_take_i || next_valid);
      m_busy: assume (!busy_i || (is_taken_q && busy_slot_i == taken_q));
      m_leave: assume (!leaving_i || (is_leaving_q ? leaving_slot_i == left_q
                                                   : was_busy_q && leaving_slot_i == was_slot_q));
      m_stays: assume (!is_leaving_q || leaving_i);
      m_gone: assume (!gone_i || leaving_i);
      m_bind: assume ((bind_i & u_dut.bound_q) == '0);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q && watched_q != other_q) begin
      if (pick) begin
        a_bound: assert (u_dut.bound_q[picked] && !(busy_i && picked == busy_slot_i)
                         && !(leaving_i && picked == leaving_slot_i));
        a_turns: assert (!(lone_at && use_rated));
        a_somebody: assert (u_dut.grant != '0 && u_dut.grant[picked]);
      end
      a_news: assert (!news_q || u_dut.active_q[watched_q]);
      if (passed_q) begin
        if (pick && watched_at && of_rated_at == use_rated && use_rated == of_rated_q) begin
          a_fair: assert (picked != other_q);
        end
        if (other_q < watched_q) h_below: assert (round[watched_q] && !round[other_q]);
        if (!round[watched_q]) h_above: assert (!round[other_q]);
      end
      // Who has been seen, and is not picked yet, keeps its QP, and stays out of the emitter.
      if (u_dut.seen_q && (u_dut.rated_q[watched_q] || u_dut.others_q[watched_q])) h_seen: assert (rests);
      if (u_dut.found_q) begin
        if (u_dut.from_q[watched_q]) h_from: assert (rests);
        h_some: assert (u_dut.from_q != '0);
        h_kind: assert (!u_dut.from_q[watched_q] || !watched_at || of_rated_at == use_rated);
        // Those of its kind that have not had a turn in this round, or, if there are none, all of its kind.
        if (watched_at && of_rated_at == use_rated) begin
          h_left: assert ((u_dut.from_q & ~of_kind) == '0 || (u_dut.from_q & of_kind) == '0);
          h_there: assert (u_dut.from_q[watched_q] || ((u_dut.from_q & ~of_kind) == '0 && !of_kind[watched_q]));
        end
      end
      h_next: assert (u_dut.next_at_q == (next_valid ? Slots'(1) << next_slot : '0));
      if (next_valid) begin
        h_lives: assert (u_dut.bound_q[next_slot] && !(is_taken_q && taken_q == next_slot)
                         && !(is_leaving_q && left_q == next_slot) && !(was_busy_q && was_slot_q == next_slot));
      end
      h_rounds: assert ((~u_dut.rated_round_q & (~u_dut.rated_round_q + 1'b1)) == '0
                        && (~u_dut.others_round_q & (~u_dut.others_round_q + 1'b1)) == '0);
      h_deaf: assert (deaf_q == u_dut.deaf_q[watched_q]);
      c_soft: cover (soft_i[watched_q] && deaf_q && u_dut.bound_q[watched_q]);
      c_rated: cover (pick && use_rated && u_dut.others_q != '0);
      c_passed: cover (pick && passed_q && picked == watched_q);
      c_leaving: cover (leaving_i && news && leaving_slot_i == watched_q);
    end
  end
endmodule
