// Blocks of the outstanding message table, MsgBlockRows WQEs each: which are free, and which the QPs have. A QP takes
// one when it begins a WQE at a multiple of MsgBlockRows, and gives blocks back in that order. One with nothing
// outstanding always finds a block: others take a further one only while there is room (room_o), that is, more free
// blocks than QPs.
//
// clear_i (held until clear_done_o): all blocks of a QP come back, two cycles each. Takes nothing for NumQps cycles
// after reset.
module hca_msg_pool
  import hca_pkg::*, hca_rx_pkg::*;
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
  input  logic [15:0]      alloc_wqe_i,
  // Block of a WQE, in the next cycle, held.
  input  logic             map_en_i,
  input  logic [QpW-1:0]   qpn_i,         // of map, free and clear
  input  logic [15:0]      map_wqe_i,
  output logic [MsgBlkW-1:0] map_blk_o,
  // The block of free_wqe_i, the QP's oldest one, is over.
  input  logic             free_i,
  input  logic [MsgBlkW-1:0] free_blk_i,
  input  logic [15:0]      free_wqe_i,
  input  logic             clear_i,
  input  logic             clear_init_i,  // the QP begins anew
  input  logic [15:0]      clear_wqe_i,   // at this WQE
  output logic             clear_done_o,
  input  logic             mark_ready_i,
  output logic             mark_en_o,     // asks for the QP's mark: the next WQE not yet begun, in the next cycle
  input  logic [15:0]      mark_wqe_i
);

  // Blocks that QPs may be about to take when room_o falls.
  localparam int unsigned UnderWay = 4;
  localparam int unsigned PlaceW   = 16 - MsgRowW;        // block of a QP, by its first WQE, free-running
  localparam int unsigned MapW     = OmtW - MsgRowW;

  typedef enum logic [2:0] {StScrub, StIdle, StLook, StCount, StCheck, StMap, StFree, StDone} state_e;

  state_e             state_q;
  logic [QpW-1:0]     scrub_q;
  logic [PlaceW-1:0]  oldest, at_q, end_q;
  logic [MapW-1:0]    map_at;
  logic [MsgBlkW:0]   fresh_q, free_q;       // blocks never taken begin at fresh_q
  logic               is_fresh, take, give, used_valid;
  logic [MsgBlkW-1:0] used_blk, give_blk;
  logic               oldest_we;
  logic [PlaceW-1:0]  oldest_new;
  logic               unused_bits, unused_ready;
  logic [MsgBlkW:0]   unused_count;

  assign unused_bits  = ^{alloc_wqe_i, map_wqe_i, clear_wqe_i, free_wqe_i, mark_wqe_i};
  assign ready_o      = state_q != StScrub;
  assign scrub_o      = scrub_q;
  assign clear_done_o = state_q == StDone;
  assign mark_en_o    = state_q == StLook && mark_ready_i;

  // ---- Free blocks ---------------------------------------------------------------------------------
  assign is_fresh      = !fresh_q[MsgBlkW];
  assign alloc_ready_o = is_fresh || used_valid;
  assign alloc_blk_o   = is_fresh ? fresh_q[MsgBlkW-1:0] : used_blk;
  assign take          = alloc_i && alloc_ready_o;
  assign give          = free_i || state_q == StFree;
  assign give_blk      = free_i ? free_blk_i : map_blk_o;

  hca_fifo #(
    .Width(MsgBlkW),
    .Depth(MsgBlocks)
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
      fresh_q <= '0;
      free_q  <= (MsgBlkW + 1)'(MsgBlocks);
      room_o  <= 1'b0;
    end else begin
      if (take && is_fresh) fresh_q <= fresh_q + 1'b1;
      free_q <= free_q - (MsgBlkW + 1)'(take) + (MsgBlkW + 1)'(give);
      room_o <= free_q > (MsgBlkW + 1)'(NumQps + UnderWay);
    end
  end

  // ---- Blocks of the QPs ---------------------------------------------------------------------------
  assign map_at = (state_q == StMap) ? at_q[MapW-1:0] : map_wqe_i[OmtW-1:MsgRowW];

  hca_ram_1r1w #(
    .Width(MsgBlkW),
    .Depth(NumQps << MapW)
  ) u_map (
    .clk_i,
    .we_i   (take),
    .waddr_i({alloc_qpn_i, alloc_wqe_i[OmtW-1:MsgRowW]}),
    .wdata_i(alloc_blk_o),
    .re_i   (map_en_i || state_q == StMap),
    .raddr_i({qpn_i, map_at}),
    .rdata_o(map_blk_o)
  );

  assign oldest_we = free_i || (clear_i && clear_done_o) || state_q == StScrub;

  always_comb begin
    oldest_new = free_wqe_i[15:MsgRowW] + 1'b1;
    if (state_q == StDone) oldest_new = clear_init_i ? clear_wqe_i[15:MsgRowW] : end_q;
    if (state_q == StScrub) oldest_new = '0;
  end

  hca_ram_1r1w #(
    .Width(PlaceW),
    .Depth(NumQps)
  ) u_oldest (
    .clk_i,
    .we_i   (oldest_we),
    .waddr_i((state_q == StScrub) ? scrub_q : qpn_i),
    .wdata_i(oldest_new),
    .re_i   (mark_en_o),
    .raddr_i(qpn_i),
    .rdata_o(oldest)
  );

  // ---- Clear ---------------------------------------------------------------------------------------
  logic [PlaceW-1:0] behind;  // the block before which all lies that was begun
  assign behind = PlaceW'((mark_wqe_i + 16'(MsgBlockRows - 1)) >> MsgRowW);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StScrub;
      scrub_q <= '0;
    end else begin
      if (!ready_o) scrub_q <= scrub_q + 1'b1;
      unique case (state_q)
        StScrub: if (scrub_q == QpW'(NumQps - 1)) state_q <= StIdle;
        StIdle:  if (clear_i) state_q <= StLook;
        StLook:  if (mark_ready_i) state_q <= StCount;
        StCount: state_q <= StCheck;
        StCheck: state_q <= (at_q == end_q) ? StDone : StMap;
        StMap:   state_q <= StFree;
        StFree:  state_q <= (at_q == end_q) ? StDone : StMap;
        default: if (!clear_i) state_q <= StIdle;
      endcase
    end
    if (state_q == StCount) begin
      at_q  <= oldest;
      end_q <= behind;
    end else if (state_q == StMap) begin
      at_q <= at_q + 1'b1;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!free_i || (state_q == StIdle)) else $error("hca_msg_pool: two give blocks back");
    if (!rst_i) assert (free_q <= (MsgBlkW + 1)'(MsgBlocks)) else $error("hca_msg_pool: a block came back twice");
  end
`endif

endmodule
