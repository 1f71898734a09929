// Proof of hca_rx_park: of each packet that is parked hca_lines hears once, and behind its back it is offered, and
// taken, once, as it came but for `again`; one other packet passes it at most. What is offered stays until it is
// taken, and others are offered as they come. Of a descriptor its place, `again` and some bits of two fields are
// looked at: all other bits go the same way.
module fv_rx_park
  import hca_pkg::*;
(
  input logic             clk_i,
  input logic             in_valid_i,
  input rxd_t             in_i,
  input logic             out_ready_i,
  input logic             park_i,
  input logic             want_ready_i,
  input logic             back_valid_i,
  input logic [ParkW-1:0] back_slot_i
);
  typedef struct packed {
    rx_place_t  place;
    logic       again;
    logic [1:0] qpn, psn;
  } look_t;

  logic                 rst_q = 1'b1;
  logic                 in_ready, out_valid, want_valid, back_ready, taken, told, back, again;
  logic                 held_q, in_held_q, back_held_q, pend_q, opened_q;
  rxd_t                 out;
  look_t                out_q, in_q, word_q;
  park_want_t           want;
  logic [ParkW-1:0]     back_q, watched_q, back_slot_q;
  logic [ParkSlots-1:0] waits_q, wants_q, known_q;   // parked; of them: not told of, told of and not given back
  logic [ParkW:0]       count;
  logic [1:0]           passed_q;                    // packets since the one that is given back might come

  function automatic look_t look(rxd_t packet);
    return '{place: packet.place, again: packet.again, qpn: packet.dest_qpn[1:0], psn: packet.psn[1:0]};
  endfunction

  function automatic look_t once_more(look_t packet);
    return '{place: packet.place, again: 1'b1, qpn: packet.qpn, psn: packet.psn};
  endfunction

  function automatic look_t fresh(look_t packet);
    return '{place: packet.place, again: 1'b0, qpn: packet.qpn, psn: packet.psn};
  endfunction

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_rx_park u_dut (
    .clk_i, .rst_i(rst_q), .in_valid_i, .in_ready_o(in_ready), .in_i, .out_valid_o(out_valid), .out_ready_i,
    .out_o(out), .park_i, .want_valid_o(want_valid), .want_ready_i, .want_o(want), .back_valid_i,
    .back_ready_o(back_ready), .back_slot_i
  );

  assign taken = out_valid && out_ready_i;
  assign again = taken && out.again;
  assign told  = want_valid && want_ready_i;
  assign back  = back_valid_i && back_ready;
  assign count = u_dut.u_wants.count_q;

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    if (rst_q) begin
      {waits_q, wants_q, known_q, pend_q, passed_q}      <= '0;
      {held_q, in_held_q, back_held_q, opened_q}         <= '0;
    end else begin
      if (park_i) {waits_q[out.place.slot], wants_q[out.place.slot]} <= '1;
      if (told) {wants_q[want.slot], known_q[want.slot]} <= 2'b01;
      if (back) {pend_q, known_q[back_slot_i]} <= 2'b10;
      if (again) {pend_q, waits_q[back_q]} <= '0;
      passed_q    <= (!pend_q || again) ? '0 : passed_q + 2'(taken && passed_q != '1);
      opened_q    <= pend_q && !again && (!in_valid_i || out_ready_i);
      held_q      <= out_valid && !out_ready_i;
      in_held_q   <= in_valid_i && !in_ready;
      back_held_q <= back_valid_i && !back_ready;
    end
    if (back) back_q <= back_slot_i;
    {out_q, in_q, back_slot_q} <= {look(out), look(in_i), back_slot_i};
    if (park_i && out.place.slot == watched_q) word_q <= look(out);
  end

  // ---- What its users keep to ------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      m_in:   assume (!in_held_q || (in_valid_i && look(in_i) == in_q));
      m_slot: assume (!(in_valid_i && in_i.place.parks) || !waits_q[in_i.place.slot]);
      m_park: assume (!park_i || (taken && out.place.parks && !out.again));
      m_back: assume (!back_valid_i || known_q[back_slot_i]);
      m_back_held: assume (!back_held_q || (back_valid_i && back_slot_i == back_slot_q));
    end else begin
      m_reset: assume (!park_i);
    end
  end

  // ---- What is promised --------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      a_want:   assert (!want_valid || wants_q[want.slot]);
      a_told:   assert (want_valid == (wants_q != '0));
      a_qpn:    assert (!(want_valid && want.slot == watched_q) || want.qpn[1:0] == word_q.qpn);
      a_again:  assert (!(out_valid && out.again) || (pend_q && waits_q[back_q]));
      a_word:   assert (!(out_valid && out.again && back_q == watched_q) || look(out) == once_more(word_q));
      a_fresh:  assert (!(out_valid && !out.again) || (in_valid_i && look(out) == fresh(look(in_i))));
      a_once:   assert ((in_valid_i && in_ready) == (taken && !out.again));
      a_held:   assert (!held_q || (out_valid && look(out) == out_q));
      a_passed: assert (passed_q <= 2'd1);
      a_opened: assert (!opened_q || (out_valid && out.again));
      a_turn:   assert (back_ready == !pend_q);

      h_pend:   assert (u_dut.read_q == pend_q && (!u_dut.shows_q || pend_q));
      h_back:   assert (!pend_q || (waits_q[back_q] && !wants_q[back_q] && !known_q[back_q]));
      h_passed: assert (passed_q == '0 || u_dut.shows_q);
      h_read:   assert (!(pend_q && back_q == watched_q) || look(u_dut.parked) == fresh(word_q));
      h_mem:    assert (!waits_q[watched_q] || look(u_dut.u_parked.mem[watched_q]) == fresh(word_q));
      h_word:   assert (!waits_q[watched_q] || (word_q.place.slot == watched_q && !word_q.again));
      h_count:  assert (count <= (ParkW + 1)'(ParkSlots) && count == (ParkW + 1)'($countones(wants_q)));
      h_ptrs:   assert (u_dut.u_wants.wr_ptr_q == u_dut.u_wants.rd_ptr_q + count[ParkW-1:0]);

      c_all:    cover (waits_q == '1);
      c_again:  cover (again && passed_q == 2'd1 && in_valid_i);
      c_order:  cover (again && waits_q == 4'b0111 && known_q != '0);
    end
  end

  // Wants that are in the queue: each of another slot, and of a packet that hca_lines has not heard of.
  for (genvar i = 0; i < ParkSlots; i++) begin : gen_want
    park_want_t       mine;
    logic [ParkW-1:0] at;
    assign at   = u_dut.u_wants.rd_ptr_q + ParkW'(i);
    assign mine = u_dut.u_wants.gen_regs.mem[at];
    always_ff @(posedge clk_i) begin
      if (!rst_q && (ParkW + 1)'(i) < count) begin
        h_want: assert (wants_q[mine.slot] && (mine.slot != watched_q || mine.qpn[1:0] == word_q.qpn));
      end
      if (!rst_q) h_sets: assert (!(wants_q[i] && known_q[i]) && (!(wants_q[i] || known_q[i]) || waits_q[i]));
    end
    for (genvar j = i + 1; j < ParkSlots; j++) begin : gen_other
      always_ff @(posedge clk_i) begin
        if (!rst_q && (ParkW + 1)'(j) < count) begin
          h_other: assert (mine.slot != gen_want[j].mine.slot);
        end
      end
    end
  end
endmodule
