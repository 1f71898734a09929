// Responder rules for one datagram, or one frame: with hca_resp_check's timing, and like it a pure decision. Whoever it
// is from and whatever its PSN, it is placed if there is a receive WQE, or dropped silently. Rules: README.md, table 3.
module hca_dg_check
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic           look_i,
  input  logic           apply_i,
  input  rxd_t           rxd_i,    // with look_i
  input  rxd_t           req_i,    // the same with apply_i
  input  logic [QpW-1:0] qpn_i,
  input  rx_ctx_t        now_ctx_i,  // with look_i
  input  resp_st_t       now_st_i,
  input  rx_ctx_t        ctx_i,    // the same with apply_i
  input  resp_st_t       st_i,
  input  wqe_idx_t       rq_pi_i,
  input  srq_head_t      srq_i,    // with apply_i
  input  logic [4:0]     pkey_index_i,   // with apply_i
  output logic           srq_pop_o,
  output logic           full_o,   // with apply_i: it finds no receive WQE
  output logic           wrong_o,  // no SEND, or longer than its path can carry
  output rxw_t           item_o,
  output wqe_at_t        list_o,   // for item_o.needs_list
  output resp_st_t       st_o
);

  logic [7:0]  fits, fits_eth;   // by the code of an MTU
  logic        good_d, good_q, room_q, room, accept, has_net, unused_in;
  wqe_idx_t    wqe;

  assign unused_in = ^{rxd_i, req_i, ctx_i, now_ctx_i, now_st_i, srq_i.xrc};
  // The MTU comes late: of each that there may be.
  always_comb begin
    for (int unsigned m = 0; m < 8; m++) begin
      fits[m]     = (rxd_i.payload_bytes >> (7 + m)) == '0 || rxd_i.payload_bytes == mtu_bytes(3'(m));   // XPORT-4
      fits_eth[m] = rxd_i.payload_bytes <= mtu_bytes(3'(m)) + 13'(MaxEthHeaderBytes);
    end
    good_d = rxd_i.opcode inside {BthUdSendOnly, BthUdSendOnlyImm} && fits[now_ctx_i.path_mtu];
    if (now_ctx_i.is_raw) begin
      good_d = (rxd_i.opcode == OpcodeSniffed) ? rxd_i.payload_bytes <= 13'(MaxKept) : fits_eth[now_ctx_i.path_mtu];
    end
  end

  always_ff @(posedge clk_i) begin
    if (look_i) {good_q, room_q} <= {good_d, now_st_i.rq_ci != rq_pi_i};
  end

  assign room    = ctx_i.has_srq ? srq_i.ok : room_q;
  assign accept  = apply_i && good_q && room;
  assign full_o  = apply_i && good_q && !room;
  assign wrong_o = apply_i && !good_q;
  assign wqe     = ctx_i.has_srq ? WqeIndexBits'(srq_i.slot) : st_i.rq_ci;
  assign srq_pop_o = accept && ctx_i.has_srq;
  assign has_net = req_i.payload_off[6];   // a GRH or an IPv6 header before the BTH
  assign list_o  = '{func: ctx_i.func, base: ctx_i.rq_base, log_size: ctx_i.rq_log_size,
                     log_stride: ctx_i.rq_log_stride, index: wqe};

  always_comb begin
    st_o = st_i;
    if (accept && !ctx_i.has_srq) st_o.rq_ci = st_i.rq_ci + 1'b1;
  end

  always_comb begin
    item_o = '0;
    if (apply_i) begin
      item_o.kind      = RxwNone;
      item_o.qpn       = qpn_i;
      item_o.func      = ctx_i.func;
      item_o.pd        = ctx_i.pd;
      item_o.gen       = ctx_i.gen;
      item_o.frees     = req_i.kind != RxdCopy;
      item_o.buf_beat  = req_i.buf_beat;
      item_o.buf_beats = req_i.buf_beats;
      item_o.place     = req_i.place;
    end
    if (accept) begin
      item_o.kind          = RxwSend;
      item_o.silent        = 1'b1;
      item_o.dg            = req_i.ib ? (has_net ? DgGrh : DgBare) : has_net ? DgIpv6 : DgIpv4;
      item_o.lead          = req_i.lead;
      item_o.payload_off   = req_i.payload_off;
      item_o.payload_bytes = req_i.payload_bytes;
      item_o.needs_list    = 1'b1;
      item_o.list_bytes    = wqe_bytes(ctx_i.rq_log_stride);
      item_o.wqe_index     = wqe;
      item_o.shared        = ctx_i.has_srq;
      item_o.msg_last      = 1'b1;
      item_o.cqe.valid     = 1'b1;
      item_o.cqe.solicited = req_i.solicited;
      item_o.cqe.cqn       = ctx_i.recv_cqn;
      item_o.cqe.wc.wqe_index = wqe[15:0];
      item_o.cqe.wc.opcode    = WcOpRecv;
      item_o.cqe.wc.status    = WcSuccess;
      item_o.cqe.wc.qpn       = full_qpn(ctx_i.gen, qpn_i);
      item_o.cqe.wc.byte_len  = 32'(req_i.payload_bytes) + 32'(GrhBytes);  // OP-22
      item_o.cqe.wc.src_qp    = req_i.deth_src_qpn;
      item_o.cqe.wc.slid      = req_i.slid;
      item_o.cqe.wc.sl        = req_i.sl;
      item_o.cqe.wc.dlid_path_bits = req_i.path_bits;
      if (ctx_i.is_gsi) item_o.cqe.wc.pkey_index = pkey_index_i;   // KEY-21
      if (item_o.dg != DgBare) item_o.cqe.wc.wc_flags = 4'(WcFlagGrh);
      // WIRE-20: the frame as it came, at the beginning of the buffer.
      if (ctx_i.is_raw) begin
        item_o.dg = DgNone;
        item_o.cqe.wc.byte_len = 32'(req_i.payload_bytes);
        item_o.cqe.wc.wc_flags = req_i.csum_ok ? 4'(WcFlagIpCsumOk) : '0;
        item_o.cqe.wc.imm_data = req_i.imm;   // the tag
      end
      if (req_i.opcode == BthUdSendOnlyImm) begin
        item_o.cqe.wc.imm_data = req_i.imm;
        item_o.cqe.wc.wc_flags = item_o.cqe.wc.wc_flags | 4'(WcFlagWithImm);
      end
    end
  end

endmodule
