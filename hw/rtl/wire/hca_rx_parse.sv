// Parses the headers of a received packet (all in its first two beats) into a receive descriptor. rxd_o and
// ok_o belong to the packet whose last beat came five cycles ago and hold until the next packet's. The
// buffer fields of rxd_o are 0: hca_rx_buf fills them. ok_o: known opcode, all headers complete, IP, UDP and
// GRH consistent with the length, pad consistent. Never stalls, one packet per cycle.
module hca_rx_parse
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [NumPorts-1:0][2:0] lmc_i,
  input  logic        valid_i,
  input  rx_beat_t    beat_i,
  input  logic [12:0] l3_len_i,  // length of the packet, with its last beat
  input  rule_key_t   key_i,          // of the frame whose last beat came two cycles ago
  input  logic [Rules-1:0] rules_i,   // that have the frame, with ok_o
  input  logic        csum_ok_i,      // the same
  output logic        ok_o,
  output logic        lldp_o,         // a frame of LLDP: firmware gets a copy, whoever else has it
  output rxd_t        rxd_o
);

  localparam int unsigned WinBytes  = BthBytes + 48;          // BTH and extended headers; masks of an atomic
  localparam int unsigned HeadBits  = 8 * (48 + WinBytes);
  localparam int unsigned ExtOffset = 8 * BthBytes;
  localparam int unsigned MadBytes  = 256;
  localparam int unsigned MadOffset = BthBytes + 8;        // behind the DETH
  localparam logic [1:0]  EcnCe     = 2'b11;               // congestion experienced

  // Stage 1: the first two beats.
  logic                s1_go_q, second_q;
  logic [HeadBits-1:0] head_q;
  l3_e                 s1_l3_q;
  logic [12:0]         s1_len_q;
  logic [PortW-1:0]    s1_port_q, s2_port_q;
  // Stage 2: transport headers in a window, network headers checked.
  logic                  s3_raw_q, s4_raw_q, raw_q;   // a frame: none of the fields counts
  logic                  s2_lldp_q, s3_lldp_q, s4_lldp_q, lldp_q;
  logic                  s2_go_q, s2_ok_q;
  logic [8*WinBytes-1:0] s2_win_q;
  l3_e                   s2_l3_q;
  logic [12:0]           s2_len_q;
  logic [127:0]          s2_sgid_q, s2_dgid_q;
  logic [15:0]           s2_slid_q;
  logic [6:0]            s2_path_q;
  logic [3:0]            s2_sl_q, s2_vl_q;
  logic                  s2_marked_q;
  // Stage 3: opcode decoded.
  logic                  s3_go_q, s3_ok_q;
  logic [8*WinBytes-1:0] s3_win_q;
  ext_t                  s3_ext_q;
  logic [12:0]           s3_len_q;
  logic [6:0]            s3_hdr_len_q;
  rxd_t                  s3_rxd_q;
  // Stage 4: fields. Stage 5: payload length.
  logic                  s4_go_q, s4_ok_q;
  logic [12:0]           s4_len_q, s4_need_q;
  rxd_t                  s4_rxd_q;
  logic                  ok_q;
  rxd_t                  rxd_q;

  ext_t s2_ext;
  assign s2_ext = ext_of(without_masks(s2_win_q[7:0]));

  // Headers alone: the data of an ATOMIC WRITE is payload, whose length its receiver judges.
  function automatic ext_t without_data(ext_t ext);
    ext_t e;
    e = ext;
    e.data8 = 1'b0;
    return e;
  endfunction

  logic unused_beat;
  assign unused_beat = ^{key_i, beat_i.data_end, beat_i.len_bytes, beat_i.raw_bytes, beat_i.bad};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      second_q <= 1'b0;
      s1_go_q  <= 1'b0;
      s2_go_q  <= 1'b0;
      s3_go_q  <= 1'b0;
      s4_go_q  <= 1'b0;
    end else begin
      if (valid_i) second_q <= beat_i.first && !beat_i.last;
      s1_go_q <= valid_i && beat_i.last;
      s2_go_q <= s1_go_q;
      s3_go_q <= s2_go_q;
      s4_go_q <= s3_go_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i && beat_i.first) head_q[511:0] <= beat_i.data;
    if (valid_i && second_q) head_q[HeadBits-1:512] <= beat_i.data[HeadBits-513:0];
    if (valid_i && beat_i.last) begin
      s1_l3_q  <= beat_i.l3;
      s1_len_q <= l3_len_i;
      s1_port_q <= beat_i.port;
    end
  end

  // Network headers against the packet's length; version and header length were checked by hca_rx_l3.
  function automatic logic net_ok(logic [HeadBits-1:0] h, l3_e l3, logic [12:0] len);
    logic unused_bits;
    unused_bits = ^h;
    case (l3)
      L3Ipv4: return (h[8*6 +: 16] & 16'hff3f) == 16'd0 &&            // not a fragment
                     h[8*9 +: 8] == 8'(IpProtoUdp) &&
                     swap16(h[8*22 +: 16]) == 16'(RoceUdpPort) &&
                     swap16(h[8*24 +: 16]) == 16'(len) - 16'(Ipv4Bytes);
      L3Ipv6: return h[8*6 +: 8] == 8'(IpProtoUdp) &&
                     swap16(h[8*42 +: 16]) == 16'(RoceUdpPort) &&
                     swap16(h[8*44 +: 16]) == 16'(len) - 16'(Ipv6Bytes);
      L3IbGlobal: return h[8*8+4 +: 4] == 4'd6 && h[8*14 +: 8] == 8'(GrhNextHeaderIba) &&
                         swap16(h[8*12 +: 16]) == 16'(len) - 16'(LrhBytes + GrhBytes);
      default: return 1'b1;
    endcase
  endfunction

  always_ff @(posedge clk_i) begin
    if (s1_go_q) begin
      s2_ok_q   <= net_ok(head_q, s1_l3_q, s1_len_q);
      s2_lldp_q <= s1_l3_q == L3Raw && head_q[47:0] == LldpMac && head_q[8*12 +: 16] == swap16(16'(EthertypeLldp));
      s2_l3_q   <= s1_l3_q;
      s2_len_q  <= s1_len_q;
      s2_port_q <= s1_port_q;
      s2_slid_q <= '0;
      s2_path_q <= '0;
      s2_sl_q   <= '0;
      s2_marked_q <= 1'b0;
      s2_vl_q   <= (s1_l3_q == L3IbLocal || s1_l3_q == L3IbGlobal) ? head_q[7:4] : '0;
      s2_sgid_q <= '0;
      s2_dgid_q <= '0;
      case (s1_l3_q)
        L3Ipv4: begin
          s2_win_q  <= head_q[8*28 +: 8*WinBytes];
          s2_sl_q   <= 4'(WcSlRoceIpv4);
          s2_marked_q <= head_q[8*1 +: 2] == EcnCe;
          s2_sgid_q <= {head_q[8*12 +: 32], 16'hffff, 80'd0};
          s2_dgid_q <= {head_q[8*16 +: 32], 16'hffff, 80'd0};
        end
        L3Ipv6: begin
          s2_win_q  <= head_q[8*48 +: 8*WinBytes];
          s2_sl_q   <= 4'(WcSlRoceIpv6);
          s2_marked_q <= head_q[8*1+4 +: 2] == EcnCe;
          s2_sgid_q <= head_q[8*8 +: 128];
          s2_dgid_q <= head_q[8*24 +: 128];
        end
        L3IbLocal: begin
          s2_win_q  <= head_q[8*8 +: 8*WinBytes];
          s2_slid_q <= swap16(head_q[8*6 +: 16]);
          s2_path_q <= head_q[8*3 +: 7];
          s2_sl_q   <= head_q[12 +: 4];
        end
        L3Raw: ;
        default: begin
          s2_win_q  <= head_q[8*48 +: 8*WinBytes];
          s2_slid_q <= swap16(head_q[8*6 +: 16]);
          s2_path_q <= head_q[8*3 +: 7];
          s2_sl_q   <= head_q[12 +: 4];
          s2_sgid_q <= head_q[8*16 +: 128];
          s2_dgid_q <= head_q[8*32 +: 128];
        end
      endcase
    end
    if (s2_go_q) begin
      s3_win_q      <= s2_win_q;
      s3_ext_q      <= s2_ext;
      // An XRCETH is taken out: what is behind it is as that of RC.
      if (HasSrq && s2_ext.xrc)
        s3_win_q[8*WinBytes-1:ExtOffset] <= (8*WinBytes-ExtOffset)'(s2_win_q[8*WinBytes-1:ExtOffset+32]);
      s3_win_q[7:0] <= without_masks(s2_win_q[7:0]);
      s3_len_q      <= s2_len_q;
      s3_hdr_len_q  <= l3_bytes(s2_l3_q) + 7'(BthBytes) + 7'(ext_bytes(without_data(s2_ext)));
      s3_raw_q      <= s2_l3_q == L3Raw;
      s3_ok_q       <= s2_l3_q == L3Raw || s2_ok_q && opcode_known(s2_win_q[7:0]) && s2_win_q[11:8] == 4'd0  // TVer
                       && !(s2_ext.cnp && l3_is_ib(s2_l3_q));
      s3_lldp_q     <= s2_lldp_q;
      s3_rxd_q      <= '0;
      s3_rxd_q.marked <= s2_marked_q;
      s3_rxd_q.masked <= opcode_masked(s2_win_q[7:0]);
      s3_rxd_q.ib   <= (s2_l3_q == L3IbLocal) || (s2_l3_q == L3IbGlobal);
      s3_rxd_q.smp  <= s2_vl_q == 4'(MgmtVl);   // so far: QP 0 is to come
      s3_rxd_q.port <= s2_port_q;
      if (HasSrq && s2_ext.xrc) s3_rxd_q.xrcsrq <= swap24(s2_win_q[ExtOffset+8 +: 24]);
      s3_rxd_q.slid <= s2_slid_q;
      s3_rxd_q.path_bits <= s2_path_q & ((7'd1 << lmc_i[s2_port_q]) - 7'd1);  // ADDR-4
      s3_rxd_q.sl   <= s2_sl_q;
      s3_rxd_q.sgid <= s2_sgid_q;
      s3_rxd_q.dgid <= s2_dgid_q;
      if (s2_l3_q == L3Raw) begin   // for hca_rss
        s3_rxd_q.sgid   <= key_i.src_ip;
        s3_rxd_q.dgid   <= key_i.dst_ip;
        s3_rxd_q.ports  <= {key_i.dst_port, key_i.src_port};
        s3_rxd_q.layers <= '{udp: key_i.is_udp, tcp: key_i.is_tcp, ipv6: key_i.is_ipv6, ipv4: key_i.is_ipv4};
      end
    end
  end

  // A request to an agent of the port, which firmware answers: of subnet management but SMInfo, which is the subnet
  // manager's; of performance management; of baseboard management, to be refused.
  function automatic logic for_agent(logic [8*WinBytes-1:0] w, logic smp);
    logic [7:0]  mgmt_class, method;
    logic [15:0] attribute;
    logic        unused_bits;
    unused_bits = ^w;
    mgmt_class  = w[8*(MadOffset + 1) +: 8];
    method      = w[8*(MadOffset + 3) +: 8];
    attribute   = swap16(w[8*(MadOffset + 16) +: 16]);
    if (method != 8'(MadGet) && method != 8'(MadSet) && method != 8'(MadTrapRepress)) return 1'b0;
    if (!smp) return mgmt_class == 8'(MadClassPerf) || mgmt_class == 8'(MadClassBm);
    return attribute != 16'(MadAttrSmInfo);
  endfunction

  // Fields of the transport headers; those of a header that the packet does not have are 0, and of one that the card
  // is built without.
  function automatic rxd_t fields(rxd_t base, logic [8*WinBytes-1:0] w, ext_t ext);
    rxd_t d;
    logic unused_bits;
    logic [127:0] reth;
    unused_bits = ^{w, ext};
    d           = base;
    d.opcode    = w[7:0];
    d.solicited = w[15];
    d.mig_req   = w[14];
    d.pkey      = swap16(w[8*2 +: 16]);
    d.dest_qpn  = swap24(w[8*5 +: 24]);
    // Who is on VL15 and names QP 0 on both sides is of subnet management; any other packet for QP 0 is nobody's.
    d.smp = base.smp && d.opcode == 8'(BthUdSendOnly) && d.dest_qpn == '0 && w[ExtOffset + 40 +: 24] == '0;
    if (d.smp) d.kind = for_agent(w, 1'b1) ? RxdAgent : RxdSmi;
    if (ext.deth && d.dest_qpn == 24'(QpnGsi)) begin
      d.kind = (d.ib && d.opcode == 8'(BthUdSendOnly) && for_agent(w, 1'b0)) ? RxdAgent : RxdGsi;
    end
    if (ext.deth && d.dest_qpn == 24'(QpnMulticast)) d.kind = RxdMulticast;
    d.ack_req   = w[8*8+7];
    d.psn       = swap24(w[8*9 +: 24]);
    reth        = (HasAtomic && ext.feth) ? w[ExtOffset + 32 +: 128] : w[ExtOffset +: 128];
    if (ext.reth || ext.atomic) begin
      d.reth_va    = swap64(reth[63:0]);
      d.reth_rkey  = swap32(reth[95:64]);
      d.reth_bytes = ext.reth ? swap32(reth[127:96]) : 32'd8;
    end
    if (HasAtomic && ext.atomic) begin
      d.swap_add = swap64(w[ExtOffset + 96 +: 64]);
      // A fetch and add without masks has one field, whatever stands there.
      if (base.masked || w[4:0] == BthRcCmpSwap[4:0]) d.compare = swap64(w[ExtOffset + 160 +: 64]);
      // Payload, whose length its receiver judges.
      d.masks = base.masked ? w[ExtOffset + 224 +: 128] : '1;
    end
    if (HasAtomic && ext.atomic_ack) d.swap_add = swap64(w[ExtOffset + 32 +: 64]);
    if (HasAtomic && ext.feth) d.swap_add = 64'(w[ExtOffset + 24 +: 8]);
    if (HasAtomic && ext.data8) d.swap_add = w[ExtOffset + 128 +: 64];
    if (ext.aeth) begin
      d.aeth_syndrome = w[ExtOffset +: 8];
      d.aeth_msn      = swap24(w[ExtOffset + 8 +: 24]);
    end
    if (ext.deth) begin
      d.deth_qkey    = swap32(w[ExtOffset +: 32]);
      d.deth_src_qpn = swap24(w[ExtOffset + 40 +: 24]);
    end
    if (ext.imm) begin
      if (ext.reth) d.imm = w[ExtOffset + 128 +: 32];
      else if (ext.deth) d.imm = w[ExtOffset + 64 +: 32];
      else d.imm = w[ExtOffset +: 32];
    end
    return d;
  endfunction

  logic [12:0] payload_bytes;

  assign payload_bytes = s4_len_q - s4_need_q;

  always_ff @(posedge clk_i) begin
    if (s3_go_q) begin
      s4_ok_q              <= s3_ok_q;
      s4_len_q             <= s3_len_q;
      s4_need_q            <= 13'(s3_hdr_len_q) + 13'(IcrcLen) + 13'(s3_win_q[13:12]);   // with the pad
      s4_rxd_q             <= fields(s3_rxd_q, s3_win_q, s3_ext_q);
      s4_rxd_q.payload_off <= s3_hdr_len_q;
      s4_raw_q             <= s3_raw_q;
      s4_lldp_q            <= s3_lldp_q;
      if (s3_raw_q) begin
        s4_need_q           <= '0;
        s4_rxd_q            <= s3_rxd_q;
        s4_rxd_q.kind       <= RxdRaw;
        s4_rxd_q.smp        <= 1'b1;     // no key is asked for
        s4_rxd_q.opcode     <= OpcodeRaw;
      end
    end
    if (s4_go_q) begin
      ok_q                <= s4_ok_q && s4_len_q >= s4_need_q && (payload_bytes <= 13'(MaxPayload) || s4_raw_q);
      raw_q               <= s4_raw_q;
      lldp_q              <= s4_lldp_q;
      rxd_q               <= s4_rxd_q;
      rxd_q.payload_bytes <= payload_bytes;
      // What looks like a request but has not its length is none.
      if (s4_rxd_q.kind == RxdAgent && payload_bytes != 13'(MadBytes)) rxd_q.kind <= s4_rxd_q.smp ? RxdSmi : RxdGsi;
    end
  end

  // What no rule has is nobody's, but for firmware's.
  assign ok_o   = ok_q && (!raw_q || lldp_q || rules_i != '0);
  assign lldp_o = lldp_q;

  always_comb begin
    rxd_o         = rxd_q;
    rxd_o.rules   = rules_i;
    rxd_o.csum_ok = csum_ok_i;
    if (lldp_q && rules_i == '0) rxd_o.kind = RxdAgent;
  end

endmodule
