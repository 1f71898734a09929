// Proof of hca_vl_queue, the transmit rings, without the pool that their beats lie in: none ever holds more than its
// blocks nor more packets than there is room for, the lengths stay with their packets, and a ring with room takes the
// longest packet. The writer obeys room_o and wait_o at the first beat of a packet; the reader reads what it has
// popped, beat by beat. The pool has tests: tests/rtl/link_tx/test_tx_pool.py.
module fv_vl_queue #(
  parameter int unsigned RingBlocks = 7,
  parameter int unsigned RingPkts   = 4,
  parameter int unsigned Vl15Blocks = 4,
  parameter int unsigned RoomBlocks = 2
) (
  input logic                clk_i,
  input logic                wr_i,
  input logic                wr_ring_i,
  input hca_pkg::mac_t       wr_beat_i,
  input hca_pkg::tx_round_t  wr_round_i,
  input hca_pkg::tx_round_t  round_i,
  input logic                pop_i,
  input logic                drop_i,
  input logic                pop_ring_i,
  input logic                rd_en_i,
  input logic                rd_ring_i
);
  import hca_link_pkg::*;

  localparam int unsigned Rings = 2;   // VL0 and VL15
  localparam int unsigned FillW = $clog2(RingBlocks + 1);
  localparam int unsigned PktW  = $clog2(RingPkts);

  typedef logic [PktW-1:0] pkt_t;
  typedef logic [$clog2(Vl15Blocks)-1:0] at_t;

  logic                          rst_q = 1'b1;
  logic                          too_long, first_q, ring_q, shut, busy, hold;
  logic [Rings-1:0]              room, head_valid;
  logic [Rings-1:0][PacketW-1:0] head_bytes;
  logic [Rings-1:0][BlocksW-1:0] blocks_o;
  logic [Rings-1:0][FillW-1:0]      fill;
  logic [BlocksW-1:0]            head_blocks;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_vl_queue #(
    .NumVls(1), .PoolBlocks(24), .PageBlocks(2), .RingBlocks(RingBlocks), .RingPkts(RingPkts), .Vl15Blocks(Vl15Blocks),
    .RoomBlocks(RoomBlocks), .Vl15Room(RoomBlocks)
  ) u_dut (
    .clk_i, .rst_i(rst_q), .wr_i(Rings'(wr_i) << wr_ring_i), .wr_ring_i, .wr_beat_i, .wr_round_i, .round_i,
    .room_o(room), .wait_o(shut), .long_o(too_long), .head_stale_o(),
    .head_valid_o(head_valid), .head_bytes_o(head_bytes), .head_blocks_o(blocks_o), .pop_i(Rings'(pop_i) << pop_ring_i),
    .drop_i(Rings'(drop_i) << pop_ring_i), .drop_ring_i(pop_ring_i), .busy_o(busy), .rd_en_i, .rd_ring_i, .hold_o(hold),
    .rd_beat_o(), .fill_o(fill)
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
        m_room: assume (first_q ? room[wr_ring_i] && !shut : wr_ring_i == ring_q);
      end
      m_one:  assume (!(pop_i && drop_i) && !(drop_i && busy) && !(rd_en_i && hold));
      if (pop_i || drop_i) m_pop: assume (head_valid[pop_ring_i]);
    end
  end

  logic [Rings-1:0][FillW-1:0] to_read;

  for (genvar r = 0; r < int'(Rings); r++) begin : gen_ring
    localparam int unsigned Cap = (r == 1) ? Vl15Blocks : RingBlocks;

    logic [FillW-1:0] to_read_q;   // beats of popped packets
    logic [7:0]       lengths;     // blocks of the packets that wait

    assign to_read[r] = to_read_q;

    always_ff @(posedge clk_i) begin
      if (rst_q) to_read_q <= '0;
      else to_read_q <= to_read_q + ((pop_i && pop_ring_i == 1'(r)) ? FillW'(head_blocks) : '0)
                        - FillW'(rd_en_i && rd_ring_i == 1'(r));
    end

    always_comb begin
      if (!rst_q) begin
        if (rd_en_i && rd_ring_i == 1'(r)) m_read: assume (to_read_q != '0);
        if (drop_i && pop_ring_i == 1'(r)) m_drop: assume (to_read_q == '0);
      end
    end

    always_comb begin
      if (!rst_q) begin
        a_bound: assert (32'(fill[r]) <= Cap);
        // What is dropped is counted for a cycle more.
        a_sum:   assert (8'(fill[r]) == 8'(to_read_q) + lengths + (u_dut.drop_q[r] ? 8'(u_dut.drop_blocks_q) : 8'd0));
        if (u_dut.drop_q[r]) h_drop: assert (to_read_q == '0 && 32'(u_dut.drop_blocks_q) <= RoomBlocks);
        a_room:  assert (!room[r] || 32'(fill[r]) + RoomBlocks <= Cap);
        if (wr_i && u_dut.fits && wr_ring_i == 1'(r)) a_free: assert (32'(fill[r]) + 32'(u_dut.count_q) < Cap);
        if (rd_en_i && rd_ring_i == 1'(r)) a_used: assert (fill[r] != '0);
        // Inside a packet its ring keeps the room it had.
        if (!first_q && ring_q == 1'(r)) h_inside: assert (32'(fill[r]) + RoomBlocks <= Cap);
      end
    end
  end

  // ---- Lengths of VL0: in the RAM, on the way out of it, in the two places in front ---------------------------
  logic [7:0]    waiting [RingPkts + 1];
  logic [7:0]    in_heads, in_flight;
  logic [PacketW-1:0] bytes_1;
  logic [BlocksW-1:0] blocks_1;
  logic          one, two;   // lengths in the places
  logic [PktW:0] stored;

  assign waiting[0] = '0;
  assign stored     = u_dut.stored_q[0];
  for (genvar i = 0; i < int'(RingPkts); i++) begin : gen_length
    logic [PacketW-1:0] length;
    assign length = PacketW'(u_dut.u_lengths.mem[pkt_t'(u_dut.rd_pkt_q[0] + pkt_t'(i))] >> $bits(hca_pkg::tx_round_t));
    assign waiting[i + 1] = waiting[i] + ((i < stored) ? blocks_of(length) : 8'd0);
    always_comb begin
      if (!rst_q && i < stored) h_length: assert (length != '0 && 32'(length) <= RoomBlocks * 64);
    end
  end

  assign in_flight = u_dut.fetched_q[0] ? blocks_of(u_dut.fetch_bytes) : 8'd0;
  assign one       = u_dut.gen_head[0].u_head.head_valid_q;
  assign two       = u_dut.gen_head[0].u_head.next_valid_q;
  assign {bytes_1, blocks_1} = {u_dut.gen_head[0].u_head.next_q.bytes, u_dut.gen_head[0].u_head.next_q.blocks};
  assign in_heads  = (one ? blocks_of(head_bytes[0]) : 8'd0) + (two ? blocks_of(bytes_1) : 8'd0);
  assign gen_ring[0].lengths = waiting[RingPkts] + in_flight + in_heads;

  always_comb begin
    if (!rst_q) begin
      a_stored:  assert (32'(stored) <= RingPkts && (!room[0] || 32'(stored) < RingPkts));
      if (!first_q && !ring_q) h_stored: assert (32'(stored) < RingPkts);
      h_room:    assert (!u_dut.room_q[0] || (32'(fill[0]) + RoomBlocks <= RingBlocks && 32'(stored) < RingPkts));
      h_some:    assert (u_dut.some_q[0] == (stored != '0));
      h_packets: assert (u_dut.wr_pkt_q[0] == pkt_t'(u_dut.rd_pkt_q[0] + pkt_t'(stored)));
      h_heads:   assert (2'(one) + 2'(two) + 2'(u_dut.fetched_q[0]) <= 2'd2 && (one || !two));
      if (one) h_head_0: assert (head_bytes[0] != '0 && 32'(head_bytes[0]) <= RoomBlocks * 64);
      a_blocks:  assert ((!head_valid[0] || blocks_o[0] == blocks_of(head_bytes[0]))
                         && (!head_valid[1] || blocks_o[1] == blocks_of(head_bytes[1])));
      if (two) h_head_1: assert (bytes_1 != '0 && 32'(bytes_1) <= RoomBlocks * 64 &&
                                                    blocks_1 == blocks_of(bytes_1));
      if (u_dut.fetched_q[0])
        h_flight: assert (u_dut.fetch_bytes != '0 && 32'(u_dut.fetch_bytes) <= RoomBlocks * 64);
    end
  end

  // ---- Lengths of VL15 ------------------------------------------------------------------------------------------
  logic [7:0] vl15 [Vl15Blocks + 1];

  assign vl15[0] = '0;
  for (genvar i = 0; i < int'(Vl15Blocks); i++) begin : gen_vl15
    logic [PacketW-1:0] length;
    assign length = u_dut.u_vl15.gen_regs.mem[at_t'(u_dut.u_vl15.rd_ptr_q + i)];
    assign vl15[i + 1] = vl15[i] + ((i < u_dut.u_vl15.count_q) ? blocks_of(length) : 8'd0);
    always_comb begin
      if (!rst_q && i < u_dut.u_vl15.count_q) h_vl15: assert (length != '0 && 32'(length) <= RoomBlocks * 64);
    end
  end
  assign gen_ring[1].lengths = vl15[Vl15Blocks];

  always_comb begin
    if (!rst_q) begin
      h_vl15_fifo: assert (32'(u_dut.u_vl15.count_q) <= Vl15Blocks && u_dut.u_vl15.wr_ptr_q ==
                           at_t'(u_dut.u_vl15.rd_ptr_q + u_dut.u_vl15.count_q));
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
