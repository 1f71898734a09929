// Where a QP's position must go after a rewind, or an acknowledge ahead of it. Combinational.
module hca_sq_redo
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_qpc_t qpc_i,
  input  sq_ack_t ack_i,
  input  sq_dyn_t dyn_i,
  input  logic    moves_i,  // hca_sq_news says so
  output sq_dyn_t redo_o,
  output logic    same_o    // inside the WQE where it is, which is the same one still
);

  logic        rewound, unused_bits;
  logic [15:0] started_diff;

  assign unused_bits  = ^{qpc_i, ack_i};
  assign rewound      = ack_i.seq != dyn_i.seq;
  assign started_diff = dyn_i.started - ack_i.una_wqe;

  assign same_o       = ack_i.una_wqe == dyn_i.wqe && !dyn_i.err && (ack_i.seq - dyn_i.seq) < 8'd2 && !ack_i.init;

  always_comb begin
    redo_o = dyn_i;
    if (moves_i) begin
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
