// Receive half of the link. The physical stream comes in and never waits; packets go into one ring per VL (one RAM),
// whole and good ones only, and leave VL by VL towards hca_rx_wire (store and forward). Flow control packets and PFC
// frames are taken out: `fcp` tells the transmit half the peer's credits, `pfc_paused_o` whom it has stopped. What
// comes out first is VL15. Latency: last beat in to first beat out 3 cycles. Details: README.md.
module hca_link_rx
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls    = NumVlsDefault,
  parameter int unsigned RxVlBytes = rx_vl_bytes(NumVls),
  parameter int unsigned Vl15Bytes = Vl15BytesDefault,
  localparam int unsigned Blocks   = RxVlBytes / 64,
  localparam int unsigned FillW    = $clog2(Blocks) + 1
) (
  input  logic                         clk_i,
  input  logic                         rst_i,
  input  link_cfg_t                    cfg_i,
  input  eth_class_t                   class_i,       // Ethernet: priorities
  input  logic                         phy_up_i,
  input  logic                         phy_valid_i,
  input  phy_t                         phy_i,
  input  logic                         phy_err_i,     // symbol error in this beat's packet
  input  logic                         room_i,        // hca_rx_wire has room for a packet
  input  logic [15:0]                  hold_i,        // VLs that are not drained; a test's knob, else 0
  output logic                         mac_valid_o,
  input  logic                         mac_ready_i,
  output mac_t                         mac_o,
  output logic                         fcp_o,         // strobe with fcp_upd_o
  output fc_upd_t                      fcp_upd_o,
  output logic [7:0]                   pfc_paused_o,
  output logic [7:0]                   pfc_stop_o,    // strobes: a pause frame came that stops these priorities
  output logic [NumVls-1:0][11:0]      abr_o,         // receive credits, for hca_fcp_tx
  output logic [NumVls-1:0][11:0]      fccl_o,
  output logic [NumVls-1:0][FillW-1:0] fill_o,        // blocks in each ring
  output logic [FillW-1:0]             vl15_fill_o,
  output rx_ev_t                       ev_o,
  output logic                         lpcrc_err_o,
  output logic                         fcp_malformed_o
);

  localparam int unsigned Vl15Blocks = Vl15Bytes / 64;
  localparam int unsigned RingW      = $clog2(NumVls + 1);
  localparam int unsigned Slots      = NumVls * Blocks + Vl15Blocks;
  localparam int unsigned AddrW      = $clog2(Slots);

  typedef logic [NumVls:0][AddrW-1:0] places_t;

  function automatic places_t last_of_each();
    for (int unsigned r = 0; r < NumVls; r++) last_of_each[r] = AddrW'((r + 1) * Blocks - 1);
    last_of_each[NumVls] = AddrW'(Slots - 1);
  endfunction

  function automatic places_t first_of_each();
    for (int unsigned r = 0; r <= NumVls; r++) first_of_each[r] = AddrW'(r * Blocks);
  endfunction

  localparam places_t Last  = last_of_each();
  localparam places_t First = first_of_each();

  // blocks_used + beat >= blocks: the carry out of one chain behind a carry-save row with what is left to a power of
  // two.
  function automatic logic no_slot(logic [FillW-1:0] blocks_used, int unsigned blocks, logic [BlocksW-1:0] beat);
    localparam int unsigned SumW = ((FillW > BlocksW) ? FillW : BlocksW) + 1;
    logic [SumW-1:0] a, b, c, sums, carries;
    logic [SumW+1:0] total;
    a       = SumW'(blocks_used);
    b       = SumW'(beat);
    c       = SumW'((1 << SumW) - blocks);
    sums    = a ^ b ^ c;
    carries = (a & b) | (c & (a | b));
    total   = (SumW + 2)'(sums) + {1'b0, carries, 1'b0};
    return total[SumW];
  endfunction

  // ---- Rings ---------------------------------------------------------------------------------------
  logic                       flush, flush_q, clear;
  logic [NumVls:0]            packet, take, commit_to, pop_from, hold;
  places_t                    wr_ptr, rd_ptr;         // addresses in the RAM
  logic [NumVls:0][FillW-1:0] used;
  logic [RingW-1:0]           wr_ring;
  logic                       full, write, good, re;
  logic [BlocksW-1:0]         index, commit_blocks;
  logic [AddrW-1:0]           waddr, raddr;
  mac_t                       wr_beat, rdata;
  logic                       link_valid, ctl_valid, first;
  phy_t                       phy;
  logic [11:0]                fcp_fctbs;

  // Everything is forgotten when the port goes DOWN; the drain ends the packet it is in before that.
  assign flush = (cfg_i.state == LinkDown) || flush_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) flush_q <= 1'b0;
    else flush_q <= flush && !clear;
  end

  hca_rx_sort #(
    .NumVls(NumVls)
  ) u_sort (
    .clk_i,
    .rst_i,
    .cfg_i,
    .class_i,
    .phy_up_i,
    .flush_i        (flush),
    .phy_valid_i,
    .phy_i,
    .phy_err_i,
    .ring_o         (wr_ring),
    .full_i         (full),
    .write_o        (write),
    .beat_o         (wr_beat),
    .beat_index_o   (index),
    .good_o         (good),
    .commit_blocks_o(commit_blocks),
    .link_valid_o   (link_valid),
    .ctl_valid_o    (ctl_valid),
    .first_o        (first),
    .phy_o          (phy),
    .ev_o
  );

  hca_fcp_rx #(
    .NumVls(NumVls)
  ) u_fcp (
    .clk_i,
    .rst_i,
    .enable_i   (cfg_i.ib && !flush),
    .vl_mask_i  (cfg_i.vl_mask),
    .valid_i    (link_valid),
    .first_i    (first),
    .phy_i      (phy),
    .fcp_o,
    .fcp_upd_o,
    .fcp_fctbs_o(fcp_fctbs),
    .lpcrc_err_o,
    .malformed_o(fcp_malformed_o)
  );

  hca_pfc_rx u_pfc (
    .clk_i,
    .rst_i,
    .clear_i (flush),
    .valid_i (ctl_valid),
    .phy_i   (phy),
    .enable_i(cfg_i.pfc_enable),
    .paused_o(pfc_paused_o),
    .stop_o  (pfc_stop_o)
  );

  for (genvar r = 0; r <= NumVls; r++) begin : gen_ring
    localparam int unsigned RingBlocks = (r == NumVls) ? Vl15Blocks : Blocks;

    logic [$clog2(RingBlocks):0] ring_used;
    logic [11:0]                 abr, fccl;

    assign commit_to[r] = good && wr_ring == RingW'(r) && !full;
    assign hold[r]      = hold_i[(r == NumVls) ? 15 : r];
    assign used[r]      = FillW'(ring_used);

    hca_rx_ring #(
      .Blocks(RingBlocks),
      .First (r * Blocks),
      .AddrW (AddrW)
    ) u_ring (
      .clk_i,
      .rst_i,
      .clear_i        (clear),
      .fcp_i          (fcp_o && r < NumVls && fcp_upd_o.vl == 4'(r)),
      .fcp_fctbs_i    (fcp_fctbs),
      .commit_i       (commit_to[r]),
      .commit_blocks_i(commit_blocks),
      .take_i         (take[r]),
      .pop_i          (pop_from[r]),
      .wr_ptr_o       (wr_ptr[r]),
      .rd_ptr_o       (rd_ptr[r]),
      .used_o         (ring_used),
      .packet_o       (packet[r]),
      .abr_o          (abr),
      .fccl_o         (fccl)
    );

    if (r < NumVls) begin : gen_credits
      assign abr_o[r]  = abr;
      assign fccl_o[r] = fccl;
      assign fill_o[r] = ring_used;
    end else begin : gen_vl15
      logic unused_credits;
      assign unused_credits = ^{abr, fccl};
      assign vl15_fill_o    = FillW'(ring_used);
    end
  end

  // ---- RAM -----------------------------------------------------------------------------------------
  // Room is compared for VL15 and for the others side by side, each with what its ring may have used before this beat.
  localparam int unsigned VlW = (NumVls > 1) ? $clog2(NumVls) : 1;

  logic             of_vl15;
  logic [FillW-1:0] vl_used;

  assign of_vl15 = wr_ring == RingW'(NumVls);
  assign vl_used = used[RingW'(VlW'(wr_ring))];

  assign full    = of_vl15 ? no_slot(used[NumVls], Vl15Blocks, index) : no_slot(vl_used, Blocks, index);

  // A packet's first beat goes to its ring's write pointer, each other one behind the beat before it. One that is not
  // written moves nothing: its packet is not good.
  logic [AddrW-1:0] waddr_q;

  assign waddr = first ? wr_ptr[wr_ring] : (waddr_q == Last[wr_ring]) ? First[wr_ring] : waddr_q + 1'b1;

  always_ff @(posedge clk_i) begin
    if (write) waddr_q <= waddr;
  end

  hca_ram_1r1w #(
    .Width($bits(mac_t)),
    .Depth(Slots)
  ) u_ram (
    .clk_i,
    .we_i   (write),
    .waddr_i(waddr),
    .wdata_i(wr_beat),
    .re_i   (re),
    .raddr_i(raddr),
    .rdata_o(rdata)
  );

  hca_rx_drain #(
    .NumVls(NumVls),
    .AddrW (AddrW)
  ) u_drain (
    .clk_i,
    .rst_i,
    .flush_i (flush),
    .clear_o (clear),
    .packet_i(packet),
    .hold_i  (hold),
    .take_o  (take),
    .room_i,
    .re_o    (re),
    .rd_ptr_i(rd_ptr),
    .pop_o   (pop_from),
    .raddr_o (raddr),
    .rdata_i (rdata),
    .mac_valid_o,
    .mac_ready_i,
    .mac_o
  );

endmodule
