// May the QP send its next packet now, as far as acknowledges decide it: window, outstanding messages, READ limit,
// fence, work of hca_mw. Gates are not looked at here. What packets change is counted along.
module hca_sq_window
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic        clk_i,
  input  logic        start_i,     // the position is where it will be when the first packet of the turn is made
  input  sq_qpc_t     qpc_i,
  input  sq_dyn_t     dyn_i,
  input  sq_ack_t     ack_i,
  input  logic [15:0] placed_i,    // READs whose data is in memory
  input  logic        msg_room_i,
  input  logic        sent_i,      // strobe: a packet is made
  input  logic [23:0] psns_i,      // with sent_i: that it takes
  input  sq_look_t    wqe_i,       // of the next packet
  input  logic        is_new_i,    // none of it has been sent
  input  logic [23:0] rest_i,      // PSNs that the rest of the message takes, less one
  output logic        blocked_o    // until an acknowledge comes
);

  logic [23:0] in_flight_q;
  logic [15:0] rd_out_q;   // READs not yet answered
  logic        reads_q;    // some have not placed their data
  logic [24:0] span;
  logic        unused_bits;

  assign unused_bits = ^{qpc_i, dyn_i, ack_i, wqe_i, span};
  assign span        = 25'(in_flight_q) + 25'(rest_i);

  // PSNs in flight must stay comparable: never more than half of the space.
  assign blocked_o = in_flight_q >= 24'(WindowPackets)
                     || wqe_i.row_full
                     // The first one of a block is begun with nothing outstanding, or with room for all.
                     || (is_new_i && wqe_i.opens_block && wqe_i.others && !msg_room_i)
                     || (wqe_i.read && span[24:23] != '0)
                     || (wqe_i.read && !rd_out_q[15] && rd_out_q >= 16'(qpc_i.max_rd_atomic))
                     || ((wqe_i.local_op || dyn_i.local_op) && wqe_i.others)
                     || (wqe_i.fence && reads_q);

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      in_flight_q <= dyn_i.psn - ack_i.una_psn;
      rd_out_q    <= dyn_i.rd_issued - ack_i.rd_done;
      reads_q     <= dyn_i.rd_issued != placed_i;
    end else if (sent_i) begin
      in_flight_q <= in_flight_q + psns_i;
      if (wqe_i.read) rd_out_q <= rd_out_q + 16'd1;
      if (wqe_i.read) reads_q <= dyn_i.rd_issued + 16'd1 != placed_i;
    end
  end

endmodule
