// Proof of hca_vl_queue, the transmit rings: none ever holds more than its blocks, a beat is never written to a
// slot that is in use nor read from one that is not, the lengths stay with their packets, and a ring with room
// takes the longest packet. The writer obeys room_o at the first beat of a packet; the reader reads what it has
// popped, beat by beat.
module fv_vl_queue #(
  parameter int unsigned RingBlocks = 5,   // no power of two: pointers turn at the end of their ring
  parameter int unsigned RoomBlocks = 2
) (
  input logic                clk_i,
  input logic                wr_i,
  input logic                wr_ring_i,
  input hca_pkg::mac_t       wr_beat_i,
  input logic                pop_i,
  input logic                drop_i,
  input logic                pop_ring_i,
  input logic                rd_en_i,
  input logic                rd_ring_i
);
  import hca_link_pkg::*;

  localparam int unsigned Rings = 2;   // VL0 and VL15
  localparam int unsigned PtrW  = $clog2(RingBlocks);

  typedef logic [$clog2(Rings * RingBlocks)-1:0] at_t;

  // A place of ring r, that many behind another one of it.
  function automatic at_t behind(int unsigned r, at_t at, int unsigned blocks);
    return at_t'(r * RingBlocks + (32'(at) - r * RingBlocks + blocks) % RingBlocks);
  endfunction

  logic                          rst_q = 1'b1;
  logic                          too_long, first_q, ring_q;
  logic [Rings-1:0]              room, head_valid;
  logic [Rings-1:0][PacketW-1:0] head_bytes;
  logic [Rings-1:0][PtrW:0]      fill;
  logic [BlocksW-1:0]            head_blocks;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  // Beats are not looked at: their places are, and the RAM has its own tests.
  hca_vl_queue #(
    .NumVls(1), .RingBlocks(RingBlocks), .Vl15Blocks(RingBlocks), .RoomBlocks(RoomBlocks), .Vl15Room(RoomBlocks)
  ) u_dut (
    .clk_i, .rst_i(rst_q), .wr_i(Rings'(wr_i) << wr_ring_i), .wr_ring_i, .wr_beat_i, .room_o(room), .long_o(too_long),
    .head_valid_o(head_valid), .head_bytes_o(head_bytes), .head_blocks_o(), .pop_i(Rings'(pop_i) << pop_ring_i),
    .drop_i(Rings'(drop_i) << pop_ring_i), .drop_ring_i(pop_ring_i), .rd_en_i, .rd_ring_i, .rd_beat_o(), .fill_o(fill)
  );

  assign head_blocks = blocks_of(head_bytes[pop_ring_i]);

  always_ff @(posedge clk_i) begin
    if (rst_q) first_q <= 1'b1;
    else if (wr_i) first_q <= wr_beat_i.last;
    if (wr_i) ring_q <= wr_ring_i;
  end

  always_comb begin
    if (!rst_q) begin
      if (wr_i) begin
        m_size: assume (wr_beat_i.last ? (wr_beat_i.len_bytes != '0 && wr_beat_i.len_bytes <= 7'd64)
                                       : wr_beat_i.len_bytes == 7'd64);
        m_room: assume (first_q ? room[wr_ring_i] : wr_ring_i == ring_q);
      end
      m_one:  assume (!(pop_i && drop_i));
      if (pop_i || drop_i) m_pop: assume (head_valid[pop_ring_i]);
    end
  end

  logic [Rings-1:0][PtrW:0] to_read;

  for (genvar r = 0; r < int'(Rings); r++) begin : gen_ring
    logic [PtrW:0]     to_read_q;   // beats of popped packets
    logic [7:0]        waiting [RingBlocks + 1];
    logic [7:0]        in_heads, in_flight;
    logic              fetching, slot_1;
    logic [PtrW:0]     queued;
    at_t               rd_at;       // where the next beat is, also in the cycle behind a drop

    assign to_read[r] = to_read_q;

    always_ff @(posedge clk_i) begin
      if (rst_q) to_read_q <= '0;
      else to_read_q <= to_read_q + ((pop_i && pop_ring_i == 1'(r)) ? (PtrW + 1)'(head_blocks) : '0)
                        - (PtrW + 1)'(rd_en_i && rd_ring_i == 1'(r));
    end

    always_comb begin
      if (!rst_q) begin
        if (rd_en_i && rd_ring_i == 1'(r)) m_read: assume (to_read_q != '0);
        if (drop_i && pop_ring_i == 1'(r)) m_drop: assume (to_read_q == '0);
      end
    end

    // Blocks of the packets that wait: lengths in the RAM, on the way out of it, in the two places in front.
    assign waiting[0] = '0;
    for (genvar i = 0; i < int'(RingBlocks); i++) begin : gen_length
      logic [PacketW-1:0] length;
      assign length = u_dut.u_lengths.mem[behind(r, u_dut.rd_pkt_q[r], i)];
      assign waiting[i + 1] = waiting[i] + ((i < u_dut.stored_q[r]) ? blocks_of(length) : 8'd0);
      always_comb begin
        if (!rst_q && i < u_dut.stored_q[r]) h_length: assert (length != '0 && 32'(length) <= RoomBlocks * 64);
      end
    end

    assign fetching  = u_dut.fetch_q && u_dut.fetch_ring_q == 1'(r);
    assign in_flight = fetching ? blocks_of(u_dut.u_lengths.rdata_q) : 8'd0;
    assign slot_1    = ~u_dut.gen_head[r].u_head.rd_ptr_q;
    assign in_heads  = (u_dut.heads[r] != 2'd0 ? blocks_of(head_bytes[r]) : 8'd0) +
                       (u_dut.heads[r] == 2'd2 ? blocks_of(u_dut.gen_head[r].u_head.gen_regs.mem[slot_1]) : 8'd0);
    assign rd_at     = u_dut.drop_q[r] ? u_dut.drop_next : u_dut.rd_ptr_q[r];
    assign queued    = u_dut.stored_q[r] + (PtrW + 1)'(fetching) + (PtrW + 1)'(u_dut.heads[r]);

    always_comb begin
      if (!rst_q) begin
        a_bound: assert (32'(fill[r]) <= RingBlocks);
        a_sum:   assert (8'(fill[r]) == 8'(to_read_q) + waiting[RingBlocks] + in_flight + in_heads);
        a_place: assert (u_dut.wr_ptr_q[r] == behind(r, rd_at, 32'(fill[r])));
        if (wr_i && u_dut.fits && wr_ring_i == 1'(r))
          a_next: assert (u_dut.wr_at == behind(r, u_dut.wr_ptr_q[r], 32'(u_dut.count_q)));
        a_room:  assert (!room[r] || 32'(fill[r]) + RoomBlocks <= RingBlocks);
        if (wr_i && u_dut.fits && wr_ring_i == 1'(r)) a_free: assert (32'(fill[r]) + 32'(u_dut.count_q) < RingBlocks);
        if (rd_en_i && rd_ring_i == 1'(r)) a_used: assert (fill[r] != '0);

        h_some:    assert (u_dut.some_q[r] == (u_dut.stored_q[r] != '0));
        if (u_dut.drop_q[r]) h_drop: assert (u_dut.drop_ring_q == 1'(r) && 32'(u_dut.drop_blocks_q) <= RoomBlocks &&
                                             to_read_q == '0);
        if (rd_en_i && rd_ring_i == 1'(r)) a_place_read: assert (!u_dut.drop_q[r]);
        h_packets: assert (u_dut.wr_pkt_q[r] == behind(r, u_dut.rd_pkt_q[r], 32'(u_dut.stored_q[r])));
        h_beats:   assert (u_dut.rd_ptr_q[r] >= at_t'(r * RingBlocks) && 32'(u_dut.rd_ptr_q[r]) < (r + 1) * RingBlocks);
        h_pkts:    assert (u_dut.rd_pkt_q[r] >= at_t'(r * RingBlocks) && 32'(u_dut.rd_pkt_q[r]) < (r + 1) * RingBlocks);
        h_queued:  assert (32'(queued) + 32'(to_read_q) <= 32'(fill[r]));
        h_heads:   assert (u_dut.heads[r] + 2'(fetching) <= 2'd2 && u_dut.heads[r] <= 2'd2);
        h_fifo:    assert (u_dut.gen_head[r].u_head.wr_ptr_q ==
                           u_dut.gen_head[r].u_head.rd_ptr_q + 1'(u_dut.heads[r][0]));
        if (u_dut.heads[r] != 2'd0) h_head_0: assert (head_bytes[r] != '0 && 32'(head_bytes[r]) <= RoomBlocks * 64);
        if (u_dut.heads[r] == 2'd2) h_head_1: assert (u_dut.gen_head[r].u_head.gen_regs.mem[slot_1] != '0 &&
          32'(u_dut.gen_head[r].u_head.gen_regs.mem[slot_1]) <= RoomBlocks * 64);
        if (fetching)
          h_flight: assert (u_dut.u_lengths.rdata_q != '0 && 32'(u_dut.u_lengths.rdata_q) <= RoomBlocks * 64);
        // Inside a packet its ring keeps the room it had.
        if (!first_q && ring_q == 1'(r)) h_inside: assert (32'(fill[r]) + RoomBlocks <= RingBlocks);
        // ... and its next beat goes behind those that have come.
        if (!first_q && ring_q == 1'(r))
          h_at: assert (u_dut.wr_at_q == behind(r, u_dut.wr_ptr_q[r], 32'(u_dut.count_q)));
      end
    end
  end

  always_comb begin
    if (!rst_q) begin
      h_count: assert (32'(u_dut.count_q) <= RoomBlocks && (!first_q || u_dut.count_q == '0) &&
                       u_dut.wr_first_q == first_q);
      h_bytes: assert (32'(u_dut.bytes_q) == 64 * 32'(u_dut.count_q));

      c_full:  cover (32'(fill[0]) == RingBlocks && fill[1] != '0);
      c_long:  cover (too_long);
      c_drop:  cover (drop_i && fill[0] == 3'd3);
    end
  end
endmodule
