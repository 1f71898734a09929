// The stage before a WQE is served: holds its first block, and decides all that depends on the WQE, the context and
// the acknowledge of the turn alone: is it good, may it be begun, how long it is. The emitter takes block_o and
// look_o into registers of its own when it serves the WQE. Combinational from the block on. The sum of the lengths of
// its entries is checked by hca_sq_sge.
module hca_sq_look
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic        clk_i,
  input  logic        load_i,   // blk_i is the first block of the next WQE
  input  beat_t       blk_i,
  input  wqe_idx_t    wqe_i,    // its index
  input  logic        begun_i,  // it is the one that the QP's position is in: the offset there is its own
  input  sq_qpc_t     qpc_i,
  input  sq_dyn_t     dyn_i,
  input  sq_ack_t     ack_i,
  input  wqe_idx_t    pi_i,
  output beat_t       block_o,
  output logic [32:0] sum_o,    // of the lengths of entries in block_o
  output logic [31:0] offset_o, // bytes of it already sent
  output sq_look_t    look_o
);

  localparam int unsigned MasksAt = SqWqeCtrlBytes + SqWqeAtomicBytes + SgeBytes;

  sq_wqe_ctrl_t hdr, in;
  logic         atomic_q, one_q, two_q;  // which lengths count is known with the block
  sge_t [3:0]   lanes;
  beat_t        block_q;
  logic         datagram, frame, many, none, read, local_op, is_new, last, unused_bits;
  logic [31:0]  offset, before_end, mtu_mask;  // before_end: bytes left, less one
  logic [23:0]  rest;
  wqe_idx_t     newest, since;  // newest: the newest WQE begun, from this one on
  logic [15:0]  ring_slot;
  logic [18:0]  ring_block;

  assign unused_bits = ^{lanes, in, qpc_i, dyn_i, ack_i};
  assign block_o     = block_q;
  assign lanes       = block_q;
  assign hdr         = block_q[255:0];
  assign offset_o    = offset;

  assign in = blk_i[255:0];

  always_ff @(posedge clk_i) begin
    if (load_i) begin
      block_q  <= blk_i;
      atomic_q <= is_atomic(in.opcode);
      one_q    <= in.num_sge != '0 && !is_atomic(in.opcode);
      two_q    <= in.num_sge > 8'd1;
    end
  end


  assign read       = is_answered(hdr.opcode);
  assign local_op   = is_local(hdr.opcode);
  assign datagram   = qpc_i.service == ServiceUd;
  assign frame      = qpc_i.service == ServiceRaw;
  assign none       = hdr.length == '0;
  assign offset     = begun_i ? dyn_i.offset : '0;
  assign before_end = hdr.length + ~offset;
  assign mtu_mask   = '1 << mtu_shift(qpc_i.path_mtu);
  assign many       = !hdr.inline_data && hdr.num_sge > (datagram ? 8'd0 : 8'd2);

  // The first block has entries 0 and 1, of an atomic behind its operands the one, of a datagram none.
  assign sum_o = ((one_q && !datagram) ? 33'(lanes[2].length) : '0)
                 + ((atomic_q || (two_q && !datagram)) ? 33'(lanes[3].length) : '0);

  // A frame is one packet, of a length that is checked. Bit 31: there is nothing, as no good message is so long.
  assign rest = (before_end[31] || frame) ? '0 : 24'(before_end[31:7] >> qpc_i.path_mtu);   // >> mtu_shift
  assign last = read || none || frame || (before_end & mtu_mask) == '0;

  // Only the newest WQE begun counts: a WQE sent meanwhile, before this one, changes nothing here.
  assign newest     = dyn_i.started - wqe_i - 1'b1;
  assign is_new     = newest[WqeIndexBits-1];
  // Blocks of messages come back whole.
  assign since      = wqe_i - {ack_i.una_wqe[WqeIndexBits-1:MsgRowW], MsgRowW'(0)};
  assign ring_slot  = wqe_i[MaxLogWqSize-1:0] & ~(16'hffff << qpc_i.log_size);
  assign ring_block = 19'(ring_slot) << qpc_i.log_stride;

  hca_sq_check u_check (
    .hdr_i      (hdr),
    .qpc_i,
    .wqe_i,
    .offset_i   (offset),
    .malformed_o(look_o.malformed),
    .misfit_o   (look_o.misfit),
    .too_long_o (look_o.too_long)
  );

  always_comb begin
    look_o.many        = many;
    look_o.is_inline   = hdr.inline_data;
    look_o.payload     = !none && !read;
    look_o.read        = read;
    look_o.masks       = hdr.opcode == WrOpMaskedAtomicCmpAndSwp;
    look_o.local_op    = local_op;
    look_o.fence       = hdr.fence && is_acked(qpc_i.service);
    look_o.takes       = takes_receive(hdr.opcode) && qpc_i.credits;
    look_o.is_new      = is_new;
    look_o.hold        = qpc_i.state == QpsSqd && is_new;
    look_o.resumed     = offset != '0;
    look_o.empty0      = lanes[2].length == '0;
    look_o.seek        = many || datagram
                         || (!hdr.inline_data && look_o.payload && (look_o.resumed || look_o.empty0));
    look_o.direct      = !look_o.hold && !look_o.seek && !look_o.resumed && !local_op;
    look_o.last_wqe    = wqe_i + 1'b1 == pi_i;
    look_o.row_full    = since >= WqeIndexBits'(MaxOutstanding);
    look_o.others      = wqe_i != ack_i.una_wqe;
    look_o.opens_block = wqe_i[MsgRowW-1:0] == '0;
    look_o.one_pkt     = last;
    look_o.left        = hdr.length - offset;
    look_o.rest        = rest;
    look_o.inline_at   = {ring_block, 6'd0} + (datagram ? 25'(SqWqeUdCtrlBytes)
                                               : look_o.masks ? 25'(MasksAt) : 25'(SqWqeCtrlBytes))
                         + 25'(offset[12:0]);
  end

endmodule
