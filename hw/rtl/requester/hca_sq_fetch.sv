// Prefetches send WQEs of the bound slots into one RAM: a FIFO of SlotBlocks 64-byte blocks per slot. Reads
// are at most 512 bytes, cross neither a 512-byte boundary nor the end of the ring, never go beyond the limit
// that the emitter has given (a producer index it has checked). Responses arrive in request order; those of a
// slot that was restarted meanwhile are dropped. One request per four cycles, one response beat per cycle.
// The last WQE before the limit may lie in a push slot (hca_sq_push): if it is all that is to be fetched it is copied
// from there, without the host; what a larger stride has behind the slot's blocks is void. The doorbell's news comes by
// early_i at once, so that a bound QP finds the WQE there when its turn begins. What is pushed lies in the ring, too:
// it may be passed over at any time.
module hca_sq_fetch
  import hca_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots      = 64,
  parameter int unsigned SlotBlocks = 64,
  parameter int unsigned Inflight   = 64,
  localparam int unsigned SlotW = $clog2(Slots),
  localparam int unsigned BlkW  = $clog2(SlotBlocks)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  // From the emitter. Restart: drop everything of the slot and go on from WQE idx_i of ring_i; both at once may be.
  input  logic             restart_i,
  input  logic             limit_i,     // strobe: WQEs before pi_i may be fetched
  input  logic             pop_i,       // strobe: pop_blocks_i blocks are consumed
  input  logic [SlotW-1:0] slot_i,
  input  sq_ring_t         ring_i,
  input  logic [15:0]      idx_i,
  input  logic [15:0]      pi_i,
  input  push_t            push_i,      // with limit_i
  input  logic             early_i,     // strobe: the WQE before early_pi_i of that slot lies there
  input  logic [SlotW-1:0] early_slot_i,
  input  logic [15:0]      early_pi_i,
  input  push_t            early_push_i,
  input  logic [3:0]       pop_blocks_i,
  output logic [BlkW:0]    have_o,      // blocks of slot_i that lie ready
  output logic [BlkW-1:0]  head_o,      // position of the first of them
  output logic             err_o,       // the read behind the last ready block failed
  output logic             exhausted_o, // nothing is under way or will be: others wait for a slot
  input  logic             want_slot_i,
  input  logic [Slots-1:0] rated_i,     // slots of a rate group: that group keeps them
  input  logic [Slots-1:0] halt_i,      // strobes: nothing is to be fetched any more before the restart
  output logic             begun_o,     // strobe: a read is on its way to the host; its last response beat ends it
  output logic [Slots-1:0] wake_o,      // strobe: news for the emitter
  // Read port: block at blk_ptr_i of slot_i, one cycle after blk_re_i.
  input  logic             blk_re_i,
  input  logic [BlkW-1:0]  blk_ptr_i,
  output beat_t            blk_o,
  // Push slots: the row of one cycle is there in the next one, held.
  output logic                push_re_o,
  output logic [PushRowW-1:0] push_row_o,
  input  beat_t               push_block_i,
  // Host reads.
  output logic             fetch_req_valid_o,
  input  logic             fetch_req_ready_i,
  output dma_rd_req_t      fetch_req_o,
  input  logic             fetch_rsp_valid_i,
  output logic             fetch_rsp_ready_o,
  input  dma_rd_rsp_t      fetch_rsp_i
);

  localparam int unsigned GenW   = 16;
  localparam int unsigned TotalW = BlkW + 2;

  typedef struct packed {
    logic [SlotW-1:0] slot;
    logic [GenW-1:0]  gen;
  } track_t;

  typedef enum logic [2:0] {StPick, StRead, StSize, StReq, StCopy} state_e;

  localparam int unsigned PushBlkW = $clog2(PushSlotBytes / DataBytes);
  localparam int unsigned StrideW  = MaxLogWqeStride;

  // Per slot. Positions count blocks, free running.
  sq_ring_t        ring_q [Slots];
  logic [18:0]     fetch_q [Slots];    // ring position of the next block to ask for
  logic [15:0]     limit_q [Slots];
  push_t           push_q [Slots];
  logic [GenW-1:0] gen_q [Slots];
  logic [BlkW:0]   issued_q [Slots];   // FIFO positions: asked for, written, consumed
  logic [BlkW:0]   written_q [Slots];
  logic [BlkW:0]   popped_q [Slots];
  logic [TotalW-1:0] total_q [Slots];  // blocks asked for since the restart, saturating
  logic [Slots-1:0]  err_q, exhausted_q, need_q, halted_q;

  typedef struct packed {
    logic [SlotW-1:0] slot;
    logic [15:0]      idx;
    push_t            push;  // valid: something to look at
  } early_t;

  state_e            state_q;
  logic [SlotW-1:0]  s, s_q, need_idx;
  logic [Slots-1:0]  need_grant;
  sq_ring_t          ring;
  logic [18:0]       pos, ring_mask, wrap_mask, slot_in_ring;
  logic [63:0]       addr_q;
  logic [18:0]       avail_q, to_end_q;
  logic [BlkW:0]     room, room_q;
  logic [GenW-1:0]   req_gen_q;
  logic [7:0]        func_q;
  logic [3:0]        size, size_q, to_boundary;
  logic              fresh, stop, wanted, req_fire, track_ready;
  early_t               early_q;
  logic                 early_go, pushed, alone, alone_q, copy, copy_first, copy_last, forward;
  push_t                push_here_q;
  logic [PushSlotW-1:0] push_slot;
  logic [BlkW-1:0]      copy_at, copy_at_q;
  logic [StrideW-1:0]   copy_blk_q, copy_next;
  logic [PushBlkW-1:0]  push_blk;
  track_t            track;
  logic              track_valid, rsp_live, rsp_write, rsp_end;

  assign have_o      = written_q[slot_i] - popped_q[slot_i];
  assign head_o      = popped_q[slot_i][BlkW-1:0];
  assign err_o       = err_q[slot_i];
  assign exhausted_o = exhausted_q[slot_i] && (issued_q[slot_i] == written_q[slot_i]);

  // ---- Requests --------------------------------------------------------------------------------------
  hca_rr_arb #(.N(Slots)) u_need (
    .clk_i, .rst_i,
    .req_i    (need_q),
    .advance_i(state_q == StPick && !early_q.push.valid),
    .grant_o  (need_grant),
    .idx_o    (need_idx)
  );

  // While no slot is picked the tables show that of the early news.
  assign s            = (state_q == StPick) ? early_q.slot : s_q;
  assign ring         = ring_q[s];
  assign pos          = fetch_q[s];
  assign ring_mask    = ~(19'h7ffff << (5'(ring.log_size) + 5'(ring.log_stride)));
  assign wrap_mask    = ~(19'h7ffff << (5'd16 + 5'(ring.log_stride)));
  assign slot_in_ring = pos & ring_mask;

  always_ff @(posedge clk_i) begin
    if (state_q == StRead) begin
      addr_q    <= ring.base + {39'd0, slot_in_ring, 6'd0};
      avail_q   <= (({3'd0, limit_q[s_q]} << ring.log_stride) - pos) & wrap_mask;
      to_end_q  <= ring_mask - slot_in_ring;  // blocks behind this one up to the end of the ring
      room_q    <= room;
      push_here_q <= push_q[s_q];
      alone_q   <= alone;
    end
    if (early_go) push_here_q <= early_q.push;
    if (state_q == StRead || early_go) begin
      req_gen_q <= gen_q[s];
      func_q    <= ring.func;
    end
    if (state_q == StSize) size_q <= size;
  end

  // The natural size; a read is only cut by what the ring holds, never by room, to keep reads large.
  assign to_boundary = 4'd8 - {1'b0, addr_q[8:6]};
  always_comb begin
    size = to_boundary;
    if (avail_q < 19'(size)) size = avail_q[3:0];
    if (to_end_q < 19'(size)) size = to_end_q[3:0] + 4'd1;
    // Behind an early WQE the limit may be behind the position for a while.
    if (avail_q == '0 || avail_q > {1'b0, ring_mask[17:0]} + 19'd1) size = '0;
  end
  assign fresh = req_gen_q == gen_q[s_q];
  assign stop  = want_slot_i && !rated_i[s_q] && total_q[s_q] >= TotalW'(SlotBlocks);
  assign wanted = state_q == StSize && fresh && size != '0 && room_q >= (BlkW+1)'(size) && !err_q[s_q] && !stop
                  && !halted_q[s_q];
  assign begun_o = wanted && !pushed;

  // ---- Push slots ------------------------------------------------------------------------------------
  // Nothing is under way that would come behind it.
  assign alone     = issued_q[s] == written_q[s];
  assign room      = (BlkW+1)'(SlotBlocks) - (issued_q[s] - popped_q[s]);
  assign pushed    = push_here_q.valid && alone_q && avail_q == 19'd1 << ring.log_stride;
  assign early_go  = state_q == StPick && early_q.push.valid && alone && room >= (BlkW+1)'(8)
                     && pos == ({3'd0, early_q.idx} << ring.log_stride) && !err_q[s] && !halted_q[s];
  assign copy      = state_q == StCopy && fresh;
  assign copy_next = (state_q == StCopy) ? copy_blk_q + 1'b1 : '0;
  assign copy_first = copy && copy_blk_q == '0;
  assign copy_last = copy_blk_q == ~({StrideW{1'b1}} << ring.log_stride);
  assign copy_at   = copy_first ? written_q[s][BlkW-1:0] : copy_at_q;
  // The slot's last block stands for all that would follow.
  assign push_blk   = (copy_next >> PushBlkW != '0) ? '1 : copy_next[PushBlkW-1:0];
  assign push_slot  = early_go ? early_q.push.slot : push_here_q.slot;
  assign push_re_o  = early_go || (wanted && pushed) || copy;
  assign push_row_o = {ring.func[FuncIdxW-1:0], push_slot, push_blk};
  assign forward    = (req_fire && fresh) || copy_first;

  always_ff @(posedge clk_i) begin
    copy_blk_q <= copy_next;
    if (copy) copy_at_q <= copy_at + 1'b1;
    if (rst_i) begin
      early_q.push.valid <= 1'b0;
    end else if (early_i) begin
      early_q <= '{slot: early_slot_i, idx: early_pi_i - 16'd1, push: early_push_i};
    end else if (state_q == StPick || (restart_i && slot_i == early_q.slot)) begin
      early_q.push.valid <= 1'b0;
    end
  end

  assign fetch_req_valid_o     = (state_q == StReq) && track_ready;
  assign fetch_req_o.func      = func_q;
  assign fetch_req_o.addr      = addr_q;
  assign fetch_req_o.len_bytes = {size_q, 6'd0};
  assign req_fire              = fetch_req_valid_o && fetch_req_ready_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StPick;
    end else begin
      unique case (state_q)
        StPick: begin
          if (early_go) state_q <= StCopy;
          else if (need_q != '0 && !early_q.push.valid) state_q <= StRead;
        end
        StRead:  state_q <= StSize;
        StSize:  state_q <= !wanted ? StPick : pushed ? StCopy : StReq;
        StCopy:  if (!copy || copy_last) state_q <= StPick;
        default: if (req_fire) state_q <= StPick;
      endcase
    end
    if (state_q == StPick) s_q <= early_go ? early_q.slot : need_idx;
  end

  logic [$clog2(Inflight):0] unused_count;

  hca_fifo #(.Width($bits(track_t)), .Depth(Inflight)) u_track (
    .clk_i, .rst_i,
    .in_valid_i (req_fire),
    .in_ready_o (track_ready),
    .in_i       ({s_q, req_gen_q}),
    .out_valid_o(track_valid),
    .out_ready_i(rsp_end),
    .out_o      (track),
    .count_o    (unused_count)
  );

  // ---- Responses -------------------------------------------------------------------------------------
  assign fetch_rsp_ready_o = track_valid && state_q != StCopy;
  assign rsp_end           = fetch_rsp_valid_i && fetch_rsp_ready_o && fetch_rsp_i.last;
  assign rsp_live          = fetch_rsp_valid_i && fetch_rsp_ready_o && track.gen == gen_q[track.slot]
                             && !err_q[track.slot];
  assign rsp_write         = rsp_live && !fetch_rsp_i.err;

  logic [SlotW-1:0] wr_slot;
  assign wr_slot = copy ? s_q : track.slot;

  hca_ram_1r1w #(.Width(DataW), .Depth(Slots * SlotBlocks)) u_blocks (
    .clk_i,
    .we_i   (rsp_write || copy),
    .waddr_i({wr_slot, copy ? copy_at : written_q[track.slot][BlkW-1:0]}),
    .wdata_i(copy ? push_block_i : fetch_rsp_i.data),
    .re_i   (blk_re_i),
    .raddr_i({slot_i, blk_ptr_i}),
    .rdata_o(blk_o)
  );

  always_comb begin
    wake_o = '0;
    if (rsp_live && (fetch_rsp_i.last || fetch_rsp_i.err)) wake_o[track.slot] = 1'b1;
    if ((state_q == StSize && stop && fresh) || copy_first) wake_o[s_q] = 1'b1;
  end

  logic [3:0] blocks;  // asked for, or copied
  assign blocks = copy_first ? 4'd1 << ring.log_stride : size_q;

  // ---- Slot state; a restart comes last, so it wins ---------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      err_q       <= '0;
      exhausted_q <= '0;
      need_q      <= '0;
      halted_q    <= '0;
    end else begin
      halted_q <= halted_q | halt_i;
      if (state_q == StPick && !early_q.push.valid) need_q <= need_q & ~need_grant;
      if (req_fire) need_q[s_q] <= 1'b1;
      if (limit_i || pop_i) need_q[slot_i] <= 1'b1;
      if (rsp_live && fetch_rsp_i.err) err_q[track.slot] <= 1'b1;
      if (state_q == StSize && fresh && size != '0) exhausted_q[s_q] <= stop;
      if (restart_i) begin
        err_q[slot_i]       <= 1'b0;
        exhausted_q[slot_i] <= 1'b0;
        need_q[slot_i]      <= limit_i;
        halted_q[slot_i]    <= 1'b0;
      end
    end
    // All of a pushed WQE counts with its first block: who looks at a later one does so later.
    if (rsp_write || copy_first) begin
      written_q[wr_slot] <= written_q[wr_slot] + (copy_first ? (BlkW+1)'(blocks) : (BlkW+1)'(1));
    end
    if (pop_i) popped_q[slot_i] <= popped_q[slot_i] + (BlkW+1)'(pop_blocks_i);
    if (limit_i) push_q[slot_i] <= push_i;
    if (limit_i || restart_i) limit_q[slot_i] <= limit_i ? pi_i : idx_i;
    if (forward) begin
      issued_q[s_q] <= issued_q[s_q] + (BlkW+1)'(blocks);
      fetch_q[s_q]  <= (fetch_q[s_q] + 19'(blocks)) & wrap_mask;
      if (!total_q[s_q][TotalW-1]) total_q[s_q] <= total_q[s_q] + TotalW'(blocks);
    end
    if (restart_i) begin
      ring_q[slot_i]    <= ring_i;
      fetch_q[slot_i]   <= {3'd0, idx_i} << ring_i.log_stride;
      gen_q[slot_i]     <= gen_q[slot_i] + 1'b1;
      issued_q[slot_i]  <= '0;
      written_q[slot_i] <= '0;
      popped_q[slot_i]  <= '0;
      total_q[slot_i]   <= '0;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert (!pop_i || have_o >= (BlkW+1)'(pop_blocks_i)) else $error("hca_sq_fetch: no such block in %0d", slot_i);
      assert (!rsp_write || (issued_q[track.slot] - popped_q[track.slot]) <= (BlkW+1)'(SlotBlocks))
        else $error("hca_sq_fetch: slot %0d overflows", track.slot);
    end
  end
`endif

endmodule
