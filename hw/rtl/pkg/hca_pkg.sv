// Types and limits that RTL blocks share. Layouts shared with host or firmware come from the generated
// include (abi/), never from here. Every arrow between two rtl/ directories is one struct of this file and
// one valid/ready pair. Contract of each stream: hw/README.md.
package hca_pkg;

  `include "hca_abi_gen.svh"
  typedef logic [WqeIndexBits-1:0] wqe_idx_t;  // of a work queue: runs freely

  // ---- Limits of this build --------------------------------------------------------------------
  // What it is built with: bits of `feature` (hca_features_pkg).
`ifdef HCA_FEATURES
  localparam logic [15:0] CardFeatures = 16'(`HCA_FEATURES);
`else
  localparam logic [15:0] CardFeatures = '1;
`endif
  // Lines: QPs that are on the card. 1,024, 4,096 or 16,384; the other tables follow (docs/memory.md).
`ifdef HCA_NUM_LINES
  localparam int unsigned NumQps    = `HCA_NUM_LINES;
`else
  localparam int unsigned NumQps    = 1024;
`endif
  localparam int unsigned NumCqs    = (NumQps < 4096) ? NumQps : 4096;
  localparam int unsigned NumSrqs   = 128;
  localparam int unsigned NumMrs    = 1048576;   // memory keys of a function
  localparam int unsigned KeyCacheLines  = 256;  // per client, a key each
  localparam int unsigned PageCacheLines = 512;  // per client, lines of eight pages
  // Functions: 1, 4 or 16, as many as the register map has room for (decision 0078).
`ifdef HCA_NUM_FUNCS
  localparam int unsigned NumFuncs  = `HCA_NUM_FUNCS;
`else
  localparam int unsigned NumFuncs  = Funcs;
`endif
  localparam int unsigned NumEqs    = (NumFuncs > 4) ? 8 * NumFuncs : 32;
  // Ports of this build, 1 or 2; the strap num_ports_i of hca_core says how many are fitted.
`ifdef HCA_NUM_PORTS
  localparam int unsigned NumPorts  = `HCA_NUM_PORTS;
