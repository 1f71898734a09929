// Responder rules for one request packet. look_i: packet, context and state are valid (now_*, and kept for the next
// cycle: ctx_i, st_i); the verdict stands at the outputs in the next cycle, while apply_i is set: what rx_exec shall
// do, the new state, and at most one event. Where marks have to be searched, or the packet names its SRQ (late_o, with
// look_i), it stands there a cycle later. Pure decision: no state of its own, no stalls. Rules: README.md, tables 1, 4
// (UC).
module hca_resp_check
  import hca_pkg::*, hca_features_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic           look_i,
  output logic           late_o,
  input  logic           apply_i,
  input  rxd_t           rxd_i,    // with look_i
  input  rxd_t           req_i,    // the same with apply_i
  input  logic [QpW-1:0] qpn_i,
  input  rx_ctx_t        now_ctx_i,  // with look_i
  input  resp_st_t       now_st_i,
  input  rx_ctx_t        ctx_i,    // the same with apply_i
  input  resp_st_t       st_i,
  input  wqe_idx_t       rq_pi_i,
  input  logic [5:0]     rd_popped_i,
  input  logic [4:0]     credits_i,  // with apply_i: code of what the peer is told
  input  logic [4:0]     less_i,     // and when the packet takes a receive WQE
  input  srq_head_t      srq_i,    // with apply_i
  input  logic           no_srq_i, // the same, XRC: there is no such SRQ
  input  logic           foreign_i,  // or it is of another domain
  output logic           srq_pop_o,
  output rxw_t           item_o,
  output wqe_at_t        list_o,   // for item_o.needs_list
  output resp_st_t       st_o,
  output logic           dead_o,   // a fatal NAK was sent
  output logic           dup_o,    // the request was seen before
  output logic           inv_o,    // strobe: it has its place, and waits for hca_mw to invalidate st_o.wr_rkey
  output logic           ev_valid_o,
  output rx_ev_t         ev_o
);

  // READ jobs counted (waiting, or about to be dropped) at which repeated READs are ignored; the count is modulo 64.
  localparam logic [5:0] RdJam = 6'd40;
  // More packets of a gap are not named in a NAK: all comes again.
  localparam logic [6:0] MissingMax = 7'((1 << MissingW) - 1);
  // PSNs before the expected one that were seen before: half of all, so a READ of 2 GiB at MTU 256 can come again.
  localparam logic [23:0] DupPsns = 24'h80_0000;
  // The same where nothing is sent again: older packets than any fabric holds are a sender's whose others were lost.
  localparam logic [23:0] UcDupPsns = 24'h01_0000;

  // ---- Stage 1: opcode and comparisons ----------------------------------------------------------------
  typedef struct packed {
    logic        in_seq;
    logic        earlier;
    logic        send;
    logic        write;
    logic        read;       // or an atomic: answered with data, by a job
    logic        atomic;
    logic        stores;     // one of these: ATOMIC WRITE
    logic        flush;      // one of these: FLUSH
    logic        starts;     // FIRST, ONLY, READ request, atomic
    logic        ends;       // LAST, ONLY
    logic        imm;
    logic        inv;        // with invalidate
    logic        order_bad;  // unknown opcode, or out of order
    logic        len_bad;
    logic        access_bad;
    logic        takes;      // needs a receive WQE
    logic        no_wqe;     // and there is none
    logic        rd_full;    // more READs and atomics than agreed
    logic        rd_jam;     // the ring is full of READs asked for again: drop, the peer comes back
    logic        rd_none;    // no READ job is waiting
    logic        dup_ok;     // duplicate READ lies wholly before the expected PSN
    logic        alone;      // selective: it needs nothing of the packets before it
    logic        eighth;     // of the packets behind the expected one
    logic [23:0] whole;      // PSNs a READ takes: those of full packets,
    logic        rest;       // and one more
  } look_t;

  // Selective repeat: what hca_resp_ahead says of the packet and of the marks. What is late of it, how many packets are
  // missing and the marks with this one, is put together a cycle later.
  typedef struct packed {
    logic        reached;
    logic        known;
    logic [6:0]  ahead;
    logic        leads;
    logic [6:0]  first;
    logic [6:0]  passed;
    logic [6:0]  hole;
  } marks_t;

  look_t       look_d, look_q;
  marks_t      marks_d, marks_q;
  logic        in_seq, has_marks, searches, searches_q, has_masks;
  logic        keeps, keeps_q;      // selective: marks stay
  logic [4:0]  op;
  logic [12:0] pay;
  logic        first, middle, last, only, total_bad, flush_bad;
  logic        full, over, is_left;   // the payload is as long as the MTU, or longer; it is what is left of a WRITE
  logic        left_over;             // of a WRITE more is left than an MTU
  logic [7:0]  fulls, overs, reth_mosts, left_beyond, left_at;   // by the code of an MTU; most: no more than one
  feth_low_t   feth;
  logic [5:0]  rd_used;
  logic [31:0] rd_full;    // packets of a READ that are full
  logic [23:0] rd_whole;   // PSNs of a READ without its last one, if that is not full
  logic        rd_rest;
  logic [7:0]  rd_ragged;  // by the code of an MTU: its last one is not full
  logic [25:0] rd_fits;
  logic [23:0] behind, between_q;   // the expected PSN less this one; PSNs between them, neither counted
  logic        unused_rxd;

  assign unused_rxd = ^{rxd_i, req_i, rd_full, rd_fits, now_ctx_i, now_st_i, ctx_i, srq_i.xrc};

  assign has_masks = rxd_i.masked && rxd_i.opcode[4:0] == BthRcCmpSwap[4:0];

  // They stand where the place of a WRITE in progress stands otherwise. Of the expected packet, where there are none,
  // nothing needs to be searched.
  assign has_marks = now_ctx_i.selective && now_st_i.in_msg inside {MsgpNone, MsgpSend};
  assign searches  = has_marks && !(now_st_i.wr_va == '0 && look_d.in_seq);
  assign late_o    = searches || now_ctx_i.is_xrc;

  // A READ's answer tells of nothing behind it, and a WRITE in several packets needs their place.
  assign keeps     = has_marks && !look_d.read && !look_d.inv && !(look_d.write && look_d.starts && !look_d.ends);

  hca_resp_ahead u_ahead (
    .clk_i,
    .early_i  (now_st_i.wr_va),
    .marks_i  (st_i.wr_va),
    .between_i(between_q),
    .near_o   (marks_d.reached), .known_o(marks_d.known), .leads_o(marks_d.leads), .first_o(marks_d.first),
    .passed_o (marks_d.passed), .hole_o(marks_d.hole)
  );
  hca_same #(.Width(32)) u_is_left (.a_i(now_st_i.wr_left), .b_i(32'(rxd_i.payload_bytes)), .same_o(is_left));
  hca_same #(.Width(24)) u_in_seq (.a_i(now_st_i.epsn), .b_i(rxd_i.psn), .same_o(in_seq));
  assign marks_d.ahead = 7'(between_q) + 7'd1;

  // A SEND is longer than any may be with this packet: what it may still have is one more than its length inverted.
  logic send_fills, send_over;
  hca_next #(.Width(31)) u_fills (.a_i(~now_st_i.msg_bytes[30:0]), .b_i(31'(pay)), .next_o(send_fills));
  assign send_over = now_st_i.msg_bytes[31] || (31'(pay) > ~now_st_i.msg_bytes[30:0] && !send_fills);
  if (MaxMsgBytes != 32'd1 << 31) begin : gen_other_bound
    $error("hca_resp_check: send_over is of messages of 2 GiB");
  end

  assign pay = rxd_i.payload_bytes;

  always_comb begin
    op       = rxd_i.opcode[4:0];
    rd_used  = now_st_i.rd_pushed - rd_popped_i;
    // The MTU comes late: what is left for a last packet, of each that there may be.
    rd_full  = (rxd_i.reth_bytes >> 7) >> now_ctx_i.path_mtu;
    for (int unsigned m = 0; m < 8; m++) begin
      rd_ragged[m]  = (rxd_i.reth_bytes & ((32'd128 << m) - 32'd1)) != '0;
      fulls[m]      = pay == mtu_bytes(3'(m));
      overs[m]      = (pay >> (7 + m)) != '0 && !fulls[m];
      reth_mosts[m] = (rxd_i.reth_bytes >> (7 + m)) == '0 || rxd_i.reth_bytes == 32'd128 << m;
    end
    // More than an MTU is left: something beyond it, or its bit and one below. What is above the longest one and below
    // the shortest is the same for all.
    left_beyond = '0;
    left_at     = '0;
    for (int unsigned m = 0; m < 6; m++) begin
      left_beyond[m] = (6'(now_st_i.wr_left[12:7]) >> (m + 1)) != '0
                       || (now_st_i.wr_left[7+m] && (now_st_i.wr_left[12:7] & 6'((1 << m) - 1)) != '0);
      left_at[m]     = now_st_i.wr_left[7+m];
    end
    left_over = now_st_i.wr_left[31:13] != '0 || left_beyond[now_ctx_i.path_mtu]
                || (left_at[now_ctx_i.path_mtu] && now_st_i.wr_left[6:0] != '0);
    full = fulls[now_ctx_i.path_mtu];
    over = overs[now_ctx_i.path_mtu];
    behind   = now_st_i.epsn - rxd_i.psn;

    look_d = '0;
    first  = op == BthRcSendFirst[4:0] || op == BthRcWriteFirst[4:0];
    middle = op == BthRcSendMiddle[4:0] || op == BthRcWriteMiddle[4:0];
    last   = op == BthRcSendLast[4:0] || op == BthRcSendLastImm[4:0] || op == BthRcSendLastInv[4:0]
             || op == BthRcWriteLast[4:0] || op == BthRcWriteLastImm[4:0];
    only   = op == BthRcSendOnly[4:0] || op == BthRcSendOnlyImm[4:0] || op == BthRcSendOnlyInv[4:0]
             || op == BthRcWriteOnly[4:0] || op == BthRcWriteOnlyImm[4:0];
    look_d.inv    = op == BthRcSendLastInv[4:0] || op == BthRcSendOnlyInv[4:0];
    look_d.send   = op <= BthRcSendOnlyImm[4:0] || look_d.inv;
    look_d.write  = op >= BthRcWriteFirst[4:0] && op <= BthRcWriteOnlyImm[4:0];
    look_d.stores = op == BthRcAtomicWrite[4:0];
    look_d.flush  = op == BthRcFlush[4:0];
    look_d.atomic = op == BthRcCmpSwap[4:0] || op == BthRcFetchAdd[4:0] || look_d.stores || look_d.flush;
    look_d.read   = op == BthRcReadRequest[4:0] || look_d.atomic;
    look_d.imm    = op == BthRcSendLastImm[4:0] || op == BthRcSendOnlyImm[4:0]
                    || op == BthRcWriteLastImm[4:0] || op == BthRcWriteOnlyImm[4:0];
    look_d.starts = first || only || look_d.read;
    look_d.ends   = last || only;
    look_d.in_seq = in_seq;
    look_d.earlier = !look_d.in_seq && behind <= (now_ctx_i.is_uc ? UcDupPsns : DupPsns);
    rd_whole = look_d.flush ? '0 : rd_full[23:0];
    rd_rest  = rd_ragged[now_ctx_i.path_mtu] || rxd_i.reth_bytes == '0 || look_d.flush;
    look_d.whole  = rd_whole;
    look_d.rest   = rd_rest;
    // Not more PSNs than there are before the expected one: their number less the two parts in one chain.
    rd_fits       = {1'b0, behind, 1'b1} + {1'b0, ~rd_whole, !rd_rest};
    look_d.dup_ok = rd_fits[25];

    // On UC a message may begin behind a gap, and in place of the rest of another one: of that some is lost.
    look_d.order_bad = !(look_d.send || look_d.write || (look_d.read && !now_ctx_i.is_uc))
                       || (look_d.inv && (now_ctx_i.is_uc || !HasKeyWr)) || (look_d.atomic && !HasAtomic)
                       || (look_d.starts && now_st_i.in_msg != MsgpNone && !now_ctx_i.is_uc)
                       || (!look_d.starts && now_st_i.in_msg != (look_d.send ? MsgpSend : MsgpWrite))
                       || (!look_d.starts && !look_d.in_seq && now_ctx_i.is_uc)
                       || (!look_d.starts && now_st_i.srqn != rxd_i.xrcsrq && now_ctx_i.is_xrc);

    // A WRITE's packets add up to exactly the length in its RETH.
    total_bad = (first && reth_mosts[now_ctx_i.path_mtu]) || (only && rxd_i.reth_bytes != 32'(pay))
                || (middle && !left_over) || (last && !is_left);
    // It needs one of the two types there are; its length is that of no data.
    feth      = rxd_i.swap_add[$bits(feth_low_t)-1:0];
    flush_bad = feth.plt inside {4'd0, [4'd4:4'd15]} || feth.sel[1];
    look_d.len_bad = ((first || middle) && !full)
                     || (last && (pay == '0 || over))
                     || (only && over)
                     || (look_d.read && (pay != (look_d.stores ? 13'd8 : has_masks ? 13'(SqWqeMasksBytes) : 13'd0)
                                         || (look_d.flush ? flush_bad : rxd_i.reth_bytes > MaxMsgBytes)))
                     || (look_d.atomic && !look_d.flush && (rxd_i.reth_va[2:0] != '0 || rxd_i.reth_bytes != 32'd8))
                     || (look_d.write && (total_bad || (look_d.starts && rxd_i.reth_bytes > MaxMsgBytes)))
                     || (look_d.send && !look_d.starts && send_over);
    look_d.access_bad = (look_d.write && !now_ctx_i.remote_write)
                        || (look_d.read && !(look_d.flush ? now_ctx_i.flush_global && !feth.plt[1]
                                             : look_d.stores ? now_ctx_i.remote_write
                                             : look_d.atomic ? now_ctx_i.remote_atomic : now_ctx_i.remote_read));
    look_d.takes      = (look_d.send && look_d.starts) || (look_d.write && look_d.ends && look_d.imm);
    look_d.no_wqe     = look_d.takes && !now_ctx_i.has_srq && now_st_i.rq_ci == rq_pi_i;
    // Jobs that the peer has asked for again still count until hca_resp_sched drops them: no reason to refuse.
    // Of FLUSHes a peer may have any number outstanding (decision 0074).
    look_d.rd_full    = rd_used >= 6'(now_ctx_i.max_dest_rd_atomic) && !now_st_i.rd_again && !look_d.flush;
    look_d.rd_jam     = rd_used >= RdJam;
    look_d.rd_none    = rd_used == '0;
    look_d.alone      = has_marks && !now_st_i.nak_all && op == BthRcWriteOnly[4:0];
    look_d.eighth     = behind[2:0] == '0;
  end

  always_ff @(posedge clk_i) begin
    if (look_i) {look_q, keeps_q, searches_q} <= {look_d, keeps, searches};
    if (look_i) between_q <= rxd_i.psn + ~now_st_i.epsn;
    marks_q <= marks_d;
    if (look_i || !searches_q) {marks_q.known, marks_q.passed, marks_q.hole} <= {1'b0, 7'd0, 7'(AheadPsns)};  // none
  end

  // ---- Stage 2: verdict -----------------------------------------------------------------------------
  logic        accept, fatal, again, lost;  // lost: of a UC message, so all of it is
  logic        places, all_again, few;  // selective: it goes to its place; go-back-N; only some packets are missing
  logic        inv_waits;  // a SEND with invalidate is not over: nothing passes it
  logic [7:0]  syndrome, status;
  logic [31:0] offset;  // of this packet's payload in its message
  logic        pops, no_wqe;
  wqe_idx_t    wqe;     // the receive WQE of the message
  rsp_job_t    nak;

  // The answer is an ACK.
  logic        acks;
  logic [4:0]  code;
  assign code = (accept && look_q.ends && (look_q.send || look_q.imm)) ? less_i : credits_i;
  assign acks = apply_i && (accept || look_q.earlier) && !ctx_i.is_uc && !inv_waits && !inv_o && !nak.valid
                && (look_q.read ? (accept || again) : req_i.ack_req || (accept && keeps_q && marks_q.passed != '0));

  // The expected PSN behind this packet, and behind those that have come before it; how many are missing there.
  logic [23:0] next_psn;
  logic [6:0]  missing, still, behind_gap;
  logic        some_left;            // marks behind that PSN
  logic [AheadPsns-1:0] left;
  logic [15:0] seen;
  // Marks are kept beside what is no READ, which takes one.
  logic        unused_carry;
  assign {next_psn, unused_carry} = {req_i.psn, 1'b1}
                                    + {look_q.read ? look_q.whole : keeps_q ? 24'(marks_q.passed) : '0,
                                       !look_q.read || look_q.rest};
  // One less, of what is not a READ: what was received last.
  logic [23:0] last_psn;
  assign last_psn = req_i.psn + (keeps_q ? 24'(marks_q.passed) : '0);
  logic        unused_missing;
  assign unused_missing = ^missing[6:MissingW];
  assign still    = marks_q.hole - marks_q.passed;
  assign left     = marks_behind(st_i.wr_va, marks_q.passed);
  assign some_left = !marks_q.hole[6];
  assign behind_gap = marks_q.leads ? marks_q.ahead : marks_q.first;
  assign missing    = look_q.in_seq ? still : behind_gap;
  assign seen     = look_q.in_seq ? req_i.psn[15:0] + 16'd1 + 16'(marks_q.hole) : req_i.psn[15:0];

  assign list_o = '{func: ctx_i.func, base: ctx_i.rq_base, log_size: ctx_i.rq_log_size,
                    log_stride: ctx_i.rq_log_stride, index: wqe};
  // An SRQ gives a slot with the packet that needs one; a message of UC that was lost has left its own.
  assign pops   = look_q.takes && ctx_i.has_srq && !st_i.held;
  assign no_wqe = look_q.no_wqe || (pops && !srq_i.ok);
  assign wqe    = pops ? WqeIndexBits'(srq_i.slot) : st_i.rq_ci;
  assign srq_pop_o = accept && pops;
  assign offset = look_q.starts ? '0 : st_i.msg_bytes;

  always_comb begin
    accept   = 1'b0;
    again    = 1'b0;
    fatal    = 1'b0;
    syndrome = '0;
    status   = WcRemAccessErr;
    lost     = 1'b0;
    places   = 1'b0;
    few      = 1'b0;
    if (inv_waits) begin
      accept = 1'b0;
    end else if (apply_i && ctx_i.is_uc) begin
      lost   = !look_q.earlier && (look_q.order_bad || look_q.len_bad || look_q.access_bad || no_wqe);
      accept = !look_q.earlier && !lost;
    end else if (apply_i && look_q.in_seq) begin
      if (look_q.order_bad) begin
        fatal    = 1'b1;
        syndrome = NakInvalidRequest;
        status   = WcRemInvReqErr;
      end else if (no_srq_i || foreign_i) begin
        fatal    = 1'b1;
        syndrome = NakInvalidRdRequest;
        if (no_srq_i) status = WcRemInvReqErr;
      end else if (look_q.len_bad || (look_q.read && !look_q.access_bad && look_q.rd_full)) begin
        fatal    = 1'b1;
        syndrome = NakInvalidRequest;
      end else if (look_q.access_bad) begin
        fatal    = 1'b1;
        syndrome = NakRemoteAccess;
      end else if (look_q.read && look_q.rd_jam) begin
        syndrome = '0;
      end else if (no_wqe || (look_q.inv && !look_q.rd_none)) begin  // READs before it may be using its key
        syndrome = AethRnr | 8'(ctx_i.min_rnr_timer);
      end else begin
        accept = 1'b1;
        if (keeps_q && some_left) syndrome = (still > MissingMax) ? NakPsnSequence : NakSelective;
      end
    end else if (apply_i && look_q.earlier) begin
      again = look_q.read && !look_q.len_bad && !look_q.access_bad && look_q.dup_ok
              && !look_q.rd_jam && (look_q.atomic || !(no_srq_i || foreign_i));
    end else if (apply_i && ctx_i.selective) begin
      // A gap is told of again with every eighth packet: an answer, or what was sent again, may be lost.
      places = look_q.alone && marks_q.reached && !marks_q.known && !look_q.len_bad && !look_q.access_bad;
      if (places && (!st_i.nak_sent || look_q.eighth)) begin
        syndrome = (behind_gap > MissingMax) ? NakPsnSequence : NakSelective;
      end else if (!places && !marks_q.known && !st_i.nak_all) begin
        syndrome = NakPsnSequence;
      end
    end else if (apply_i && !st_i.nak_sent) begin
      syndrome = NakPsnSequence;
    end
    few       = syndrome == NakSelective;
    all_again = ctx_i.selective && (syndrome == NakPsnSequence || syndrome[7:5] == AethRnr[7:5]);
    // Every negative answer names the expected PSN.
    nak = '{valid: syndrome != '0, read: 1'b0, atomic: 1'b0, cas: 1'b0, stores: 1'b0, again: 1'b0, aside: 1'b0,
            qpn: qpn_i,
            psn: accept ? next_psn : st_i.epsn, syndrome: syndrome,
            msn: few ? {3'd0, missing[MissingW-1:0], seen} : st_i.msn, va: '0, rkey: '0, len_bytes: '0};
  end

  always_comb begin
    st_o = st_i;
    if (inv_waits) begin
      if (!look_q.in_seq && !look_q.earlier) st_o.wr_left = st_i.wr_left | {2'b01, 30'd0};  // inv_t: passed
    end else if (inv_o) begin  // the rest when it is over (hca_rx_inv)
      st_o.in_msg        = MsgpInv;
      st_o.nak_sent      = 1'b0;
      st_o.comm_est_sent = 1'b1;
      st_o.msg_bytes     = offset + 32'(req_i.payload_bytes);
      st_o.wr_rkey       = key_of(req_i.imm);
      st_o.wr_left       = {req_i.solicited, 31'd0};                                          // inv_t
      if (pops) st_o.rq_ci = WqeIndexBits'(srq_i.slot);
      st_o.held          = ctx_i.has_srq;
      if (ctx_i.selective) st_o.wr_va = '0;
    end else if (accept) begin
      st_o.epsn      = next_psn;
      st_o.msn       = st_i.msn + 24'(look_q.ends || look_q.read) + (keeps_q ? 24'(marks_q.passed) : '0);
      st_o.nak_sent  = 1'b0;
      st_o.nak_all   = 1'b0;
      st_o.comm_est_sent = 1'b1;
      st_o.msg_bytes = offset + 32'(req_i.payload_bytes);
      st_o.wr_left   = (look_q.starts ? req_i.reth_bytes : st_i.wr_left) - 32'(req_i.payload_bytes);
      st_o.wr_va     = (look_q.starts ? req_i.reth_va : st_i.wr_va) + 64'(req_i.payload_bytes);
      if (look_q.starts) st_o.wr_rkey = req_i.reth_rkey;
      if (look_q.ends) begin
        st_o.in_msg = MsgpNone;
        if ((look_q.send || look_q.imm) && !ctx_i.has_srq) st_o.rq_ci = st_i.rq_ci + 1'b1;
        if (look_q.send || look_q.imm) st_o.held = 1'b0;
      end else if (look_q.starts && !look_q.read) begin
        st_o.in_msg = look_q.send ? MsgpSend : MsgpWrite;
        if (look_q.send) st_o.held = ctx_i.has_srq;
      end
      if (pops) st_o.rq_ci = WqeIndexBits'(srq_i.slot);
      if (ctx_i.selective && st_o.in_msg != MsgpWrite) st_o.wr_va = keeps_q ? left : '0;
    end else if (places) begin
      st_o.wr_va = marks_with(st_i.wr_va, marks_q.ahead);
    end
    if (accept && look_q.starts) {st_o.srqn, st_o.srq_cqn} = {req_i.xrcsrq, ctx_i.recv_cqn};
    if (lost) begin  // the receive WQE is the next message's
      st_o.epsn   = req_i.psn + 24'd1;
      st_o.in_msg = MsgpNone;
    end
    if ((accept && look_q.read) || again) st_o.rd_pushed = st_i.rd_pushed + 6'd1;
    if (apply_i) st_o.rd_again = again || (st_i.rd_again && !look_q.rd_none);
    if (nak.valid) st_o.nak_sent = 1'b1;
    if (acks) st_o.ran_dry = code == '0;
    // All behind the gap comes again: nothing of it is remembered.
    if (all_again) begin
      st_o.nak_all = 1'b1;
      if (st_o.in_msg inside {MsgpNone, MsgpSend}) st_o.wr_va = '0;
    end
  end

  always_comb begin
    item_o = '0;
    if (apply_i) begin
      item_o.kind          = RxwNone;
      item_o.qpn           = qpn_i;
      item_o.func          = ctx_i.func;
      item_o.pd            = ctx_i.pd;
      item_o.gen           = ctx_i.gen;
      item_o.frees         = 1'b1;
      item_o.buf_beat      = req_i.buf_beat;
      item_o.buf_beats     = req_i.buf_beats;
      item_o.place         = req_i.place;
      item_o.lead          = req_i.lead;
      item_o.payload_off   = req_i.payload_off;
      item_o.payload_bytes = req_i.payload_bytes;
      item_o.va            = look_q.starts ? req_i.reth_va : st_i.wr_va;
      item_o.rkey          = look_q.starts ? req_i.reth_rkey : st_i.wr_rkey;
      item_o.chk_bytes     = look_q.starts ? req_i.reth_bytes : 32'(req_i.payload_bytes);
      item_o.list_bytes    = wqe_bytes(ctx_i.rq_log_stride);
      item_o.wqe_index     = wqe;
      item_o.shared        = ctx_i.has_srq;
      item_o.msg_offset    = offset;
      item_o.msg_last      = (look_q.ends && !inv_o && !places) || (accept && look_q.read);
      item_o.silent        = ctx_i.is_uc;
      item_o.rsp           = nak;
      if (accept) begin
        item_o.needs_list = look_q.send;
        item_o.kind       = look_q.send ? RxwSend : look_q.write ? RxwWrite : look_q.atomic ? RxwAtomic : RxwReadReq;
      end
      if (places) item_o.kind = RxwWrite;
      // A READ is executed again; an atomic never is: it has the answer that it had (REL-19).
      if (again && !look_q.atomic) item_o.kind = RxwReadReq;
      if (inv_o) begin
        item_o.rsp.psn = req_i.psn;
      end else if ((accept || look_q.earlier) && !ctx_i.is_uc && !inv_waits && !nak.valid) begin
        item_o.rsp.valid    = acks;
        item_o.rsp.syndrome = {3'b000, code};
        item_o.rsp.msn      = st_o.msn;
        // A duplicate SEND or WRITE is answered for everything received so far (REL-19).
        item_o.rsp.psn      = look_q.read ? req_i.psn : accept ? last_psn : st_i.epsn - 24'd1;
      end
      if ((accept && look_q.read) || again) begin
        item_o.rsp.read      = 1'b1;
        item_o.rsp.atomic    = look_q.atomic;
        item_o.rsp.cas       = req_i.opcode[4:0] == BthRcCmpSwap[4:0] || look_q.flush;
        item_o.rsp.stores    = look_q.stores || look_q.flush;
        if (look_q.atomic) item_o.cqe.wc = wc_t'(req_i.masks);
        item_o.rsp.again     = again;
        item_o.rsp.aside     = ctx_i.selective && again;
        item_o.rsp.va        = look_q.atomic ? req_i.swap_add : req_i.reth_va;
        item_o.rsp.rkey      = look_q.atomic ? req_i.compare[63:32] : req_i.reth_rkey;
        item_o.rsp.len_bytes = look_q.atomic ? req_i.compare[31:0] : req_i.reth_bytes;
      end
      if (accept && (look_q.send || look_q.imm) && !inv_o) begin
        item_o.cqe.valid         = look_q.ends;
        item_o.cqe.solicited     = req_i.solicited;
        item_o.cqe.cqn           = ctx_i.recv_cqn;
        item_o.cqe.wc.wqe_index = wqe[15:0];
        item_o.cqe.wc.opcode    = look_q.send ? WcOpRecv : WcOpRecvRdmaWithImm;
        item_o.cqe.wc.status    = WcSuccess;
        item_o.cqe.wc.qpn       = full_qpn(ctx_i.gen, qpn_i);
        item_o.cqe.wc.byte_len  = st_o.msg_bytes;
        item_o.cqe.wc.imm_data  = look_q.imm ? req_i.imm : '0;
        item_o.cqe.wc.wc_flags  = look_q.imm ? 4'(WcFlagWithImm) : '0;
        item_o.cqe.wc.src_qp    = ctx_i.dest_qpn;
        item_o.cqe.wc.is_xrc    = ctx_i.is_xrc;
        item_o.cqe.wc.srqn      = req_i.xrcsrq;
      end
    end
  end

  assign inv_o      = accept && look_q.inv;
  assign inv_waits  = apply_i && st_i.in_msg == MsgpInv;
  assign dead_o     = fatal;
  assign dup_o      = apply_i && look_q.earlier;
  assign ev_valid_o = fatal || (accept && ctx_i.is_rtr && !st_i.comm_est_sent);
  assign ev_o       = '{kind: fatal ? HwEventQpError : HwEventQpCommEst, func: ctx_i.func, qpn: qpn_i,
                        who: 2'(HwWhoResponder), syndrome: syndrome, status: fatal ? status : 8'(WcSuccess)};

endmodule
