// Proof of hca_page_pool: each page is free or on its way back, or in the chain of one ring, once; a chain is whole and
// begins where its ring reads and ends where it writes, so a beat is read from the place it was written to, and no
// place is written before it was read; no page is lost; a page that is taken is there, also for the ring with the
// reserve, whose packets do not look whether one is free. Reads, drops and packets undone, in any order.
// What a page is, and its place, is kept beside the pool, and so is who is at each place: one undoes the other, so no
// page is at two places and no place has two, and how many there are is a matter of adding.
module fv_page_pool #(
  parameter int unsigned Pages      = 9,
  parameter int unsigned RoomBlocks = 2,
  parameter int unsigned KeepBlocks = 2
) (
  input logic       clk_i,
  input logic       wr_i,
  input logic       wr_ring_i,
  input logic       commit_i,
  input logic       undo_i,
  input logic       rd_i,
  input logic       rd_ring_i,
  input logic       drop_i,
  input logic       drop_ring_i,
  input logic [2:0] drop_blocks_i
);

  localparam int unsigned Rings = 2;   // [1] has the reserve
  localparam int unsigned Need  = 1;
  localparam int unsigned Keep  = 5;

  typedef enum logic [2:0] {Fresh, Free, Head, Coming, Ring0, Ring1, Undone, Walked} what_e;
  typedef logic [3:0] pos_t;       // places of a chain are counted modulo 16
  typedef logic [3:0] page_t;

  logic       rst_q = 1'b1;
  logic       in_q, ring_q;        // inside a packet
  logic       enough, shut, hold, busy;
  logic [4:0] wr_at, rd_at;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_page_pool #(
    .Rings(Rings), .Blocks(2 * Pages), .PageBlocks(2), .RoomBlocks(RoomBlocks), .KeepBlocks(KeepBlocks), .CountW(3)
  ) u_dut (
    .clk_i, .rst_i(rst_q), .wr_i, .wr_ring_i, .wr_first_i(!in_q), .commit_i(Rings'(commit_i) << wr_ring_i), .undo_i,
    .wr_at_o(wr_at), .enough_o(enough), .wait_o(shut), .rd_i, .rd_ring_i, .rd_at_o(rd_at), .hold_o(hold), .drop_i,
    .drop_ring_i, .drop_blocks_i, .busy_o(busy)
  );

  // ---- The user --------------------------------------------------------------------------------------------
  logic [1:0]      count_q;
  logic [1:0][5:0] fill_q;         // beats that wait

  always_comb begin
    if (!rst_q) begin
      if (wr_i) begin
        m_ring:  assume (!in_q || wr_ring_i == ring_q);
        m_begin: assume (in_q || (!shut && (wr_ring_i ? 32'(fill_q[1]) + RoomBlocks <= KeepBlocks : enough)));
        m_long:  assume (!in_q || 32'(count_q) < RoomBlocks);
      end
      m_commit: assume (!commit_i || wr_i);
      m_undo:   assume (!undo_i || (in_q && !wr_i));
      if (rd_i) m_read: assume (fill_q[rd_ring_i] != '0 && !hold);
      if (drop_i) m_drop: assume (!busy && 32'(drop_blocks_i) <= RoomBlocks && 6'(drop_blocks_i) <= fill_q[drop_ring_i]
                                  && !(rd_i && rd_ring_i == drop_ring_i));
    end else begin
      m_reset: assume (!wr_i && !undo_i && !rd_i && !drop_i && !commit_i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_q) begin
      in_q    <= 1'b0;
      count_q <= '0;
      fill_q  <= '0;
    end else begin
      if (wr_i || undo_i) in_q <= wr_i && !commit_i;
      if (wr_i) count_q <= in_q ? count_q + 1'b1 : 2'd1;
      for (int unsigned r = 0; r < Rings; r++) begin
        fill_q[r] <= fill_q[r] + ((commit_i && wr_ring_i == 1'(r)) ? (in_q ? 6'(count_q) + 6'd1 : 6'd1) : 6'd0)
                     - 6'(rd_i && rd_ring_i == 1'(r)) - ((drop_i && drop_ring_i == 1'(r)) ? 6'(drop_blocks_i) : 6'd0);
      end
    end
    if (wr_i) ring_q <= wr_ring_i;
  end

  // ---- What each page is -------------------------------------------------------------------------------------
  what_e what_q [Pages];
  pos_t  pos_q  [Pages];           // in its chain; of a free one its place in the list
  pos_t  rp_q [Rings], wp_q [Rings], end_now [Rings];   // of each chain: where it is read, behind packets, its end
  pos_t  last [Rings];             // places of each chain behind the first one
  page_t at_q [Rings][16];         // who is at each place of a chain
  page_t undone_at_q [4], walked_at_q [4];   // of those that are undone, that walk: from the first of them on
  logic [1:0] walk_q;              // the next of these
  logic  load, of_1_q;             // the page that comes was of ring 1
  logic [2:0] taken;               // with this beat

  assign load  = u_dut.undo_q && !busy && !drop_i;
  assign taken = (in_q ? u_dut.taken_q : 3'd0) + 3'(u_dut.take);
  for (genvar r = 0; r < int'(Rings); r++) begin : gen_end
    assign end_now[r] = wp_q[r] + ((in_q && ring_q == 1'(r)) ? pos_t'(u_dut.taken_q) : '0);
    assign last[r]    = end_now[r] - rp_q[r];
  end

  logic walk_1_q, undone_1_q;      // those that walk (undone ones), or are undone, were of ring 1

  always_ff @(posedge clk_i) begin
    if (undo_i) begin
      for (int unsigned i = 0; i < 4; i++) undone_at_q[i] <= at_q[ring_q][wp_q[ring_q] + pos_t'(i) + 4'd1];
      undone_1_q <= ring_q;
    end
    if (load) begin
      for (int unsigned i = 0; i < 4; i++) walked_at_q[i] <= undone_at_q[i];
      walk_q   <= '0;
      walk_1_q <= undone_1_q;
    end else if (u_dut.walk && !u_dut.walks_drop_q) walk_q <= walk_q + 2'd1;
    for (int unsigned r = 0; r < Rings; r++) begin
      for (int unsigned i = 0; i < 16; i++) begin
        if (rst_q) begin
          if (i == 0) at_q[r][i] <= page_t'(r);
        end else if (u_dut.take && wr_ring_i == 1'(r) && pos_t'(end_now[r] + 4'd1) == pos_t'(i))
          at_q[r][i] <= u_dut.head_q;
      end
    end
    of_1_q <= u_dut.leave ? rd_ring_i : u_dut.walks_drop_q ? u_dut.drop_ring_q : walk_1_q;
    for (int unsigned r = 0; r < Rings; r++) begin
      if (rst_q) begin
        rp_q[r] <= '0;
        wp_q[r] <= '0;
      end else begin
        if ((u_dut.leave && rd_ring_i == 1'(r)) ||
            (u_dut.walk && u_dut.walks_drop_q && u_dut.drop_ring_q == 1'(r))) rp_q[r] <= rp_q[r] + 1'b1;
        if (commit_i && wr_ring_i == 1'(r)) wp_q[r] <= wp_q[r] + pos_t'(taken);
      end
    end
    for (int unsigned p = 0; p < Pages; p++) begin
      if (rst_q) begin
        what_q[p] <= (p == 0) ? Ring0 : (p == 1) ? Ring1 : (p == 2) ? Head : Fresh;
        pos_q[p]  <= '0;
      end else begin
        if (u_dut.give_q && 32'(u_dut.give_page_q) == p) begin
          what_q[p] <= Free;
          pos_q[p]  <= pos_t'(u_dut.come_q);
        end
        if (undo_i && what_q[p] == (ring_q ? Ring1 : Ring0) &&
            pos_t'(pos_q[p] - wp_q[ring_q] - 1'b1) < pos_t'(u_dut.taken_q)) begin
          what_q[p] <= Undone;
          pos_q[p]  <= pos_q[p] - wp_q[ring_q] - 1'b1;
        end
        if (load && what_q[p] == Undone) what_q[p] <= Walked;
        if (u_dut.take && 32'(u_dut.head_q) == p) begin
          what_q[p] <= wr_ring_i ? Ring1 : Ring0;
          pos_q[p]  <= end_now[wr_ring_i] + 1'b1;
        end
        if (u_dut.take && 32'(u_dut.fresh_left_q ? u_dut.fresh_q : u_dut.free_mem[u_dut.go_q]) == p) what_q[p] <= Head;
        if (u_dut.leave && 32'(u_dut.rd_page) == p) what_q[p] <= Coming;
        if (u_dut.walk && 32'(u_dut.walk_page) == p) what_q[p] <= Coming;
      end
    end
  end

  // ---- What is true of them ----------------------------------------------------------------------------------
  function automatic logic [4:0] behind(logic [4:0] at, logic [4:0] from);   // places of the list of free ones
    return (at >= from) ? at - from : 5'(Pages) + at - from;
  endfunction

  logic [4:0] go, fresh, free, undone, walked;   // number of each kind
  logic [2:0] walking;                           // pages of a drop

  assign go      = 5'(u_dut.go_q);
  assign fresh   = u_dut.fresh_left_q ? 5'(Pages) - 5'(u_dut.fresh_q) : 5'd0;
  assign free    = 5'(u_dut.free_q) - 5'd1 - fresh;
  assign undone  = u_dut.undo_q ? 5'(u_dut.taken_q) : 5'd0;
  assign walked  = u_dut.walks_drop_q ? 5'd0 : 5'(u_dut.walk_left_q);
  assign walking = u_dut.walks_drop_q ? u_dut.walk_left_q : 3'd0;

  always_comb begin
    if (!rst_q) begin
      a_sum:   assert (6'(u_dut.free_q) + 6'(u_dut.give_q) + 6'(last[0]) + 6'(last[1]) + 6'd2 + 6'(undone) + 6'(walked)
                       == 6'(Pages));
      // Free ones.
      h_free:  assert (32'(u_dut.free_q) >= 1 + 32'(fresh) && 32'(free) < Pages);
      h_head:  assert (32'(u_dut.head_q) < Pages && what_q[u_dut.head_q] == Head);
      h_fresh: assert (32'(u_dut.fresh_q) >= 3 && (!u_dut.fresh_left_q || 32'(u_dut.fresh_q) < Pages));
      h_then:  assert (32'(u_dut.go_then_q) == ((32'(u_dut.go_q) == Pages - 1) ? 0 : 32'(u_dut.go_q) + 1));
      h_list:  assert (32'(u_dut.go_q) < Pages && 32'(u_dut.come_q) < Pages && behind(5'(u_dut.come_q), go) == free);
      if (u_dut.give_q) h_comes: assert (32'(u_dut.give_page_q) < Pages && what_q[u_dut.give_page_q] == Coming);
      h_drop:  assert (!u_dut.drop_q || (32'(u_dut.drop_blocks_q) <= RoomBlocks && u_dut.walk_left_q == '0 &&
                                         !u_dut.to_next_q[u_dut.drop_ring_q] && !u_dut.walked_q));
      h_both:  assert (u_dut.to_next_q != 2'b11);
      h_same:  assert (!(u_dut.give_q && !u_dut.walked_q) || u_dut.to_next_q[u_dut.give_ring_q]);
      h_last:  assert (!(u_dut.walked_q && u_dut.walks_drop_q) || u_dut.walk_left_q != '0 ||
                       u_dut.to_next_q[u_dut.drop_ring_q]);
      h_inner: assert (!(u_dut.walked_q && u_dut.walk_left_q != '0) || u_dut.to_next_q == '0);
      h_walk:  assert (!u_dut.walked_q || u_dut.give_q);
      h_left:  assert (32'(u_dut.walk_left_q) <= Need);
      h_some:  assert (u_dut.walks_q == (u_dut.walk_left_q != '0));
      h_taken: assert (!(in_q || u_dut.undo_q) || 32'(u_dut.taken_q) <= Need);
      h_walk_end: assert (walked == '0 || 32'(walk_q) + 32'(walked) <= Need);
      if (walked != '0) h_walk_at: assert (u_dut.walk_page == walked_at_q[walk_q]);
      if (u_dut.undo_q) h_first: assert (!in_q && u_dut.taken_q != '0 && u_dut.first_page_q == undone_at_q[0]);
      // Inside a packet.
      if (in_q) begin
        h_inside: assert (32'(count_q) >= 1 && 32'(count_q) <= RoomBlocks &&
                          u_dut.at_page_q == at_q[ring_q][end_now[ring_q]]);
        h_beats:  assert (4'(2 * 4'(u_dut.taken_q)) + 4'(u_dut.at_off_q) ==
                          4'(u_dut.wr_off_q[ring_q]) + 4'(count_q));
        if (u_dut.taken_q != '0) h_took: assert (u_dut.first_page_q == at_q[ring_q][pos_t'(wp_q[ring_q] + 1'b1)]);
        if (ring_q) h_keep: assert (32'(fill_q[1]) + RoomBlocks <= KeepBlocks);
      end
      if (wr_i) a_written: assert (what_q[wr_at[4:1]] == (wr_ring_i ? Ring1 : Ring0));
      // What is free, and what ring 1 has beyond its first page or has let go.
      h_reserve: assert (32'(u_dut.free_q) + 32'(last[1]) + 32'(u_dut.give_q && of_1_q) +
                         (walk_1_q ? 32'(walked) : 0) + (undone_1_q ? 32'(undone) : 0) >=
                         Keep + ((in_q && !ring_q) ? Need - 32'(u_dut.taken_q) : 0));
      h_enough:  assert (!enough || 32'(u_dut.free_q) >= Need + Keep);
      h_fill:    assert (32'(fill_q[1]) <= KeepBlocks);
      if (u_dut.take) a_there: assert (32'(u_dut.free_q) >= 2);

      c_undo: cover (u_dut.undo_q && busy);
      c_old:  cover (!u_dut.fresh_left_q && u_dut.take && u_dut.walk);
      c_drop: cover (u_dut.walk && u_dut.walks_drop_q && wr_i);
    end
  end

  // Whoever is at a place knows it, and is there.
  for (genvar p = 0; p < int'(Pages); p++) begin : gen_page
    always_comb begin
      if (!rst_q) begin
        a_new:    assert ((what_q[p] == Fresh) == (u_dut.fresh_left_q && p >= 32'(u_dut.fresh_q)));
        a_head:   assert (what_q[p] != Head || 32'(u_dut.head_q) == p);
        a_coming: assert (what_q[p] != Coming || (u_dut.give_q && 32'(u_dut.give_page_q) == p));
        a_free:   assert (what_q[p] != Free || (32'(pos_q[p]) < Pages && 32'(u_dut.free_mem[pos_q[p]]) == p &&
                                                behind(5'(pos_q[p]), go) < free));
        a_undone: assert (what_q[p] != Undone || (5'(pos_q[p]) < undone && 32'(undone_at_q[pos_q[p][1:0]]) == p));
        a_walked: assert (what_q[p] != Walked || (5'(pos_q[p]) >= 5'(walk_q) && 5'(pos_q[p]) < 5'(walk_q) + walked &&
                                                  32'(walked_at_q[pos_q[p][1:0]]) == p));
        if (behind(5'(p), go) < free)
          h_place: assert (32'(u_dut.free_mem[p]) < Pages && what_q[u_dut.free_mem[p]] == Free &&
                           32'(pos_q[u_dut.free_mem[p]]) == p);
      end
    end
    for (genvar r = 0; r < int'(Rings); r++) begin : gen_chain
      always_comb begin
        if (!rst_q && what_q[p] == what_e'(3'd4 + 3'(r)))
          a_chain: assert (pos_t'(pos_q[p] - rp_q[r]) <= last[r] && 32'(at_q[r][pos_q[p]]) == p);
      end
    end
  end

  for (genvar i = 0; i < 4; i++) begin : gen_undone
    always_comb begin
      if (!rst_q && 5'(i) < undone) begin
        h_undone: assert (32'(undone_at_q[i]) < Pages && what_q[undone_at_q[i]] == Undone &&
                          32'(pos_q[undone_at_q[i]]) == i);
        if (5'(i + 1) < undone) h_undone_next: assert (u_dut.next_mem[undone_at_q[i]] == undone_at_q[(i + 1) % 4]);
      end
      if (!rst_q && 5'(i) >= 5'(walk_q) && 5'(i) < 5'(walk_q) + walked) begin
        h_walked: assert (32'(walked_at_q[i]) < Pages && what_q[walked_at_q[i]] == Walked &&
                          32'(pos_q[walked_at_q[i]]) == i);
        if (5'(i + 1) < 5'(walk_q) + walked)
          h_walked_next: assert (u_dut.next_mem[walked_at_q[i]] == walked_at_q[(i + 1) % 4]);
      end
    end
  end

  // Where rings write and read.
  for (genvar r = 0; r < int'(Rings); r++) begin : gen_ring
    page_t page;
    logic  mine, drops;

    assign mine  = u_dut.drop_ring_q == 1'(r);
    assign drops = mine && walking != 3'd0;
    assign page  = drops ? u_dut.walk_page : u_dut.to_next_q[r] ? u_dut.next_page : u_dut.rd_page_q[r];

    for (genvar i = 0; i < 16; i++) begin : gen_place
      always_comb begin
        if (!rst_q && pos_t'(pos_t'(i) - rp_q[r]) <= last[r]) begin
          h_there: assert (32'(at_q[r][i]) < Pages && what_q[at_q[r][i]] == what_e'(3'd4 + 3'(r)) &&
                           32'(pos_q[at_q[r][i]]) == i);
          if (pos_t'(i) != end_now[r])
            a_next: assert (u_dut.next_mem[at_q[r][i]] == at_q[r][pos_t'(i + 1)]);
        end
      end
    end

    always_comb begin
      if (!rst_q) begin
        h_short:   assert (32'(last[r]) < Pages);
        a_reads:   assert (page == at_q[r][rp_q[r]]);
        a_writes:  assert (u_dut.wr_page_q[r] == at_q[r][wp_q[r]] && pos_t'(wp_q[r] - rp_q[r]) <= last[r]);
        a_blocks:  assert (7'(2 * 7'(pos_t'(wp_q[r] - rp_q[r]))) + 7'(u_dut.wr_off_q[r]) ==
                           7'(fill_q[r]) + 7'(u_dut.rd_off_q[r]) + (mine ? 7'(2 * 7'(walking)) : 7'd0) +
                           ((mine && u_dut.drop_q) ? 7'(u_dut.drop_blocks_q) : 7'd0));
        if (rd_i && rd_ring_i == 1'(r))
          a_read: assert (rd_at[4:1] == page && rd_at[0] == u_dut.rd_off_q[r]);
        h_next: assert (!u_dut.to_next_q[r] || (u_dut.give_q &&
                        (u_dut.walked_q ? mine && u_dut.walks_drop_q : u_dut.give_ring_q == 1'(r))));
      end
    end
  end

endmodule
