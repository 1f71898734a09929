// First stage of hca_rx_exec: turns each item into segments (where its payload goes, under which key) and one
// record for the mover. Items without a list take one cycle; a list costs one cycle plus one per entry, and what it
// takes to read the rest of the WQE. The record follows all segments of its item, or comes with the last one, so the
// segment queue behind must hold a whole item (MaxSge).
module hca_rx_place
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        rxw_valid_i,
  output logic        rxw_ready_o,
  input  rxw_t        rxw_i,
  input  logic        list_valid_i,
  output logic        list_ready_o,
  input  dma_rd_rsp_t list_i,      // the fetched WQE, from its first byte
  output logic        seg_valid_o,
  input  logic        seg_ready_i,
  output seg_t        seg_o,
  output logic        meta_valid_o,
  input  logic        meta_ready_i,
  output rx_meta_t    meta_o
);

  typedef enum logic [1:0] {
    StIdle,   // item without a list, or first beat of the WQE: check it
    StEntry,  // one scatter entry per cycle
    StDrain   // take the rest of the fetch, then hand on the record
  } state_e;

  state_e      state_q, state_d;
  exec_err_e   err_q, err_d;
  logic [4:0]  segs_q, segs_d;
  logic [4:0]  entries_q, entries_d;  // entries not looked at yet
  logic [1:0]  slot_q, slot_d;        // 16-byte slot inside the beat
  logic [31:0] skip_q, skip_d;        // message bytes before this packet's payload
  logic [12:0] need_q, need_d;        // payload bytes without a place yet
  logic [32:0] reach_q, reach_d;      // both: where this packet's payload ends, from here
  logic        hdr_q, hdr_d;          // of a datagram: those of its network header, the payload comes behind them

  // ---- Header --------------------------------------------------------------------------------------
  sq_wqe_ctrl_t sq_head;
  rq_wqe_ctrl_t rq_head;
  logic         is_rq, of_atomic, head_ok;  // of_atomic: the answer of one; its entry is behind the operands
  logic [7:0]   num_sge;

  assign is_rq   = rxw_i.kind == RxwSend;
  assign of_atomic = rxw_i.kind == RxwAtomicResp;
  assign sq_head = list_i.data[$bits(sq_wqe_ctrl_t)-1:0];
  assign rq_head = list_i.data[$bits(rq_wqe_ctrl_t)-1:0];
  assign num_sge = is_rq ? rq_head.num_sge : sq_head.num_sge;

  // Slots of 16 bytes that the list has. Both kinds of head are judged side by side.
  logic [9:0] list_slots;
  logic       rq_ok, sq_ok, opcode_ok, just;

  // The control block of an SQ takes a slot more: enough slots, and not just one too few.
  hca_next #(.Width(10)) u_just (.a_i(10'(sq_head.num_sge)), .b_i(list_slots), .next_o(just));

  assign list_slots = 10'(14'(rxw_i.list_bytes) >> 4);
  assign opcode_ok  = of_atomic ? is_atomic(sq_head.opcode) && sq_head.num_sge == 8'd1
                                : sq_head.opcode == WrOpRdmaRead;
  assign rq_ok      = rq_head.num_sge <= 8'(MaxSge) && 10'(rq_head.num_sge) < list_slots
                      && rq_head.wqe_index == rxw_i.wqe_index;
  assign sq_ok      = sq_head.num_sge <= 8'(MaxSge) && 10'(sq_head.num_sge) < list_slots && !just
                      && sq_head.wqe_index == rxw_i.wqe_index && !sq_head.inline_data && opcode_ok;
  assign head_ok    = !list_i.err && (is_rq ? rq_ok : sq_ok);

  // ---- Entry ---------------------------------------------------------------------------------------
  sge_t        sge;
  logic [12:0] take;
  logic [32:0] beyond;   // what is left of reach_q behind the entry
  logic        skipped, enough, entry_seg, entry_go, entries_over, read_bad;
  logic        entry_here, entries_last, goes, stays, placed;
  exec_err_e   err_over;
  logic [4:0]  segs_over;
  logic        stay;     // a datagram's payload goes on in the entry in which its header ends

  assign sge       = list_i.data[{slot_q, 7'd0} +: 128];
  assign skipped   = skip_q >= sge.length;
  assign enough    = reach_q <= 33'(sge.length);
  assign take      = enough ? need_q : sge.length[12:0] - skip_q[12:0];
  assign beyond    = reach_q - 33'(sge.length);
  assign entry_seg = state_q == StEntry && list_valid_i && !list_i.err && !skipped && need_q != '0;
  // What an entry that is skipped does, and one that is not: which one it is comes late.
  assign entry_here = state_q == StEntry && list_valid_i;
  assign goes       = entry_here && (list_i.err || need_q == '0 || seg_ready_i);
  assign entry_go   = skipped ? entry_here : goes;
  // Entries must not run past the fetched bytes; the header was checked, so only a short fetch can do that.
  assign read_bad     = list_i.err || (slot_q == 2'd3 && list_i.last && entries_q != 5'd1);
  assign entries_last = entries_q == 5'd1 || read_bad;
  assign placed       = !skipped && enough;
  assign entries_over = placed ? !stays : entries_last;
  // The last entry that counts, or the list ends, and not all has a place.
  assign err_over     = placed ? (list_i.err ? ExWqe : ExNone) : !entries_last ? ExNone : read_bad ? ExWqe : ExLen;
  assign segs_over    = (!skipped && !list_i.err && need_q != '0) ? segs_q + 5'd1 : segs_q;

  // ---- Datagrams: 40 bytes before the payload, with the network header at their end --------------------
  logic [5:0] hdr_bytes;
  logic       room_only; // nothing to write, but room for the 40 bytes must be there: is there one behind 39 (OP-22)?
  assign room_only = rxw_i.dg == DgBare && rxw_i.payload_bytes == '0;
  assign hdr_bytes = (rxw_i.dg == DgIpv4) ? 6'(Ipv4Bytes) : (rxw_i.dg inside {DgIpv6, DgGrh}) ? 6'(GrhBytes) : 6'd0;
  assign stays     = hdr_q && !list_i.err && rxw_i.payload_bytes != '0;
  assign stay      = stays && placed;

  // ---- Items without a list ------------------------------------------------------------------------
  logic direct, direct_seg, flush;
  assign flush      = rxw_i.kind == RxwAtomic && rxw_i.rsp.stores && rxw_i.rsp.cas;
  assign direct     = state_q == StIdle && rxw_valid_i && !rxw_i.needs_list;
  assign direct_seg = direct && (rxw_i.kind inside {RxwWrite, RxwReadReq, RxwAtomic})
                      && (rxw_i.chk_bytes != '0 || flush);

  // A segment and the record of an item without a list go together.
  assign seg_valid_o = (direct_seg && meta_ready_i) || entry_seg;

  always_comb begin
    seg_o.bypass    = 1'b0;
    seg_o.func      = rxw_i.func;
    seg_o.pd        = rxw_i.pd;
    seg_o.qpn       = {rxw_i.gen, rxw_i.qpn};
    if (state_q == StIdle) begin
      seg_o.access    = flush ? (rxw_i.rsp.va[4] ? AccFlushAll : AccFlush)
                        : (rxw_i.kind == RxwWrite || (rxw_i.kind == RxwAtomic && rxw_i.rsp.stores)) ? AccRemoteWrite
                        : (rxw_i.kind == RxwAtomic) ? AccRemoteAtomic : AccRemoteRead;
      seg_o.key       = rxw_i.rkey;
      seg_o.va        = rxw_i.va;
      seg_o.len_bytes = (rxw_i.kind == RxwWrite) ? rxw_i.payload_bytes
                        : flush ? 13'd1 : (rxw_i.kind == RxwAtomic) ? rxw_i.chk_bytes[12:0] : '0;
      seg_o.chk_bytes = rxw_i.chk_bytes;
      seg_o.last      = 1'b1;
    end else begin
      seg_o.access    = AccLocalWrite;
      seg_o.key       = sge.lkey;
      seg_o.va        = sge.addr + 64'(skip_q);
      seg_o.len_bytes = take;
      seg_o.chk_bytes = 32'(take);
      seg_o.last      = enough && !stay;
    end
  end

  // A response that came behind a gap fails the WQE that was the oldest one then: nothing behind that has completed.
  wqe_idx_t oldest;
  assign oldest = rxw_i.wqe_index - (is_response(rxw_i.kind) ? wqe_idx_t'(rxw_i.chk_bytes) : '0);

  // ---- Record --------------------------------------------------------------------------------------
  // What an entry does if it is skipped, suffices, or neither: which of them comes late.
  logic drained, closed;  // closed: the last entry that counts is in the last beat of the fetch
  logic closes_skipped, closes_placed, closes_short, plain;
  assign closes_skipped = entry_here && list_i.last && entries_last;
  assign closes_placed  = goes && list_i.last && !stays;
  assign closes_short   = goes && list_i.last && entries_last;
  assign plain          = direct && (!direct_seg || seg_ready_i);
  assign closed       = skipped ? closes_skipped : enough ? closes_placed : closes_short;
  assign drained      = closed || (state_q == StDrain && list_valid_i && list_i.last);
  assign meta_valid_o = plain || drained;
  assign rxw_ready_o  = (skipped ? closes_skipped && meta_ready_i : enough ? closes_placed && meta_ready_i
                         : closes_short && meta_ready_i)
                        || (meta_ready_i && (plain || (state_q == StDrain && list_valid_i && list_i.last)));
  assign list_ready_o = (drained && meta_ready_i) || (state_q == StDrain && !list_i.last)
                        || (entry_go && slot_q == 2'd3 && !entries_over && !stay);

  logic [6:0] payload_off;
  logic [4:0] hdr_off;
  assign payload_off = rxw_i.payload_off + 7'(rxw_i.lead);
  assign hdr_off     = (rxw_i.dg == DgGrh) ? 5'(LrhBytes) : rxw_i.lead;

  always_comb begin
    // In an entry there is a record if it closes the list: what it says does not wait for that.
    meta_o.err         = (state_q == StEntry) ? err_over : (state_q == StDrain) ? err_q : ExNone;
    meta_o.segs        = (state_q == StEntry) ? segs_over : (state_q == StDrain) ? segs_q : 5'(direct_seg);
    meta_o.buf_beat    = rxw_i.buf_beat;
    // What is in the item itself is at 0. The mover has no time left for whose place counts first.
    meta_o.first_off   = of_atomic ? '0 : (hdr_bytes != '0) ? 7'(hdr_off) : payload_off;
    meta_o.body_off    = of_atomic ? '0 : 8'(payload_off) - 8'(hdr_bytes);
    meta_o.hdr_bytes   = hdr_bytes;
    meta_o.hdr_off     = of_atomic ? '0 : hdr_off;
    meta_o.fin         = '{kind: rxw_i.kind, qpn: rxw_i.qpn, frees: rxw_i.frees, buf_beats: rxw_i.buf_beats,
                           place: rxw_i.place,
                           wqe_index: oldest, shared: rxw_i.shared, msg_last: rxw_i.msg_last,
                           silent: rxw_i.silent, rsp: rxw_i.rsp,
                           cqe: rxw_i.cqe, resumes: rxw_i.resumes};
  end

  // ---- State ---------------------------------------------------------------------------------------
  always_comb begin
    state_d   = state_q;
    err_d     = err_q;
    segs_d    = segs_q;
    entries_d = entries_q;
    slot_d    = slot_q;
    skip_d    = skip_q;
    need_d    = need_q;
    reach_d   = reach_q;
    hdr_d     = hdr_q;
    unique case (state_q)
      StIdle: if (rxw_valid_i && rxw_i.needs_list && list_valid_i) begin
        err_d     = ExNone;
        segs_d    = '0;
        skip_d    = rxw_i.msg_offset;
        need_d    = rxw_i.payload_bytes;
        hdr_d     = hdr_bytes != '0;
        if (rxw_i.dg != DgNone) skip_d = 32'(GrhBytes) - 32'(hdr_bytes) - 32'(room_only);
        if (hdr_bytes != '0) need_d = 13'(hdr_bytes);
        reach_d   = (hdr_bytes != '0) ? 33'(6'(GrhBytes) - 6'(room_only)) : 33'(skip_d) + 33'(rxw_i.payload_bytes);
        slot_d    = is_rq ? 2'd1 : of_atomic ? 2'd3 : 2'd2;
        entries_d = num_sge[4:0];
        state_d   = StEntry;
        if (!head_ok) begin
          err_d   = ExWqe;
          state_d = StDrain;
        end else if (rxw_i.payload_bytes == '0 && rxw_i.dg == DgNone) begin
          state_d = StDrain;
        end else if (num_sge == '0) begin
          err_d   = ExLen;
          state_d = StDrain;
        end
      end
      StEntry: if (entry_go && stay) begin
        hdr_d  = 1'b0;
        skip_d  = skip_q + 32'(need_q);
        segs_d  = segs_q + 5'd1;
        need_d  = rxw_i.payload_bytes;
        reach_d = reach_q + 33'(rxw_i.payload_bytes);
      end else if (entry_go) begin
        slot_d    = slot_q + 2'd1;
        entries_d = entries_q - 5'd1;
        err_d     = err_over;
        segs_d    = segs_over;
        if (!list_i.err) begin
          skip_d  = skipped ? skip_q - sge.length : '0;
          if (!skipped) need_d = enough ? '0 : beyond[12:0];
          reach_d = placed ? '0 : beyond;
        end
        if (entries_over) state_d = (closed && meta_ready_i) ? StIdle : StDrain;
      end
      default: if (drained && meta_ready_i) state_d = StIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) state_q <= StIdle;
    else state_q <= state_d;
    err_q     <= err_d;
    segs_q    <= segs_d;
    entries_q <= entries_d;
    slot_q    <= slot_d;
    skip_q    <= skip_d;
    need_q    <= need_d;
    reach_q   <= reach_d;
    hdr_q     <= hdr_d;
  end

  logic unused;
  assign unused = ^{sq_head, rq_head, rxw_i};

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && state_q == StEntry) begin
      assert (reach_q == 33'(skip_q) + 33'(need_q)) else $error("hca_rx_place: reach_q");
    end
  end
`endif

endmodule
