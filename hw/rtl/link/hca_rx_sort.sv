// First stage of the link's receive half: frames the physical stream into packets, takes out flow control packets and
// MAC control frames, finds the ring of the others (LRH.VL, or the priority of the IP header) and judges each packet
// at its last beat, two cycles after it came at the latest. Never stalls. A packet is dropped if a beat had a symbol
// error, the port state does not let it in, its VL is not operational, VL15 carries anything but QP0, it is too long
// or malformed, or its ring is full. Exactly one strobe of `ev_o` per packet.
module hca_rx_sort
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls = 8,
  localparam int unsigned RingW = $clog2(NumVls + 1)
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  link_cfg_t          cfg_i,
  input  eth_class_t         class_i,
  input  logic               phy_up_i,
  input  logic               flush_i,          // nothing may come in
  input  logic               phy_valid_i,
  input  phy_t               phy_i,
  input  logic               phy_err_i,
  // Data: one beat to write, at `beat_index_o` slots behind the ring's write pointer.
  output logic [RingW-1:0]   ring_o,           // VL15: NumVls
  input  logic               full_i,           // of ring_o: no slot for the beat at beat_index_o
  output logic               write_o,
  output mac_t               beat_o,
  output logic [BlocksW-1:0] beat_index_o,
  output logic               good_o,           // with the last beat: the packet is good, if !full_i
  output logic [BlocksW-1:0] commit_blocks_o,
  // Link packets and MAC control frames without symbol error.
  output logic               link_valid_o,
  output logic               ctl_valid_o,
  output logic               first_o,
  output phy_t               phy_o,
  output rx_ev_t             ev_o
);

  // Ethernet with fewer rings than priorities: the lower bits choose.
  localparam int unsigned PrioMask = (NumVls < 8) ? NumVls - 1 : 7;

  // ---- Framing and classification, registered with each packet's first beat ----------------------
  logic       in_first_q, s1_valid_q, s1_first_q, s1_err_q;
  phy_t       s1_q;
  logic [3:0] vl, vl_q;
  logic [RingW-1:0] ring_q;
  logic [2:0] prio;
  logic [1:0] lnh;
  logic       is_ctl, is_ctl_q, vl_ok, vl_ok_q, state_ok, state_ok_q;

  assign vl       = phy_i.data[7:4];
  assign lnh      = phy_i.data[9:8];
  assign prio     = eth_prio(phy_i.data[159:0], class_i);
  assign is_ctl   = !cfg_i.ib && {phy_i.data[8*12 +: 8], phy_i.data[8*13 +: 8]} == EthertypeMacCtl;
  assign state_ok = !flush_i && (cfg_i.state == LinkArmed || cfg_i.state == LinkActive || cfg_i.state == LinkDefer ||
                                 (cfg_i.state == LinkInit && cfg_i.ib && vl == Vl15));

  logic unused_cfg;
  assign unused_cfg = ^cfg_i;

  // VL15 carries subnet management alone: BTH, or GRH and BTH, with destination QP 0 (VL-9).
  always_comb begin
    logic [15:0] mask;
    mask = {1'b0, cfg_i.vl_mask};
    if (!cfg_i.ib) vl_ok = 1'b1;
    else if (vl != Vl15) vl_ok = mask[vl];
    else if (lnh == 2'(LnhIbaLocal)) vl_ok = phy_i.data[8*13 +: 24] == 24'd0;
    else vl_ok = lnh == 2'(LnhIbaGlobal) && phy_i.data[8*53 +: 24] == 24'd0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i || !phy_up_i) begin
      in_first_q <= 1'b1;     // a packet that the link lost in the middle is forgotten
      s1_valid_q <= 1'b0;
    end else begin
      if (phy_valid_i) in_first_q <= phy_i.last;
      s1_valid_q <= phy_valid_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (phy_valid_i) begin
      s1_first_q <= in_first_q;
      s1_err_q   <= phy_err_i;
      s1_q       <= phy_i;
    end
    if (phy_valid_i && in_first_q) begin
      vl_q       <= cfg_i.ib ? vl : {1'b0, prio};
      ring_q     <= !cfg_i.ib ? RingW'({1'b0, prio} & 4'(PrioMask)) : (vl == Vl15) ? RingW'(NumVls) : RingW'(vl);
      is_ctl_q   <= is_ctl;
      vl_ok_q    <= vl_ok;
      state_ok_q <= state_ok;
    end else if (flush_i) begin
      state_ok_q <= 1'b0;
    end
  end

  // ---- Judgement -----------------------------------------------------------------------------------
  logic               err_q, bad_q, full_q;        // of the beats before this one
  logic [BlocksW-1:0] index_q, index;
  logic               err, bad, no_room, too_long, data_beat, fine, judge;
  rx_ev_t             ev;

  assign index     = s1_first_q ? '0 : index_q;
  assign too_long  = index >= BlocksW'(MaxBlocks);
  assign err       = s1_err_q || (!s1_first_q && err_q);
  assign bad       = too_long || s1_q.len_bytes == 7'd0 || s1_q.len_bytes > 7'd64 ||
                     (!s1_q.last && s1_q.len_bytes != 7'd64) || (!s1_first_q && bad_q);
  assign no_room   = full_i || (!s1_first_q && full_q);
  assign data_beat = s1_valid_q && !s1_q.link && !is_ctl_q;
  assign fine      = !bad && state_ok_q && vl_ok_q && !no_room;
  assign judge     = s1_valid_q && s1_q.last;

  always_ff @(posedge clk_i) begin
    if (s1_valid_q) begin
      err_q   <= err;
      bad_q   <= bad;
      full_q  <= no_room;
      index_q <= too_long ? index : index + 1'b1;
    end
  end

  // A link packet is only counted here when it is bad by itself; hca_fcp_rx judges the rest.
  always_comb begin
    ev    = '0;
    ev.vl = vl_q;
    if (judge) begin
      if (err) ev.symbol_err = cfg_i.state != LinkDown;
      else if (s1_q.link || is_ctl_q) ev = '0;
      else if (!state_ok_q) ev.state_drop = 1'b1;
      else if (bad) ev.malformed = 1'b1;
      else if (!vl_ok_q) ev.vl_mismatch = 1'b1;
      else if (no_room && cfg_i.ib && vl_q == Vl15) ev.vl15_drop = 1'b1;
      else if (no_room) ev.overrun = 1'b1;
      else ev.packet = 1'b1;
    end
  end

  // Whether there is room is known last: what is behind it puts it last too.
  logic good;

  assign good            = judge && !err && !s1_q.link && !is_ctl_q && state_ok_q && vl_ok_q && !bad &&
                           (s1_first_q || !full_q);
  assign ring_o          = ring_q;
  assign write_o         = data_beat && fine && !err;
  assign beat_o          = '{last: s1_q.last, len_bytes: s1_q.len_bytes, data: s1_q.data};
  assign beat_index_o    = index;
  assign good_o          = good;
  assign commit_blocks_o = index + 1'b1;
  assign link_valid_o    = s1_valid_q && s1_q.link && !err;
  assign ctl_valid_o     = s1_valid_q && !s1_q.link && is_ctl_q && s1_first_q && !err && state_ok_q;
  assign first_o         = s1_first_q;
  assign phy_o           = s1_q;
  assign ev_o            = ev;

endmodule
