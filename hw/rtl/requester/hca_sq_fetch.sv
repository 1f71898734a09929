// Prefetches send WQEs of the bound slots into one RAM: a FIFO of SlotBlocks 64-byte blocks per slot. Reads
// are at most 512 bytes, cross neither a 512-byte boundary nor the end of the ring, never go beyond the limit
// that the emitter has given (a producer index it has checked). Responses arrive in request order; those of a
// slot that was restarted meanwhile are dropped. One request per four cycles, one response beat per cycle.
//   Read   the slot's row of the tables
//   Judge  addresses, what there is to fetch; a push that has come early is copied, or left to its turn
//   Size   how much of it, or that a push is to be copied
//   Req    until the host has it;  Copy  a block per cycle
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
  // From the emitter, or from hca_sq_open about another slot.
  input  sq_ask_t          ask_i,       // not with pop_i
  input  logic [SlotW-1:0] ask_slot_i,
  input  logic             pop_i,       // strobe: pop_blocks_i blocks of slot_i are consumed
  input  logic [SlotW-1:0] slot_i,      // that the emitter serves
  input  logic             early_i,     // strobe: the WQE before early_pi_i of that slot lies there
  input  logic [SlotW-1:0] early_slot_i,
  input  wqe_idx_t         early_pi_i,
  input  push_t            early_push_i,
  input  logic [3:0]       pop_blocks_i,
  output logic [BlkW:0]    have_o,      // blocks of slot_i that lie ready
  output logic [BlkW-1:0]  head_o,      // position of the first of them
  output wqe_idx_t         start_o,     // where it was restarted
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
  localparam int unsigned PosW   = WqeIndexBits + MaxLogWqeStride;   // an index, in blocks

  typedef struct packed {
    logic [SlotW-1:0] slot;
    logic [GenW-1:0]  gen;
  } track_t;

  typedef enum logic [2:0] {StPick, StRead, StJudge, StSize, StReq, StCopy} state_e;

  localparam int unsigned PushBlkW = $clog2(PushSlotBytes / DataBytes);
  localparam int unsigned StrideW  = MaxLogWqeStride;

  // A slot's ring.
  typedef struct packed {
    logic [7:0]  func;
    logic [63:0] base;
    logic [1:0]  log_stride;
  } ring_t;

  // What has been asked for of a slot since its restart. Positions count blocks, free running.
  typedef struct packed {
    logic [PosW-1:0] pos;     // ring position of the next block to ask for
    logic [BlkW:0]   issued;  // position in the slot's FIFO
    logic            used;    // as many blocks as it has, or more
  } asked_t;

  // Per slot. Each table has one writer, so that it is a RAM of LUTs; what a restart clears has a bit that says whether
  // it has been written since.
  ring_t             ring_q [Slots];
  logic [4:0]        log_blocks_q [Slots];   // of the ring
  wqe_idx_t          start_q [Slots];        // where the restart was
  asked_t            asked_q [Slots];
  wqe_idx_t          limit_q [Slots];
  push_t             push_q [Slots];
  logic [GenW-1:0]   gen_q [Slots];
  logic [BlkW:0]     written_q [Slots];   // FIFO positions: written, consumed
  logic [BlkW:0]     popped_q [Slots];
  logic [Slots-1:0]  any_asked_q, any_written_q;
  logic [Slots-1:0]  level_q, drained_q;  // all that was asked for is written; a cycle later
  logic [Slots-1:0]  err_q, exhausted_q, need_q, halted_q, halt_q;

  typedef struct packed {
    logic [SlotW-1:0] slot;
    wqe_idx_t         pi;
    push_t            push;  // valid: something to look at
  } early_t;

  typedef logic [SlotW-1:0] slot_t;

  state_e            state_q, pick_state;
  slot_t             s_q;
  logic              pick;
  // The row of slot s_q, of one cycle.
  ring_t             ring_row, ring_row_q;
  logic [PosW-1:0]   pos_q;
  wqe_idx_t          limit_row_q;
  logic [BlkW:0]     fill_q, issued_row_q;
  logic              used_q;
  logic [PosW-1:0]   ring_mask_q;
  logic              alone_q, fresh_q, shut_q, rated_q;   // shut: nothing more until it is restarted
  push_t             push_row_q;
  logic [GenW-1:0]   req_gen_q;
  // What follows from it.
  logic [PosW-1:0]   wrap_mask, slot_in_ring, end_idx, stride_blocks, sums, carries;
  logic [63:0]       addr_q;
  logic [PosW-1:0]   avail, to_end, avail_q, ring_top;
  // Numbers of blocks up to eight that are as many as may be asked for, or more: to the next boundary of 512 bytes,
  // of WQEs that are posted, to the end of the ring. And how much room there is, as a bit.
  logic [8:0]        to_boundary_q, avail_few_q, to_end_few_q, room_few_q, enough;
  logic [2:0]        at_boundary;
  logic [3:0]        size, size_q;
  logic              none_q, some;
  logic              restarts, stop, wanted, req_fire, track_ready;
  early_t            early_q;
  push_t             taken_q;            // of early news whose turn it is, and its index
  wqe_idx_t          taken_pi_q;
  logic              is_early_q, early_go, ample, fits, pushed, copy, copy_first, copy_last, forward;
  logic [BlkW-1:0]      copy_at, copy_at_q;
  logic [StrideW-1:0]   copy_blk_q, copy_next;
  logic [PushBlkW-1:0]  push_blk;
  track_t            track;
  logic              track_valid, rsp_live, rsp_write, rsp_end;

  assign have_o      = (written_q[slot_i] - popped_q[slot_i]) & {BlkW+1{any_written_q[slot_i]}};
  assign head_o      = popped_q[slot_i][BlkW-1:0];
  assign start_o     = start_q[slot_i];
  assign err_o       = err_q[slot_i];
  assign exhausted_o = exhausted_q[slot_i] && drained_q[slot_i];

  // Nothing is asked for while a slot is exhausted: what this tells is true, if a cycle late.
  always_ff @(posedge clk_i) begin
    drained_q <= level_q;
    halt_q    <= halt_i;   // before the slot's next turn, and long before firmware fences what it has written
  end

  // ---- Whose turn it is: found ahead, who needs it and then its number ----------------------------------
  logic [Slots-1:0] need_grant, found_q;
  slot_t            unused_need_idx, found_idx, next_q;
  logic             found_valid_q, next_valid_q, find, number;

  hca_rr_arb #(.N(Slots)) u_need (
    .clk_i, .rst_i,
    .req_i    (need_q),
    .advance_i(find),
    .grant_o  (need_grant),
    .idx_o    (unused_need_idx)
  );

  hca_onehot_index #(.N(Slots)) u_found (
    .onehot_i(found_q),
    .idx_o   (found_idx)
  );

  assign find   = !found_valid_q || number;
  assign number = found_valid_q && (!next_valid_q || (pick && !early_q.push.valid));

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      found_valid_q <= 1'b0;
      next_valid_q  <= 1'b0;
    end else begin
      if (find) found_valid_q <= need_q != '0;
      next_valid_q <= number || (next_valid_q && !(pick && !early_q.push.valid));
    end
    if (find) found_q <= need_grant;
    if (number) next_q <= found_idx;
  end

  // ---- Requests --------------------------------------------------------------------------------------
  assign pick_state = (early_q.push.valid || next_valid_q) ? StRead : StPick;

  always_comb begin
    unique case (state_q)
      StPick:  pick = 1'b1;
      StReq:   pick = req_fire;
      StCopy:  pick = !copy || copy_last;
      default: pick = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StPick;
    end else if (pick) begin
      state_q <= pick_state;
    end else begin
      unique case (state_q)
        StRead:  state_q <= StJudge;
        StJudge: state_q <= early_go ? StCopy : is_early_q ? StPick : StSize;
        StSize:  state_q <= !wanted ? StPick : pushed ? StCopy : StReq;
        default: ;
      endcase
    end
    if (pick) begin
      s_q        <= early_q.push.valid ? early_q.slot : next_q;
      is_early_q <= early_q.push.valid;
    end
  end

  // Fresh: not restarted since the row was read.
  assign restarts = ask_i.restart && ask_slot_i == s_q;

  asked_t        asked_row, asked_next;
  logic [BlkW:0] issued;

  assign ring_row  = ring_q[s_q];
  assign asked_row = asked_q[s_q];
  assign issued    = asked_row.issued & {BlkW+1{any_asked_q[s_q]}};

  always_ff @(posedge clk_i) begin
    if (state_q == StRead) begin
      ring_row_q  <= ring_row;
      ring_mask_q <= ~({PosW{1'b1}} << log_blocks_q[s_q]);
      pos_q       <= any_asked_q[s_q] ? asked_row.pos : PosW'(start_q[s_q]) << ring_row.log_stride;
      limit_row_q <= is_early_q ? taken_pi_q : limit_q[s_q];
      push_row_q  <= is_early_q ? taken_q : push_q[s_q];
      issued_row_q <= issued;
      used_q      <= asked_row.used && any_asked_q[s_q];
      // Nothing asked for: nothing popped.
      fill_q      <= (asked_row.issued - popped_q[s_q]) & {BlkW+1{any_asked_q[s_q]}};
      alone_q     <= level_q[s_q];   // nothing is under way that would come behind it
      req_gen_q   <= gen_q[s_q];
    end
    fresh_q <= (fresh_q || state_q == StRead) && !restarts;
    shut_q  <= err_q[s_q] || halted_q[s_q] || halt_q[s_q];
    rated_q <= rated_i[s_q];
  end

  assign wrap_mask     = ~({PosW{1'b1}} << (5'(WqeIndexBits) + 5'(ring_row_q.log_stride)));
  assign slot_in_ring  = pos_q & ring_mask_q;
  assign end_idx       = PosW'(limit_row_q) << ring_row_q.log_stride;
  assign stride_blocks = PosW'(1) << ring_row_q.log_stride;

  assign avail  = (end_idx - pos_q) & wrap_mask;
  assign to_end = ring_mask_q & ~pos_q;      // blocks behind this one up to the end of the ring
  // A slot has room for eight blocks, or for how many.
  assign ample  = !fill_q[BlkW] && !(&fill_q[BlkW-1:3] && fill_q[2:0] != '0);

  always_ff @(posedge clk_i) begin
    if (state_q == StJudge) begin
      addr_q   <= ring_row_q.base + 64'({slot_in_ring, 6'd0});
      avail_q  <= avail;
      none_q   <= avail == '0;
      to_boundary_q <= 9'(16'hff00 >> at_boundary);
      avail_few_q   <= ((avail >= PosW'(8)) ? '0 : 9'(16'hffff << avail[2:0])) | 9'h100;
      to_end_few_q  <= ((to_end >= PosW'(8)) ? '0 : 9'(16'hfffe << to_end[2:0])) | 9'h100;
      room_few_q    <= ample ? 9'h100 : 9'd1 << 3'(-fill_q[2:0]);
    end
    if (state_q == StSize) size_q <= size;
  end

  // The natural size; a read is only cut by what the ring holds, never by room, to keep reads large.
  assign at_boundary = 3'(ring_row_q.base[8:6] + slot_in_ring[2:0]);   // of the address
  assign enough      = to_boundary_q | avail_few_q | to_end_few_q;
  // The first number that is enough.
  always_comb begin
    size = '0;
    for (int unsigned n = 1; n <= 8; n++) size |= {4{enough[n] && !enough[n-1]}} & 4'(n);
  end
  assign fits        = (room_few_q & enough) != '0;
  // Behind an early WQE the limit may be behind the position for a while: then it is more than a ring ahead.
  assign ring_top = {ring_mask_q[PosW-2:0], 1'b1} & ~ring_mask_q;
  assign some     = !none_q && (avail_q & ~ring_mask_q & ~ring_top) == '0
                    && ((avail_q & ring_top) == '0 || (avail_q & ring_mask_q) == '0);
  assign stop     = want_slot_i && !rated_q && used_q;
  assign wanted   = state_q == StSize && fresh_q && some && fits && !shut_q && !stop;
  assign begun_o  = wanted && !pushed;

  // ---- Push slots ------------------------------------------------------------------------------------
  assign pushed     = push_row_q.valid && alone_q && avail_q == stride_blocks;
  // One WQE behind the position: whether a sum is a number is known without adding. If it is, these carry.
  assign sums       = pos_q ^ stride_blocks ^ end_idx;
  assign carries    = (((pos_q | stride_blocks) & ~end_idx) | (pos_q & stride_blocks)) << 1;
  assign early_go   = taken_q.valid && state_q == StJudge && fresh_q && alone_q && ample
                      && ((sums ^ carries) & wrap_mask) == '0 && !shut_q;
  assign copy       = state_q == StCopy && fresh_q;
  assign copy_next  = (state_q == StCopy) ? copy_blk_q + 1'b1 : '0;
  assign copy_first = copy && copy_blk_q == '0;
  assign copy_last  = copy_blk_q == ~({StrideW{1'b1}} << ring_row_q.log_stride);
  assign copy_at    = copy_first ? issued_row_q[BlkW-1:0] : copy_at_q;
  // The slot's last block stands for all that would follow.
  assign push_blk   = (copy_next >> PushBlkW != '0) ? '1 : copy_next[PushBlkW-1:0];
  // For nothing, if it is not wanted.
  assign push_re_o  = (state_q == StJudge && taken_q.valid) || (state_q == StSize && pushed) || copy;
  assign push_row_o = {ring_row_q.func[FuncIdxW-1:0], push_row_q.slot, push_blk};
  assign forward    = (req_fire && fresh_q) || copy_first;

  always_ff @(posedge clk_i) begin
    copy_blk_q <= copy_next;
    if (copy) copy_at_q <= copy_at + 1'b1;
    if (pick) begin
      taken_pi_q    <= early_q.pi;
      taken_q       <= early_q.push;
      taken_q.valid <= early_q.push.valid && !(ask_i.restart && ask_slot_i == early_q.slot);
    end
    if (rst_i) begin
      early_q.push.valid <= 1'b0;
    end else if (early_i) begin
      early_q <= '{slot: early_slot_i, pi: early_pi_i, push: early_push_i};
    end else if (pick || (ask_i.restart && ask_slot_i == early_q.slot)) begin
      early_q.push.valid <= 1'b0;
    end
  end

  assign fetch_req_valid_o     = (state_q == StReq) && track_ready;
  assign fetch_req_o.func      = ring_row_q.func;
  assign fetch_req_o.addr      = addr_q;
  assign fetch_req_o.len_bytes = {size_q, 6'd0};
  assign req_fire              = fetch_req_valid_o && fetch_req_ready_i;

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
  // First it is seen whether the slot still wants what comes, a cycle later it is written. A push that is copied goes
  // first.
  typedef struct packed {
    logic             valid;
    logic             live;  // of what the slot asks for now, and nothing before it has failed
    slot_t            slot;
    logic [BlkW:0]    at;    // position in the slot's FIFO
    logic             last;
    logic             err;
  } arrived_t;

  arrived_t         arrived_q;
  beat_t            arrived_data_q;
  logic             arrived_hold, rsp_take, follows;
  logic [BlkW:0]    at_end, at_next;
  slot_t            wr_slot;

  assign arrived_hold      = arrived_q.valid && state_q == StCopy;
  assign fetch_rsp_ready_o = track_valid && !arrived_hold;
  assign rsp_take          = fetch_rsp_valid_i && fetch_rsp_ready_o;
  assign rsp_end           = rsp_take && fetch_rsp_i.last;
  assign rsp_live          = arrived_q.valid && arrived_q.live && !arrived_hold;
  assign rsp_write         = rsp_live && !arrived_q.err;
  assign follows           = rsp_live && arrived_q.slot == track.slot;   // a beat that is just written
  assign at_end            = arrived_q.at + 1'b1;
  assign at_next           = follows ? at_end : written_q[track.slot] & {BlkW+1{any_written_q[track.slot]}};

  always_ff @(posedge clk_i) begin
    if (!arrived_hold) begin
      arrived_q <= '{valid: rsp_take, live: track.gen == gen_q[track.slot] && !err_q[track.slot] &&
                     !(follows && arrived_q.err), slot: track.slot,
                     at: at_next, last: fetch_rsp_i.last, err: fetch_rsp_i.err};
      arrived_data_q <= fetch_rsp_i.data;
    end
    if (rst_i) arrived_q.valid <= 1'b0;
    if (ask_i.restart && ask_slot_i == (arrived_hold ? arrived_q.slot : track.slot)) arrived_q.live <= 1'b0;
  end

  assign wr_slot = copy ? s_q : arrived_q.slot;

  hca_ram_1r1w #(.Width(DataW), .Depth(Slots * SlotBlocks)) u_blocks (
    .clk_i,
    .we_i   (rsp_write || copy),
    .waddr_i({wr_slot, copy ? copy_at : arrived_q.at[BlkW-1:0]}),
    .wdata_i(copy ? push_block_i : arrived_data_q),
    .re_i   (blk_re_i),
    .raddr_i({slot_i, blk_ptr_i}),
    .rdata_o(blk_o)
  );

  always_comb begin
    wake_o = '0;
    if (rsp_live && (arrived_q.last || arrived_q.err)) wake_o[arrived_q.slot] = 1'b1;
    if ((state_q == StSize && stop && fresh_q) || copy_first) wake_o[s_q] = 1'b1;
  end

  logic [3:0] blocks;  // asked for, or copied
  assign blocks            = copy_first ? stride_blocks[3:0] : size_q;
  assign asked_next.pos    = (pos_q + PosW'(blocks)) & wrap_mask;
  assign asked_next.issued = issued_row_q + (BlkW+1)'(blocks);
  assign asked_next.used   = used_q || asked_next.issued[BlkW];   // the first time from 0 on: nothing has wrapped yet

  // ---- Slot state; a restart comes last, so it wins ---------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      err_q       <= '0;
      exhausted_q <= '0;
      need_q      <= '0;
      halted_q    <= '0;
      level_q     <= '1;
      any_asked_q   <= '0;
      any_written_q <= '0;
    end else begin
      halted_q <= halted_q | halt_q;
      if (forward) any_asked_q[s_q] <= 1'b1;
      if (rsp_write || copy_first) any_written_q[wr_slot] <= 1'b1;
      // What is copied leaves a slot level.
      if (rsp_write) level_q[arrived_q.slot] <= at_end == asked_q[arrived_q.slot].issued;
      if (forward && !copy_first) level_q[s_q] <= 1'b0;
      if (find) need_q <= need_q & ~need_grant;
      if (req_fire) need_q[s_q] <= 1'b1;
      if (pop_i) need_q[slot_i] <= 1'b1;
      if (ask_i.limit) need_q[ask_slot_i] <= 1'b1;
      if (rsp_live && arrived_q.err) err_q[arrived_q.slot] <= 1'b1;
      if (state_q == StSize && fresh_q && some) exhausted_q[s_q] <= stop;
      if (ask_i.restart) begin
        err_q[ask_slot_i]       <= 1'b0;
        exhausted_q[ask_slot_i] <= 1'b0;
        need_q[ask_slot_i]      <= ask_i.limit;
        halted_q[ask_slot_i]    <= 1'b0;
        level_q[ask_slot_i]       <= 1'b1;
        any_asked_q[ask_slot_i]   <= 1'b0;
        any_written_q[ask_slot_i] <= 1'b0;
      end
    end
    // All of a pushed WQE counts with its first block: who looks at a later one does so later.
    if (rsp_write || copy_first) begin
      written_q[wr_slot] <= copy_first ? asked_next.issued : at_end;
    end
    if (ask_i.restart || pop_i) begin
      popped_q[ask_slot_i] <= ask_i.restart ? '0 : popped_q[slot_i] + (BlkW+1)'(pop_blocks_i);
    end
    if (forward) asked_q[s_q] <= asked_next;
    if (ask_i.limit) push_q[ask_slot_i] <= ask_i.push;
    if (ask_i.limit || ask_i.restart) limit_q[ask_slot_i] <= ask_i.limit ? ask_i.pi : ask_i.idx;
    if (ask_i.restart) begin
      ring_q[ask_slot_i]       <= '{func: ask_i.ring.func, base: ask_i.ring.base, log_stride: ask_i.ring.log_stride};
      log_blocks_q[ask_slot_i] <= ask_i.ring.log_size + 5'(ask_i.ring.log_stride);
      start_q[ask_slot_i]      <= ask_i.idx;
      gen_q[ask_slot_i]        <= gen_q[ask_slot_i] + 1'b1;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert (!pop_i || (slot_i == ask_slot_i && !ask_i.restart && !ask_i.limit))
        else $error("hca_sq_fetch: slot %0d is told of while slot %0d consumes", ask_slot_i, slot_i);
      assert (!pop_i || have_o >= (BlkW+1)'(pop_blocks_i)) else $error("hca_sq_fetch: no such block in %0d", slot_i);
      assert (!rsp_write || (asked_q[arrived_q.slot].issued - popped_q[arrived_q.slot]) <= (BlkW+1)'(SlotBlocks))
        else $error("hca_sq_fetch: slot %0d overflows", arrived_q.slot);
    end
  end
`endif

endmodule
