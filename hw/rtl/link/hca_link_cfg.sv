// Configuration of one port's link, from the rows that firmware writes: keeps SL to VL, priorities and control, passes
// the rows of the arbitration tables on. After reset: DOWN, every SL on VL0, every DSCP of priority 0, no weights.
// Contract of the rows: docs/abi.md.
module hca_link_cfg
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls     = NumVlsDefault,
  parameter logic        Port       = 1'b0,           // which rows are ours
  parameter int unsigned DownCycles = 1 << 20
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            ib_i,
  input  link_wr_t        link_wr_i,
  input  logic            phy_up_i,
  output link_cfg_t       cfg_o,
  output logic [15:0][3:0] sl2vl_o,
  output eth_class_t      class_o,
  output logic            tbl_we_o,          // an arbitration table's row, for one cycle
  output logic            tbl_low_o,
  output logic [ArbEntryW-1:0] tbl_idx_o,
  output vl_entry_t       tbl_o,
  output logic            recovery_o,
  output logic            downed_o
);

  logic         wr, wr_ctrl, wr_ctrl_q, wr_dscp;
  logic [2:0]   dscp_row;
  link_dscp_t   dscp;
  logic [Dscps-1:0][2:0] dscp_q;
  link_ctrl_t   ctrl_q;
  link_sl2vl_t  sl2vl_q;
  link_vl_arb_t arb;
  link_state_e  state;

  assign wr      = link_wr_i.valid && link_wr_i.port == Port;
  assign wr_ctrl = wr && 32'(link_wr_i.row) == LinkRowCtrl;
  assign wr_dscp = wr && 32'(link_wr_i.row) >= LinkRowDscp && 32'(link_wr_i.row) < LinkRowDscp + Dscps / 8;
  assign dscp_row = 3'(32'(link_wr_i.row) - LinkRowDscp);
  assign dscp    = link_dscp_t'(link_wr_i.data[8*LinkDscpBytes-1:0]);
  assign arb     = link_vl_arb_t'(link_wr_i.data[8*LinkVlArbBytes-1:0]);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wr_ctrl_q <= 1'b0;
      ctrl_q    <= '0;
      sl2vl_q   <= '0;
      dscp_q    <= '0;
    end else begin
      wr_ctrl_q <= wr_ctrl;
      if (wr_ctrl) ctrl_q <= link_ctrl_t'(link_wr_i.data[8*LinkCtrlBytes-1:0]);
      if (wr && 32'(link_wr_i.row) == LinkRowSl2vl) sl2vl_q <= link_sl2vl_t'(link_wr_i.data[8*LinkSl2vlBytes-1:0]);
      for (int unsigned i = 0; i < 8; i++) begin
        if (wr_dscp) dscp_q[{dscp_row, 3'(i)}] <= dscp.map[4*i +: 3];
      end
    end
  end

  hca_link_state #(
    .DownCycles(DownCycles)
  ) u_state (
    .clk_i,
    .rst_i,
    .wr_i      (wr_ctrl_q),
    .wr_state_i(ctrl_q.state),
    .phy_up_i,
    .state_o   (state),
    .recovery_o,
    .downed_o
  );

  always_comb begin
    cfg_o               = '0;
    cfg_o.state         = state;
    cfg_o.ib            = ib_i;
    cfg_o.vl_mask       = vl_mask_of(ib_i ? ctrl_q.op_vls : 3'd5, NumVls);   // Ethernet uses every ring
    cfg_o.round_quantum = HasArbitration && ctrl_q.policy;
    cfg_o.limit         = ctrl_q.limit;
    cfg_o.mtu           = ctrl_q.mtu;
    cfg_o.hoq_life      = ctrl_q.hoq_life;
    cfg_o.pfc_enable    = ctrl_q.pfc_enable;
    cfg_o.strict        = ib_i ? '0 : ctrl_q.strict;
  end

  logic unused_bits;
  assign unused_bits = ^{ctrl_q, arb, dscp, link_wr_i.data};

  assign sl2vl_o   = sl2vl_q;
  assign class_o   = '{trust_pcp: ctrl_q.trust_pcp, dscp: dscp_q};
  // Rows 0..127 are the two tables, the high one first; a small card has less of each.
  assign tbl_we_o  = wr && 32'(link_wr_i.row) < LinkRowSl2vl && 32'(link_wr_i.row[5:0]) < ArbEntries;
  assign tbl_low_o = 32'(link_wr_i.row) >= LinkRowLow;
  assign tbl_idx_o = link_wr_i.row[ArbEntryW-1:0];
  assign tbl_o     = '{vl: arb.vl, weight: arb.weight};

endmodule
