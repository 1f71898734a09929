// Proof of credit flow control of one VL, end to end: hca_tx_credit at the sender, hca_rx_ring (hca_rx_credit) at the
// receiver, hca_fcp_rx on both sides, the counters modulo 4096, and a cable between them of any length on which any
// packet may be lost.
//
// The cable is one number: `seen_q`, the sender's count (FCTBS) at the place in the stream that reaches the
// receiver now. What lies between it and the sender's FCTBS is under way. In each cycle the solver chooses what
// arrives: a packet of any size that is under way (or a part of it, or nothing), or a flow control packet, which
// names the count of its place. On the way back promises arrive in order, so any FCCL between the last heard and
// the present one may come.
module fv_credit #(
  parameter int unsigned Blocks = 16
) (
  input logic        clk_i,
  input logic        clear_i,        // the link goes down and up again, at both ends
  input logic [7:0]  ask_blocks_i,   // the sender: has a packet of so many blocks,
  input logic        send_i,         // and sends it
  input logic        arrive_i,       // a packet reaches the receiver,
  input logic [7:0]  arrive_blocks_i,
  input logic        lost_i,         // or does not
  input logic        fcp_i,          // a flow control packet reaches the receiver
  input logic        take_i,
  input logic        pop_i,          // a block leaves the ring
  input logic        hear_i,         // a flow control packet reaches the sender,
  input logic [11:0] hear_more_i,    // which promises so many more than the one before
  input logic        hear_init_i
);
  import hca_pkg::*;
  import hca_link_pkg::*;

  localparam int unsigned PtrW = $clog2(Blocks);

  typedef logic [PtrW:0] part_t;   // 0..Blocks

  logic            rst_q = 1'b1;
  logic            ok, allowed_q, packet, upd, resync;
  logic [7:0]      held_blocks_q;
  logic [11:0]     fctbs, left, abr, fccl, seen_q, told_q, resync_fctbs;
  logic [PtrW:0]   used;
  fc_upd_t         heard;
  fcp_t            to_receiver, to_sender;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_tx_credit u_tx (
    .clk_i, .rst_i(rst_q), .clear_i, .upd_i(upd), .upd_init_i(heard.init), .upd_fccl_i(heard.fccl), .ask_blocks_i,
    .ok_o(ok), .send_i, .send_blocks_i(ask_blocks_i), .fctbs_o(fctbs), .left_o(left)
  );

  hca_rx_ring #(.Blocks(Blocks)) u_ring (
    .clk_i, .rst_i(rst_q), .clear_i, .fcp_i(resync), .fcp_fctbs_i(resync_fctbs), .commit_i(arrive_i && !lost_i),
    .commit_blocks_i(arrive_blocks_i), .take_i, .pop_i, .wr_ptr_o(), .rd_ptr_o(), .used_o(used), .packet_o(packet),
    .abr_o(abr), .fccl_o(fccl)
  );

  always_comb begin
    to_receiver       = '0;
    to_receiver.fctbs = seen_q;
    to_sender         = '0;
    to_sender.op      = hear_init_i ? FcpInit : FcpNormal;
    to_sender.fccl    = told_q + hear_more_i;
  end

  hca_fcp_rx u_to_receiver (
    .clk_i, .rst_i(rst_q || clear_i), .enable_i(1'b1), .vl_mask_i(15'd1), .valid_i(fcp_i), .first_i(1'b1),
    .phy_i(fcp_beat(to_receiver)), .fcp_o(resync), .fcp_upd_o(), .fcp_fctbs_o(resync_fctbs), .lpcrc_err_o(),
    .malformed_o()
  );

  hca_fcp_rx u_to_sender (
    .clk_i, .rst_i(rst_q || clear_i), .enable_i(1'b1), .vl_mask_i(15'd1), .valid_i(hear_i), .first_i(1'b1),
    .phy_i(fcp_beat(to_sender)), .fcp_o(upd), .fcp_upd_o(heard), .fcp_fctbs_o(), .lpcrc_err_o(), .malformed_o()
  );

  // Where each block of the ring is, as counts that do not wrap: free and promised (left), promised by what the sender
  // hears just now (near) or will hear (far), under way, lost, or used. One more: how many of the lost ones the flow
  // control packet that is being taken in makes good.
  part_t left_q, near_q, far_q, flying_q, lost_q, good_q, lost_next, sent, arrived, more;

  assign sent      = send_i ? part_t'(ask_blocks_i) : '0;
  assign arrived   = arrive_i ? part_t'(arrive_blocks_i) : '0;
  assign more      = hear_i ? part_t'(hear_more_i) : '0;
  assign lost_next = lost_q + (lost_i ? arrived : '0) - (resync ? good_q : '0);

  always_ff @(posedge clk_i) begin
    held_blocks_q <= ask_blocks_i;
    allowed_q     <= !rst_q && !clear_i && ok && !send_i;
    if (rst_q || clear_i) begin
      seen_q   <= '0;
      told_q   <= '0;
      left_q   <= '0;
      near_q   <= '0;
      far_q    <= part_t'(Blocks);
      flying_q <= '0;
      lost_q   <= '0;
      good_q   <= '0;
    end else begin
      if (arrive_i) seen_q <= seen_q + 12'(arrive_blocks_i);
      if (hear_i) told_q <= told_q + hear_more_i;
      left_q   <= left_q + near_q - sent;
      near_q   <= more;
      far_q    <= far_q - more + part_t'(u_ring.pop_q) + (resync ? good_q : '0);
      flying_q <= flying_q + sent - arrived;
      lost_q   <= lost_next;
      if (fcp_i) good_q <= lost_next;
    end
  end

  always_comb begin
    if (!rst_q && !clear_i) begin
      m_ask: assume (ask_blocks_i != '0 && 32'(ask_blocks_i) <= MaxBlocks);
      // A packet may be charged a cycle after it was allowed, as in hca_link_tx.
      if (send_i) m_send: assume (ok || (allowed_q && ask_blocks_i == held_blocks_q));
      if (arrive_i) m_arrive: assume (arrive_blocks_i != '0 && 32'(arrive_blocks_i) <= 32'(flying_q) && !fcp_i);
      if (take_i) m_take: assume (packet);
      if (pop_i) m_pop: assume (used != part_t'(u_ring.pop_q));  // the one read before still counts
      if (hear_i) m_hear: assume (32'(hear_more_i) <= 32'(far_q));
    end
  end

  always_comb begin
    if (!rst_q) begin
      // What is under way always finds room, and what the sender may still send as well: nothing overruns the ring.
      a_room:   assert (32'(flying_q) + 32'(left) + 32'(used) <= Blocks);
      // No credit is made and none is lost: every block of the ring is in one place. A loss on the way takes blocks
      // away from the sender (lost_q), until a flow control packet arrives; then the others' sum is the ring again.
      a_sum:    assert (32'(left_q) + 32'(near_q) + 32'(far_q) + 32'(flying_q) + 32'(lost_q) + 32'(used) == Blocks);
      a_resync: assert (!resync || (resync_fctbs == abr + 12'(good_q) && good_q <= lost_q));
      // The two ends' counters say the same, modulo 4096.
      a_flying: assert (fctbs == seen_q + 12'(flying_q));
      a_lost:   assert (seen_q == abr + 12'(lost_q));
      a_left:   assert (u_tx.fccl_q == fctbs + 12'(left_q) && left == (u_tx.promised_q ? 12'(left_q) : 12'd0));
      a_far:    assert (fccl == told_q + 12'(far_q));

      h_read:   assert (!u_ring.pop_q || used != '0);
      h_near:   assert (told_q == u_tx.fccl_q + 12'(near_q));
      h_upd:    assert (upd ? heard.fccl == told_q : near_q == '0);
      if (allowed_q) h_allowed: assert (32'(held_blocks_q) <= 32'(left_q));

      c_full:   cover (32'(used) == Blocks);
      c_lost:   cover (lost_q != '0 && left != '0);
      c_healed: cover (resync && lost_q != '0 && left == '0);
      c_flying: cover (32'(flying_q) == Blocks);
    end
  end
endmodule
