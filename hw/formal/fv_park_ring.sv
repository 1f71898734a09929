// Proof of hca_park_ring: packets that come back to back, as hca_rx_buf takes them (whether one parks is decided with
// its first beat), and leave in any order: no beat is written over one of a packet that is there, no slot is given
// twice, and each one that has gone makes room as soon as all before it have: two cycles for each, one more for room_o.
module fv_park_ring
  import hca_pkg::*;
#(
  parameter int unsigned Longest = 5    // beats: more than a fourth of the ring
) (
  input logic             clk_i,
  input logic             valid_i,    // beats of a packet
  input logic             store_i,
  input logic             last_i,
  input logic             good_i,     // with last
  input logic             away_i,     // with its first beat
  input logic             free_i,
  input logic [ParkW-1:0] free_slot_i
);
  logic                 rst_q = 1'b1;
  logic                 room, parks, parks_q, begun_q, take, writes, empty_q, is_there;
  logic [6:0]           beats_q, beats;
  logic [ParkBeatW-1:0] start, start_q, offset, addr;
  logic [ParkW-1:0]     slot, watched_q;
  logic [ParkSlots-1:0] held_q;       // taken, and not freed
  logic [1:0]           waits_q;      // cycles for which the oldest one has gone

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_park_ring #(.LongestBeats(Longest)) u_dut (
    .clk_i, .rst_i(rst_q), .room_o(room), .start_o(start), .slot_o(slot), .take_i(take), .beats_i(beats), .free_i,
    .free_slot_i
  );

  // As hca_rx_buf has it.
  assign parks  = begun_q ? parks_q : away_i && room;
  assign beats  = beats_q + 7'(store_i);
  assign take   = !rst_q && valid_i && last_i && good_i && parks;
  assign writes = !rst_q && valid_i && store_i && parks;
  assign addr   = start + ParkBeatW'(beats_q);

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    if (rst_q) {begun_q, parks_q, beats_q, held_q, waits_q, empty_q} <= '0;
    else begin
      if (valid_i) begin
        begun_q <= !last_i;
        parks_q <= parks;
        beats_q <= last_i ? '0 : beats;
      end
      if (free_i) held_q[free_slot_i] <= 1'b0;
      if (take) held_q[slot] <= 1'b1;
      waits_q <= (u_dut.leaves || !is_in(u_dut.oldest_q[ParkW-1:0]) || !u_dut.gone_q[u_dut.oldest_q[ParkW-1:0]])
                 ? '0 : waits_q + 2'(waits_q != '1);
      empty_q <= u_dut.slots == '0 && !take;
    end
    if (take && slot == watched_q) start_q <= start;
  end

  function automatic logic is_in(logic [ParkW-1:0] which);
    return (ParkW + 1)'(ParkW'(which - u_dut.oldest_q[ParkW-1:0])) < u_dut.slots;
  endfunction

  // Beats of all that are inside, and of those before the watched one.
  logic [ParkBeatW:0] total, ahead;
  always_comb begin
    total = '0;
    ahead = '0;
    for (int unsigned i = 0; i < ParkSlots; i++) begin
      if ((ParkW + 1)'(i) < u_dut.slots) begin
        if (ParkW'(i) == watched_q - u_dut.oldest_q[ParkW-1:0]) ahead = total;
        total = total + (ParkBeatW + 1)'(u_dut.u_beats.mem[ParkW'(u_dut.oldest_q[ParkW-1:0] + ParkW'(i))]);
      end
    end
  end
  assign is_there = is_in(watched_q);
  assign offset = addr - start_q;   // of the beat that is written, in the watched packet

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      m_length: assume (!(valid_i && store_i) || beats_q < 7'(Longest));
      m_free:   assume (!free_i || held_q[free_slot_i]);

      a_over:   assert (!(writes && is_there && held_q[watched_q])
                        || (ParkBeatW + 1)'(offset) >= (ParkBeatW + 1)'(u_dut.u_beats.mem[watched_q]));
      a_slot:   assert (!take || (!held_q[slot] && !is_in(slot)));
      a_held:   assert (!held_q[watched_q] || is_there);
      a_leaves: assert (waits_q < 2'd2);
      a_room:   assert (!empty_q || room);
      a_empty:  assert (u_dut.slots != '0 || u_dut.used_q == '0);

      h_slots:  assert (u_dut.slots <= (ParkW + 1)'(ParkSlots));
      h_used:   assert (u_dut.used_q == total && total <= (ParkBeatW + 1)'(ParkBeats));
      h_room:   assert (!(room || (begun_q && parks_q))
                        || (u_dut.used_q <= (ParkBeatW + 1)'(ParkBeats - Longest) && !u_dut.slots[ParkW]));
      h_beats:  assert (beats_q <= 7'(Longest));
      h_begun:  assert (begun_q || beats_q == '0);
      if (is_there) h_start: assert (start_q == start - ParkBeatW'(u_dut.used_q) + ParkBeatW'(ahead));
      h_look:   assert (!u_dut.look_q || (u_dut.some && u_dut.gone_q[u_dut.oldest_q[ParkW-1:0]]
                        && u_dut.beats == u_dut.u_beats.mem[u_dut.oldest_q[ParkW-1:0]]));
      h_waits:  assert ((waits_q == 2'd1) == (u_dut.look_q && waits_q != '0) || waits_q == '0);

      c_slots:  cover (u_dut.slots[ParkW]);
      c_order:  cover (held_q == 4'b0001 && u_dut.slots == 3'd3);
      c_behind: cover (take && !begun_q && u_dut.slots == 3'd2 && held_q[0]);
    end
  end

  for (genvar i = 0; i < ParkSlots; i++) begin : gen_slot
    always_ff @(posedge clk_i) begin
      if (!rst_q) begin
        h_held: assert (held_q[i] == (is_in(ParkW'(i)) && !u_dut.gone_q[i]));
        h_gone: assert (!u_dut.gone_q[i] || is_in(ParkW'(i)));
        h_len:  assert (!is_in(ParkW'(i)) || u_dut.u_beats.mem[i] <= 7'(Longest));
      end
    end
  end
endmodule
