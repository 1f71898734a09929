// What the acknowledge unit's parts share: jobs out of packets, and the two uses of the marks of ack_st_t.
package hca_rx_state_pkg;

  import hca_pkg::*, hca_rx_pkg::*;

  // What was sent again alone, and marks of READ data, have one place: while there are marks the oldest WQE is a READ.
  function automatic few_again_t few_of(ack_st_t s);
    logic unused;
    unused = ^s;
    return '{on: s.few_on, behind: s.marks[31:16], mark: s.marks[15:0]};
  endfunction

  function automatic logic [AheadPsns-1:0] marks_of(ack_st_t s);
    logic unused;
    unused = ^s;
    return s.few_on ? '0 : s.marks;
  endfunction

  // Of the packets that were sent again alone some are not acknowledged yet.
  function automatic logic few_open(few_again_t few, logic [23:0] una_psn);
    logic [15:0] left;
    logic        unused;
    left   = few.behind - una_psn[15:0];
    unused = ^{few.mark, una_psn[23:16]};
    return few.on && !left[15] && left != '0;
  endfunction

  // Else that is forgotten.
  function automatic ack_st_t few_closed(ack_st_t s);
    ack_st_t r;
    r = s;
    if (s.few_on && !few_open(few_of(s), s.una_psn)) {r.few_on, r.marks} = '0;
    return r;
  endfunction

  // Budgets of a new message (REL-5, REL-8).
  function automatic ack_st_t anew(ack_st_t s, rx_ctx_t ctx);
    ack_st_t r;
    logic    unused;
    unused = ^ctx;
    r            = s;
    r.retry_left = ctx.retry_cnt;
    r.rnr_left   = ctx.rnr_retry;
    r.gap_seen   = 1'b0;
    return r;
  endfunction

  // What a job says, told apart once.
  typedef struct packed {
    logic ack;       // AjAck, and of what kind
    logic refuses;
    logic rnr;
    logic gap;
    logic read;      // AjRead
    logic back;      // AjSqError of hca_rx_exec
    logic timeout;
    logic rnr_done;
    logic sq_drain;
    logic retire;    // AjMwDone
  } ack_said_t;

  function automatic ack_said_t ack_said(ack_job_t j, logic is_xrc);
    ack_said_t said;
    logic      unused;
    unused        = ^j;
    said.ack      = j.kind == AjAck;
    said.refuses  = j.syndrome[6:5] == 2'b11
                    && (j.syndrome[4:0] inside {5'd1, 5'd2, 5'd3} || (j.syndrome[4:0] == 5'd4 && is_xrc));
    said.rnr      = j.syndrome[6:5] == 2'b01;
    said.gap      = j.syndrome == NakPsnSequence;
    said.read     = j.kind == AjRead;
    said.back     = j.kind == AjSqError && j.from_exec;
    said.timeout  = j.kind == AjTimeout;
    said.rnr_done = j.kind == AjRnrDone;
    said.sq_drain = j.kind == AjSqDrain;
    said.retire   = j.kind == AjMwDone;
    return said;
  endfunction

  // The borrow of a subtraction, which stays a carry; of a comparison the mapper makes LUTs.
  function automatic logic psn_less(logic [23:0] a, logic [23:0] b);
    return 1'((25'(a) - 25'(b)) >> 24);
  endfunction

  // A PSN from `first` on and before `behind`, around. All comparisons side by side: distances from `first` would be a
  // subtraction more in front of the one.
  function automatic logic psn_within(logic [23:0] psn, logic [23:0] first, logic [23:0] behind);
    logic above, below, straight;
    {above, below, straight} = {!psn_less(psn, first), psn_less(psn, behind), !psn_less(behind, first)};
    return straight ? above && below : above || below;
  endfunction

  // Packets of a hole that are asked for at once: as far as the WQE goes that it begins in.
  function automatic logic [MissingW-1:0] hole_of(logic [6:0] missing, logic [23:0] to_last);
    logic [MissingW-1:0] most;
    most = (missing > 7'((1 << MissingW) - 1)) ? '1 : missing[MissingW-1:0];
    return (to_last < 24'(most)) ? to_last[MissingW-1:0] + MissingW'(1) : most;
  endfunction

  // An acknowledge packet, or a response.
  function automatic ack_job_t ack_job_of_packet(logic [QpW-1:0] qpn, rxd_t rxd);
    ack_job_t j;
    logic     unused;
    unused      = ^rxd;
    j           = '0;
    j.kind      = (rxd.opcode[4:0] == BthRcAcknowledge[4:0]) ? AjAck : AjRead;
    j.qpn       = qpn;
    j.psn       = rxd.psn;
    j.syndrome  = rxd.aeth_syndrome;
    j.few       = rxd.aeth_msn;
    j.rd_opcode = rxd.opcode[4:0] <= BthRcReadResponseOnly[4:0];
    j.at_opcode = rxd.opcode[4:0] == BthRcAtomicAcknowledge[4:0];
    j.rd_ends   = rxd.opcode[4:0] >= BthRcReadResponseLast[4:0];
    return j;
  endfunction

  // Completion of a send WQE; status of one that the peer refuses.
  function automatic logic [7:0] wc_opcode_of(logic [7:0] wr_opcode);
    unique case (wr_opcode)
      WrOpRdmaRead:                        return WcOpRdmaRead;
      WrOpAtomicCmpAndSwp:                 return WcOpCompSwap;
      WrOpAtomicFetchAndAdd:               return WcOpFetchAdd;
      WrOpAtomicWrite:                     return WcOpAtomicWrite;
      WrOpFlush:                           return WcOpFlush;
      WrOpMaskedAtomicCmpAndSwp:           return WcOpMaskedCompSwap;
      WrOpMaskedAtomicFetchAndAdd:         return WcOpMaskedFetchAdd;
      WrOpRdmaWrite, WrOpRdmaWriteWithImm: return WcOpRdmaWrite;
      WrOpBindMw:                          return WcOpBindMw;
      WrOpLocalInv:                        return WcOpLocalInv;
      WrOpRegMr:                           return WcOpRegMr;
      default:                             return WcOpSend;
    endcase
  endfunction

  function automatic logic [7:0] nak_status(logic [7:0] syndrome);
    case (syndrome)
      NakInvalidRequest:   return WcRemInvReqErr;
      NakRemoteAccess:     return WcRemAccessErr;
      NakInvalidRdRequest: return WcRemInvRdReqErr;
      default:             return WcRemOpErr;
    endcase
  endfunction

endpackage
