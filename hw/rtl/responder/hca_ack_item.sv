// What hca_ack_unit hands on of a job: where the data of a response goes, the packet that is free, the completion.
// Combinational; only with item_valid_o of hca_ack_unit.
module hca_ack_item
  import hca_pkg::*, hca_rx_pkg::*, hca_rx_state_pkg::*;
(
  input  logic        at_end_i,    // the decision: else a WQE in front has completed
  input  logic        deliver_i,   // the response is the oldest one
  input  logic        places_i,    // it stands behind a gap: WQE at_wqe_i
  input  logic        row_at_i,    // of an atomic; early, with at_end_i
  input  logic        row_signaled_i,  // the same of row_i.signaled
  input  logic        row_ends_i,
  input  logic        complete_i,
  input  logic        passes_i,    // over a READ whose data has been placed
  input  logic        retire_i,
  input  logic        back_i,
  input  logic        fail_i,
  input  logic        frees_i,
  input  logic [7:0]  fail_status_i,
  input  logic [7:0]  fail_syndrome_i,
  input  ack_job_t    job_i,
  input  rxd_t        rxd_i,
  input  rx_ctx_t     ctx_i,
  input  omt_row_t    row_i,
  input  wqe_idx_t    una_wqe_i,
  input  wqe_idx_t    at_wqe_i,
  input  logic [31:0] offset_i,
  input  logic [9:0]  list_bytes_i,
  output rxw_t        item_o
);

  logic unused_in;
  assign unused_in = ^{job_i, rxd_i, ctx_i, row_i};

  always_comb begin
    item_o = '0;
    item_o.kind      = !(at_end_i && (deliver_i || places_i)) ? RxwNone : row_at_i ? RxwAtomicResp : RxwReadResp;
    item_o.qpn       = job_i.qpn;
    item_o.func      = ctx_i.func;
    item_o.pd        = ctx_i.pd;
    item_o.gen       = ctx_i.gen;
    item_o.wqe_index = places_i ? at_wqe_i : una_wqe_i;
    if (places_i) item_o.chk_bytes = 32'(wqe_idx_t'(at_wqe_i - una_wqe_i));
    item_o.rsp.qpn   = job_i.qpn;
    item_o.rsp.psn   = job_i.psn;
    item_o.rsp.va    = rxd_i.swap_add;
    item_o.buf_beat  = rxd_i.buf_beat;
    item_o.buf_beats = rxd_i.buf_beats;
    item_o.place     = rxd_i.place;
    item_o.frees     = frees_i;
    if (at_end_i) begin
      item_o.lead          = rxd_i.lead;
      item_o.payload_off   = rxd_i.payload_off;
      item_o.payload_bytes = row_at_i ? 13'(AtomicAckEthBytes) : rxd_i.payload_bytes;
      item_o.needs_list    = (deliver_i || places_i) && item_o.payload_bytes != '0;
      item_o.list_bytes    = list_bytes_i;
      item_o.msg_offset    = offset_i;
      item_o.msg_last      = deliver_i && row_ends_i;
      item_o.resumes       = back_i;
    end else if (complete_i && passes_i) begin
      // Its data is there: nothing more is placed, but who waits for that is told.
      item_o.kind     = RxwReadResp;
      item_o.msg_last = 1'b1;
    end
    item_o.cqe.valid     = (complete_i && row_i.signaled)
                           || (at_end_i && (fail_i || back_i
                                            || (((deliver_i && row_ends_i) || retire_i) && row_signaled_i)));
    item_o.cqe.cqn       = ctx_i.send_cqn;
    item_o.cqe.solicited = 1'b0;
    item_o.cqe.wc.qpn   = full_qpn(ctx_i.gen, job_i.qpn);
    item_o.cqe.wc.wqe_index = (at_end_i && back_i) ? job_i.wqe_index[15:0] : una_wqe_i[15:0];
    if (complete_i || deliver_i || (at_end_i && retire_i)) begin
      item_o.cqe.wc.status   = WcSuccess;
      item_o.cqe.wc.byte_len = row_i.len_bytes;
      item_o.cqe.wc.opcode   = wc_opcode_of(row_i.opcode);
    end else begin
      item_o.cqe.wc.status     = back_i ? job_i.status : fail_status_i;
      item_o.cqe.wc.vendor_err = fail_syndrome_i;
    end
  end

endmodule
