// Trace port of the card: what an observer cannot see at the other ports, one strobe bit per kind of event and
// its data beside it, valid in that cycle. Wires only, nothing depends on them: left open on an FPGA, they vanish.
// Meaning, and who reads it: hw/README.md, section rtl/top.
module hca_trace
  import hca_pkg::*, hca_wire_pkg::*;
(
  // A context reached the requester.
  input  logic           qpc_i,
  input  qpc_wr_t        qpc_wr_i,
  // Requester: outstanding-message record; packet descriptor made.
  input  logic           omt_i,
  input  omt_wr_t        omt_rec_i,
  input  logic           emit_i,
  input  logic [QpW-1:0] emit_qpn_i,
  input  logic [23:0]    emit_psn_i,
  // Header stage: a packet of any kind is on its way to the wire.
  input  logic           sent_i,
  input  txp_t           sent_txp_i,
  // Receive: descriptor taken by rx_ctrl; the work for an item is over.
  input  logic           rxd_take_i,
  input  rxd_t           rxd_i,
  input  logic           end_i,
  input  rxw_kind_e      end_kind_i,
  input  logic           end_frees_i,
  input  logic           end_ok_i,
  input  logic [11:0]    end_beats_i,
  // Acknowledge progress reached the requester.
  input  logic           upd_take_i,
  input  ack_upd_t       upd_i,
  // A beat of this client was taken by the write mux: 0 payload, 1 CQE, 2 EQE and MSI-X, 3 firmware.
  input  logic [3:0]     wr_take_i,

  output logic [10:0]    trace_strobe_o,         // {wr[3:0], upd, end, rxd, sent, emit, omt, qpc}
  output logic [23:0]    trace_qpc_qpn_o,
  output logic           trace_qpc_init_o,       // the send queue starts anew
  output logic [7:0]     trace_qpc_func_o,
  output logic [23:0]    trace_qpc_dest_qpn_o,
  output logic [63:0]    trace_qpc_sq_base_o,
  output logic [7:0]     trace_qpc_sq_logs_o,    // {log_stride[1:0], log_size[4:0]}
  output logic [31:0]    trace_qpc_cqns_o,       // {recv_cqn[15:0], send_cqn[15:0]}
  output logic [QpW-1:0] trace_omt_qpn_o,
  output logic [31:0]    trace_omt_wqe_index_o,
  output logic [7:0]     trace_omt_opcode_o,     // wr_opcode
  output logic           trace_omt_signaled_o,
  output logic [23:0]    trace_omt_last_psn_o,
  output logic [31:0]    trace_omt_len_o,
  output logic [QpW-1:0] trace_emit_qpn_o,
  output logic [23:0]    trace_emit_psn_o,
  output logic [QpW-1:0] trace_sent_qpn_o,       // local QP
  output logic [7:0]     trace_sent_opcode_o,    // BTH opcode
  output logic [23:0]    trace_sent_psn_o,
  output logic [23:0]    trace_rxd_qpn_o,        // destination QP
  output logic [7:0]     trace_rxd_opcode_o,
  output logic [23:0]    trace_rxd_psn_o,
  output logic [7:0]     trace_rxd_syndrome_o,
  output logic [2:0]     trace_end_kind_o,       // rxw_kind_e
  output logic           trace_end_frees_o,      // it belongs to the oldest descriptor whose item is not over
  output logic           trace_end_ok_o,         // it was carried out
  output logic [11:0]    trace_end_beats_o,      // payload beats taken by the write mux up to its end, modulo 4096
  output logic [QpW-1:0] trace_upd_qpn_o,
  output logic [31:0]    trace_upd_una_wqe_o
);

  assign trace_strobe_o = {wr_take_i, upd_take_i, end_i, rxd_take_i, sent_i, emit_i, omt_i, qpc_i};

  assign trace_qpc_qpn_o      = qpc_wr_i.qpc.qpn;
  assign trace_qpc_init_o     = qpc_wr_i.init_sq;
  assign trace_qpc_func_o     = qpc_wr_i.qpc.func;
  assign trace_qpc_dest_qpn_o = qpc_wr_i.qpc.dest_qpn;
  assign trace_qpc_sq_base_o  = qpc_wr_i.qpc.sq_base;
  assign trace_qpc_sq_logs_o  = {1'b0, qpc_wr_i.qpc.sq_log_stride, qpc_wr_i.qpc.sq_log_size};
  assign trace_qpc_cqns_o     = {qpc_wr_i.qpc.recv_cqn[15:0], qpc_wr_i.qpc.send_cqn[15:0]};

  assign trace_omt_qpn_o       = omt_rec_i.qpn;
  assign trace_omt_wqe_index_o = 32'(omt_rec_i.wqe_index);
  assign trace_omt_opcode_o    = omt_rec_i.opcode;
  assign trace_omt_signaled_o  = omt_rec_i.signaled;
  assign trace_omt_last_psn_o  = omt_rec_i.last_psn;
  assign trace_omt_len_o       = omt_rec_i.len_bytes;

  assign trace_emit_qpn_o = emit_qpn_i;
  assign trace_emit_psn_o = emit_psn_i;

  assign trace_sent_qpn_o    = sent_txp_i.qpn;
  assign trace_sent_opcode_o = with_masks(sent_txp_i.opcode, sent_txp_i.masked);
  assign trace_sent_psn_o    = sent_txp_i.psn;

  assign trace_rxd_qpn_o      = rxd_i.dest_qpn;
  assign trace_rxd_opcode_o   = with_masks(rxd_i.opcode, rxd_i.masked);
  assign trace_rxd_psn_o      = rxd_i.psn;
  assign trace_rxd_syndrome_o = rxd_i.aeth_syndrome;

  assign trace_end_kind_o  = end_kind_i;
  assign trace_end_frees_o = end_frees_i;
  assign trace_end_ok_o    = end_ok_i;
  assign trace_end_beats_o = end_beats_i;

  assign trace_upd_qpn_o     = upd_i.qpn;
  assign trace_upd_una_wqe_o = 32'(upd_i.una_wqe);

  logic unused_in;  // the rest of the records
  assign unused_in = ^{qpc_wr_i, omt_rec_i, sent_txp_i, rxd_i, upd_i};

endmodule
