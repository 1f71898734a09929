// What hca_ack_unit decides by, found a cycle before it does: comparisons of a job with the QP's oldest WQE, with the
// row in hand and with what the requester has sent. On the way to its decision the unit changes neither.
//   start_i       of the state that the job begins with (first_i): held while it is low
//   every cycle   of the state in hand (st_i) and the row, as they were in the cycle before
module hca_ack_look
  import hca_pkg::*, hca_rx_pkg::*, hca_rx_state_pkg::*;
(
  input  logic        clk_i,
  input  logic        start_i,
  input  ack_job_t    now_job_i,     // with start_i
  input  ack_job_t    job_i,         // the same behind it
  input  ack_st_t     first_i,
  input  hw_mark_t    now_mark_i,    // with start_i
  input  logic        now_dead_i,
  input  rx_ctx_t     now_ctx_i,     // and behind it, late
  input  rx_ctx_t     ctx_i,         // the same behind it
  input  rxd_t        rxd_i,
  input  omt_row_t    row_i,
  input  ack_st_t     st_i,
  input  logic [23:0] into_i,        // PSNs of the WQE that a response may belong to, in front of it
  input  logic        row_in_i,
  // Of a response and its row.
  output logic        good_o,        // it is what must come
  output logic [31:0] offset_o,      // bytes of its READ in front of it
  output logic [23:0] rest_o,        // PSNs of the row behind the oldest unacknowledged one
  output logic        rest_none_o,   // none
  output logic        row_in_o,
  // Of the job.
  output logic        idle_o,        // nothing was outstanding
  output logic        waits_o,       // a local error of a WQE that is not behind another one's
  output logic        is_here_o,     // of the oldest one
  output logic        few_o,         // a NAK of a gap that names what is missing, for the first time
  output ack_said_t   said_o
);

  // ---- A response ----------------------------------------------------------------------------------
  // It is a packet, and its row comes behind the cycle that the job begins in.
  logic [31:0] offset, most;           // bytes: in front of it, in a full packet
  logic [31:0] upto;                   // behind it
  logic        is_last, row_at, is_rest, is_most;

  assign row_at  = is_atomic(row_i.opcode);
  assign offset  = {25'(into_i) << ctx_i.path_mtu, 7'd0};   // << mtu_shift, without its adder
  assign most    = 32'(mtu_bytes(ctx_i.path_mtu));
  assign is_last = rxd_i.psn == row_i.last_psn;
  assign is_most = 32'(rxd_i.payload_bytes) == most;
  // From registers, while the row comes out of its RAM.
  assign upto    = offset + 32'(rxd_i.payload_bytes);
  hca_same #(.Width(32)) u_is_rest (.a_i(row_i.len_bytes), .b_i(upto), .same_o(is_rest));

  logic rest_none;
  hca_same #(.Width(24)) u_rest_none (.a_i(row_i.last_psn), .b_i(st_i.una_psn), .same_o(rest_none));

  always_ff @(posedge clk_i) begin
    offset_o <= offset;
    good_o   <= row_at ? job_i.at_opcode && rxd_i.payload_bytes == '0
                : row_i.answered && job_i.rd_opcode
                  && (job_i.rd_ends == is_last || (ctx_i.selective && !is_last))
                  && (!is_last ? is_most   // nothing comes back of an ATOMIC WRITE
                      : row_i.opcode == WrOpAtomicWrite ? rxd_i.payload_bytes == '0 : is_rest);
    rest_o   <= row_i.last_psn - st_i.una_psn;
    row_in_o <= row_in_i;
    rest_none_o <= rest_none;
  end

  // ---- A local error: distances from the oldest WQE ------------------------------------------------------
  wqe_idx_t late_by, pend_by;
  assign late_by = now_job_i.wqe_index - first_i.una_wqe;
  assign pend_by = first_i.pend_wqe - first_i.una_wqe;

  // ---- A NAK that names what is missing --------------------------------------------------------------
  // Until something has come that was sent behind what was sent again, that may be on its way: no second time. Its PSN
  // is the oldest unacknowledged one when all before it has been walked.
  logic [15:0] since;
  assign since = now_job_i.few.seen - first_i.marks[15:0] - AgainSlack;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      idle_o    <= first_i.una_psn == now_mark_i.psn;
      waits_o   <= now_job_i.kind == AjSqError && !now_job_i.from_exec && !now_dead_i && !late_by[WqeIndexBits-1]
                   && (!first_i.pend_valid || late_by < pend_by);
      is_here_o <= late_by == '0;
      said_o    <= ack_said(now_job_i, now_ctx_i.is_xrc);
      few_o     <= now_job_i.kind == AjAck && now_job_i.syndrome == NakSelective && now_ctx_i.selective
                   && now_job_i.few.missing != '0 && (!few_open(few_of(first_i), now_job_i.psn) || !since[15]);
    end
  end

  logic unused_in;
  assign unused_in = ^{now_job_i, job_i, first_i, now_mark_i, now_ctx_i, ctx_i, rxd_i, row_i, st_i, since};

endmodule
