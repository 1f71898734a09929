// Proof of hca_lines with few lines, whoever wants them (hca_line_queue is cut out): a line's holder is one whose QPN
// has the line's number in its low bits, so no QPN is in two lines; a busy line has its place in the ring, and that
// place is of this line; its holder, if there is one, drains. A line is handed over only from its place, while that is
// the one whose turn it was, whatever hca_lines does meanwhile. Every want that was taken ends in exactly one way; no
// event and no record is written over; while the lines are held nothing begins (decision 0082).
module fv_lines
  import hca_pkg::*;
(
  input logic        clk_i,
  input logic [63:0] now_i,
  input lines_cfg_t  cfg_i,
  input logic        record_valid_i,
  input record_wr_t  record_i,
  input logic        next_valid_i,   // of the queue that is cut out
  input logic        next_drains_i,
  input line_want_t  next_i,
  input logic [7:0]  drain_count_i,
  input logic        again_ready_i,
  input logic        door_free_i,
  input logic        look_done_i,
  input line_hint_t  look_hint_i,
  input logic        quiet_i,
  input logic [5:0]  qpc_ready_i,
  input qpc_record_t old_i,
  input logic        fence_busy_i,
  input logic        rd_req_ready_i,
  input logic        rd_rsp_valid_i,
  input dma_rd_rsp_t rd_rsp_i,
  input logic        wr_ready_i,
  input logic        ev_ready_i,
  input logic        back_ready_i
);
  localparam int unsigned Door = 5, RxCtrl = 2;
  localparam int unsigned SlotW = $bits(line_slot_t);

  typedef enum logic [3:0] {   // hca_lines' state_e
    StScrub, StIdle, StFw, StRow, StDrain, StDoor, StHint, StSee, StLook, StBegin, StOpen, StAgain, StAsk, StLater
  } state_e;
  typedef enum logic [1:0] {LdIdle, LdRow, LdLoad, LdFull} load_e;
  typedef enum logic [2:0] {SwIdle, SwOffer, SwSpread, SwDone, SwDrop, SwRefused} swap_e;

  logic         rst_q = 1'b1;
  logic         park_ready, back_valid;
  logic [ParkW-1:0] back_slot;
  logic         held, room, record_ready, db_ready, again_valid, look_valid, look_asks, fence_start, rd_req_valid,
                rd_rsp_ready, wr_valid, ev_valid;
  line_holder_t holder;
  line_want_t   again;
  line_shut_t   shut;
  logic [QpW-1:0] look_line;
  logic [5:0]   qpc_valid;
  qpc_wr_t      qpc;
  dma_rd_req_t  rd_req;
  dma_wr_t      wr;
  hw_ev_t       ev, ev_q;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_lines u_dut (
    .clk_i, .rst_i(rst_q), .now_i, .cfg_i, .held_o(held), .room_o(room), .holder_o(holder), .record_valid_i,
    .record_ready_o(record_ready), .record_i, .db_valid_i(1'b0), .db_ready_o(db_ready), .db_i('0), .pkt_valid_i(1'b0),
    .pkt_qpn_i('0), .park_valid_i(1'b0), .park_ready_o(park_ready), .park_i('0), .back_valid_o(back_valid),
    .back_ready_i, .back_slot_o(back_slot), .again_valid_o(again_valid), .again_ready_i, .again_o(again),
    .shut_o(shut), .door_free_i,
    .look_valid_o(look_valid), .look_done_i, .look_asks_o(look_asks), .look_line_o(look_line),
    .look_hint_i, .quiet_i,
    .qpc_valid_o(qpc_valid), .qpc_ready_i, .qpc_o(qpc), .old_i, .fence_start_o(fence_start), .fence_busy_i,
    .rd_req_valid_o(rd_req_valid), .rd_req_ready_i, .rd_req_o(rd_req), .rd_rsp_valid_i, .rd_rsp_ready_o(rd_rsp_ready),
    .rd_rsp_i, .wr_valid_o(wr_valid), .wr_ready_i, .wr_o(wr), .ev_valid_o(ev_valid), .ev_ready_i, .ev_o(ev)
  );

  // ---- One line is watched ---------------------------------------------------------------------------
  logic [QpW-1:0] line_q, its_q;   // its_q: of the one at work a cycle ago
  line_row_t      its, row, its_row, over_row, load_row;
  logic [23:0]    old_q;
  logic           old_held_q, scrubbed, wants, looks_at, shown, ev_held_q, fin_held_q, set_pending, over_mine,
                  load_mine;
  state_e         state, state_d;
  swap_e          swap;
  load_e          load;
  line_want_t     want, its_want, over_want, load_want, next_want;
  line_holder_t   set_q;
  line_fin_t      fin_q;
  logic [SlotW:0] head_before_q, in_ring;
  line_slot_t     place;
  logic [5:0]     ends;

  assign state     = state_e'(u_dut.state_q);
  assign state_d   = state_e'(u_dut.state_d);
  assign swap      = swap_e'(u_dut.u_swap.state_q);
  assign want      = u_dut.want_q;
  assign load      = load_e'(u_dut.u_swap.load_q);
  assign over_want = u_dut.u_swap.want_q;
  assign load_want = u_dut.u_swap.ready_q;
  assign its       = line_row_t'(u_dut.u_rows.mem[line_q]);                    // of the watched line
  assign its_row   = line_row_t'(u_dut.u_rows.mem[u_dut.line_q]);              // of the one at work
  assign over_row  = line_row_t'(u_dut.u_rows.mem[over_want.qpn[QpW-1:0]]);    // of the one that is handed over
  assign load_row  = line_row_t'(u_dut.u_rows.mem[load_want.qpn[QpW-1:0]]);    // of the one that is next
  assign row       = line_row_t'(u_dut.row);
  assign its_want  = line_want_t'(u_dut.u_slots.u_wants.mem[its.slot]);
  assign scrubbed  = state != StScrub || line_q < u_dut.scrub_q;
  assign wants     = !(state inside {StScrub, StIdle, StFw});
  assign looks_at  = state inside {StRow, StDrain, StDoor, StHint, StSee, StLook, StBegin, StOpen};
  assign in_ring   = u_dut.u_slots.head_q - u_dut.u_slots.swap_q;
  assign place     = its.slot - u_dut.u_slots.swap_q[SlotW-1:0];
  assign load_mine = load_row.busy && load_row.slot == u_dut.swap_slot;
  assign over_mine = swap != SwIdle && u_dut.u_swap.row_q.busy;
  assign set_pending = u_dut.set_q || (state == StFw && u_dut.fw_set_q);

  // How what is in hand leaves it.
  assign ends = {
    u_dut.requeue,                                        // comes again
    u_dut.tells && !is_parked(want),                      // is firmware's
    u_dut.begin_valid && u_dut.begin_ready,               // has a place
    state == StAgain && state_d == StIdle,                // is at its door again, as soon as that takes it
    look_valid && look_asks && look_done_i,               // its peer is asked
    state == StRow && state_d == StIdle && want.kind == MissFill && row.who.valid && row.who.qpn == want.qpn
      && !u_dut.requeue                                   // firmware has what it wanted
  };

  always_ff @(posedge clk_i) begin
    line_q        <= line_q;
    its_q         <= u_dut.line_q;
    set_q         <= cfg_i.set;
    head_before_q <= rst_q ? '0 : u_dut.u_slots.head_q;
    ev_q          <= ev;
    ev_held_q     <= !rst_q && ev_valid && !ev_ready_i;
    fin_q         <= u_dut.fin;
    old_held_q    <= !rst_q && u_dut.old_valid && u_dut.store_busy;
    old_q         <= u_dut.old_qpn;
    fin_held_q    <= !rst_q && u_dut.fin_valid && !u_dut.fin_take;
  end

  // Pointers of hca_line_slots, by their distance from the oldest place.
  logic [SlotW:0] d_safe, d_mark, d_looked, d_arrived, d_before;
  assign d_safe    = u_dut.u_slots.safe_q - u_dut.u_slots.swap_q;
  assign d_mark    = u_dut.u_slots.mark_q - u_dut.u_slots.swap_q;
  assign d_looked  = u_dut.u_slots.looked_q - u_dut.u_slots.swap_q;
  assign d_arrived = u_dut.u_slots.arrived_q - u_dut.u_slots.swap_q;
  assign d_before  = u_dut.u_slots.head_q - head_before_q;
  assign next_want = line_want_t'(u_dut.u_slots.u_wants.mem[u_dut.u_slots.swap_q[SlotW-1:0]]);
  assign shown     = u_dut.u_slots.aligned_q && in_ring != '0 && head_before_q != u_dut.u_slots.swap_q;

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      m_answer: assume (!rd_rsp_valid_i || u_dut.u_slots.arrived_q != u_dut.u_slots.head_q);
      m_set:    assume (!set_pending || cfg_i.set == set_q);
      // Firmware changes lines only while it holds them.
      m_hold:   assume (!(record_valid_i || cfg_i.set_go || u_dut.set_q || state == StFw) || cfg_i.hold);

      a_line:  assert (!scrubbed || !its.who.valid || its.who.qpn[QpW-1:0] == line_q);
      // What is handed over has left the ring already.
      a_place: assert (!scrubbed || !its.busy || (over_mine && over_want.qpn[QpW-1:0] == line_q)
                       || ((SlotW + 1)'(place) < in_ring && its_want.qpn[QpW-1:0] == line_q));
      a_drain: assert (!scrubbed || !its.busy || !its.who.valid || (its.drain && its.who.may_rest));
      a_look:  assert (!(look_valid && !look_asks)
                       || (its_row.who.valid && its_row.who.may_rest && its_row.drain && !its_row.busy));
      a_again: assert (!again_valid || again.kind inside {MissSq, MissRq});
      a_back:  assert (!back_valid || back_slot == again.pi[ParkW-1:0]);
      a_shut:  assert (!u_dut.begun_q || (state == StIdle && shut.valid && shut.shut && shut.line == its_q));
      a_hands: assert (!(swap inside {SwOffer, SwSpread, SwDone}) || (over_mine && over_row.busy));
      a_row:   assert (!over_mine || over_row == u_dut.u_swap.row_q);
      a_offer: assert (qpc_valid == '0 || (qpc.qpn == over_want.qpn[QpW-1:0] && qpc.swap));
      a_door:  assert (!qpc_valid[Door] || qpc_valid == 6'(1) << Door);
      a_first: assert (!qpc_valid[RxCtrl] || qpc_valid == 6'(1) << RxCtrl);
      a_ends:  assert ((wants && state_d == StIdle) ? $onehot(ends) : ends == '0);
      a_fin:   assert (!u_dut.u_swap.leaves || !u_dut.fin_valid);
      a_fin_held: assert (!fin_held_q || (u_dut.fin_valid && u_dut.fin == fin_q));
      a_event: assert (!ev_held_q || (ev_valid && ev == ev_q));
      a_tells: assert (!u_dut.tells || !u_dut.ev_valid_q);
      a_filled: assert (!u_dut.u_swap.leaves || !u_dut.filled_valid);
      a_store: assert (!(u_dut.old_valid && record_ready)
                       && !(old_held_q && (!u_dut.old_valid || u_dut.old_qpn != old_q)));
      // A context is read behind what is written of its line.
      a_read:  assert (!rd_req_valid || !((u_dut.store_busy && u_dut.store_line == u_dut.line_q)
                                          || (u_dut.old_valid && u_dut.old_line == u_dut.line_q)));
      a_rows:  assert (!(u_dut.row_we && u_dut.over_we));
      a_held:  assert (!held || (!rd_req_valid && !look_valid && !again_valid && !back_valid && qpc_valid == '0 &&
                       !shut.valid));

      h_state: assert (state <= StLater && swap <= SwRefused);
      h_scrub: assert (state != StScrub || (swap == SwIdle && in_ring == '0 && !u_dut.fin_valid && load == LdIdle));
      h_want:  assert (!wants || want.qpn[QpW-1:0] == u_dut.line_q);
      h_row:   assert (!(state inside {StRow, StDoor, StHint, StSee, StLook, StBegin, StOpen}) || row.busy
                       || row == its_row);
      h_row_drain: assert (state != StDrain || (row.who == its_row.who && !its_row.busy));
      h_row_fw: assert (state != StFw || (row == its_row && swap == SwIdle && load == LdIdle));
      h_begun: assert (!u_dut.begun_q || state == StIdle);
      h_free:  assert (!(state inside {StDrain, StDoor, StHint, StSee, StLook, StBegin, StOpen}) || !row.busy);
      h_drain: assert (!(state inside {StDoor, StHint, StSee, StLook, StOpen})
                       || (row.drain && row.who.valid && row.who.may_rest));
      h_drains: assert (state != StDrain || (row.who.valid && row.who.may_rest));
      h_begin: assert (state != StBegin || !row.who.valid || (row.drain && row.who.may_rest));
      h_fw:    assert (state != StFw || !u_dut.fw_set_q || u_dut.line_q == cfg_i.set.qpn[QpW-1:0]);
      h_ev:    assert (!looks_at || !u_dut.ev_valid_q);
      h_first: assert (!u_dut.filled_first_q || u_dut.filled_valid);
      h_kind:  assert (state != StAgain || want.kind inside {MissSq, MissRq} || is_parked(want));
      h_ask:   assert (state != StAsk || is_dropped(want));
      h_fin:   assert (!u_dut.fin_valid || u_dut.fin.later || u_dut.fin.want.kind != MissFill);

      h_over:  assert (swap == SwIdle || !u_dut.filled_valid);
      h_over_slot: assert (!over_mine || u_dut.u_swap.row_q.slot + line_slot_t'(1) == u_dut.swap_slot);
      h_load:  assert (load == LdIdle || (u_dut.u_slots.there && load_want == next_want));
      h_load_row: assert (load != LdRow
                          || (u_dut.row_ram.busy && u_dut.row_ram.slot == u_dut.swap_slot ? load_row == u_dut.row_ram
                                                                                         : !load_mine));
      h_load_mine: assert (!(load inside {LdLoad, LdFull})
                           || (u_dut.u_swap.ready_row_q.busy ? load_row == u_dut.u_swap.ready_row_q && load_mine
                                                             : !load_mine));
      h_load_dead: assert (load != LdLoad || (!u_dut.u_swap.dead_q && u_dut.u_swap.ready_row_q.busy));
      h_dead:  assert (load != LdFull || u_dut.u_swap.dead_q || u_dut.u_swap.ready_row_q.busy);
      // Two of one line are never on their way at once.
      h_other: assert (load == LdIdle || !over_mine || !load_mine || load_want.qpn[QpW-1:0] != over_want.qpn[QpW-1:0]);
      h_mine:  assert (!(swap inside {SwOffer, SwSpread, SwDone, SwRefused}) || over_mine);
      h_store: assert (swap != SwOffer || !u_dut.old_valid);

      h_ring:  assert (d_safe <= d_mark && d_mark <= in_ring && d_looked <= d_arrived && d_arrived <= in_ring
                       && in_ring <= (SlotW + 1)'(LineSlots) && d_before <= (SlotW + 1)'(1)
                       && (d_arrived == '0 || d_looked + d_before <= in_ring));
      h_shown: assert (!shown || u_dut.swap_want == next_want);
      // Hand-overs lie too deep to be reached quickly: tests/rtl/lines shows them.
      c_drain: cover (state == StLook && look_done_i && quiet_i);
      c_shut:  cover (u_dut.begun_q);
    end
  end
endmodule
