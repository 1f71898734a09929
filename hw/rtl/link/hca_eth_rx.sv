// Ethernet side of the receiver: checks destination MAC and EtherType, strips the Ethernet header (14 bytes,
// 18 with a VLAN tag) so that the packet starts at byte 0 of its first beat. Never stalls; one beat per
// cycle; a beat comes out two or three cycles after its first byte. data_end and l3 are filled by hca_rx_l3.
// What is no RoCEv2 packet for this port (its MAC address or a group's, UDP port 4791 behind IPv4 or IPv6) is a raw
// frame: it keeps its header, and only rules may take it.
// Where keep_i says so, a packet's beats have those of its frame beside them, as they came: as many, the last one
// perhaps without a byte of the packet.
// Packets of an InfiniBand port pass whole, in the same registers, each beat in two cycles; hca_ib_rx looks at their
// LRH.
module hca_eth_rx
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  port_cfg_t [NumPorts-1:0] port_cfg_i,  // MAC of each port
  input  logic [NumPorts-1:0] keep_i,           // with first
  input  logic        mac_valid_i,
  input  mac_t        mac_i,
  input  logic [PortW-1:0] mac_port_i,
  output logic        out_valid_o,
  output logic        out_first_o,
  output logic        out_last_o,
  output logic        out_ib_o,         // of an InfiniBand port
  output logic        out_bad_o,        // with first: that has no such packet
  output logic        out_long_o,       // with first: IPv6, or a GRH follows
  output logic        out_raw_o,        // with first
  output logic [PortW-1:0] out_port_o,
  output logic [6:0]  out_len_bytes_o,  // 0..64
  output beat_t       out_data_o,
  output logic        out_keep_o,       // with first: the frame is wanted
  output rx_frame_t   out_frame_o
);

  logic        in_first_q, prev_valid_q, prev_first_q, prev_last_q, prev_vlan_q;
  logic [6:0]  in_len, prev_len_q, strip;
  beat_t       prev_q;
  logic [47:0] dmac;
  logic [PortW-1:0] prev_port_q, out_port_q;
  logic        in_ib, in_vlan, in_raw, prev_ib_q, prev_raw_q, out_ib_q, out_raw_q, ib_bad, ib_global;
  logic [15:0] ethertype;
  logic        emit, short, absorb;   // short: the new beat ends the packet inside the strip; absorb: and is left away
  logic        in_keep, prev_keep_q, out_keep_q;
  rx_frame_t   out_frame_q;
  logic        out_valid_q, out_first_q, out_last_q, out_bad_q, out_long_q;
  logic [6:0]  out_len_q;
  beat_t       out_q;

  logic unused_bits;
  assign unused_bits = ^port_cfg_i;

  assign dmac      = port_cfg_i[mac_port_i].mac;
  assign in_len    = (mac_i.len_bytes > 7'd64 || !mac_i.last) ? 7'd64 : mac_i.len_bytes;
  assign in_vlan   = swap16(mac_i.data[8*12 +: 16]) == 16'(EthertypeVlan);
  assign in_ib     = port_cfg_i[mac_port_i].ib;
  assign in_raw    = !in_ib && ((!mac_i.data[0] && mac_i.data[47:0] != {swap16(dmac[15:0]), swap32(dmac[47:16])})
                     || !is_roce(in_vlan ? mac_i.data[511:32] : mac_i.data[479:0]));
  assign strip     = (prev_ib_q || prev_raw_q) ? 7'd0 : prev_vlan_q ? 7'(EthBytes + VlanBytes) : 7'(EthBytes);
  // By EtherType, protocol and destination port, of a frame without a VLAN tag or what is left without it. A later
  // fragment, and a header with options, is what it is by the same bytes: for the RDMA engine to refuse.
  function automatic logic is_roce(logic [479:0] frame);
    logic [15:0] kind;
    logic        unused_frame;
    unused_frame = ^frame;
    kind = swap16(frame[8*12 +: 16]);
    return (kind == 16'(EthertypeIpv4) && frame[8*23 +: 8] == 8'(IpProtoUdp)
            && swap16(frame[8*36 +: 16]) == 16'(RoceUdpPort))
           || (kind == 16'(EthertypeIpv6) && frame[8*20 +: 8] == 8'(IpProtoUdp)
               && swap16(frame[8*56 +: 16]) == 16'(RoceUdpPort));
  endfunction

  assign ethertype = swap16(prev_vlan_q ? prev_q[8*16 +: 16] : prev_q[8*12 +: 16]);
  assign in_keep   = HasRaw && keep_i[mac_port_i] && !in_raw && !in_ib;
  assign short     = prev_valid_q && !prev_last_q && !prev_ib_q && mac_valid_i && mac_i.last && (in_len <= strip);
  assign absorb    = short && !prev_keep_q;
  assign emit      = prev_valid_q && (prev_last_q || prev_ib_q || mac_valid_i);

  hca_ib_rx u_ib (
    .cfg_i   (port_cfg_i[prev_port_q]),
    .lrh_i   (prev_q[31:0]),
    .bad_o   (ib_bad),
    .global_o(ib_global)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_first_q   <= 1'b1;
      prev_valid_q <= 1'b0;
      out_valid_q  <= 1'b0;
    end else begin
      if (mac_valid_i) in_first_q <= mac_i.last;
      if (mac_valid_i) prev_valid_q <= !absorb;
      else if (prev_last_q || prev_ib_q) prev_valid_q <= 1'b0;
      out_valid_q <= emit;
    end
  end

  always_ff @(posedge clk_i) begin
    if (mac_valid_i) begin
      prev_first_q <= in_first_q;
      prev_last_q  <= mac_i.last;
      prev_len_q   <= in_len;
      prev_q       <= mac_i.data;
      prev_port_q  <= mac_port_i;
      if (in_first_q) {prev_ib_q, prev_vlan_q, prev_raw_q, prev_keep_q} <= {in_ib, in_vlan, in_raw, in_keep};
    end
    if (emit) begin
      out_first_q <= prev_first_q;
      out_last_q  <= prev_last_q || absorb;
      // A group's packet is for whoever wants it: hca_rx_group knows.
      out_raw_q   <= prev_raw_q;
      out_port_q  <= prev_port_q;
      out_ib_q    <= prev_ib_q;
      out_bad_q   <= prev_ib_q && ib_bad;
      out_long_q  <= prev_ib_q ? ib_global : ethertype == 16'(EthertypeIpv6);
      if (prev_last_q) out_len_q <= (prev_len_q > strip) ? prev_len_q - strip : 7'd0;
      else if (short) out_len_q <= 7'd64 - strip + in_len;
      else out_len_q <= 7'd64;
      if (prev_ib_q || prev_raw_q) out_q <= prev_q;
      else if (prev_vlan_q) out_q <= {mac_i.data[143:0], prev_q[511:144]};
      else out_q <= {mac_i.data[111:0], prev_q[511:112]};
      out_keep_q  <= prev_keep_q;
      out_frame_q <= '{lead: strip[4:0], len_bytes: prev_len_q, data: prev_q};
    end
  end

  assign out_valid_o     = out_valid_q;
  assign out_first_o     = out_first_q;
  assign out_last_o      = out_last_q;
  assign out_raw_o       = out_raw_q;
  assign out_ib_o        = out_ib_q;
  assign out_bad_o       = out_bad_q;
  assign out_long_o      = out_long_q;
  assign out_port_o      = out_port_q;
  assign out_len_bytes_o = out_len_q;
  assign out_data_o      = out_q;
  assign out_keep_o      = out_keep_q;
  assign out_frame_o     = out_frame_q;

endmodule
