// Is a send WQE well formed, and allowed on its QP? Combinational. Operations of later services and kinds get
// their place here and in hca_sq_build. The sum of the entries' lengths is checked by hca_sq_sge.
// What follows the header follows 32 bytes, those of datagrams 64.
module hca_sq_check
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_wqe_ctrl_t hdr_i,
  input  sq_qpc_t      qpc_i,
  input  sq_dyn_t      dyn_i,
  output logic         malformed_o,
  output logic         too_long_o,   // or not the 8 bytes of an atomic, or no frame
  output logic         many_sges_o,  // entries beyond the first block
  output logic         payload_o     // its packets carry payload
);

  logic [9:0] stride_bytes, list_bytes, room;
  logic       datagram, frame, answers, unused_bits;  // answers: the peer gives back data

  assign unused_bits  = ^{hdr_i, qpc_i, dyn_i};
  assign stride_bytes = 10'd64 << qpc_i.log_stride;
  assign list_bytes   = {1'b0, hdr_i.num_sge[4:0], 4'd0};
  assign datagram     = qpc_i.service == ServiceUd;
  assign frame        = qpc_i.service == ServiceRaw;
  assign answers      = is_acked(qpc_i.service) && qpc_i.max_rd_atomic != '0;
  assign room         = stride_bytes - (datagram ? 10'(SqWqeUdCtrlBytes) : 10'(SqWqeCtrlBytes));
  assign many_sges_o  = !hdr_i.inline_data && hdr_i.num_sge > (datagram ? 8'd0 : 8'd2);
  assign too_long_o   = hdr_i.length > (datagram ? 32'(mtu_bytes(qpc_i.path_mtu)) : 32'h8000_0000)
                        || (is_atomic(hdr_i.opcode) && hdr_i.length != 32'd8)
                        || (frame && (hdr_i.length < 32'(MinEthHeaderBytes) || hdr_i.length
                                      > 32'(mtu_bytes(qpc_i.path_mtu)) + 32'(MaxEthHeaderBytes)));
  assign payload_o    = (hdr_i.length != '0) && !is_answered(hdr_i.opcode);

  always_comb begin
    malformed_o = hdr_i.wqe_index != dyn_i.wqe
                  || !(qpc_i.service inside {ServiceRc, ServiceUc, ServiceUd, ServiceXrc, ServiceRaw});
    // On an InfiniBand port nobody could take a frame.
    if (frame && (qpc_i.ib || hdr_i.opcode != WrOpSend)) malformed_o = 1'b1;
    unique case (hdr_i.opcode)
      WrOpSend, WrOpSendWithImm: ;
      WrOpSendWithInv: if (qpc_i.service != ServiceRc) malformed_o = 1'b1;
      WrOpBindMw, WrOpLocalInv: begin
        if (!(qpc_i.service inside {ServiceRc, ServiceUc})) malformed_o = 1'b1;
        if (hdr_i.inline_data || hdr_i.num_sge != '0 || hdr_i.length != '0) malformed_o = 1'b1;
      end
      WrOpRdmaWrite, WrOpRdmaWriteWithImm: if (datagram) malformed_o = 1'b1;
      WrOpRdmaRead: if (!answers || hdr_i.inline_data) malformed_o = 1'b1;
      WrOpAtomicCmpAndSwp, WrOpAtomicFetchAndAdd: begin
        if (!answers || hdr_i.inline_data || hdr_i.num_sge != 8'd1) malformed_o = 1'b1;
      end
      default: malformed_o = 1'b1;
    endcase
    if (hdr_i.inline_data) begin
      if (hdr_i.length > 32'(room)) malformed_o = 1'b1;
    end else if (hdr_i.num_sge > 8'(MaxSge) || list_bytes > room) begin
      malformed_o = 1'b1;
    end
    // Only a wrong acknowledge or a WQE changed under way could bring the position behind the end.
    if (dyn_i.offset != '0 && dyn_i.offset >= hdr_i.length) malformed_o = 1'b1;
  end

endmodule
