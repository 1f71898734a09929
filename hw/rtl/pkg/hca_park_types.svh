// Part of hca_pkg: packets that wait in the receive buffer until their QP has its line.

`ifdef HCA_PARK_SLOTS
  localparam int unsigned ParkBeats = 16, ParkSlots = `HCA_PARK_SLOTS;   // for proofs
`else
  localparam int unsigned ParkBeats = 512;   // behind the beats of all others
  localparam int unsigned ParkSlots = 128;   // packets
`endif
  localparam int unsigned ParkBeatW = $clog2(ParkBeats), ParkW = $clog2(ParkSlots);

  // Where a packet lies in the receive buffer: among those that leave in order, or among those that may wait.
  typedef struct packed {
    logic             parks;
    logic [ParkW-1:0] slot;
  } rx_place_t;

  // A packet that has been parked, for hca_lines.
  typedef struct packed {
    logic [ParkW-1:0] slot;
    logic [23:0]      qpn;
  } park_want_t;

  function automatic line_want_t want_of_parked(park_want_t parked);
    return '{kind: MissAsk, func: '0, qpn: parked.qpn, pi: {1'b1, (WqeIndexBits - 1)'(parked.slot)}};
  endfunction
