// Part of hca_pkg: contexts of QPs on their way in and out.

  // What a QP was, as it stands in qpc_t from sq_pi on. `st`: hca_rx_ctrl's own.
  typedef struct packed {
    logic [447:0] st;
    logic [23:0]  una_psn;
    logic [4:0]   reserved;
    logic [15:0]  rd_done;
    wqe_idx_t     rq_pi;
    wqe_idx_t     una_wqe;
    wqe_idx_t     sq_pi;
  } qpc_record_t;

  // QP context write bus, from rtl/mgmt to every block that keeps a piece of the context.
  // init_sq / init_rq: also reset the block's dynamic state of that queue from sq_psn / rq_psn and zero
  // indices. A block may take its time (ready), but afterwards must act on the new context.
  typedef struct packed {
    logic           init_sq;
    logic           init_rq;
    logic [QpW-1:0] qpn;
    qpc_t           qpc;
  } qpc_wr_t;
