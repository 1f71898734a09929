// Types of the link layer that its two halves share: the physical stream, port configuration, virtual lanes,
// 64-byte blocks and flow control packets (IBA vol1 7.6, 7.8, 7.9). Bytes as everywhere: byte 0, the first on
// the wire, is bits 7:0. Contract: README.md of this folder.
package hca_link_pkg;

  import hca_pkg::*;

  // ---- Virtual lanes -----------------------------------------------------------------------------
  localparam logic [3:0] Vl15 = 4'd15;          // subnet management alone; data: VL0..VL14

  // Data VLs of each port of this build: 1, 2, 4, 8 or 15.
`ifdef HCA_NUM_VLS
  localparam int unsigned NumVlsDefault    = `HCA_NUM_VLS;
`else
  localparam int unsigned NumVlsDefault    = 8;
`endif
  // Defaults of the parameters of the same name. A VL stays open until its ring holds more than the gather does, so
  // that one whose turn it is has packets however much another VL takes.
  localparam int unsigned Vl15BytesDefault = 1024;   // ring of VL15, each direction
  localparam int unsigned TxOpenDefault    = 28160;  // a VL with less than this made and not sent is open
  localparam int unsigned AheadW           = 14;     // blocks of a VL on their way to its ring

  // Rings of one data VL, receive. Each gives some blocks for the ring of VL15, for which there would be block RAMs of
  // its own.
  function automatic int unsigned vl15_share(int unsigned vls);
    return DataBytes * ((Vl15BytesDefault / DataBytes + vls - 1) / vls);
  endfunction

  function automatic int unsigned rx_vl_bytes(int unsigned vls);
    return (SmallPools ? 24576 : 32768) - vl15_share(vls);
  endfunction

  // ---- Stream towards the PCS --------------------------------------------------------------------
  // Transmit: valid and ready. Receive: valid only, with an err wire beside each beat.
  typedef struct packed {
    logic       link;       // 1: link packet (flow control, one beat of 6 bytes); 0: data packet or frame
    logic       last;
    logic [6:0] len_bytes;  // 1..64; 64 unless last
    beat_t      data;
  } phy_t;

  // ---- Configuration -----------------------------------------------------------------------------
  // A row written by firmware (rows: link_row structs of abi/), one strobe, never stalled.
  typedef struct packed {
    logic         valid;
    logic         port;
    logic [7:0]   row;
    logic [255:0] data;
  } link_wr_t;

  typedef enum logic [2:0] {
    LinkDown   = 3'd1,
    LinkInit   = 3'd2,
    LinkArmed  = 3'd3,
    LinkActive = 3'd4,
    LinkDefer  = 3'd5   // active, but the physical link is in recovery
  } link_state_e;

  // Configuration of one port as its blocks see it: decoded, quasi-static.
  typedef struct packed {
    logic [2:0]  state;          // link_state_e, after the port's own transitions
    logic        ib;             // personality: 1 InfiniBand, 0 Ethernet
    logic [14:0] vl_mask;        // operational data VLs
    logic        round_quantum;  // arbitration policy: 1 round-quantum, 0 iba
    logic [7:0]  limit;          // Limit of High-Priority
    logic [2:0]  mtu;            // 1: 256 bytes .. 5: 4096
    logic [4:0]  hoq_life;       // at most 1024 << n cycles at the head of a ring; 31: for ever
    logic [7:0]  pfc_enable;     // Ethernet: priorities that a pause frame may stop
    logic [7:0]  strict;         // Ethernet: traffic classes that go first, the highest before the others
  } link_cfg_t;

  // Entry of a VL arbitration table. Weight: 64-byte units, 0 = the entry is skipped.
  typedef struct packed {
    logic [3:0] vl;
    logic [7:0] weight;
  } vl_entry_t;

  localparam int unsigned ArbEntries = hca_features_pkg::HasArbitration ? VlArbEntries : VlArbEntriesLeast;
  localparam int unsigned ArbEntryW  = $clog2(ArbEntries);

  // Operational VLs of an op_vls code (max_vl_num: 1 = VL0 .. 5 = VL0-14), no more than were built.
  function automatic logic [14:0] vl_mask_of(logic [2:0] code, int unsigned built);
    logic [14:0] mask;
    case (code)
      3'd1:    mask = 15'h0001;
      3'd2:    mask = 15'h0003;
      3'd3:    mask = 15'h000f;
      3'd4:    mask = 15'h00ff;
      3'd5:    mask = 15'h7fff;
      default: mask = 15'h0000;
    endcase
    return mask & 15'((16'd1 << built) - 16'd1);
  endfunction

  // ---- Blocks and credits ------------------------------------------------------------------------
  localparam int unsigned PacketW    = 13;    // bytes of a packet, LRH to VCRC or whole frame: up to 8191
  localparam int unsigned BlocksW    = 8;     // its 64-byte blocks
  localparam int unsigned CreditMax  = 2048;  // blocks that a receiver may promise
  // Longest packet taken: 4096 bytes and every header (InfiniBand 4192, Ethernet with a VLAN tag 4206).
  localparam int unsigned MaxBlocks  = 66;

  // ---- Transmit rings: one pool -----------------------------------------------------------------------
  localparam int unsigned TxPageBlocks  = 8;
  localparam int unsigned TxRingBlocks  = 1023;            // of a VL, at most: more than its gate lets in
  localparam int unsigned TxRingPkts    = 512;             // packets of a VL

  // What a VL has in any case: four of the longest packets hide most of the latency of host memory, two some of it.
  function automatic int unsigned tx_guard_blocks(int unsigned vls);
    return ((vls <= 8) ? 4 : 2) * MaxBlocks;
  endfunction

  // Multiples of 512, the depth of a block RAM, that leave hca_tx_gate some 200 blocks or more to share.
  function automatic int unsigned tx_pool_blocks(int unsigned vls);
    return (vls == 1) ? 1024 : (vls == 2) ? 1536 : (vls <= 4) ? 2048 : (vls <= 8) ? 3072 : 3584;
  endfunction

  // Blocks of a pool that no VL may count on: packets decided before a gate is seen shut (README.md) and the one for
  // which the door needs room; what a drop has not given back; pages half used; VL15.
  function automatic int unsigned tx_slop_blocks(int unsigned vls, int unsigned vl15_blocks);
    int unsigned pages;   // of a packet
    pages = (MaxBlocks + TxPageBlocks - 1) / TxPageBlocks;
    return 5 * MaxBlocks + (2 * pages + 1) * TxPageBlocks + 2 * (vls + 1) * TxPageBlocks +
           2 * vl15_blocks + 4 * TxPageBlocks;
  endfunction

  // What is left to share; 0: the pool is too small.
  function automatic int unsigned tx_shared_blocks(int unsigned vls, int unsigned vl15_blocks, int unsigned pool);
    int unsigned taken;
    taken = tx_slop_blocks(vls, vl15_blocks) + vls * tx_guard_blocks(vls);
    return (pool > taken) ? pool - taken : 0;
  endfunction

  // Blocks of a packet: its bytes from the LRH to the VCRC, in 64s, rounded up. It is also the number of beats.
  function automatic logic [BlocksW-1:0] blocks_of(logic [PacketW-1:0] bytes);
    return BlocksW'((14'(bytes) + 14'd63) >> 6);
  endfunction

  // The counters of credits run modulo 4096; a difference above 2048 is negative.
  function automatic logic credit_ok(logic [11:0] fccl, logic [11:0] fctbs, logic [BlocksW-1:0] blocks);
    logic [11:0] left;
    left = fccl - fctbs - 12'(blocks);
    return left <= 12'(CreditMax);
  endfunction

  function automatic logic [11:0] credits_left(logic [11:0] fccl, logic [11:0] fctbs);
    logic [11:0] left;
    left = fccl - fctbs;
    return (left <= 12'(CreditMax)) ? left : 12'd0;
  endfunction

  // ---- Flow control packets ----------------------------------------------------------------------
  localparam logic [3:0] FcpNormal = 4'd0;
  localparam logic [3:0] FcpInit   = 4'd1;
  localparam logic [6:0] FcpBytes  = 7'd6;
  localparam int unsigned FcpMaxCyclesDefault = 16384;   // every VL is told again then; power of two
  localparam int unsigned FcpTickLsb          = $clog2(FcpMaxCyclesDefault);

  typedef struct packed {
    logic [3:0]  op;
    logic [11:0] fctbs;
    logic [3:0]  vl;
    logic [11:0] fccl;
  } fcp_t;

  // What a received, good flow control packet tells the transmit half.
  typedef struct packed {
    logic        init;   // op was FcpInit
    logic [3:0]  vl;
    logic [11:0] fccl;
  } fc_upd_t;

  // What the transmit half did, a strobe each, for the counters.
  typedef struct packed {
    logic [3:0]         vl;          // of `packet`; Ethernet: traffic class
    logic               packet;      // a data packet left
    logic [BlocksW-1:0] blocks;      // its blocks
    logic               ctl;         // a flow control packet or PFC frame left
    logic               discard;     // a packet was dropped: link down, life time over
    logic               refused;     // a packet was dropped: its SL has no VL, or its VL is not operational
  } tx_ev_t;

  // Verdict on a received data packet, a strobe each.
  typedef struct packed {
    logic [3:0] vl;           // Ethernet: priority
    logic       packet;       // came into its ring
    logic       symbol_err;   // these dropped it (symbol_err: link packets too)
    logic       malformed;    // too long, or a beat that is not full inside the packet
    logic       vl_mismatch;  // VL not operational, or VL15 with something else than QP0
    logic       state_drop;   // port state
    logic       vl15_drop;    // no room
    logic       overrun;      // no room on a data VL
  } rx_ev_t;

  // CRC-16, polynomial 0x100B reflected, as the VCRC: 32 bits behind `start`.
  function automatic logic [15:0] lpcrc_step(logic [15:0] start, logic [31:0] bytes);
    logic [15:0] crc;
    crc = start;
    for (int unsigned i = 0; i < 32; i++) crc = (crc >> 1) ^ ((crc[0] ^ bytes[i]) ? 16'hd008 : 16'h0000);
    return crc;
  endfunction

  // Which of 32 bits each bit of it is the parity of: what is said step by step is mapped as a chain.
  function automatic logic [15:0][31:0] lpcrc_taps();
    logic [15:0][31:0] taps;
    logic [15:0]       one;
    for (int unsigned i = 0; i < 32; i++) begin
      one = lpcrc_step(16'd0, 32'd1 << i);
      for (int unsigned b = 0; b < 16; b++) taps[b][i] = one[b];
    end
    return taps;
  endfunction

  localparam logic [15:0][31:0] LpcrcTaps = lpcrc_taps();
  localparam logic [15:0]       LpcrcZero = lpcrc_step(16'hffff, 32'd0);

  // Starts from ones, inverted, low byte first.
  function automatic logic [15:0] lpcrc_of(logic [31:0] bytes);
    logic [15:0] crc;
    for (int unsigned b = 0; b < 16; b++) crc[b] = ^(bytes & LpcrcTaps[b]);
    return ~(crc ^ LpcrcZero);
  endfunction

  // The six bytes of a flow control packet; the two words of its header are big-endian.
  function automatic logic [47:0] fcp_pack(fcp_t fcp);
    logic [31:0] head;
    head = {fcp.fccl[7:0], fcp.vl, fcp.fccl[11:8], fcp.fctbs[7:0], fcp.op, fcp.fctbs[11:8]};
    return {lpcrc_of(head), head};
  endfunction

  function automatic fcp_t fcp_unpack(logic [31:0] head);
    fcp_t fcp;
    fcp.op    = head[7:4];
    fcp.fctbs = {head[3:0], head[15:8]};
    fcp.vl    = head[23:20];
    fcp.fccl  = {head[19:16], head[31:24]};
    return fcp;
  endfunction

  function automatic logic fcp_good(logic [47:0] bytes);
    return bytes[47:32] == lpcrc_of(bytes[31:0]);
  endfunction

  // The beat of a flow control packet. FCTBS must be true at the place in the stream where the packet stands, so
  // hca_link_tx alone fills FCTBS and LPCRC when it inserts the packet; whoever offers it may leave them 0.
  function automatic phy_t fcp_beat(fcp_t fcp);
    phy_t beat;
    beat.link      = 1'b1;
    beat.last      = 1'b1;
    beat.len_bytes = FcpBytes;
    beat.data      = 512'(fcp_pack(fcp));
    return beat;
  endfunction

  // ---- Ethernet: priorities and PFC (IEEE 802.1Qbb) -------------------------------------------------
  localparam int unsigned PfcFrameBytes       = 34;   // without the padding to 60
  localparam int unsigned PfcTicksPerQuantumW = 5;    // a quantum, 512 bit times, is 32 ticks
  localparam int unsigned PfcTicksPerCycle    = 25;   // 4 ns at 100 Gb/s: 400 bit times
  localparam logic [15:0] EthertypeMacCtl     = 16'h8808;

  // What a frame says of its priority, in its first 20 bytes. Where the DSCP would be is told by a bit of each
  // EtherType, so it is looked up while they are compared.
  typedef struct packed {
    logic       vlan;   // pcp is there
    logic [2:0] pcp;
    logic       ip;     // dscp is there
    logic [5:0] dscp;
  } eth_prio_t;

  function automatic eth_prio_t eth_prio_of(logic [159:0] head);
    logic [15:0] outer, inner;
    logic        behind, six;
    eth_prio_t   said;
    outer     = {head[103:96], head[111:104]};
    inner     = {head[135:128], head[143:136]};
    said.vlan = outer == 16'h8100;
    said.pcp  = head[119:117];
    said.ip   = outer == 16'h0800 || outer == 16'h86dd || (said.vlan && (inner == 16'h0800 || inner == 16'h86dd));
    behind    = outer[8];                        // 8100 alone of these three
    six       = behind ? inner[15] : outer[15];  // 86dd, not 0800
    case ({behind, six})
      2'b00:   said.dscp = head[127:122];                     // IPv4: second byte
      2'b01:   said.dscp = {head[115:112], head[127:126]};    // IPv6: across the first and the second
      2'b10:   said.dscp = head[159:154];
      default: said.dscp = {head[147:144], head[159:158]};
    endcase
    return said;
  endfunction

  // Priority of a frame: that of the DSCP in its IP header, with or without a VLAN tag, or the one in the tag. A frame
  // without what the port trusts has priority 0.
  function automatic logic [2:0] eth_prio(logic [159:0] head, eth_class_t by);
    eth_prio_t said;
    said = eth_prio_of(head);
    if (by.trust_pcp) return said.vlan ? said.pcp : 3'd0;
    return said.ip ? by.dscp[said.dscp] : 3'd0;
  endfunction

  // The ring of a packet that leaves: on InfiniBand the VL in its LRH, on Ethernet the traffic class of its priority.
  // That of its DSCP comes last, and is ORed to what any other packet has by then.
  function automatic logic [3:0] ring_of(logic [159:0] head, logic ib, eth_class_t by, logic [15:0][3:0] sl2vl);
    eth_prio_t  said;
    logic       by_dscp;
    logic [2:0] prio;
    said    = eth_prio_of(head);
    by_dscp = !ib && !by.trust_pcp && said.ip;
    prio    = by.dscp[said.dscp];
    ring_of = by_dscp ? '0 : ib ? head[7:4] : (by.trust_pcp && said.vlan) ? sl2vl[{1'b0, said.pcp}] : sl2vl[0];
    for (int unsigned p = 0; p < 8; p++) ring_of |= sl2vl[p] & {4{by_dscp && prio == 3'(p)}};
  endfunction

endpackage
