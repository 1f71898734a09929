// Sends packets of firmware: it writes one word by word, from the LRH up to its payload, and says go; through an
// Ethernet port a whole frame. What comes out is the packet without CRCs, for hca_crc_tx; may stall. One packet at a
// time.
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

  typedef enum logic [1:0] {StIdle, StRead, StSend} state_e;

  state_e            state_q;
  logic [9:0]        left_q;      // bytes from this beat on
  logic [BeatW-1:0]  beat_q;
  logic [PortW-1:0]  port_q;
  l3_e               l3_q;
  logic              legal, last;
  logic [15:0][31:0] row;

  hca_ram_words #(
    .WordW(32),
    .Words(16),
    .Depth(MadBeats)
  ) u_packet (
    .clk_i,
    .we_i   (16'(we_i) << word_i[3:0]),
    .waddr_i(word_i[$clog2(MadWords)-1:4]),
    .wdata_i({16{data_i}}),
    .re_i   (state_q == StRead),
    .raddr_i(beat_q),
    .rdata_o(row)
  );

  assign legal = bytes_i != '0 && bytes_i[1:0] == '0 && bytes_i <= 10'(64 * MadBeats);
  assign last  = left_q <= 10'd64;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle: if (go_i && legal) state_q <= StRead;
        StRead: state_q <= StSend;
        StSend: if (out_ready_i) state_q <= last ? StIdle : StRead;
        default: state_q <= StIdle;
      endcase
    end
    if (state_q == StIdle && go_i) begin
      left_q <= bytes_i;
      beat_q <= '0;
      port_q <= port_i;
    end
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
    out_o.data      = row & ~({DataW{1'b1}} << {out_o.len_bytes, 3'b000});
    out_o.l3        = l3_q;
    if (beat_q == '0) out_o.l3 = !ib_i[port_q] ? L3Raw : (row[0][9:8] == 2'(LnhIbaGlobal)) ? L3IbGlobal : L3IbLocal;
  end

  assign busy_o      = state_q != StIdle;
  assign out_valid_o = state_q == StSend;

endmodule
