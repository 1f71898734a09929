// Sends packets of firmware: it writes one word by word, from the LRH up to its payload, and says go; through an
// Ethernet port a whole frame. What comes out is the packet without CRCs, for hca_crc_tx; may stall. One packet at a
// time, a beat in six cycles: read in quarters, for a row of a whole beat would be eight block RAMs.
module hca_mad_tx
  import hca_pkg::*;
  import hca_mad_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic                        clk_i,
  input  logic                        rst_i,
  input  logic [NumPorts-1:0]         ib_i,
  input  logic                        we_i,
  input  logic [$clog2(MadWords)-1:0] word_i,
  input  logic [31:0]                 data_i,
  input  logic                        go_i,        // while busy_o is low only
  input  logic [9:0]                  bytes_i,     // 4 to 64 * MadBeats, a multiple of 4
  input  logic [PortW-1:0]            port_i,
  output logic                        busy_o,
  output logic                        out_valid_o,
  input  logic                        out_ready_i,
  output tx_beat_t                    out_o
);

  localparam int unsigned BeatW = $clog2(MadBeats);
  localparam int unsigned Parts = 4;
  localparam int unsigned Words = 16 / Parts;   // of a part

  typedef enum logic [1:0] {StIdle, StRead, StSend} state_e;

  state_e            state_q;
  logic [9:0]        left_q;      // bytes from this beat on
  logic [BeatW-1:0]  beat_q;
  logic [PortW-1:0]  port_q;
  l3_e               l3_q;
  logic              legal, last;
  logic [$clog2(Parts):0]   part_q;   // read in this cycle; the one before is there
  logic [Words-1:0][31:0]   part;
  logic [15:0][31:0]        row_q;

  hca_ram_words #(
    .WordW(32),
    .Words(Words),
    .Depth(MadBeats * Parts)
  ) u_packet (
    .clk_i,
    .we_i   (Words'(we_i) << word_i[$clog2(Words)-1:0]),
    .waddr_i(word_i[$clog2(MadWords)-1:$clog2(Words)]),
    .wdata_i({Words{data_i}}),
    .re_i   (state_q == StRead),
    .raddr_i({beat_q, part_q[$clog2(Parts)-1:0]}),
    .rdata_o(part)
  );

  assign legal = bytes_i != '0 && bytes_i[1:0] == '0 && bytes_i <= 10'(64 * MadBeats);
  assign last  = left_q <= 10'd64;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle: if (go_i && legal) state_q <= StRead;
        StRead: if (32'(part_q) == Parts) state_q <= StSend;
        StSend: if (out_ready_i) state_q <= last ? StIdle : StRead;
        default: state_q <= StIdle;
      endcase
    end
    if (state_q == StIdle && go_i) begin
      left_q <= bytes_i;
      beat_q <= '0;
      port_q <= port_i;
    end
    part_q <= (state_q == StRead) ? part_q + 1'b1 : '0;
    if (state_q == StRead) row_q <= {part, row_q[15:Words]};   // what is there before the first one is moved out
    if (out_valid_o && out_ready_i) begin
      left_q <= left_q - 10'd64;
      beat_q <= beat_q + 1'b1;
      l3_q   <= out_o.l3;
    end
  end

  // Bytes behind the end are zero, as hca_tx_pack has them.
  always_comb begin
    out_o.port      = port_q;
    out_o.csum      = 1'b0;
    out_o.round     = '0;
    out_o.last      = last;
    out_o.len_bytes = last ? left_q[6:0] : 7'd64;
    out_o.data      = row_q & ~({DataW{1'b1}} << {out_o.len_bytes, 3'b000});
    out_o.l3        = l3_q;
    if (beat_q == '0) out_o.l3 = !ib_i[port_q] ? L3Raw : (row_q[0][9:8] == 2'(LnhIbaGlobal)) ? L3IbGlobal : L3IbLocal;
  end

  assign busy_o      = state_q != StIdle;
  assign out_valid_o = state_q == StSend;

endmodule
