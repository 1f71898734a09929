// Empties the receive rings towards hca_rx_wire, packet by packet: VL15 first, then round robin. A packet begins when
// `room_i` says that it will fit; inside a packet only `mac_ready_i` stalls. One beat per cycle, also across packets
// of one beat; the RAM's read register is the output stage. The next ring is chosen one packet ahead; when nothing is
// being read a packet begins in the cycle in which it is chosen.
// `flush_i`: begins nothing more; `clear_o` tells when the rings may be forgotten (a begun packet is finished first).
module hca_rx_drain
  import hca_pkg::*;
#(
  parameter int unsigned NumVls = 8,
  parameter int unsigned AddrW  = 12
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             flush_i,
  output logic             clear_o,
  input  logic [NumVls:0]  packet_i,      // rings with a packet, [NumVls] is VL15
  input  logic [NumVls:0]  hold_i,        // rings that must not be drained
  output logic [NumVls:0]  take_o,
  input  logic             room_i,
  input  logic [NumVls:0][AddrW-1:0] rd_ptr_i,
  output logic             re_o,
  output logic [NumVls:0]  pop_o,         // the ring that is read, a bit for each
  output logic [AddrW-1:0] raddr_o,       // its pointer
  input  mac_t             rdata_i,       // in the cycle after, held until the next read
  output logic             mac_valid_o,
  input  logic             mac_ready_i,
  output mac_t             mac_o
);

  logic [NumVls:0]  ask, first, old, next_ring_q, cur_ring_q;   // a bit for each ring
  logic [NumVls-1:0] grant;
  logic             choose, next_valid_q, valid_q, idle, at_once, begin_next, begin_new, go_on;

  assign ask    = packet_i & ~hold_i;
  assign choose = !flush_i && (!next_valid_q || begin_next) && ask != '0;

  hca_rr_arb #(
    .N(NumVls)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (ask[NumVls-1:0]),
    .advance_i(choose && !ask[NumVls]),
    .grant_o  (grant),
    .idx_o    ()
  );

  assign first      = ask[NumVls] ? {1'b1, NumVls'(0)} : {1'b0, grant};
  assign take_o     = first & {(NumVls + 1){choose}};
  assign idle       = !flush_i && !next_valid_q && room_i && !valid_q;
  assign at_once    = idle && ask != '0;
  assign begin_next = next_valid_q && room_i && !flush_i && (!valid_q || (mac_ready_i && rdata_i.last));
  assign begin_new  = begin_next || at_once;
  assign go_on      = valid_q && mac_ready_i && !rdata_i.last;
  assign re_o       = begin_new || go_on;
  assign old        = (next_ring_q & {(NumVls + 1){begin_next}}) | (cur_ring_q & {(NumVls + 1){go_on}});
  assign pop_o      = (first & {(NumVls + 1){idle}}) | old;
  assign clear_o    = flush_i && (!valid_q || rdata_i.last);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      next_valid_q <= 1'b0;
      valid_q      <= 1'b0;
    end else begin
      if (clear_o) next_valid_q <= 1'b0;
      else if (choose) next_valid_q <= !at_once;
      else if (begin_next) next_valid_q <= 1'b0;
      if (re_o) valid_q <= 1'b1;
      else if (mac_ready_i) valid_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (choose) next_ring_q <= first;
    if (begin_new) cur_ring_q <= at_once ? first : next_ring_q;
  end

  // Who is granted is known last, and selects without a condition; no number of it is made.
  logic [AddrW-1:0] raddr_old, raddr_new;

  always_comb begin
    raddr_old = (ask[NumVls] && idle) ? rd_ptr_i[NumVls] : '0;
    raddr_new = '0;
    for (int unsigned r = 0; r <= NumVls; r++) raddr_old |= rd_ptr_i[r] & {AddrW{old[r]}};
    for (int unsigned r = 0; r < NumVls; r++) raddr_new |= rd_ptr_i[r] & {AddrW{grant[r]}};
  end

  assign raddr_o     = raddr_old | (raddr_new & {AddrW{idle && !ask[NumVls]}});
  assign mac_valid_o = valid_q;
  assign mac_o       = rdata_i;

endmodule
