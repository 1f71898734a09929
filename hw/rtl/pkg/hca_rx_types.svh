// Part of hca_pkg: what the receive side says of packets.

  // Counters of the receiver behind the link, for hca_counters.
  typedef struct packed {
    logic [31:0] good;
    logic [31:0] icrc_err;
    logic [31:0] vcrc_err;
    logic [31:0] malformed;
    logic [31:0] dropped;
  } rx_counts_t;

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
  } rx_verdict_t;
