// Beats of parked packets, a ring of which packets leave in any order: behind the newest one there is room again when
// the oldest is gone. room_o: for a packet of any length, and for its slot. It is late by a cycle, but never too
// optimistic: the next packet may begin right behind take_i. A slot is given back once.
module hca_park_ring
  import hca_pkg::*;
#(
  parameter int unsigned LongestBeats = 67
) (
  input  logic             clk_i,
  input  logic             rst_i,
  output logic             room_o,
  output logic [ParkBeatW-1:0] start_o,   // of the next packet
  output logic [ParkW-1:0] slot_o,
  input  logic             take_i,        // strobe: it is there
  input  logic [6:0]       beats_i,
  input  logic             free_i,        // strobe
  input  logic [ParkW-1:0] free_slot_i
);

  logic [ParkBeatW:0]   used_q;
  logic [ParkBeatW-1:0] start_q;
  logic [ParkW:0]       newest_q, oldest_q, slots;   // newest: the next one to be taken
  logic [ParkSlots-1:0] gone_q;
  logic                 some, look_q, leaves;
  logic [6:0]           beats;

  assign start_o = start_q;
  assign slot_o  = newest_q[ParkW-1:0];
  assign slots   = newest_q - oldest_q;
  assign some    = slots != '0;
  // The oldest one was gone a cycle ago, and its length comes out of a RAM: two cycles for each one that leaves.
  assign leaves  = look_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {used_q, start_q, newest_q, oldest_q} <= '0;
      {gone_q, look_q, room_o}              <= '0;
    end else begin
      look_q <= some && gone_q[oldest_q[ParkW-1:0]] && !leaves;
      used_q <= used_q + (take_i ? (ParkBeatW + 1)'(beats_i) : '0) - (leaves ? (ParkBeatW + 1)'(beats) : '0);
      // One that is taken now counts as the longest one.
      room_o <= take_i ? used_q <= (ParkBeatW + 1)'(ParkBeats - 2 * LongestBeats) && slots < (ParkW + 1)'(ParkSlots - 1)
                       : used_q <= (ParkBeatW + 1)'(ParkBeats - LongestBeats) && !slots[ParkW];
      if (take_i) begin
        start_q  <= start_q + ParkBeatW'(beats_i);
        newest_q <= newest_q + 1'b1;
      end
      if (free_i) gone_q[free_slot_i] <= 1'b1;
      if (leaves) begin
        oldest_q <= oldest_q + 1'b1;
        gone_q[oldest_q[ParkW-1:0]] <= 1'b0;
      end
    end
  end

  hca_ram_1r1w #(
    .Width(7),
    .Depth(ParkSlots)
  ) u_beats (
    .clk_i,
    .we_i   (take_i),
    .waddr_i(newest_q[ParkW-1:0]),
    .wdata_i(beats_i),
    .re_i   (some),
    .raddr_i(oldest_q[ParkW-1:0]),
    .rdata_o(beats)
  );

  `ifndef SYNTHESIS
  logic [ParkW-1:0] freed;
  assign freed = free_slot_i - oldest_q[ParkW-1:0];
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert (!take_i || !slots[ParkW]) else $error("hca_park_ring: no slot is free");
      assert (!free_i || ((ParkW + 1)'(freed) < slots && !gone_q[free_slot_i]))
        else $error("hca_park_ring: a slot comes back that is nobody's");
      assert (used_q <= (ParkBeatW + 1)'(ParkBeats)) else $error("hca_park_ring: a packet writes over another one");
    end
  end
  `endif

endmodule
