// Blocks of the outstanding message table, MsgBlockRows WQEs each: which are free, and which the QPs have. A QP takes
// one when it begins a WQE at a multiple of MsgBlockRows, and gives blocks back in that order: a list, of which the
// oldest block is known. One with nothing outstanding always finds a block: others take a further one only while there
// is room (room_o), that is, more free blocks than QPs without one.
//
// alloc_i is held until alloc_ready_o, two cycles or more. free_i takes three cycles, of which nobody sees anything:
// an alloc waits for it, and a map that comes in these cycles has its answer. clear_i (held until clear_done_o): all
// blocks of a QP come back, two cycles each. A QP that has nothing outstanding has one at most: if peek_i comes a cycle
// ahead, that is over in the second cycle of clear_i. Takes nothing for NumQps cycles after reset.
module hca_msg_pool
  import hca_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_i,
  output logic             room_o,
  output logic             ready_o,       // the tables are cleared, up to row scrub_o in this cycle
  output logic [QpW-1:0]   scrub_o,
  // The next block; alloc_i takes it for a part of a QP's table.
  output logic             alloc_ready_o,
  output logic [MsgBlkW-1:0] alloc_blk_o,
  input  logic             alloc_i,
  input  logic [QpW-1:0]   alloc_qpn_i,
  input  wqe_idx_t         alloc_wqe_i,
  input  logic [MsgBlkW-1:0] alloc_tail_i,  // the block that the QP took last
  // The QP's oldest block, if it has one, in the next cycle, held.
  input  logic             map_en_i,
  input  logic [QpW-1:0]   qpn_i,         // of map, free and clear
  output logic [MsgBlkW-1:0] map_blk_o,
  // The block behind one, likewise. Not within two cycles of free_i, nor beside clear_i.
  input  logic             next_en_i,
  input  logic [MsgBlkW-1:0] next_of_i,
  // The block of free_wqe_i, the QP's oldest one, is over.
  input  logic             free_i,
  input  logic [MsgBlkW-1:0] free_blk_i,
  input  wqe_idx_t         free_wqe_i,
  input  logic             clear_i,
  input  logic             clear_init_i,  // the QP begins anew
  input  wqe_idx_t         clear_wqe_i,   // at this WQE
  input  logic             clear_quiet_i, // it has nothing outstanding, and begins anew
  input  logic             peek_i,        // with clear_quiet_i: of qpn_i, which is looked at ahead of clear_i
  output logic             clear_done_o,
  input  logic             mark_ready_i,
  output logic             mark_en_o,     // asks for the QP's mark: the next WQE not yet begun, in the next cycle
  input  wqe_idx_t         mark_wqe_i
);

  // Blocks that QPs may be about to take when room_o falls.
  localparam int unsigned UnderWay = 5;
  localparam int unsigned PlaceW   = WqeIndexBits - MsgRowW;        // block of a QP, by its first WQE, free-running

  typedef enum logic [3:0] {StScrub, StIdle, StLook, StCount, StCheck, StMap, StFree, StOne, StDone}
    state_e;

  // The blocks that a QP has.
  typedef struct packed {
    logic               some;
    logic [PlaceW-1:0]  oldest;   // place of its oldest one, or of the next that it takes
    logic [PlaceW-1:0]  newest;
    logic [MsgBlkW-1:0] blk;      // its oldest one
  } row_t;

  state_e             state_q;
  logic [QpW-1:0]     scrub_q;
  logic [PlaceW-1:0]  at_q, end_q;
  logic [MsgBlkW:0]   fresh_q, free_q;       // blocks never taken begin at fresh_q
  logic [QpW:0]       without_q;             // QPs without a block
  logic               is_fresh, take, give, used_valid;
  logic               look_q, free0_q, free1_q;   // an alloc has the QP's row; a free reads it; and has it
  logic               peek, peeks_q, peeked_q, some_q;
  logic [MsgBlkW-1:0] used_blk, give_blk;
  logic               unused_bits, unused_ready;
  logic [MsgBlkW:0]   unused_count;

  assign unused_bits  = ^{alloc_wqe_i, clear_wqe_i, free_wqe_i, mark_wqe_i};
  assign ready_o      = state_q != StScrub;
  assign scrub_o      = scrub_q;
  assign clear_done_o = state_q inside {StOne, StDone};
  assign peek         = peek_i && clear_quiet_i && state_q == StIdle && !free0_q && !free1_q && !peeks_q && !peeked_q;
  assign mark_en_o    = state_q == StLook && mark_ready_i && !free0_q && !free1_q;

  row_t               row, row_new;
  logic               row_we, row_re, next_re;
  logic               first, is_newest, emptied, ended;    // a QP takes its only block; gives it back; all come back
  logic [QpW-1:0]     row_raddr, row_waddr, free_qpn_q;
  logic [MsgBlkW-1:0] next_blk, free_blk_q, blk_q, map_blk, late_blk_q;
  logic [PlaceW-1:0]  alloc_place, free_place_q;
  logic               late_q, fresh_late_q;   // a map came while its QP's block was given back; in its first cycle
  logic               nexts_q;                // next_en_i came last

  // ---- Free blocks ---------------------------------------------------------------------------------
  assign is_fresh      = fresh_q != (MsgBlkW + 1)'(MsgBlocks);
  assign alloc_ready_o = look_q && (is_fresh || used_valid) && !free0_q && !free1_q && !clear_done_o;
  assign alloc_blk_o   = is_fresh ? fresh_q[MsgBlkW-1:0] : used_blk;
  assign take          = alloc_ready_o;   // alloc_i is late, and held from the cycle before look_q on
  assign give          = free0_q || state_q == StFree || (state_q == StOne && some_q);
  assign give_blk      = free0_q ? free_blk_q : blk_q;

  hca_fifo #(
    .Width(MsgBlkW),
    .Depth(1 << MsgBlkW)
  ) u_used (
    .clk_i,
    .rst_i,
    .in_valid_i (give),
    .in_ready_o (unused_ready),
    .in_i       (give_blk),
    .out_valid_o(used_valid),
    .out_ready_i(take && !is_fresh),
    .out_o      (used_blk),
    .count_o    (unused_count)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      fresh_q   <= '0;
      free_q    <= (MsgBlkW + 1)'(MsgBlocks);
      without_q <= (QpW + 1)'(NumQps);
      room_o    <= 1'b0;
    end else begin
      if (take && is_fresh) fresh_q <= fresh_q + 1'b1;
      free_q    <= free_q - (MsgBlkW + 1)'(take) + (MsgBlkW + 1)'(give);
      without_q <= without_q - (QpW + 1)'(first) + (QpW + 1)'(emptied || ended);
      room_o    <= free_q > (MsgBlkW + 1)'(without_q) + (MsgBlkW + 1)'(UnderWay);
    end
  end

  // ---- Blocks of the QPs ---------------------------------------------------------------------------
  hca_same #(
    .Width(PlaceW)
  ) u_is_newest (
    .a_i   (row.newest),
    .b_i   (free_place_q),
    .same_o(is_newest)
  );

  assign alloc_place = alloc_wqe_i[WqeIndexBits-1:MsgRowW];
  assign first       = take && !row.some;
  assign emptied     = free1_q && is_newest;
  assign ended       = (state_q == StCount && row.some) || (state_q == StOne && some_q);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {look_q, free0_q, free1_q, late_q, fresh_late_q, nexts_q, peeks_q, peeked_q} <= '0;
    end else begin
      free0_q <= free_i;
      free1_q <= free0_q;
      if (next_en_i || map_en_i) nexts_q <= next_en_i;
      look_q  <= alloc_i && !take && !free0_q && !free1_q && !mark_en_o && !peek;
      peeks_q <= peek;
      peeked_q <= peek_i && state_q == StIdle && (peeks_q || peeked_q);
      fresh_late_q <= map_en_i && free0_q;
      if (map_en_i) late_q <= (free0_q || free1_q) && qpn_i == free_qpn_q;
    end
    if (free_i) begin
      free_qpn_q   <= qpn_i;
      free_blk_q   <= free_blk_i;
      free_place_q <= free_wqe_i[WqeIndexBits-1:MsgRowW];
    end
    if (free1_q) late_blk_q <= next_blk;
  end

  // An alloc comes again when another one was first.
  assign row_re    = free0_q || mark_en_o || peek || (alloc_i && !look_q);
  assign row_raddr = free0_q ? free_qpn_q : (mark_en_o || peek) ? qpn_i : alloc_qpn_i;

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumQps)
  ) u_row (
    .clk_i,
    .we_i   (row_we),
    .waddr_i(row_waddr),
    .wdata_i(row_new),
    .re_i   (row_re),
    .raddr_i(row_raddr),
    .rdata_o(row)
  );

  always_comb begin
    row_we    = take || free1_q || (clear_i && clear_done_o) || state_q == StScrub;
    row_waddr = alloc_qpn_i;
    row_new   = '{some: 1'b1, oldest: row.some ? row.oldest : alloc_place, newest: alloc_place,
                  blk: row.some ? row.blk : alloc_blk_o};
    if (free1_q) begin
      row_waddr = free_qpn_q;
      row_new   = '{some: !emptied, oldest: free_place_q + 1'b1, newest: row.newest, blk: next_blk};
    end
    if (clear_done_o) begin
      row_waddr = qpn_i;
      row_new   = '{some: 1'b0, oldest: clear_init_i ? clear_wqe_i[WqeIndexBits-1:MsgRowW] : end_q, newest: '0,
                    blk: '0};
    end
    if (state_q == StScrub) begin
      row_waddr = scrub_q;
      row_new   = '0;
    end
  end

  // The block behind each one, and a copy of the oldest one for map.
  assign next_re = free0_q || state_q == StMap || next_en_i;

  hca_ram_1r1w #(
    .Width(MsgBlkW),
    .Depth(MsgBlocks)
  ) u_next (
    .clk_i,
    .we_i   (take && row.some),
    .waddr_i(alloc_tail_i),
    .wdata_i(alloc_blk_o),
    .re_i   (next_re),
    .raddr_i(free0_q ? free_blk_q : next_en_i ? next_of_i : blk_q),
    .rdata_o(next_blk)
  );

  hca_ram_1r1w #(
    .Width(MsgBlkW),
    .Depth(NumQps)
  ) u_map (
    .clk_i,
    .we_i   (row_we),
    .waddr_i(row_waddr),
    .wdata_i(row_new.blk),
    .re_i   (map_en_i),
    .raddr_i(qpn_i),
    .rdata_o(map_blk)
  );

  assign map_blk_o = nexts_q ? next_blk : !late_q ? map_blk : fresh_late_q ? next_blk : late_blk_q;

  // ---- Clear ---------------------------------------------------------------------------------------
  logic [PlaceW-1:0] behind;  // the block before which all lies that was begun
  assign behind = PlaceW'((mark_wqe_i + WqeIndexBits'(MsgBlockRows - 1)) >> MsgRowW);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StScrub;
      scrub_q <= '0;
    end else begin
      if (!ready_o) scrub_q <= scrub_q + 1'b1;
      unique case (state_q)
        StScrub: if (scrub_q == QpW'(NumQps - 1)) state_q <= StIdle;
        StIdle:
          if (clear_i && !clear_quiet_i) state_q <= StLook;
          else if (clear_i && (peeks_q || peeked_q)) state_q <= StOne;
        StLook:  if (mark_en_o) state_q <= StCount;
        StCount: state_q <= StCheck;
        StCheck: state_q <= (at_q == end_q) ? StDone : StMap;
        StMap:   state_q <= StFree;
        StFree:  state_q <= (at_q == end_q) ? StDone : StMap;
        StOne:   state_q <= StDone;
        default: if (!clear_i) state_q <= StIdle;
      endcase
    end
    if (peeks_q) {some_q, blk_q} <= {row.some, row.blk};
    else if (state_q == StCount) begin
      at_q  <= row.oldest;
      end_q <= behind;
      blk_q <= row.blk;
    end else if (state_q == StMap) begin
      at_q <= at_q + 1'b1;
    end else if (state_q == StFree) begin
      blk_q <= next_blk;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!look_q || alloc_i) else $error("hca_msg_pool: an alloc was withdrawn");
    if (!rst_i) assert (!next_en_i || (state_q == StIdle && !free0_q && !free1_q))
      else $error("hca_msg_pool: a block is asked for beside one that comes back");
    if (!rst_i) assert (!peeks_q || !row.some || row.oldest == row.newest || !clear_i)
      else $error("hca_msg_pool: a QP that has nothing outstanding has two blocks");
    if (!rst_i) assert (!free_i || (state_q == StIdle)) else $error("hca_msg_pool: two give blocks back");
    if (!rst_i) assert (free_q <= (MsgBlkW + 1)'(MsgBlocks)) else $error("hca_msg_pool: a block came back twice");
  end
`endif

endmodule
