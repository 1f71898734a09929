// Part of hca_pkg: how packets of a QP leave, and what was made of them.

  // Static rates that there may be at a time: two of each function at least.
  localparam bit ManyRates = (CardFeatures & FeatureCongestion) != '0 || NumFuncs > 4;
  localparam int unsigned NumRateGroups = ManyRates ? RateGroups : RateGroupsLeast;
  localparam int unsigned RateGroupW = $clog2(NumRateGroups);

  // How packets of a QP leave: what gates need to know.
  typedef struct packed {
    logic [LaneW-1:0] sl;   // its lane: port, and SL (Ethernet: priority)
    logic [RateGroupW-1:0] group;  // rate group, 0: none
    logic [23:0] interval;  // if it has one: rate_interval
    logic [6:0]  overhead;  // bytes of a packet on the wire without payload, RETH and AETH
  } tx_path_t;

  function automatic tx_path_t tx_path_of(qpc_t qpc, logic [NumPorts-1:0] ib_ports);
    tx_path_t path;
    logic     ib, unused_bits;
    unused_bits = ^qpc;
    ib        = ib_ports[port_of(qpc.port)];
    path.sl   = LaneW'({port_of(qpc.port), qpc.sl});
    path.group    = qpc.rate_group[RateGroupW-1:0];
    path.interval = qpc.rate_interval;
    // Headers up to the BTH, and CRCs; Ethernet: 24 bytes of preamble, FCS and gap.
    if (ib) path.overhead = qpc.is_global ? 7'd66 : 7'd26;
    else if (qpc.service == ServiceRaw) path.overhead = 7'd24;
    else path.overhead = qpc.is_ipv4 ? 7'd82 : 7'd102;
    return path;
  endfunction

  // Where a QP's packets wait for the wire: an SL on InfiniBand, a priority on Ethernet.
  typedef struct packed {
    logic [PortW-1:0] port;
    logic [3:0]       sl;
  } lane_ask_t;

  // What an Ethernet port makes of a frame: where its priority is, and that of each DSCP.
  typedef struct packed {
    logic                   trust_pcp;   // in its VLAN tag, else in its DSCP
    logic [Dscps-1:0][2:0]  dscp;
  } eth_class_t;

  // What has left a transmit ring. Who is in it when `mark` is read has left when `epoch` is beyond that mark, or
  // the ring empty.
  localparam int unsigned EpochW = 16;
  typedef struct packed {
    logic              empty;
    logic [EpochW-1:0] epoch;
    logic [EpochW-1:0] mark;
  } ring_age_t;

  localparam int unsigned RateSmallBytes = 256;  // packets up to here need not leave one by one

  // A packet that a scheduler has made, for hca_static_rate and hca_tx_ahead.
  typedef struct packed {
    logic        gathered;  // it goes through the gather; an ACK does not
    logic [LaneW-1:0] lane;
    logic [RateGroupW-1:0] group;
    logic [12:0] bytes;     // on the wire
    logic [23:0] interval;
  } tx_made_t;

  // Of a padded payload and what all packets of the path have: one sum, whose lowest carry is the padding.
  function automatic logic [12:0] tx_base_bytes(txp_t txp, tx_path_t path);
    logic [11:0] words;
    logic        unused_bits;
    unused_bits = ^{txp, path, words[0]};
    words = {txp.payload_bytes[12:2], 1'b1} + {11'(path.overhead >> 2), txp.payload_bytes[1:0] != '0};
    return {words[11:1], path.overhead[1:0]};
  endfunction

  // The opcode is known late: what it adds is one number, added last.
  function automatic tx_made_t tx_made_of(txp_t txp, tx_path_t path);
    tx_made_t    made;
    logic        unused_bits, is_xrc;
    logic [7:0]  opcode;   // UC, XRC: as that of RC
    logic [4:0]  added;    // in units of four
    unused_bits   = ^{txp, path};
    is_xrc        = txp.opcode[7:5] == 3'(ServiceXrc);
    opcode        = (is_xrc || txp.opcode[7:5] == 3'(ServiceUc)) ? {3'd0, txp.opcode[4:0]} : txp.opcode;
    made.gathered = txp.kind != TxAck;
    made.lane     = path.sl;
    made.group    = path.group;
    made.interval = path.interval;
    unique case (opcode) inside
      BthRcWriteFirst, BthRcWriteOnly, BthRcWriteOnlyImm, BthRcReadRequest: added = 5'(RethBytes / 4);
      BthRcCmpSwap, BthRcFetchAdd: added = 5'(AtomicEthBytes / 4);
      BthRcAtomicAcknowledge:      added = 5'((AethBytes + AtomicAckEthBytes) / 4);
      default:                     added = (txp.kind != TxReq) ? 5'(AethBytes / 4) : '0;
    endcase
    if (is_xrc) added = added + 5'(XrcethBytes / 4);
    made.bytes = tx_base_bytes(txp, path) + {6'd0, added, 2'd0};
    return made;
  endfunction

  // What congestion control makes of the headers of a port's packets (hca_cc).
  typedef struct packed {
    logic       ect;        // those of connections say that they understand marks
    logic [7:0] cnp_class;  // traffic class of CNPs
  } cc_tx_t;

  // Rates of QPs by congestion control: CcRateUnit-ths of a byte per cycle; debts are as fine.
  localparam int unsigned CcRateFracW = $clog2(CcRateUnit);
  localparam int unsigned CcRateW     = $clog2(CcRateFull) + 1;
  localparam int unsigned CcDebtW     = 16 + CcRateFracW;
  localparam logic [CcDebtW-1:0] CcAhead = CcDebtW'(4096 * CcRateUnit);   // a QP may be so far ahead of its rate

  // Of a port: rates count, where they were set since the newest row.
  typedef struct packed {
    logic       on;
    logic [7:0] epoch;
  } cc_pace_t;

  // A QP has a new rate. A strobe.
  typedef struct packed {
    logic               valid;
    logic [QpW-1:0]     qpn;
    logic [7:0]         epoch;
    logic [CcRateW-1:0] rate;
  } cc_rate_wr_t;

  // A QP below the full rate has sent.
  typedef struct packed {
    logic [PortW-1:0] port;
    logic [QpW-1:0]   qpn;
    logic [15:0]      bytes;
  } cc_sent_t;

  // What a QP owes, and what pays it.
  typedef struct packed {
    logic [CcDebtW-1:0] debt;
    logic [CcRateW-1:0] rate;
  } cc_debt_t;
