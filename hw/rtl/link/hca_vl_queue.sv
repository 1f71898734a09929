// Transmit rings of one port: a ring per data VL and a small one for VL15 (the last ring), all in one pool of pages
// that they share (hca_page_pool); whole packets in, whole packets out. Lengths and rounds go through a RAM into two
// places per ring, so every ring's head is known, and the next one a cycle after a pop; those of VL15 are few.
//   write: a beat per cycle; begin a packet only where room_o says so and not while wait_o. It counts from its last
//          beat on; one that is longer than room_o promised is not stored (long_o).
//   pop:   the head becomes the packet to read; its beats are read with rd_en_i from the next cycle on, oldest first,
//          data a cycle later.
//   drop:  the head is thrown away; only when no packet of that ring is being read, and not while busy_o.
module hca_vl_queue
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned  NumVls     = NumVlsDefault,
  parameter int unsigned  PoolBlocks = 2560,          // of all rings
  parameter int unsigned  PageBlocks = TxPageBlocks,
  parameter int unsigned  RingBlocks = TxRingBlocks,  // a data VL has never more
  parameter int unsigned  RingPkts   = TxRingPkts,    // ... nor as many packets beside the two in front; power of two
  parameter int unsigned  Vl15Blocks = 16,            // power of two
  parameter int unsigned  RoomBlocks = MaxBlocks,     // longest packet
  parameter int unsigned  Vl15Room   = 6,             // ... on VL15: 256 bytes and headers
  localparam int unsigned Rings      = NumVls + 1,
  localparam int unsigned RingW      = $clog2(Rings),
  localparam int unsigned FillW      = $clog2(RingBlocks + 1)
) (
  input  logic                          clk_i,
  input  logic                          rst_i,
  input  logic [Rings-1:0]              wr_i,            // into one ring at most
  input  logic [RingW-1:0]              wr_ring_i,       // its number
  input  mac_t                          wr_beat_i,
  input  tx_round_t                     wr_round_i,      // of its packet, with the last one
  input  tx_round_t                     round_i,         // a round that begins, before a packet of it comes
  output logic [Rings-1:0]              room_o,          // for one more packet of any length
  output logic                          wait_o,          // no packet may begin now, wherever there is room
  output logic                          long_o,          // strobe, last beat: the packet was too long
  output logic [Rings-1:0]              head_valid_o,
  output logic [Rings-1:0][PacketW-1:0] head_bytes_o,
  output logic [Rings-1:0][BlocksW-1:0] head_blocks_o,
  output logic [NumVls-1:0]             head_stale_o,    // it need not leave: hca_tx_head
  input  logic [Rings-1:0]              pop_i,           // of one ring in all, pop_i or drop_i; its head is valid
  input  logic [Rings-1:0]              drop_i,
  input  logic [RingW-1:0]              drop_ring_i,     // the number of what drop_i may name
  output logic                          busy_o,          // no drop now
  input  logic                          rd_en_i,
  input  logic [RingW-1:0]              rd_ring_i,
  output logic                          hold_o,          // no beat of rd_ring_i may be read now
  output mac_t                          rd_beat_o,
  output logic [Rings-1:0][FillW-1:0]   fill_o,          // blocks
  output ring_age_t [NumVls-1:0]        age_o            // of the data VLs
);

  localparam int unsigned AddrW    = $clog2(PoolBlocks);
  localparam int unsigned PktW     = $clog2(RingPkts);
  localparam int unsigned VlW      = (NumVls > 1) ? $clog2(NumVls) : 1;
  localparam int unsigned AddrPktW = $clog2(NumVls * RingPkts);

  logic [NumVls-1:0][PktW-1:0] wr_pkt_q, rd_pkt_q;
  logic [NumVls-1:0][PktW:0]   stored_q;               // packets whose length waits in the RAM
  logic [NumVls-1:0]           some_q;                 // there are such packets
  logic [Rings-1:0][FillW-1:0] used_q;                 // beats
  logic                        wr_first_q;             // no beat of a packet has come
  logic [PacketW-1:0]          bytes_q, bytes;         // of the packet that comes in
  logic [BlocksW-1:0]          count_q;                // its beats so far
  logic [BlocksW-1:0]          count;                  // with this one
  logic                        wr, fits, fits_data, fits_vl15, commit, enough;
  logic [Rings-1:0]            done;                   // a packet of this ring is whole

  assign wr          = wr_i != '0;
  assign count       = count_q + 1'b1;
  assign bytes       = bytes_q + PacketW'(wr_beat_i.len_bytes);
  assign fits_data   = count_q < BlocksW'(RoomBlocks);
  assign fits_vl15   = count_q < BlocksW'(Vl15Room);
  assign fits        = wr_i[NumVls] ? fits_vl15 : fits_data;
  assign commit      = wr && wr_beat_i.last && !wr_i[NumVls] && fits_data;   // of data
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
  end

  logic [AddrW-1:0] wr_at, rd_at;

  hca_page_pool #(
    .Rings     (Rings),
    .Blocks    (PoolBlocks),
    .PageBlocks(PageBlocks),
    .RoomBlocks(RoomBlocks),
    .KeepBlocks(Vl15Blocks),
    .CountW    (BlocksW)
  ) u_pool (
    .clk_i, .rst_i, .wr_i(wr && fits), .wr_ring_i, .wr_first_i(wr_first_q), .commit_i(done), .undo_i(long_o),
    .wr_at_o(wr_at), .enough_o(enough), .wait_o, .rd_i(rd_en_i), .rd_ring_i, .rd_at_o(rd_at), .hold_o,
    .drop_i(drop_i != '0), .drop_ring_i, .drop_blocks_i(head_blocks_o[drop_ring_i]), .busy_o
  );

  hca_ram_1r1w #(
    .Width($bits(mac_t)),
    .Depth(PoolBlocks)
  ) u_beats (
    .clk_i,
    .we_i   (wr && fits),
    .waddr_i(wr_at),
    .wdata_i(wr_beat_i),
    .re_i   (rd_en_i),
    .raddr_i(rd_at),
    .rdata_o(rd_beat_o)
  );

  // ---- Lengths of data: RAM, then two places per ring, filled in turn --------------------------------------
  logic [NumVls-1:0]      want, grant, fetched_q;      // fetched_q: whose length comes out of the RAM
  logic [VlW-1:0]         fetch_vl, wr_vl;
  logic                   fetch;
  logic [PacketW-1:0]     fetch_bytes;
  tx_round_t              fetch_round, round_q;
  logic [RoundW-1:0]      came_round_q, round_now;   // came: a cycle ago
  logic                   came_of_qp_q, stale;
  logic [PktW-1:0]        rd_pkt;
  logic [15:0][PktW-1:0]  granted;   // ORed by halves

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_head
    logic one_at_most;

    assign want[v] = some_q[v] && one_at_most && !(head_valid_o[v] && fetched_q[v]);

    hca_tx_head u_head (
      .clk_i, .rst_i, .round_i(round_q),
      .in_valid_i  (fetched_q[v]),
      .in_ready_o  (one_at_most),
      .in_bytes_i  (fetch_bytes), .in_round_i(fetch_round), .in_stale_i(stale),
      .out_valid_o (head_valid_o[v]),
      .out_ready_i (pop_i[v] || drop_i[v]),
      .out_bytes_o (head_bytes_o[v]), .out_blocks_o(head_blocks_o[v]), .out_stale_o(head_stale_o[v])
    );
  end

  assign fetch = want != '0;
  assign wr_vl = VlW'(wr_ring_i);

  always_comb begin
    granted = '0;
    for (int unsigned v = 0; v < NumVls; v++) granted[v] = rd_pkt_q[v] & {PktW{grant[v]}};
    for (int unsigned half = 8; half != 0; half = half / 2) begin
      for (int unsigned v = 0; v < half; v++) granted[v] |= granted[v + half];
    end
    rd_pkt = granted[0];
  end

  hca_rr_arb #(.N(NumVls)) u_fetch (
    .clk_i, .rst_i, .req_i(want), .advance_i(fetch), .grant_o(grant), .idx_o(fetch_vl)
  );

  hca_ram_1r1w #(
    .Width(PacketW + $bits(tx_round_t)),
    .Depth(NumVls * RingPkts)
  ) u_lengths (
    .clk_i,
    .we_i   (commit),
    .waddr_i(AddrPktW'({wr_vl, wr_pkt_q[wr_vl]})),
    .wdata_i({bytes, wr_round_i}),
    .re_i   (fetch),
    .raddr_i(AddrPktW'({fetch_vl, rd_pkt})),
    .rdata_o({fetch_bytes, fetch_round})
  );

  always_ff @(posedge clk_i) fetched_q <= rst_i ? '0 : grant;

  // Rounds of all QPs, read with a packet's length. Two bits: the round before the one four rewinds ago looks like now,
  // and is sent.
  hca_ram_1r1w #(
    .Width(RoundW),
    .Depth(NumQps)
  ) u_rounds (
    .clk_i,
    .we_i   (round_i.valid),
    .waddr_i(round_i.qpn),
    .wdata_i(round_i.round),
    .re_i   (fetched_q != '0),
    .raddr_i(fetch_round.qpn),
    .rdata_o(round_now)
  );

  assign stale = came_of_qp_q && came_round_q != round_now;

  always_ff @(posedge clk_i) begin
    round_q <= rst_i ? '0 : round_i;
    {came_of_qp_q, came_round_q} <= {fetch_round.valid, fetch_round.round};
  end

  // ---- Lengths of VL15 ---------------------------------------------------------------------------------------
  logic unused_vl15;

  hca_fifo #(
    .Width(PacketW),
    .Depth(Vl15Blocks)
  ) u_vl15 (
    .clk_i, .rst_i,
    .in_valid_i (done[NumVls]),
    .in_ready_o (unused_vl15),
    .in_i       (bytes),
    .out_valid_o(head_valid_o[NumVls]),
    .out_ready_i(pop_i[NumVls] || drop_i[NumVls]),
    .out_o      (head_bytes_o[NumVls]),
    .count_o    ()
  );
  assign head_blocks_o[NumVls] = blocks_of(head_bytes_o[NumVls]);

  // ---- Fill --------------------------------------------------------------------------------------------------
  // What is dropped leaves a cycle later: that it is, is late.
  logic [Rings-1:0]   drop_q;
  logic [BlocksW-1:0] drop_blocks, drop_blocks_q;

  assign drop_blocks = head_blocks_o[drop_ring_i];

  always_ff @(posedge clk_i) begin
    drop_q        <= rst_i ? '0 : drop_i;
    drop_blocks_q <= drop_blocks;
  end

  for (genvar r = 0; r < int'(Rings); r++) begin : gen_ring
    logic               rd;
    logic [BlocksW-1:0] gone;
    logic [FillW-1:0]   less, more;   // with a packet more, if one is done

    assign rd      = rd_en_i && rd_ring_i == RingW'(r);
    assign done[r] = wr_i[r] && wr_beat_i.last && ((r == int'(NumVls)) ? fits_vl15 : fits_data);
    // Of one that is being read nothing is dropped.
    assign gone    = drop_q[r] ? drop_blocks_q : BlocksW'(rd);
    assign less    = used_q[r] - FillW'(gone);
    assign more    = (used_q[r] ^ FillW'(count) ^ ~FillW'(gone)) + FillW'(1)
                     + (((used_q[r] & FillW'(count)) | ((used_q[r] | FillW'(count)) & ~FillW'(gone))) << 1);

    always_ff @(posedge clk_i) begin
      if (rst_i) used_q[r] <= '0;
      else used_q[r] <= done[r] ? more : less;
    end
  end

  // VL15 always finds the pages that its ring may have.
  assign room_o[NumVls] = used_q[NumVls] <= FillW'(Vl15Blocks - Vl15Room);

  // That of a ring of data is known a cycle before: a packet that is done now counts as one of the longest until then.
  localparam int unsigned Most     = RingBlocks - RoomBlocks;
  localparam bit          HasTwo   = Most >= RoomBlocks;
  localparam int unsigned MostThen = HasTwo ? Most - RoomBlocks : 0;
  logic [NumVls-1:0] room_q;

  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_data
    logic              room, room_then;
    logic [FillW-1:0]  since_q;
    logic [EpochW-1:0] epoch_q;
    logic              over;
    logic [FillW-1:0]  rest;   // of since_q behind an epoch's end

    assign room      = used_q[v] <= FillW'(Most) && !stored_q[v][PktW];
    assign room_then = HasTwo && used_q[v] <= FillW'(MostThen) && !stored_q[v][PktW] && stored_q[v][PktW-1:0] != '1;
    assign room_o[v] = enough && room_q[v];

    always_ff @(posedge clk_i) room_q[v] <= rst_i || (done[v] ? room_then : room);

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        wr_pkt_q[v] <= '0;
        rd_pkt_q[v] <= '0;
        stored_q[v] <= '0;
        some_q[v]   <= 1'b0;
      end else begin
        if (done[v]) wr_pkt_q[v] <= wr_pkt_q[v] + 1'b1;
        if (grant[v]) rd_pkt_q[v] <= rd_pkt_q[v] + 1'b1;
        if (done[v] || grant[v]) some_q[v] <= done[v] || stored_q[v] != (PktW + 1)'(1);
        if (done[v] != grant[v]) stored_q[v] <= stored_q[v] + (done[v] ? (PktW + 1)'(1) : '1);
      end
    end

    // An epoch ends when all that is here has come in it.
    assign over     = since_q >= used_q[v] && since_q != '0;
    assign rest     = over ? '0 : since_q;
    assign age_o[v] = '{empty: used_q[v] == '0, epoch: epoch_q, mark: epoch_q + EpochW'(since_q != '0)};

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        since_q <= '0;
        epoch_q <= '0;
      end else begin
        since_q <= done[v] ? rest + FillW'(count) : rest;
        epoch_q <= epoch_q + EpochW'(over);
      end
    end
  end

  assign fill_o = used_q;

endmodule
