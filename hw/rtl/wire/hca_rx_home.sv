// Is an incoming packet a request for a QP that shares its line and has not got it, or is about to leave it? Such a
// packet is stored where it may wait for its QP. Only a guess, made before the packet's first beat is stored:
// hca_rx_ctrl judges.
//
// Timing: away_o is of the packet whose beat hca_rx_delay shows, five cycles behind beat_i. Never stalls.
module hca_rx_home
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  // Context writes: who has a line.
  input  logic           wr_valid_i,
  input  logic [QpW-1:0] wr_line_i,
  input  logic           wr_swap_i,    // doors stay as they are
  input  logic           wr_shared_i,
  input  qp_gen_t        wr_gen_i,
  input  line_shut_t     shut_i,       // beside a context write of firmware's it is lost
  input  logic           valid_i,
  input  rx_beat_t       beat_i,
  output logic           away_o
);

  typedef struct packed {
    logic    shared;
    qp_gen_t gen;
  } row_t;

  localparam int unsigned Ipv4Bth = 28, LocalBth = 8, LongBth = 48;   // bytes before the BTH: of IPv6 and a GRH alike

  logic [63:0] bth, bth_q;      // its first bytes
  logic        asks_q, looks_q, is_away_q, held_q, leaves, opens, unused_in;
  logic [4:0]  first_q;         // bit 0: a packet's first beat came a cycle ago
  logic [1:0]  away_q;
  logic [23:0] qpn;
  qp_gen_t     gen_q;
  row_t        row;

  assign unused_in = ^{beat_i, bth_q};

  always_comb begin
    unique case (beat_i.l3)
      L3Ipv4:    bth = beat_i.data[8*Ipv4Bth +: 64];
      L3IbLocal: bth = beat_i.data[8*LocalBth +: 64];
      default:   bth = beat_i.data[8*LongBth +: 64];
    endcase
  end

  // A request of a reliable connection. Others keep their lines.
  always_ff @(posedge clk_i) begin
    first_q <= rst_i ? '0 : {first_q[3:0], valid_i && beat_i.first};
    if (valid_i && beat_i.first) begin
      bth_q  <= bth;
      asks_q <= beat_i.l3 != L3Raw && bth[7:5] == 3'(ServiceRc)
                && !(bth[4:0] inside {[BthRcReadResponseFirst[4:0]:BthRcAtomicAcknowledge[4:0]]});
    end
    if (first_q[0]) {looks_q, gen_q} <= {asks_q, qpn[23:QpW]};
    if (first_q[1]) is_away_q <= looks_q && row.shared && (leaves || row.gen != gen_q);
    if (first_q[2]) away_q[0] <= is_away_q;
    if (first_q[3]) away_q[1] <= away_q[0];
    if (first_q[4]) held_q <= away_o;
  end

  assign qpn    = {bth_q[47:40], bth_q[55:48], bth_q[63:56]};
  assign away_o = first_q[4] ? away_q[1] : held_q;

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumQps)
  ) u_rows (
    .clk_i,
    .we_i   (wr_valid_i),
    .waddr_i(wr_line_i),
    .wdata_i({wr_shared_i, wr_gen_i}),
    .re_i   (first_q[0]),
    .raddr_i(qpn[QpW-1:0]),
    .rdata_o(row)
  );

  assign opens = wr_valid_i && !wr_swap_i;

  hca_ram_1r1w #(
    .Width(1),
    .Depth(NumQps)
  ) u_leaves (
    .clk_i,
    .we_i   (opens || shut_i.valid),
    .waddr_i(opens ? wr_line_i : shut_i.line),
    .wdata_i(!opens && (shut_i.drain || shut_i.shut)),
    .re_i   (first_q[0]),
    .raddr_i(qpn[QpW-1:0]),
    .rdata_o(leaves)
  );

endmodule
