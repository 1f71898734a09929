// Keeps packets for firmware, as they come: eight of them (four with small pools), each of eight beats at most. Each
// packet on its way into the receive buffer is written into the free place; the verdict with its last beat says whether
// it stays. One that finds no place, or is longer, is lost like any datagram. Firmware reads the oldest, word by word.
// Never stalls.
module hca_mad_rx
  import hca_pkg::*;
  import hca_mad_pkg::*;
#(
  parameter int unsigned Slots = SmallPools ? 4 : 8    // power of two
) (
  input  logic                        clk_i,
  input  logic                        rst_i,
  input  mad_beat_t                   in_i,
  input  logic                        re_i,
  input  logic [$clog2(MadWords)-1:0] word_i,
  output logic [31:0]                 data_o,      // next cycle
  input  logic                        pop_i,       // while pending_o only
  output logic                        pending_o,
  output logic [PortW-1:0]            port_o,
  output logic [9:0]                  bytes_o,     // behind them are bytes of packets before
  output logic                        arrived_o    // strobe
);

  localparam int unsigned SlotW = $clog2(Slots);
  localparam int unsigned BeatW = $clog2(MadBeats);

  logic [SlotW:0]              wr_q, rd_q;      // packets so far
  logic [BeatW:0]              beats_q;         // of the packet under way, MadBeats + 1 stands for more
  logic                        full, write, fits, keep, arrived_q;
  logic                        lost_q;          // a beat of the packet under way found no place
  logic [Slots-1:0][PortW-1:0] port_q;
  logic [Slots-1:0][9:0]       bytes_q;
  logic [15:0][31:0]           row;
  logic [3:0]                  word_q;

  assign full  = (wr_q - rd_q) == (SlotW + 1)'(Slots);
  assign fits  = !in_i.store || beats_q < (BeatW + 1)'(MadBeats);
  assign write = in_i.valid && in_i.store && !full && beats_q < (BeatW + 1)'(MadBeats);
  assign keep  = in_i.valid && in_i.last && in_i.take && !full && !lost_q && fits
                 && !(beats_q > (BeatW + 1)'(MadBeats));

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wr_q      <= '0;
      rd_q      <= '0;
      beats_q   <= '0;
      lost_q    <= 1'b0;
      arrived_q <= 1'b0;
    end else begin
      if (in_i.valid) begin
        lost_q <= !in_i.last && (lost_q || (in_i.store && full));
        if (in_i.last) beats_q <= '0;
        else if (in_i.store && !(beats_q > (BeatW + 1)'(MadBeats))) beats_q <= beats_q + 1'b1;
      end
      if (keep) wr_q <= wr_q + 1'b1;
      if (pop_i && pending_o) rd_q <= rd_q + 1'b1;
      arrived_q <= keep;
    end
    if (keep) {port_q[wr_q[SlotW-1:0]], bytes_q[wr_q[SlotW-1:0]]} <= {in_i.port, in_i.bytes};
    if (re_i) word_q <= word_i[3:0];
  end

  hca_ram_1r1w #(
    .Width(DataW),
    .Depth(Slots * MadBeats)
  ) u_packets (
    .clk_i,
    .we_i   (write),
    .waddr_i({wr_q[SlotW-1:0], beats_q[BeatW-1:0]}),
    .wdata_i(in_i.data),
    .re_i,
    .raddr_i({rd_q[SlotW-1:0], word_i[$clog2(MadWords)-1:4]}),
    .rdata_o(row)
  );

  assign data_o    = row[word_q];
  assign pending_o = wr_q != rd_q;
  assign port_o    = port_q[rd_q[SlotW-1:0]];
  assign bytes_o   = bytes_q[rd_q[SlotW-1:0]];
  assign arrived_o = arrived_q;

endmodule
