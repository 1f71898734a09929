// Transmit half of the link: a ring per VL behind hca_tx_wire, the arbiter, credits or PFC, and flow control packets in
// between. A packet is chosen while the one before it is still leaving; the order of choosing is the order on the wire.
//   choose   VL15 first, then flow control, then the arbiter's VL; at most one packet per cycle, two places (sel, cur)
//   read     one beat per cycle out of the ring's RAM, through a small FIFO to the physical stream
// A packet for a VL that is not operational (or a data packet whose SL maps to VL15) is refused at the door; one that
// the port state does not let out, or that stood at the head for its whole life time, is discarded; so is, and counts
// nowhere, one whose QP sends everything again since (hca_tx_head). Rules: README.md.
module hca_link_tx
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls       = NumVlsDefault,
  parameter int unsigned TxPoolBlocks = tx_pool_blocks(NumVls),
  parameter int unsigned Vl15Bytes    = Vl15BytesDefault,
  parameter int unsigned TxOpenBytes  = TxOpenDefault
) (
  input  logic                    clk_i,
  input  logic                    rst_i,
  input  link_cfg_t               cfg_i,
  input  logic                    phy_up_i,
  // Arbitration tables.
  input  logic                    tbl_we_i,
  input  logic                    tbl_low_i,
  input  logic [ArbEntryW-1:0]    tbl_idx_i,
  input  vl_entry_t               tbl_i,
  // Packets from hca_tx_wire.
  input  logic                    mac_valid_i,
  output logic                    mac_ready_o,
  input  mac_t                    mac_i,
  input  logic [3:0]              mac_vl_i,    // with a first beat: its VL, or the traffic class of its priority
  input  tx_round_t               mac_round_i,
  input  tx_round_t               round_i,     // one that begins: what an earlier one of its QP has here need not leave
  input  logic [7:0][3:0]         sl2vl_i,     // Ethernet: the traffic class of each priority
  // From the receive half: the peer's promises or pauses; what to send to it.
  input  logic                    fcp_i,
  input  fc_upd_t                 fcp_upd_i,
  input  logic [7:0]              pfc_paused_i,
  input  logic                    ctl_valid_i,
  output logic                    ctl_ready_o,
  input  phy_t                    ctl_i,       // one beat; FCTBS and LPCRC of a flow control packet are filled here
  // Physical stream.
  output logic                    phy_valid_o,
  input  logic                    phy_ready_i,
  output phy_t                    phy_o,
  // Gating of the send side, status.
  input  logic [NumVls-1:0][AheadW-1:0] ahead_i,  // blocks on their way here
  output logic [15:0]             vl_open_o,
  output logic [NumVls-1:0][11:0] credits_o,
  output logic [15:0][11:0]       fill_o,      // blocks
  output ring_age_t [NumVls-1:0]  age_o,
  output logic [15:0]             wait_o,      // something to send, but no credit or paused
  output tx_ev_t                  ev_o
);

  localparam int unsigned Rings      = NumVls + 1;
  localparam int unsigned RingW      = $clog2(Rings);
  localparam int unsigned VlW        = (NumVls > 1) ? $clog2(NumVls) : 1;
  localparam int unsigned Vl15Blocks = Vl15Bytes / 64;
  localparam int unsigned FillW      = $clog2(TxRingBlocks + 1);
  localparam logic [RingW-1:0] Vl15Ring = RingW'(NumVls);

  logic data_ok, running;   // the port state lets data in; and out at this moment
  assign data_ok = cfg_i.state == LinkActive || cfg_i.state == LinkDefer;
  assign running = cfg_i.state == LinkActive && phy_up_i;

  // ---- The door: which ring, or none -----------------------------------------------------------------
  logic             first_q, refuse, discard;
  logic [Rings-1:0] may_begin, goes_on_q, wr, full;   // of each ring: the packet at the door, the one under way
  logic [RingW-1:0] ring, ring_now, ring_q;
  logic [Rings-1:0] room;
  logic             door_shut;                   // for whatever begins
  logic             is_vl15, vl15_lawful, vl15_ok, operational;

  assign is_vl15     = cfg_i.ib && mac_vl_i == Vl15;
  assign vl15_lawful = (mac_i.data[9:8] == 2'(LnhIbaGlobal)) ? mac_i.data[8*53 +: 24] == '0
                                                             : mac_i.data[8*13 +: 24] == '0;

  assign vl15_ok     = cfg_i.state != LinkDown && room[Vl15Ring];
  assign operational = |({1'b0, cfg_i.vl_mask} & (16'd1 << mac_vl_i));
  assign ring_now    = is_vl15 ? Vl15Ring : RingW'(mac_vl_i);
  assign refuse      = is_vl15 ? !vl15_lawful : !operational;
  assign discard     = is_vl15 ? !vl15_ok : !data_ok;
  assign ring        = first_q ? ring_now : ring_q;

  // Ring by ring: whether a packet is lawful matters to the one of VL15 alone; only rings of data keep one waiting.
  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_door
    logic ours;
    assign ours         = !is_vl15 && mac_vl_i == 4'(v) && cfg_i.vl_mask[v] && data_ok;
    assign may_begin[v] = ours && room[v];
    assign full[v]      = ours && !room[v];
  end
  assign may_begin[NumVls] = is_vl15 && vl15_ok && vl15_lawful;
  assign full[NumVls]      = 1'b0;

  assign mac_ready_o = !first_q || (full == '0 && !door_shut);
  assign wr          = (first_q ? may_begin & {Rings{!door_shut}} : goes_on_q) & {Rings{mac_valid_i}};

  always_ff @(posedge clk_i) begin
    if (rst_i) first_q <= 1'b1;
    else if (mac_valid_i && mac_ready_o) first_q <= mac_i.last;
    if (mac_valid_i && mac_ready_o && first_q) begin
      ring_q    <= ring_now;
      goes_on_q <= may_begin;
    end
  end

  // ---- Rings ---------------------------------------------------------------------------------------------
  logic [Rings-1:0]              head_valid;
  logic [Rings-1:0][PacketW-1:0] head_bytes;
  logic [Rings-1:0][FillW-1:0]   fill;
  logic [Rings-1:0][BlocksW-1:0] head_blocks;
  logic [NumVls-1:0]             head_stale;     // its QP sends everything again since
  logic                          pop, drop, drop_busy, rd_en, rd_hold, too_long;
  logic [Rings-1:0]              pops, drops, gone;   // the same of each ring; either
  logic [RingW-1:0]              pop_ring, drop_ring_q, rd_ring;
  mac_t                          rd_beat;

  hca_vl_queue #(
    .NumVls    (NumVls),
    .PoolBlocks(TxPoolBlocks),
    .Vl15Blocks(Vl15Blocks)
  ) u_queue (
    .clk_i, .rst_i, .wr_i(wr), .wr_ring_i(ring), .wr_beat_i(mac_i), .wr_round_i(mac_round_i), .round_i,
    .room_o(room), .wait_o(door_shut), .long_o(too_long), .head_valid_o(head_valid), .head_bytes_o(head_bytes),
    .head_blocks_o(head_blocks), .head_stale_o(head_stale), .pop_i(pops), .drop_i(drops),
    .drop_ring_i(drop_ring_q), .busy_o(drop_busy),
    .rd_en_i(rd_en), .rd_ring_i(rd_ring), .hold_o(rd_hold), .rd_beat_o(rd_beat), .fill_o(fill), .age_o
  );

  // ---- Who may send: credits or pauses -------------------------------------------------------------------
  logic [NumVls-1:0]             has_credit, paused, taken, taken_q, req_q, waits;
  logic [NumVls-1:0]             strict, arb_req_q, arb_wait_q;
  logic [NumVls-1:0][11:0]       fctbs;
  logic [NumVls-1:0][PacketW-1:0] data_bytes;
  logic [BlocksW-1:0]            pop_blocks;

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_vl
    logic ask;

    hca_tx_credit u_credit (
      .clk_i, .rst_i, .clear_i(cfg_i.state == LinkDown || !cfg_i.ib),
      .upd_i(fcp_i && fcp_upd_i.vl == 4'(v)), .upd_init_i(fcp_upd_i.init), .upd_fccl_i(fcp_upd_i.fccl),
      .ask_blocks_i(head_blocks[v]), .ok_o(has_credit[v]),
      .send_i(pops[v]), .send_blocks_i(head_blocks[v]), .fctbs_o(fctbs[v]), .left_o(credits_o[v])
    );

    always_comb begin
      paused[v] = 1'b0;
      for (int unsigned p = 0; p < 8; p++) begin
        if (32'(sl2vl_i[p]) == v) paused[v] = paused[v] || (pfc_paused_i[p] && cfg_i.pfc_enable[p]);
      end
    end

    assign data_bytes[v] = head_bytes[v];
    // A register in front of the arbiter: whether a VL that sends has another packet is known two cycles later.
    assign taken[v] = gone[v];
    assign ask      = running && head_valid[v] && !taken[v] && !head_stale[v]
                      && (cfg_i.ib ? has_credit[v] : !paused[v]);

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        req_q[v]   <= 1'b0;
        taken_q[v] <= 1'b0;
        arb_req_q[v]  <= 1'b0;
        arb_wait_q[v] <= 1'b0;
      end else begin
        req_q[v]   <= ask;
        taken_q[v] <= taken[v];
        // Strict classes are not the arbiter's.
        arb_req_q[v]  <= ask && !strict[v];
        arb_wait_q[v] <= taken[v] && !strict[v];
      end
    end

    assign waits[v]      = taken_q[v];   // also if it has none: whether it has is known as late
    assign wait_o[v]     = head_valid[v] && data_ok && (cfg_i.ib ? !has_credit[v] : paused[v]);
  end

  for (genvar v = int'(NumVls); v < 16; v++) begin : gen_no_vl
    assign wait_o[v] = 1'b0;
  end

  // ---- Choose --------------------------------------------------------------------------------------------
  logic             sel_valid_q, sel_ctl_q, sel_mute, sel_take, cur_valid_q, cur_ctl_q, cur_mute_q, rd_go;
  logic             may_choose, ctl_go, vl15_go, strict_go, may_arb, arb_go, strict_valid, strict_busy;
  logic [NumVls-1:0] strict_first;
  logic [RingW-1:0] strict_ring;
  logic [RingW-1:0] sel_ring_q, cur_ring_q;
  logic [BlocksW-1:0] sel_blocks_q, cur_left_q;
  phy_t             sel_beat_q, cur_beat_q, ctl_beat;
  logic             pick_valid;
  logic [NumVls-1:0] pick;
  logic [VlW-1:0]   pick_vl;
  logic [BlocksW-1:0] pick_blocks, strict_blocks;
  fcp_t             fcp;

  hca_vl_arb #(
    .NumVls(NumVls)
  ) u_arb (
    .clk_i, .rst_i, .clear_i(cfg_i.state == LinkDown), .round_quantum_i(cfg_i.round_quantum), .limit_i(cfg_i.limit),
    .mtu_i(cfg_i.mtu), .tbl_we_i, .tbl_low_i, .tbl_idx_i, .tbl_i, .req_i(arb_req_q), .wait_i(arb_wait_q),
    .bytes_i(data_bytes), .blocks_i(head_blocks[NumVls-1:0]), .pick_valid_o(pick_valid), .pick_o(pick),
    .pick_vl_o(pick_vl), .pick_blocks_o(pick_blocks), .take_i(may_arb)
  );

  assign strict      = NumVls'(cfg_i.strict);
  assign may_choose  = (!sel_valid_q || sel_take) && !drop;
  assign vl15_go     = may_choose && head_valid[NumVls] && phy_up_i && cfg_i.state != LinkDown;
  assign ctl_ready_o = may_choose && !vl15_go;
  assign ctl_go      = ctl_ready_o && ctl_valid_i;
  assign strict_go   = may_choose && !ctl_valid_i && !vl15_go && strict_valid;
  assign may_arb     = may_choose && !ctl_valid_i && !vl15_go && !strict_busy;
  assign arb_go      = may_arb && pick_valid;
  assign pop         = vl15_go || strict_go || arb_go;
  assign pop_ring    = vl15_go ? Vl15Ring : strict_go ? strict_ring : RingW'(pick_vl);
  assign pop_blocks  = vl15_go ? head_blocks[NumVls] : strict_go ? strict_blocks : pick_blocks;

  // Of each ring by itself: those who wait for that need no number.
  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_pop
    assign pops[v] = (strict_go && strict_first[v]) || (may_arb && pick[v]);
  end
  for (genvar r = 0; r < int'(Rings); r++) begin : gen_drop
    assign drops[r] = drop && drop_ring_q == RingW'(r);
  end
  assign pops[NumVls] = vl15_go;
  assign gone         = pops | drops;

  logic unused_bytes;
  assign unused_bytes = ^head_bytes[NumVls];

  // Ethernet: of strict traffic classes the highest one, before those with weights. One that was taken may have another
  // packet, which is known in the next cycle: those below it wait for that.
  always_comb begin
    strict_valid = 1'b0;
    strict_busy  = 1'b0;
    strict_ring  = '0;
    strict_first = '0;
    for (int unsigned v = 0; v < NumVls; v++) begin
      if (strict[v] && (req_q[v] || waits[v])) begin
        strict_valid = req_q[v];
        strict_busy  = 1'b1;
        strict_ring  = RingW'(v);
        strict_first = NumVls'(1) << v;
      end
    end
  end

  always_comb begin
    strict_blocks = '0;
    for (int unsigned v = 0; v < NumVls; v++) strict_blocks |= head_blocks[v] & {BlocksW{strict_first[v]}};
  end

  // FCTBS as of this place in the stream: everything chosen before is counted, nothing that comes later.
  always_comb begin
    fcp = fcp_unpack(ctl_i.data[31:0]);
    fcp.fctbs = '0;
    for (int unsigned v = 0; v < NumVls; v++) begin
      if (fcp.vl == 4'(v)) fcp.fctbs = fctbs[v];
    end
    ctl_beat = ctl_i.link ? fcp_beat(fcp) : ctl_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      sel_valid_q <= 1'b0;
      cur_valid_q <= 1'b0;
    end else begin
      sel_valid_q <= ctl_go || pop || (sel_valid_q && !sel_take);
      cur_valid_q <= sel_take || (cur_valid_q && !(rd_go && cur_left_q == BlocksW'(1)));
    end
    if (may_choose) begin   // which need not wait for whether something is chosen
      sel_ctl_q    <= ctl_go;
      sel_ring_q   <= pop_ring;
      sel_blocks_q <= ctl_go ? BlocksW'(1) : pop_blocks;
      sel_beat_q   <= ctl_beat;
    end
    if (sel_take) begin
      cur_ctl_q  <= sel_ctl_q;
      cur_mute_q <= sel_mute;
      cur_ring_q <= sel_ring_q;
      cur_left_q <= sel_blocks_q;
      cur_beat_q <= sel_beat_q;
    end else if (rd_go) begin
      cur_left_q <= cur_left_q - 1'b1;
    end
  end

  // ---- Read ----------------------------------------------------------------------------------------------
  logic       rd_q, rd_ctl_q, out_room_q, leaves, unused_out_ready;
  phy_t       rd_ctl_beat_q;
  logic [2:0] out_count, out_held;

  // A packet behind one that was dropped may have to wait for its first beat. Whether there is room for a beat, beside
  // the one that is being read, is known a cycle before.
  assign rd_go    = cur_valid_q && out_room_q && (!rd_hold || cur_ctl_q);
  assign out_held = out_count + 3'(rd_q);
  assign leaves   = phy_valid_o && phy_ready_i;
  assign rd_en    = rd_go && !cur_ctl_q;
  assign rd_ring  = cur_ring_q;

  // A chosen packet waits for the physical link; if the port state changes meanwhile it is read but does not leave.
  assign sel_mute = !sel_ctl_q && ((sel_ring_q == Vl15Ring) ? cfg_i.state == LinkDown : !data_ok);
  assign sel_take = sel_valid_q && (phy_up_i || sel_mute) && (!cur_valid_q || (rd_go && cur_left_q == BlocksW'(1)));

  always_ff @(posedge clk_i) begin
    if (rst_i) rd_q <= 1'b0;
    else rd_q <= rd_go && !cur_mute_q;
    out_room_q    <= rst_i || leaves || out_held < ((rd_go && !cur_mute_q) ? 3'd3 : 3'd4);
    rd_ctl_q      <= cur_ctl_q;
    rd_ctl_beat_q <= cur_beat_q;
  end

  hca_fifo #(
    .Width($bits(phy_t)),
    .Depth(4)
  ) u_out (
    .clk_i, .rst_i,
    .in_valid_i(rd_q), .in_ready_o(unused_out_ready), .in_i(rd_ctl_q ? rd_ctl_beat_q : {1'b0, rd_beat}),
    .out_valid_o(phy_valid_o), .out_ready_i(phy_ready_i), .out_o(phy_o), .count_o(out_count)
  );

  // ---- Discards: one ring is looked at per cycle ---------------------------------------------------------
  localparam int unsigned LifeW = 22;   // units of 1024 cycles; hoq_life beyond it never expires

  logic [9:0]                  tick_q;
  logic [Rings-1:0][LifeW-1:0] age_q;
  logic [LifeW-1:0]            life;
  logic [Rings-1:0]            old_q;
  logic [Rings-1:0]            late, due;         // a head's life is over, or the port shut; it is not to leave
  logic [RingW-1:0]            drop_ring;
  logic                        expires, stays, due_q, late_q, at_door, door_refused_q, door_discard_q;

  assign expires = 32'(cfg_i.hoq_life) < LifeW - 1;
  assign life    = LifeW'(1) << cfg_i.hoq_life;
  // None of these waits for room in a ring of data.
  assign at_door = mac_valid_i && first_q && !door_shut && (refuse || discard);
  for (genvar r = 0; r < int'(Rings); r++) begin : gen_due
    assign late[r] = ((r == int'(NumVls)) ? cfg_i.state == LinkDown : !data_ok) || (expires && old_q[r]);
    assign due[r]  = head_valid[r] && (late[r] || 1'(Rings'(head_stale) >> r));
  end

  // Whose turn is next, and whether its head is due, is known a cycle before: one that was chosen meanwhile is in sel.
  // An empty queue stands still; none is passed by because the one before it has just lost a packet; stale ones come in
  // a row. One discard a cycle, for the counter.
  assign stays     = drop_busy || head_valid == '0 || (drop && !late_q);
  assign drop_ring = (drop_ring_q == Vl15Ring) ? '0 : drop_ring_q + 1'b1;
  assign drop      = due_q && !drop_busy && !door_refused_q && !door_discard_q &&
                     !(sel_valid_q && !sel_ctl_q && sel_ring_q == drop_ring_q) &&
                     !(cur_valid_q && !cur_ctl_q && cur_ring_q == drop_ring_q);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      tick_q      <= '0;
      drop_ring_q <= '0;
      age_q       <= '0;
    end else begin
      if (head_valid != '0) tick_q <= tick_q + 1'b1;
      if (!stays) drop_ring_q <= drop_ring;
      for (int unsigned r = 0; r < Rings; r++) begin
        if (!head_valid[r] || gone[r]) age_q[r] <= '0;
        else if (tick_q == '1 && running && !(&age_q[r])) age_q[r] <= age_q[r] + 1'b1;
        // Of the head: with the next one it begins anew.
        old_q[r] <= head_valid[r] && age_q[r] > life && !gone[r];
      end
    end
    due_q  <= !rst_i && (stays ? due[drop_ring_q] : due[drop_ring]);
    late_q <= stays ? late[drop_ring_q] : late[drop_ring];
    // The discards of the door are counted a cycle later, so that none of a ring waits for the decision there.
    door_refused_q <= !rst_i && at_door && refuse;
    door_discard_q <= !rst_i && ((at_door && !refuse) || too_long);
  end

  // ---- What the others see -------------------------------------------------------------------------------
  logic [NumVls-1:0] open;

  hca_tx_gate #(
    .NumVls    (NumVls),
    .FillW     (FillW),
    .OpenBlocks(TxOpenBytes / 64),
    .Shared    (tx_shared_blocks(NumVls, Vl15Blocks, TxPoolBlocks))
  ) u_gate (
    .clk_i, .rst_i, .fill_i(fill[NumVls-1:0]), .ahead_i, .open_o(open)
  );

  always_comb begin
    vl_open_o = '1;
    fill_o    = '0;
    for (int unsigned v = 0; v < NumVls; v++) begin
      vl_open_o[v] = open[v] || (cfg_i.ib && !cfg_i.vl_mask[v]);
      fill_o[v]    = 12'(fill[v]);
    end
    fill_o[15] = 12'(fill[NumVls]);
  end

  always_comb begin
    ev_o         = '0;
    ev_o.vl      = vl15_go ? Vl15 : 4'(pop_ring);
    ev_o.packet  = pop;
    ev_o.blocks  = pop_blocks;
    ev_o.ctl     = ctl_go;
    ev_o.refused = door_refused_q;
    ev_o.discard = door_discard_q || (drop && late_q);
  end

endmodule
