// May the QP send its next packet now, as far as acknowledges decide it: window, outstanding messages, READ limit,
// fence, work of hca_mw, credits. Gates are not looked at here. What packets change is counted along.
//
// Credits (decision 0068): a message that takes a receive WQE and has no credit waits, unless the receive WQE of its
// first packet has been acknowledged; with `probe` one packet of it goes when nothing of the QP is outstanding, and
// asks for an acknowledge (probes_o). How many WQEs are below the limit is taken at start_i and counted down with
// pop_i, so that whether there is one is a flip-flop.
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
  input  logic        pop_i,       // strobe: it is the last one of its WQE
  input  sq_look_t    wqe_i,       // of the next packet
  input  logic        is_new_i,    // none of it has been sent
  input  logic [23:0] rest_i,      // PSNs that the rest of the message takes, less one
  output logic        probes_o,    // the next packet goes beyond the limit
  output logic        blocked_o    // until an acknowledge comes
);

  logic [23:0] in_flight_q;
  logic [15:0] rd_out_q;   // READs not yet answered
  logic        reads_q;    // some have not placed their data
  wqe_idx_t    below, below_q;     // WQEs below the limit, from the next one on
  logic        beyond, beyond_q;   // there is none, and the WQE has no receive WQE
  logic        waits_q;            // and one packet of it may not go either
  logic [24:0] span;
  logic        unused_bits;

  assign unused_bits = ^{qpc_i, dyn_i, ack_i, wqe_i, span};
  assign span        = 25'(in_flight_q) + 25'(rest_i);

  assign below       = ack_i.credit.limit - dyn_i.wqe;
  assign beyond      = ack_i.credit.on && (below[WqeIndexBits-1] || below == '0)
                       && (dyn_i.wqe != ack_i.una_wqe || ack_i.una_psn == ack_i.una_first_psn);
  assign probes_o    = wqe_i.takes && beyond_q;

  // PSNs in flight must stay comparable: never more than half of the space.
  assign blocked_o = (wqe_i.takes && waits_q)
                     || in_flight_q >= 24'(WindowPackets)
                     || wqe_i.row_full
                     // The first one of a block is begun with nothing outstanding, or with room for all.
                     || (is_new_i && wqe_i.opens_block && wqe_i.others && !msg_room_i)
                     || (wqe_i.read && span[24:23] != '0)
                     || (wqe_i.read && !rd_out_q[15] && rd_out_q >= 16'(qpc_i.max_rd_atomic))
                     || ((wqe_i.local_op || dyn_i.local_op) && wqe_i.others)
                     || (wqe_i.fence && reads_q);

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      below_q  <= below;
      beyond_q <= beyond;
      waits_q  <= beyond && !(ack_i.credit.probe && dyn_i.psn == ack_i.una_psn);
    end else if (pop_i) begin
      below_q  <= below_q - 1'b1;
      beyond_q <= ack_i.credit.on && (below_q[WqeIndexBits-1] || below_q[WqeIndexBits-2:1] == '0);
      waits_q  <= ack_i.credit.on && (below_q[WqeIndexBits-1] || below_q[WqeIndexBits-2:1] == '0);
    end else if (sent_i) begin
      waits_q  <= beyond_q;
    end
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
