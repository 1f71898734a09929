// Types that the parts of hca_rx_ctrl and hca_rx_exec share; nothing here leaves this folder.
package hca_rx_pkg;

  import hca_pkg::*;

  // AETH syndromes built here: bits 6:5 say what it is.
  localparam logic [7:0] AethAck = {3'b000, NoCredits};
  localparam logic [4:0] ProbeCode = 5'd8;  // 160 us without a credit, then a packet goes beyond the limit
  localparam logic [4:0] PathCode = 5'd8;   // the same time for firmware to change the path of a QP (APM-1)
  localparam logic [7:0] AethRnr = 8'h20;  // RNR NAK, or'ed with the timer code
  localparam logic [31:0] MaxMsgBytes = 32'h8000_0000;  // 2 GiB, XPORT-1

  // A work queue to flush.
  typedef struct packed {logic [QpW-1:0] qpn; logic sq;} flush_t;

  // The part of the QP context that the receive side uses.
  typedef struct packed {
    logic           rx_ok;      // RTR, RTS, SQD, SQE: packets are processed (QPS-4)
    logic           is_rtr;
    logic           is_err;
    logic           tx_live;    // RTS or SQD: requests may be outstanding
    logic           is_sqe;
    logic           is_rc;      // or XRC
    logic           selective;  // RC, and the peer takes it: hca_resp_ahead
    logic           tells;      // RC, with a receive queue of its own: the peer is told of credits
    logic           credits;    // RC: the peer's count
    logic           is_xrc;
    logic           is_target;  // XRC: receives, and has no send queue; otherwise sends, and receives nothing
    logic [23:0]    xrcd;
    logic           is_uc;
    logic           is_ud;      // or raw
    logic           is_raw;
    logic           is_gsi;     // QP1
    logic           is_rearm, is_armed;   // of path_mig_state
    logic           is_shared;  // other QPs may have the row, too
    logic           is_shut;    // no packet gets in
    qp_gen_t        gen;
    logic [7:0]     func;
    logic [23:0]    pd;
    logic [PortW-1:0] port;
    lane_ask_t      lane;
    logic [4:0]     pkey_index;
    logic [2:0]     path_mtu;
    logic           remote_write, remote_read, remote_atomic, flush_global;
    logic [23:0]    dest_qpn;
    logic [63:0]    sq_base;
    logic [4:0]     sq_log_size;
    logic [1:0]     sq_log_stride;
    logic [63:0]    rq_base;
    logic [4:0]     rq_log_size;
    logic [1:0]     rq_log_stride;
    logic           has_srq;
    logic [SrqW-1:0] srqn;
    logic [CqW-1:0] send_cqn;
    logic [CqW-1:0] recv_cqn;
    logic [4:0]     timeout;
    logic [2:0]     retry_cnt;
    logic [2:0]     rnr_retry;
    logic [4:0]     min_rnr_timer;
    logic [4:0]     max_dest_rd_atomic;
  } rx_ctx_t;

  // Message in progress at the responder.
  typedef enum logic [1:0] {
    MsgpNone  = 2'd0,
    MsgpSend  = 2'd1,
    MsgpWrite = 2'd2,
    MsgpInv   = 2'd3   // a SEND is here, and waits until the key that it names is invalid; wr_rkey, wr_left: of inv_t
  } msgp_e;

  // What a SEND that waits for its invalidation keeps in wr_left; the key is in wr_rkey.
  typedef struct packed {
    logic        solicited;
    logic        passed;     // something behind it was dropped
    logic [29:0] unused;
  } inv_t;

  // Responder state of a QP.
  typedef struct packed {
    logic [23:0] epsn;         // expected PSN
    logic [23:0] msn;
    wqe_idx_t    rq_ci;        // next receive WQE to consume; SRQ: the slot of the message in progress
    logic [23:0] srqn;         // XRC: which SRQ that is, as the peer names it
    logic [CqW-1:0] srq_cqn;
    logic        held;         // SRQ: rq_ci has been taken, and has no completion yet
    logic [5:0]  rd_pushed;    // READ and atomic jobs handed on, modulo 64
    logic        rd_again;     // READs were repeated: some of the jobs counted will be dropped unserved
    msgp_e       in_msg;
    logic [63:0] wr_va;        // WRITE in progress: where the next packet goes; none, selective: hca_resp_ahead's
    logic [31:0] wr_rkey;
    logic [31:0] wr_left;      // bytes still to come
    logic [31:0] msg_bytes;    // bytes of the message in progress so far
    logic        nak_sent;     // this gap was reported (or RNR was): later PSNs drop silently
    logic        nak_all;      // selective: all behind this gap will come again, or an RNR wait is on
    logic        comm_est_sent;
    logic        ran_dry;      // the peer was told of no credit: the next receive that is posted is news
  } resp_st_t;

  // Acknowledge state of a QP.
  typedef struct packed {
    credit_t     credit;         // not part of the record: the next answer tells
    logic [AheadPsns-1:0] marks; // neither: of READ data (hca_read_ahead). With few_on: ahead_of a few_again_t
    wqe_idx_t    una_wqe;        // oldest send WQE not completed
    logic [23:0] una_first_psn;  // PSN of its first packet
    logic [23:0] una_psn;        // oldest unacknowledged PSN
    logic [15:0] rd_done;
    logic [2:0]  retry_left;
    logic [2:0]  rnr_left;
    logic        rnr_wait;
    logic [4:0]  rnr_code;
    logic        gap_seen;       // a rewind was sent since the last progress: no second implied NAK
    logic        pend_valid;     // a local error waits until una_wqe reaches pend_wqe
    wqe_idx_t    pend_wqe;
    logic [7:0]  pend_status;
    logic [1:0]  gen;            // counts restarts of the transport timer
    logic        few_on;         // selective: few_again_t of what was sent again alone
    logic        draining;       // firmware waits for everything outstanding to be acknowledged
    logic        blk_ok;         // blk is the block of una_wqe's row
    logic [MsgBlkW-1:0] blk;
    logic        dry;            // there is no credit, and nothing outstanding whose answer could tell of one
  } ack_st_t;

  // A fatal error was raised: no second event until init_rq. Of a reliable connection both sides die together; where
  // nobody acknowledges, the receive side outlives the send side (QPS-12).
  typedef struct packed {
    ack_st_t  ack;
    resp_st_t resp;
    logic     dead;     // packets drop
    logic     sq_dead;  // nothing is acknowledged
  } rx_st_t;
  localparam int unsigned RecordW = $bits(rx_st_t) - $bits(credit_t) - AheadPsns;

  // High-water marks of the requester.
  typedef struct packed {
    wqe_idx_t    wqe;  // next WQE index not yet begun
    logic [23:0] psn;  // PSN after the newest one emitted
  } hw_mark_t;

  // Row of the outstanding message table.
  typedef struct packed {
    logic        answered;  // with data: is_answered(opcode)
    logic [7:0]  opcode;    // wr_opcode_e
    logic        signaled;
    logic [23:0] last_psn;
    logic [31:0] len_bytes;
  } omt_row_t;

  // Asks the outstanding message table: for the oldest block, WQE `wqe`'s (map_en), or for its row in blk (row_en).
  typedef struct packed {
    logic               map_en;
    logic               next_en;    // or for the block behind blk
    logic               row_en;
    wqe_idx_t           wqe;
    logic [MsgBlkW-1:0] blk;
    logic               free;       // all of free_wqe's block is over
    logic [MsgBlkW-1:0] free_blk;
    wqe_idx_t           free_wqe;
  } omt_ask_t;

  // What the transport timer needs to know of a QP's acknowledge state.
  typedef struct packed {
    logic        dead;
    logic        rnr_wait;
    logic        dry;
    logic [4:0]  rnr_code;
    logic [1:0]  gen;
    logic [23:0] una_psn;
  } tmr_st_t;

  typedef struct packed {logic live; logic [4:0] timeout; lane_ask_t lane;} tmr_ctx_t;

  // Work of the acknowledge unit.
  typedef enum logic [2:0] {
    AjAck      = 3'd0,  // AETH packet: ACK, RNR NAK, NAK
    AjRead     = 3'd1,  // response of a READ, or of an atomic
    AjSqError  = 3'd2,
    AjTimeout  = 3'd3,
    AjRnrDone  = 3'd4,
    AjSqDrain  = 3'd5,
    AjMwDone   = 3'd6   // hca_mw has carried out the oldest send WQE
  } ack_job_e;

  typedef struct packed {
    ack_job_e       kind;
    logic [QpW-1:0] qpn;
    logic [23:0]    psn;
    logic [7:0]     syndrome;
    logic           rd_opcode;    // a READ response opcode
    logic           at_opcode;    // ATOMIC ACKNOWLEDGE
    nak_few_t       few;          // of NAK_SELECTIVE
    logic           rd_ends;      // READ response LAST or ONLY
    logic           from_exec;    // AjSqError: READ data could not be placed
    wqe_idx_t       wqe_index;    // AjSqError
    logic [7:0]     status;
  } ack_job_t;

  // Message with its origin: only hca_rx_exec refuses work that was already accepted and counted here.
  typedef struct packed {logic from_exec; pipe_msg_t msg;} rx_msg_t;

  // Event before it is widened: kept small because there is one place per QP.
  typedef struct packed {
    logic [7:0]     kind;  // hw_event_kind_e
    logic [7:0]     func;
    logic [QpW-1:0] qpn;
    logic [1:0]     who;   // hw_event_who_e
    logic [7:0]     syndrome, status;
  } rx_ev_t;

  // ---- hca_rx_exec -----------------------------------------------------------------------------------
  // Why an item could not be carried out.
  typedef enum logic [1:0] {
    ExNone = 2'd0,
    ExLen  = 2'd1,  // scatter list too short
    ExWqe  = 2'd2,  // WQE unreadable or malformed
    ExKey  = 2'd3   // key check failed
  } exec_err_e;

  // What remains of an item once its segments are on their way: enough for its end actions.
  typedef struct packed {
    rxw_kind_e      kind;
    logic [QpW-1:0] qpn;
    logic           frees;
    logic [6:0]     buf_beats;
    rx_place_t      place;
    wqe_idx_t       wqe_index;
    logic           shared, msg_last, silent;
    rsp_job_t       rsp;
    cqe_job_t       cqe;
    logic           resumes;
  } rx_end_t;

  typedef struct packed {
    exec_err_e         err;       // found while the list was walked
    logic [4:0]        segs;      // segments (hence `seg_last` chunks) of this item
    logic [RxBufW-1:0] buf_beat;
    logic [6:0]        first_off;   // of the first byte, from buf_beat
    logic [7:0]        body_off;    // where that would be if all were payload, signed
    logic [5:0]        hdr_bytes;   // of a datagram: network header that goes before its payload
    logic [4:0]        hdr_off;     // and its place
    rx_end_t           fin;
  } rx_meta_t;

  typedef struct packed {
    logic        blocked;   // the QP's side has failed: free the buffer, nothing else (SRQ: give the slot back)
    logic        told;      // SRQ: the slot has its completion already
    exec_err_e   err;
    xl_err_e     xl_err;
    logic [11:0] beats;     // write beats issued up to the end of this item, modulo 4096
    rx_end_t     fin;
  } rx_done_t;

  // ---- hca_resp_sched: READs and atomics of a QP that are to be answered -------------------------------------
  localparam int unsigned JobCountW = $clog2(MaxDestRdAtomic) + 1;

  // Places are those of hca_resp_jobs. Replays, asked for again, stand in front of all others (main).
  typedef struct packed {
    logic [JobCountW-1:0] count;
    logic [JobPlaceW-1:0] head;
    logic [JobPlaceW-1:0] tail;
    logic                 partly;      // packets of the first one have been sent
    logic                 ends;        // all of them but one
    logic [23:0]          at_psn;      // everything before it has been sent, as far as it is here
    logic [23:0]          head_psn;    // of the first one, once it has begun
    logic [23:0]          last_psn;    // its last one
    logic [23:0]          newest_psn;  // last one of the job at the end
    logic                 replaying;
    logic [JobPlaceW-1:0] replay_tail;
    logic [JobPlaceW-1:0] main_head;
    logic [23:0]          replay_psn;  // last one of the last replay
    logic [23:0]          main_psn;    // first one behind the replays
    logic                 midway;      // selective: main goes on there, inside a job that has been begun
  } resp_list_t;

  `include "hca_atomic_types.svh"

  function automatic logic is_response(rxw_kind_e kind);
    return kind == RxwReadResp || kind == RxwAtomicResp;
  endfunction

  // An item of the send side: its CQE or its data belong to a send WQE.
  function automatic logic end_is_sq(rx_end_t e);
    logic unused;
    unused = ^e;
    return is_response(e.kind) || (e.kind == RxwNone && e.cqe.valid && !e.cqe.wc.opcode[7]);
  endfunction

  function automatic rx_ctx_t rx_ctx(qpc_t q);
    rx_ctx_t c;
    logic    unused;
    unused = ^q;
    c.rx_ok  = q.state == QpsRtr || q.state == QpsRts || q.state == QpsSqd || q.state == QpsSqe;
    c.is_rtr  = q.state == QpsRtr;
    c.is_err  = q.state == QpsErr;
    c.tx_live = (q.state == QpsRts || q.state == QpsSqd) && !q.is_target;
    c.is_sqe  = q.state == QpsSqe;
    c.is_rc   = is_acked(q.service);
    c.is_xrc  = q.service == ServiceXrc;
    c.selective = q.selective && q.service == ServiceRc;
    c.credits   = q.credits && q.service == ServiceRc;
    c.tells     = c.credits && !q.has_srq;
    c.is_target = q.is_target;
    c.xrcd    = q.xrcd;
    c.is_uc   = q.service == ServiceUc;
    c.is_raw  = q.service == ServiceRaw;
    c.is_ud   = q.service == ServiceUd || c.is_raw;
    c.is_gsi  = q.is_gsi;
    {c.is_rearm, c.is_armed} = {q.path_mig_state == PathMigRearm, q.path_mig_state == PathMigArmed};
    c.is_shared = q.is_shared;
    c.is_shut   = q.is_shut;
    c.gen     = q.qpn[23:QpW];
    c.func    = q.func;
    c.pd      = q.pd;
    c.port          = port_of(q.port);
    c.lane          = '{port: port_of(q.port), sl: q.sl};
    c.pkey_index    = q.pkey_index[4:0];
    c.path_mtu      = q.path_mtu;
    {c.remote_write, c.remote_read, c.remote_atomic} = {q.remote_write, q.remote_read, q.remote_atomic};
    c.flush_global  = q.flush_global;
    c.dest_qpn      = q.dest_qpn;
    c.sq_base       = q.sq_base;
    c.sq_log_size   = q.sq_log_size;
    c.sq_log_stride = q.sq_log_stride;
    c.rq_base       = q.rq_base;
    c.rq_log_size   = q.rq_log_size;
    c.rq_log_stride = q.rq_log_stride;
    c.has_srq       = q.has_srq || c.is_xrc;
    c.srqn          = q.srqn[SrqW-1:0];
    c.send_cqn      = q.send_cqn[CqW-1:0];
    c.recv_cqn      = q.recv_cqn[CqW-1:0];
    c.timeout       = q.timeout;
    c.retry_cnt     = q.retry_cnt;
    c.rnr_retry     = q.rnr_retry;
    c.min_rnr_timer = q.min_rnr_timer;
    c.max_dest_rd_atomic = q.max_dest_rd_atomic;
    return c;
  endfunction

  function automatic resp_st_t resp_init(logic [23:0] psn);
    resp_st_t r;
    r      = '0;
    r.epsn = psn;
    return r;
  endfunction

  function automatic ack_st_t ack_init(qpc_t q);
    ack_st_t a;
    logic    unused;
    unused          = ^q;
    a               = '0;
    a.una_psn       = q.sq_psn;
    a.una_first_psn = q.sq_psn;
    a.retry_left    = q.retry_cnt;
    a.rnr_left      = q.rnr_retry;
    a.credit        = '{on: q.credits && q.service == ServiceRc, probe: 1'b1, limit: '0};
    return a;
  endfunction

  // What a timer had seen when it fired, in the fields syndrome, status and wqe_index of its message: the message may
  // wait while an acknowledge comes.
  function automatic logic [16+WqeIndexBits-1:0] timer_tag(logic [1:0] gen, logic [23:0] una_psn);
    return (16 + WqeIndexBits)'({gen, una_psn});
  endfunction

  function automatic ack_job_t ack_job_of_msg(logic [QpW-1:0] qpn, rx_msg_t m);
    ack_job_t j;
    j           = '0;
    j.qpn       = qpn;
    j.syndrome  = m.msg.syndrome;
    j.from_exec = m.from_exec;
    j.wqe_index = m.msg.wqe_index;
    j.status    = m.msg.status;
    case (m.msg.kind)
      MsgSqError: j.kind = AjSqError;
      MsgTimeout: j.kind = AjTimeout;
      MsgSent: begin  // what nobody acknowledges is over when it has left
        j.kind     = AjAck;
        j.syndrome = AethAck;
        j.psn      = {m.msg.status, m.msg.wqe_index[15:0]};
      end
      MsgRnrDone: j.kind = AjRnrDone;
      MsgMwDone:  j.kind = AjMwDone;
      default:    j.kind = AjSqDrain;
    endcase
    return j;
  endfunction

  // What rx_exec refuses of an unreliable connection costs the message, not the QP (REL-17).
  function automatic logic refusal_is_loss(rx_msg_t m, rx_ctx_t ctx);
    logic unused;
    unused = ^{m, ctx};
    return ctx.is_uc && m.from_exec && m.msg.kind == MsgReqError;
  endfunction

  // State behind a receive-side error message. Back to what rx_exec refused: it has held back every receive CQE from
  // there on. Slots of an SRQ it has given back itself.
  function automatic rx_st_t st_refused(rx_st_t st, rx_msg_t m, rx_ctx_t ctx);
    rx_st_t s;
    logic   unused;
    unused = ^{m, ctx};
    s      = st;
    if (refusal_is_loss(m, ctx)) s.resp.in_msg = MsgpNone;
    else {s.dead, s.sq_dead} = '1;
    if (m.from_exec && !ctx.has_srq) s.resp.rq_ci = m.msg.wqe_index + WqeIndexBits'(m.msg.kind == MsgRqError);
    if (m.msg.kind == MsgRqError && s.resp.rq_ci == m.msg.wqe_index) s.resp.held = 1'b0;
    return s;
  endfunction

  // State of a QP that has its row again. Its oldest send WQE begins anew, whole; of READs to answer none is left.
  function automatic rx_st_t st_restored(qpc_t q);
    rx_st_t s;
    logic   unused;
    unused = ^q;
    s      = rx_st_t'(q.record[RecordW-1:0]);
    s.ack.credit     = '{on: q.credits && q.service == ServiceRc, probe: 1'b1, limit: s.ack.una_wqe};
    s.ack.dry        = 1'b0;
    s.ack.una_psn    = s.ack.una_first_psn;
    s.ack.rnr_wait   = 1'b0;
    s.ack.few_on     = 1'b0;
    s.ack.gap_seen   = 1'b0;
    s.ack.pend_valid = 1'b0;
    s.ack.blk_ok     = 1'b0;
    s.resp.rd_pushed = '0;
    s.resp.rd_again  = 1'b0;
    s.resp.nak_sent  = 1'b0;   // what came since then was dropped
    return s;
  endfunction

  // Has a QP nothing to do, so that its record is all of it? Nothing outstanding, no READ to answer, no error.
  function automatic logic is_quiet(rx_ctx_t ctx, rx_st_t st, wqe_idx_t sq_pi, logic [5:0] rd_popped);
    logic unused;
    unused = ^{ctx, st};
    return !st.dead && !st.sq_dead && (ctx.is_target || st.ack.una_wqe == sq_pi) && !st.ack.draining
           && !st.ack.pend_valid && st.resp.rd_pushed == rd_popped && !st.resp.rd_again && st.resp.in_msg != MsgpInv
           && !ctx.has_srq;
  endfunction

  // State behind a context write that neither begins a side anew (resp_init, ack_init) nor restores it (st_restored).
  // `goes_on`: the send queue does, behind its error; `leaves`: a slot of an SRQ is lost.
  function automatic rx_st_t st_written(rx_st_t st, rx_ctx_t ctx, qpc_wr_t wr, hw_mark_t mark, logic goes_on,
                                        logic leaves);
    rx_st_t s;
    logic   unused;
    unused = ^{ctx, wr, mark};
    s      = st;
    if (leaves) s.resp.held = 1'b0;
    // What of the budgets is spent was spent on the path that the QP leaves (APM-5).
    if (ctx.is_armed && wr.qpc.path_mig_state == PathMigMigrated) begin
      {s.ack.retry_left, s.ack.rnr_left} = {wr.qpc.retry_cnt, wr.qpc.rnr_retry};
    end
    if (goes_on) begin
      s.sq_dead           = 1'b0;
      s.ack.una_psn       = mark.psn;
      s.ack.una_first_psn = mark.psn;
      s.ack.blk_ok        = 1'b0;
    end
    return s;
  endfunction

  // Is there something to do for the acknowledge unit?
  function automatic logic msg_is_for_ack(pipe_msg_t m, rx_ctx_t ctx, rx_st_t st);
    logic unused;
    unused = ^{m, ctx, st};
    case (m.kind)
      MsgSqError:             return ctx.tx_live || ctx.is_err;
      MsgTimeout:             return !st.sq_dead && {m.syndrome, m.status, m.wqe_index}
                                                 == timer_tag(st.ack.gen, st.ack.una_psn);
      MsgRnrDone, MsgSqDrain, MsgSent: return !st.sq_dead && ctx.tx_live;
      MsgMwDone:              return !st.sq_dead && ctx.tx_live && st.ack.una_wqe == m.wqe_index;
      default:                return 1'b0;
    endcase
  endfunction

  // Fetch of ring slot `index`. Strides are powers of two and the address is cut to the stride, so a fetch
  // never crosses a 512-byte boundary, whatever base the context holds.
  // P_Key rule KEY-14; an empty table slot (KEY-9) matches nothing.
  function automatic logic pkey_match(logic [15:0] a, logic [15:0] b);
    return a[14:0] == b[14:0] && a[14:0] != '0 && (a[15] || b[15]);
  endfunction

  // Marks with a packet that is so far ahead of the expected one, 1 to AheadPsns.
  function automatic logic [AheadPsns-1:0] marks_with(logic [AheadPsns-1:0] marks, logic [6:0] ahead);
    return marks | AheadPsns'(1) << 6'(ahead - 7'd1);
  endfunction

endpackage
