// Receive side of the wire: frames in, descriptors of good packets out, the packets themselves in the
// receive buffer (from the IP header or LRH on). Takes one beat per cycle for ever (`mac_ready_o` is 1);
// what is bad or finds no room is dropped and counted, for the packet's port. A source that can wait looks at
// `room_o` before each packet and loses nothing. `rxd` may stall. Details: README.md.
module hca_rx_wire
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_mad_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  input  port_cfg_t [NumPorts-1:0] port_cfg_i,
  input  rule_wr_t          rule_wr_i,    // rules for frames
  output logic              rule_busy_o,  // its row holds
  input  logic              qpc_wr_valid_i, // who has which line
  input  qpc_wr_t           qpc_wr_i,
  input  line_shut_t        shut_i,
  input  logic              mac_valid_i,
  output logic              mac_ready_o,
  input  mac_t              mac_i,
  input  logic [PortW-1:0]  mac_port_i,   // of the packet, beside each beat
  output logic              room_o,       // room for a packet of maximal size from each source
  output logic              rxd_valid_o,
  input  logic              rxd_ready_i,
  output rxd_t              rxd_o,
  input  logic              buf_re_i,
  input  logic [RxBufW:0]   buf_raddr_i,
  output beat_t             buf_rdata_o,
  input  logic              buf_free_i,
  input  logic [6:0]        buf_free_beats_i,
  input  rx_place_t         buf_free_place_i,
  output logic              filling_o,    // the buffer: no time for sniffers
  output mad_beat_t         mad_o,        // the packets on their way into the buffer, for hca_mad_rx
  output rx_ended_t [NumPorts-1:0] ended_o
);

  localparam int unsigned DescDepth = SmallPools ? 32 : 64;

  logic        eth_valid, eth_first, eth_last, eth_ib, eth_bad, eth_long, eth_raw;
  logic [6:0]  eth_len;
  logic [PortW-1:0] eth_port;
  beat_t       eth_data;
  logic        l3_valid;
  rx_beat_t    l3_beat;
  logic [12:0] l3_len;
  logic        icrc_ok, vcrc_ok, parse_ok, lldp;
  rxd_t        parsed, packet;
  logic [NumPorts-1:0] keep;
  logic        eth_keep, l3_store;
  rx_frame_t   eth_frame;
  rx_kept_t    l3_kept, kept;
  beat_t       l3_store_data;
  logic [Rules-1:0] sniffers;
  logic        late_valid, late_last, late_bad, late_store;
  beat_t       late_data;

  assign mac_ready_o = 1'b1;

  hca_eth_rx u_eth (
    .clk_i,
    .rst_i,
    .port_cfg_i,
    .keep_i         (keep),
    .mac_valid_i,
    .mac_i,
    .mac_port_i,
    .out_valid_o    (eth_valid),
    .out_first_o    (eth_first),
    .out_last_o     (eth_last),
    .out_ib_o       (eth_ib),
    .out_bad_o      (eth_bad),
    .out_long_o     (eth_long),
    .out_raw_o      (eth_raw),
    .out_port_o     (eth_port),
    .out_len_bytes_o(eth_len),
    .out_data_o     (eth_data),
    .out_keep_o     (eth_keep),
    .out_frame_o    (eth_frame)
  );

  hca_rx_l3 u_l3 (
    .clk_i,
    .rst_i,
    .ib_i          (eth_ib),
    .in_valid_i    (eth_valid),
    .in_port_i     (eth_port),
    .in_first_i    (eth_first),
    .in_last_i     (eth_last),
    .in_bad_i      (eth_bad),
    .in_raw_i      (eth_raw),
    .in_long_i     (eth_long),
    .in_len_bytes_i(eth_len),
    .in_data_i     (eth_data),
    .in_keep_i     (eth_keep),
    .in_frame_i    (eth_frame),
    .out_valid_o   (l3_valid),
    .out_o         (l3_beat),
    .out_l3_len_o  (l3_len),
    .out_kept_o    (l3_kept),
    .out_store_o   (l3_store),
    .out_store_data_o(l3_store_data)
  );

  hca_rx_crc u_crc (
    .clk_i,
    .rst_i,
    .valid_i  (l3_valid),
    .beat_i   (l3_beat),
    .icrc_ok_o(icrc_ok),
    .vcrc_ok_o(vcrc_ok)
  );

  logic [NumPorts-1:0][2:0] lmc;
  for (genvar p = 0; p < NumPorts; p++) begin : gen_lmc
    assign lmc[p] = port_cfg_i[p].lmc;
  end

  // Frames: which rules have it, and are its checksums right?
  rule_key_t        key;
  logic [Rules-1:0] rules;
  logic             csum_ok;

  if (HasRaw) begin : gen_rules
    frame_sums_t sums;

    // Sniffers look at nothing: what else would match a packet without its header does not count.
    hca_rx_match u_match (
      .clk_i,
      .rst_i,
      .rule_wr_i,
      .busy_o (rule_busy_o),
      .valid_i(l3_valid && (l3_beat.l3 == L3Raw || l3_kept.keep)),
      .beat_i (l3_beat),
      .key_o  (key),
      .rules_o(rules)
    );

    hca_frame_sums #(
      .SkipFields(1'b0)
    ) u_sums (
      .clk_i,
      .valid_i(l3_valid && l3_beat.l3 == L3Raw),
      .first_i(l3_beat.first),
      .last_i (l3_beat.last),
      .len_i  (l3_beat.len_bytes),
      .data_i (l3_beat.data),
      .sums_o (sums)
    );

    logic unused_sums;
    assign unused_sums = ^{sums.is_udp, sums.vlan};
    assign csum_ok = sums.is_ip && sums.is_l4 && !sums.no_csum && sums.ip == 16'hffff && sums.l4 == 16'hffff;
  end else begin : gen_no_rules
    assign rule_busy_o = 1'b0;
    assign key         = '0;
    assign rules       = '0;
    assign csum_ok     = 1'b0;
  end

  hca_rx_parse u_parse (
    .clk_i,
    .rst_i,
    .lmc_i   (lmc),
    .valid_i (l3_valid),
    .beat_i  (l3_beat),
    .l3_len_i(l3_len),
    .key_i   (key),
    .rules_i (rules),
    .csum_ok_i(csum_ok),
    .ok_o    (parse_ok),
    .lldp_o  (lldp),
    .rxd_o   (parsed)
  );

  if (HasRaw) begin : gen_sniff
    hca_rx_sniff u_sniff (
      .clk_i,
      .rst_i,
      .rule_wr_i,
      .keep_o (keep),
      .last_i (l3_valid && l3_beat.last),
      .kept_i (l3_kept),
      .rules_i(rules),
      .kept_o (kept),
      .rules_o(sniffers)
    );
  end else begin : gen_no_sniff
    logic unused_sniff;
    assign unused_sniff = ^{rule_wr_i, l3_kept};
    assign keep         = '0;
    assign kept         = '0;
    assign sniffers     = '0;
  end

  logic unused_kept;
  assign unused_kept = kept.fits;

  always_comb begin
    packet = parsed;
    if (parsed.kind != RxdRaw && !lldp) begin
      packet.csum_ok     = 1'b0;
      packet.rules       = sniffers;
      packet.frame_bytes = kept.bytes;
      packet.lead        = kept.keep ? kept.lead : '0;
    end
  end

  hca_rx_delay u_delay (
    .clk_i,
    .rst_i,
    .valid_i(l3_valid),
    .beat_i (l3_beat),
    .store_i(l3_store),
    .data_i (l3_store_data),
    .valid_o(late_valid),
    .last_o (late_last),
    .bad_o  (late_bad),
    .store_o(late_store),
    .data_o (late_data)
  );

  logic away, unused_qpc;
  assign unused_qpc = ^{qpc_wr_valid_i, qpc_wr_i, shut_i};

  if (HasContextMemory) begin : gen_home
    hca_rx_home u_home (
      .clk_i, .rst_i, .wr_valid_i(qpc_wr_valid_i), .wr_line_i(qpc_wr_i.qpn), .wr_swap_i(qpc_wr_i.swap),
      .wr_shared_i(qpc_wr_i.qpc.is_shared), .wr_gen_i(qpc_wr_i.qpc.qpn[23:QpW]), .shut_i, .valid_i(l3_valid),
      .beat_i(l3_beat), .away_o(away)
    );
  end else begin : gen_no_home
    assign away = 1'b0;
  end

  logic                       good;
  logic [RxBufW:0]            buf_used;
  logic [$clog2(DescDepth):0] buf_descs;

  hca_rx_room #(
    .DescDepth(DescDepth)
  ) u_room (
    .clk_i,
    .rst_i,
    .mac_valid_i,
    .mac_last_i(mac_i.last),
    .used_i    (buf_used),
    .descs_i   (buf_descs),
    .room_o
  );

  hca_rx_buf #(
    .DescDepth(DescDepth)
  ) u_buf (
    .clk_i,
    .rst_i,
    .valid_i   (late_valid),
    .store_i   (late_store),
    .last_i    (late_last),
    .bad_i     (late_bad),
    .vcrc_ok_i (vcrc_ok),
    .icrc_ok_i (icrc_ok),
    .parse_ok_i(parse_ok),
    .raw_i     (parsed.kind == RxdRaw || lldp),
    .sniffed_i (sniffers != '0),
    .away_i    (away),
    .rxd_i     (packet),
    .data_i    (late_data),
    .rxd_valid_o,
    .rxd_ready_i,
    .rxd_o,
    .buf_re_i,
    .buf_raddr_i,
    .buf_rdata_o,
    .buf_free_i,
    .buf_free_beats_i,
    .buf_free_place_i,
    .used_o    (buf_used),
    .descs_o   (buf_descs),
    .filling_o,
    .good_o    (good),
    .ended_o
  );

  assign mad_o = '{valid: late_valid, store: late_store, last: late_last,
                   take: good && (parsed.kind == RxdAgent || lldp), port: parsed.port,
                   bytes: parsed.payload_bytes[9:0], data: late_data};

endmodule
