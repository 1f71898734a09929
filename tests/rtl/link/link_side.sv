// One side of link_pair_bench: sender, link, checker, and the cable to the other side.
module link_side
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls       = 8,
  parameter int unsigned TxPoolBlocks = hca_link_pkg::tx_pool_blocks(NumVls),
  parameter int unsigned TxOpenBytes  = 16384,
  parameter int unsigned RxVlBytes    = hca_link_pkg::rx_vl_bytes(NumVls),
  parameter int unsigned FcpMaxCycles = 2048,
  parameter int unsigned DownCycles   = 1024
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              side_i,
  input  logic              ib_i,
  input  logic [31:0]       seed_i,
  input  logic [63:0]       now_i,
  input  link_wr_t          wr_i,           // port 0 is side 0
  input  logic              phy_up_i,
  input  logic [15:0]       enable_i,
  input  logic              mind_open_i,
  input  logic [31:0]       budget_i,
  input  logic [7:0]        min_beats_i,
  input  logic [7:0]        max_beats_i,
  input  logic [7:0]        gap_i,
  input  logic [7:0]        stall_i,
  input  logic [7:0]        spell_i,
  input  logic [15:0]       hold_i,
  input  logic              full_rate_i,
  input  logic [7:0]        fcp_loss_i,
  input  logic [7:0]        fcp_flip_i,
  input  logic [15:0]       fcp_block_i,
  input  logic [7:0]        data_err_i,
  output logic              far_valid_o,    // this side's cable, at its far end
  output phy_t              far_o,
  output logic              far_err_o,
  input  logic              near_valid_i,   // the other side's
  input  phy_t              near_i,
  input  logic              near_err_i,
  output logic [15:0][31:0] sent_o,
  output logic              idle_o,
  output logic [15:0][31:0] packets_o,
  output logic [15:0][31:0] beats_o,
  output logic [15:0][31:0] lost_o,
  output logic [31:0]       errors_o,
  output logic [31:0]       fcps_o,
  output logic [31:0]       fcps_lost_o,
  output logic [31:0]       cut_o,
  output logic [31:0]       withdrawn_o,
  output logic [15:0]       open_o,
  output logic [63:0]       sl2vl_o,
  output logic [31:0]       events_o,
  output logic              busy_o,
  input  logic [7:0]        stat_addr_i,
  output logic [31:0]       stat_data_o
);

  // Both sides are one module to the simulator: half to compile.
  /* verilator no_inline_module */

  logic             tx_valid, tx_ready, rx_valid, rx_ready, room, stat_event, phy_valid, phy_ready;
  mac_t             tx, rx;
  phy_t             phy;
  port_cfg_t        port_cfg;
  link_wr_t         wr;
  logic [15:0][3:0] sl2vl;
  eth_class_t       prio_class;
  logic [3:0]       tx_vl;

  always_comb begin
    wr           = wr_i;
    wr.port      = wr_i.port != side_i;
    port_cfg     = '0;
    port_cfg.ib  = ib_i;
    port_cfg.mac = 48'h02c0_ffee_0200 + 48'(side_i);
  end

  link_gen u_gen (
    .clk_i, .rst_i, .ib_i, .seed_i, .enable_i, .open_i(open_o | {16{!mind_open_i}}), .budget_i, .min_beats_i,
    .max_beats_i, .gap_i, .valid_o(tx_valid), .ready_i(tx_ready), .mac_o(tx), .sent_o, .idle_o
  );

  hca_link #(
    .NumVls      (NumVls),
    .TxPoolBlocks(TxPoolBlocks),
    .TxOpenBytes (TxOpenBytes),
    .RxVlBytes   (RxVlBytes),
    .FcpMaxCycles(FcpMaxCycles),
    .DownCycles  (DownCycles)
  ) u_link (
    .clk_i, .clk_tx_i(clk_i), .clk_rx_i(clk_i), .rst_i, .now_i, .port_cfg_i(port_cfg), .link_wr_i(wr),
    .tx_valid_i(tx_valid), .tx_ready_o(tx_ready), .tx_i(tx), .tx_vl_i(tx_vl), .tx_round_i('0), .round_i('0),
    .rx_valid_o(rx_valid), .rx_ready_i(rx_ready), .rx_o(rx), .rx_room_i(room),
    .phy_tx_valid_o(phy_valid), .phy_tx_ready_i(phy_ready), .phy_tx_o(phy), .phy_up_i,
    .phy_rx_valid_i(near_valid_i), .phy_rx_i(near_i), .phy_rx_err_i(near_err_i),
    .ahead_i('0), .vl_open_o(open_o), .sl2vl_o(sl2vl), .class_o(prio_class), .stat_addr_i, .stat_data_o,
    .event_o(stat_event), .busy_o, .fcp_on_o(),
    .rx_hold_i(hold_i)
  );

  link_cable u_cable (
    .clk_i, .rst_i, .seed_i(seed_i + 32'd2), .up_i(phy_up_i), .full_rate_i, .fcp_loss_i, .fcp_flip_i, .fcp_block_i,
    .data_err_i, .in_valid_i(phy_valid), .in_ready_o(phy_ready), .in_i(phy),
    .out_valid_o(far_valid_o), .out_o(far_o), .out_err_o(far_err_o), .fcps_o, .fcps_lost_o, .cut_o,
    .withdrawn_o
  );

  link_check u_check (
    .clk_i, .rst_i, .ib_i, .seed_i(seed_i + 32'd4), .stall_i, .spell_i, .valid_i(rx_valid), .ready_o(rx_ready),
    .mac_i(rx), .room_o(room), .packets_o, .beats_o, .lost_o, .errors_o
  );

  assign sl2vl_o = sl2vl;
  assign tx_vl   = ring_of(tx.data[159:0], ib_i, prio_class, sl2vl);

  always_ff @(posedge clk_i) begin
    if (rst_i) events_o <= '0;
    else events_o <= events_o + 32'(stat_event);
  end

endmodule
