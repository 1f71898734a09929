// Transmit side of the self-loopback: a packet whose destination is its own port goes to `loop`, any other to `out`;
// the port stands beside each beat. Ethernet: destination MAC = port MAC. InfiniBand: destination LID = own LID under
// the LID mask; the permissive LID goes out. One for a multicast group goes both ways, beat by beat. Decides on the
// first beat; latency to `out` one cycle. A looped packet is offered once it is here whole, and then without a gap: the
// receive side is never held up by it.
module hca_loopback
  import hca_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_i,
  input  port_cfg_t [NumPorts-1:0] port_cfg_i,
  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  mac_t      in_i,
  input  logic [PortW-1:0] in_port_i,
  input  tx_round_t in_round_i,
  output logic      out_valid_o,
  input  logic      out_ready_i,
  output mac_t      out_o,
  output logic [PortW-1:0] out_port_o,
  output tx_round_t out_round_o,
  output logic      loop_valid_o,
  input  logic      loop_ready_i,
  output mac_t      loop_o,
  output logic [PortW-1:0] loop_port_o
);

  localparam int unsigned Depth = 128;  // beats: more than one packet of the largest size

  logic [15:0] dlid, path_mask;
  logic        own_mac, own_lid, own, group, group_lid;
  logic        first_q, own_q, group_q, valid_q, to_self_q, to_out_q, take, ready;
  mac_t        beat_q;
  logic [PortW-1:0] port_q;
  port_cfg_t   cfg;

  assign cfg       = port_cfg_i[in_port_i];
  assign dlid      = {in_i.data[23:16], in_i.data[31:24]};
  assign path_mask = ~(16'hffff << cfg.lmc);
  assign own_lid   = ((dlid | path_mask) == (cfg.lid | path_mask)) && dlid != 16'(LidPermissive);
  always_comb begin
    own_mac = 1'b1;
    for (int unsigned i = 0; i < 6; i++) begin
      if (in_i.data[8*i +: 8] != cfg.mac[8*(5-i) +: 8]) own_mac = 1'b0;
    end
  end
  assign group_lid = dlid >= 16'(LidMulticast) && dlid != 16'(LidPermissive);
  assign own       = first_q ? (cfg.ib ? own_lid : own_mac) : own_q;
  assign group     = first_q ? (cfg.ib ? group_lid : in_i.data[0]) : group_q;

  logic unused_cfg;
  assign unused_cfg = cfg.active;

  logic store_ready, head_valid;

  assign ready      = (!to_self_q || store_ready) && (!to_out_q || out_ready_i);
  assign in_ready_o = !valid_q || ready;
  assign take       = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      first_q <= 1'b1;
      valid_q <= 1'b0;
    end else begin
      if (take) first_q <= in_i.last;
      if (in_ready_o) valid_q <= in_valid_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      own_q     <= own;
      group_q   <= group;
      to_self_q <= own || group;
      to_out_q  <= !own;
      beat_q    <= in_i;
      port_q    <= in_port_i;
      out_round_o <= in_round_i;
    end
  end

  assign out_valid_o = valid_q && to_out_q && (!to_self_q || store_ready);
  assign out_o       = beat_q;
  assign out_port_o  = port_q;

  logic [$clog2(Depth):0] unused_count;

  hca_fifo #(
    .Width(PortW + $bits(mac_t)),
    .Depth(Depth)
  ) u_store (
    .clk_i,
    .rst_i,
    .in_valid_i (valid_q && to_self_q && (!to_out_q || out_ready_i)),
    .in_ready_o (store_ready),
    .in_i       ({port_q, beat_q}),
    .out_valid_o(head_valid),
    .out_ready_i(loop_valid_o && loop_ready_i),
    .out_o      ({loop_port_o, loop_o}),
    .count_o    (unused_count)
  );

  // Whole packets in the store.
  logic [$clog2(Depth):0] packets_q;
  logic                   packet_in, packet_out;

  assign packet_in    = valid_q && to_self_q && ready && beat_q.last;
  assign packet_out   = loop_valid_o && loop_ready_i && loop_o.last;
  assign loop_valid_o = head_valid && packets_q != '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) packets_q <= '0;
    else if (packet_in && !packet_out) packets_q <= packets_q + 1'b1;
    else if (packet_out && !packet_in) packets_q <= packets_q - 1'b1;
  end

endmodule
