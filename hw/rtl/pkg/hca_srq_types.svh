// Shared receive queues: part of hca_pkg.
typedef struct packed {
  logic [7:0]      func;
  logic [SrqW-1:0] srqn;
  logic [15:0]     pi;
} srq_db_t;

// The next slot of an SRQ.
typedef struct packed {
  logic        ok;     // there is one
  logic [15:0] slot;
} srq_head_t;
