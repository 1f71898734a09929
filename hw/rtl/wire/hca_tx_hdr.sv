// Builds the headers of packets to send: packet descriptor + address vector of its QP -> bytes from the IP
// header or LRH up to the last extended header. `ack` goes before `txp`, packet by packet. Three pipeline
// stages, one packet per cycle when nothing stalls. Keeps its own copy of the address part of the QP
// context, of the WQEs of datagrams under way (they have the address), and of the source GIDs that these may name; none
// of these writes is ever stalled. Never sees payload.
module hca_tx_hdr
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  port_cfg_t [NumPorts-1:0]  port_cfg_i,
  input  logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_i,
  input  logic [NumPorts-1:0][15:0][3:0] sl2vl_i,   // VL of each SL
  input  cc_tx_t [NumPorts-1:0]     cc_i,
  input  logic                      qpc_wr_valid_i,
  output logic                      qpc_wr_ready_o,
  input  qpc_wr_t                   qpc_wr_i,
  input  av_wr_t                    av_wr_i,          // two cycles before its packet at least
  input  gid_wr_t                   gid_wr_i,
  input  logic                      ack_valid_i,
  output logic                      ack_ready_o,
  input  txp_t                      ack_i,
  input  logic                      txp_valid_i,
  output logic                      txp_ready_o,
  input  txp_t                      txp_i,
  output logic                      hdr_valid_o,
  input  logic                      hdr_ready_i,
  output tx_hdr_t                   hdr_o,
  output tx_eth_t                   eth_o,
  output logic [15:0]               resp_done_seq_o,
  output logic                      sent_o,
  output txp_t                      sent_txp_o,
  output logic [PortW-1:0]          sent_port_o     // one cycle after sent_o: its port
);

  localparam int unsigned OwnWords = (BthBytes + IcrcLen) / 4;

  // The part of the QP context that headers are made of.
  typedef struct packed {
    logic [PortW-1:0] port;
    logic         is_smi;
    logic         is_gsi;
    logic         is_xrc;
    logic         mig_req;
    logic         is_ipv4;
    logic         is_global;
    logic [4:0]   pkey_index;
    logic [31:0]  qkey;
    logic [23:0]  qpn;
    logic [23:0]  dest_qpn;
    logic [15:0]  udp_src_port;
    logic [15:0]  dlid;
    logic [6:0]   src_path_bits;
    logic [3:0]   sl;
    logic [19:0]  flow_label;
    logic [7:0]   traffic_class;
    logic [7:0]   hop_limit;
    logic [47:0]  dmac;
    logic [127:0] sgid;
    logic [127:0] dgid;
  } av_t;

  localparam int unsigned AvBits = $bits(av_t);
  localparam int unsigned GidW   = $clog2(16 * NumPorts);

  av_t  wr_av, own, dg, av;   // own: of its QP; dg: of a datagram; av: of the packet
  logic accept;
  txp_t pick, s1_txp_q;

  always_comb begin
    wr_av               = '0;
    wr_av.port          = port_of(qpc_wr_i.qpc.port);
    wr_av.is_xrc        = qpc_wr_i.qpc.service == ServiceXrc;
    wr_av.mig_req       = qpc_wr_i.qpc.path_mig_state == PathMigMigrated;   // APM-3
    wr_av.is_ipv4       = qpc_wr_i.qpc.is_ipv4;
    wr_av.is_global     = qpc_wr_i.qpc.is_global;
    wr_av.pkey_index    = qpc_wr_i.qpc.pkey_index[4:0];
    wr_av.qkey          = qpc_wr_i.qpc.qkey;
    wr_av.is_smi        = qpc_wr_i.qpc.is_smi;
    wr_av.qpn           = qpc_wr_i.qpc.is_smi ? '0 : qpc_wr_i.qpc.is_gsi ? 24'(QpnGsi) : qpc_wr_i.qpc.qpn;
    wr_av.is_gsi        = wr_av.qpn == 24'(QpnGsi);
    wr_av.dest_qpn      = qpc_wr_i.qpc.dest_qpn;
    wr_av.udp_src_port  = qpc_wr_i.qpc.udp_src_port;
    wr_av.dlid          = qpc_wr_i.qpc.dlid;
    wr_av.src_path_bits = qpc_wr_i.qpc.src_path_bits;
    wr_av.sl            = qpc_wr_i.qpc.sl;
    wr_av.flow_label    = qpc_wr_i.qpc.flow_label;
    wr_av.traffic_class = qpc_wr_i.qpc.traffic_class;
    wr_av.hop_limit     = qpc_wr_i.qpc.hop_limit;
    wr_av.dmac          = qpc_wr_i.qpc.dmac;
    wr_av.sgid          = qpc_wr_i.qpc.sgid;
    wr_av.dgid          = qpc_wr_i.qpc.dgid;
  end

  port_cfg_t cfg;   // of the packet's port
  logic unused_inputs;
  assign unused_inputs = ^{qpc_wr_i, port_cfg_i, s1_txp_q, cfg, av.is_gsi};

  assign qpc_wr_ready_o = 1'b1;

  hca_ram_1r1w #(
    .Width(AvBits),
    .Depth(NumQps)
  ) u_av (
    .clk_i,
    .we_i   (qpc_wr_valid_i),
    .waddr_i(qpc_wr_i.qpn),
    .wdata_i(wr_av),
    .re_i   (accept),
    .raddr_i(pick.qpn),
    .rdata_o(own)
  );

  // ---- Datagrams: what is in the WQE goes before what is in the context -------------------------------
  logic            av_we_q;
  logic [AvSlotW-1:0] av_slot_q;
  sq_wqe_ud_ctrl_t av_wqe_q, dg_wqe;
  logic [127:0]    dg_sgid, sgid;
  logic            dg_is_ipv4, unused_wqe;

  assign unused_wqe = ^dg_wqe;

  hca_ram_1r1w #(
    .Width(128),
    .Depth(16 * NumPorts)
  ) u_gids (
    .clk_i,
    .we_i   (gid_wr_i.valid),
    .waddr_i(GidW'({gid_wr_i.port, gid_wr_i.index})),
    .wdata_i(gid_wr_i.gid),
    .re_i   (av_wr_i.valid),
    .raddr_i(GidW'({av_wr_i.port, av_wr_i.wqe.sgid_index})),
    .rdata_o(sgid)
  );

  always_ff @(posedge clk_i) begin
    av_we_q <= !rst_i && av_wr_i.valid;
    if (av_wr_i.valid) {av_slot_q, av_wqe_q} <= {av_wr_i.slot, av_wr_i.wqe};
  end

  hca_ram_1r1w #(
    .Width($bits(sq_wqe_ud_ctrl_t) + 129),
    .Depth(AvSlots)
  ) u_dgs (
    .clk_i,
    .we_i   (av_we_q),
    .waddr_i(av_slot_q),
    .wdata_i({av_wqe_q, sgid, sgid[95:0] == {16'hffff, 80'd0}}),
    .re_i   (accept),
    .raddr_i(pick.av_slot),
    .rdata_o({dg_wqe, dg_sgid, dg_is_ipv4})
  );

  always_comb begin
    dg               = own;
    // The source says whether it is IPv4: a process cannot make up an address of this port by another type's bytes.
    dg.is_ipv4       = dg_is_ipv4;
    dg.is_global     = dg_wqe.is_global;
    dg.qkey          = (dg_wqe.qkey[31] || own.is_smi) ? own.qkey : dg_wqe.qkey;   // KEY-24
    dg.dest_qpn      = dg_wqe.remote_qpn;
    if (own.is_gsi) dg.pkey_index = dg_wqe.pkey_index;   // QP1 is of every partition of its port
    dg.udp_src_port  = dg_wqe.udp_src_port;
    dg.dlid          = dg_wqe.dlid;
    dg.src_path_bits = dg_wqe.src_path_bits & ((7'd1 << port_cfg_i[own.port].lmc) - 7'd1);   // ADDR-4
    dg.sl            = dg_wqe.sl;
    dg.flow_label    = dg_wqe.flow_label;
    dg.traffic_class = dg_wqe.traffic_class;
    dg.hop_limit     = dg_wqe.hop_limit;
    dg.dmac          = dg_wqe.dmac;
    dg.sgid          = dg_sgid;
    dg.dgid          = dg_wqe.dgid;
  end

  assign av = s1_txp_q.datagram ? dg : own;

  logic        s1_valid_q, s1_ready, s2_valid_q, s2_ready, s3_valid_q, s3_ready;
  logic [15:0] resp_done_seq_q;

  assign s3_ready = !s3_valid_q || hdr_ready_i;
  assign s2_ready = !s2_valid_q || s3_ready;
  assign s1_ready = !s1_valid_q || s2_ready;

  assign pick            = txp_built(ack_valid_i ? ack_i : txp_i);
  assign ack_ready_o     = s1_ready;
  assign txp_ready_o     = s1_ready && !ack_valid_i;
  assign accept          = s1_ready && (ack_valid_i || txp_valid_i);
  assign sent_o          = accept;
  assign sent_txp_o      = pick;
  assign sent_port_o     = av.port;
  assign resp_done_seq_o = resp_done_seq_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      s1_valid_q      <= 1'b0;
      s2_valid_q      <= 1'b0;
      s3_valid_q      <= 1'b0;
      resp_done_seq_q <= '1;
    end else begin
      if (s1_ready) s1_valid_q <= accept;
      if (s2_ready) s2_valid_q <= s1_valid_q;
      if (s3_ready) s3_valid_q <= s2_valid_q;
      if (accept && pick.kind == TxRead) resp_done_seq_q <= pick.resp_seq;
    end
  end

  // Which headers an opcode has is known before its packet is: one look at each of the two that may be next.
  ext_t s1_ext_q;

  always_ff @(posedge clk_i) begin
    if (accept) begin
      s1_txp_q <= pick;
      s1_ext_q <= ext_built(ack_valid_i ? ext_of(ack_i.opcode) : ext_of(txp_i.opcode));
    end
  end

  // Stage 1 -> 2: lengths, transport headers, network headers without the IPv4 checksum.
  l3_e          l3;
  ext_t         ext;
  logic [1:0]   pad;
  logic [10:0]  bth_words, udp_words, ip4_words, lrh_words;   // with the payload; and the headers in front
  logic [95:0]  bth;
  logic [6:0]   len;          // of all headers
  logic [319:0] transport;    // without XRCETH
  logic [351:0] headers;
  logic [7:0]   opcode;       // answers are made as those of RC
  logic [15:0]  src_port, slid;
  logic [3:0]   vl;
  logic [23:0]  dest_qpn;
  logic         is_cnp;
  logic [7:0]   tclass;
  logic [63:0]  udp, lrh;
  logic [319:0] ip6;
  logic [159:0] ip4;

  // Words of the payload, padded, of what follows the BTH, and some more: one addition with a carry.
  function automatic logic [10:0] with_payload(ext_t after, logic [4:0] more, logic [12:0] payload_bytes);
    logic unused_carry;
    {with_payload, unused_carry} = {payload_bytes[12:2], 1'b1}
                                   + {6'd0, ext_words(after, more), payload_bytes[1:0] != '0};
  endfunction

  always_comb begin
    cfg = port_cfg_i[av.port];
    if (s1_txp_q.opcode[7:5] == 3'(ServiceRaw)) l3 = L3Raw;
    else if (cfg.ib) l3 = av.is_global ? L3IbGlobal : L3IbLocal;
    else l3 = av.is_ipv4 ? L3Ipv4 : L3Ipv6;
    opcode    = s1_txp_q.opcode;
    if (av.is_xrc && s1_txp_q.kind inside {TxRead, TxAck}) opcode[7:5] = 3'(ServiceXrc);
    is_cnp    = s1_txp_q.kind == TxCnp;
    // ECT(0) for whom a mark can slow down: data of connections.
    tclass    = av.traffic_class;
    if (is_cnp) tclass = cc_i[av.port].cnp_class;
    else if (cc_i[av.port].ect && !s1_txp_q.datagram && s1_txp_q.kind != TxAck) tclass[1:0] = 2'b10;
    ext       = s1_ext_q;   // answers have the same headers in both
    pad       = 2'd0 - s1_txp_q.payload_bytes[1:0];
    bth_words = with_payload(ext, 5'(OwnWords), s1_txp_q.payload_bytes);
    udp_words = with_payload(ext, 5'(OwnWords) + 5'd2, s1_txp_q.payload_bytes);
    ip4_words = with_payload(ext, 5'(OwnWords) + 5'd7, s1_txp_q.payload_bytes);
    lrh_words = (l3 == L3IbGlobal) ? with_payload(ext, 5'(OwnWords) + 5'd12, s1_txp_q.payload_bytes) : udp_words;
    case (l3)   // as l3_bytes, but the words of each case are there before it is known which one it is
      L3Ipv4:    len = {ext_words(ext, 5'((28 + BthBytes) / 4)), 2'd0};
      L3IbLocal: len = {ext_words(ext, 5'((8 + BthBytes) / 4)), 2'd0};
      L3Raw:     len = '0;
      default:   len = {ext_words(ext, 5'((48 + BthBytes) / 4)), 2'd0};
    endcase
    src_port  = (av.udp_src_port != '0) ? av.udp_src_port : (16'hc000 | 16'(s1_txp_q.qpn));
    // What goes to whoever is there comes from whoever it may be: the port need not have a LID.
    slid      = (av.is_smi && av.dlid == 16'(LidPermissive)) ? 16'(LidPermissive) : cfg.lid | 16'(av.src_path_bits);
    vl        = av.is_smi ? 4'(MgmtVl) : sl2vl_i[av.port][av.sl];
    // An SL that maps to VL15 may not carry data, and QP 0 is not reached from other QPs: the link refuses both.
    dest_qpn  = (cfg.ib && !av.is_smi && vl == 4'(MgmtVl)) ? '1 : av.dest_qpn;

    bth = {swap24(s1_txp_q.psn), s1_txp_q.ack_req, 7'd0, swap24(dest_qpn), 1'b0, is_cnp /* BECN */, 6'd0,
           swap16(pkey_tbl_i[av.port][av.pkey_index]), s1_txp_q.solicited, av.mig_req || is_cnp, pad,
           4'd0, with_masks(opcode, s1_txp_q.masked)};
    transport = '0;
    if (ext.feth) begin
      transport = {64'd0, swap32(s1_txp_q.reth_bytes), swap32(s1_txp_q.reth_rkey), swap64(s1_txp_q.reth_va),
                   s1_txp_q.swap_add[7:0], 24'd0, bth};
    end else if (ext.reth) begin
      transport = {32'd0, ext.data8 ? s1_txp_q.swap_add : 64'(s1_txp_q.imm), swap32(s1_txp_q.reth_bytes),
                   swap32(s1_txp_q.reth_rkey), swap64(s1_txp_q.reth_va), bth};
    end else if (ext.atomic) begin
      transport = {swap64(s1_txp_q.compare), swap64(s1_txp_q.swap_add), swap32(s1_txp_q.reth_rkey),
                   swap64(s1_txp_q.reth_va), bth};
    end else if (ext.aeth) begin
      transport = {128'd0, swap64(ext.atomic_ack ? s1_txp_q.swap_add : '0), swap24(s1_txp_q.aeth_msn),
                   s1_txp_q.aeth_syndrome, bth};
    end else if (ext.deth) begin
      transport = {128'd0, s1_txp_q.imm, swap24(av.qpn), 8'd0, swap32(av.qkey), bth};
    end else begin
      transport = {192'd0, s1_txp_q.imm, bth};
    end
    headers = 352'(transport);
    if (ext.xrc) headers = {transport[319:96], swap24(s1_txp_q.xrcsrq), 8'd0, bth};

    udp = {16'd0, swap16({3'd0, udp_words, 2'd0}), swap16(16'(RoceUdpPort)), swap16(src_port)};
    // Version 4, five words; no fragments; the checksum comes in the next stage.
    ip4 = {av.dgid[127:96], av.sgid[127:96], 16'd0, 8'(IpProtoUdp), av.hop_limit, 16'h0040, 16'd0,
           swap16({3'd0, ip4_words, 2'd0}), tclass, 8'h45};
    // IPv6 header and GRH: one layout.
    ip6 = {av.dgid, av.sgid, av.hop_limit, cfg.ib ? 8'(GrhNextHeaderIba) : 8'(IpProtoUdp),
           swap16({3'd0, cfg.ib ? bth_words : udp_words, 2'd0}),
           swap32({4'd6, cfg.ib ? av.traffic_class : tclass, av.flow_label})};
    // LVer 0. An SL whose VL may not carry data (15, or not operational) is the link's to drop.
    lrh = {swap16(slid), swap16({5'd0, lrh_words}), swap16(av.dlid),
           av.sl, 2'd0, (l3 == L3IbGlobal) ? 2'(LnhIbaGlobal) : 2'(LnhIbaLocal), vl, 4'd0};
  end

  // The IPv4 checksum, in two steps: addresses apart from the rest but for the length, then all. The sum fits 20 bits;
  // folding twice gives the one's complement sum.
  function automatic logic [17:0] words_sum(logic [63:0] words);
    return (18'(swap16(words[15:0])) + 18'(swap16(words[31:16])))
           + (18'(swap16(words[47:32])) + 18'(swap16(words[63:48])));
  endfunction

  function automatic logic [15:0] ip4_check(logic [19:0] sum);
    logic [16:0] fold;
    fold = 17'(sum[15:0]) + 17'(sum[19:16]);
    return ~(fold[15:0] + 16'(fold[16]));
  endfunction

  l3_e          s2_l3_q;
  logic         s2_has_payload_q, s2_csum_q;
  tx_round_t    s2_round_q;
  logic [6:0]   s2_len_q;
  logic [17:0]  s2_addrs_q, s2_rest_q;
  logic [19:0]  s2_sum;
  logic [383:0] s2_front_q;      // up to 48 bytes in front of the BTH
  logic [351:0] s2_transport_q;
  logic [PortW-1:0] s2_port_q;
  tx_eth_t      s2_eth_q;
  tx_hdr_t      s3_hdr_q;
  tx_eth_t      s3_eth_q;

  assign s2_sum = 20'(s2_addrs_q) + 20'(s2_rest_q) + 20'(swap16(s2_front_q[31:16]));

  always_ff @(posedge clk_i) begin
    if (s1_valid_q && s2_ready) begin
      s2_l3_q          <= l3;
      s2_has_payload_q <= s1_txp_q.has_payload;
      s2_csum_q        <= s1_txp_q.csum;
      s2_round_q       <= '{valid: s1_txp_q.kind == TxReq && !s1_txp_q.unacked, qpn: s1_txp_q.qpn,
                            round: s1_txp_q.round};
      s2_len_q         <= len;
      s2_addrs_q       <= words_sum(ip4[159:96]);
      s2_rest_q        <= words_sum({ip4[79:32], ip4[15:0]});
      s2_transport_q   <= headers;
      s2_port_q        <= av.port;
      s2_eth_q.ipv4    <= av.is_ipv4;
      s2_eth_q.dmac    <= av.dmac;
      case (l3)
        L3Ipv4:    s2_front_q <= {160'd0, udp, ip4};
        L3Ipv6:    s2_front_q <= {udp, ip6};
        L3IbLocal: s2_front_q <= {320'd0, lrh};
        default:   s2_front_q <= {ip6, lrh};
      endcase
    end
    if (s2_valid_q && s3_ready) begin
      s3_eth_q             <= s2_eth_q;
      s3_hdr_q.port        <= s2_port_q;
      s3_hdr_q.l3          <= s2_l3_q;
      s3_hdr_q.has_payload <= s2_has_payload_q;
      s3_hdr_q.csum        <= s2_csum_q;
      s3_hdr_q.round       <= s2_round_q;
      s3_hdr_q.len_bytes   <= s2_len_q;
      case (s2_l3_q)
        L3Ipv4: s3_hdr_q.bytes <= {160'd0, s2_transport_q, s2_front_q[223:96], swap16(ip4_check(s2_sum)),
                                   s2_front_q[79:0]};
        L3IbLocal: s3_hdr_q.bytes <= {320'd0, s2_transport_q, s2_front_q[63:0]};
        default:   s3_hdr_q.bytes <= {s2_transport_q, s2_front_q};
      endcase
    end
  end

  assign hdr_valid_o = s3_valid_q;
  assign hdr_o       = s3_hdr_q;
  assign eth_o       = s3_eth_q;

endmodule
