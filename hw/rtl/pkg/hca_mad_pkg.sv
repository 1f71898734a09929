// Between the wire blocks and the registers of firmware: management datagrams that it answers, and counters.
package hca_mad_pkg;

  import hca_pkg::*;

  // Management datagrams of firmware: packets as they lie in the receive buffer, and what its registers command.
  localparam int unsigned MadBeats = 8;    // of a packet at most
  localparam int unsigned MadWords = 16 * MadBeats;

  typedef struct packed {
    logic             valid;
    logic             store;   // the beat holds bytes of the packet
    logic             last;
    logic             take;    // with last: the packet is good, and for firmware
    logic [PortW-1:0] port;    // with last
    logic [9:0]       bytes;   // with take: of the datagram, or of the whole frame
    beat_t            data;
  } mad_beat_t;

  typedef struct packed {
    logic                        re;      // a word of the packet that waits
    logic                        we;      // a word of the packet to send
    logic [$clog2(MadWords)-1:0] word;
    logic [31:0]                 data;
    logic                        pop;
    logic                        go;
    logic [9:0]                  bytes;   // with go
    logic [PortW-1:0]            port;
  } mad_req_t;

  typedef struct packed {
    logic [31:0]      data;     // the cycle after re
    logic             arrived;  // strobe: one more packet waits
    logic             pending;
    logic [PortW-1:0] port;
    logic [9:0]       bytes;
    logic             busy;
  } mad_rsp_t;

  // Firmware reads a counter. All zero in other cycles, so that who keeps counters sees no access that is not for it.
  typedef struct packed {
    logic       rd;
    logic [7:0] word;   // port, counter, half; or rule, word
  } counter_req_t;

endpackage
