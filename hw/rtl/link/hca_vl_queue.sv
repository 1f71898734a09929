// Transmit rings of one port: a ring per data VL and a small one for VL15 (the last ring), all in one RAM; whole
// packets in, whole packets out. Lengths go through a second RAM into two places per ring, so every ring's head is
// known, and the next one a cycle after a pop.
//   write: a beat per cycle; begin a packet only where room_o says so. It counts from its last beat on; one that is
//          longer than room_o promised is not stored (long_o).
//   pop:   the head becomes the packet to read; its beats are read with rd_en_i from the next cycle on, oldest first,
//          data a cycle later.
//   drop:  the head is thrown away; only when no packet of that ring is being read.
// Pointers are addresses in the RAM, so a ring may have any length, and all of them together what block RAMs have.
module hca_vl_queue
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned  NumVls     = NumVlsDefault,
  parameter int unsigned  RingBlocks = 766,           // of a data VL
  parameter int unsigned  Vl15Blocks = 16,            // at most RingBlocks
  parameter int unsigned  RoomBlocks = MaxBlocks,     // longest packet
  parameter int unsigned  Vl15Room   = 6,             // ... on VL15: 256 bytes and headers
  localparam int unsigned Rings      = NumVls + 1,
  localparam int unsigned RingW      = $clog2(Rings),
  localparam int unsigned PtrW       = $clog2(RingBlocks)
) (
  input  logic                          clk_i,
  input  logic                          rst_i,
  input  logic [Rings-1:0]              wr_i,            // into one ring at most
  input  logic [RingW-1:0]              wr_ring_i,       // its number
  input  mac_t                          wr_beat_i,
  output logic [Rings-1:0]              room_o,          // for one more packet of any length
  output logic                          long_o,          // strobe, last beat: the packet was too long
  output logic [Rings-1:0]              head_valid_o,
  output logic [Rings-1:0][PacketW-1:0] head_bytes_o,
  output logic [Rings-1:0][BlocksW-1:0] head_blocks_o,
  input  logic [Rings-1:0]              pop_i,           // of one ring in all, pop_i or drop_i; its head is valid
  input  logic [Rings-1:0]              drop_i,
  input  logic [RingW-1:0]              drop_ring_i,     // the number of what drop_i may name
  input  logic                          rd_en_i,
  input  logic [RingW-1:0]              rd_ring_i,
  output mac_t                          rd_beat_o,
  output logic [Rings-1:0][PtrW:0]      fill_o,          // blocks
  output ring_age_t [NumVls-1:0]        age_o            // of the data VLs
);

  localparam int unsigned Depth     = NumVls * RingBlocks + Vl15Blocks;
  localparam int unsigned AddrW     = $clog2(Depth);

  typedef logic [AddrW-1:0] at_t;

  typedef at_t [Rings-1:0] places_t;

  // Tables, for a product would become a multiplier.
  function automatic places_t places(bit last);
    for (int unsigned r = 0; r < NumVls; r++) places[r] = AddrW'(last ? (r + 1) * RingBlocks - 1 : r * RingBlocks);
    places[NumVls] = AddrW'(last ? Depth - 1 : NumVls * RingBlocks);
  endfunction

  localparam places_t First = places(1'b0);
  localparam places_t Last  = places(1'b1);

  function automatic at_t after(logic [RingW-1:0] of_ring, at_t at);
    return (at == Last[of_ring]) ? First[of_ring] : at + 1'b1;
  endfunction

  at_t  [Rings-1:0]           wr_ptr_q, rd_ptr_q;     // beats
  at_t  [Rings-1:0]           wr_pkt_q, rd_pkt_q;     // packets
  at_t                        wr_at, wr_at_q, wr_next, rd_at, rd_next, wr_pkt, rd_pkt, wr_pkt_next;
  logic                       wr_first_q;             // no beat of a packet has come
  logic [Rings-1:0][PtrW:0]   used_q, stored_q;       // beats; packets whose length waits in the RAM
  logic [Rings-1:0]           some_q;                 // there are such packets
  logic [PacketW-1:0]         bytes_q, bytes;         // of the packet that comes in
  logic [BlocksW-1:0]         count_q;                // its beats so far
  logic [BlocksW-1:0]         count;                  // with this one
  logic                       wr, fits, fits_data, fits_vl15, commit;

  assign wr          = wr_i != '0;
  assign count       = count_q + 1'b1;
  assign bytes       = bytes_q + PacketW'(wr_beat_i.len_bytes);
  assign fits_data   = count_q < BlocksW'(RoomBlocks);
  assign fits_vl15   = count_q < BlocksW'(Vl15Room);
  assign fits        = wr_i[NumVls] ? fits_vl15 : fits_data;
  assign commit      = wr && wr_beat_i.last && fits;
  assign long_o      = wr && wr_beat_i.last && !fits;

  always_ff @(posedge clk_i) begin
    if (rst_i || (wr && wr_beat_i.last)) begin
      bytes_q <= '0;
      count_q <= '0;
    end else if (wr && fits) begin
      bytes_q <= bytes;
      count_q <= count;
    end
    wr_first_q <= rst_i || (wr ? wr_beat_i.last : wr_first_q);
    if (wr && fits) wr_at_q <= wr_next;
  end

  assign wr_at   = wr_first_q ? wr_ptr_q[wr_ring_i] : wr_at_q;
  assign wr_next = after(wr_ring_i, wr_at);
  assign rd_at   = rd_ptr_q[rd_ring_i];
  assign rd_next = after(rd_ring_i, rd_at);

  hca_ram_1r1w #(
    .Width($bits(mac_t)),
    .Depth(Depth)
  ) u_beats (
    .clk_i,
    .we_i   (wr && fits),
    .waddr_i(wr_at),
    .wdata_i(wr_beat_i),
    .re_i   (rd_en_i),
    .raddr_i(rd_at),
    .rdata_o(rd_beat_o)
  );

  // ---- Lengths: RAM, then two places per ring, filled in turn --------------------------------------------
  logic [Rings-1:0]      want, grant, fetched;
  logic [RingW-1:0]      fetch_ring, fetch_ring_q;
  logic                  fetch, fetch_q;
  logic [PacketW-1:0]    fetch_bytes;
  logic [Rings-1:0][1:0] heads;                        // lengths in the two places

  for (genvar r = 0; r < int'(Rings); r++) begin : gen_head
    logic in_flight, unused_ready;

    assign in_flight  = fetch_q && fetch_ring_q == RingW'(r);
    assign want[r]    = some_q[r] && (heads[r] + 2'(in_flight)) < 2'd2;
    assign fetched[r] = in_flight;

    hca_fifo #(
      .Width(PacketW),
      .Depth(2)
    ) u_head (
      .clk_i, .rst_i,
      .in_valid_i (fetched[r]),
      .in_ready_o (unused_ready),
      .in_i       (fetch_bytes),
      .out_valid_o(head_valid_o[r]),
      .out_ready_i(pop_i[r] || drop_i[r]),
      .out_o      (head_bytes_o[r]),
      .count_o    (heads[r])
    );

    assign head_blocks_o[r] = blocks_of(head_bytes_o[r]);
  end

  assign fetch       = want != '0;
  assign wr_pkt      = wr_pkt_q[wr_ring_i];
  assign wr_pkt_next = after(wr_ring_i, wr_pkt);

  always_comb begin
    rd_pkt = '0;
    for (int unsigned r = 0; r < Rings; r++) rd_pkt |= rd_pkt_q[r] & {AddrW{grant[r]}};
  end

  hca_rr_arb #(.N(Rings)) u_fetch (
    .clk_i, .rst_i, .req_i(want), .advance_i(fetch), .grant_o(grant), .idx_o(fetch_ring)
  );

  hca_ram_1r1w #(
    .Width(PacketW),
    .Depth(Depth)
  ) u_lengths (
    .clk_i,
    .we_i   (commit),
    .waddr_i(wr_pkt),
    .wdata_i(bytes),
    .re_i   (fetch),
    .raddr_i(rd_pkt),
    .rdata_o(fetch_bytes)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) fetch_q <= 1'b0;
    else fetch_q <= fetch;
    fetch_ring_q <= fetch_ring;
  end

  // ---- Pointers and fill --------------------------------------------------------------------------------
  // What is dropped is gone at once; where to read goes on a cycle later, for no beat of that ring is read before.
  // Behind what is dropped: both sums at once, of which one lies in the ring.
  logic [Rings-1:0]        drop_q;
  logic [RingW-1:0]        drop_ring_q;
  logic [BlocksW-1:0]      drop_blocks_q;
  at_t                     drop_at, drop_size, drop_next;
  logic signed [AddrW+1:0] drop_over;   // beyond the last place, less one

  always_ff @(posedge clk_i) begin
    drop_q        <= rst_i ? '0 : drop_i;
    drop_ring_q   <= drop_ring_i;
    drop_blocks_q <= head_blocks_o[drop_ring_i];
  end

  assign drop_at   = rd_ptr_q[drop_ring_q];
  assign drop_over = (AddrW + 2)'(drop_at) + (AddrW + 2)'(drop_blocks_q) - (AddrW + 2)'(Last[drop_ring_q]) - 1'b1;
  assign drop_size = at_t'((drop_ring_q == RingW'(NumVls)) ? Vl15Blocks : RingBlocks);
  assign drop_next = (drop_over >= 0) ? drop_at - drop_size + at_t'(drop_blocks_q) : drop_at + at_t'(drop_blocks_q);

  for (genvar r = 0; r < int'(Rings); r++) begin : gen_ring
    localparam int unsigned Cap  = (r == int'(NumVls)) ? Vl15Blocks : RingBlocks;
    localparam int unsigned Need = (r == int'(NumVls)) ? Vl15Room : RoomBlocks;

    logic               rd, done;
    logic [BlocksW-1:0] gone, stored;

    assign rd     = rd_en_i && rd_ring_i == RingW'(r);
    assign done   = wr_i[r] && wr_beat_i.last && ((r == int'(NumVls)) ? fits_vl15 : fits_data);
    assign stored = done ? count : '0;
    // Of one that is being read nothing is dropped.
    assign gone   = drop_i[r] ? head_blocks_o[r] : BlocksW'(rd);

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        wr_ptr_q[r] <= First[r];
        rd_ptr_q[r] <= First[r];
        wr_pkt_q[r] <= First[r];
        rd_pkt_q[r] <= First[r];
        used_q[r]   <= '0;
        stored_q[r] <= '0;
        some_q[r]   <= 1'b0;
      end else begin
        if (done) wr_ptr_q[r] <= wr_next;
        if (done) wr_pkt_q[r] <= wr_pkt_next;
        if (drop_q[r] || rd) rd_ptr_q[r] <= drop_q[r] ? drop_next : rd_next;
        if (grant[r]) rd_pkt_q[r] <= after(RingW'(r), rd_pkt_q[r]);   // the number comes too late
        used_q[r]   <= (used_q[r] + (PtrW + 1)'(stored)) - (PtrW + 1)'(gone);
        if (done || grant[r]) some_q[r] <= done || stored_q[r] != (PtrW + 1)'(1);
        if (done != grant[r]) stored_q[r] <= stored_q[r] + (done ? (PtrW + 1)'(1) : '1);
      end
    end

    assign room_o[r] = used_q[r] <= (PtrW + 1)'(Cap - Need);

    // An epoch ends when all that is here has come in it.
    if (r < int'(NumVls)) begin : gen_age
      logic [PtrW:0]     since_q;
      logic [EpochW-1:0] epoch_q;
      logic              over;

      assign over     = since_q >= used_q[r] && since_q != '0;
      assign age_o[r] = '{empty: used_q[r] == '0, epoch: epoch_q, mark: epoch_q + EpochW'(since_q != '0)};

      always_ff @(posedge clk_i) begin
        if (rst_i) begin
          since_q <= '0;
          epoch_q <= '0;
        end else begin
          since_q <= (over ? '0 : since_q) + (PtrW + 1)'(stored);
          epoch_q <= epoch_q + EpochW'(over);
        end
      end
    end
  end

  assign fill_o = used_q;

endmodule
