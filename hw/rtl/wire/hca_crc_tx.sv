// Appends the ICRC to the packets of hca_tx_pack, and on InfiniBand the VCRC behind it (IBA vol1 7.8.1, 7.8.2); frames
// pass as they are. One beat per cycle; a packet grows by at most one beat. It starts only when its CRC is known or
// enough of it waits here to hide the CRC's latency, so that it has no gap of its own. Both CRCs are made side by side
// over the bytes that come in: that of four bytes more is the parity of some of them and of the register before, so the
// VCRC is there with the ICRC. Bytes past the end are zero, out as in; lengths of packets are multiples of four.
module hca_crc_tx
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
  output logic [PortW-1:0] out_port_o,
  output tx_round_t out_round_o
);

  localparam int unsigned Depth    = 16;
  localparam int unsigned CrcDelay = 6;   // cycles from a beat to its CRC in the FIFO

  // A beat that waits for its CRC. A frame (raw) has none.
  typedef struct packed {
    logic [PortW-1:0] port;
    tx_round_t        round;
    logic             ib;
    logic             raw;
    logic             last;
    logic             ends;       // the ICRC is in this beat,
    logic             splits;     // and the VCRC is not
    logic [6:0]       len_bytes;
    beat_t            data;
  } item_t;

  // What is appended.
  typedef struct packed {
    logic [15:0] vcrc;
    logic [31:0] icrc;
  } sums_t;

  item_t       in, head;
  sums_t       done_sums, sums;
  logic        take, first_q, head_valid, head_ready, sums_valid, sums_ready;
  logic        done, unused_done, unused_sums_ready, unused_csum;
  logic [4:0]  head_count, unused_sums_count;
  logic [31:0] icrc_reg;
  logic [15:0] vcrc_reg;   // in front of the ICRC

  assign unused_csum = in_i.csum;   // hca_tx_csum has seen to it
  assign take        = in_valid_i && in_ready_o;

  always_comb begin
    in.port      = in_i.port;
    in.round     = in_i.round;
    in.ib        = l3_is_ib(in_i.l3);
    in.raw       = in_i.l3 == L3Raw;
    in.last      = in_i.last;
    in.ends      = in_i.last && !in.raw && in_i.len_bytes != 7'd64;
    in.splits    = in.ib && in_i.len_bytes == 7'd60;
    in.len_bytes = in_i.len_bytes;
    in.data      = in_i.data;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) first_q <= 1'b1;
    else if (take) first_q <= in_i.last;
  end

  hca_fifo #(.Width($bits(item_t)), .Depth(Depth)) u_beats (
    .clk_i, .rst_i, .in_valid_i, .in_ready_o, .in_i(in), .out_valid_o(head_valid), .out_ready_i(head_ready),
    .out_o(head), .count_o(head_count)
  );

  // ---- CRCs ----------------------------------------------------------------------------------------------
  hca_crc_512 #(.CrcW(32), .Poly(32'hEDB8_8320), .Granule(4)) u_icrc (
    .clk_i, .rst_i, .valid_i(take), .first_i(first_q), .end_i(in_i.last), .len_i(in_i.len_bytes),
    .init_i((in_i.l3 == L3Ipv4 || in_i.l3 == L3Ipv6) ? IcrcInitRoce : IcrcInitIb),
    .data_i(first_q ? (in_i.data | icrc_ones(in_i.l3)) : in_i.data), .done_o(done), .crc_o(icrc_reg)
  );

  hca_crc_512 #(.CrcW(16), .Poly(16'hd008), .Granule(4)) u_vcrc (
    .clk_i, .rst_i, .valid_i(take), .first_i(first_q), .end_i(in_i.last), .len_i(in_i.len_bytes), .init_i(VcrcInit),
    .data_i(in_i.data), .done_o(unused_done), .crc_o(vcrc_reg)
  );

  // The register goes over the ICRC's bytes as if they were XORed with it.
  assign done_sums.icrc = ~icrc_reg;
  for (genvar b = 0; b < 16; b++) begin : gen_vcrc
    assign done_sums.vcrc[b] = ~^((done_sums.icrc ^ 32'(vcrc_reg)) & hca_link_pkg::LpcrcTaps[b]);
  end

  // Never overflows: each CRC here or on its way has its last beat in u_beats.
  hca_fifo #(.Width($bits(sums_t)), .Depth(Depth)) u_sums (
    .clk_i, .rst_i, .in_valid_i(done), .in_ready_o(unused_sums_ready), .in_i(done_sums), .out_valid_o(sums_valid),
    .out_ready_i(sums_ready), .out_o(sums), .count_o(unused_sums_count)
  );

  // ---- Out -----------------------------------------------------------------------------------------------
  logic       spill_q, started_q, out_free, fits, go;
  logic       spill_ib_q, spill_split_q;   // on InfiniBand; the ICRC alone is in the beat before

  assign out_free   = !out_valid_o || out_ready_i;
  assign fits       = head.raw || (head.len_bytes != 7'd64 && !head.splits);   // with what is appended
  assign go         = head_valid && !spill_q
                      && (sums_valid || (!head.last && (started_q || head_count > 5'(CrcDelay))));
  assign head_ready = go && out_free;
  assign sums_ready = out_free && (spill_q || (go && head.last && fits));

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      spill_q     <= 1'b0;
      started_q   <= 1'b0;
      out_valid_o <= 1'b0;
    end else if (out_free) begin
      if (go) started_q <= !head.last;
      spill_q     <= go && head.last && !fits;
      out_valid_o <= go || spill_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (out_free && spill_q) begin
      out_o.last      <= 1'b1;
      out_o.len_bytes <= spill_split_q ? 7'd2 : spill_ib_q ? 7'd6 : 7'd4;
      out_o.data      <= spill_split_q ? 512'(sums.vcrc) : {464'b0, {16{spill_ib_q}} & sums.vcrc, sums.icrc};
    end else if (out_free && go) begin
      {out_port_o, out_round_o}         <= {head.port, head.round};
      {out_ib_o, out_raw_o}             <= {head.ib, head.raw};
      {spill_ib_q, spill_split_q}       <= {head.ib, head.splits};
      out_o.last      <= head.last && fits;
      out_o.len_bytes <= !head.ends ? head.len_bytes : head.splits ? 7'd64 : head.len_bytes + (head.ib ? 7'd6 : 7'd4);
      out_o.data      <= head.data;
      for (int unsigned at = 0; at < 16; at++) begin
        if (head.ends && head.len_bytes[5:2] == 4'(at)) out_o.data[32*at +: 32] <= sums.icrc;
        if (at > 0 && head.ends && head.ib && head.len_bytes[5:2] == 4'(at - 1)) out_o.data[32*at +: 16] <= sums.vcrc;
      end
    end
  end

endmodule
