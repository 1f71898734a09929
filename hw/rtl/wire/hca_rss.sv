// Receive side scaling: a frame whose rule spreads (spread_i) names a row; the Toeplitz hash of its addresses and ports
// names an entry of that row's indirection table, and the entry the QP. In order: eight wait at most, one leaves per
// cycle, the first seven cycles after it came. What is not spread passes at once if nothing waits.
// A row or an entry counts from the cycle after its write.
module hca_rss
  import hca_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_i,
  input  rss_wr_t    rss_wr_i,
  input  rss_qp_wr_t rss_qp_wr_i,
  input  logic       in_valid_i,
  output logic       in_ready_o,
  input  rxd_t       in_i,
  input  logic       spread_i,      // dest_qpn of in_i is a row
  output logic       out_valid_o,
  input  logic       out_ready_i,
  output rxd_t       out_o
);

  localparam int unsigned Waiting = 8;
  localparam int unsigned EntryW  = $clog2(RssEntries);
  localparam int unsigned Steps   = 6;   // from the row's read on

  logic    passes, push, held_valid, held_ready, held_spread, found_valid, unused_full, unused_in;
  rxd_t    held;
  rss_row_t row;
  logic [$clog2(Waiting):0] held_count, unused_count;
  logic [23:0] found;

  assign passes     = !spread_i && held_count == '0;
  assign in_ready_o = passes ? out_ready_i : held_ready;
  assign push       = in_valid_i && !passes && held_ready;

  hca_fifo #(
    .Width($bits(rxd_t) + 1), .Depth(Waiting)
  ) u_held (
    .clk_i, .rst_i, .in_valid_i(in_valid_i && !passes), .in_ready_o(held_ready), .in_i({spread_i, in_i}),
    .out_valid_o(held_valid), .out_ready_i(out_ready_i && (!held_spread || found_valid)),
    .out_o({held_spread, held}), .count_o(held_count)
  );

  always_comb begin
    out_valid_o = passes ? in_valid_i : held_valid && (!held_spread || found_valid);
    out_o       = passes ? in_i : held;
    if (!passes && held_spread) out_o.dest_qpn = found;
  end

  // Step 1: the row is here. Step 2: what is hashed. Steps 3 and 4: the hash. Step 5: the entry is read. Step 6: QP.
  logic [Steps:1]                   go_q;
  logic [Steps-1:1][$clog2(RssQps)-1:0] at_q;
  logic [127:0] src_q, dst_q;
  logic [31:0]  ports_q, hash;
  layers_t      layers_q;
  logic [319:0] key_q;
  logic [287:0] data, data_q;
  logic [3:1][2:0] log_q;
  logic [EntryW-1:0] entry_q;
  logic [23:0]  qpn;

  assign unused_in = ^{row, hash};   // of the hash its lower bits count

  hca_ram_1r1w #(
    .Width($bits(rss_row_t)), .Depth(RssQps)
  ) u_rows (
    .clk_i, .we_i(rss_wr_i.valid), .waddr_i(rss_wr_i.index), .wdata_i(rss_wr_i.row), .re_i(push && spread_i),
    .raddr_i(in_i.dest_qpn[$clog2(RssQps)-1:0]), .rdata_o(row)
  );

  // Source, destination, source port, destination port, as in the frame.
  function automatic logic [287:0] hashed(rss_row_t r, logic [127:0] src, logic [127:0] dst, logic [31:0] ports,
                                          layers_t l);
    logic [31:0] p;
    logic        unused_bits;
    unused_bits = ^{r, src, dst};
    p = '0;
    if (l.tcp && (r.fields & RxHashSrcPortTcp) != '0) p[15:0]  = ports[15:0];
    if (l.tcp && (r.fields & RxHashDstPortTcp) != '0) p[31:16] = ports[31:16];
    if (l.udp && (r.fields & RxHashSrcPortUdp) != '0) p[15:0]  = ports[15:0];
    if (l.udp && (r.fields & RxHashDstPortUdp) != '0) p[31:16] = ports[31:16];
    if (l.ipv6) return {p, (r.fields & RxHashDstIpv6) != '0 ? dst : 128'd0,
                        (r.fields & RxHashSrcIpv6) != '0 ? src : 128'd0};
    if (l.ipv4) return {192'd0, p, (r.fields & RxHashDstIpv4) != '0 ? dst[31:0] : 32'd0,
                        (r.fields & RxHashSrcIpv4) != '0 ? src[31:0] : 32'd0};
    return '0;
  endfunction

  assign data = hashed(row, src_q, dst_q, ports_q, layers_q);

  always_ff @(posedge clk_i) begin
    if (rst_i) go_q <= '0;
    else go_q <= {go_q[Steps-1:1], push && spread_i};
    at_q <= {at_q[Steps-2:1], in_i.dest_qpn[$clog2(RssQps)-1:0]};
    {src_q, dst_q, ports_q, layers_q} <= {in_i.sgid, in_i.dgid, in_i.ports, in_i.layers};
    {key_q, data_q} <= {row.key, data};
    log_q   <= {log_q[2:1], row.log_size};
    // A hash of step 4 is that of log_q[3]: the row came with step 1, log_q[1] is step 2.
    entry_q <= EntryW'(hash) & ~({EntryW{1'b1}} << log_q[3]);
  end

  hca_toeplitz u_hash (
    .clk_i, .key_i(key_q), .data_i(data_q), .hash_o(hash)
  );

  hca_ram_1r1w #(
    .Width(24), .Depth(RssQps * RssEntries)
  ) u_entries (
    .clk_i, .we_i(rss_qp_wr_i.valid), .waddr_i(rss_qp_wr_i.index), .wdata_i(rss_qp_wr_i.qpn), .re_i(go_q[5]),
    .raddr_i({at_q[5], entry_q}), .rdata_o(qpn)
  );

  // As many as wait: never full.
  hca_fifo #(
    .Width(24), .Depth(Waiting)
  ) u_found (
    .clk_i, .rst_i, .in_valid_i(go_q[6]), .in_ready_o(unused_full), .in_i(qpn), .out_valid_o(found_valid),
    .out_ready_i(held_valid && held_spread && out_ready_i), .out_o(found), .count_o(unused_count)
  );

endmodule
