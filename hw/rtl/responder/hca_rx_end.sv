// End actions of hca_rx_exec, item by item in order, each item only after its last payload beat was accepted
// by the write mux: response job, completion, error report, and the buffer's release. Outputs of one item
// are independent: each is offered until taken. The response job waits in a register, and its item is not over before
// it has been taken: one item with a response in two cycles, others one per cycle.
module hca_rx_end
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       wrote_i,        // strobe: the write mux accepted a beat
  output logic [11:0] wrote_o,       // beats so far, modulo 4096
  input  logic       done_valid_i,
  output logic       done_ready_o,
  input  rx_done_t   done_i,
  output logic       rsp_valid_o,
  input  logic       rsp_ready_i,
  output rsp_job_t   rsp_o,
  output logic       cqe_valid_o,
  input  logic       cqe_ready_i,
  output cqe_job_t   cqe_o,
  output logic       err_valid_o,
  input  logic       err_ready_i,
  output pipe_msg_t  err_o,
  // Results of hca_atomic, one for each atomic that was handed to it, in order.
  input  logic        result_valid_i,
  output logic        result_ready_o,
  input  at_result_t  result_i,
  // All data of a READ or an atomic of this QP lies in memory: a fenced WQE behind it may start (OP-13).
  output logic           rd_placed_valid_o,
  input  logic           rd_placed_ready_i,
  output logic [QpW-1:0] rd_placed_o,
  output logic       buf_free_o,
  output logic [6:0] buf_free_beats_o,
  output rx_place_t  buf_free_place_o,
  // Strobe: an item is over.
  output logic        ended_o,
  output rxw_kind_e   end_kind_o,
  output logic        end_frees_o,
  output logic        end_ok_o,        // it was carried out
  output logic [11:0] end_beats_o
);

  logic [11:0] wrote_q;
  logic        ready, over, written, waits, failed, rsp_sent_q, cqe_sent_q, err_sent_q, placed_q;
  logic        want_rsp, want_cqe, want_err, want_placed, from_rq, spoilt, leaves;
  logic        rsp_valid_q, end_valid_q;   // the response of an item, and what is left of it
  rsp_job_t    rsp;
  logic [7:0]  syndrome, status;

  assign wrote_o = wrote_q;
  assign written = 12'(wrote_q - done_i.beats) < 12'd2048;
  assign waits   = done_i.fin.kind == RxwAtomic && !done_i.blocked && done_i.err == ExNone;
  assign over    = written && (!waits || result_valid_i);
  assign ready   = done_valid_i && over;
  assign failed  = !done_i.blocked && done_i.err != ExNone;
  assign from_rq = !is_response(done_i.fin.kind);

  // On a failed side everything is held back: hca_rx_ctrl goes back to the WQE that failed, and says so with an item
  // that resumes. But every slot of an SRQ has its completion: that of a receive that failed says why, of others that
  // they are flushed; where the QP lives on (UC) that they were not used.
  assign spoilt   = failed && done_i.fin.kind == RxwSend;
  assign want_rsp = failed ? from_rq && !done_i.fin.silent : done_i.fin.rsp.valid && !done_i.blocked;
  assign want_cqe = done_i.fin.shared ? (spoilt || (done_i.fin.cqe.valid && !done_i.told))
                                      : done_i.fin.cqe.valid && !failed && !done_i.blocked;
  assign want_err = failed;
  assign want_placed = !from_rq && done_i.fin.msg_last && !failed && !done_i.blocked;

  always_comb begin
    unique case (done_i.err)
      ExLen:   syndrome = NakInvalidRequest;
      ExWqe:   syndrome = NakRemoteOperational;
      default: syndrome = (done_i.fin.kind == RxwSend || done_i.xl_err == XlDma) ? NakRemoteOperational
                                                                              : NakRemoteAccess;
    endcase
    unique case (done_i.err)
      ExLen:   status = WcLocLenErr;
      ExWqe:   status = WcLocQpOpErr;
      default: status = (done_i.fin.kind == RxwSend || !from_rq) ? WcLocProtErr
                                                              : WcRemAccessErr;
    endcase
  end

  always_comb begin
    rsp       = done_i.fin.rsp;
    rsp.valid = 1'b1;
    if (failed) begin
      rsp.read     = 1'b0;
      rsp.syndrome = syndrome;
      // The record counts the message as complete; it is not.
      rsp.msn      = done_i.fin.rsp.msn - 24'(done_i.fin.msg_last);
    end else if (waits) begin
      // What is behind it has been carried out: the answer itself ends the connection (hca_gather_head).
      rsp.va       = result_i.value;
      if (result_i.err) rsp.syndrome = NakRemoteOperational;
    end
    cqe_o       = done_i.fin.cqe;
    cqe_o.valid = 1'b1;
    if (spoilt) begin
      cqe_o.wc.status     = status;
      cqe_o.wc.vendor_err = syndrome;
    end else if (failed || done_i.blocked) begin
      cqe_o.wc.status     = WcWrFlushErr;
      cqe_o.wc.vendor_err = done_i.fin.silent ? 8'(VendorErrUnused) : '0;
    end
    err_o.qpn       = done_i.fin.qpn;
    err_o.wqe_index = done_i.fin.wqe_index;
    err_o.status    = status;
    err_o.syndrome  = from_rq ? syndrome : 8'(done_i.xl_err);
    unique case (done_i.fin.kind)
      RxwSend:     err_o.kind = MsgRqError;
      RxwReadResp, RxwAtomicResp: err_o.kind = MsgSqError;
      default:     err_o.kind = MsgReqError;
    endcase
  end

  assign rsp_valid_o = rsp_valid_q;
  assign cqe_valid_o = ready && want_cqe && !cqe_sent_q;
  assign err_valid_o = ready && want_err && !err_sent_q;
  assign rd_placed_valid_o = ready && want_placed && !placed_q;
  assign rd_placed_o       = done_i.fin.qpn;

  // Whether hca_resp_sched takes one is not to be known on this side of the registers.
  assign leaves       = done_valid_i && done_ready_o;
  assign done_ready_o = over && (!end_valid_q || !rsp_valid_q) && (!want_rsp || rsp_sent_q || !rsp_valid_q)
                        && (!want_cqe || cqe_sent_q || cqe_ready_i)
                        && (!want_err || err_sent_q || err_ready_i)
                        && (!want_placed || placed_q || rd_placed_ready_i);
  assign result_ready_o   = waits && leaves;
  assign ended_o          = end_valid_q && (!rsp_valid_q || rsp_ready_i);
  assign buf_free_o       = ended_o && end_frees_o;

  always_ff @(posedge clk_i) begin
    if (!rsp_valid_q) rsp_o <= rsp;
    if (leaves) begin
      {buf_free_beats_o, buf_free_place_o} <= {done_i.fin.buf_beats, done_i.fin.place};
      end_kind_o                           <= done_i.fin.kind;
      {end_frees_o, end_ok_o, end_beats_o} <= {done_i.fin.frees, !done_i.blocked && !failed, done_i.beats};
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wrote_q    <= '0;
      rsp_sent_q <= 1'b0;
      cqe_sent_q <= 1'b0;
      err_sent_q <= 1'b0;
      placed_q   <= 1'b0;
      {rsp_valid_q, end_valid_q} <= '0;
    end else begin
      rsp_valid_q <= rsp_valid_q ? !rsp_ready_i : ready && want_rsp && !rsp_sent_q;
      end_valid_q <= leaves || (end_valid_q && !ended_o);
      if (wrote_i) wrote_q <= wrote_q + 12'd1;
      if (leaves) begin
        rsp_sent_q <= 1'b0;
        cqe_sent_q <= 1'b0;
        err_sent_q <= 1'b0;
        placed_q   <= 1'b0;
      end else begin
        if (ready && want_rsp && !rsp_valid_q) rsp_sent_q <= 1'b1;
        if (cqe_valid_o && cqe_ready_i) cqe_sent_q <= 1'b1;
        if (err_valid_o && err_ready_i) err_sent_q <= 1'b1;
        if (rd_placed_valid_o && rd_placed_ready_i) placed_q <= 1'b1;
      end
    end
  end

endmodule