`else
  localparam int unsigned NumPorts  = 2;
`endif
  localparam int unsigned NumGids   = 16;
  localparam int unsigned NumPkeys  = 32;

  localparam int unsigned QpW  = $clog2(NumQps);
  localparam int unsigned CqW  = $clog2(NumCqs);
  localparam int unsigned EqW  = $clog2(NumEqs);
  localparam int unsigned SrqW = $clog2(NumSrqs);
  localparam int unsigned MrW  = $clog2(NumMrs);
  localparam int unsigned KeyW = 24;             // index of a key: function, row
  localparam int unsigned PortW = (NumPorts > 1) ? $clog2(NumPorts) : 1;

  // Every SL (Ethernet: priority) of every port: a lane, with the port in the upper bits.
  localparam int unsigned NumLanes = 16 * NumPorts;
  localparam int unsigned LaneW    = $clog2(NumLanes);

  localparam int unsigned DataBytes = 64;   // one beat
  localparam int unsigned DataW     = 512;

  `include "hca_pool_sizes.svh"
  // A DMA read never crosses an address that is a multiple of this (PCIe MRRS).
  localparam int unsigned DmaReadBytes = 512;

  typedef logic [DataW-1:0] beat_t;

  // ---- Host port -------------------------------------------------------------------------------
  // Reads: data returns in memory lanes: byte lane = address[5:0]; beat k covers the 64-byte line
  // (addr / 64) + k. Beats of one tag arrive in order, tags in any order.
  typedef struct packed {
    logic [7:0]  func;
    logic [63:0] addr;
    logic [9:0]  len_bytes;  // 1..512
  } dma_rd_req_t;

  typedef struct packed {
    logic  last;
    logic  err;   // completion with an error status; data void
    beat_t data;
  } dma_rd_rsp_t;

  // Writes: one posted, totally ordered stream. A burst is one or more consecutive 64-byte lines, <= 256
  // bytes and inside one 256-byte block; `last` ends it. An MSI-X message is a one-beat burst.
  typedef struct packed {
    logic        msix;   // 1: an interrupt message; addr[10:0] is the vector
    logic        last;
    logic [7:0]  func;
    logic [63:0] addr;   // of the line: addr[5:0] = 0
    logic [63:0] strb;   // byte enables
    beat_t       data;   // memory lanes
  } dma_wr_t;

  // ---- Doorbells -------------------------------------------------------------------------------
  localparam int unsigned FuncIdxW  = (NumFuncs > 1) ? $clog2(NumFuncs) : 1;
  localparam int unsigned PushSlotW = $clog2(PushSlots);
  localparam int unsigned PushWordW = $clog2(PushSlots * PushSlotBytes / 8);
  localparam int unsigned PushRowW  = FuncIdxW + $clog2(PushSlots * PushSlotBytes / DataBytes);

  // Where the last WQE before a producer index lies besides host memory, if anywhere.
  typedef struct packed {
    logic                 valid;
    logic [PushSlotW-1:0] slot;
  } push_t;

  // 64 bits of a push slot.
  typedef struct packed {
    logic [FuncIdxW-1:0]  func;
    logic [PushWordW-1:0] word;   // of all of the function's slots
    logic [63:0]          data;
  } push_wr_t;

  typedef struct packed {
    logic           sq;   // 1: send queue, 0: receive queue
    logic [QpW-1:0] qpn;
    wqe_idx_t       pi;
    push_t          push; // send queue only
  } qp_db_t;

  typedef struct packed {
    logic [7:0]     func;
    logic [CqW-1:0] cqn;
    logic [1:0]     arm;   // 0 none, 1 next, 2 solicited
    logic [23:0]    ci;
  } cq_db_t;

  typedef struct packed {
    logic [7:0]     func;
    logic [EqW-1:0] eqn;
    logic [15:0]    ci;
  } eq_db_t;

  // ---- QP contexts -----------------------------------------------------------------------------
  `include "hca_context_types.svh"

  // ---- QPNs ----------------------------------------------------------------------------------------------
  // Low bits: the line, a row of every table. The others: a generation, which only the doors look at, where a QPN comes
  // in from a doorbell or from the wire. What is inside names lines, and is drained by a fence before a line gets the
  // next generation.
  typedef logic [23-QpW:0] qp_gen_t;

  function automatic logic [23:0] full_qpn(qp_gen_t gen, logic [QpW-1:0] line);
    return {gen, line};
  endfunction

  // ---- Memory access ---------------------------------------------------------------------------
  `include "hca_memory_types.svh"

  // ---- Shared receive queues -------------------------------------------------------------------
  `include "hca_srq_types.svh"

  // ---- Transmit: packet descriptors --------------------------------------------------------------
  localparam int unsigned AvSlots = 64;  // datagrams between requester and header stage
  localparam int unsigned AvSlotW = $clog2(AvSlots);
  localparam int unsigned RoundW  = 2;   // four rewinds while a packet waits, and it is sent

  typedef enum logic [1:0] {
    TxReq  = 2'd0,  // request of the requester
    TxRead = 2'd1,  // READ response, ATOMIC ACKNOWLEDGE
    TxAck  = 2'd2,  // ACK / NAK / RNR NAK
    TxCnp  = 2'd3   // congestion notification
  } tx_kind_e;

  typedef struct packed {
    tx_kind_e       kind;
    logic [QpW-1:0] qpn;          // local QP: address vector, destination QPN and P_Key come from its context
    logic [7:0]     opcode;       // BTH opcode
    logic           masked;       // an atomic with masks: hca_tx_hdr gives it the opcode that such a one has
    logic [23:0]    psn;
    logic           ack_req;
    logic           solicited;
    logic [12:0]    payload_bytes;  // 0..4096; equals the sum of its segments' len_bytes
    logic           has_payload;  // segments follow on the segment stream (at least one, the last with last = 1)
    logic [63:0]    reth_va;
    logic [31:0]    reth_rkey;
    logic [31:0]    reth_bytes;
    logic [63:0]    swap_add;     // AtomicETH; AtomicAckETH: original; ATOMIC WRITE: data; FLUSH: its FETH
    logic [63:0]    compare;      // AtomicETH; masked fetch and add: the fields
    logic [7:0]     aeth_syndrome;
    logic [23:0]    aeth_msn;
    logic [31:0]    imm;          // ImmDt or IETH, bytes as on the wire: imm[7:0] is the first byte sent
    logic [23:0]    xrcsrq;       // XRCETH
    wqe_idx_t       wqe_index;    // TxReq: for error reports
    logic [15:0]    resp_seq;     // TxRead: serial number of the response packet (card-wide)
    logic           unacked;      // TxReq: of a service without acknowledges: hca_sent tells
    logic           csum;         // of a frame: its checksums are to be filled in
    logic           datagram;     // TxReq: to the destination in av_slot
    logic [AvSlotW-1:0] av_slot;
    logic [RoundW-1:0] round;     // TxReq: of its QP (tx_round_t)
  } txp_t;

  // A rewind that sends everything again begins another round of its QP: what the round before has in front of the
  // link is sent for nothing. Beside a packet: whose it is, if anybody's. As an event: the round that has begun.
  typedef struct packed {
    logic              valid;
    logic [QpW-1:0]    qpn;
    logic [RoundW-1:0] round;
  } tx_round_t;

  // Where a datagram goes: its WQE, kept in hca_tx_hdr until its headers are built. A strobe, before its packet.
  typedef struct packed {
    logic               valid;
    logic [AvSlotW-1:0] slot;
    logic [PortW-1:0]   port;   // of its QP
    sq_wqe_ud_ctrl_t    wqe;
  } av_wr_t;

  // Entry of a port's GID table, for the sources of datagrams. A strobe.
  typedef struct packed {
    logic         valid;
    logic         port;
    logic [3:0]   index;
    logic [127:0] gid;
  } gid_wr_t;

  localparam int unsigned GroupW = $clog2(GroupRows), DmRowW = $clog2(DmPages);

  `include "hca_row_types.svh"

  // Payload of a packet on its way to the builder: bytes [lane, lane+len) of data, memory lanes.
  typedef struct packed {
    logic       last;       // last piece of the packet
    logic [5:0] lane;
    logic [6:0] len_bytes;  // 1..64 (0 only in a packet without payload: never sent)
    beat_t      data;
  } pay_t;

  // Port configuration, quasi-static, from rtl/mgmt.
  typedef struct packed {
    logic         ib;      // personality: 1 InfiniBand, 0 RoCEv2 over Ethernet
    logic         active;
    logic [47:0]  mac;     // mac[47:40] is the first byte on the wire
    logic [15:0]  lid;
    logic [2:0]   lmc;
  } port_cfg_t;

  // Ports from 0; the contract counts them from 1. What names none of them belongs to the first.
  function automatic logic [PortW-1:0] port_of(logic [1:0] number);
    return (number >= 2'd2 && number <= 2'(NumPorts)) ? PortW'(number - 2'd1) : '0;
  endfunction

  // MAC-side stream: bytes 0..len-1 of data are valid; byte 0 (data[7:0]) is first on the wire.
  typedef struct packed {
    logic       last;
    logic [6:0] len_bytes;  // 1..64; 64 unless last
    beat_t      data;
  } mac_t;

  // ---- How packets leave -------------------------------------------------------------------------
  `include "hca_path_types.svh"

  // ---- Receive -----------------------------------------------------------------------------------
  localparam int unsigned RxBufBeats = 1024;  // 64 KiB
  localparam int unsigned RxBufW     = $clog2(RxBufBeats);
  localparam int unsigned MaxKept    = 66 * DataBytes;  // longest frame that a link takes, and sniffers get

  `include "hca_park_types.svh"

  // Who a packet is for, and who frees it.
  typedef enum logic [2:0] {
    RxdQp        = 3'd0,  // dest_qpn; it frees the buffer
    RxdGsi       = 3'd1,  // before hca_rx_group alone: QP1 of its port
    RxdMulticast = 3'd2,  // before hca_rx_group alone: the group dgid
    RxdCopy      = 3'd3,  // dest_qpn, with others: it does not free the buffer
    RxdEnd       = 3'd4,  // nobody, behind the copies: frees the buffer
    RxdSmi       = 3'd5,  // before hca_rx_group alone: QP0 of its port
    RxdAgent     = 3'd6,  // before hca_rx_group alone: firmware, which has it from hca_mad_rx
    RxdRaw       = 3'd7   // before hca_rx_steer alone: a frame, for `rules`
  } rxd_kind_e;

  // What a frame has that hca_rss looks at.
  typedef struct packed {
    logic udp;
    logic tcp;
    logic ipv6;
    logic ipv4;
  } layers_t;

  // A packet that has passed its CRCs and lies in the receive buffer (circular, freed in order).
  typedef struct packed {
    rxd_kind_e         kind;
    logic              ib;
    logic              smp;            // of subnet management: no key is asked for (KEY-16)
    logic [PortW-1:0]  port;           // through which it came
    logic [7:0]        opcode;
    logic              solicited, mig_req;
    logic              ack_req;
    logic [15:0]       pkey;
    logic [23:0]       dest_qpn;
    logic [23:0]       psn;
    logic [63:0]       reth_va;
    logic [31:0]       reth_rkey;
    logic [31:0]       reth_bytes;
    logic [63:0]       swap_add;       // AtomicETH; AtomicAckETH: original; ATOMIC WRITE: data; FLUSH: its FETH
    logic [63:0]       compare;        // AtomicETH; fetch and add: the most significant bit of each field
    logic              masked;         // an atomic with masks: its opcode is that of one without
    logic [127:0]      masks;          // of a compare and swap: bits to swap, bits to compare
    logic [7:0]        aeth_syndrome;
    logic [23:0]       aeth_msn;
    logic [31:0]       imm;            // ImmDt / IETH, imm[7:0] first on the wire; behind hca_rx_steer a frame's tag
    logic [23:0]       xrcsrq;         // XRCETH
    logic [31:0]       deth_qkey;
    logic [23:0]       deth_src_qpn;
    logic [15:0]       slid;
    logic [6:0]        path_bits;      // of the destination LID
    logic [3:0]        sl;
    logic [127:0]      sgid;           // source GID (IPv4 as ::ffff:a.b.c.d); 0 without GRH. A frame: as in rule_key_t
    logic [127:0]      dgid;
    logic [31:0]       ports;          // of a frame: source and destination port, as on the wire
    layers_t           layers;         // of a frame
    logic [Rules-1:0]  rules;          // of a frame: those that have it; of a packet: sniffers that have its frame
    logic [12:0]       frame_bytes;    // of a packet that has rules
    logic              marked;         // congestion experienced, by its IP header
    logic              csum_ok;        // of a frame: IPv4, with TCP or UDP, and both checksums are right
    logic [RxBufW-1:0] buf_beat;       // first beat of the raw packet in the receive buffer
    logic [6:0]        buf_beats;      // beats it occupies
    rx_place_t         place;
    logic              again;          // it has waited for its QP
    logic [4:0]        lead;           // bytes there before the packet: its Ethernet header, where sniffers want it
    logic [6:0]        payload_off;    // byte offset of the payload in the packet
    logic [12:0]       payload_bytes;  // without pad
  } rxd_t;

  `include "hca_rx_types.svh"

  // ---- Receive work: what rx_ctrl decided, in order, for rx_exec ----------------------------------
  typedef enum logic [2:0] {
    RxwNone     = 3'd0,  // nothing to move: only the end actions below
    RxwWrite    = 3'd1,  // payload to va under rkey (RDMA WRITE)
    RxwSend     = 3'd2,  // payload to the scatter list of receive WQE wqe_index at msg_offset
    RxwReadResp = 3'd3,  // payload to the scatter list of send WQE wqe_index at msg_offset
    RxwReadReq  = 3'd4,  // check va/rkey/chk_bytes for REMOTE_READ, then queue the READ response job
    RxwAtomic   = 3'd5,  // check va/rkey for the right to rsp's operation, have it done there, then queue the answer
    RxwAtomicResp = 3'd6 // rsp.va, 8 bytes, to the scatter entry of send WQE wqe_index
  } rxw_kind_e;

  typedef struct packed {
    logic           valid;
    logic           solicited;
    logic [CqW-1:0] cqn;
    wc_t            wc;
  } cqe_job_t;

  // Acknowledge or response job for the response scheduler. An atomic's operands are in it on the way to hca_atomic:
  // va what to swap in or to add (FLUSH: its FETH), {rkey, len_bytes} what to compare with. Behind it va is the
  // original value.
  typedef struct packed {
    logic           valid;
    logic           read;       // 0: ACK/NAK with syndrome; 1: READ response, or an atomic's
    logic           atomic;     // read only: an atomic's. Syndrome of a NAK: memory could not be read
    logic           cas;        // atomic only: compare and swap, not fetch and add
    logic           stores;     // atomic only: ATOMIC WRITE, with cas FLUSH; its answer is a READ response without data
    logic           again;      // read only: it has come before. An atomic was executed then, its result is in store
    logic           aside;      // with again: of a QP with selective repeat
    logic [QpW-1:0] qpn;
    logic [23:0]    psn;
    logic [7:0]     syndrome;
    logic [23:0]    msn;
    logic [63:0]    va;         // read only
    logic [31:0]    rkey;
    logic [31:0]    len_bytes;
  } rsp_job_t;

  // What a received datagram has before its transport headers: it goes to the 40 bytes before the payload (RCV-4).
  typedef enum logic [2:0] {DgNone, DgBare, DgIpv4, DgIpv6, DgGrh} dg_e;  // none: not a datagram; bare: LRH only

  typedef struct packed {
    rxw_kind_e         kind;
    logic              shared;         // wqe_index is a slot of an SRQ: whatever happens, a CQE gives it back
    dg_e               dg;
    logic [QpW-1:0]    qpn;
    logic [7:0]        func;
    logic [23:0]       pd;
    qp_gen_t           gen;            // of the QPN
    logic              frees;          // this item owns a packet in the receive buffer: free buf_beats at the end
    logic [RxBufW-1:0] buf_beat;
    logic [6:0]        buf_beats;
    rx_place_t         place;
    logic [4:0]        lead;           // bytes there before the packet
    logic [6:0]        payload_off;
    logic [12:0]       payload_bytes;
    logic [63:0]       va;             // RxwWrite: where this packet's payload goes; RxwReadReq: start
    logic [31:0]       rkey;
    logic [31:0]       chk_bytes;      // range to check from va; RxwReadResp: WQEs before its own that are not over
    logic              needs_list;     // a WQE fetch was issued for this item: take its data from the list stream
    logic [9:0]        list_bytes;     // bytes fetched (stride)
    wqe_idx_t          wqe_index;
    logic [31:0]       msg_offset;     // offset of this packet's payload in the message
    logic              msg_last;       // RxwSend: last packet of the message
    logic              silent;         // no negative answer when it fails: nobody waits for one
    rsp_job_t          rsp;            // sent when the item has succeeded
    cqe_job_t          cqe;            // written when the item has succeeded; RxwAtomic has none: at_masks_of
    logic              resumes;        // answers the failure of this side of the QP: the side goes on with this item
  } rxw_t;

  // ---- Messages back into rx_ctrl (the single writer of acknowledge and responder state) -----------
  typedef enum logic [3:0] {
    MsgSqDrain  = 4'd0,  // QP in SQD: report when every send WQE that was begun is completed (QPS-10)
    MsgFlushSq  = 4'd1,  // QP in ERR: complete every send WQE up to the producer index with WR_FLUSH_ERR
    MsgFlushRq  = 4'd2,
    MsgSqError  = 4'd3,  // send WQE wqe_index failed locally with status (gather, emit, READ response scatter)
    MsgRqError  = 4'd4,  // receive WQE wqe_index failed with status while its message was being placed
    MsgReqError = 4'd5,  // responder refused a request that uses no receive WQE (R_Key...); a NAK goes out
    MsgTimeout  = 4'd6,  // transport timer of the QP expired; the other fields: what it had seen
    MsgRnrDone  = 4'd7,  // RNR wait of the QP is over
    MsgSent     = 4'd8,  // what nobody acknowledges has left up to a PSN: hca_sent
    MsgMwDone   = 4'd9,  // send WQE wqe_index has bound or invalidated its window: hca_mw
    MsgInvDone  = 4'd10  // what a SEND with invalidate named is invalid; status: or why not
  } msg_kind_e;

  typedef struct packed {
    msg_kind_e      kind;
    logic [QpW-1:0] qpn;
    wqe_idx_t       wqe_index;
    logic [7:0]     status;     // wc_status_e
    logic [7:0]     syndrome;   // detail for firmware (AETH syndrome or xl_err_e)
  } pipe_msg_t;
  // ---- rx_ctrl -> requester -------------------------------------------------------------------------
  // Acknowledge progress of one QP. The requester keeps the newest as its snapshot.
  typedef struct packed {
    logic           rewind;     // 1: restart transmission at restart_psn inside WQE una_wqe
    logic           halt;       // 1: stop emitting for this QP until the next rewind or init (RNR wait, error)
    logic [QpW-1:0] qpn;
    wqe_idx_t       una_wqe;    // oldest send WQE not yet acknowledged
    logic [23:0]    una_first_psn;  // PSN of its first packet
    logic [23:0]    una_psn;    // oldest unacknowledged PSN (= restart PSN on rewind)
    logic [15:0]    rd_done;    // READs (and atomics) completed so far, modulo 2^16
    logic [MissingW-1:0] again; // rewind: so many packets only, then on from where it is; 0: all from there
    credit_t        credit;
  } ack_upd_t;
  // ---- requester -> rx_ctrl -------------------------------------------------------------------------
  // One record per packet, before it is emitted: its send WQE (with equal content every time), and how far it gets.
  typedef struct packed {
    logic           first;      // first packet of the WQE
    logic [23:0]    next_psn;   // PSN after the packet's (READ: after its last response's)
    logic [QpW-1:0] qpn;
    wqe_idx_t       wqe_index;
    logic [7:0]     opcode;     // wr_opcode_e
    logic           signaled;
    logic [23:0]    last_psn;   // PSN of the last packet (READ: of the last response)
    logic [31:0]    len_bytes;
  } omt_wr_t;

  // ---- Events to firmware ------------------------------------------------------------------------------
  typedef hw_event_t hw_ev_t;

  // EQE posted by hardware or firmware.
  typedef struct packed {
    logic [EqW-1:0] eqn;
    logic [7:0]     kind;
    logic [31:0]    id;
    logic [31:0]    data0;
    logic [31:0]    data1;
  } eqe_job_t;

  `include "hca_wr_kinds.svh"

  // ---- Small helpers -------------------------------------------------------------------------------------
  // The service acknowledges.
  function automatic logic is_acked(logic [2:0] service);
    return service == ServiceRc || service == ServiceXrc;
  endfunction

  // An R_Key in the place of immediate data, where bytes are as on the wire.
  function automatic logic [31:0] key_of(logic [31:0] imm);
    return {imm[7:0], imm[15:8], imm[23:16], imm[31:24]};
  endfunction

  // a - b modulo 2^24 is in the lower half: a is not before b.
  function automatic logic psn_ge(logic [23:0] a, logic [23:0] b);
    return (a - b) < 24'h80_0000;
  endfunction

  function automatic logic [12:0] mtu_bytes(logic [2:0] path_mtu);
    return 13'd128 << path_mtu;   // 1: 256 .. 5: 4096
  endfunction

  function automatic logic [3:0] mtu_shift(logic [2:0] path_mtu);
    return 4'd7 + 4'(path_mtu);   // log2 of the same
  endfunction

  // ---- Parts: what a simulator may leave out of a cycle (hca_part_clock), with a clock net each.
  typedef enum int unsigned {
    PartDoorbell, PartRequester, PartGather, PartRate, PartRxCtrl, PartRxExec, PartRespSched, PartCq, PartEq, PartMgmt,
    PartBus, PartRdSq, PartRdList, PartRdMgmt, PartRdLines,
    PartTxWire, PartRxWire, PartLink, PartLinkTx, PartLinkRx, PartCounters,  // of hca_ports
    PartAfter
  } part_e;
  localparam int unsigned NumParts = int'(PartAfter);

endpackage
