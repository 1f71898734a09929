// Last stage of hca_rx_exec: moves the payload of each item from the receive buffer to the translated chunks,
// one beat per cycle, and hands the item to its end actions. One error bit per QP and side: after a failure
// nothing of that side is written until an item resumes, or the queue is initialised again. A second bit of QPs with an
// SRQ says that the failed message's slot has had its completion: the last item of that message has none.
// Moving: each step reads one buffer beat, rotates it into destination lanes, and merges it with the rest of
// the beat before (carry). A chunk whose source lane lies behind its destination lane needs one step more: one that
// writes nothing, so the first of an item passes beside the look at its error bits. An item takes a cycle and one per
// beat written, at least two.
// An atomic moves nothing here: it goes to hca_atomic once every beat before it has been accepted by the write mux.
module hca_rx_mover
  import hca_pkg::*, hca_features_pkg::*, hca_rx_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              qpc_wr_valid_i,
  output logic              qpc_wr_ready_o,
  input  qpc_wr_t           qpc_wr_i,
  input  logic              meta_valid_i,
  output logic              meta_ready_o,
  input  rx_meta_t          meta_i,
  input  logic              chunk_valid_i,
  output logic              chunk_ready_o,
  input  chunk_t            chunk_i,
  output logic              buf_re_o,
  output logic [RxBufW:0]   buf_raddr_o,
  input  beat_t             buf_rdata_i,   // next cycle, held
  output logic              beat_valid_o,
  input  logic              beat_ready_i,
  output dma_wr_t           beat_o,
  output logic              op_valid_o,
  input  logic              op_ready_i,
  output at_op_t            op_o,
  input  logic [11:0]       wrote_i,       // beats that the write mux has accepted, modulo 4096
  output logic              done_valid_o,
  input  logic              done_ready_i,
  output rx_done_t          done_o
);

  // ---- Error bits ----------------------------------------------------------------------------------
  typedef struct packed {
    logic side_sq;
    logic resumes;
    logic tells;      // its message may have had its completion already
    logic atomic;
    logic flush;      // if it is an atomic
    logic by_value;   // answer of an atomic: it is in the item
    logic goes_on;    // SEND, and the message does
  } item_t;

  item_t item_q;
  logic run_q;                // the error bits of the item at the head have been read
  logic side_sq, blocked, set_bad, resume, settle, sq_bad, rq_bad, rq_told, told, pays, clear;
  logic look, we_sq, we_rq, we_sq_q, we_rq_q, bad_q, old_sq, seen_sq_q, seen_rq_q, new_sq_q;
  logic [1:0]     bits_q, old_rq, new_rq_q;
  logic [QpW-1:0] bits_qpn_q;
  logic unused_in;

  assign unused_in      = ^{qpc_wr_i, chunk_i.pkt_last};
  assign settle         = set_bad || resume || pays;
  assign qpc_wr_ready_o = !settle;
  // In RESET items of the old life may still come; the bits are cleared on the way out of it.
  assign clear          = qpc_wr_valid_i && qpc_wr_ready_o && qpc_wr_i.qpc.state != QpsReset;
  assign side_sq        = item_q.side_sq;
  assign blocked        = (side_sq ? sq_bad : rq_bad) && !item_q.resumes;
  assign told           = blocked && rq_told && item_q.tells;

  // The item comes out of a RAM, and is there for a cycle more.
  always_ff @(posedge clk_i) begin
    if (!run_q) begin
      item_q <= '{side_sq: end_is_sq(meta_i.fin), resumes: meta_i.fin.resumes,
                  tells: !end_is_sq(meta_i.fin) && meta_i.fin.shared && meta_i.fin.cqe.valid,
                  atomic: meta_i.fin.kind == RxwAtomic, flush: meta_i.fin.rsp.cas && meta_i.fin.rsp.stores,
                  by_value: HasAtomic && meta_i.fin.kind == RxwAtomicResp,
                  goes_on: meta_i.fin.kind == RxwSend && !meta_i.fin.msg_last};
    end
  end

  // They are written a cycle late: what decides it comes late. A look in that cycle takes what is on its way.
  assign {we_sq, we_rq} = settle ? {side_sq, !side_sq} : {clear && qpc_wr_i.init_sq, clear && qpc_wr_i.init_rq};

  always_ff @(posedge clk_i) begin
    {we_sq_q, we_rq_q} <= {we_sq, we_rq};
    bits_qpn_q         <= settle ? meta_i.fin.qpn : qpc_wr_i.qpn;
    bits_q             <= {set_bad || pays, set_bad && item_q.goes_on};
    bad_q              <= set_bad;
    if (look) begin
      {seen_sq_q, seen_rq_q} <= {we_sq_q, we_rq_q} & {2{bits_qpn_q == meta_i.fin.qpn}};
      {new_sq_q, new_rq_q}   <= {bad_q, bits_q};
    end
  end

  hca_ram_1r1w #(
    .Width(1),
    .Depth(NumQps)
  ) u_sq_bad (
    .clk_i,
    .we_i   (we_sq_q),
    .waddr_i(bits_qpn_q),
    .wdata_i(bad_q),
    .re_i   (look),
    .raddr_i(meta_i.fin.qpn),
    .rdata_o(old_sq)
  );

  hca_ram_1r1w #(
    .Width(2),
    .Depth(NumQps)
  ) u_rq_bad (
    .clk_i,
    .we_i   (we_rq_q),
    .waddr_i(bits_qpn_q),
    .wdata_i(bits_q),
    .re_i   (look),
    .raddr_i(meta_i.fin.qpn),
    .rdata_o(old_rq)
  );

  assign look   = meta_valid_i && !run_q;
  assign sq_bad = seen_sq_q ? new_sq_q : old_sq;
  assign {rq_bad, rq_told} = seen_rq_q ? new_rq_q : old_rq;

  // ---- Item: walk its chunks -------------------------------------------------------------------------
  exec_err_e   err_q, err_now;
  xl_err_e     xl_err_q, xl_err_now;
  logic [4:0]  left_q;              // segments still to finish
  logic        none_left_q, one_left_q;
  logic [12:0] pos_q;               // payload bytes placed
  logic        discard, has_chunk, chunk_bad, chunk_ok, chunk_moves, early, late, take, finish, advance;
  logic        is_atomic_op, is_flush, launch, by_value, skips, ends, take_late, take_even, take_still;
  logic        late_run, late_first;  // once it runs, and in the cycle before
  logic [11:0] beats_q, beats_one;
  logic        all_wrote_q;         // a cycle late: an item's look is between it and the last beat before it
  xl_err_e     chunk_err;

  assign discard     = blocked || err_q != ExNone;
  assign has_chunk   = run_q && !none_left_q && chunk_valid_i;
  // A region by bus addresses may begin anywhere: what its peer takes for a multiple of 8 need not be one. And a null
  // region has no word that could be written at once. A FLUSH reads the word around its byte.
  assign is_atomic_op = item_q.atomic;
  assign is_flush    = item_q.flush;
  assign chunk_err   = (chunk_i.err == XlOk && is_atomic_op && ((chunk_i.addr[2:0] != '0 && !is_flush)
                                                                || chunk_i.discards)) ? XlAccess : chunk_i.err;
  assign chunk_bad   = has_chunk && !discard && chunk_err != XlOk;
  assign chunk_ok    = chunk_valid_i && chunk_i.has_bytes && !chunk_i.discards;
  assign skips       = chunk_i.discards && !is_atomic_op;
  assign chunk_moves = has_chunk && !discard && chunk_ok && !is_atomic_op;
  assign early       = meta_valid_i && !run_q && meta_i.segs != '0 && meta_i.fin.kind != RxwAtomic && chunk_ok
                       && late_first;

  // ---- Steps of a chunk ----------------------------------------------------------------------------
  logic [6:0]  k_q;                 // step
  logic [6:0]  k_behind_q;          // less one
  logic [13:0] src, src_q, src_next, src_first;  // payload's place relative to buf_beat, in bytes
  logic [13:0] head_at, body_at;                 // where it would be, had all been of that part
  logic [12:0] pos_next;
  logic [5:0]  s, d, rot;
  logic [7:0]  src_beats;
  logic        places, step, step_last, emits, k_last, k_behind;

  // A source that begins behind its destination does not fill the beat. Where s is more than d it is not 0.
  function automatic logic is_late(logic [5:0] from, logic [5:0] lane, logic [12:0] len_bytes);
    logic [6:0] upto;
    upto = 7'(from) + 7'(len_bytes[5:0]);
    return from > lane && (len_bytes[12:6] != '0 || (upto[6] && upto[5:0] != '0));
  endfunction

  // A datagram's chunks are cut where its network header ends.
  // The answer of an atomic is in its item, at 0; so it has no early step.
  assign by_value  = run_q && item_q.by_value;
  assign head_at   = 14'(meta_i.hdr_off);
  assign body_at   = {{6{meta_i.body_off[7]}}, meta_i.body_off};
  // Found when the piece in front of it ends; of the first one it is known.
  assign pos_next  = pos_q + chunk_i.len_bytes;
  assign src_next  = 14'(pos_next) + ((pos_next < 13'(meta_i.hdr_bytes)) ? head_at : body_at);
  assign src_first = 14'(meta_i.first_off);
  assign src       = run_q ? src_q : src_first;
  assign s         = src[5:0];
  assign d         = chunk_i.addr[5:0];
  assign rot       = d - s;
  assign src_beats = 8'((14'(s) + 14'(chunk_i.len_bytes) + 14'd63) >> 6);
  // The first output beat needs a second one.
  assign late_run   = is_late(src_q[5:0], d, chunk_i.len_bytes);
  assign late_first = is_late(src_first[5:0], d, chunk_i.len_bytes);
  assign late      = run_q ? late_run : late_first;
  assign k_last    = 7'(chunk_i.end_at[11:6]) == k_q;
  assign k_behind  = 7'(chunk_i.end_at[11:6]) == k_behind_q;
  assign emits     = !late || k_q != '0;
  assign step      = (chunk_moves || early) && advance && done_ready_i;
  assign step_last = late ? k_behind : k_last;

  assign places    = (step && step_last) || (take && skips);
  assign launch    = has_chunk && !discard && !chunk_bad && is_atomic_op;
  assign op_valid_o = launch && done_ready_i && all_wrote_q;
  assign op_o      = '{func: chunk_i.func, addr: chunk_i.addr[63:3], cas: meta_i.fin.rsp.cas,
                       stores: meta_i.fin.rsp.stores,
                       swap_add: meta_i.fin.rsp.va, compare: {meta_i.fin.rsp.rkey, meta_i.fin.rsp.len_bytes},
                       masks: at_masks_of(meta_i.fin.cqe)};

  // Whether it needs a step more comes late.
  assign take_late  = chunk_moves ? advance && done_ready_i && k_behind : take_still;
  assign take_even  = chunk_moves ? advance && done_ready_i && k_last : take_still;
  assign take_still = launch ? op_valid_o && op_ready_i : done_ready_i;
  assign take       = has_chunk && (late_run ? take_late : take_even);
  // The last one in any case, or with this chunk.
  assign ends       = run_q && (none_left_q || (chunk_valid_i && chunk_i.seg_last && one_left_q));
  assign finish     = done_valid_o && done_ready_i;
  assign chunk_ready_o = take;
  assign meta_ready_o  = finish;

  assign buf_re_o    = step && 8'(k_q) < src_beats && !by_value;
  assign buf_raddr_o = {meta_i.fin.place.parks, RxBufW'(meta_i.buf_beat + RxBufW'(src[13:6]) + RxBufW'(k_q))};

  assign err_now    = chunk_bad ? ExKey : err_q;
  assign xl_err_now = chunk_bad ? chunk_err : xl_err_q;
  // An item that fails or is held back moves nothing at its end, which therefore waits for no step.
  assign set_bad    = ends && done_ready_i && !blocked && err_now != ExNone;
  assign resume     = finish && item_q.resumes;
  assign pays       = ends && done_ready_i && told;

  assign beats_one   = beats_q + 12'd1;
  assign done_valid_o = run_q && (none_left_q || (take && chunk_i.seg_last && one_left_q));
  assign done_o = '{blocked: blocked, told: told, err: err_now, xl_err: xl_err_now,
                    beats: (step && emits) ? beats_one : beats_q, fin: meta_i.fin};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      run_q   <= 1'b0;
      beats_q <= '0;
    end else begin
      if (!run_q) run_q <= meta_valid_i;
      else if (finish) run_q <= 1'b0;
      if (step && emits) beats_q <= beats_one;
    end
    all_wrote_q <= beats_q == wrote_i;
    if (!run_q) {left_q, none_left_q, one_left_q} <= {meta_i.segs, meta_i.segs == '0, meta_i.segs == 5'd1};
    else if (take && chunk_i.seg_last) begin
      {left_q, none_left_q, one_left_q} <= {left_q - 5'd1, one_left_q, left_q == 5'd2};
    end
    // Also where the early step was in vain.
    if (rst_i || take) {k_behind_q, k_q} <= {-7'sd1, 7'd0};
    else if (step) {k_behind_q, k_q} <= {k_q, k_q + 7'd1};
    if (!run_q) begin
      err_q    <= meta_i.err;
      xl_err_q <= XlOk;
      pos_q    <= '0;
    end else begin
      if (chunk_bad && take) begin
        err_q    <= ExKey;
        xl_err_q <= chunk_err;
      end
      if (places) pos_q <= pos_next;
    end
    src_q <= places ? src_next : src;
  end

  // ---- Rotate and merge: the stage in which the buffer's data arrives ----------------------------------
  typedef struct packed {
    logic        emit;
    logic        all;     // no carry: the whole beat comes from this read
    logic [5:0]  rot;
    logic        last;    // of the burst
    logic [7:0]  func;
    logic [63:6] line;
    logic [5:0]  lane;    // first lane written
    logic [5:0]  lane_end;
  } move_t;

  logic        mv_valid_q, mv_go;
  move_t       mv_q, mv_d;
  logic        mv_by_value_q;
  logic [63:0] mv_value_q;
  logic        dst_first, dst_last;
  logic [5:0]  line, line_behind;   // where the step writes if it is not late, and if it is
  beat_t       turned, beat_data, carry_q;
  logic [DataBytes-1:0] beat_strb;

  assign dst_first = late ? k_q == 7'd1 : k_q == '0;
  assign dst_last  = step_last;

  // No chunk leaves its 4 KiB.
  assign line        = chunk_i.addr[11:6] + k_q[5:0];
  assign line_behind = chunk_i.addr[11:6] + k_behind_q[5:0];

  always_comb begin
    mv_d.emit     = emits;
    mv_d.all      = !late && dst_first;
    mv_d.rot      = rot;
    mv_d.func     = chunk_i.func;
    mv_d.line     = {chunk_i.addr[63:12], late ? line_behind : line};
    // Of each case by itself: which one it is comes late.
    mv_d.last     = late ? k_behind || (&line_behind[1:0]) : k_last || (&line[1:0]);
    mv_d.lane     = dst_first ? d : '0;
    mv_d.lane_end = dst_last ? chunk_i.end_at[5:0] : 6'd63;
  end

  assign mv_go   = mv_valid_q && (!mv_q.emit || beat_ready_i);
  assign advance = !mv_valid_q || mv_go;

  always_ff @(posedge clk_i) begin
    if (rst_i) mv_valid_q <= 1'b0;
    else if (advance) mv_valid_q <= step;
    if (step) begin
      mv_q          <= mv_d;
      mv_by_value_q <= by_value;
      if (by_value) mv_value_q <= meta_i.fin.rsp.va;
    end
    if (mv_go) carry_q <= turned;
  end

  hca_rx_turn u_turn (
    .all_i     (mv_q.all),
    .rot_i     (mv_q.rot),
    .by_value_i(mv_by_value_q),
    .value_i   (mv_value_q),
    .read_i    (buf_rdata_i),
    .carry_i   (carry_q),
    .lane_i    (mv_q.lane),
    .lane_end_i(mv_q.lane_end),
    .turned_o  (turned),
    .data_o    (beat_data),
    .strb_o    (beat_strb)
  );

  assign beat_valid_o = mv_valid_q && mv_q.emit;

  // Only where beat_valid_o says so it means anything.
  always_comb begin
    beat_o      = '0;
    beat_o.last = mv_q.last;
    beat_o.func = mv_q.func;
    beat_o.addr = {mv_q.line, 6'd0};
    beat_o.data = beat_data;
    beat_o.strb = beat_strb;
  end

endmodule
