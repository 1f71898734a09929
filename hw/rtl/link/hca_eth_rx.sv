// Ethernet side of the receiver: checks destination MAC and EtherType, strips the Ethernet header (14 bytes,
// 18 with a VLAN tag) so that the packet starts at byte 0 of its first beat. Never stalls; one beat per
// cycle; a beat comes out two or three cycles after its first byte. data_end and l3 are filled by hca_rx_l3.
module hca_eth_rx
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  port_cfg_t [NumPorts-1:0] port_cfg_i,  // MAC of each port
  input  logic        mac_valid_i,
  input  mac_t        mac_i,
  input  logic [PortW-1:0] mac_port_i,
  output logic        out_valid_o,
  output logic        out_first_o,
  output logic        out_last_o,
  output logic        out_bad_o,        // with first: not for us or not IP
  output logic        out_ipv6_o,       // with first
  output logic [PortW-1:0] out_port_o,
  output logic [6:0]  out_len_bytes_o,  // 0..64
  output beat_t       out_data_o
);

  logic        in_first_q, prev_valid_q, prev_first_q, prev_last_q, prev_vlan_q;
  logic [6:0]  in_len, prev_len_q, strip;
  beat_t       prev_q;
  logic [47:0] dmac;
  logic [PortW-1:0] prev_port_q, out_port_q;
  logic        in_vlan;
  logic [15:0] ethertype;
  logic        emit, absorb;   // absorb: the new beat ends the packet inside the strip
  logic        out_valid_q, out_first_q, out_last_q, out_bad_q, out_ipv6_q;
  logic [6:0]  out_len_q;
  beat_t       out_q;

  logic unused_bits;
  assign unused_bits = ^{prev_q[95:48], port_cfg_i};

  assign dmac      = port_cfg_i[prev_port_q].mac;
  assign in_len    = (mac_i.len_bytes > 7'd64 || !mac_i.last) ? 7'd64 : mac_i.len_bytes;
  assign in_vlan   = swap16(mac_i.data[8*12 +: 16]) == 16'(EthertypeVlan);
  assign strip     = prev_vlan_q ? 7'(EthBytes + VlanBytes) : 7'(EthBytes);
  assign ethertype = swap16(prev_vlan_q ? prev_q[8*16 +: 16] : prev_q[8*12 +: 16]);
  assign absorb    = prev_valid_q && !prev_last_q && mac_valid_i && mac_i.last && (in_len <= strip);
  assign emit      = prev_valid_q && (prev_last_q || mac_valid_i);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_first_q   <= 1'b1;
      prev_valid_q <= 1'b0;
      out_valid_q  <= 1'b0;
    end else begin
      if (mac_valid_i) in_first_q <= mac_i.last;
      if (mac_valid_i) prev_valid_q <= !absorb;
      else if (prev_last_q) prev_valid_q <= 1'b0;
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
      if (in_first_q) prev_vlan_q <= in_vlan;
    end
    if (emit) begin
      out_first_q <= prev_first_q;
      out_last_q  <= prev_last_q || absorb;
      // A group's frame is for whoever wants it: hca_rx_group knows.
      out_bad_q   <= (!prev_q[0] && prev_q[47:0] != {swap16(dmac[15:0]), swap32(dmac[47:16])}) ||
                     (ethertype != 16'(EthertypeIpv4) && ethertype != 16'(EthertypeIpv6));
      out_port_q  <= prev_port_q;
      out_ipv6_q  <= ethertype == 16'(EthertypeIpv6);
      if (prev_last_q) out_len_q <= (prev_len_q > strip) ? prev_len_q - strip : 7'd0;
      else if (absorb) out_len_q <= 7'd64 - strip + in_len;
      else out_len_q <= 7'd64;
      if (prev_vlan_q) out_q <= {mac_i.data[143:0], prev_q[511:144]};
      else out_q <= {mac_i.data[111:0], prev_q[511:112]};
    end
  end

  assign out_valid_o     = out_valid_q;
  assign out_first_o     = out_first_q;
  assign out_last_o      = out_last_q;
  assign out_bad_o       = out_bad_q;
  assign out_ipv6_o      = out_ipv6_q;
  assign out_port_o      = out_port_q;
  assign out_len_bytes_o = out_len_q;
  assign out_data_o      = out_q;

endmodule
