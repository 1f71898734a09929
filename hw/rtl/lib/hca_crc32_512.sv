// CRC-32 of Ethernet (ICRC) over packets of 64-byte beats; lengths are multiples of four bytes.
// Ports and timing: hca_crc_512.
module hca_crc32_512 (
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic         valid_i,
  input  logic         first_i,
  input  logic         end_i,
  input  logic [6:0]   len_i,
  input  logic [31:0]  init_i,
  input  logic [511:0] data_i,
  output logic         done_o,
  output logic [31:0]  crc_o
);

  hca_crc_512 #(
    .CrcW   (32),
    .Poly   (32'hEDB8_8320),
    .Granule(4)
  ) u_crc (
    .clk_i,
    .rst_i,
    .valid_i,
    .first_i,
    .end_i,
    .len_i,
    .init_i,
    .data_i,
    .done_o,
    .crc_o
  );

endmodule
