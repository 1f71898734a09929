// Packets that wait until their QP has its line. hca_rx_ctrl says of a packet that its QP has it not (park_i, with
// out_ready_i): its descriptor goes into the place of its slot, while others pass, and hca_lines hears of it (want). It
// says once for each of them that it is over, for good or bad (back); then the packet is offered again, before others,
// marked as one that has waited. Its bytes stay where they are in the receive buffer (hca_park_ring): whoever takes the
// packet in the end frees its slot.
//
// Timing: two cycles from back to out, if hca_rx_ctrl has nothing in hand. What is offered stays until it is taken.
// Order: packets of a QP come again in the order in which hca_lines lets them; one that comes meanwhile may be first.
module hca_rx_park
  import hca_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             in_valid_i,
  output logic             in_ready_o,
  input  rxd_t             in_i,
  output logic             out_valid_o,
  input  logic             out_ready_i,
  output rxd_t             out_o,
  input  logic             park_i,        // strobe: out_o waits
  output logic             want_valid_o,
  input  logic             want_ready_i,
  output park_want_t       want_o,
  input  logic             back_valid_i,
  output logic             back_ready_o,
  input  logic [ParkW-1:0] back_slot_i
);

  logic               read_q, shows_q, unused_ready;
  logic [ParkW:0]     unused_count;
  rxd_t               parked;

  // A place for each slot: a packet has at most one want.
  hca_fifo #(.Width($bits(park_want_t)), .Depth(ParkSlots)) u_wants (
    .clk_i, .rst_i, .in_valid_i(park_i), .in_ready_o(unused_ready), .in_i({out_o.place.slot, out_o.dest_qpn}),
    .out_valid_o(want_valid_o), .out_ready_i(want_ready_i), .out_o(want_o), .count_o(unused_count)
  );

  hca_ram_1r1w #(.Width($bits(rxd_t)), .Depth(ParkSlots)) u_parked (
    .clk_i, .we_i(park_i), .waddr_i(out_o.place.slot), .wdata_i(out_o), .re_i(back_valid_i && back_ready_o),
    .raddr_i(back_slot_i), .rdata_o(parked)
  );

  // read_q: `parked` is to be offered, or (shows_q) is.
  assign back_ready_o = !read_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) {read_q, shows_q} <= '0;
    else begin
      if (back_valid_i && back_ready_o) read_q <= 1'b1;
      else if (shows_q && out_ready_i) read_q <= 1'b0;
      if (shows_q) shows_q <= !out_ready_i;
      else shows_q <= read_q && (!in_valid_i || out_ready_i);
    end
  end

  assign out_valid_o = shows_q || in_valid_i;
  assign in_ready_o  = !shows_q && out_ready_i;

  always_comb begin
    out_o       = shows_q ? parked : in_i;
    out_o.again = shows_q;
  end

  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!park_i || (out_valid_o && out_ready_i && out_o.place.parks && !shows_q && unused_ready))
      else $error("hca_rx_park: a packet is parked that has no slot, or a second time");
  end
  `endif

endmodule
