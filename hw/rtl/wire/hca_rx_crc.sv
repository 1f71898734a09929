// Checks ICRC and VCRC of every received packet, by the residue that is left after the CRC itself has gone
// in. The answers hold for the packet whose last beat came five cycles ago; void when that packet is bad.
module hca_rx_crc
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_i,
  input  logic     valid_i,
  input  rx_beat_t beat_i,
  output logic     icrc_ok_o,
  output logic     vcrc_ok_o
);

  logic [31:0] icrc;
  logic [15:0] vcrc;
  logic        unused_done_icrc, unused_done_vcrc;
  logic        unused_beat, ib;

  assign unused_beat = beat_i.bad ^ (^beat_i.port);
  assign ib          = l3_is_ib(beat_i.l3);

  hca_crc32_512 u_icrc (
    .clk_i,
    .rst_i,
    .valid_i(valid_i && beat_i.len_bytes != '0),
    .first_i(beat_i.first),
    .end_i  (beat_i.data_end),
    .len_i  (beat_i.len_bytes),
    .init_i (ib ? IcrcInitIb : IcrcInitRoce),
    .data_i (beat_i.first ? (beat_i.data | icrc_ones(beat_i.l3)) : beat_i.data),
    .done_o (unused_done_icrc),
    .crc_o  (icrc)
  );

  hca_crc16_512 u_vcrc (
    .clk_i,
    .rst_i,
    .valid_i(valid_i && ib),
    .first_i(beat_i.first),
    .end_i  (beat_i.last),
    .len_i  (beat_i.raw_bytes),
    .init_i (VcrcInit),
    .data_i (beat_i.data),
    .done_o (unused_done_vcrc),
    .crc_o  (vcrc)
  );

  assign icrc_ok_o = icrc == IcrcResidue;
  assign vcrc_ok_o = vcrc == VcrcResidue;

endmodule
