// Which rules have a frame: compares what rules may look at (rule_key_t) with all of them at once, and takes out those
// that yield to another one that matches. rules_o belongs to the frame whose last beat came five cycles ago and holds
// until the next one's. Takes beats of frames alone; all that it looks at is in the first. Never stalls, one frame per
// cycle. A rule counts from the cycle after its write.
module hca_rx_match
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic             clk_i,
  input  rule_wr_t         rule_wr_i,
  input  logic             valid_i,
  input  rx_beat_t         beat_i,
  output rule_key_t        key_o,     // of the frame whose last beat came two cycles ago
  output logic [Rules-1:0] rules_o
);

  localparam int unsigned ShortHead = 14;   // bytes of the Ethernet header without a VLAN tag
  localparam logic [7:0]  Tcp = 8'd6;

  typedef struct packed {
    logic             valid;
    logic [PortW-1:0] port;
    logic [Rules-1:0] yields;
    rule_key_t        value;
    rule_key_t        mask;
  } rule_t;

  rule_t [Rules-1:0] rules_q;
  logic              unused_in;

  assign unused_in = ^{rule_wr_i, beat_i};

  always_ff @(posedge clk_i) begin
    if (rule_wr_i.valid) begin
      rules_q[rule_wr_i.index] <= '{valid: rule_wr_i.row.valid, port: PortW'(rule_wr_i.row.port),
                                    yields: rule_wr_i.row.yields, value: rule_wr_i.row.value,
                                    mask: rule_wr_i.row.mask};
    end
  end

  // Stage 1: the first beat. What is not of the frame is 0.
  logic             s1_go_q, s2_go_q, s3_go_q, s4_go_q;
  logic             in_vlan, vlan_q;
  beat_t            in_data;
  logic [8*ShortHead-17:0] macs_q;
  logic [15:0]      tag_q, type_q;
  logic [8*50-1:0]  net_q;   // behind the Ethernet header
  logic [PortW-1:0] s1_port_q, s2_port_q;
  // Stage 2: the key. Stage 3: matches of each part. Stage 4: matches. Stage 5: those that yield to none, which hold.
  localparam int unsigned Parts = 8, PartW = $bits(rule_key_t) / Parts;
  rule_key_t        key, key_q;
  logic [Rules-1:0][Parts-1:0] part_q;
  logic [Rules-1:0] there_q, match_q, rules_out_q;

  assign in_data = beat_i.data & ~({DataW{1'b1}} << {beat_i.len_bytes, 3'b000});
  assign in_vlan = swap16(in_data[8*12 +: 16]) == 16'(EthertypeVlan);

  always_ff @(posedge clk_i) begin
    s1_go_q <= valid_i && beat_i.last;
    s2_go_q <= s1_go_q;
    s3_go_q <= s2_go_q;
    s4_go_q <= s3_go_q;
    if (valid_i && beat_i.first) begin
      macs_q <= in_data[95:0];
      vlan_q <= in_vlan;
      tag_q  <= in_vlan ? in_data[8*14 +: 16] : '0;
      type_q <= in_vlan ? in_data[8*16 +: 16] : in_data[8*12 +: 16];
      net_q  <= (8*50)'(in_vlan ? in_data[511:8*(ShortHead+4)] : in_data[511:8*ShortHead]);
    end
    if (valid_i && beat_i.last) s1_port_q <= beat_i.port;
  end

  // Network and transport header by the bytes behind the Ethernet header.
  function automatic rule_key_t net_key(rule_key_t base, logic [8*50-1:0] net);
    rule_key_t   k;
    logic [8*4-1:0] ports;
    logic        first, unused_net;
    unused_net = ^net;
    k     = base;
    ports = '0;
    first = 1'b0;
    if (k.ether_type == {8'h00, 8'h08} && net[7:0] == 8'h45) begin
      k.is_ipv4     = 1'b1;
      k.tos         = net[8*1 +: 8];
      k.ip_flags    = net[8*6+5 +: 2];
      k.ttl         = net[8*8 +: 8];
      k.proto       = net[8*9 +: 8];
      k.src_ip[31:0] = net[8*12 +: 32];
      k.dst_ip[31:0] = net[8*16 +: 32];
      ports         = net[8*20 +: 32];
      first         = {net[8*6 +: 5], net[8*7 +: 8]} == '0;
    end else if (k.ether_type == {8'hdd, 8'h86} && net[7:4] == 4'd6) begin
      k.is_ipv6     = 1'b1;
      k.tos         = {net[3:0], net[15:12]};
      k.flow_label  = {net[8*3 +: 8], net[8*2 +: 8], 4'd0, net[8*1 +: 4]};
      k.proto       = net[8*6 +: 8];
      k.ttl         = net[8*7 +: 8];
      k.src_ip      = net[8*8 +: 128];
      k.dst_ip      = net[8*24 +: 128];
      ports         = net[8*40 +: 32];
      first         = 1'b1;
    end
    k.is_tcp = first && k.proto == Tcp;
    k.is_udp = first && k.proto == 8'(IpProtoUdp);
    if (k.is_tcp || k.is_udp) {k.dst_port, k.src_port} = ports;
    return k;
  endfunction

  always_comb begin
    key            = '0;
    key.dmac       = macs_q[47:0];
    key.smac       = macs_q[95:48];
    key.has_vlan   = vlan_q;
    key.vlan       = tag_q;
    key.ether_type = type_q;
    key            = net_key(key, net_q);
  end

  always_ff @(posedge clk_i) begin
    if (s1_go_q) {key_q, s2_port_q} <= {key, s1_port_q};
    for (int unsigned i = 0; i < Rules; i++) begin
      if (s2_go_q) begin
        // With the same row as the parts: one that is written meanwhile must not borrow the matches of an empty one.
        there_q[i] <= rules_q[i].valid && rules_q[i].port == s2_port_q;
        for (int unsigned j = 0; j < Parts; j++) begin
          part_q[i][j] <= (key_q[PartW*j +: PartW] & rules_q[i].mask[PartW*j +: PartW])
                          == rules_q[i].value[PartW*j +: PartW];
        end
      end
      if (s3_go_q) match_q[i] <= (&part_q[i]) && there_q[i];
      if (s4_go_q) rules_out_q[i] <= match_q[i] && (match_q & rules_q[i].yields) == '0;
    end
  end

  assign key_o   = key_q;
  assign rules_o = rules_out_q;

endmodule
