// The next packet of a message: how much it carries, and what it asks for. Combinational.
module hca_sq_size
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  sq_qpc_t     qpc_i,
  input  logic        read_i,    // a READ
  input  logic        masks_i,   // an atomic with these in its request
  input  logic        local_i,   // no packet, work for hca_mw
  input  logic [31:0] offset_i,  // bytes of the message before it
  input  logic        retx_i,    // it is the first one after a rewind
  input  logic [31:0] left_i,    // bytes of the message from it on
  input  logic        probes_i,  // it goes beyond the peer's credits
  input  logic        last_i,    // no packet follows
  input  logic [23:0] rest_i,    // PSNs that the message takes behind its first one
  output sq_pkt_t     pkt_o
);

  logic [3:0] pkt_no;   // place of the packet in its message, modulo 16
  logic       unused_bits;

  assign unused_bits = ^{qpc_i, left_i, offset_i[6:0]};
  assign pkt_no      = 4'(offset_i[31:7] >> qpc_i.path_mtu);   // >> mtu_shift, without its adder

  always_comb begin
    pkt_o.first   = offset_i == '0;
    pkt_o.last    = last_i;
    pkt_o.payload = masks_i || (!read_i && left_i != '0);
    pkt_o.bytes   = masks_i ? 13'(SqWqeMasksBytes) : read_i ? '0 : last_i ? left_i[12:0] : mtu_bytes(qpc_i.path_mtu);
    pkt_o.ack_req = is_acked(qpc_i.service) && (last_i || retx_i || probes_i || pkt_no == 4'd15);
    pkt_o.psns    = local_i ? '0 : read_i ? rest_i + 24'd1 : 24'd1;
  end

endmodule
