// The next packet of a message: how much it carries, what it asks for, and whether the QP may send it now (window,
// outstanding messages, READ limit, fence). Gates are not looked at here. Combinational.
module hca_sq_packet
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_qpc_t     qpc_i,
  input  sq_dyn_t     dyn_i,
  input  sq_ack_t     ack_i,
  input  logic        read_i,      // a READ
  input  logic        local_i,     // no packet, work for hca_mw: alone
  input  logic        fence_i,
  input  logic        new_i,       // its WQE has never been begun
  input  logic [31:0] left_i,      // bytes of the message from this packet on
  input  logic [15:0] placed_i,    // READs whose data is in memory
  input  logic        msg_room_i,
  output sq_pkt_t     pkt_o,
  output logic [23:0] all_psns_o,  // PSNs that the rest of the message takes
  output logic        blocked_o    // until an acknowledge comes
);

  logic [3:0]  shift;
  logic [31:0] mtu;
  logic [23:0] in_flight;
  logic [3:0]  pkt_no;   // place of the packet in its message, modulo 16
  logic [24:0] span;
  logic [15:0] rd_out, outstanding;  // READs, WQEs not yet answered
  logic        acked, frame, unused_bits;

  assign unused_bits = ^{qpc_i, dyn_i, ack_i};
  assign acked       = is_acked(qpc_i.service);
  assign shift       = mtu_shift(qpc_i.path_mtu);
  // A frame is one packet, of a length that was checked.
  assign frame       = qpc_i.service == ServiceRaw;
  assign mtu         = frame ? 32'h1fff : 32'(mtu_bytes(qpc_i.path_mtu));
  assign in_flight   = dyn_i.psn - ack_i.una_psn;
  assign outstanding = dyn_i.wqe - ack_i.una_wqe;
  assign rd_out      = dyn_i.rd_issued - ack_i.rd_done;
  assign pkt_no      = 4'(dyn_i.offset >> shift);
  assign span        = 25'(in_flight) + 25'(all_psns_o);
  assign all_psns_o  = (left_i == '0 || frame) ? 24'd1 : 24'((33'(left_i) + 33'(mtu) - 33'd1) >> shift);

  always_comb begin
    pkt_o.first   = dyn_i.offset == '0;
    pkt_o.last    = read_i || left_i <= mtu;
    pkt_o.payload = !read_i && left_i != '0;
    pkt_o.bytes   = read_i ? '0 : (left_i <= mtu) ? left_i[12:0] : mtu[12:0];
    pkt_o.ack_req = acked && (pkt_o.last || dyn_i.retx || pkt_no == 4'd15);
    pkt_o.psns    = local_i ? '0 : read_i ? all_psns_o : 24'd1;
    // PSNs in flight must stay comparable: never more than half of the space.
    blocked_o = in_flight >= 24'(WindowPackets)
                || 16'(outstanding + ack_i.una_wqe[MsgRowW-1:0]) >= 16'(MaxOutstanding)  // blocks come back whole
                // The first one of a block is begun with nothing outstanding, or with room for all.
                || (new_i && dyn_i.wqe[MsgRowW-1:0] == '0 && outstanding != '0 && !msg_room_i)
                || (read_i && span > 25'h80_0000)
                || (read_i && !rd_out[15] && rd_out >= 16'(qpc_i.max_rd_atomic))
                || ((local_i || dyn_i.local_op) && outstanding != '0)
                || (fence_i && acked && dyn_i.rd_issued != placed_i);
  end

endmodule
