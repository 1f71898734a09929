// The ports of the card: one pair of wire blocks and one loopback, which they share, and a link and counters for each.
// Wiring only. Transmit: descriptors and payload become packets (hca_tx_wire); those for their own port turn round
// (hca_loopback), the others wait in their VL's ring of their port (hca_link). Receive: packets from the rings of all
// ports and looped ones take turns, each only when the receiver has room for it, and carry the number of their port.
module hca_ports
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_link_pkg::*;
  import hca_mad_pkg::*;
  import hca_wire_pkg::tx_beat_t;
(
  input  logic                      clk_i,
  input  logic [PartCounters:PartTxWire] pclk_i,     // the same clock, for each part (hca_part_clock)
  input  logic                      rst_i,
  input  logic [63:0]               now_i,
  input  port_cfg_t [NumPorts-1:0]  port_cfg_i,
  input  logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_i,
  input  link_wr_t                  link_wr_i,
  input  logic                      qpc_wr_valid_i,
  output logic                      qpc_wr_ready_o,
  input  qpc_wr_t                   qpc_wr_i,
  input  line_shut_t                shut_i,
  input  av_wr_t                    av_wr_i,
  input  gid_wr_t                   gid_wr_i,
  input  rule_wr_t                  rule_wr_i,
  output logic                      rule_busy_o,
  input  rss_wr_t                   rss_wr_i,
  input  rss_qp_wr_t                rss_qp_wr_i,
  input  logic                      group_wr_valid_i,
  output logic                      group_wr_ready_o,
  input  group_wr_t                 group_wr_i,
  // Transmit.
  input  logic                      ack_valid_i,
  output logic                      ack_ready_o,
  input  txp_t                      ack_i,
  input  logic                      txp_hold_i,      // none is taken now
  input  logic                      txp_valid_i,
  output logic                      txp_ready_o,
  input  txp_t                      txp_i,
  input  logic                      pay_valid_i,
  output logic                      pay_ready_o,
  input  pay_t                      pay_i,
  output logic [15:0]               resp_done_seq_o,
  output logic                      sent_o,
  output txp_t                      sent_txp_o,
  output logic [NumPorts-1:0]       ib_o,            // personality of each port
  output eth_class_t [NumPorts-1:0] class_o,         // Ethernet ports: priorities
  output logic [NumLanes-1:0]       sl_open_o,       // lanes whose VL takes more packets
  input  logic                      upd_i,           // strobe: a QP's acknowledges have got further
  input  ack_upd_t                  upd_data_i,
  input  logic [1:0]                cc_sent_valid_i, // congestion control: what QPs have sent, and their rates
  output logic [1:0]                cc_sent_ready_o,
  input  cc_sent_t [1:0]            cc_sent_i,
  output cc_pace_t [NumPorts-1:0]   cc_pace_o,
  output cc_rate_wr_t               cc_rate_o,
  input  logic [1:0]                made_valid_i,    // packets of the two schedulers
  input  tx_made_t [1:0]            made_i,
  input  logic [1:0]                left_i,          // that have left the gather
  input  lane_ask_t                 lane_ask_i,      // which ring; next cycle: what has left it
  output ring_age_t                 lane_age_o,
  input  tx_round_t                 round_i,         // a QP sends everything again
  // Receive.
  output logic                      rxd_valid_o,
  input  logic                      rxd_ready_i,
  output rxd_t                      rxd_o,
  input  logic                      buf_re_i,
  input  logic [RxBufW:0]           buf_raddr_i,
  output beat_t                     buf_rdata_o,
  input  logic                      buf_free_i,
  input  logic [6:0]                buf_free_beats_i,
  input  rx_place_t                 buf_free_place_i,
  // Packets that wait for their QPs (hca_rx_park).
  input  logic                      park_i,
  output logic                      park_valid_o,
  input  logic                      park_ready_i,
  output park_want_t                park_o,
  input  logic                      back_valid_i,
  output logic                      back_ready_o,
  input  logic [ParkW-1:0]          back_slot_i,
  // Physical streams.
  output logic [NumPorts-1:0]       phy_tx_valid_o,
  input  logic [NumPorts-1:0]       phy_tx_ready_i,
  output phy_t                      phy_tx_o [NumPorts],
  input  logic [NumPorts-1:0]       phy_up_i,
  input  logic [NumPorts-1:0]       phy_rx_valid_i,
  input  phy_t                      phy_rx_i [NumPorts],
  input  logic [NumPorts-1:0]       phy_rx_err_i,
  // Status.
  input  logic [8:0]                stat_addr_i,     // {port, word}
  output logic [31:0]               stat_data_o,     // next cycle
  output logic [NumPorts-1:0]       link_event_o,
  input  rx_strobes_t               rx_strobes_i,
  input  counter_req_t              counter_req_i,
  output logic [31:0]               counter_data_o,  // next cycle
  input  mad_req_t                  mad_req_i,       // datagrams of firmware
  output mad_rsp_t                  mad_rsp_o,
  output logic                      active_o,        // a link tells its credits again
  output logic [63:0]               wake_at_o        // ... in this cycle
);

  localparam int unsigned NumCounters = 25;
  localparam int unsigned Loop = NumPorts;  // the looped packets among the sources of the receiver

  logic                  tx_valid, tx_ready, out_valid;
  logic [NumPorts-1:0]   out_ready, link_fcp;
  logic [NumPorts:0]     src_valid, src_ready, src_hold;
  mac_t                  src [NumPorts+1];
  logic [NumPorts:0][PortW-1:0] src_port;
  logic                  rx_filling, sniff_lost;
  logic                  rx_valid, rx_room, unused_rx_ready, one_valid, one_ready;
  rxd_t                  one, spread;
  logic                  spread_valid, spread_ready, group_valid, group_ready;
  rxd_t                  grouped;
  logic [31:0]           rule_word;
  logic                  mad_valid, mad_ready;
  tx_beat_t              mad;
  mad_beat_t             mad_beat;
  logic                  txp_ready;
  mac_t                  tx, out, rx;
  logic [PortW-1:0]      tx_port, out_port, rx_port, sent_port;
  tx_round_t             tx_round, out_round;
  rx_ended_t [NumPorts-1:0] rx_ended;
  logic [NumPorts-1:0][15:0]      vl_open;
  logic [3:0]            out_vl;
  logic [NumPorts-1:0][15:0][3:0] sl2vl;
  logic [NumPorts-1:0][31:0]      stat_data;
  ring_age_t [NumPorts-1:0][NumVlsDefault-1:0] age;

  cc_tx_t [NumPorts-1:0] cc_tx;
  logic                  answer_valid, answer_ready, cnp_sent;
  logic [PortW-1:0]      cnp_port;
  txp_t                  answer;   // an acknowledge or a CNP

  // A context goes to both, or waits for both.
  logic begins, init_ready, hdr_qpc_ready;
  assign begins         = qpc_wr_i.init_sq || qpc_wr_i.init_rq;
  assign qpc_wr_ready_o = hdr_qpc_ready && (init_ready || !begins);

  if (HasCongestion) begin : gen_cc
    hca_cc u_cc (
      .clk_i, .rst_i, .now_i, .ib_i(ib_o), .link_wr_i, .rx_strobes_i, .sl_open_i(sl_open_o),
      .init_valid_i(qpc_wr_valid_i && begins), .init_ready_o(init_ready), .init_qpn_i(qpc_wr_i.qpn), .tx_i(sent_o),
      .tx_txp_i(sent_txp_o), .tx_port_i(sent_port), .upd_i, .upd_data_i, .sent_valid_i(cc_sent_valid_i),
      .sent_ready_o(cc_sent_ready_o), .sent_i(cc_sent_i), .pace_o(cc_pace_o), .rate_o(cc_rate_o), .ack_valid_i,
      .ack_ready_o, .ack_i, .out_valid_o(answer_valid), .out_ready_i(answer_ready), .out_o(answer),
      .cnp_sent_o(cnp_sent), .cnp_port_o(cnp_port), .tx_o(cc_tx)
    );
  end else begin : gen_no_cc
    // Acknowledges pass; no QP has a rate.
    logic unused_cc;
    assign unused_cc       = ^{now_i, link_wr_i, cc_sent_valid_i, cc_sent_i, rx_strobes_i, upd_i, upd_data_i,
                               sent_txp_o};
    assign init_ready      = 1'b1;
    assign cc_sent_ready_o = '1;
    assign cc_pace_o       = '0;
    assign cc_rate_o       = '0;
    assign cc_tx           = '0;
    assign answer_valid    = ack_valid_i;
    assign ack_ready_o     = answer_ready;
    assign answer          = ack_i;
    assign {cnp_sent, cnp_port} = '0;
  end

  hca_tx_wire u_tx_wire (
    .clk_i(pclk_i[PartTxWire]), .rst_i, .port_cfg_i, .pkey_tbl_i, .sl2vl_i(sl2vl), .cc_i(cc_tx),
    .qpc_wr_valid_i(qpc_wr_valid_i && (init_ready || !begins)), .qpc_wr_ready_o(hdr_qpc_ready), .qpc_wr_i, .av_wr_i,
    .gid_wr_i, .ack_valid_i(answer_valid), .ack_ready_o(answer_ready), .ack_i(answer),
    .txp_valid_i(txp_valid_i && !txp_hold_i), .txp_ready_o(txp_ready), .txp_i,
    .pay_valid_i, .pay_ready_o, .pay_i, .mad_valid_i(mad_valid), .mad_ready_o(mad_ready), .mad_i(mad),
    .mac_valid_o(tx_valid), .mac_ready_i(tx_ready), .mac_o(tx),
    .mac_port_o(tx_port), .mac_round_o(tx_round), .resp_done_seq_o, .sent_o, .sent_txp_o, .sent_port_o(sent_port)
  );

  assign txp_ready_o = txp_ready && !txp_hold_i;

  hca_mad_tx u_mad_tx (
    .clk_i(pclk_i[PartTxWire]), .rst_i, .ib_i(ib_o), .we_i(mad_req_i.we), .word_i(mad_req_i.word),
    .data_i(mad_req_i.data), .go_i(mad_req_i.go), .bytes_i(mad_req_i.bytes), .port_i(mad_req_i.port),
    .busy_o(mad_rsp_o.busy), .out_valid_o(mad_valid), .out_ready_i(mad_ready), .out_o(mad)
  );

  hca_loopback u_loopback (
    .clk_i(pclk_i[PartTxWire]), .rst_i, .port_cfg_i, .in_valid_i(tx_valid), .in_ready_o(tx_ready), .in_i(tx),
    .in_port_i(tx_port), .in_round_i(tx_round), .out_valid_o(out_valid), .out_ready_i(out_ready[out_port]),
    .out_o(out), .out_port_o(out_port), .out_round_o(out_round), .loop_valid_o(src_valid[Loop]),
    .loop_ready_i(src_ready[Loop]), .loop_o(src[Loop]), .loop_port_o(src_port[Loop])
  );

  hca_tx_class u_class (
    .clk_i(pclk_i[PartTxWire]), .ib_i(ib_o), .class_i(class_o), .sl2vl_i(sl2vl), .take_i(tx_valid && tx_ready),
    .mac_i(tx), .port_i(tx_port), .vl_o(out_vl)
  );

  // An acknowledge that was sent: its port is known one cycle later.
  logic       ack_sent_q;
  logic [7:0] ack_syndrome_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) ack_sent_q <= 1'b0;
    else ack_sent_q <= sent_o && sent_txp_o.kind == TxAck;
    if (sent_o) ack_syndrome_q <= sent_txp_o.aeth_syndrome;
  end

  logic [NumPorts-1:0][NumVlsDefault-1:0][AheadW-1:0] ahead;

  hca_tx_ahead u_ahead (
    .clk_i(pclk_i[PartTxWire]), .rst_i, .sl2vl_i(sl2vl), .made_valid_i, .made_i, .left_i, .ahead_o(ahead)
  );

  hca_lane_age u_lane_age (
    .clk_i, .sl2vl_i(sl2vl), .age_i(age), .ask_i(lane_ask_i), .age_o(lane_age_o)
  );

  logic [NumPorts-1:0][63:0] counters;   // the row that is asked for

  for (genvar p = 0; p < NumPorts; p++) begin : gen_port
    localparam logic [PortW-1:0] Port = PortW'(p);

    hca_link #(
      .Port(1'(p))
    ) u_link (
      .clk_i(pclk_i[PartLink]), .clk_tx_i(pclk_i[PartLinkTx]), .clk_rx_i(pclk_i[PartLinkRx]), .rst_i,
      .now_i, .port_cfg_i(port_cfg_i[p]), .link_wr_i,
      .tx_valid_i(out_valid && out_port == Port), .tx_ready_o(out_ready[p]), .tx_i(out), .tx_vl_i(out_vl),
      .tx_round_i(out_round), .round_i,
      .rx_valid_o(src_valid[p]), .rx_ready_i(src_ready[p]), .rx_o(src[p]), .rx_room_i(rx_room),
      .phy_tx_valid_o(phy_tx_valid_o[p]), .phy_tx_ready_i(phy_tx_ready_i[p]), .phy_tx_o(phy_tx_o[p]),
      .phy_up_i(phy_up_i[p]), .phy_rx_valid_i(phy_rx_valid_i[p]), .phy_rx_i(phy_rx_i[p]),
      .phy_rx_err_i(phy_rx_err_i[p]), .ahead_i(ahead[p]), .vl_open_o(vl_open[p]), .sl2vl_o(sl2vl[p]),
      .class_o(class_o[p]), .age_o(age[p]), .stat_addr_i(stat_addr_i[7:0]), .stat_data_o(stat_data[p]),
      .event_o(link_event_o[p]), .busy_o(), .fcp_on_o(link_fcp[p]), .rx_hold_i('0)
    );

    // Which service levels may send: the VL that each maps to has room in its ring.
    hca_sl_open u_sl_open (
      .clk_i(pclk_i[PartLink]), .vl_open_i(vl_open[p]), .sl2vl_i(sl2vl[p]),
      .sl_open_o(sl_open_o[16*p +: 16])
    );

    hca_counters #(
      .NumCounters(NumCounters), .Port(Port)
    ) u_counters (
      .clk_i(pclk_i[PartCounters]), .rst_i,
      .tx_beat_i(phy_tx_valid_o[p] && phy_tx_ready_i[p] && !phy_tx_o[p].link), .tx_last_i(phy_tx_o[p].last),
      .tx_len_i(phy_tx_o[p].len_bytes), .rx_beat_i(phy_rx_valid_i[p] && !phy_rx_i[p].link),
      .rx_len_i(phy_rx_i[p].len_bytes), .rx_ended_i(rx_ended[p]), .rxd_take_i(rxd_valid_o && rxd_ready_i && !park_i),
      .rxd_i(rxd_o), .rx_i(rx_strobes_i), .ack_sent_i(ack_sent_q), .ack_syndrome_i(ack_syndrome_q),
      .ack_port_i(sent_port), .cnp_sent_i(cnp_sent), .cnp_port_i(cnp_port),
      .sniff_lost_i(sniff_lost), .sniff_port_i(one.port), .row_i(counter_req_i.word[5:1]),
      .row_o(counters[p])
    );

    assign src_port[p] = Port;
    assign ib_o[p]     = port_cfg_i[p].ib;
  end

  hca_counter_read #(
    .NumCounters(NumCounters)
  ) u_counter_read (
    .clk_i(pclk_i[PartCounters]), .rd_i(counter_req_i.rd), .word_i(counter_req_i.word), .rule_word_i(rule_word),
    .data_o(counter_data_o), .rows_i(counters)
  );

  // The links have looked at rx_room themselves: a packet of any length of each source.
  assign src_hold = {!rx_room, NumPorts'(0)};

  hca_mac_merge #(
    .N(NumPorts + 1)
  ) u_merge (
    .clk_i(pclk_i[PartRxWire]), .rst_i, .valid_i(src_valid), .ready_o(src_ready), .mac_i(src), .side_i(src_port),
    .hold_i(src_hold), .out_valid_o(rx_valid), .out_ready_i(1'b1), .out_o(rx), .out_side_o(rx_port)
  );

  hca_rx_wire u_rx_wire (
    .clk_i(pclk_i[PartRxWire]), .rst_i, .port_cfg_i, .rule_wr_i, .rule_busy_o, .mac_valid_i(rx_valid),
    .mac_ready_o(unused_rx_ready), .mac_i(rx), .mac_port_i(rx_port), .room_o(rx_room), .rxd_valid_o(one_valid),
    .rxd_ready_i(one_ready), .rxd_o(one), .buf_re_i, .buf_raddr_i, .buf_rdata_o, .buf_free_i, .buf_free_beats_i,
    .buf_free_place_i, .qpc_wr_valid_i, .qpc_wr_i, .shut_i, .filling_o(rx_filling), .mad_o(mad_beat),
    .ended_o(rx_ended)
  );

  hca_mad_rx u_mad_rx (
    .clk_i(pclk_i[PartRxWire]), .rst_i, .in_i(mad_beat), .re_i(mad_req_i.re), .word_i(mad_req_i.word),
    .data_o(mad_rsp_o.data), .pop_i(mad_req_i.pop), .pending_o(mad_rsp_o.pending), .port_o(mad_rsp_o.port),
    .bytes_o(mad_rsp_o.bytes), .arrived_o(mad_rsp_o.arrived)
  );

  if (HasRaw) begin : gen_rules
    rxd_t                     steered;
    logic                     steered_valid, steered_ready, spreads, counts, sniff_hold, sniff_copy;
    logic [$clog2(Rules)-1:0] rule;
    logic [12:0]              rule_bytes;

    hca_rx_steer u_rx_steer (
      .clk_i(pclk_i[PartRxWire]), .rst_i, .rule_wr_i, .in_valid_i(one_valid), .in_ready_o(one_ready), .in_i(one),
      .out_valid_o(steered_valid), .out_ready_i(steered_ready), .out_o(steered), .spread_o(spreads),
      .hold_i(sniff_hold), .sniffed_o(sniff_copy), .count_o(counts), .rule_o(rule), .bytes_o(rule_bytes),
      .lost_o(sniff_lost)
    );

    hca_sniff_share u_sniff_share (
      .clk_i(pclk_i[PartRxWire]), .rst_i, .filling_i(rx_filling), .valid_i(one_valid), .take_i(one_valid && one_ready),
      .copy_i(sniff_copy), .beats_i(one.buf_beats), .free_i(buf_free_i), .hold_o(sniff_hold)
    );

    hca_rule_counts u_rule_counts (
      .clk_i(pclk_i[PartRxWire]), .rst_i, .rule_wr_i, .count_i(counts), .rule_i(rule), .bytes_i(rule_bytes),
      .rd_i(counter_req_i.rd && counter_req_i.word[7]), .word_i(counter_req_i.word[6:0]), .data_o(rule_word)
    );

    hca_rss u_rss (
      .clk_i(pclk_i[PartRxWire]), .rst_i, .rss_wr_i, .rss_qp_wr_i, .in_valid_i(steered_valid),
      .in_ready_o(steered_ready), .in_i(steered), .spread_i(spreads), .out_valid_o(spread_valid),
      .out_ready_i(spread_ready), .out_o(spread)
    );
  end else begin : gen_no_rules
    // No rule has a frame.
    logic unused_rules;
    assign unused_rules  = ^{rule_wr_i, rss_wr_i, rss_qp_wr_i, rx_filling};
    assign spread_valid  = one_valid;
    assign one_ready     = spread_ready;
    assign spread        = one;
    assign rule_word     = '0;
    assign sniff_lost    = 1'b0;
  end

  hca_rx_group u_rx_group (
    .clk_i(pclk_i[PartRxWire]), .rst_i, .wr_valid_i(group_wr_valid_i), .wr_ready_o(group_wr_ready_o),
    .wr_i(group_wr_i), .in_valid_i(spread_valid), .in_ready_o(spread_ready), .in_i(spread),
    .out_valid_o(group_valid), .out_ready_i(group_ready), .out_o(grouped)
  );

  if (HasContextMemory) begin : gen_park
    hca_rx_park u_rx_park (
      .clk_i(pclk_i[PartRxWire]), .rst_i, .in_valid_i(group_valid), .in_ready_o(group_ready), .in_i(grouped),
      .out_valid_o(rxd_valid_o), .out_ready_i(rxd_ready_i), .out_o(rxd_o), .park_i, .want_valid_o(park_valid_o),
      .want_ready_i(park_ready_i), .want_o(park_o), .back_valid_i, .back_ready_o, .back_slot_i
    );
  end else begin : gen_no_park
    logic unused_park;
    assign unused_park = ^{park_i, park_ready_i, back_valid_i, back_slot_i};
    assign {rxd_valid_o, group_ready, rxd_o} = {group_valid, rxd_ready_i, grouped};
    assign {park_valid_o, park_o, back_ready_o} = '0;
  end

  logic stat_port_q;
  always_ff @(posedge clk_i) stat_port_q <= stat_addr_i[8];
  assign stat_data_o = (32'(stat_port_q) < NumPorts) ? stat_data[PortW'(stat_port_q)] : '0;

  assign active_o  = link_fcp != '0;
  assign wake_at_o = active_o ? {now_i[63:FcpTickLsb] + 1'b1, FcpTickLsb'(0)} : '0;

endmodule
