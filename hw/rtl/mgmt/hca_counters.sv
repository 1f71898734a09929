// Counters of a port, in the order of query_counters_result of the contract. They count from reset and
// wrap at 64 bits (those of hca_rx_wire at 32). Strobes of something that has a port count if it is this one.
module hca_counters
  import hca_pkg::*;
#(
    parameter int unsigned NumCounters = 25,
    parameter logic [PortW-1:0] Port   = '0
) (
    input  logic                         clk_i,
    input  logic                         rst_i,
    input  logic                         tx_beat_i,
    input  logic                         tx_last_i,
    input  logic [6:0]                   tx_len_i,
    input  logic                         rx_beat_i,
    input  logic [6:0]                   rx_len_i,
    input  rx_counts_t                   rx_counts_i,
    input  logic                         rxd_take_i,    // a packet enters rx_ctrl
    input  rxd_t                         rxd_i,
    input  rx_strobes_t                  rx_i,
    input  logic                         ack_sent_i,    // an ACK, NAK or RNR NAK was sent
    input  logic [7:0]                   ack_syndrome_i,
    input  logic [PortW-1:0]             ack_port_i,
    input  logic                         cnp_sent_i,
    input  logic [PortW-1:0]             cnp_port_i,
    input  logic                         sniff_lost_i,  // sniffers do not get a packet or frame
    input  logic [PortW-1:0]             sniff_port_i,
    output logic [NumCounters-1:0][63:0] counters_o
);
  logic [63:0] tx_packets_q, tx_bytes_q, rx_bytes_q;
  logic [63:0] rnr_sent_q, nak_sent_q, seq_sent_q, rnr_rcvd_q, nak_rcvd_q, rewinds_q;
  logic [63:0] dups_q, timeouts_q, pkey_viols_q, qkey_viols_q, bad_sources_q, marked_q, cnp_sent_q, cnp_rcvd_q,
               qp1_drops_q, strays_q, dry_q, sniff_lost_q;
  logic        nak_rcvd, sent, here;

  assign nak_rcvd = rxd_take_i && rxd_i.port == Port && rxd_i.opcode == BthRcAcknowledge;
  assign sent     = ack_sent_i && ack_port_i == Port;
  assign here     = rx_i.port == Port;

  logic unused_rxd;
  assign unused_rxd = ^{rxd_i, rx_i};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      tx_packets_q <= '0;
      tx_bytes_q   <= '0;
      rx_bytes_q   <= '0;
      rnr_sent_q   <= '0;
      nak_sent_q   <= '0;
      seq_sent_q   <= '0;
      rnr_rcvd_q   <= '0;
      nak_rcvd_q   <= '0;
      rewinds_q    <= '0;
      dups_q       <= '0;
      timeouts_q   <= '0;
      pkey_viols_q <= '0;
      qkey_viols_q <= '0;
      bad_sources_q <= '0;
      marked_q     <= '0;
      cnp_sent_q   <= '0;
      cnp_rcvd_q   <= '0;
      qp1_drops_q  <= '0;
      strays_q     <= '0;
      dry_q        <= '0;
      sniff_lost_q <= '0;
    end else begin
      if (tx_beat_i) begin
        tx_packets_q <= tx_packets_q + 64'(tx_last_i);
        tx_bytes_q   <= tx_bytes_q + 64'(tx_len_i);
      end
      if (rx_beat_i) rx_bytes_q <= rx_bytes_q + 64'(rx_len_i);
      if (sent) begin
        if (ack_syndrome_i[6:5] == 2'b01) rnr_sent_q <= rnr_sent_q + 1'b1;
        if (ack_syndrome_i[6:5] == 2'b11) nak_sent_q <= nak_sent_q + 1'b1;
        if (ack_syndrome_i inside {NakPsnSequence, NakSelective}) seq_sent_q <= seq_sent_q + 1'b1;
      end
      if (nak_rcvd && (rxd_i.aeth_syndrome[6:5] == 2'b01)) rnr_rcvd_q <= rnr_rcvd_q + 1'b1;
      if (nak_rcvd && (rxd_i.aeth_syndrome[6:5] == 2'b11)) nak_rcvd_q <= nak_rcvd_q + 1'b1;
      if (rx_i.rewind && here) rewinds_q <= rewinds_q + 1'b1;
      if (rx_i.dup && here) dups_q <= dups_q + 1'b1;
      if (rx_i.timeout && here) timeouts_q <= timeouts_q + 1'b1;
      if (rx_i.pkey_viol && here) pkey_viols_q <= pkey_viols_q + 1'b1;
      if (rx_i.qkey_viol && here) qkey_viols_q <= qkey_viols_q + 1'b1;
      if (rx_i.bad_source && here) bad_sources_q <= bad_sources_q + 1'b1;
      if (rx_i.marked && here) marked_q <= marked_q + 1'b1;
      if (cnp_sent_i && cnp_port_i == Port) cnp_sent_q <= cnp_sent_q + 1'b1;
      if (rx_i.cnp && here) cnp_rcvd_q <= cnp_rcvd_q + 1'b1;
      if (rx_i.qp1_drop && here) qp1_drops_q <= qp1_drops_q + 1'b1;
      if (rx_i.stray && here) strays_q <= strays_q + 1'b1;
      if (rx_i.dry && here) dry_q <= dry_q + 1'b1;
      if (sniff_lost_i && sniff_port_i == Port) sniff_lost_q <= sniff_lost_q + 1'b1;
    end
  end

  assign counters_o[0]  = tx_packets_q;
  assign counters_o[1]  = tx_bytes_q;
  assign counters_o[2]  = 64'(rx_counts_i.good);
  assign counters_o[3]  = rx_bytes_q;
  assign counters_o[4]  = 64'(rx_counts_i.icrc_err) + 64'(rx_counts_i.vcrc_err);
  assign counters_o[5]  = 64'(rx_counts_i.dropped);
  assign counters_o[6]  = 64'(rx_counts_i.malformed);
  assign counters_o[7]  = pkey_viols_q;
  assign counters_o[8]  = qkey_viols_q;
  assign counters_o[9]  = seq_sent_q;          // gaps seen: one NAK each
  assign counters_o[10] = dups_q;              // requests seen before
  assign counters_o[11] = rnr_sent_q;
  assign counters_o[12] = rnr_rcvd_q;
  assign counters_o[13] = nak_sent_q;
  assign counters_o[14] = nak_rcvd_q;
  assign counters_o[15] = timeouts_q;          // transport timers expired
  assign counters_o[16] = rewinds_q;           // times transmission went back
  assign counters_o[17] = bad_sources_q;       // packets to a QP that were not from its peer
  assign counters_o[18] = marked_q;            // data with a congestion mark
  assign counters_o[19] = cnp_sent_q;
  assign counters_o[20] = cnp_rcvd_q;
  assign counters_o[21] = qp1_drops_q;
  assign counters_o[22] = strays_q;            // packets that no QP takes
  assign counters_o[23] = dry_q;               // datagrams without a receive, but those for QP1
  assign counters_o[24] = sniff_lost_q;        // packets and frames that sniffers did not get
endmodule
