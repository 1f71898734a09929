// Appends the VCRC (IBA vol1 7.8.2) to InfiniBand packets that end with their ICRC. Timing: hca_crc_append.
module hca_vcrc_tx
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic clk_i,
  input  logic rst_i,
  input  logic in_valid_i,
  output logic in_ready_o,
  input  mac_t in_i,
  input  logic [PortW-1:0] in_port_i,
  output logic out_valid_o,
  input  logic out_ready_i,
  output mac_t out_o,
  output logic [PortW-1:0] out_port_o
);

  hca_crc_append #(
    .CrcW(16),
    .TagW(PortW),
    .Poly(16'hd008)
  ) u_append (
    .clk_i,
    .rst_i,
    .in_valid_i,
    .in_ready_o,
    .in_bare_i      (1'b0),
    .in_last_i      (in_i.last),
    .in_len_bytes_i (in_i.len_bytes),
    .in_data_i      (in_i.data),
    .in_tag_i       (in_port_i),
    .ones_i         ('0),
    .init_i         (VcrcInit),
    .out_valid_o,
    .out_ready_i,
    .out_last_o     (out_o.last),
    .out_len_bytes_o(out_o.len_bytes),
    .out_data_o     (out_o.data),
    .out_tag_o      (out_port_o)
  );

endmodule
