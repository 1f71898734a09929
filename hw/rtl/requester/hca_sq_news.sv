// What the context of a QP says about its position: whether a rewind, or an acknowledge ahead of it, moves it
// (hca_sq_redo: where to), and whether its producer index can be true. Combinational.
module hca_sq_news
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_qpc_t     qpc_i,
  input  sq_ack_t     ack_i,
  input  sq_dyn_t     dyn_i,
  input  wqe_idx_t    pi_i,
  output sq_news_t    news_o
);

  logic        rewound, ahead_psn, ahead_wqe, unused_bits;
  logic [23:0] una_diff;
  wqe_idx_t    una_wqe_diff, ring_entries, posted;

  assign unused_bits  = ^{qpc_i, ack_i, dyn_i, una_diff, una_wqe_diff};
  assign ring_entries = WqeIndexBits'(1) << qpc_i.log_size;
  assign rewound      = ack_i.seq != dyn_i.seq;
  assign una_diff     = ack_i.una_psn - dyn_i.psn;
  assign una_wqe_diff = ack_i.una_wqe - dyn_i.wqe;
  assign ahead_psn    = ack_i.una_psn != dyn_i.psn && !una_diff[23];
  assign ahead_wqe    = ack_i.una_wqe != dyn_i.wqe && !una_wqe_diff[WqeIndexBits-1];
  assign posted       = pi_i - ack_i.una_wqe;

  always_comb begin
    news_o.state_ok = (qpc_i.state == QpsRts) || (qpc_i.state == QpsSqd);
    news_o.moves    = rewound || ahead_psn || ahead_wqe;
    news_o.idle     = pi_i == dyn_i.wqe;
    news_o.pi_far   = posted > ring_entries;
    news_o.pi_bad   = news_o.pi_far || (pi_i - dyn_i.wqe) > posted;
  end

endmodule
