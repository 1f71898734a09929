// Types that the parts of hca_resp_sched share; nothing here leaves it.
package hca_resp_pkg;

  import hca_pkg::*;

  // QPs wait in a queue for each lane (port and SL) and each rate group.
  localparam int unsigned RespQueues = NumLanes + RateGroups;
  localparam int unsigned RespQueueW = $clog2(RespQueues);

  // A job comes, a context is written, a QP has its turn.
  typedef enum logic [1:0] {EvJob, EvQpc, EvTurn} resp_ev_e;

  localparam int unsigned JobCountW = $clog2(MaxDestRdAtomic) + 1;

  // READs and atomics of a QP that are to be answered. Places are those of hca_resp_jobs. Replays, asked for again,
  // stand in front of all others (main).
  typedef struct packed {
    logic [JobCountW-1:0] count;
    logic [JobPlaceW-1:0] head;
    logic [JobPlaceW-1:0] tail;
    logic [31:0]          off;         // bytes of the first one already sent
    logic [23:0]          at_psn;      // everything before it has been sent, as far as it is here
    logic [23:0]          last_psn;    // of the first one, once it has begun
    logic [23:0]          newest_psn;  // last one of the job at the end
    logic                 replaying;
    logic [JobPlaceW-1:0] replay_tail;
    logic [JobPlaceW-1:0] main_head;
    logic [23:0]          replay_psn;  // last one of the last replay
    logic [23:0]          main_psn;    // first one behind the replays
  } resp_list_t;

  // State of a QP. `last_seq`: of the newest READ packet, if any.
  typedef struct packed {
    logic                  queued;
    logic [RespQueueW-1:0] waits_in;    // where it waits
    resp_list_t            jobs;
    logic                  ack;
    logic                  nak;
    logic [23:0]           ack_psn;
    logic [7:0]            ack_syndrome;
    logic [23:0]           ack_msn;
    logic                  sent;
    logic [15:0]           last_seq;
  } resp_row_t;

  typedef struct packed {
    logic [23:0] psn;
    logic [63:0] va;
    logic [31:0] rkey;
    logic [31:0] len_bytes;
    logic [23:0] msn;
    logic        none;       // a READ of nothing, or an atomic
    logic        atomic;     // its answer is va
    logic        failed;     // or it has none
  } resp_job_t;

  typedef struct packed {
    logic [2:0]  state;
    logic [7:0]  func;
    logic [23:0] pd;
    qp_gen_t     gen;
    logic [2:0]  path_mtu;
    tx_path_t    path;
  } resp_ctx_t;

  // The packet that the first job of a QP would send.
  typedef struct packed {
    logic [23:0] psn;
    logic [63:0] va;
    logic [31:0] left;       // bytes of the job from this packet on
    logic [31:0] left_less;  // ... less 1
    logic        none;       // a READ of nothing
    logic        first;
    logic [31:0] rkey;
    logic [23:0] msn;
    logic        atomic;
    logic        failed;
  } resp_pkt_t;

endpackage
