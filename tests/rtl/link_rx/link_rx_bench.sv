// Bench top: receive half of the link, the two senders of flow control, the port state, and a counter per strobe.
module link_rx_bench
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls       = 8,
  parameter int unsigned RxVlBytes    = 16384,
  parameter int unsigned FcpMaxCycles = 2048,
  parameter int unsigned DownCycles   = 256,
  localparam int unsigned Blocks = RxVlBytes / 64,
  localparam int unsigned FillW  = $clog2(Blocks) + 1
) (
  input  logic                         clk_i,
  input  logic                         rst_i,
  input  link_cfg_t                    cfg_i,          // state: only when state_wr_i
  input  eth_class_t                   class_i,
  input  logic                         state_wr_i,
  input  logic [47:0]                  mac_addr_i,
  input  logic                         phy_up_i,
  input  logic                         phy_valid_i,
  input  phy_t                         phy_i,
  input  logic                         phy_err_i,
  input  logic                         room_i,
  input  logic [15:0]                  hold_i,
  output logic                         mac_valid_o,
  input  logic                         mac_ready_i,
  output mac_t                         mac_o,
  output logic                         fcp_o,
  output fc_upd_t                      fcp_upd_o,
  output logic [7:0]                   pfc_paused_o,
  output logic [NumVls-1:0][11:0]      abr_o,
  output logic [NumVls-1:0][11:0]      fccl_o,
  output logic [NumVls-1:0][FillW-1:0] fill_o,
  output logic [FillW-1:0]             vl15_fill_o,
  output logic [2:0]                   state_o,
  output logic                         fcp_ctl_valid_o,
  input  logic                         fcp_ctl_ready_i,
  output phy_t                         fcp_ctl_o,
  output logic                         pfc_ctl_valid_o,
  input  logic                         pfc_ctl_ready_i,
  output phy_t                         pfc_ctl_o,
  output logic [7:0]                   pfc_received_o,
  output logic [7:0]                   pfc_sent_o,
  output logic [11:0][31:0]            count_o
);

  link_cfg_t   cfg;
  link_state_e state;
  rx_ev_t      ev;
  logic        lpcrc_err, fcp_malformed, recovery, downed;
  logic [11:0] strobes;
  logic [63:0] now_q;

  always_comb begin
    cfg       = cfg_i;
    cfg.state = state;
  end

  hca_link_state #(
    .DownCycles(DownCycles)
  ) u_state (
    .clk_i, .rst_i, .wr_i(state_wr_i), .wr_state_i(cfg_i.state), .phy_up_i, .state_o(state),
    .recovery_o(recovery), .downed_o(downed)
  );

  hca_link_rx #(
    .NumVls   (NumVls),
    .RxVlBytes(RxVlBytes)
  ) u_rx (
    .clk_i, .rst_i, .cfg_i(cfg), .class_i, .phy_up_i, .phy_valid_i, .phy_i, .phy_err_i, .room_i, .hold_i,
    .mac_valid_o, .mac_ready_i, .mac_o, .fcp_o, .fcp_upd_o, .pfc_paused_o, .pfc_stop_o(pfc_received_o),
    .abr_o, .fccl_o, .fill_o, .vl15_fill_o, .ev_o(ev), .lpcrc_err_o(lpcrc_err), .fcp_malformed_o(fcp_malformed)
  );

  hca_fcp_tx #(
    .NumVls      (NumVls),
    .CapBlocks   (Blocks),
    .FcpMaxCycles(FcpMaxCycles)
  ) u_fcp_tx (
    .clk_i, .rst_i, .now_i(now_q), .busy_o(), .enable_i(cfg_i.ib && phy_up_i && state != LinkDown),
    .init_i(state == LinkInit), .vl_ok_i(cfg_i.vl_mask[NumVls-1:0]), .abr_i(abr_o), .fccl_i(fccl_o),
    .ctl_valid_o(fcp_ctl_valid_o), .ctl_ready_i(fcp_ctl_ready_i), .ctl_o(fcp_ctl_o)
  );

  hca_pfc_tx #(
    .NumRings     (NumVls),
    .FillW        (FillW),
    .XoffBlocks   (Blocks / 2),
    .XonBlocks    (Blocks / 4),
    .RefreshCycles(1024)
  ) u_pfc_tx (
    .clk_i, .rst_i, .up_i(!cfg_i.ib && phy_up_i && state != LinkDown), .enable_i(cfg_i.pfc_enable), .mac_i(mac_addr_i),
    .fill_i(fill_o), .ctl_valid_o(pfc_ctl_valid_o), .ctl_ready_i(pfc_ctl_ready_i), .ctl_o(pfc_ctl_o),
    .stop_o(pfc_sent_o)
  );

  assign state_o = state;
  assign strobes = {downed, recovery, fcp_malformed, lpcrc_err, fcp_o, ev.overrun, ev.vl15_drop, ev.state_drop,
                    ev.vl_mismatch, ev.malformed, ev.symbol_err, ev.packet};

  always_ff @(posedge clk_i) begin
    now_q <= rst_i ? '0 : now_q + 64'd1;
    for (int unsigned i = 0; i < 12; i++) begin
      if (rst_i) count_o[i] <= '0;
      else count_o[i] <= count_o[i] + 32'(strobes[i]);
    end
  end

endmodule
