// The ring of each packet that leaves: on InfiniBand the VL in its LRH, on Ethernet the traffic class of its priority.
// A register beside that of hca_loopback, which has the beat meanwhile: `vl_o` belongs to its first beat.
module hca_tx_class
  import hca_pkg::*;
  import hca_link_pkg::*;
(
  input  logic                           clk_i,
  input  logic [NumPorts-1:0]            ib_i,
  input  eth_class_t [NumPorts-1:0]      class_i,
  input  logic [NumPorts-1:0][15:0][3:0] sl2vl_i,
  input  logic                           take_i,   // a beat goes into the loopback's register
  input  mac_t                           mac_i,
  input  logic [PortW-1:0]               port_i,
  output logic [3:0]                     vl_o
);

  logic unused_bits;
  assign unused_bits = ^mac_i;

  always_ff @(posedge clk_i) begin
    if (take_i) vl_o <= ring_of(mac_i.data[159:0], ib_i[port_i], class_i[port_i], sl2vl_i[port_i]);
  end

endmodule
