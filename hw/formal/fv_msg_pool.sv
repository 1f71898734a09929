// Proof of hca_msg_pool: each block is fresh, free or in the list of one QP, once; a list is whole, from the QP's
// oldest block to its newest one, so a QP gives back what it has taken, in that order, and has nothing left when it
// has been cleared; no block is lost or given to two. The map says a QP's oldest block, also beside one that comes
// back; how many are free, and how many QPs have none, is counted right. Takes, ends, maps and clears of any QPs in
// any order. What a block is, and its place, is kept beside the pool, and so is who is at each place: one undoes the
// other.
module fv_msg_pool
  import hca_pkg::*;
(
  input logic               clk_i,
  input logic               alloc_i,
  input logic [QpW-1:0]     alloc_qpn_i,
  input wqe_idx_t           alloc_wqe_i,
  input logic [MsgBlkW-1:0] alloc_tail_i,
  input logic               map_en_i,
  input logic [QpW-1:0]     qpn_i,
  input logic               next_en_i,
  input logic [MsgBlkW-1:0] next_of_i,
  input logic               free_i,
  input logic [MsgBlkW-1:0] free_blk_i,
  input wqe_idx_t           free_wqe_i,
  input logic               clear_i,
  input logic               clear_init_i,
  input wqe_idx_t           clear_wqe_i,
  input logic               clear_quiet_i,
  input logic               peek_i,
  input logic               mark_ready_i,
  input wqe_idx_t           mark_wqe_i
);

  localparam int unsigned PlaceW = WqeIndexBits - MsgRowW;

  typedef enum logic [1:0] {Fresh, Free, Own} what_e;
  typedef enum logic [3:0] {StScrub, StIdle, StLook, StCount, StCheck, StMap, StFree, StOne, StDone} state_e;
  typedef logic [PlaceW-1:0]  place_t;
  typedef logic [MsgBlkW-1:0] blk_t;
  typedef struct packed {   // row_t of the pool
    logic   some;
    place_t oldest;
    place_t newest;
    blk_t   blk;
  } row_t;

  logic           rst_q = 1'b1;
  logic           room, ready, alloc_ready, clear_done, mark_en;
  logic [QpW-1:0] scrub;
  blk_t           alloc_blk, map_blk;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_msg_pool u_dut (
    .clk_i, .rst_i(rst_q), .room_o(room), .ready_o(ready), .scrub_o(scrub), .alloc_ready_o(alloc_ready),
    .alloc_blk_o(alloc_blk), .alloc_i, .alloc_qpn_i, .alloc_wqe_i, .alloc_tail_i, .map_en_i, .qpn_i,
    .map_blk_o(map_blk), .next_en_i, .next_of_i, .free_i, .free_blk_i, .free_wqe_i, .clear_i, .clear_init_i,
    .clear_wqe_i, .clear_quiet_i, .peek_i, .clear_done_o(clear_done), .mark_ready_i, .mark_en_o(mark_en), .mark_wqe_i
  );

  // ---- What each block is, what each QP has ----------------------------------------------------------------
  what_e                   what_q [MsgBlocks];
  logic [QpW-1:0]          of_q   [MsgBlocks];   // whose
  logic [2:0]              pos_q  [MsgBlocks];   // its place, modulo 8; of a free one, where it is in the queue
  place_t                  first_q [NumQps];     // place of the oldest one, or of the next
  logic [3:0]              count_q [NumQps];
  blk_t                    at_q [NumQps][8];     // who is at each place
  logic [NumQps-1:0]       some_q;               // as the pool counts them
  state_e                  state;
  logic                    take, give, emptied, ended;
  logic [QpW-1:0]          giver;
  place_t                  alloc_place, end_of [NumQps];

  assign state       = state_e'(u_dut.state_q);
  assign take        = u_dut.take;
  assign give        = u_dut.give;
  assign giver       = u_dut.free0_q ? u_dut.free_qpn_q : qpn_i;
  assign emptied     = u_dut.emptied;
  assign ended       = u_dut.ended;
  assign alloc_place = alloc_wqe_i[WqeIndexBits-1:MsgRowW];
  for (genvar q = 0; q < int'(NumQps); q++) begin : gen_end
    assign end_of[q] = first_q[q] + place_t'(count_q[q]);
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned b = 0; b < MsgBlocks; b++) begin
      if (rst_q) what_q[b] <= Fresh;
      else begin
        if (take && 32'(alloc_blk) == b) begin
          what_q[b] <= Own;
          of_q[b]   <= alloc_qpn_i;
          pos_q[b]  <= 3'(alloc_place);
        end
        if (give && 32'(u_dut.give_blk) == b) begin
          what_q[b] <= Free;
          pos_q[b]  <= u_dut.u_used.wr_ptr_q;
        end
      end
    end
    for (int unsigned q = 0; q < NumQps; q++) begin
      if (rst_q) begin
        first_q[q] <= '0;
        count_q[q] <= '0;
        some_q[q]  <= 1'b0;
      end else begin
        if (give && 32'(giver) == q) first_q[q] <= first_q[q] + 1'b1;
        if (take && 32'(alloc_qpn_i) == q && count_q[q] == '0) first_q[q] <= alloc_place;
        if (clear_i && clear_done && 32'(qpn_i) == q && clear_init_i)
          first_q[q] <= clear_wqe_i[WqeIndexBits-1:MsgRowW];
        count_q[q] <= count_q[q] + 4'(take && 32'(alloc_qpn_i) == q) - 4'(give && 32'(giver) == q);
        if (take && 32'(alloc_qpn_i) == q) begin
          at_q[q][3'(alloc_place)] <= alloc_blk;
          some_q[q] <= 1'b1;
        end
        if ((emptied && 32'(u_dut.free_qpn_q) == q) || (ended && 32'(qpn_i) == q)) some_q[q] <= 1'b0;
      end
    end
  end

  // ---- The user --------------------------------------------------------------------------------------------
  logic           held_q, clears_q, peeks_q, quiet_q, init_q, maps_q, had_q;
  logic [QpW-1:0] alloc_qpn_q, qpn_q;
  wqe_idx_t       alloc_wqe_q, clear_wqe_q;
  blk_t           alloc_tail_q;

  always_ff @(posedge clk_i) begin
    held_q       <= !rst_q && alloc_i && !alloc_ready;
    clears_q     <= !rst_q && clear_i && !clear_done;
    peeks_q      <= !rst_q && peek_i;
    maps_q       <= !rst_q && map_en_i;
    had_q        <= count_q[qpn_i] != '0;
    {alloc_qpn_q, alloc_wqe_q, alloc_tail_q} <= {alloc_qpn_i, alloc_wqe_i, alloc_tail_i};
    {qpn_q, quiet_q, init_q, clear_wqe_q}    <= {qpn_i, clear_quiet_i, clear_init_i, clear_wqe_i};
  end

  always_comb begin
    m_ready: assume (!rst_q && ready || !(alloc_i || map_en_i || next_en_i || free_i || clear_i || peek_i));
    // A QP takes the next place, or begins anywhere; not while it is cleared.
    if (held_q) m_held: assume (alloc_i && alloc_qpn_i == alloc_qpn_q && alloc_wqe_i == alloc_wqe_q &&
                                alloc_tail_i == alloc_tail_q);
    if (alloc_i && count_q[alloc_qpn_i] != '0)
      m_next: assume (alloc_place == end_of[alloc_qpn_i] &&
                      alloc_tail_i == at_q[alloc_qpn_i][3'(end_of[alloc_qpn_i] - 1'b1)]);
    if (alloc_i) m_lives: assume (!((clear_i || peek_i || u_dut.peeks_q || u_dut.peeked_q) && qpn_i == alloc_qpn_i));
    // What ends is the oldest block of a QP, one in three cycles, and not beside a clear.
    if (free_i) begin
      m_ends:  assume (count_q[qpn_i] != '0 && free_blk_i == at_q[qpn_i][3'(first_q[qpn_i])] &&
                       free_wqe_i[WqeIndexBits-1:MsgRowW] == first_q[qpn_i]);
      m_apart: assume (!u_dut.free0_q && !u_dut.free1_q && state == StIdle && !clear_i && !peek_i && !map_en_i &&
                       !u_dut.peeks_q && !u_dut.peeked_q);
    end
    if (map_en_i) m_map: assume (state == StIdle && !next_en_i && !clear_i);
    if (next_en_i) m_quiet: assume (state == StIdle && !free_i && !u_dut.free0_q && !u_dut.free1_q && !clear_i);
    // A clear stays; who is quiet has a block at the most, and begins anew.
    if (clears_q) m_stays: assume (clear_i && qpn_i == qpn_q && clear_quiet_i == quiet_q && clear_init_i == init_q &&
                                   clear_wqe_i == clear_wqe_q);
    if (state != StIdle && clear_i) m_one: assume (qpn_i == qpn_q && clear_quiet_i == quiet_q &&
                                                   clear_init_i == init_q && clear_wqe_i == clear_wqe_q);
    if (peeks_q) m_peeked: assume (qpn_i == qpn_q && clear_quiet_i == quiet_q);
    if ((peek_i || clear_i) && clear_quiet_i) m_alone: assume (count_q[qpn_i] <= 4'd1);
    if (clear_i && clear_quiet_i) m_anew: assume (clear_init_i);
    if (state == StCount) m_mark: assume (u_dut.behind == end_of[qpn_i]);
  end

  // ---- What is true ----------------------------------------------------------------------------------------
  logic [MsgBlkW:0] fresh;
  logic [3:0]       free;
  logic [QpW:0]     without;

  row_t rows [NumQps];
  row_t row;

  assign row   = u_dut.row;
  assign fresh = u_dut.fresh_q;
  assign free  = u_dut.u_used.count_q;
  always_comb begin
    without = '0;
    for (int unsigned q = 0; q < NumQps; q++) without += (QpW + 1)'(!some_q[q]);
  end

  always_comb begin
    if (!rst_q) begin
      h_fresh:   assert (32'(fresh) <= MsgBlocks && 32'(free) <= MsgBlocks);
      h_queue:   assert (3'(u_dut.u_used.wr_ptr_q - u_dut.u_used.rd_ptr_q) == 3'(free));
      a_free:    assert (32'(u_dut.free_q) == MsgBlocks - 32'(fresh) + 32'(free));
      a_without: assert (u_dut.without_q == without);
      if (take) a_taken: assert (alloc_i && what_q[alloc_blk] == ((32'(fresh) != MsgBlocks) ? Fresh : Free));
      if (give) a_given: assert (32'(u_dut.give_blk) < MsgBlocks && what_q[u_dut.give_blk] == Own &&
                                 of_q[u_dut.give_blk] == giver);
      if (maps_q && had_q && count_q[qpn_q] != '0)
        a_map: assert (map_blk == at_q[qpn_q][3'(first_q[qpn_q])]);
      if (clear_i && state == StDone) a_cleared: assert (count_q[qpn_i] == '0);
      // What is under way: a free has the block that it gives, and the place behind it in the cycle after; an alloc has
      // the row of its QP, and so has who looks ahead; a clear knows where it is.
      h_one:   assert (!(u_dut.free0_q && u_dut.free1_q));
      if (u_dut.free0_q || u_dut.free1_q) h_frees: assert (state inside {StIdle, StLook});
      if (u_dut.free0_q) h_free0: assert (u_dut.free_blk_q == at_q[giver][3'(first_q[giver])] && count_q[giver] != '0 &&
                                          u_dut.free_place_q == first_q[giver]);
      if (u_dut.free1_q) begin
        h_free1: assert (u_dut.free_place_q == first_q[u_dut.free_qpn_q] - 1'b1 &&
                         row == rows[u_dut.free_qpn_q]);
        if (count_q[u_dut.free_qpn_q] != '0)
          h_behind: assert (u_dut.next_blk == at_q[u_dut.free_qpn_q][3'(first_q[u_dut.free_qpn_q])]);
      end
      if (u_dut.look_q) h_look: assert (held_q && !u_dut.free1_q && row == rows[alloc_qpn_q]);
      if (u_dut.peeks_q) h_peek: assert (row == rows[qpn_q] && peeks_q && quiet_q && state == StIdle);
      if (u_dut.peeked_q) h_peeked: assert (peeks_q && quiet_q && state inside {StIdle, StOne} &&
                                            u_dut.some_q == (count_q[qpn_q] != '0) &&
                                            (!u_dut.some_q || u_dut.blk_q == at_q[qpn_q][3'(first_q[qpn_q])]));
      if (u_dut.peeks_q || u_dut.peeked_q)
        h_alone: assert (count_q[qpn_q] <= 4'd1 && !u_dut.free0_q && (!u_dut.free1_q || u_dut.free_qpn_q != qpn_q));
      unique case (state)
        StLook:  h_looks:  assert (clears_q && !quiet_q);
        StCount: h_counts: assert (clears_q && !quiet_q && row == rows[qpn_q]);
        StCheck, StMap, StFree: begin
          h_clears: assert (clears_q && !quiet_q && u_dut.end_q == end_of[qpn_q] &&
                            u_dut.at_q == first_q[qpn_q] + place_t'(state == StFree) &&
                            (state == StCheck || count_q[qpn_q] != '0) && !some_q[qpn_q]);
          if (count_q[qpn_q] != '0) h_at: assert (u_dut.blk_q == at_q[qpn_q][3'(first_q[qpn_q])]);
          if (state == StFree && count_q[qpn_q] > 4'd1)
            h_then: assert (u_dut.next_blk == at_q[qpn_q][3'(first_q[qpn_q] + 1'b1)]);
        end
        StOne: h_last: assert (clears_q && quiet_q && init_q && u_dut.some_q == (count_q[qpn_q] != '0) &&
                               count_q[qpn_q] <= 4'd1 && some_q[qpn_q] == u_dut.some_q &&
                               (!u_dut.some_q || u_dut.blk_q == at_q[qpn_q][3'(first_q[qpn_q])]));
        StDone: h_done: assert (count_q[qpn_q] == '0 && !some_q[qpn_q] &&
                                (init_q || u_dut.end_q == first_q[qpn_q]));
        default: ;
      endcase

      c_third: cover (take && count_q[alloc_qpn_i] == 4'd2);
      c_clear: cover (clear_i && state == StDone && u_dut.at_q == place_t'(2));
      c_map:   cover (maps_q && u_dut.late_q && count_q[qpn_q] == 4'd1);
    end
  end

  // Rows of the QPs: as they are, but of one whose block is on its way back, or that is being cleared.
  for (genvar q = 0; q < int'(NumQps); q++) begin : gen_qp
    logic stale, cleared;

    assign rows[q]  = u_dut.u_row.mem[q];
    assign stale    = u_dut.free1_q && 32'(u_dut.free_qpn_q) == q;
    assign cleared  = 32'(qpn_q) == q && (state inside {StCheck, StMap, StFree} || (state == StDone && clears_q));
    always_comb begin
      if (!rst_q) begin
        h_count: assert (32'(count_q[q]) <= MsgBlocks);
        if (state == StScrub) begin
          h_none:  assert (count_q[q] == '0 && first_q[q] == '0 && !some_q[q]);
          h_clean: assert (q >= 32'(scrub) || rows[q] == '0);
        end else if (stale) begin
          h_stale: assert (rows[q].some && rows[q].newest == end_of[q] - 1'b1 && some_q[q]);
        end else if (!cleared) begin
          h_row:   assert (rows[q].some == (count_q[q] != '0) && rows[q].oldest == first_q[q] &&
                           some_q[q] == (count_q[q] != '0));
          if (count_q[q] != '0)
            h_rest: assert (rows[q].newest == end_of[q] - 1'b1 && rows[q].blk == at_q[q][3'(first_q[q])] &&
                            u_dut.u_map.mem[q] == rows[q].blk);
        end
      end
    end
    for (genvar i = 0; i < 8; i++) begin : gen_place
      always_comb begin
        if (!rst_q && 4'(3'(3'(i) - 3'(first_q[q]))) < count_q[q]) begin
          a_there: assert (32'(at_q[q][i]) < MsgBlocks && what_q[at_q[q][i]] == Own && 32'(of_q[at_q[q][i]]) == q &&
                           32'(pos_q[at_q[q][i]]) == i);
          if (4'(3'(3'(i) - 3'(first_q[q]))) + 4'd1 < count_q[q])
            a_linked: assert (u_dut.u_next.mem[at_q[q][i]] == at_q[q][(i + 1) % 8]);
        end
      end
    end
  end

  // Whoever is at a place knows it, and is there.
  for (genvar b = 0; b < int'(MsgBlocks); b++) begin : gen_block
    always_comb begin
      if (!rst_q) begin
        a_fresh: assert ((what_q[b] == Fresh) == (b >= 32'(fresh)));
        if (what_q[b] == Own)
          a_own:  assert (4'(3'(pos_q[b] - 3'(first_q[of_q[b]]))) < count_q[of_q[b]] &&
                          32'(at_q[of_q[b]][pos_q[b]]) == b);
        if (what_q[b] == Free)
          a_is_free: assert (4'(3'(pos_q[b] - u_dut.u_used.rd_ptr_q)) < free &&
                             32'(u_dut.u_used.gen_regs.mem[pos_q[b]]) == b);
        h_what: assert (what_q[b] inside {Fresh, Free, Own});
      end
    end
  end
  for (genvar i = 0; i < 8; i++) begin : gen_free
    blk_t blk;
    assign blk = u_dut.u_used.gen_regs.mem[i];
    always_comb begin
      if (!rst_q && 4'(3'(3'(i) - u_dut.u_used.rd_ptr_q)) < free)
        h_listed: assert (32'(blk) < MsgBlocks && what_q[blk] == Free && 32'(pos_q[blk]) == i);
    end
  end

endmodule
