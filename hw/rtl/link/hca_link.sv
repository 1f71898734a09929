// The link of one port: transmit half (rings per VL, arbitration, credits), receive half, port state, configuration
// and counters. Wiring only. `tx` comes from hca_tx_wire, `rx` goes to hca_rx_wire and begins a packet only when that
// one says `rx_room_i`. `phy` is the stream on which a PCS sits: transmit may stall, receive never does. Contract:
// README.md.
module hca_link
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls       = NumVlsDefault,      // data VLs built: 1, 2, 4, 8, 15
  parameter int unsigned TxPoolBlocks = tx_pool_blocks(NumVls),   // transmit rings, all VLs
  parameter int unsigned RxVlBytes    = rx_vl_bytes(NumVls),
  parameter int unsigned Vl15Bytes    = Vl15BytesDefault,
  parameter int unsigned TxOpenBytes  = TxOpenDefault,
  parameter int unsigned FcpMaxCycles = FcpMaxCyclesDefault,
  parameter int unsigned FcpMinGap    = 32,
  parameter int unsigned DownCycles   = 1 << 20,
  parameter logic        Port         = 1'b0                // which link_wr rows are ours
) (
  input  logic             clk_i,
  input  logic             clk_tx_i,  // the same clock, for the transmitter and the receiver (hca_part_clock)
  input  logic             clk_rx_i,
  input  logic             rst_i,
  input  logic [63:0]      now_i,
  input  port_cfg_t        port_cfg_i,
  input  link_wr_t         link_wr_i,
  // Between the wire blocks and the cable.
  input  logic             tx_valid_i,
  input  logic [3:0]       tx_vl_i,         // of hca_tx_class, with a first beat
  output logic             tx_ready_o,
  input  mac_t             tx_i,
  input  tx_round_t        tx_round_i,      // beside each beat
  input  tx_round_t        round_i,         // a round that has begun
  output logic             rx_valid_o,
  input  logic             rx_ready_i,
  output mac_t             rx_o,
  input  logic             rx_room_i,
  output logic             phy_tx_valid_o,
  input  logic             phy_tx_ready_i,
  output phy_t             phy_tx_o,
  input  logic             phy_up_i,
  input  logic             phy_rx_valid_i,
  input  phy_t             phy_rx_i,
  input  logic             phy_rx_err_i,
  // Gating of the send side, LRH.
  input  logic [NumVls-1:0][AheadW-1:0] ahead_i,
  output logic [15:0]      vl_open_o,
  output logic [15:0][3:0] sl2vl_o,
  output eth_class_t       class_o,
  output ring_age_t [NumVls-1:0] age_o,
  // Firmware: status words, change of state; simulator: something is going on.
  input  logic [7:0]       stat_addr_i,
  output logic [31:0]      stat_data_o,
  output logic             event_o,
  output logic             busy_o,
  output logic             fcp_on_o,        // flow control packets go out, again every FcpMaxCycles
  input  logic [15:0]      rx_hold_i        // VLs whose receive ring is not drained: a test's knob, else 0
);

  localparam int unsigned RxBlocks = RxVlBytes / 64;
  localparam int unsigned XoffBlocks = RxBlocks / 2;
  localparam int unsigned XonBlocks = RxBlocks / 4;
  localparam int unsigned RxFillW  = $clog2(RxBlocks) + 1;

  logic unused_cfg;
  assign unused_cfg = ^port_cfg_i;

  link_cfg_t  cfg;
  logic       tbl_we, tbl_low, recovery, downed;
  logic [ArbEntryW-1:0] tbl_idx;
  vl_entry_t  tbl;

  hca_link_cfg #(
    .NumVls    (NumVls),
    .Port      (Port),
    .DownCycles(DownCycles)
  ) u_cfg (
    .clk_i, .rst_i, .ib_i(port_cfg_i.ib), .link_wr_i, .phy_up_i, .cfg_o(cfg), .sl2vl_o, .class_o,
    .tbl_we_o(tbl_we), .tbl_low_o(tbl_low), .tbl_idx_o(tbl_idx), .tbl_o(tbl),
    .recovery_o(recovery), .downed_o(downed)
  );

  // ---- Receive -------------------------------------------------------------------------------------
  logic                           fcp, lpcrc_err, fcp_malformed;
  fc_upd_t                        fcp_upd;
  logic [7:0]                     pfc_paused, pfc_received, pfc_sent;
  logic [NumVls-1:0][11:0]        abr, fccl;
  logic [NumVls-1:0][RxFillW-1:0] fill;
  logic [RxFillW-1:0]             vl15_fill;
  rx_ev_t                         rx_ev;

  hca_link_rx #(
    .NumVls   (NumVls),
    .RxVlBytes(RxVlBytes),
    .Vl15Bytes(Vl15Bytes)
  ) u_rx (
    .clk_i(clk_rx_i), .rst_i, .cfg_i(cfg), .class_i(class_o), .phy_up_i, .phy_valid_i(phy_rx_valid_i), .phy_i(phy_rx_i),
    .phy_err_i(phy_rx_err_i), .room_i(rx_room_i), .hold_i(rx_hold_i),
    .mac_valid_o(rx_valid_o), .mac_ready_i(rx_ready_i), .mac_o(rx_o),
    .fcp_o(fcp), .fcp_upd_o(fcp_upd), .pfc_paused_o(pfc_paused), .pfc_stop_o(pfc_received),
    .abr_o(abr), .fccl_o(fccl), .fill_o(fill), .vl15_fill_o(vl15_fill),
    .ev_o(rx_ev), .lpcrc_err_o(lpcrc_err), .fcp_malformed_o(fcp_malformed)
  );

  // ---- Flow control towards the peer: FCPs or PFC frames ---------------------------------------------
  logic fcp_valid, fcp_ready, fcp_busy, pfc_valid, pfc_ready, ctl_valid, ctl_ready, up, counts;
  phy_t fcp_beat_w, pfc_beat, ctl;

  assign up        = phy_up_i && cfg.state != LinkDown;
  assign ctl_valid = cfg.ib ? fcp_valid : pfc_valid;
  assign ctl       = cfg.ib ? fcp_beat_w : pfc_beat;
  assign fcp_ready = ctl_ready && cfg.ib;
  assign pfc_ready = ctl_ready && !cfg.ib;

  assign fcp_on_o = up && cfg.ib;

  hca_fcp_tx #(
    .NumVls      (NumVls),
    .CapBlocks   (RxBlocks),
    .FcpMaxCycles(FcpMaxCycles),
    .FcpMinGap   (FcpMinGap)
  ) u_fcp_tx (
    .clk_i, .rst_i, .now_i, .enable_i(fcp_on_o), .init_i(cfg.state == LinkInit), .vl_ok_i(cfg.vl_mask[NumVls-1:0]),
    .abr_i(abr), .fccl_i(fccl), .busy_o(fcp_busy),
    .ctl_valid_o(fcp_valid), .ctl_ready_i(fcp_ready), .ctl_o(fcp_beat_w)
  );

  // XOFF with half of the ring left: what the peer still sends while the frame is under way fits.
  hca_pfc_tx #(
    .NumRings  (NumVls),
    .FillW     (RxFillW),
    .XoffBlocks(XoffBlocks),
    .XonBlocks (XonBlocks)
  ) u_pfc_tx (
    .clk_i, .rst_i, .up_i(up && !cfg.ib), .enable_i(cfg.pfc_enable), .mac_i(port_cfg_i.mac), .fill_i(fill),
    .ctl_valid_o(pfc_valid), .ctl_ready_i(pfc_ready), .ctl_o(pfc_beat), .stop_o(pfc_sent)
  );

  // ---- Transmit ------------------------------------------------------------------------------------
  logic [NumVls-1:0][11:0] tx_credits;
  logic [15:0][11:0]       tx_fill;
  logic [15:0]             tx_wait;
  tx_ev_t                  tx_ev;
  logic                    out_valid, out_ready;
  phy_t                    out;

  hca_link_tx #(
    .NumVls      (NumVls),
    .TxPoolBlocks(TxPoolBlocks),
    .Vl15Bytes   (Vl15Bytes),
    .TxOpenBytes (TxOpenBytes)
  ) u_tx (
    .clk_i(clk_tx_i), .rst_i, .cfg_i(cfg), .phy_up_i,
    .tbl_we_i(tbl_we), .tbl_low_i(tbl_low), .tbl_idx_i(tbl_idx), .tbl_i(tbl),
    .mac_valid_i(tx_valid_i), .mac_ready_o(tx_ready_o), .mac_i(tx_i), .mac_vl_i(tx_vl_i), .mac_round_i(tx_round_i),
    .round_i, .sl2vl_i(sl2vl_o[7:0]),
    .fcp_i(fcp), .fcp_upd_i(fcp_upd), .pfc_paused_i(pfc_paused),
    .ctl_valid_i(ctl_valid), .ctl_ready_o(ctl_ready), .ctl_i(ctl),
    .phy_valid_o(out_valid), .phy_ready_i(out_ready), .phy_o(out),
    .ahead_i, .vl_open_o, .credits_o(tx_credits), .fill_o(tx_fill), .age_o, .wait_o(tx_wait), .ev_o(tx_ev)
  );

  hca_phy_gate u_gate (
    .clk_i(clk_tx_i), .rst_i, .phy_up_i, .down_i(cfg.state == LinkDown),
    .in_valid_i(out_valid), .in_ready_o(out_ready), .in_i(out),
    .out_valid_o(phy_tx_valid_o), .out_ready_i(phy_tx_ready_i), .out_o(phy_tx_o)
  );

  // ---- Counters ------------------------------------------------------------------------------------
  logic [15:0][11:0] credits, rx_fill;

  always_comb begin
    credits = '0;
    rx_fill = '0;
    for (int unsigned v = 0; v < NumVls; v++) begin
      credits[v] = tx_credits[v];
      rx_fill[v] = 12'(fill[v]);
    end
    rx_fill[15] = 12'(vl15_fill);
  end

  hca_link_stats #(
    .TxBlocks(TxRingBlocks),
    .RxBlocks(RxBlocks),
    .XoffBlocks(XoffBlocks),
    .XonBlocks(XonBlocks)
  ) u_stats (
    .clk_i, .rst_i, .cfg_i(cfg), .phy_up_i, .tx_credits_i(credits), .tx_fill_i(tx_fill), .rx_fill_i(rx_fill),
    .tx_wait_i(tx_wait), .pfc_sent_i(pfc_sent), .pfc_received_i(pfc_received), .pfc_paused_i(pfc_paused),
    .tx_ev_i(tx_ev), .rx_ev_i(rx_ev), .fcp_i(fcp), .lpcrc_err_i(lpcrc_err), .fcp_malformed_i(fcp_malformed),
    .recovery_i(recovery), .downed_i(downed), .busy_o(counts), .event_o, .stat_addr_i, .stat_data_o
  );

  logic [31:0] filled_q;   // rings with something in them
  logic        waits_q, moved_q;    // flow control; a packet may have, of which hca_fcp_tx knows a cycle later
  always_ff @(posedge clk_i) begin
    for (int unsigned v = 0; v < 16; v++) filled_q[2*v +: 2] <= {tx_fill[v] != '0, rx_fill[v] != '0};
    waits_q <= fcp_busy || ctl_valid;
    moved_q <= rst_i || phy_rx_valid_i || filled_q != '0;
    busy_o  <= rst_i || tx_valid_i || out_valid || phy_rx_valid_i || rx_valid_o || filled_q != '0 ||
               moved_q || waits_q || counts || pfc_paused != '0 || cfg.state == LinkDefer;
  end

endmodule
