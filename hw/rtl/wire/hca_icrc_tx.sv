// Appends the ICRC to the packets of hca_tx_pack; frames stay as they are. Timing and stalls: hca_crc_append.
module hca_icrc_tx
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_i,
  input  logic     in_valid_i,
  output logic     in_ready_o,
  input  tx_beat_t in_i,
  output logic     out_valid_o,
  input  logic     out_ready_i,
  output mac_t     out_o,
  output logic     out_ib_o,              // personality and port of the packet; it is a frame
  output logic     out_raw_o,
  output logic [PortW-1:0] out_port_o
);

  logic [31:0] init;
  logic        unused_csum;

  assign unused_csum = in_i.csum;   // hca_tx_csum has seen to it

  assign init = (in_i.l3 == L3Ipv4 || in_i.l3 == L3Ipv6) ? IcrcInitRoce : IcrcInitIb;

  hca_crc_append #(
    .CrcW(32),
    .TagW(2 + PortW),
    .Poly(32'hEDB8_8320)
  ) u_append (
    .clk_i,
    .rst_i,
    .in_valid_i,
    .in_ready_o,
    .in_bare_i      (in_i.l3 == L3Raw),
    .in_last_i      (in_i.last),
    .in_len_bytes_i (in_i.len_bytes),
    .in_data_i      (in_i.data),
    .in_tag_i       ({l3_is_ib(in_i.l3), in_i.l3 == L3Raw, in_i.port}),
    .ones_i         (icrc_ones(in_i.l3)),
    .init_i         (init),
    .out_valid_o,
    .out_ready_i,
    .out_last_o     (out_o.last),
    .out_len_bytes_o(out_o.len_bytes),
    .out_data_o     (out_o.data),
    .out_tag_o      ({out_ib_o, out_raw_o, out_port_o})
  );

endmodule
