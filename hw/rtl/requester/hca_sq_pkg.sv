// Types that the parts of hca_requester share with one another; nothing here leaves this folder.
package hca_sq_pkg;

  import hca_pkg::*;

  // The part of the QP context that the requester uses.
  typedef struct packed {
    logic [2:0]  state;
    logic [2:0]  service;
    logic [7:0]  func;
    logic [23:0] pd;
    qp_gen_t     gen;       // of the QPN
    logic [2:0]  path_mtu;  // 1..5
    logic        sq_sig_all;
    logic [63:0] base;
    logic [4:0]  log_size;
    logic [1:0]  log_stride;
    logic [4:0]  max_rd_atomic;
    logic        selective; // RC, and the peer takes it: every packet of a WRITE carries its own address
    logic        credits;   // RC: the peer's receive queue may limit it
    logic        ib;        // its port was an InfiniBand one when the context was written
    tx_path_t    path;
  } sq_qpc_t;

  // Newest acknowledge snapshot of a QP. `seq` counts rewinds (an initialisation is one too); the emitter
  // compares it with the count it has acted on, so no rewind is lost and none is acted on twice.
  typedef struct packed {
    logic        init;  // the newest rewind was an initialisation of the send queue
    logic        halt;
    logic [7:0]  seq;
    logic [MissingW-1:0] again;  // the newest rewind: so many packets only; 0: all
    logic [RoundW-1:0] round;   // of what is sent from now on (tx_round_t)
    wqe_idx_t    una_wqe;
    logic [23:0] una_first_psn;
    logic [23:0] una_psn;
    logic [15:0] rd_done;
    credit_t     credit;
  } sq_ack_t;

  // What the emitter knows about a QP between two turns.
  typedef struct packed {
    logic        err;        // a bad WQE was reported: nothing more until a rewind
    logic        retx;       // the next packet is the first one after a rewind
    logic [7:0]  seq;        // rewinds acted on
    wqe_idx_t    wqe;        // next send WQE
    wqe_idx_t    started;    // index after the last WQE ever begun (SQD lets only those go on)
    logic [23:0] psn;        // next PSN
    logic [31:0] offset;     // bytes of WQE `wqe` already sent
    logic        local_op;   // the newest WQE is at hca_mw: nothing goes out before it is over
    logic [15:0] rd_issued;  // READs sent
  } sq_dyn_t;

  // Where a QP goes on when it has sent some packets again alone (hca_sq_again).
  typedef struct packed {
    wqe_idx_t    wqe;
    logic [23:0] psn;
    logic [31:0] offset;
    logic [15:0] rd_issued;
  } sq_back_t;

  // What the emitter decided about a packet.
  typedef struct packed {
    logic        first;
    logic        last;
    logic        payload;
    logic        ack_req;
    logic [12:0] bytes;
    logic [23:0] psns;  // PSNs it consumes
  } sq_pkt_t;

  // What is known of a WQE since its first block was looked at, a stage before it is served (hca_sq_look).
  typedef struct packed {
    logic        malformed;
    logic        misfit;
    logic        too_long;
    logic        many;       // it has entries beyond the first block
    logic        is_inline;
    logic        payload;    // its packets carry payload
    logic        read;       // the peer answers with data
    logic        masks;      // a masked compare and swap: these are its payload
    logic        local_op;   // it makes no packet: hca_mw carries it out
    logic        fence;
    logic        takes;      // a receive WQE of the peer
    logic        is_new;     // it has never been begun
    logic        hold;       // and may not be: SQD
    logic        resumed;    // some of it has been sent
    logic        empty0;     // entry 0 holds no byte (not of datagrams)
    logic        seek;       // its first byte is not that of entry 0, or not known
    logic        direct;     // its first packet needs no further look
    logic        last_wqe;   // none is posted behind it
    logic        row_full;   // as many WQEs are outstanding as may be
    logic        others;     // some are
    logic        opens_block;  // it is the first one of a block of outstanding messages
    logic        one_pkt;    // its next packet is its last one
    logic [31:0] left;       // bytes from that one on
    logic [23:0] rest;       // PSNs behind the first one of those
    logic [24:0] inline_at;  // of its inline data: bytes from the begin of the ring
  } sq_look_t;

  // What a turn finds in the context (hca_sq_news).
  typedef struct packed {
    logic state_ok;  // the QP may send
    logic moves;     // its position moves
    logic idle;      // nothing is posted behind it
    logic pi_far;    // the producer index is more than a ring ahead
    logic pi_bad;    // or behind the position: where it is now
  } sq_news_t;

  // How a turn ends: more to do, waiting for news, for WQEs, slot given back (Requeue: work is left).
  typedef enum logic [2:0] {EndAgain, EndPark, EndWait, EndRelease, EndRequeue} sq_end_e;

  // What gates say of the slot that the emitter serves.
  typedef struct packed {
    logic shut;    // its QP may not send
    logic keep;    // and keeps its slot
    logic paced;   // it has a rate of congestion control
    logic others;  // others may have the slot when this QP has had its share
    logic urgent;  // another slot should have its turn soon
  } sq_gate_t;

  // Send ring of a slot's QP, for the fetcher.
  typedef struct packed {
    logic [7:0]  func;
    logic [63:0] base;
    logic [4:0]  log_size;
    logic [1:0]  log_stride;
  } sq_ring_t;

  // What the fetcher is told of a slot: to drop everything and go on from WQE idx of the ring; that WQEs before pi may
  // be fetched, and where the last of them lies besides host memory; or both.
  typedef struct packed {
    logic     restart;
    logic     limit;
    sq_ring_t ring;
    wqe_idx_t idx;
    wqe_idx_t pi;
    push_t    push;   // with limit
  } sq_ask_t;

  // How a datagram leaves: on the QP's port, otherwise as its WQE says, on Ethernet by its DSCP; no rate group.
  function automatic tx_path_t datagram_path(sq_wqe_ud_ctrl_t wqe, sq_qpc_t qpc, eth_class_t by);
    tx_path_t path;
    logic     ipv4, unused_bits;
    logic [2:0] prio;
    unused_bits   = ^{wqe, qpc, by};
    ipv4          = wqe.dgid[79:0] == '0 && wqe.dgid[95:80] == 16'hffff;
    prio          = by.trust_pcp ? 3'd0 : by.dscp[wqe.traffic_class[7:2]];   // it has no VLAN tag
    path.sl       = qpc.path.sl;
    path.sl[3:0]  = qpc.ib ? wqe.sl : {1'b0, prio};
    path.group    = '0;
    path.interval = '0;
    if (qpc.ib) path.overhead = wqe.is_global ? 7'(DethBytes + 66) : 7'(DethBytes + 26);
    else path.overhead = ipv4 ? 7'(DethBytes + 82) : 7'(DethBytes + 102);
    return path;
  endfunction

  // What the requester has made, with the bytes on the wire, which are known before.
  function automatic tx_made_t sq_made_of(txp_t txp, tx_path_t path, logic [12:0] bytes);
    sq_made_of = tx_made_of(txp, path);
    sq_made_of.bytes = bytes;
  endfunction

endpackage
