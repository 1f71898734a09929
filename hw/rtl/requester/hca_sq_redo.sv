// Where a QP's position must go after a rewind, an acknowledge ahead of it, or some packets that were sent again alone.
// Combinational.
module hca_sq_redo
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_qpc_t  qpc_i,
  input  sq_ack_t  ack_i,
  input  sq_dyn_t  dyn_i,
  input  logic     moves_i,    // hca_sq_news says so, or all that was to be sent again alone has been
  input  logic     again_i,    // it sends some packets again alone, and goes on at back_i then
  input  sq_back_t back_i,
  output sq_dyn_t  redo_o,
  output logic     few_o,      // it begins to send some packets again alone
  output logic     returns_o,  // if it moves, it goes on at back_i
  output logic     same_o      // inside the WQE where it is, which is the same one still
);

  logic        rewound, psn_same, wqe_same, ahead, returns, unused_bits;
  wqe_idx_t    started_diff, wqe_diff;
  logic [23:0] psn_diff;

  assign unused_bits  = ^{qpc_i, ack_i, dyn_i, psn_diff, wqe_diff};
  assign rewound      = ack_i.seq != dyn_i.seq;
  assign started_diff = dyn_i.started - ack_i.una_wqe;

  // Two rewinds at once: one of them may have asked for more.
  assign few_o        = rewound && ack_i.again != '0 && (ack_i.seq - dyn_i.seq) == 8'd1 && !ack_i.init && !dyn_i.err;
  // A READ may have half of all PSNs: behind by just as many is not ahead, so the sign alone does not say it.
  hca_same #(.Width(24)) u_psn (.a_i(ack_i.una_psn), .b_i(back_i.psn), .same_o(psn_same));
  hca_same #(.Width(WqeIndexBits)) u_wqe (.a_i(ack_i.una_wqe), .b_i(back_i.wqe), .same_o(wqe_same));
  assign psn_diff     = ack_i.una_psn - back_i.psn;
  assign wqe_diff     = ack_i.una_wqe - back_i.wqe;
  assign ahead        = (!psn_same && !psn_diff[23]) || (!wqe_same && !wqe_diff[WqeIndexBits-1]);
  assign returns      = again_i && !rewound && !ahead;
  assign returns_o    = returns;

  assign same_o       = (returns ? back_i.wqe == dyn_i.wqe : ack_i.una_wqe == dyn_i.wqe) && !dyn_i.err
                        && (ack_i.seq - dyn_i.seq) < 8'd2 && !ack_i.init;

  always_comb begin
    redo_o = dyn_i;
    if (moves_i && returns) begin
      redo_o.wqe       = back_i.wqe;
      redo_o.psn       = back_i.psn;
      redo_o.offset    = back_i.offset;
      redo_o.rd_issued = back_i.rd_issued;
    end else if (moves_i) begin
      redo_o.wqe       = ack_i.una_wqe;
      redo_o.psn       = ack_i.una_psn;
      redo_o.offset    = {25'(24'(ack_i.una_psn - ack_i.una_first_psn)) << qpc_i.path_mtu, 7'd0};   // << mtu_shift
      redo_o.rd_issued = ack_i.rd_done;
      redo_o.seq       = ack_i.seq;
      if (started_diff > WqeIndexBits'(MaxOutstanding) || (rewound && ack_i.init)) redo_o.started = ack_i.una_wqe;
    end
    if (rewound) begin
      redo_o.err  = 1'b0;
      redo_o.retx = !ack_i.init;
    end
  end

endmodule
