// One port of the card: wire blocks, loopback, link. Wiring only. Transmit: descriptors and payload become packets
// (hca_tx_wire); those for this port itself turn round (hca_loopback), the others wait in their VL's ring (hca_link).
// Receive: packets from the rings and looped ones take turns, each only when the receiver has room for it.
module hca_port
  import hca_pkg::*;
  import hca_link_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  logic [63:0]               now_i,
  input  port_cfg_t                 port_cfg_i,
  input  logic [NumPkeys-1:0][15:0] pkey_tbl_i,
  input  link_wr_t                  link_wr_i,
  input  logic                      qpc_wr_valid_i,
  output logic                      qpc_wr_ready_o,
  input  qpc_wr_t                   qpc_wr_i,
  // Transmit.
  input  logic                      ack_valid_i,
  output logic                      ack_ready_o,
  input  txp_t                      ack_i,
  input  logic                      txp_valid_i,
  output logic                      txp_ready_o,
  input  txp_t                      txp_i,
  input  logic                      pay_valid_i,
  output logic                      pay_ready_o,
  input  pay_t                      pay_i,
  output logic [15:0]               resp_done_seq_o,
  output logic                      sent_o,
  output txp_t                      sent_txp_o,
  output logic [15:0]               vl_open_o,       // VLs that take more packets
  output logic [15:0][3:0]          sl2vl_o,
  // Receive.
  output logic                      rxd_valid_o,
  input  logic                      rxd_ready_i,
  output rxd_t                      rxd_o,
  input  logic                      buf_re_i,
  input  logic [RxBufW-1:0]         buf_raddr_i,
  output beat_t                     buf_rdata_o,
  input  logic                      buf_free_i,
  input  logic [6:0]                buf_free_beats_i,
  // Physical stream.
  output logic                      phy_tx_valid_o,
  input  logic                      phy_tx_ready_i,
  output phy_t                      phy_tx_o,
  input  logic                      phy_up_i,
  input  logic                      phy_rx_valid_i,
  input  phy_t                      phy_rx_i,
  input  logic                      phy_rx_err_i,
  // Status.
  input  logic [7:0]                stat_addr_i,
  output logic [31:0]               stat_data_o,
  output logic                      link_event_o,
  output rx_counts_t                counts_o,
  output logic                      busy_o
);

  logic tx_valid, tx_ready, out_valid, out_ready, loop_valid, loop_ready;
  logic link_rx_valid, link_rx_ready, rx_valid, rx_room, link_busy, unused_rx_ready;
  mac_t tx, out, loop_beat, link_rx, rx;

  hca_tx_wire u_tx_wire (
    .clk_i, .rst_i, .port_cfg_i, .pkey_tbl_i, .sl2vl_i(sl2vl_o), .qpc_wr_valid_i, .qpc_wr_ready_o, .qpc_wr_i,
    .ack_valid_i, .ack_ready_o, .ack_i, .txp_valid_i, .txp_ready_o, .txp_i, .pay_valid_i, .pay_ready_o, .pay_i,
    .mac_valid_o(tx_valid), .mac_ready_i(tx_ready), .mac_o(tx), .resp_done_seq_o, .sent_o, .sent_txp_o
  );

  hca_loopback u_loopback (
    .clk_i, .rst_i, .port_cfg_i, .in_valid_i(tx_valid), .in_ready_o(tx_ready), .in_i(tx),
    .out_valid_o(out_valid), .out_ready_i(out_ready), .out_o(out),
    .loop_valid_o(loop_valid), .loop_ready_i(loop_ready), .loop_o(loop_beat)
  );

  hca_link u_link (
    .clk_i, .rst_i, .now_i, .port_cfg_i, .link_wr_i,
    .tx_valid_i(out_valid), .tx_ready_o(out_ready), .tx_i(out),
    .rx_valid_o(link_rx_valid), .rx_ready_i(link_rx_ready), .rx_o(link_rx), .rx_room_i(rx_room),
    .phy_tx_valid_o, .phy_tx_ready_i, .phy_tx_o, .phy_up_i, .phy_rx_valid_i, .phy_rx_i, .phy_rx_err_i,
    .vl_open_o, .sl2vl_o, .stat_addr_i, .stat_data_o, .event_o(link_event_o), .busy_o(link_busy), .rx_hold_i('0)
  );

  // rx_room: two packets of any length, one of each source.
  hca_rx_merge u_merge (
    .clk_i, .rst_i, .wire_valid_i(link_rx_valid), .wire_ready_o(link_rx_ready), .wire_i(link_rx),
    .loop_valid_i(loop_valid), .loop_ready_o(loop_ready), .loop_i(loop_beat), .loop_hold_i(!rx_room),
    .out_valid_o(rx_valid), .out_ready_i(1'b1), .out_o(rx)
  );

  hca_rx_wire u_rx_wire (
    .clk_i, .rst_i, .port_cfg_i, .mac_valid_i(rx_valid), .mac_ready_o(unused_rx_ready), .mac_i(rx), .room_o(rx_room),
    .rxd_valid_o, .rxd_ready_i, .rxd_o, .buf_re_i, .buf_raddr_i, .buf_rdata_o, .buf_free_i, .buf_free_beats_i,
    .cnt_good_o(counts_o.good), .cnt_icrc_err_o(counts_o.icrc_err), .cnt_vcrc_err_o(counts_o.vcrc_err),
    .cnt_malformed_o(counts_o.malformed), .cnt_dropped_o(counts_o.dropped)
  );

  assign busy_o = tx_valid || loop_valid || rx_valid || link_busy;

endmodule
