// What firmware is told of a packet that is looked at: keys that are wrong, a QP that has not the row, a peer that arms
// or migrates its path. May be left out when there is little room; no stalls, no state.
module hca_rx_look_ev
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic           spare_i,      // there is room
  input  rx_verdict_t    verdict_i,
  input  logic           lines_on_i,   // who misses is hca_lines' business
  input  rxd_t           rxd_i,
  input  logic [7:0]     func_i,
  input  logic [QpW-1:0] qpn_i,
  input  logic           is_answer_i,
  output logic           valid_o,
  output rx_ev_t         ev_o
);

  // Of what a path is told by: on InfiniBand the source LID, on Ethernet both GIDs, so that they may not be swapped.
  function automatic logic [15:0] path_digest(rxd_t d);
    logic [15:0] source, dest;
    logic        unused;
    unused = ^d;
    if (d.ib) return d.slid;
    {source, dest} = '0;
    for (int unsigned i = 0; i < 8; i++) source ^= d.sgid[16*i +: 16];
    for (int unsigned i = 0; i < 8; i++) dest ^= d.dgid[16*i +: 16];
    return source ^ {dest[14:0], dest[15]};
  endfunction

  logic        unused_in;
  logic [16:0] cause;
  logic        upper;
  assign unused_in = ^{verdict_i, rxd_i};

  always_comb begin
    ev_o           = '{kind: HwEventPkeyViolation, func: func_i, qpn: qpn_i, default: '0};
    {upper, cause} = 18'(rxd_i.slid);
    if (verdict_i.qkey_viol) begin
      ev_o.kind = HwEventQkeyViolation;
    end else if (verdict_i.miss) begin
      ev_o.kind      = HwEventPacketMiss;
      {upper, cause} = {1'b0, !is_answer_i, 16'(rxd_i.dest_qpn[23:QpW])};
    end else if (verdict_i.asks) begin
      ev_o.kind      = HwEventPathAsked;
      {upper, cause} = {rxd_i.pkey[15], 1'(rxd_i.port), {1'b0, rxd_i.pkey[14:0]} ^ path_digest(rxd_i)};
    end else if (verdict_i.arms) begin
      ev_o.kind = HwEventPathArmed;
    end
    {ev_o.who, ev_o.syndrome, ev_o.status} = {upper, cause};
  end

  assign valid_o = spare_i && (verdict_i.pkey_viol || verdict_i.qkey_viol
                               || (verdict_i.miss && !lines_on_i) || verdict_i.asks || verdict_i.arms);

endmodule
