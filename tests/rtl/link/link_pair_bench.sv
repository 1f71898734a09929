// Two links back to back: side 0 and side 1, each with a sender and a checker; a cable with faults in each direction.
// Everything that runs per cycle is here, so that a test of a million packets takes a minute.
module link_pair_bench
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls       = 8,
  parameter int unsigned TxVlBytes    = 65536,
  parameter int unsigned RxVlBytes    = 32768,
  parameter int unsigned FcpMaxCycles = 2048,
  parameter int unsigned DownCycles   = 1024
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  logic                   ib_i,
  input  logic [31:0]            seed_i,
  input  logic                   phy_up_i,
  // Rows: port 0 is side 0. wr_toggle_i: an edge writes.
  input  logic                   wr_toggle_i,
  input  link_wr_t               wr_i,
  // Senders, checkers, cable from side s.
  input  logic [1:0][15:0]       enable_i,
  input  logic                   mind_open_i,     // senders look at vl_open
  input  logic [1:0][31:0]       budget_i,
  input  logic [7:0]             min_beats_i,
  input  logic [7:0]             max_beats_i,
  input  logic [1:0][7:0]        gap_i,
  input  logic [1:0][7:0]        stall_i,
  input  logic [1:0][7:0]        spell_i,
  input  logic [1:0][15:0]       hold_i,
  input  logic                   full_rate_i,
  input  logic [1:0][7:0]        fcp_loss_i,
  input  logic [1:0][7:0]        fcp_flip_i,
  input  logic [1:0][15:0]       fcp_block_i,
  input  logic [1:0][7:0]        data_err_i,
  output logic [1:0][15:0][31:0] sent_o,
  output logic [1:0]             idle_o,
  output logic [1:0][15:0][31:0] packets_o,       // at the checker of side s
  output logic [1:0][15:0][31:0] beats_o,
  output logic [1:0][15:0][31:0] lost_o,
  output logic [1:0][31:0]       errors_o,
  output logic [1:0][31:0]       fcps_o,
  output logic [1:0][31:0]       fcps_lost_o,
  output logic [1:0][31:0]       cut_o,
  output logic [1:0][15:0]       open_o,
  output logic [1:0][63:0]       sl2vl_o,
  output logic [1:0][31:0]       events_o,
  output logic [1:0]             busy_o,
  input  logic [7:0]             stat_addr_i,
  output logic [1:0][31:0]       stat_data_o,
  output logic [63:0]            cycle_o
);

  logic        toggle_q;
  link_wr_t    wr;
  logic [63:0] cycle_q;
  logic [1:0]  phy_valid, phy_ready, far_valid, far_err;
  phy_t        phy [2];
  phy_t        far [2];

  always_comb begin
    wr       = wr_i;
    wr.valid = wr_toggle_i != toggle_q;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) toggle_q <= 1'b0;
    else toggle_q <= wr_toggle_i;
    if (rst_i) cycle_q <= '0;
    else cycle_q <= cycle_q + 64'd1;
  end

  assign cycle_o = cycle_q;

  for (genvar s = 0; s < 2; s++) begin : gen_side
    logic             tx_valid, tx_ready, rx_valid, rx_ready, room, stat_event;
    mac_t             tx, rx;
    port_cfg_t        port_cfg;
    logic [15:0]      vl_open;
    logic [15:0][3:0] sl2vl;

    always_comb begin
      port_cfg     = '0;
      port_cfg.ib  = ib_i;
      port_cfg.mac = 48'h02c0_ffee_0200 + 48'(s);
    end

    link_gen u_gen (
      .clk_i, .rst_i, .ib_i, .seed_i(seed_i + 32'(s)), .enable_i(enable_i[s]), .open_i(vl_open | {16{!mind_open_i}}),
      .budget_i(budget_i[s]), .min_beats_i, .max_beats_i, .gap_i(gap_i[s]), .valid_o(tx_valid), .ready_i(tx_ready),
      .mac_o(tx), .sent_o(sent_o[s]), .idle_o(idle_o[s])
    );

    hca_link #(
      .NumVls      (NumVls),
      .TxVlBytes   (TxVlBytes),
      .RxVlBytes   (RxVlBytes),
      .FcpMaxCycles(FcpMaxCycles),
      .DownCycles  (DownCycles),
      .Port        (s == 1)
    ) u_link (
      .clk_i, .rst_i, .now_i(cycle_q), .port_cfg_i(port_cfg), .link_wr_i(wr),
      .tx_valid_i(tx_valid), .tx_ready_o(tx_ready), .tx_i(tx),
      .rx_valid_o(rx_valid), .rx_ready_i(rx_ready), .rx_o(rx), .rx_room_i(room),
      .phy_tx_valid_o(phy_valid[s]), .phy_tx_ready_i(phy_ready[s]), .phy_tx_o(phy[s]), .phy_up_i,
      .phy_rx_valid_i(far_valid[s]), .phy_rx_i(far[s]), .phy_rx_err_i(far_err[s]),
      .vl_open_o(vl_open), .sl2vl_o(sl2vl), .stat_addr_i, .stat_data_o(stat_data_o[s]), .event_o(stat_event),
      .busy_o(busy_o[s]), .rx_hold_i(hold_i[s])
    );

    link_cable u_cable (
      .clk_i, .rst_i, .seed_i(seed_i + 32'(s + 2)), .up_i(phy_up_i), .full_rate_i, .fcp_loss_i(fcp_loss_i[s]),
      .fcp_flip_i(fcp_flip_i[s]), .fcp_block_i(fcp_block_i[s]), .data_err_i(data_err_i[s]),
      .in_valid_i(phy_valid[s]), .in_ready_o(phy_ready[s]), .in_i(phy[s]),
      .out_valid_o(far_valid[1-s]), .out_o(far[1-s]), .out_err_o(far_err[1-s]),
      .fcps_o(fcps_o[s]), .fcps_lost_o(fcps_lost_o[s]), .cut_o(cut_o[s])
    );

    link_check u_check (
      .clk_i, .rst_i, .ib_i, .seed_i(seed_i + 32'(s + 4)), .stall_i(stall_i[s]), .spell_i(spell_i[s]),
      .valid_i(rx_valid), .ready_o(rx_ready), .mac_i(rx), .room_o(room),
      .packets_o(packets_o[s]), .beats_o(beats_o[s]), .lost_o(lost_o[s]), .errors_o(errors_o[s])
    );

    assign open_o[s]  = vl_open;
    assign sl2vl_o[s] = sl2vl;

    always_ff @(posedge clk_i) begin
      if (rst_i) events_o[s] <= '0;
      else events_o[s] <= events_o[s] + 32'(stat_event);
    end
  end

endmodule
