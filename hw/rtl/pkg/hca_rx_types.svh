// Part of hca_pkg: what the receive side says of packets.

  // How a packet has ended in the receiver behind the link, for hca_counters: one strobe.
  typedef struct packed {
    logic good;
    logic icrc_err;
    logic vcrc_err;
    logic malformed;
    logic dropped;
  } rx_ended_t;

  // A frame of the transport's, for sniffers: longer than a program may send one.
  localparam logic [7:0] OpcodeRaw = {3'(ServiceRaw), 5'd0}, OpcodeSniffed = {3'(ServiceRaw), 5'd1};

  // A packet whose frame has been kept, as the frame that sniffers get.
  function automatic rxd_t sniffed(rxd_t d);
    rxd_t frame;
    logic unused_rest;
    unused_rest         = ^d;
    frame               = '0;
    frame.kind          = RxdRaw;
    frame.smp           = 1'b1;    // no key is asked for
    frame.port          = d.port;
    frame.opcode        = OpcodeSniffed;
    frame.rules         = d.rules;
    frame.buf_beat      = d.buf_beat;
    frame.buf_beats     = d.buf_beats;
    frame.place         = d.place;
    frame.payload_bytes = d.frame_bytes;
    return frame;
  endfunction

  // What hca_rx_ctrl found, for hca_counters and hca_cc: strobes, and the QP with its port.
  typedef struct packed {
    logic [PortW-1:0] port;
    logic [QpW-1:0]   qpn;
    logic             pkey_viol;  // P_Key violation
    logic             qkey_viol;  // Q_Key violation
    logic             bad_source; // not from the QP's peer
    logic             dup;        // a repeated request
    logic             timeout;    // a transport timer expired
    logic             rewind;     // transmission goes back
    logic             marked;     // data of a connection came with a congestion mark
    logic             cnp;        // a CNP came from the QP's peer
    logic             qp1_drop;   // QP1 has no receive for a datagram
    logic             stray;      // no QP takes the packet
    logic             dry;        // a QP of datagrams, not QP1, has no receive for one
  } rx_strobes_t;

  // hca_rx_filter of a packet.
  typedef struct packed {
    logic miss;        // for a QP that has not the row, but may be one of those that share it
    logic accept;
    logic pkey_viol;   // the only fault but the source
    logic qkey_viol;   // the only fault (KEY-23)
    logic bad_source;  // the only fault
    logic marked;      // accepted, and data of a connection with a congestion mark
    logic cnp;         // not accepted, but a CNP from the QP's peer
    logic stray;       // not of a QP that is there, receives, and is of its service
    logic asks;        // not accepted: the peer of a QP in ARMED has migrated, or somebody says so
    logic arms;        // accepted, and the peer of a QP in REARM is as far
  } rx_verdict_t;

  // What a completion says: of a CQE's fields those that are not hca_cq's, as wide as they get.
  typedef struct packed {
    logic        is_xrc;
    logic [23:0] srqn;
    logic [7:0]  vendor_err;
    logic [6:0]  dlid_path_bits;
    logic [15:0] slid;
    logic [4:0]  pkey_index;
    logic [3:0]  sl;
    logic [3:0]  wc_flags;
    logic [23:0] src_qp;
    logic [31:0] imm_data;
    logic [31:0] byte_len;
    logic [23:0] qpn;
    logic [7:0]  status;
    logic [7:0]  opcode;
    logic [15:0] wqe_index;
  } wc_t;

  // ---- Selective repeat (decision 0066): between two of our cards, of connections whose both ends ask for it.
  // A NAK that no peer gets which has not agreed: only some packets from its PSN on are missing.
  localparam logic [7:0] NakSelective = 8'h68;
  localparam int unsigned MissingW = 5;
  localparam int unsigned AheadPsns = 64;   // behind the expected PSN: of those the responder remembers which are here

  // Marks behind the PSN that is expected when the expected one and so many behind it have come.
  function automatic logic [AheadPsns-1:0] marks_behind(logic [AheadPsns-1:0] marks, logic [6:0] passed);
    return (marks >> 1) >> passed;
  endfunction

  // What stands in such a NAK's AETH in the place of the MSN.
  typedef struct packed {
    logic [2:0]          zero;
    logic [MissingW-1:0] missing;  // packets from the NAK's PSN on, 1 to 31
    logic [15:0]         seen;     // low bits of the newest PSN that has come
  } nak_few_t;

  // What the requester remembers of the packets that it has sent again alone.
  typedef struct packed {
    logic        on;      // some of them have not been acknowledged
    logic [15:0] behind;  // low bits of the PSN behind them
    logic [15:0] mark;    // low bits of the PSN that was the next new one when that was decided
  } few_again_t;

  // Packets that may still leave between that decision and the first of them.
  localparam logic [15:0] AgainSlack = 16'd16;

  // ---- End-to-end credits (decision 0068): of a connection, what its peer's receive queue has room for, by send WQE.
  typedef struct packed {
    logic        on;     // the peer has not said that it tells none
    logic        probe;  // one packet beyond the limit may go when nothing is outstanding
    wqe_idx_t    limit;  // WQEs from this one on that take a receive WQE have no credit
  } credit_t;

  // Where a WQE is whose list is wanted, and the read that fetches it: from its first line on, as long as its stride.
  typedef struct packed {
    logic [7:0]  func;
    logic [63:0] base;
    logic [4:0]  log_size;
    logic [1:0]  log_stride;
    wqe_idx_t    index;
  } wqe_at_t;

  function automatic logic [9:0] wqe_bytes(logic [1:0] log_stride);
    return 10'd64 << log_stride;
  endfunction

  function automatic dma_rd_req_t wqe_fetch(wqe_at_t at);
    wqe_idx_t    slot;
    logic [63:0] addr;
    slot = at.index & ~({WqeIndexBits{1'b1}} << at.log_size);
    addr = at.base + (64'(slot) << (4'd6 + 4'(at.log_stride)));
    return '{func: at.func, addr: addr & ~(64'(wqe_bytes(at.log_stride)) - 64'd1), len_bytes: wqe_bytes(at.log_stride)};
  endfunction

  // Code of the count in an AETH: 2 and 3 times the powers of two; 31 says that none is told.
  localparam logic [4:0] NoCredits = 5'd31;

  function automatic logic [4:0] credit_code(wqe_idx_t count);
    logic [4:0] code;
    code = 5'(count[0]);
    for (int unsigned b = 1; b < 16; b++) begin
      if (count[b]) code = {4'(b), count[b-1]};
    end
    return (code == NoCredits || count[WqeIndexBits-1]) ? 5'd30 : code;
  endfunction

  // A quarter of the indices, so that they stay comparable: more are never outstanding (MaxOutstanding).
  function automatic wqe_idx_t credit_count(logic [4:0] code);
    wqe_idx_t count;
    count = WqeIndexBits'(((WqeIndexBits + 1)'({1'b1, code[0]}) << code[4:1]) >> 1);
    if (code[4:1] == '0) count = wqe_idx_t'(code[0]);
    return (&code[4:2]) ? wqe_idx_t'(1 << 14) : count;   // 28 and more
  endfunction
