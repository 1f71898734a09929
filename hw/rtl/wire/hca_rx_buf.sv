// Receive packet store: 64 KiB, circular, freed in order. Beats of the current packet are written behind the
// last good one; with the last beat comes the verdict, and only a good packet moves the write position and
// gets a descriptor. No room (store or descriptor queue): the packet is dropped and counted. Never stalls
// the line. Each packet counts in exactly one counter of its port. A bad one that sniffers want is a frame for them
// alone. A packet whose QP has not its line (away_i) lies behind the 64 KiB, where packets are freed in any order
// (hca_park_ring), if there is room for it.
module hca_rx_buf
  import hca_pkg::*, hca_features_pkg::*;
#(
  parameter int unsigned DescDepth = 64
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              valid_i,
  input  logic              store_i,
  input  logic              last_i,
  input  logic              bad_i,      // with last, as all of these
  input  logic              vcrc_ok_i,
  input  logic              icrc_ok_i,
  input  logic              parse_ok_i,
  input  logic              raw_i,      // a frame: without an ICRC
  input  logic              sniffed_i,  // sniffers want it, good or bad
  input  logic              away_i,     // of a packet, with its first beat
  input  rxd_t              rxd_i,
  input  beat_t             data_i,
  output logic              rxd_valid_o,
  input  logic              rxd_ready_i,
  output rxd_t              rxd_o,
  input  logic              buf_re_i,
  input  logic [RxBufW:0]   buf_raddr_i,    // the highest bit: where packets may wait
  output beat_t             buf_rdata_o,
  input  logic              buf_free_i,
  input  logic [6:0]        buf_free_beats_i,
  input  rx_place_t         buf_free_place_i,
  output logic [RxBufW:0]   used_o,      // beats, those of the current packet too
  output logic [$clog2(DescDepth):0] descs_o,
  output logic              filling_o,   // no time for sniffers
  output logic              good_o,      // with last: the packet has a descriptor
  output rx_ended_t [NumPorts-1:0] ended_o    // strobes: a packet has ended, and how
);

  logic [RxBufW-1:0] start_q;      // first beat of the current packet
  logic [6:0]        beats_q;      // of the current packet, so far
  logic [RxBufW:0]   used_q;       // beats of good packets that were not freed
  logic              overflow_q;   // the current packet did not fit
  logic              full, write, fits, desc_ready;
  logic              judge, intact, good, wanted, taken, icrc_ok, filling_q;
  logic              parks, parks_q, begun_q, taken_here, free_here;  // parks: the current packet
  logic [6:0]        beats_now;
  rx_ended_t [NumPorts-1:0] ended_q;
  logic [PortW-1:0]  port;
  rxd_t              rxd;

  assign port      = rxd_i.port;
  assign full      = used_q + (RxBufW + 1)'(beats_q) >= (RxBufW + 1)'(RxBufBeats) && !parks;
  assign write     = valid_i && store_i && !full && !overflow_q;
  assign fits      = !overflow_q && !(store_i && full);
  assign beats_now = beats_q + 7'(store_i);
  assign judge     = valid_i && last_i;
  assign intact    = !bad_i && (vcrc_ok_i || !rxd_i.ib) && icrc_ok && parse_ok_i;
  assign icrc_ok   = icrc_ok_i || raw_i;
  assign good      = taken && intact;
  assign wanted    = judge && (intact || sniffed_i) && fits;
  assign taken     = wanted && desc_ready;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      start_q    <= '0;
      beats_q    <= '0;
      used_q     <= '0;
      overflow_q <= 1'b0;
    end else begin
      if (judge) beats_q <= '0;
      else if (write) beats_q <= beats_now;
      if (judge) overflow_q <= 1'b0;
      else if (valid_i && store_i && full) overflow_q <= 1'b1;
      if (taken_here) start_q <= start_q + RxBufW'(beats_now);
      if (taken_here || free_here) begin
        used_q <= used_q + (taken_here ? (RxBufW + 1)'(beats_now) : '0) -
                  (free_here ? (RxBufW + 1)'(buf_free_beats_i) : '0);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    ended_q <= '0;
    if (judge && !rst_i) begin
      if (bad_i) ended_q[port].malformed <= 1'b1;
      else if (rxd_i.ib && !vcrc_ok_i) ended_q[port].vcrc_err <= 1'b1;
      else if (!icrc_ok) ended_q[port].icrc_err <= 1'b1;
      else if (!parse_ok_i) ended_q[port].malformed <= 1'b1;
      else if (!good) ended_q[port].dropped <= 1'b1;
      else ended_q[port].good <= 1'b1;
    end
  end

  // ---- Packets that may wait ---------------------------------------------------------------------------
  logic                 park_room;
  logic [ParkBeatW-1:0] park_start;
  logic [ParkW-1:0]     park_slot;

  assign taken_here = taken && !parks;
  assign free_here  = buf_free_i && !buf_free_place_i.parks;

  if (HasContextMemory) begin : gen_park
    hca_park_ring u_ring (
      .clk_i, .rst_i, .room_o(park_room), .start_o(park_start), .slot_o(park_slot), .take_i(taken && parks),
      .beats_i(beats_now), .free_i(buf_free_i && buf_free_place_i.parks), .free_slot_i(buf_free_place_i.slot)
    );

    always_ff @(posedge clk_i) begin
      if (rst_i) begun_q <= 1'b0;
      else if (valid_i) begun_q <= !last_i;
      if (valid_i) parks_q <= parks;
    end
    assign parks = begun_q ? parks_q : away_i && park_room;
  end else begin : gen_no_park
    logic unused_park;
    assign unused_park = ^{away_i, buf_free_place_i.slot, park_room, parks_q, begun_q, park_start, park_slot};
    assign {park_room, park_start, park_slot, parks_q, begun_q, parks} = '0;
  end

  // ---- Beats -------------------------------------------------------------------------------------------
  localparam int unsigned Beats = RxBufBeats + (HasContextMemory ? ParkBeats : 0);
  localparam int unsigned AddrW = $clog2(Beats);

  logic [AddrW-1:0] waddr, raddr;

  assign waddr = AddrW'(parks ? {1'b1, RxBufW'(ParkBeatW'(park_start + ParkBeatW'(beats_q)))}
                              : {1'b0, RxBufW'(start_q + RxBufW'(beats_q))});
  assign raddr = AddrW'(buf_raddr_i[RxBufW] ? {1'b1, RxBufW'(buf_raddr_i[ParkBeatW-1:0])} : buf_raddr_i);

  hca_ram_1r1w #(
    .Width(DataW),
    .Depth(Beats)
  ) u_store (
    .clk_i,
    .we_i   (write),
    .waddr_i(waddr),
    .wdata_i(data_i),
    .re_i   (buf_re_i),
    .raddr_i(raddr),
    .rdata_o(buf_rdata_o)
  );

  always_comb begin
    rxd           = rxd_i;
    rxd.buf_beat  = parks ? RxBufW'(park_start) : start_q;
    rxd.buf_beats = beats_now;
    rxd.place     = '{parks: parks, slot: park_slot};
    if (HasRaw && !intact) rxd = sniffed(rxd);   // nobody else wants what is not intact
  end

  hca_fifo #(
    .Width($bits(rxd_t)),
    .Depth(DescDepth)
  ) u_desc (
    .clk_i,
    .rst_i,
    .in_valid_i (wanted),
    .in_ready_o (desc_ready),
    .in_i       (rxd),
    .out_valid_o(rxd_valid_o),
    .out_ready_i(rxd_ready_i),
    .out_o      (rxd_o),
    .count_o    (descs_o)
  );

  // What sniffers get takes its time from packets that nobody may lose: a quarter of the room is theirs.
  always_ff @(posedge clk_i) begin
    filling_q <= used_q >= (RxBufW + 1)'(RxBufBeats / 4) || descs_o >= ($clog2(DescDepth) + 1)'(DescDepth / 4);
  end

  assign filling_o = filling_q;
  assign used_o   = used_q + (RxBufW + 1)'(beats_q);
  assign good_o   = good;
  assign ended_o  = ended_q;

endmodule
