// Part of hca_pkg: contexts of QPs on their way in and out.

  // What a QP was, as it stands in qpc_t from sq_pi on. `st`: hca_rx_ctrl's own.
  typedef struct packed {
    logic [447:0] st;
    logic [23:0]  una_psn;
    logic [3:0]   reserved;
    logic         has_record;
    logic [15:0]  rd_done;
    wqe_idx_t     rq_pi;
    wqe_idx_t     una_wqe;
    wqe_idx_t     sq_pi;
  } qpc_record_t;

  // QP context write bus, from rtl/mgmt or rtl/lines to every block that keeps a piece of the context.
  // init_sq / init_rq: also reset the block's dynamic state of that queue from sq_psn / rq_psn and zero
  // indices. A block may take its time (ready), but afterwards must act on the new context. swap: only if the QP that
  // has the row has nothing to do; hca_rx_ctrl is asked first, and may refuse. sweep: the first one of this row behind
  // reset, which nothing can be under way of.
  typedef struct packed {
    logic           sweep;
    logic           swap;
    logic           init_sq;
    logic           init_rq;
    logic [QpW-1:0] qpn;
    qpc_t           qpc;
  } qpc_wr_t;

  // A QP that has not its line, and what it has missed. func: of who rings.
  typedef struct packed {
    line_miss_e  kind;
    logic [7:0]  func;
    logic [23:0] qpn;
    wqe_idx_t    pi;
  } line_want_t;

  // MissAsk: of a packet that was dropped, or of one that waits. Its slot stands in `pi` then.
  function automatic logic is_parked(line_want_t want);
    logic unused;
    unused = ^want;
    return want.kind == MissAsk && want.pi[WqeIndexBits-1];
  endfunction

  function automatic logic is_dropped(line_want_t want);
    logic unused;
    unused = ^want;
    return want.kind == MissAsk && !want.pi[WqeIndexBits-1];
  endfunction

  // A QP that has its line now and hears of it, or (later) looks again.
  typedef struct packed {
    logic       later;
    line_want_t want;
  } line_fin_t;

  // Doors of a line: shut, whoever has it misses, too; drain, its doorbells do, so that it soon has nothing to do. A
  // strobe. A context write of firmware's opens them, a hand-over's does not.
  typedef struct packed {
    logic           valid;
    logic [QpW-1:0] line;
    logic           drain;
    logic           shut;
  } line_shut_t;

  // Who has a line.
  typedef struct packed {
    logic        may_rest;  // hardware may take it from him
    logic        valid;
    logic [23:0] qpn;
  } line_holder_t;

  // Has a line's holder nothing to do, as far as is known? If not: hca_rx_ctrl may know better when it is asked.
  typedef struct packed {
    logic rests;
    logic ask;
  } line_hint_t;

  // A line, for hca_lines.
  // QPs on their way into their lines; few in a proof.
`ifdef HCA_LINE_SLOTS
  localparam int unsigned LineSlots = `HCA_LINE_SLOTS;
`else
  localparam int unsigned LineSlots = 64;
`endif
  typedef logic [$clog2(LineSlots)-1:0] line_slot_t;
  typedef logic [11:0] line_since_t;       // in 256 cycles
  typedef struct packed {
    line_holder_t who;
    logic         busy;   // somebody else is on its way into the line, in this place
    line_slot_t   slot;
    logic         drain;  // its holder is to leave, and gets no doorbells
    line_since_t  since;  // the holder has had it, or is to leave
  } line_row_t;

  // What registers say of context memory, and write to it.
  typedef struct packed {
    logic         enable;
    logic         hold;
    logic [4:0]   index_bits;
    logic [63:8]  base;
    logic [QpW-1:0] sel;      // whose holder is to be told
    logic         set_go;     // strobes
    line_holder_t set;
    logic         want_go;
    line_want_t   want;
  } lines_cfg_t;

  // Record of a QP on its way to context memory.
  typedef struct packed {
    logic        whole;  // else what comes before its record
    logic [23:0] index;
    qpc_t        qpc;
  } record_wr_t;
