// Two links back to back: side 0 and side 1, each with a sender and a checker; a cable with faults in each direction.
// Everything that runs per cycle is here, so that a test of a million packets takes a minute.
module link_pair_bench
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
  output logic [1:0][31:0]       withdrawn_o,
  output logic [1:0][15:0]       open_o,
  output logic [1:0][63:0]       sl2vl_o,
  output logic [1:0][31:0]       events_o,
  output logic [1:0]             busy_o,
  input  logic [7:0]             stat_addr_i,
  output logic [1:0][31:0]       stat_data_o,
  output logic [63:0]            cycle_o,
  output logic [7:0]             num_vls_o
);

  logic        toggle_q;
  link_wr_t    wr;
  logic [63:0] cycle_q;
  logic [1:0]  far_valid, far_err;
  phy_t        far [2];            // at the far end of the cable from side s

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

  assign cycle_o   = cycle_q;
  assign num_vls_o = 8'(NumVls);

  for (genvar s = 0; s < 2; s++) begin : gen_side
    link_side #(
      .NumVls      (NumVls),
      .TxPoolBlocks(TxPoolBlocks),
      .TxOpenBytes (TxOpenBytes),
      .RxVlBytes   (RxVlBytes),
      .FcpMaxCycles(FcpMaxCycles),
      .DownCycles  (DownCycles)
    ) u_side (
      .clk_i, .rst_i, .side_i(s == 1), .ib_i, .seed_i(seed_i + 32'(s)), .now_i(cycle_q), .wr_i(wr), .phy_up_i,
      .enable_i(enable_i[s]), .mind_open_i, .budget_i(budget_i[s]), .min_beats_i, .max_beats_i, .gap_i(gap_i[s]),
      .stall_i(stall_i[s]), .spell_i(spell_i[s]), .hold_i(hold_i[s]), .full_rate_i, .fcp_loss_i(fcp_loss_i[s]),
      .fcp_flip_i(fcp_flip_i[s]), .fcp_block_i(fcp_block_i[s]), .data_err_i(data_err_i[s]),
      .far_valid_o(far_valid[s]), .far_o(far[s]), .far_err_o(far_err[s]),
      .near_valid_i(far_valid[1-s]), .near_i(far[1-s]), .near_err_i(far_err[1-s]),
      .sent_o(sent_o[s]), .idle_o(idle_o[s]), .packets_o(packets_o[s]), .beats_o(beats_o[s]), .lost_o(lost_o[s]),
      .errors_o(errors_o[s]), .fcps_o(fcps_o[s]), .fcps_lost_o(fcps_lost_o[s]), .cut_o(cut_o[s]),
      .withdrawn_o(withdrawn_o[s]), .open_o(open_o[s]), .sl2vl_o(sl2vl_o[s]), .events_o(events_o[s]),
      .busy_o(busy_o[s]), .stat_addr_i, .stat_data_o(stat_data_o[s])
    );
  end

endmodule
