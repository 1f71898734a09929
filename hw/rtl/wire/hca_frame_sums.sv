// One's complement sums (RFC 1071) of an IPv4 frame: of its header, and of what it carries with the pseudo header, TCP
// or UDP. A sum over a right checksum is 0xffff. SkipFields: the checksums themselves count as 0 (what is to be filled
// in is the inverse of the sum). Results belong to the frame whose last beat came five cycles ago and hold until the
// next one's. Never stalls, one beat per cycle. A header with options, a fragment, a length beyond the frame: the
// result says that there is nothing to vouch for. No control state: beats of a frame come in order.
module hca_frame_sums
  import hca_pkg::*;
  import hca_wire_pkg::*;
#(
  parameter bit SkipFields = 1'b0
) (
  input  logic        clk_i,
  input  logic        valid_i,
  input  logic        first_i,
  input  logic        last_i,
  input  logic [6:0]  len_i,
  input  beat_t       data_i,
  output frame_sums_t sums_o
);

  localparam logic [7:0] Tcp = 8'd6;

  // Stage 1: the beat and, with the first one, what its headers say.
  logic        s1_valid_q, s1_first_q, s1_last_q;
  beat_t       s1_data_q;
  logic [12:0] base_q;                    // bytes before the beat
  logic [6:0]  s1_beat_q;                 // its number: all but the last are full
  logic        vlan, ip, l4, is_udp;
  logic [1:0]  ips, udps, l4s;            // the same if there is no VLAN tag, if there is one
  logic        vlan_q, ip_q, l4_q, udp_q;
  logic [15:0] l4_len_q;
  logic [15:0] end_q;                     // where the IP packet ends, from the first byte of the frame
  logic [15:0] total;
  logic [8*40-1:0] net;                   // the IPv4 header and 20 bytes
  logic        unused_net;

  assign vlan   = swap16(data_i[8*12 +: 16]) == 16'(EthertypeVlan);
  assign net    = vlan ? data_i[8*18 +: 8*40] : data_i[8*14 +: 8*40];
  assign total  = swap16(net[8*2 +: 16]);
  assign ip     = ips[vlan];
  assign is_udp = udps[vlan];
  assign l4     = l4s[vlan];
  assign unused_net = ^net;

  // Whether there is a tag is known as late as the rest: it selects.
  for (genvar v = 0; v < 2; v++) begin : gen_way
    logic [159:0] way;
    logic [15:0]  bytes;
    logic         whole, unused_way;   // no shorter than its header

    assign way     = data_i[8*(14 + 4*v) +: 160];
    assign unused_way = ^{way, bytes};
    assign bytes   = swap16(way[8*2 +: 16]);
    assign whole   = bytes[15:5] != '0 || bytes[4:2] >= 3'd5;
    assign ips[v]  = swap16(data_i[8*(12 + 4*v) +: 16]) == 16'(EthertypeIpv4) && way[7:0] == 8'h45;
    assign udps[v] = way[8*9 +: 8] == 8'(IpProtoUdp);
    assign l4s[v]  = ips[v] && (way[8*6 +: 16] & 16'hff3f) == '0 && whole && (udps[v] || way[8*9 +: 8] == Tcp);
  end

  always_ff @(posedge clk_i) begin
    s1_valid_q <= valid_i;
    if (valid_i) begin
      s1_first_q <= first_i;
      s1_last_q  <= last_i;
      s1_data_q  <= data_i & ~({DataW{1'b1}} << {len_i, 3'b000});
      s1_beat_q  <= first_i ? '0 : base_q[12:6];
      base_q     <= (first_i ? 13'd0 : base_q) + 13'(len_i);
      if (first_i) begin
        vlan_q   <= vlan;
        ip_q     <= ip;
        l4_q     <= l4;
        udp_q    <= is_udp;
        l4_len_q <= total - 16'd20;
        end_q    <= total + (vlan ? 16'd18 : 16'd14);
      end
    end
  end

  // Stage 2: what counts, header and payload apart; the checksum of TCP is 16 bytes behind its header's beginning, of
  // UDP 6.
  logic         s2_valid_q, s2_first_q, s2_last_q, s2_fits_q, s2_udp_q, s2_ip_q, s2_l4_q, s2_vlan_q, s2_none_q;
  logic [159:0] s2_ip_hdr_q;
  logic [15:0]  s2_l4_len_q;
  beat_t        s2_data_q, counted;
  logic [5:0]   l4_off;
  logic [6:0]   field;
  logic [6:0]   ends;
  logic [9:0]   beat;

  assign l4_off = vlan_q ? 6'd38 : 6'd34;
  assign field  = 7'(l4_off) + (udp_q ? 7'd6 : 7'd16);
  assign beat   = 10'(s1_beat_q);
  assign ends   = (end_q[15:6] < beat) ? 7'd0 : (end_q[15:6] > beat) ? 7'd64 : {1'b0, end_q[5:0]};

  always_comb begin
    counted = s1_data_q & ~({DataW{1'b1}} << {ends, 3'b000});
    if (s1_first_q) begin
      counted = counted & ({DataW{1'b1}} << {l4_off, 3'b000});
      if (SkipFields) counted = counted & ~(512'hffff << {field, 3'b000});
    end
    if (!l4_q) counted = '0;
  end

  always_ff @(posedge clk_i) begin
    s2_valid_q <= s1_valid_q;
    if (s1_valid_q) begin
      s2_first_q <= s1_first_q;
      s2_last_q  <= s1_last_q;
      s2_data_q  <= counted;
      if (s1_first_q) begin
        s2_ip_hdr_q <= vlan_q ? s1_data_q[8*18 +: 160] : s1_data_q[8*14 +: 160];
        if (SkipFields) s2_ip_hdr_q[8*10 +: 16] <= '0;
        s2_none_q   <= udp_q && s1_data_q[{field[5:0], 3'b000} +: 16] == '0;
      end
      {s2_udp_q, s2_ip_q, s2_l4_q, s2_vlan_q} <= {udp_q, ip_q, l4_q, vlan_q};
      s2_l4_len_q <= l4_len_q;
      s2_fits_q   <= end_q <= 16'(base_q);   // with the last beat
    end
  end

  // Stage 3: eight parts of the beat, the two of the headers.
  function automatic logic [17:0] four(logic [63:0] words);
    return 18'(swap16(words[15:0])) + 18'(swap16(words[31:16])) + 18'(swap16(words[47:32]))
           + 18'(swap16(words[63:48]));
  endfunction

  logic             s3_valid_q, s3_first_q, s3_last_q;
  logic [7:0][17:0] parts_q;
  logic [19:0]      ip_part_q, pseudo_q;
  frame_sums_t      s3_q;

  always_ff @(posedge clk_i) begin
    s3_valid_q <= s2_valid_q;
    if (s2_valid_q) begin
      s3_first_q <= s2_first_q;
      s3_last_q  <= s2_last_q;
      for (int unsigned i = 0; i < 8; i++) parts_q[i] <= four(s2_data_q[64*i +: 64]);
      ip_part_q  <= 20'(four(s2_ip_hdr_q[63:0])) + 20'(four(s2_ip_hdr_q[127:64]))
                    + 20'(swap16(s2_ip_hdr_q[143:128])) + 20'(swap16(s2_ip_hdr_q[159:144]));
      pseudo_q   <= 20'(four(s2_ip_hdr_q[159:96])) + 20'(s2_ip_hdr_q[8*9 +: 8]) + 20'(s2_l4_len_q);
      s3_q       <= '{is_ip: s2_ip_q && s2_fits_q, is_l4: s2_l4_q && s2_fits_q, is_udp: s2_udp_q, vlan: s2_vlan_q,
                      no_csum: s2_none_q, ip: '0, l4: '0};
    end
  end

  function automatic logic [19:0] half(logic [3:0][17:0] parts);
    return 20'(parts[0]) + 20'(parts[1]) + (20'(parts[2]) + 20'(parts[3]));
  endfunction

  // Stage 4: the sum so far. Stage 5: folded.
  function automatic logic [15:0] fold(logic [27:0] sum);
    logic [16:0] once;
    once = 17'(sum[15:0]) + 17'(sum[27:16]);
    return once[15:0] + 16'(once[16]);
  endfunction

  logic        s4_valid_q;
  logic [27:0] acc_q, ip_acc_q;
  frame_sums_t s4_q, out_q;

  always_ff @(posedge clk_i) begin
    s4_valid_q <= s3_valid_q && s3_last_q;
    if (s3_valid_q) begin
      acc_q <= (s3_first_q ? 28'(pseudo_q) : acc_q)
               + 28'(half(parts_q[3:0])) + 28'(half(parts_q[7:4]));
      ip_acc_q <= 28'(ip_part_q);
      s4_q     <= s3_q;
    end
    if (s4_valid_q) begin
      out_q    <= s4_q;
      out_q.ip <= fold(ip_acc_q);
      out_q.l4 <= fold(acc_q);
    end
  end

  assign sums_o = out_q;

endmodule
