// Shared receive queues: part of hca_pkg.
typedef struct packed {
  logic [7:0]      func;
  logic [SrqW-1:0] srqn;
  wqe_idx_t        pi;
} srq_db_t;

// An SRQ that peers name in their packets (XRC): what is a context's of another one.
typedef struct packed {
  logic           valid;
  logic [7:0]     func;
  logic [23:0]    number;
  logic [23:0]    xrcd;
  logic [23:0]    pd;
  logic [CqW-1:0] cqn;
  logic [63:0]    slots;
  logic [4:0]     log_size;
  logic [1:0]     log_stride;
} xrc_srq_t;

// The next slot of an SRQ.
typedef struct packed {
  logic        ok;     // there is one
  logic [15:0] slot;
  xrc_srq_t    xrc;
} srq_head_t;
