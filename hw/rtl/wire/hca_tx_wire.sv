// Transmit side of the wire: packet descriptors and payload in, frames with valid CRCs out, in both
// personalities. Order of packets is the order in which descriptors were taken; `ack` goes first, packet by
// packet. `mac` may stall.
// Latency of an empty pipeline and rates: README.md.
module hca_tx_wire
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  port_cfg_t [NumPorts-1:0]  port_cfg_i,
  input  logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_i,
  input  logic [NumPorts-1:0][15:0][3:0] sl2vl_i,
  input  cc_tx_t [NumPorts-1:0]     cc_i,
  input  logic                      qpc_wr_valid_i,
  output logic                      qpc_wr_ready_o,
  input  qpc_wr_t                   qpc_wr_i,
  input  av_wr_t                    av_wr_i,
  input  gid_wr_t                   gid_wr_i,
  input  logic                      ack_valid_i,
  output logic                      ack_ready_o,
  input  txp_t                      ack_i,
  input  logic                      txp_valid_i,
  output logic                      txp_ready_o,
  input  txp_t                      txp_i,
  input  logic                      pay_valid_i,
  output logic                      pay_ready_o,
  input  pay_t                      pay_i,
  input  logic                      mad_valid_i,      // whole packets of firmware, without CRCs
  output logic                      mad_ready_o,
  input  tx_beat_t                  mad_i,
  output logic                      mac_valid_o,
  input  logic                      mac_ready_i,
  output mac_t                      mac_o,
  output logic [PortW-1:0]          mac_port_o,
  output tx_round_t                 mac_round_o,
  output logic [15:0]               resp_done_seq_o,  // of the last READ response taken; at first 0xffff
  output logic                      sent_o,           // a packet was taken: sent_txp_o
  output txp_t                      sent_txp_o,
  output logic [PortW-1:0]          sent_port_o       // one cycle after sent_o
);

  // More packets than ever fit between the header stage and hca_eth_tx.
  localparam int unsigned EthFifoDepth = 32;

  logic       hdr_valid, hdr_ready, pack_hdr_ready, eth_ready;
  tx_hdr_t    hdr;
  tx_eth_t    hdr_eth, eth;
  logic       beat_valid, beat_ready;
  tx_beat_t   beat;
  logic       crc_valid, crc_ready, crc_ib, crc_raw;
  mac_t       crc_beat;
  logic [PortW-1:0] crc_port;
  tx_round_t  crc_round;
  logic       eth_head_valid, eth_head_ready;

  hca_tx_hdr u_hdr (
    .clk_i,
    .rst_i,
    .port_cfg_i,
    .pkey_tbl_i,
    .sl2vl_i,
    .cc_i,
    .qpc_wr_valid_i,
    .qpc_wr_ready_o,
    .qpc_wr_i,
    .av_wr_i,
    .gid_wr_i,
    .ack_valid_i,
    .ack_ready_o,
    .ack_i,
    .txp_valid_i,
    .txp_ready_o,
    .txp_i,
    .hdr_valid_o(hdr_valid),
    .hdr_ready_i(hdr_ready),
    .hdr_o      (hdr),
    .eth_o      (hdr_eth),
    .resp_done_seq_o,
    .sent_o,
    .sent_txp_o,
    .sent_port_o
  );

  // The header bytes go to the packer, the frame facts past it to the Ethernet stage.
  assign hdr_ready = pack_hdr_ready && eth_ready;

  logic [$clog2(EthFifoDepth):0] unused_eth_count;

  hca_fifo #(
    .Width($bits(tx_eth_t)),
    .Depth(EthFifoDepth)
  ) u_eth_facts (
    .clk_i,
    .rst_i,
    .in_valid_i (hdr_valid && pack_hdr_ready && !l3_is_ib(hdr.l3) && hdr.l3 != L3Raw),
    .in_ready_o (eth_ready),
    .in_i       (hdr_eth),
    .out_valid_o(eth_head_valid),
    .out_ready_i(eth_head_ready),
    .out_o      (eth),
    .count_o    (unused_eth_count)
  );

  hca_tx_pack u_pack (
    .clk_i,
    .rst_i,
    .hdr_valid_i(hdr_valid && eth_ready),
    .hdr_ready_o(pack_hdr_ready),
    .hdr_i      (hdr),
    .pay_valid_i,
    .pay_ready_o,
    .pay_i,
    .mad_valid_i,
    .mad_ready_o,
    .mad_i,
    .out_valid_o(beat_valid),
    .out_ready_i(beat_ready),
    .out_o      (beat)
  );

  logic     sum_valid, sum_ready;
  tx_beat_t sum_beat;

  if (HasRaw) begin : gen_csum
    hca_tx_csum u_csum (
      .clk_i,
      .rst_i,
      .in_valid_i (beat_valid),
      .in_ready_o (beat_ready),
      .in_i       (beat),
      .out_valid_o(sum_valid),
      .out_ready_i(sum_ready),
      .out_o      (sum_beat)
    );
  end else begin : gen_no_csum
    assign sum_valid  = beat_valid;
    assign beat_ready = sum_ready;
    assign sum_beat   = beat;
  end

  hca_crc_tx u_crc (
    .clk_i,
    .rst_i,
    .in_valid_i (sum_valid),
    .in_ready_o (sum_ready),
    .in_i       (sum_beat),
    .out_valid_o(crc_valid),
    .out_ready_i(crc_ready),
    .out_o      (crc_beat),
    .out_ib_o   (crc_ib),
    .out_raw_o  (crc_raw),
    .out_port_o (crc_port),
    .out_round_o(crc_round)
  );

  hca_eth_tx u_eth (
    .clk_i,
    .rst_i,
    .port_cfg_i,
    .eth_valid_i(eth_head_valid),
    .eth_ready_o(eth_head_ready),
    .eth_i      (eth),
    .in_valid_i (crc_valid),
    .in_ready_o (crc_ready),
    .in_i       (crc_beat),
    .in_ib_i    (crc_ib),
    .in_raw_i   (crc_raw),
    .in_port_i  (crc_port),
    .in_round_i (crc_round),
    .out_valid_o(mac_valid_o),
    .out_ready_i(mac_ready_i),
    .out_o      (mac_o),
    .out_port_o (mac_port_o),
    .out_round_o(mac_round_o)
  );

endmodule
