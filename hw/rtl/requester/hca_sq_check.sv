// Is a send WQE well formed, and allowed on its QP? Combinational. Operations of later services and kinds get
// their place here and in hca_sq_build. The sum of the entries' lengths is checked by hca_sq_sge.
// What follows the header follows 32 bytes, those of datagrams 64.
module hca_sq_check
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_wqe_ctrl_t hdr_i,
  input  sq_qpc_t      qpc_i,
  input  wqe_idx_t     wqe_i,        // index that it must have
  input  logic [31:0]  offset_i,     // bytes of it already sent
  output logic         malformed_o,
  output logic         misfit_o,     // likewise: its data or entries do not fit, or the position is behind it
  output logic         too_long_o    // or not the 8 bytes of an atomic, or no frame
);

  logic [4:0] room;  // behind the header, in entries
  logic       datagram, frame, answers, unused_bits;  // answers: the peer gives back data

  assign unused_bits  = ^{hdr_i, qpc_i};
  assign datagram     = qpc_i.service == ServiceUd;
  assign frame        = qpc_i.service == ServiceRaw;
  assign answers      = is_acked(qpc_i.service) && qpc_i.max_rd_atomic != '0;
  assign too_long_o   = hdr_i.length > (datagram ? 32'(mtu_bytes(qpc_i.path_mtu)) : 32'h8000_0000)
                        || ((is_atomic(hdr_i.opcode) || hdr_i.opcode == WrOpAtomicWrite) && hdr_i.length != 32'd8)
                        || (frame && (hdr_i.length < 32'(MinEthHeaderBytes) || hdr_i.length
                                      > 32'(mtu_bytes(qpc_i.path_mtu)) + 32'(MaxEthHeaderBytes)));

  always_comb begin
    unique case (qpc_i.log_stride)
      2'd0:    room = datagram ? 5'((64 - SqWqeUdCtrlBytes) / 16) : 5'((64 - SqWqeCtrlBytes) / 16);
      2'd1:    room = datagram ? 5'((128 - SqWqeUdCtrlBytes) / 16) : 5'((128 - SqWqeCtrlBytes) / 16);
      2'd2:    room = datagram ? 5'((256 - SqWqeUdCtrlBytes) / 16) : 5'((256 - SqWqeCtrlBytes) / 16);
      default: room = datagram ? 5'((512 - SqWqeUdCtrlBytes) / 16) : 5'((512 - SqWqeCtrlBytes) / 16);
    endcase
  end

  always_comb begin
    malformed_o = hdr_i.wqe_index != wqe_i
                  || !(qpc_i.service inside {ServiceRc, ServiceUc, ServiceUd, ServiceXrc, ServiceRaw});
    // On an InfiniBand port nobody could take a frame.
    if (frame && (qpc_i.ib || hdr_i.opcode != WrOpSend)) malformed_o = 1'b1;
    unique case (hdr_i.opcode)
      WrOpSend, WrOpSendWithImm: ;
      WrOpSendWithInv: if (!is_acked(qpc_i.service)) malformed_o = 1'b1;
      WrOpBindMw, WrOpLocalInv, WrOpRegMr: begin
        if (datagram || frame) malformed_o = 1'b1;
        if (hdr_i.inline_data || hdr_i.num_sge != '0 || hdr_i.length != '0) malformed_o = 1'b1;
      end
      WrOpRdmaWrite, WrOpRdmaWriteWithImm: if (datagram) malformed_o = 1'b1;
      WrOpRdmaRead: if (!answers || hdr_i.inline_data) malformed_o = 1'b1;
      WrOpAtomicCmpAndSwp, WrOpAtomicFetchAndAdd, WrOpMaskedAtomicCmpAndSwp, WrOpMaskedAtomicFetchAndAdd: begin
        if (!answers || hdr_i.inline_data || hdr_i.num_sge != 8'd1) malformed_o = 1'b1;
        if (hdr_i.opcode == WrOpMaskedAtomicCmpAndSwp && qpc_i.log_stride == '0) malformed_o = 1'b1;
      end
      WrOpAtomicWrite: if (!answers || !hdr_i.inline_data || hdr_i.num_sge != '0) malformed_o = 1'b1;
      WrOpFlush: if (!answers || hdr_i.inline_data || hdr_i.num_sge != '0 || hdr_i.length != '0) malformed_o = 1'b1;
      default: malformed_o = 1'b1;
    endcase
    // What the card is built without.
    if (is_local(hdr_i.opcode) && !HasKeyWr) malformed_o = 1'b1;
    if (is_answered(hdr_i.opcode) && hdr_i.opcode != WrOpRdmaRead && !HasAtomic) malformed_o = 1'b1;
  end

  // Only a wrong acknowledge or a WQE changed under way could bring the position behind the end.
  assign misfit_o = (hdr_i.inline_data ? hdr_i.length > 32'({room, 4'd0})
                                       : hdr_i.num_sge > 8'(MaxSge) || hdr_i.num_sge[4:0] > room)
                    || (offset_i != '0 && offset_i >= hdr_i.length);

endmodule
