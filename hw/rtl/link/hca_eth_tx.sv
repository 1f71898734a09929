// Puts the 14-byte Ethernet II header in front of each packet of an Ethernet port (constant shift with a carry). One
// frame fact (`eth`) per packet, in the order of the packets; a packet waits for it. One beat out per cycle, latency
// one cycle. No FCS and no padding to 60 bytes: the MAC adds both. A raw frame has its header and no fact; one that is
// shorter is padded here, as what the MAC adds would be, for a cable may be without one. Packets of an InfiniBand port
// pass as they are.
module hca_eth_tx
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  port_cfg_t [NumPorts-1:0] port_cfg_i,  // MAC of the packet's port: source address
  input  logic        eth_valid_i,
  output logic        eth_ready_o,
  input  tx_eth_t     eth_i,
  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  mac_t        in_i,
  input  logic        in_ib_i,        // beside each beat: of an InfiniBand port; a frame;
  input  logic        in_raw_i,
  input  logic [PortW-1:0] in_port_i, // its port, and its round of sending
  input  tx_round_t   in_round_i,
  output logic        out_valid_o,
  input  logic        out_ready_i,
  output mac_t        out_o,
  output logic [PortW-1:0] out_port_o,
  output tx_round_t   out_round_o
);

  localparam int unsigned EthBits = 8 * EthBytes;
  localparam logic [6:0]  Room    = 7'(DataBytes - EthBytes);
  localparam logic [6:0]  MinFrame = 7'd60;

  logic               first_q, flush_q, out_valid_q, out_free, take, fits, whole;
  logic [EthBits-1:0] carry_q, head;
  logic [6:0]         flush_len_q;
  mac_t               out_q;
  logic [PortW-1:0]   port_q;
  logic [47:0]        smac;

  logic unused_cfg;
  assign unused_cfg = ^port_cfg_i;

  assign whole       = in_raw_i || in_ib_i;
  assign out_free    = !out_valid_q || out_ready_i;
  assign in_ready_o  = out_free && !flush_q && (!first_q || eth_valid_i || whole);
  assign take        = in_valid_i && in_ready_o;
  assign eth_ready_o = take && first_q && !whole;
  assign fits        = in_i.len_bytes <= Room || whole;
  assign smac        = port_cfg_i[in_port_i].mac;
  assign head        = {swap16(eth_i.ipv4 ? 16'(EthertypeIpv4) : 16'(EthertypeIpv6)),
                        swap16(smac[15:0]), swap32(smac[47:16]), eth_i.dmac};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      first_q     <= 1'b1;
      flush_q     <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (take) first_q <= in_i.last;
      if (out_free) begin
        flush_q     <= take && in_i.last && !fits;
        out_valid_q <= take || flush_q;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (out_free && flush_q) begin
      out_q.last      <= 1'b1;
      out_q.len_bytes <= flush_len_q;
      out_q.data      <= 512'(carry_q);
    end else if (take) begin
      if (first_q) {port_q, out_round_o} <= {in_port_i, in_round_i};
      out_q.last      <= in_i.last && fits;
      out_q.len_bytes <= (in_i.last && fits) ? in_i.len_bytes + 7'(EthBytes) : 7'd64;
      out_q.data      <= {in_i.data[511-EthBits:0], first_q ? head : carry_q};
      carry_q         <= in_i.data[511 -: EthBits];
      flush_len_q     <= in_i.len_bytes - Room;
      if (whole) begin
        out_q.len_bytes <= (first_q && in_raw_i && in_i.len_bytes < MinFrame) ? MinFrame : in_i.len_bytes;
        out_q.data      <= in_i.data;
      end
    end
  end

  assign out_valid_o = out_valid_q;
  assign out_o       = out_q;
  assign out_port_o  = port_q;

endmodule
