// Which rules have a frame: compares what rules may look at (rule_key_t) with all of them at once, and takes out those
// that yield to another one that matches. rules_o belongs to the frame whose last beat came five cycles ago and holds
// until the next one's. Takes beats of frames alone; all that it looks at is in the first. Never stalls, one frame per
// cycle.
//
// A rule is not kept as value and mask, which 32 comparisons would cost 33,000 flip-flops, but as its answers: for each
// five bits of the key there is a row of 32 words (hca_rule_slice). To write one takes a cycle for each value of five
// bits, while busy_o is high; rule_wr_i.row holds until it falls, and no other rule comes. A rule that is not valid
// counts for nothing from the cycle after its write, a new one from the end of this time on. A valid one may be written
// again, with another `yields`: its answers stay the same. To look at something else it is made invalid first. Each
// frame has the rules of one moment, before a write or after it (tests/rtl/wire/test_rx_match.py).
module hca_rx_match
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_i,
  input  rule_wr_t         rule_wr_i,
  output logic             busy_o,
  input  logic             valid_i,
  input  rx_beat_t         beat_i,
  output rule_key_t        key_o,     // of the frame whose last beat came two cycles ago
  output logic [Rules-1:0] rules_o
);

  localparam int unsigned ShortHead = 14;   // bytes of the Ethernet header without a VLAN tag
  localparam logic [7:0]  Tcp = 8'd6;

  // Stage 1: the first beat. What is not of the frame is 0.
  logic             unused_in;
  logic             s1_go_q, s2_go_q, s3_go_q, s4_go_q;
  logic             in_vlan, vlan_q;
  beat_t            in_data;
  logic [8*ShortHead-17:0] macs_q;
  logic [15:0]      tag_q, type_q;
  logic [8*50-1:0]  net_q;   // behind the Ethernet header
  logic [PortW-1:0] s1_port_q, s2_port_q;
  // Stage 2: the key. Stage 3: matches of each part. Stage 4: matches. Stage 5: those that yield to none, which hold.
  localparam int unsigned Parts = 8, PartW = $bits(rule_key_t) / Parts, Slices = (PartW + 4) / 5;
  rule_key_t        key, key_q;
  logic [Parts-1:0][Rules-1:0] part_q;
  logic [Rules-1:0] there_q, match_q, rules_out_q;

  assign unused_in = ^{rule_wr_i, beat_i};
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

  // ---- Rules -------------------------------------------------------------------------------------------------
  logic [Rules-1:0]             valid_q, write_rule;
  logic [PortW-1:0]             port_q [Rules];
  logic [Rules-1:0]             yields_q [Rules];
  logic                         busy_q;
  logic [4:0]                   step_q;
  rule_key_t                    value, mask;

  assign write_rule = Rules'(1) << rule_wr_i.index;
  assign value      = rule_wr_i.row.value;
  assign mask       = rule_wr_i.row.mask;
  assign busy_o     = busy_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      busy_q  <= 1'b0;
      valid_q <= '0;
    end else begin
      if (rule_wr_i.valid) busy_q <= rule_wr_i.row.valid;
      else if (&step_q) busy_q <= 1'b0;
      if (rule_wr_i.valid && !rule_wr_i.row.valid) valid_q <= valid_q & ~write_rule;
      else if (busy_q && (&step_q)) valid_q <= valid_q | write_rule;
    end
    if (rule_wr_i.valid) port_q[rule_wr_i.index] <= PortW'(rule_wr_i.row.port);
    // Stage 4 looks two cycles after stage 2: frames that have matched the rule as it was yield as it did.
    if (busy_q && step_q == 5'd1) yields_q[rule_wr_i.index] <= rule_wr_i.row.yields;
    step_q <= busy_q ? step_q + 1'b1 : '0;
  end

  for (genvar p = 0; p < int'(Parts); p++) begin : gen_part
    localparam int unsigned SlicedW = 5 * Slices;
    logic [SlicedW-1:0]           part_key, part_value, part_mask;
    logic [Slices-1:0][Rules-1:0] accept;
    logic [Rules-1:0]             accepted;

    assign part_key   = SlicedW'(key_q[PartW*p +: PartW]);
    assign part_value = SlicedW'(value[PartW*p +: PartW]);
    assign part_mask  = SlicedW'(mask[PartW*p +: PartW]);

    for (genvar s = 0; s < int'(Slices); s++) begin : gen_slice
      hca_rule_slice #(
        .Rules(Rules)
      ) u_slice (
        .clk_i,
        .set_valid_i(busy_q),
        .set_rule_i (write_rule),
        .set_bits_i (step_q),
        .accepts_i  ((step_q & part_mask[5*s +: 5]) == part_value[5*s +: 5]),
        .bits_i     (part_key[5*s +: 5]),
        .accept_o   (accept[s])
      );
    end

    always_comb begin
      accepted = '1;
      for (int unsigned s = 0; s < Slices; s++) accepted &= accept[s];
    end

    always_ff @(posedge clk_i) begin
      if (s2_go_q) part_q[p] <= accepted;
    end
  end

  // ---- Stages 2 to 5 -----------------------------------------------------------------------------------------
  logic [Rules-1:0] met;

  always_comb begin
    met = there_q;
    for (int unsigned p = 0; p < Parts; p++) met &= part_q[p];
  end

  always_ff @(posedge clk_i) begin
    if (s1_go_q) {key_q, s2_port_q} <= {key, s1_port_q};
    if (s3_go_q) match_q <= met;
    for (int unsigned i = 0; i < Rules; i++) begin
      if (s2_go_q) there_q[i] <= valid_q[i] && port_q[i] == s2_port_q;
      if (s4_go_q) rules_out_q[i] <= match_q[i] && (match_q & yields_q[i]) == '0;
    end
  end

  assign key_o   = key_q;
  assign rules_o = rules_out_q;

endmodule
