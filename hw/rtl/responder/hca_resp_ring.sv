// What the ring of a QP's READ and atomic jobs becomes when a job comes, and when a packet of the head job leaves.
// Jobs lie in slots; `order` names the slots of the jobs in the order of their PSNs, and behind them the free ones.
// Nothing that is queued is ever given up for a request that comes again (REL-19: a copy of the network's must cost
// nothing), and what a peer that has gone back asks for is sent before what it had asked for later:
//   newer than all here      at the end
//   here, not yet sent       nothing to do
//   in the part of the head that has been sent   it takes the head's place: answers begin with its PSN
//   older than all here      in front; the job that it interrupts begins again, for its peer has not taken what it was
//                            sent behind a gap
//   between such ones        behind those that have come so, in front of what was here before (`main_psn` on)
// Combinational. A job for which there is no slot is lost.
module hca_resp_ring
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  resp_ring_t            ring_i,
  input  logic [2:0]            path_mtu_i,
  // A job comes.
  input  logic [23:0]           psn_i,
  input  logic [31:0]           len_bytes_i,
  output logic                  store_o,    // in slot_o; else it is here already, or lost
  output logic                  gone_o,     // a job is no more: this one, or the one whose place it takes
  output logic [RespSlotW-1:0]  slot_o,
  output resp_ring_t            with_o,
  // A packet of the head leaves.
  input  logic [23:0]           sent_psn_i,
  input  logic                  is_last_i,
  output logic [RespSlotW-1:0]  head_o,
  output resp_ring_t            sent_o
);

  localparam int unsigned Slots = MaxDestRdAtomic;

  logic [RespSlotW-1:0] order [Slots];       // as it is; at rest a slot's own number: a row of zeros is an empty ring
  logic [RespSlotW:0]   place;
  logic [23:0]          last_psn, head_psn;
  logic                 full, empty, begun, newer, unsent, between, goes_back, added;

  for (genvar s = 0; s < int'(Slots); s++) begin : gen_order
    assign order[s] = ring_i.order[s] ^ RespSlotW'(s);
  end

  assign last_psn  = psn_i + ((len_bytes_i == '0) ? '0 : 24'((len_bytes_i - 32'd1) >> mtu_shift(path_mtu_i)));
  assign empty     = ring_i.count == '0;
  assign full      = ring_i.count[RespSlotW];
  assign begun     = ring_i.off != '0;
  assign head_psn  = ring_i.at_psn - 24'(ring_i.off >> mtu_shift(path_mtu_i));
  assign newer     = empty || !psn_ge(ring_i.newest_psn, psn_i);
  assign unsent    = psn_ge(psn_i, ring_i.at_psn);
  assign between   = ring_i.replays != '0 && !psn_ge(ring_i.replay_psn, psn_i) && !psn_ge(psn_i, ring_i.main_psn);
  assign goes_back = !newer && !unsent && begun && psn_ge(psn_i, head_psn);

  assign added   = !full && (newer || between || (!unsent && !goes_back));
  assign store_o = added || goes_back;
  assign gone_o  = !added;
  assign place   = newer ? ring_i.count : between ? ring_i.replays : '0;
  assign slot_o  = goes_back ? order[0] : order[ring_i.count[RespSlotW-1:0]];
  assign head_o  = order[0];

  always_comb begin
    with_o = ring_i;
    if (goes_back) begin
      with_o.off    = '0;
      with_o.at_psn = psn_i;
    end
    if (added) begin
      with_o.count = ring_i.count + 1'b1;
      for (int unsigned s = 0; s < Slots; s++) begin
        if ((RespSlotW + 1)'(s) == place) with_o.order[s] = slot_o ^ RespSlotW'(s);
        else if (s > 0 && (RespSlotW + 1)'(s) > place && (RespSlotW + 1)'(s) <= ring_i.count) begin
          with_o.order[s] = order[s-1] ^ RespSlotW'(s);
        end
      end
      if (newer) begin
        with_o.newest_psn = last_psn;
        if (empty) with_o.at_psn = psn_i;
      end else if (between) begin
        with_o.replays    = ring_i.replays + 1'b1;
        with_o.replay_psn = last_psn;
      end else begin
        with_o.replays    = (RespSlotW + 1)'(1);
        with_o.replay_psn = last_psn;
        with_o.main_psn   = begun ? head_psn : ring_i.at_psn;
        with_o.at_psn     = psn_i;
        with_o.off        = '0;
      end
    end
  end

  always_comb begin
    sent_o        = ring_i;
    sent_o.at_psn = sent_psn_i + 24'd1;
    sent_o.off    = ring_i.off + 32'(mtu_bytes(path_mtu_i));
    if (is_last_i) begin
      sent_o.off   = '0;
      sent_o.count = ring_i.count - 1'b1;
      for (int unsigned s = 0; s < Slots; s++) begin
        if ((RespSlotW + 1)'(s + 1) == ring_i.count) sent_o.order[s] = order[0] ^ RespSlotW'(s);
        else if (s + 1 < Slots && (RespSlotW + 1)'(s + 1) < ring_i.count) begin
          sent_o.order[s] = order[s+1] ^ RespSlotW'(s);
        end
      end
      if (ring_i.replays != '0) sent_o.replays = ring_i.replays - 1'b1;
      if (ring_i.replays == (RespSlotW + 1)'(1)) sent_o.at_psn = ring_i.main_psn;
    end
  end

endmodule
