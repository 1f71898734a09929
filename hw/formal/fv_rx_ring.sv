// Proof of hca_rx_ring (with hca_rx_credit): a sender that keeps to any promise it was ever given can never overfill
// the ring, whatever is lost on the way and whenever its FCPs come; no credit is made or lost; slots and packets
// agree. The promise is any FCCL that was true at some time: the solver chooses when the peer listens (hear_i).
module fv_rx_ring #(
  parameter int unsigned Blocks = 510    // no power of two: pointers turn at its end
) (
  input logic        clk_i,
  input logic        clear_i,
  input logic        hear_i,      // the peer takes the FCCL of this cycle
  input logic        fcp_i,
  input logic [11:0] fcp_fctbs_i,
  input logic        commit_i,
  input logic [7:0]  commit_blocks_i,
  input logic        take_i,
  input logic        pop_i
);
  import hca_link_pkg::*;

  localparam int unsigned PtrW = $clog2(Blocks);

  logic            rst_q = 1'b1;
  logic [PtrW-1:0] wr_ptr, rd_ptr, slots;
  logic [PtrW:0]   used, in_ring;
  logic            packet, popped;
  logic [11:0]     abr, fccl, told_q, left, arrived, promised, skipped, may_come;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_rx_ring #(.Blocks(Blocks)) u_dut (
    .clk_i, .rst_i(rst_q), .clear_i, .fcp_i, .fcp_fctbs_i, .commit_i, .commit_blocks_i, .take_i, .pop_i,
    .wr_ptr_o(wr_ptr), .rd_ptr_o(rd_ptr), .used_o(used), .packet_o(packet), .abr_o(abr), .fccl_o(fccl)
  );

  // What the peer believes: after a reset of the link nothing was promised.
  always_ff @(posedge clk_i) begin
    if (rst_q || clear_i) told_q <= '0;
    else if (hear_i) told_q <= fccl;
  end

  // The peer has sent no more than it was promised, and counts as the blocks left: an FCP names a count between what
  // came here and the promise (the difference was lost); packets come out of what is left behind that.
  assign arrived  = fcp_i ? fcp_fctbs_i : abr;
  assign left     = told_q - abr;
  // A slot that was read counts as used for a cycle more (popped), so there is something to read where it is not.
  assign slots    = (wr_ptr < rd_ptr) ? wr_ptr + PtrW'(Blocks) - rd_ptr : wr_ptr - rd_ptr;
  assign promised = fccl - abr;
  assign popped   = u_dut.pop_q;
  assign in_ring  = used - (PtrW + 1)'(popped);
  assign skipped  = fcp_fctbs_i - abr;
  assign may_come = told_q - arrived;

  always_comb begin
    if (!rst_q && !clear_i) begin
      if (fcp_i) m_fcp: assume (skipped <= left);
      if (commit_i) m_commit: assume (commit_blocks_i != '0 && 12'(commit_blocks_i) <= may_come);
      if (take_i) m_take: assume (packet);
      if (pop_i) m_pop: assume (used != (PtrW + 1)'(popped));
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      a_bound:   assert (32'(used) <= Blocks);
      a_promise: assert (32'(promised) + 32'(used) == Blocks);
      a_slots:   assert (slots == ((32'(in_ring) == Blocks) ? '0 : in_ring[PtrW-1:0]));
      h_read:    assert (!popped || used != '0);
      h_places:  assert (32'(wr_ptr) < Blocks && 32'(rd_ptr) < Blocks);
      // What the peer may still send always has a free slot.
      h_told:    assert (32'(left) + 32'(used) <= Blocks);
      c_full:    cover (32'(used) == Blocks);
      c_lost:    cover (fcp_i && fcp_fctbs_i != abr && used != '0);
      c_wrap:    cover (used != '0 && wr_ptr < rd_ptr);
    end
  end
endmodule
