// What hca_resp_sched keeps of each QP and of each READ or atomic that is to be answered.
package hca_rx_resp_pkg;

  import hca_pkg::*, hca_rx_pkg::resp_list_t;

  localparam int unsigned RespQueues = NumLanes + NumRateGroups;   // where QPs wait
  localparam int unsigned RespQueueW = $clog2(RespQueues);

  // State of a QP. `last_seq`: of the newest READ packet, if any.
  typedef struct packed {
    logic              queued;
    logic [RespQueueW-1:0] waits_in;    // where it waits
    resp_list_t        jobs;
    logic              ack;
    logic [23:0]       ack_psn;
    logic [7:0]        ack_syndrome;
    logic [23:0]       ack_msn;
    logic              sent;
    logic [15:0]       last_seq;
  } resp_row_t;

  typedef struct packed {
    logic [23:0] psn;
    logic [63:0] va;
    logic [31:0] rkey;
    logic [23:0] last_psn;
    logic        only;       // one packet
    logic [12:0] tail;       // bytes of the last packet
    logic [23:0] msn;
    logic [4:0]  credits;    // code
    logic        atomic;     // its answer is va; of an ATOMIC WRITE or a FLUSH it is a READ response without data
    logic        failed;     // it has none
  } resp_job_t;

  typedef struct packed {
    logic [2:0]  state;
    logic [7:0]  func;
    logic [23:0] pd;
    qp_gen_t     gen;
    logic [2:0]  path_mtu;
    logic [LaneW-1:0]      lane;
    logic [RateGroupW-1:0] group;
    logic [23:0]           interval;
    logic [6:0]            ack_bytes;  // on the wire, without payload
  } resp_ctx_t;

endpackage
