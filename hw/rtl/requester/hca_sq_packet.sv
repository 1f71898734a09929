// The packet under way: sizes of it and of what is left of its message, and the next segment of its payload, each
// decided in the cycle before it is needed (next_i, go_on_i): the packet is compared with the entry under the cursor.
module hca_sq_packet
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic        clk_i,
  input  sq_qpc_t     qpc_i,
  input  sq_dyn_t     dyn_i,
  input  logic        load_i,      // look_i is the WQE from the next cycle on
  input  sq_look_t    look_i,
  input  sq_look_t    wqe_i,       // look_i of the WQE that is served
  input  sq_wqe_ctrl_t hdr_i,      // that WQE
  input  tx_path_t    path_i,      // of the packet
  input  logic        probes_i,    // the next packet goes beyond the peer's credits
  input  logic        next_i,      // the packet is made up, and its first segment
  input  logic        go_on_i,     // the next segment is
  input  logic [31:0] sge_left_i,  // bytes of the entry under the cursor
  input  logic        seg_i,       // strobe: a segment is made
  input  logic        end_i,       // strobe: the packet is made
  output sq_pkt_t     pkt_o,
  output logic [31:0] left_o,      // bytes of the message from it on
  output logic [23:0] rest_o,      // PSNs behind the first one of those
  output logic        large_o,     // with next_i: it counts for many small ones,
  output logic        lone_o,      //              and it is the turn's last one: over 1 KiB
  output logic [12:0] piece_o,     // bytes of the segment
  output logic        fits_o,      // it is the packet's last one
  output logic        used_up_o,   // it is all of the entry
  output logic [12:0] made_bytes_o // of the packet, on the wire (tx_made_of)
);

  sq_pkt_t     pkt_q, pkt_new;
  logic [31:0] left_q;
  logic [23:0] rest_q;
  logic [12:0] pkt_left_q, bytes, rest_bytes;
  logic        last_q;  // no packet of the message follows, or it is a READ
  logic        full_mtu, fits, used_up, unused_bits;

  assign unused_bits  = ^{qpc_i, dyn_i, look_i, wqe_i, hdr_i};
  assign pkt_o        = pkt_q;
  assign left_o       = left_q;
  assign rest_o       = rest_q;
  assign large_o      = !wqe_i.read && (last_q ? left_q[12:0] > 13'd256 : qpc_i.path_mtu > 3'd1);
  assign lone_o       = !wqe_i.read && (last_q ? left_q[12:0] > 13'd1024 : qpc_i.path_mtu > 3'd3);
  assign bytes        = next_i ? pkt_new.bytes : pkt_left_q;
  // Compared with both that the packet may have, whichever it will be.
  assign full_mtu     = next_i && !last_q;
  assign rest_bytes   = next_i ? left_q[12:0] : pkt_left_q;
  assign fits         = wqe_i.is_inline || wqe_i.read
                        || (full_mtu ? sge_left_i >= 32'(mtu_bytes(qpc_i.path_mtu)) : sge_left_i >= 32'(rest_bytes));
  assign used_up      = full_mtu ? sge_left_i <= 32'(mtu_bytes(qpc_i.path_mtu)) : sge_left_i <= 32'(rest_bytes);

  hca_sq_size u_size (
    .qpc_i,
    .read_i  (wqe_i.read), .masks_i(wqe_i.masks),
    .local_i (wqe_i.local_op),
    .offset_i(dyn_i.offset),
    .retx_i  (dyn_i.retx),
    .left_i  (left_q),
    .probes_i,
    .last_i  (last_q),
    .rest_i  (rest_q),
    .pkt_o   (pkt_new)
  );

  // Its bytes on the wire: what is made of them, while it leaves, is late enough.
  logic [4:0] added;   // by headers, in units of four
  txp_t       sized;

  always_comb begin
    sized = '0;
    sized.payload_bytes = pkt_new.bytes;
    added = '0;
    unique case (hdr_i.opcode) inside
      WrOpAtomicCmpAndSwp, WrOpMaskedAtomicCmpAndSwp, WrOpAtomicFetchAndAdd, WrOpMaskedAtomicFetchAndAdd:
        added = 5'(AtomicEthBytes / 4);
      WrOpRdmaRead: added = 5'(RethBytes / 4);
      WrOpRdmaWrite, WrOpRdmaWriteWithImm:
        if (pkt_new.first || (HasSelective && qpc_i.selective && hdr_i.opcode == WrOpRdmaWrite)) begin
          added = 5'(RethBytes / 4);
        end
      default:;
    endcase
    if (qpc_i.service == ServiceXrc) added = added + 5'(XrcethBytes / 4);
  end

  always_ff @(posedge clk_i) begin
    if (next_i) pkt_q <= pkt_new;
    if (next_i) made_bytes_o <= tx_base_bytes(sized, path_i) + {6'd0, added, 2'd0};
    if (next_i || go_on_i) begin
      pkt_left_q <= bytes;
      piece_o    <= fits ? bytes : sge_left_i[12:0];
      fits_o     <= fits;
      used_up_o  <= !wqe_i.is_inline && used_up;
    end
    if (seg_i) pkt_left_q <= pkt_left_q - piece_o;
    if (end_i) begin
      left_q <= left_q - 32'(pkt_q.bytes);
      rest_q <= rest_q - 24'd1;
      last_q <= rest_q == 24'd1;
    end
    if (load_i) begin
      last_q <= look_i.one_pkt;
      left_q <= look_i.left;
      rest_q <= look_i.rest;
    end
  end

endmodule
