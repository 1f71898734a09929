// What congestion control and its algorithms tell each other: the hook. README.md says how to put another one in.
package hca_cc_pkg;

  import hca_pkg::*;

  localparam int unsigned CcStateW = 160;  // an algorithm's own, of each QP
  localparam int unsigned CcCycles = 4;    // cc_in_t stands for so long; cc_out_t counts in the last of them
  localparam int unsigned CcTurns  = 16;   // turns of one event at most

  typedef enum logic [1:0] {
    CcCnp  = 2'd0,   // a CNP has come
    CcSent = 2'd1,   // packets of a QP below the full rate have been made: `bytes`
    CcRtt  = 2'd2,   // a request has been acknowledged: `rtt`
    CcInit = 2'd3    // the QP begins; no algorithm sees this
  } cc_event_e;

  typedef struct packed {
    cc_event_e           kind;
    logic                first;   // `state` is void: the QP is new, or what is asked for is
    logic                again;   // a further turn of the same event: it has been counted
    logic [31:0]         tick;    // now
    logic [15:0]         bytes;
    logic [19:0]         rtt;     // cycles; what is longer counts as all ones
    logic [CcStateW-1:0] state;
    link_congestion_t    cfg;
  } cc_in_t;

  typedef struct packed {
    logic [CcStateW-1:0] state;
    logic [CcRateW-1:0]  rate;    // CcRateFull: not held
    logic                more;    // one more turn, with `again`
  } cc_out_t;

  // Something has happened to a QP.
  typedef struct packed {
    cc_event_e        kind;
    logic [PortW-1:0] port;
    logic [QpW-1:0]   qpn;
    logic [19:0]      value;   // bytes or rtt
  } cc_job_t;

endpackage
