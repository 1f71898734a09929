// What the context of a QP says about its position: where it must go after a rewind, or an acknowledge ahead of it,
// and whether its producer index can be true. Combinational.
module hca_sq_news
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_qpc_t     qpc_i,
  input  sq_ack_t     ack_i,
  input  sq_dyn_t     dyn_i,
  input  logic [15:0] pi_i,
  output logic        state_ok_o,  // the QP may send
  output logic        moves_o,     // the position is to become redo_o
  output sq_dyn_t     redo_o,
  output logic        same_o,      // inside the WQE where it is, which is the same one still
  output logic        pi_bad_o     // more than a ring ahead, or behind the position
);

  logic        rewound, ahead, unused_bits;
  logic [23:0] una_diff;
  logic [15:0] una_wqe_diff, started_diff, ring_entries;

  assign unused_bits  = ^{qpc_i, ack_i};
  assign ring_entries = 16'd1 << qpc_i.log_size;
  assign state_ok_o   = (qpc_i.state == QpsRts) || (qpc_i.state == QpsSqd);
  assign rewound      = ack_i.seq != dyn_i.seq;
  assign una_diff     = ack_i.una_psn - dyn_i.psn;
  assign una_wqe_diff = ack_i.una_wqe - dyn_i.wqe;
  assign ahead        = (una_diff != '0 && !una_diff[23]) || (una_wqe_diff != '0 && !una_wqe_diff[15]);
  assign moves_o      = rewound || ahead;
  assign same_o       = ack_i.una_wqe == dyn_i.wqe && !dyn_i.err && (ack_i.seq - dyn_i.seq) < 8'd2 && !ack_i.init;
  assign pi_bad_o     = (pi_i - ack_i.una_wqe) > ring_entries || (pi_i - dyn_i.wqe) > (pi_i - ack_i.una_wqe);

  always_comb begin
    redo_o       = dyn_i;
    started_diff = dyn_i.started - ack_i.una_wqe;
    if (moves_o) begin
      redo_o.wqe       = ack_i.una_wqe;
      redo_o.psn       = ack_i.una_psn;
      redo_o.offset    = 32'(24'(ack_i.una_psn - ack_i.una_first_psn)) << mtu_shift(qpc_i.path_mtu);
      redo_o.rd_issued = ack_i.rd_done;
      redo_o.seq       = ack_i.seq;
      if (started_diff > 16'(MaxOutstanding) || (rewound && ack_i.init)) redo_o.started = ack_i.una_wqe;
    end
    if (rewound) begin
      redo_o.err  = 1'b0;
      redo_o.retx = !ack_i.init;
    end
  end

endmodule
