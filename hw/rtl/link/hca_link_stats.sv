// Status words and counters of one link: a read port with the data in the next cycle. Numbers of the words: LINK_WORD_*
// of docs/abi.md. Counters run freely and wrap at 2^32.
module hca_link_stats
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned TxBlocks = 1024,        // of a data VL's ring
  parameter int unsigned RxBlocks = 512,
  parameter int unsigned XoffBlocks = 256,
  parameter int unsigned XonBlocks = 128,
  parameter int unsigned LocalPhyErrors = 8      // threshold of local_link_integrity_errors
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  link_cfg_t         cfg_i,
  input  logic              phy_up_i,
  input  logic [15:0][11:0] tx_credits_i,        // per VL
  input  logic [15:0][11:0] tx_fill_i,
  input  logic [15:0][11:0] rx_fill_i,
  input  logic [15:0]       tx_wait_i,           // something to send and no credit, in this cycle
  input  logic [7:0]        pfc_sent_i,          // strobes: stopped the peer's priorities; it stopped ours
  input  logic [7:0]        pfc_received_i,
  input  logic [7:0]        pfc_paused_i,        // priorities that wait
  input  tx_ev_t            tx_ev_i,
  input  rx_ev_t            rx_ev_i,
  input  logic              fcp_i,
  input  logic              lpcrc_err_i,
  input  logic              fcp_malformed_i,
  input  logic              recovery_i,
  input  logic              downed_i,
  output logic              busy_o,              // something is still to be counted
  output logic              event_o,             // strobe: the status word changed
  input  logic [7:0]        stat_addr_i,
  output logic [31:0]       stat_data_o
);

  // What leaves is told late in its cycle, behind the arbiter: it is counted in the next one. So is who waits, which is
  // told behind the credits for the heads of the rings, and what comes, behind the room that a ring has for it.
  tx_ev_t      tx_ev_q;
  rx_ev_t      rx_ev_q;
  logic [15:0] tx_wait_q;
  logic        fcp_q, lpcrc_err_q, fcp_malformed_q;

  always_ff @(posedge clk_i) begin
    tx_ev_q   <= rst_i ? '0 : tx_ev_i;
    rx_ev_q   <= rst_i ? '0 : rx_ev_i;
    tx_wait_q <= rst_i ? '0 : tx_wait_i;
    {fcp_q, lpcrc_err_q, fcp_malformed_q} <= rst_i ? '0 : {fcp_i, lpcrc_err_i, fcp_malformed_i};
  end

  // ---- Counters per VL -----------------------------------------------------------------------------
  logic [31:0] tx_packets, tx_blocks, rx_packets, tx_wait, pfc_sent, pfc_received, pfc_paused;
  logic [3:0]  rd_vl;

  assign rd_vl = stat_addr_i[3:0];

  hca_vl_count #(
    .AddW(1)
  ) u_tx_packets (
    .clk_i, .rst_i, .add_i(tx_ev_q.packet), .vl_i(tx_ev_q.vl), .amount_i(1'b1), .rd_vl_i(rd_vl), .rd_o(tx_packets)
  );

  hca_vl_count #(
    .AddW(BlocksW)
  ) u_tx_blocks (
    .clk_i, .rst_i, .add_i(tx_ev_q.packet), .vl_i(tx_ev_q.vl), .amount_i(tx_ev_q.blocks), .rd_vl_i(rd_vl),
    .rd_o(tx_blocks)
  );

  hca_vl_count #(
    .AddW(1)
  ) u_rx_packets (
    .clk_i, .rst_i, .add_i(rx_ev_q.packet), .vl_i(rx_ev_q.vl), .amount_i(1'b1), .rd_vl_i(rd_vl), .rd_o(rx_packets)
  );

  hca_vl_tally u_tx_wait (.clk_i, .rst_i, .step_i(tx_wait_q), .rd_vl_i(rd_vl), .rd_o(tx_wait), .busy_o());

  // Of priorities.
  hca_vl_tally u_pfc_sent (
    .clk_i, .rst_i, .step_i(16'(pfc_sent_i)), .rd_vl_i(rd_vl), .rd_o(pfc_sent), .busy_o()
  );
  hca_vl_tally u_pfc_received (
    .clk_i, .rst_i, .step_i(16'(pfc_received_i)), .rd_vl_i(rd_vl), .rd_o(pfc_received), .busy_o()
  );
  hca_vl_tally u_pfc_paused (
    .clk_i, .rst_i, .step_i(16'(pfc_paused_i)), .rd_vl_i(rd_vl), .rd_o(pfc_paused), .busy_o()
  );

  // ---- Error counters, in the order of their words --------------------------------------------------
  localparam int unsigned NumErrors = 16;

  logic [NumErrors-1:0][1:0]  step;
  logic [31:0]                errors;
  logic                       data_err, link_err, phys_err, integrity, errors_wait;
  logic [4:0]                 marginal_q;   // leaky: up with an error on the wire, down with a good packet

  assign data_err = rx_ev_q.symbol_err || rx_ev_q.malformed || rx_ev_q.vl_mismatch || rx_ev_q.vl15_drop ||
                    rx_ev_q.overrun;
  assign link_err  = lpcrc_err_q || fcp_malformed_q;
  assign phys_err  = rx_ev_q.symbol_err || lpcrc_err_q;
  assign busy_o    = rx_ev_q.packet || data_err || link_err || fcp_q || errors_wait;
  assign integrity = phys_err && marginal_q == 5'(LocalPhyErrors);

  always_comb begin
    step        = '0;
    step[0][0]  = rx_ev_q.symbol_err;
    step[1][0]  = recovery_i;
    step[2][0]  = downed_i;
    step[3]     = 2'(data_err) + 2'(link_err);   // port_rcv_errors
    step[6][0]  = tx_ev_q.discard;
    step[7][0]  = tx_ev_q.refused;
    step[9][0]  = integrity;
    step[10][0] = rx_ev_q.overrun;
    step[11][0] = rx_ev_q.vl15_drop;
    step[12][0] = tx_ev_q.ctl;
    step[13][0] = fcp_q;
    step[14][0] = lpcrc_err_q;
    step[15][0] = rx_ev_q.vl_mismatch;
  end

  hca_vl_tally #(
    .StepW(2)
  ) u_errors (
    .clk_i, .rst_i, .step_i(step), .rd_vl_i(rd_vl), .rd_o(errors), .busy_o(errors_wait)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) marginal_q <= '0;
    else begin
      if (integrity) marginal_q <= '0;
      else if (phys_err) marginal_q <= marginal_q + 1'b1;
      else if (rx_ev_q.packet && marginal_q != '0) marginal_q <= marginal_q - 1'b1;
    end
  end

  // ---- Read port -------------------------------------------------------------------------------------
  link_status_t status, status_q;
  logic [31:0]  word, data_q;

  always_comb begin
    status        = '0;
    status.state  = cfg_i.state;
    status.phy_up = phy_up_i;
  end

  always_comb begin
    unique case (32'(stat_addr_i[7:4]))
      LinkWordTxCredits >> 4: word = 32'(tx_credits_i[rd_vl]);
      LinkWordTxFill >> 4:    word = 32'(tx_fill_i[rd_vl]);
      LinkWordRxFill >> 4:    word = 32'(rx_fill_i[rd_vl]);
      LinkWordTxPackets >> 4: word = tx_packets;
      LinkWordTxBlocks >> 4:  word = tx_blocks;
      LinkWordRxPackets >> 4: word = rx_packets;
      LinkWordTxWait >> 4:    word = tx_wait;
      LinkWordErrors >> 4:    word = errors;
      LinkWordPfcSent >> 4:   word = pfc_sent;
      LinkWordPfcReceived >> 4: word = pfc_received;
      LinkWordPfcPaused >> 4: word = pfc_paused;
      default: begin
        word = '0;
        if (32'(stat_addr_i) == LinkWordState) word = status_q;
        if (32'(stat_addr_i) == LinkWordTxRing) word = TxBlocks;
        if (32'(stat_addr_i) == LinkWordRxRing) word = RxBlocks;
        if (32'(stat_addr_i) == LinkWordPfcXoff) word = XoffBlocks;
        if (32'(stat_addr_i) == LinkWordPfcXon) word = XonBlocks;
      end
    endcase
  end

  logic unused_bits;
  assign unused_bits = ^{cfg_i, rx_ev_q};

  always_ff @(posedge clk_i) begin
    if (rst_i) status_q <= '0;
    else status_q <= status;
    data_q <= word;
  end

  assign event_o     = !rst_i && status != status_q;
  assign stat_data_o = data_q;

endmodule
