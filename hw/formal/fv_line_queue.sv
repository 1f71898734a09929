// Proof of hca_line_queue: who comes in goes out once, in its own queue's order; a doorbell that was taken and a wish
// of firmware's are never lost, a packet only to the packet behind it, or to one of its QP that waits still. Those that
// come again do so one in 8 cycles at most, or one in 4 while no new one may go, those for whom a holder is to leave
// one in 8, and neither are passed over; with the rules of hca_lines (fresh ones, and further holders that are to
// leave, only while there is room for all its places) there is always room for them (decision 0082).
module fv_line_queue
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 2,
  parameter int unsigned Again = 16,
  parameter int unsigned Drains = 8,
  localparam int unsigned AgainW = $clog2(Again) + 1,
  localparam int unsigned DrainW = $clog2(Drains) + 1
) (
  input logic        clk_i,
  input logic        db_valid_i,
  input line_want_t  db_i,
  input logic        pkt_valid_i,
  input logic [23:0] pkt_qpn_i,
  input logic        park_valid_i,
  input line_want_t  park_i,
  input logic        fw_valid_i,
  input line_want_t  fw_i,
  input logic        out_ready_i,
  input logic        again_valid_i,
  input logic        again_drains_i,
  input line_want_t  again_i,
  input logic        ends_i,         // one of those that are out is done
  input logic        leaves_i,       // one that might have waited for a holder is done, or comes again otherwise
  input logic        starts_i        // a holder is to leave; anybody who is out may wait for it
);
  localparam int unsigned W = $bits(line_want_t);
  localparam int unsigned FreshW = 4, AgainSeqW = AgainW + 1, DrainSeqW = DrainW + 1;
  localparam int unsigned OutW = $clog2(Slots) + 3;

  logic              rst_q = 1'b1;
  logic              db_ready, park_ready, fw_room, out_valid, out_drains, fresh_en, drain_room, takes, takes_again,
                     takes_drain,
                     takes_fresh, pushes, pushes_again, pushes_drain;
  line_want_t        out, pkt;
  logic [AgainW-1:0] again_count;
  logic [DrainW-1:0] drain_count;
  logic [OutW-1:0]   outside_q;      // taken, and neither done nor back: in hand, behind a hand-over, in places
  logic [OutW-1:0]   leaving_q;      // of them: those who may wait for a holder to leave
  logic              fw_q, pkt_q;    // firmware's, and the last packet, are not in the queue yet
  line_want_t        fw_want_q, pkt_want_q;
  logic [4:0]        since_again_q, since_drain_q;   // cycles since one came again
  logic              could_q;                        // a new one could have gone in the cycle before
  logic [FreshW-1:0] last_q;         // the last packet's place in the queue

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  // As hca_lines has it.
  assign fresh_en   = again_count < AgainW'(Again - Drains - Slots - 4);
  assign drain_room = drain_count < DrainW'(Drains - Slots - 4);
  assign pkt        = '{kind: MissAsk, func: '0, qpn: pkt_qpn_i, pi: '0};

  hca_line_queue #(.Depth(4), .Again(Again), .Drains(Drains)) u_dut (
    .clk_i, .rst_i(rst_q), .db_valid_i, .db_ready_o(db_ready), .db_i, .pkt_valid_i, .pkt_i(pkt), .park_valid_i,
    .park_ready_o(park_ready), .park_i, .fw_valid_i, .fw_room_o(fw_room), .fw_i, .again_valid_i, .again_drains_i,
    .again_i, .again_count_o(again_count),
    .drain_count_o(drain_count), .fresh_en_i(fresh_en), .out_valid_o(out_valid), .out_ready_i,
    .out_drains_o(out_drains), .out_o(out)
  );

  assign takes        = out_valid && out_ready_i;
  assign takes_drain  = takes && out_drains;
  assign takes_again  = takes && u_dut.again_valid && !out_drains;
  assign takes_fresh  = takes && !u_dut.again_valid && !out_drains;
  assign pushes       = u_dut.in_valid && u_dut.in_ready;
  assign pushes_again = again_valid_i && !again_drains_i;
  assign pushes_drain = again_valid_i && again_drains_i;

  // ---- Those that are watched: one of each queue -----------------------------------------------------
  logic [FreshW-1:0]    fresh_in, fresh_out, fresh_held, fresh_watched, fresh_age;
  logic [AgainSeqW-1:0] again_in, again_out, again_held, again_watched, again_age;
  logic [DrainSeqW-1:0] drain_in, drain_out, drain_held, drain_watched, drain_age;
  logic                 fresh_inside, again_inside, drain_inside;
  line_want_t           fresh_word, again_word, drain_word;

  fv_order #(.Width(W), .SeqW(FreshW)) u_fresh (
    .clk_i, .rst_i(rst_q), .push_i(pushes), .pop_i(takes_fresh), .in_i(u_dut.in), .in_seq_o(fresh_in),
    .out_seq_o(fresh_out), .held_o(fresh_held), .watched_o(fresh_watched), .inside_o(fresh_inside),
    .age_o(fresh_age), .word_o(fresh_word)
  );
  fv_order #(.Width(W), .SeqW(AgainSeqW)) u_again (
    .clk_i, .rst_i(rst_q), .push_i(pushes_again), .pop_i(takes_again), .in_i(again_i), .in_seq_o(again_in),
    .out_seq_o(again_out), .held_o(again_held), .watched_o(again_watched), .inside_o(again_inside),
    .age_o(again_age), .word_o(again_word)
  );
  fv_order #(.Width(W), .SeqW(DrainSeqW)) u_drain (
    .clk_i, .rst_i(rst_q), .push_i(pushes_drain), .pop_i(takes_drain), .in_i(again_i), .in_seq_o(drain_in),
    .out_seq_o(drain_out), .held_o(drain_held), .watched_o(drain_watched), .inside_o(drain_inside),
    .age_o(drain_age), .word_o(drain_word)
  );

  // One that came again leaves the others; if it might have waited for a holder, one of those.
  logic [OutW-1:0] outside_new;
  assign outside_new = outside_q + OutW'(takes) - OutW'(ends_i) - OutW'(again_valid_i);

  always_ff @(posedge clk_i) begin
    if (rst_q) begin
      {outside_q, leaving_q}         <= '0;
      {fw_q, pkt_q}                  <= '0;
      {since_again_q, since_drain_q} <= '1;
      could_q <= 1'b1;
    end else begin
      outside_q     <= outside_new;
      leaving_q     <= (starts_i && drain_room) ? outside_new
                       : leaving_q + OutW'(takes_drain) - OutW'(leaves_i) - OutW'(pushes_drain);
      fw_q          <= fw_valid_i || (fw_q && !u_dut.in_ready);
      pkt_q         <= (pkt_valid_i && !u_dut.is_last) || (pkt_q && !(u_dut.in_ready && !fw_q));
      could_q       <= fresh_held != '0 && fresh_en;
      since_again_q <= takes_again ? 5'd1 : since_again_q + 5'(since_again_q != '1);
      since_drain_q <= takes_drain ? 5'd1 : since_drain_q + 5'(since_drain_q != '1);
    end
    if (fw_valid_i) fw_want_q <= fw_i;
    if (pkt_valid_i) pkt_want_q <= pkt;
    if (pkt_q && !fw_q && u_dut.in_ready) last_q <= fresh_in;
  end

  // ---- What its users keep to ------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      m_fw:     assume (!fw_valid_i || fw_room);
      // In hand, told of by a hand-over, in places.
      m_hands:  assume (!takes || outside_q <= OutW'(Slots + 1));
      m_back:   assume (outside_q >= OutW'(again_valid_i) + OutW'(ends_i));
      m_leave:  assume (leaving_q >= OutW'(pushes_drain) + OutW'(leaves_i));
      m_leaves: assume (!leaves_i || ends_i || pushes_again);
      m_rest:   assume (leaving_q + OutW'(takes_drain) - OutW'(leaves_i) - OutW'(pushes_drain) <= outside_new);
    end
  end

  // ---- What is promised --------------------------------------------------------------------------------
  logic last_waits;    // the last packet is in the queue
  assign last_waits = last_q - fresh_out < fresh_held;

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      a_count: assert (AgainSeqW'(again_count) == again_held && again_count <= AgainW'(Again)
                       && DrainSeqW'(drain_count) == drain_held && drain_count <= DrainW'(Drains));
      a_room:  assert (!pushes_again || again_count < AgainW'(Again));
      a_room_drain: assert (!pushes_drain || drain_count < DrainW'(Drains));
      a_again: assert (!(again_inside && again_age == '0 && takes_again) || out == again_word);
      a_drain: assert (!(drain_inside && drain_age == '0 && takes_drain) || out == drain_word);
      a_fresh: assert (!(fresh_inside && fresh_age == '0 && takes_fresh) || out == fresh_word);
      a_closed: assert (!takes_fresh || fresh_en);
      a_none:  assert (!(takes_again && again_held == '0) && !(takes_drain && drain_held == '0)
                       && !(takes_fresh && fresh_held == '0));
      // Who is taken is in the queue a cycle later; firmware before packets that were dropped, these
      // before doorbells, and those that wait behind all.
      a_fw:    assert (fw_room == !fw_q && (!fw_q || (u_dut.in_valid && u_dut.in == fw_want_q)));
      a_pkt:   assert (!pkt_q || fw_q || (u_dut.in_valid && u_dut.in == pkt_want_q));
      a_db:    assert (!(db_valid_i && db_ready) || (pushes && u_dut.in == db_i && !fw_q && !pkt_q));
      a_park:  assert (!(park_valid_i && park_ready)
                       || (pushes && u_dut.in == park_i && !fw_q && !pkt_q && !db_valid_i));
      a_else:  assert (!pushes || fw_q || pkt_q || (db_valid_i && db_ready) || (park_valid_i && park_ready));
      a_burst: assert (!(pkt_valid_i && u_dut.is_last)
                       || (pkt_want_q == pkt && (pkt_q || (last_waits && !(takes_fresh && last_q == fresh_out)))));
      a_pace:  assert ((!takes_again || since_again_q >= (could_q ? 5'd8 : 5'd4))
                       && (!takes_drain || since_drain_q >= 5'd8));
      a_turn:  assert (!(again_held != '0 && since_again_q >= 5'd8) || (out_valid && !takes_fresh));
      a_turn_drain: assert (!(drain_held != '0 && since_drain_q >= 5'd8) || (out_valid && out_drains));
      h_sum:   assert (32'(again_count) + 32'(drain_count) + 32'(outside_q) <= Again - 2
                       && outside_q <= OutW'(Slots + 2));
      h_leaving: assert (leaving_q <= outside_q && 32'(drain_count) + 32'(leaving_q) <= Drains - 2);
      h_fresh: assert (AgainSeqW'(u_dut.u_fresh.count_o) == AgainSeqW'(fresh_held) && fresh_held <= FreshW'(4));
      h_wr:    assert (u_dut.u_fresh.wr_ptr_q == 2'(fresh_in) && u_dut.u_fresh.rd_ptr_q == 2'(fresh_out));
      h_again_wr: assert (u_dut.u_again.wr_ptr_q == (AgainW - 1)'(again_in)
                          && u_dut.u_again.rd_ptr_q == (AgainW - 1)'(again_out));
      h_drain_wr: assert (u_dut.u_drain.wr_ptr_q == (DrainW - 1)'(drain_in)
                          && u_dut.u_drain.rd_ptr_q == (DrainW - 1)'(drain_out));
      if (fresh_inside) h_mem: assert (u_dut.u_fresh.gen_regs.mem[2'(fresh_watched)] == fresh_word);
      if (again_inside) h_again_mem: assert (u_dut.u_again.gen_regs.mem[(AgainW - 1)'(again_watched)] == again_word);
      if (drain_inside) h_drain_mem: assert (u_dut.u_drain.gen_regs.mem[(DrainW - 1)'(drain_watched)] == drain_word);
      h_held:  assert (u_dut.fw_q == fw_q && u_dut.pkt_q == pkt_q && (!fw_q || u_dut.fw_want_q == fw_want_q)
                       && (!(pkt_q || u_dut.last_q) || u_dut.pkt_want_q == pkt_want_q));
      h_kind:  assert (!(pkt_q || u_dut.last_q)
                       || (pkt_want_q.kind == MissAsk && pkt_want_q.func == '0 && pkt_want_q.pi == '0));
      h_last:  assert (!u_dut.last_q || pkt_q
                       || (last_waits && u_dut.u_fresh.gen_regs.mem[2'(last_q)] == pkt_want_q
                           && u_dut.ahead_q == 3'(last_q - fresh_out)));
      h_may:   assert (u_dut.again_may_q == (since_again_q >= (could_q ? 5'd8 : 5'd4)));
      h_may_drain: assert (u_dut.drain_may_q == (since_drain_q >= 5'd8));
      h_pace:  assert (32'(u_dut.again_pace_q) == (since_again_q >= 5'd8 ? 32'd0 : 32'd8 - 32'(since_again_q))
                       && since_again_q != '0);
      h_pace_drain: assert (32'(u_dut.drain_pace_q) == (since_drain_q >= 5'd8 ? 32'd0 : 32'd8 - 32'(since_drain_q))
                            && since_drain_q != '0);
      c_closed: cover (!fresh_en && fresh_held != '0 && !u_dut.again_valid && !out_drains);
      c_again: cover (takes_again && again_inside && again_age == '0 && again_count == AgainW'(2));
      c_drain: cover (takes_drain && drain_inside && drain_age == '0 && drain_count == DrainW'(2));
      c_both:  cover (fw_q && pkt_q && db_valid_i);
      c_burst: cover (pkt_valid_i && u_dut.is_last && !pkt_q && fresh_held == FreshW'(3));
    end
  end
endmodule
