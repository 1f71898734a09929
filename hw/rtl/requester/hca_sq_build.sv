// Fills in the records of a packet: outstanding message, packet descriptor, one segment. Combinational.
module hca_sq_build
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic [QpW-1:0] qpn_i,
  input  sq_qpc_t        qpc_i,
  input  sq_dyn_t        dyn_i,
  input  sq_wqe_ctrl_t   hdr_i,
  input  sq_pkt_t        pkt_i,
  input  logic [31:0]    left_i,      // bytes of the message from this packet on
  input  logic [23:0]    rest_i,      // PSNs of the message behind the first one from this packet on
  input  logic [RoundW-1:0] round_i,
  input  logic           few_i,       // a READ asks for few_left_i packets at most: the others are here, or under way
  input  logic [MissingW-1:0] few_left_i,
  input  logic [63:0]    va_i,        // of the next piece of payload
  input  logic [31:0]    lkey_i,
  input  logic [12:0]    piece_i,
  input  logic           seg_last_i,
  input  logic [AvSlotW-1:0] av_slot_i,  // of a datagram
  input  beat_t          block_i,     // first block of the WQE, of an atomic, an ATOMIC WRITE or a FLUSH
  output omt_wr_t        omt_o,
  output txp_t           txp_o,
  output seg_t           seg_o,
  output mw_op_t         mw_o         // in the place of a packet
);

  logic       alone;  // the packet is a WRITE of its own: its place does not follow from those before it
  logic       is_read, is_write, with_imm, with_inv, datagram, by_value, unused_bits;
  logic [7:0] only, last;
  logic [31:0] few_bytes, read_bytes;
  sq_wqe_atomic_t operands;
  sq_wqe_flush_t  flush;

  assign unused_bits = ^{hdr_i, qpc_i, dyn_i, pkt_i, block_i, flush};
  assign datagram = qpc_i.service == ServiceUd;
  assign only     = datagram ? BthUdSendOnly : is_write ? BthRcWriteOnly : BthRcSendOnly;
  assign last     = is_write ? BthRcWriteLast : BthRcSendLast;
  assign is_read  = is_answered(hdr_i.opcode);
  assign operands = block_i[8*SqWqeCtrlBytes +: $bits(sq_wqe_atomic_t)];
  assign flush    = block_i[8*SqWqeCtrlBytes +: $bits(sq_wqe_flush_t)];
  assign is_write = hdr_i.opcode == WrOpRdmaWrite || hdr_i.opcode == WrOpRdmaWriteWithImm;
  assign alone    = HasSelective && qpc_i.selective && hdr_i.opcode == WrOpRdmaWrite;
  assign with_inv = hdr_i.opcode == WrOpSendWithInv;
  assign by_value = hdr_i.inline_data || hdr_i.opcode == WrOpMaskedAtomicCmpAndSwp;   // the WQE has the payload
  assign with_imm = hdr_i.opcode == WrOpSendWithImm || hdr_i.opcode == WrOpRdmaWriteWithImm;

  assign few_bytes  = {25'(few_left_i) << qpc_i.path_mtu, 7'd0};   // << mtu_shift, without its adder
  // Not as far as the end: by packets, which are counted, and not by what they carry.
  assign read_bytes = (few_i && 24'(few_left_i) <= rest_i) ? few_bytes : left_i;

  always_comb begin
    omt_o           = '0;
    omt_o.first     = pkt_i.first;
    omt_o.next_psn  = dyn_i.psn + pkt_i.psns;
    omt_o.qpn       = qpn_i;
    omt_o.wqe_index = dyn_i.wqe;
    omt_o.opcode    = hdr_i.opcode;
    omt_o.signaled  = hdr_i.signaled || qpc_i.sq_sig_all;
    omt_o.last_psn  = dyn_i.psn + rest_i;
    omt_o.len_bytes = hdr_i.length;
  end

  always_comb begin
    txp_o               = '0;
    txp_o.kind          = TxReq;
    txp_o.qpn           = qpn_i;
    txp_o.psn           = dyn_i.psn;
    txp_o.ack_req       = pkt_i.ack_req;
    txp_o.solicited     = pkt_i.last && hdr_i.solicited && hdr_i.opcode != WrOpRdmaWrite && !is_read;
    txp_o.payload_bytes = pkt_i.bytes;
    txp_o.has_payload   = pkt_i.payload;
    txp_o.reth_va       = hdr_i.remote_addr + 64'(dyn_i.offset);  // not at 0 in a READ asked for again, and alone
    txp_o.reth_rkey     = hdr_i.rkey;
    txp_o.reth_bytes    = is_read ? read_bytes : alone ? 32'(pkt_i.bytes) : hdr_i.length;
    txp_o.imm           = hdr_i.imm_data;
    txp_o.wqe_index     = dyn_i.wqe;
    txp_o.unacked       = !is_acked(qpc_i.service);
    txp_o.csum          = hdr_i.ip_csum && qpc_i.service == ServiceRaw;
    txp_o.xrcsrq        = hdr_i.remote_srqn;
    txp_o.datagram      = datagram;
    txp_o.av_slot       = av_slot_i;
    txp_o.round         = round_i;
    txp_o.masked        = is_masked(hdr_i.opcode);
    if (hdr_i.opcode == WrOpAtomicCmpAndSwp || hdr_i.opcode == WrOpMaskedAtomicCmpAndSwp) begin
      txp_o.opcode   = BthRcCmpSwap;
      txp_o.swap_add = operands.swap;
      txp_o.compare  = operands.compare_add;
    end else if (hdr_i.opcode == WrOpAtomicFetchAndAdd || hdr_i.opcode == WrOpMaskedAtomicFetchAndAdd) begin
      txp_o.opcode   = BthRcFetchAdd;
      txp_o.swap_add = operands.compare_add;
      if (txp_o.masked) txp_o.compare = operands.swap;
    end else if (hdr_i.opcode == WrOpAtomicWrite) begin
      txp_o.opcode   = BthRcAtomicWrite;
      txp_o.swap_add = block_i[8*SqWqeCtrlBytes +: 64];
    end else if (hdr_i.opcode == WrOpFlush) begin
      txp_o.opcode     = BthRcFlush;
      txp_o.reth_bytes = flush.length;
      txp_o.swap_add   = 64'({flush.selectivity, flush.placement});
    end else if (is_read) txp_o.opcode = BthRcReadRequest;
    else if (alone) txp_o.opcode = BthRcWriteOnly;
    else if (pkt_i.first && pkt_i.last) txp_o.opcode = with_inv ? 8'(BthRcSendOnlyInv) : only + 8'(with_imm);
    else if (pkt_i.first) txp_o.opcode = is_write ? BthRcWriteFirst : BthRcSendFirst;
    else if (pkt_i.last) txp_o.opcode = with_inv ? 8'(BthRcSendLastInv) : last + 8'(with_imm);
    else txp_o.opcode = is_write ? BthRcWriteMiddle : BthRcSendMiddle;
    if (!datagram) txp_o.opcode[7:5] = 3'(qpc_i.service);
  end

  always_comb begin
    seg_o           = '0;
    seg_o.bypass    = by_value;
    seg_o.access    = AccLocalRead;
    seg_o.func      = qpc_i.func;
    seg_o.pd        = qpc_i.pd;
    seg_o.qpn       = {qpc_i.gen, qpn_i};
    seg_o.key       = by_value ? '0 : lkey_i;
    seg_o.va        = va_i;
    seg_o.len_bytes = piece_i;
    seg_o.chk_bytes = 32'(piece_i);
    seg_o.last      = seg_last_i;
  end

  // LOCAL_INV has its key in the place of immediate data, as on the wire.
  always_comb begin
    mw_o.bind_mw   = hdr_i.opcode == WrOpBindMw;
    mw_o.reg_mr    = hdr_i.opcode == WrOpRegMr;
    mw_o.func      = qpc_i.func;
    mw_o.pd        = qpc_i.pd;
    mw_o.qpn       = {qpc_i.gen, qpn_i};
    mw_o.wqe_index = dyn_i.wqe;
    mw_o.key       = hdr_i.opcode == WrOpLocalInv ? key_of(hdr_i.imm_data) : hdr_i.rkey;
    mw_o.va        = hdr_i.remote_addr;
    mw_o.wqe       = block_i[8*SqWqeCtrlBytes +: $bits(sq_wqe_bind_t)];
  end

endmodule
