// Proof of hca_line_slots: places go round in order, none is lost or taken twice, and each says what was begun in it
// and what was read for it. A place is handed over only behind a fence that began when its doors had been shut (in the
// cycle after it was begun) and the door had been free since: no doorbell that came before is anywhere then (decision
// 0082).
module fv_line_slots
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 4,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input logic        clk_i,
  input logic [63:8] base_i,
  input logic [4:0]  index_bits_i,
  input logic        begin_valid_i,
  input line_want_t  begin_i,
  input logic        req_ready_i,
  input logic        rsp_valid_i,
  input dma_rd_rsp_t rsp_i,
  input logic        door_free_i,
  input logic        fence_busy_i,
  input logic        swap_ahead_i,
  input logic [1:0]  swap_beat_i,
  input logic        swap_take_i
);
  localparam int unsigned SeqW = SlotW + 3;   // numbers of places
  localparam logic [2:0] FnIdle = 3'd0, FnStart = 3'd4, FnWait = 3'd5;   // hca_line_slots' fence_e

  logic             rst_q = 1'b1;
  logic             begin_ready, req_valid, rsp_ready, fence_start, swap_valid, swap_dead;
  logic [SlotW-1:0] begin_slot, swap_slot;
  line_want_t       swap_want;
  dma_rd_req_t      req;
  beat_t            swap_data;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_line_slots #(.Slots(Slots)) u_dut (
    .clk_i, .rst_i(rst_q), .base_i, .index_bits_i, .begin_valid_i, .begin_ready_o(begin_ready), .begin_i,
    .begin_slot_o(begin_slot), .req_valid_o(req_valid), .req_ready_i, .req_o(req), .rsp_valid_i,
    .rsp_ready_o(rsp_ready), .rsp_i, .door_free_i, .fence_start_o(fence_start), .fence_busy_i,
    .swap_ahead_i, .swap_valid_o(swap_valid), .swap_slot_o(swap_slot), .swap_o(swap_want), .swap_dead_o(swap_dead),
    .swap_beat_i, .swap_data_o(swap_data), .swap_take_i
  );

  // ---- Places by number, and one that is watched ----------------------------------------------------
  logic [SeqW-1:0] begun_q, read_q, seen_q, marked_q, safe_q, swapped_q, watched_q;   // so many so far
  logic [SeqW-1:0] begun_before_q;
  logic            aligned_q;                      // the place that was looked at is the next one now
  logic            begins, last, is_begun, is_read, is_seen, is_marked, is_safe;
  logic [SeqW-1:0] place;                          // of the watched one, behind the oldest
  logic [SlotW-1:0] slot;

  assign begins    = begin_valid_i && begin_ready;
  assign last      = rsp_valid_i && rsp_i.last;
  assign place     = watched_q - swapped_q;
  assign is_begun  = place < begun_q - swapped_q;
  assign is_read   = place < read_q - swapped_q;
  assign is_seen   = place < seen_q - swapped_q;
  assign is_marked = place < marked_q - swapped_q;
  assign is_safe   = place < safe_q - swapped_q;
  assign slot      = watched_q[SlotW-1:0];

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    if (rst_q) begin
      {begun_q, read_q, seen_q, marked_q, safe_q, swapped_q, begun_before_q} <= '0;
      aligned_q <= swap_ahead_i == swap_take_i;
    end else begin
      begun_before_q <= begun_q;
      aligned_q      <= swap_ahead_i == swap_take_i;
      begun_q        <= begun_q + SeqW'(begins);
      read_q         <= read_q + SeqW'(last);
      seen_q         <= read_q;
      swapped_q      <= swapped_q + SeqW'(swap_take_i);
      if (u_dut.fence_q == FnIdle) marked_q <= begun_q;
      if (u_dut.fence_q == FnWait && !fence_busy_i) safe_q <= marked_q;
    end
  end

  // ---- What belongs to it ----------------------------------------------------------------------------
  line_want_t  want_q;
  logic [2:0]  beats_q;                            // of the read that is being answered
  logic        err_q, bad_q, shut_q, cleared_q, started_q, over_q, bad;
  logic [7:0]  func_q, byte_q;
  logic [23:0] qpn_q, its_qpn_q;
  logic [7:0]  its_func_q;
  logic [1:0]  beat_q;                             // one of its beats
  logic        asked_q;
  qpc_t        first, second;

  assign first  = qpc_t'({(2048 - DataW)'(0), rsp_i.data});
  assign second = qpc_t'({(2048 - 2 * DataW)'(0), rsp_i.data, DataW'(0)});
  assign bad    = bad_q || its_qpn_q != want_q.qpn
                  || (want_q.kind inside {MissSq, MissRq} && its_func_q != want_q.func);

  always_ff @(posedge clk_i) begin
    beat_q <= beat_q;
    if (begins && begun_q == watched_q) want_q <= begin_i;
    if (rst_q || last) begin
      beats_q <= '0;
      err_q   <= 1'b0;
    end else if (rsp_valid_i) begin
      beats_q <= beats_q + 3'd1;
      err_q   <= err_q || rsp_i.err;
    end
    if (rsp_valid_i && beats_q == 3'd0) func_q <= first.func;
    if (rsp_valid_i && beats_q == 3'd1) qpn_q <= second.qpn;
    if (rsp_valid_i && read_q == watched_q && beats_q == 3'(beat_q)) byte_q <= rsp_i.data[7:0];
    if (last && read_q == watched_q) begin
      bad_q      <= err_q || rsp_i.err || beats_q != 3'd3;
      its_func_q <= func_q;
      its_qpn_q  <= qpn_q;
    end
    // The doors are shut in the cycle after it was begun; a doorbell of that cycle is in the door one cycle later.
    shut_q    <= !rst_q && is_begun && !(swap_take_i && swapped_q == watched_q);
    cleared_q <= !rst_q && is_begun && (cleared_q || (shut_q && door_free_i));
    started_q <= is_begun && (started_q || (cleared_q && fence_start));
    over_q    <= is_begun && (over_q || (started_q && !fence_busy_i));
    asked_q   <= !rst_q && u_dut.there && !swap_take_i && swapped_q == watched_q && swap_beat_i == beat_q;
  end

  // ---- What its users keep to ----------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      m_answer: assume (!rsp_valid_i || read_q != begun_q);
      m_beats:  assume (!rsp_valid_i || beats_q != 3'd3 || rsp_i.last);
      m_swap:   assume (!swap_take_i || u_dut.there);
    end
  end

  // ---- What is promised ------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      a_room:  assert (begin_ready == (req_ready_i && begun_q - swapped_q != SeqW'(Slots)));
      a_read:  assert (req_valid == (begin_valid_i && begun_q - swapped_q != SeqW'(Slots)));
      a_slot:  assert (begin_slot == begun_q[SlotW-1:0] && swap_slot == swapped_q[SlotW-1:0]);
      a_swap:  assert (swap_valid == (swapped_q != seen_q && swapped_q != safe_q && aligned_q));
      if (swap_valid && swapped_q == watched_q) begin
        if (!bad_q) a_swap_want: assert (swap_want == want_q && swap_dead == bad);
        a_swap_err: assert (!bad_q || swap_dead);
        a_fenced:   assert (over_q);
      end
      if (asked_q && !bad_q) a_data: assert (swap_data[7:0] == byte_q);
      // Whose doors are shut is never left alone: a fence is on its way for it, or for those before it.
      a_goes_on: assert (u_dut.fence_q != FnIdle || !is_begun || is_safe || !is_marked);

      h_order: assert (safe_q - swapped_q <= marked_q - swapped_q && marked_q - swapped_q <= begun_q - swapped_q
                       && seen_q - swapped_q <= read_q - swapped_q && read_q - swapped_q <= begun_q - swapped_q
                       && begun_q - swapped_q <= SeqW'(Slots));
      h_before: assert (begun_before_q - swapped_q <= begun_q - swapped_q
                        && seen_q - swapped_q <= begun_before_q - swapped_q);
      h_shut:  assert (!shut_q || is_begun);
      h_head:  assert (u_dut.head_q == begun_q[SlotW:0] && u_dut.arrived_q == read_q[SlotW:0]
                       && u_dut.looked_q == seen_q[SlotW:0]
                       && u_dut.mark_q == marked_q[SlotW:0] && u_dut.safe_q == safe_q[SlotW:0]
                       && u_dut.swap_q == swapped_q[SlotW:0]);
      h_beats: assert (beats_q <= 3'd3 && u_dut.beat_q == beats_q[1:0] && u_dut.first_q == (beats_q == '0)
                       && u_dut.err_q == err_q);
      h_reads: assert (beats_q == '0 || read_q != begun_q);
      h_func:  assert (beats_q == '0 || u_dut.func_q == func_q);
      h_qpn:   assert (beats_q <= 3'd1 || u_dut.qpn_q == qpn_q);
      if (is_begun) begin
        h_wants: assert (u_dut.u_wants.mem[slot] == want_q);
      end
      if (is_read && !bad_q) begin
        h_seen: assert (u_dut.u_seen.mem[slot] == {1'b0, its_func_q, its_qpn_q});
        h_data: assert (u_dut.u_data.mem[{slot, beat_q}][7:0] == byte_q);
      end
      if (is_read && bad_q) h_err: assert (u_dut.u_seen.mem[slot][32]);
      if (read_q == watched_q && beats_q > 3'(beat_q)) h_byte: assert (u_dut.u_data.mem[{slot, beat_q}][7:0] == byte_q);
      // What is shown of it was read when it was there.
      if (aligned_q && swapped_q == watched_q && is_seen) h_shown_seen: assert (u_dut.seen == u_dut.u_seen.mem[slot]);
      if (aligned_q && swapped_q == watched_q && swapped_q != begun_before_q && is_begun)
        h_swapped: assert (swap_want == want_q);
      h_aligned: assert (u_dut.aligned_q == aligned_q);
      if (asked_q && !bad_q) h_asked: assert (swap_data[7:0] == u_dut.u_data.mem[{slot, beat_q}][7:0] && is_safe);
      // The fence of those that are marked.
      h_idle:  assert (u_dut.fence_q != FnIdle || marked_q == safe_q);
      h_state: assert (u_dut.fence_q <= FnWait);
      if (is_marked && !is_safe && u_dut.fence_q != FnIdle) h_marked: assert (shut_q);
      if (is_marked && u_dut.fence_q == FnStart) h_start: assert (is_safe || cleared_q);
      if (is_marked && u_dut.fence_q == FnWait) h_wait: assert (is_safe || started_q);
      if (is_safe) h_safe: assert (over_q);
      c_full: cover (begun_q - swapped_q == SeqW'(Slots) && swap_valid && !swap_dead);
      c_two: cover (safe_q - swapped_q == SeqW'(2));
      c_bad: cover (swap_valid && swapped_q == watched_q && swap_dead && !bad_q);
    end
  end
endmodule
