// Congestion control of the ports (Ethernet alone; off after reset): marks that come in are answered with CNPs, which
// go out between acknowledges; CNPs that come in, round trips and what QPs have sent go to the algorithm, and rates of
// QPs come out. Wiring, and the turns of CNPs and acknowledges. Parts: README.md.
module hca_cc
  import hca_pkg::*;
  import hca_link_pkg::link_wr_t;
(
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic [63:0]         now_i,
  input  logic [NumPorts-1:0] ib_i,          // personality of the ports
  input  link_wr_t            link_wr_i,
  input  rx_strobes_t         rx_strobes_i,
  input  logic [NumLanes-1:0] sl_open_i,
  input  logic                init_valid_i,  // a QP begins
  output logic                init_ready_o,
  input  logic [QpW-1:0]      init_qpn_i,
  // What passes the header stage, its port a cycle later, and what is acknowledged: strobes.
  input  logic                tx_i,
  input  txp_t                tx_txp_i,
  input  logic [PortW-1:0]    tx_port_i,
  input  logic                upd_i,
  input  ack_upd_t            upd_data_i,
  // Rates, and what QPs have sent under them.
  input  logic [1:0]          sent_valid_i,  // requests, READ responses: in turn
  output logic [1:0]          sent_ready_o,
  input  cc_sent_t [1:0]      sent_i,
  output cc_pace_t [NumPorts-1:0] pace_o,
  output cc_rate_wr_t         rate_o,
  // Acknowledges in, with CNPs out.
  input  logic                ack_valid_i,
  output logic                ack_ready_o,
  input  txp_t                ack_i,
  output logic                out_valid_o,
  input  logic                out_ready_i,
  output txp_t                out_o,
  output logic                cnp_sent_o,    // strobe
  output logic [PortW-1:0]    cnp_port_o,
  output cc_tx_t [NumPorts-1:0] tx_o
);

  link_congestion_t [NumPorts-1:0] cfg;
  logic [NumPorts-1:0]             on, cnp_open;
  logic [NumPorts-1:0][7:0]        epoch;
  logic [1:0]                      sent_grant;
  logic                            sent_idx, sent_ready, cnp_valid, cnp_ready, init, rtt, unused_bits;
  logic [QpW-1:0]                  cnp_qpn, rtt_qpn;
  logic [PortW-1:0]                rtt_port;
  logic [19:0]                     rtt_cycles;

  assign unused_bits = ^{rx_strobes_i, tx_txp_i};
  assign init        = init_valid_i && init_ready_o;

  hca_cc_cfg u_cfg (
    .clk_i, .rst_i, .ib_i, .link_wr_i,
    .cfg_o  (cfg),
    .on_o   (on),
    .epoch_o(epoch)
  );

  for (genvar p = 0; p < NumPorts; p++) begin : gen_port
    assign tx_o[p]     = '{ect: on[p], cnp_class: {cfg[p].cnp_dscp, 2'b00}};
    assign pace_o[p]   = '{on: on[p], epoch: epoch[p]};
    assign cnp_open[p] = sl_open_i[{PortW'(p), 1'b0, cfg[p].cnp_dscp[5:3]}];
  end

  hca_cc_notify u_notify (
    .clk_i, .rst_i, .now_i,
    .marked_i   (rx_strobes_i.marked && on[rx_strobes_i.port]),
    .qpn_i      (rx_strobes_i.qpn),
    .port_i     (rx_strobes_i.port),
    .interval_i (cfg[rx_strobes_i.port].cnp_interval),
    .init_i     (init),
    .init_qpn_i,
    .open_i     (cnp_open),
    .cnp_valid_o(cnp_valid),
    .cnp_ready_i(cnp_ready),
    .cnp_qpn_o  (cnp_qpn),
    .cnp_port_o
  );

  hca_cc_rtt u_rtt (
    .clk_i, .rst_i, .now_i,
    .sent_i      (tx_i && tx_txp_i.kind == TxReq && tx_txp_i.ack_req && on != '0),
    .sent_qpn_i  (tx_txp_i.qpn),
    .sent_psn_i  (tx_txp_i.psn),
    .sent_port_i (tx_port_i),
    .upd_i       (upd_i && on != '0),
    .upd_data_i,
    .init_i      (init),
    .init_qpn_i,
    .rtt_o       (rtt),
    .rtt_qpn_o   (rtt_qpn),
    .rtt_port_o  (rtt_port),
    .rtt_cycles_o(rtt_cycles)
  );

  hca_cc_react u_react (
    .clk_i, .rst_i, .now_i,
    .cfg_i       (cfg),
    .epoch_i     (epoch),
    .cnp_i       (rx_strobes_i.cnp && on[rx_strobes_i.port]),
    .cnp_qpn_i   (rx_strobes_i.qpn),
    .cnp_port_i  (rx_strobes_i.port),
    .rtt_i       (rtt && on[rtt_port] && cfg[rtt_port].algorithm == CcDelay),
    .rtt_qpn_i   (rtt_qpn),
    .rtt_port_i  (rtt_port),
    .rtt_cycles_i(rtt_cycles),
    .init_valid_i, .init_ready_o, .init_qpn_i,
    .sent_valid_i(sent_valid_i != '0),
    .sent_ready_o(sent_ready),
    .sent_i      (sent_i[sent_idx]),
    .rate_o
  );

  hca_rr_arb #(.N(2)) u_sent (
    .clk_i, .rst_i,
    .req_i    (sent_valid_i),
    .advance_i(sent_ready && sent_valid_i != '0),
    .grant_o  (sent_grant),
    .idx_o    (sent_idx)
  );
  assign sent_ready_o = sent_grant & {2{sent_ready}};

  // CNPs are few, and go first; but what has been offered stays.
  logic held_q, held_cnp_q, is_cnp;
  txp_t cnp;

  always_ff @(posedge clk_i) begin
    held_q     <= !rst_i && out_valid_o && !out_ready_i;
    held_cnp_q <= is_cnp;
  end

  always_comb begin
    cnp        = '0;
    cnp.kind   = TxCnp;
    cnp.qpn    = cnp_qpn;
    cnp.opcode = BthCnp;
  end

  assign is_cnp      = held_q ? held_cnp_q : cnp_valid;
  assign out_valid_o = is_cnp ? cnp_valid : ack_valid_i;
  assign out_o       = is_cnp ? cnp : ack_i;
  assign cnp_ready   = is_cnp && out_ready_i;
  assign ack_ready_o = !is_cnp && out_ready_i;
  assign cnp_sent_o  = cnp_valid && cnp_ready;

endmodule
