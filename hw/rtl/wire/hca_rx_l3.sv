// Reads the length of a packet from its IP header or LRH, clips the beats to it (Ethernet padding and what
// else follows has len_bytes 0) and compares it with the bytes that came. One register stage, never stalls.
// A packet that claims more than this card takes is clipped to nothing and marked bad.
module hca_rx_l3
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       ib_i,
  input  logic       in_valid_i,
  input  logic       in_first_i,
  input  logic [PortW-1:0] in_port_i,
  input  logic       in_last_i,
  input  logic       in_bad_i,        // with first
  input  logic       in_long_i,       // with first: IPv6, or GRH present
  input  logic       in_raw_i,        // with first: a whole frame, as long as what came
  input  logic [6:0] in_len_bytes_i,
  input  beat_t      in_data_i,
  input  logic       in_keep_i,       // with first: the frame is wanted, which is beside the packet
  input  rx_frame_t  in_frame_i,
  output logic       out_valid_o,
  output rx_beat_t   out_o,
  output logic [12:0] out_l3_len_o,   // bytes of the packet up to and with the ICRC, of the newest packet
  output rx_kept_t   out_kept_o,      // the newest packet's frame, with its last beat: its length
  output logic       out_store_o,     // the beat is worth storing: of the packet, or of its frame
  output beat_t      out_store_data_o
);

  // 48 bytes up to the BTH, BTH, the longest extended headers, payload, ICRC.
  localparam logic [15:0] MaxLen  = 16'(48 + BthBytes + AtomicEthBytes + MaxPayload + IcrcLen);
  localparam logic [15:0] MaxFrame = 16'(MaxPayload + MaxEthHeaderBytes);
  localparam logic [15:0] SumSize = 16'h8000;  // lengths that big stay that big: no wrap-around

  l3_e         l3;
  logic [15:0] claimed, so_far, total;
  logic        head_bad, bad, raw;
  logic [12:0] left;
  logic        out_valid_q;
  rx_beat_t    out_q;
  logic [12:0] len_q, left_q;
  logic [15:0] total_q;
  logic        bad_q;
  l3_e         l3_q;

  always_comb begin
    if (ib_i) begin
      l3       = in_long_i ? L3IbGlobal : L3IbLocal;
      claimed  = {3'd0, in_data_i[8*4 +: 3], in_data_i[8*5 +: 8], 2'd0};
      head_bad = 1'b0;
    end else if (in_raw_i) begin
      l3       = L3Raw;
      claimed  = MaxFrame;
      head_bad = 1'b0;
    end else if (in_long_i) begin
      l3       = L3Ipv6;
      claimed  = swap16(in_data_i[8*4 +: 16]) + 16'(Ipv6Bytes);
      head_bad = (in_data_i[7:4] != 4'd6) || (claimed < 16'(Ipv6Bytes));
    end else begin
      l3       = L3Ipv4;
      claimed  = swap16(in_data_i[8*2 +: 16]);
      head_bad = in_data_i[7:0] != 8'h45;   // version 4 without options
    end
    if (in_bad_i || claimed > MaxLen || (claimed[1:0] != 2'd0 && !in_raw_i)) head_bad = 1'b1;

    bad    = in_first_i ? head_bad : bad_q;
    left   = in_first_i ? (head_bad ? 13'd0 : claimed[12:0]) : left_q;
    so_far = in_first_i ? 16'd0 : total_q;
    total  = (so_far >= SumSize) ? so_far : so_far + 16'(in_len_bytes_i);
  end

  logic        ends_here, length_bad;
  logic [6:0]  clipped;
  logic [12:0] packet_len;

  assign ends_here  = (left != 13'd0) && (left <= 13'(in_len_bytes_i));
  assign clipped    = (left <= 13'(in_len_bytes_i)) ? left[6:0] : in_len_bytes_i;
  assign raw        = in_first_i ? in_raw_i && !ib_i : l3_q == L3Raw;
  assign packet_len = raw ? total[12:0] : in_first_i ? claimed[12:0] : len_q;
  assign length_bad = raw ? (total > MaxFrame || total < 16'(MinEthHeaderBytes))
                      : ib_i ? (total != 16'(packet_len) + 16'(VcrcLen)) : (total < 16'(packet_len));

  // The frame beside the packet. What is longer than a link carries is stored no further, and not kept.
  rx_kept_t    kept, kept_q;
  logic [15:0] frame_so_far, frame_total_q;
  logic        store_q;
  beat_t       store_data_q;

  assign frame_so_far = in_first_i ? 16'd0 : frame_total_q;

  always_comb begin
    kept.keep  = in_first_i ? in_keep_i && !ib_i : kept_q.keep;
    kept.lead  = in_first_i ? in_frame_i.lead : kept_q.lead;
    kept.fits  = frame_so_far + 16'(in_frame_i.len_bytes) <= 16'(MaxKept);
    kept.bytes = frame_so_far[12:0] + 13'(in_frame_i.len_bytes);
  end

  always_ff @(posedge clk_i) begin
    if (in_valid_i) begin
      kept_q        <= kept;
      frame_total_q <= (frame_so_far >= SumSize) ? frame_so_far : frame_so_far + 16'(in_frame_i.len_bytes);
      store_q       <= kept.keep ? frame_so_far < 16'(MaxKept) : clipped != '0;
      store_data_q  <= kept.keep ? in_frame_i.data : in_data_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) out_valid_q <= 1'b0;
    else out_valid_q <= in_valid_i;
  end

  always_ff @(posedge clk_i) begin
    if (in_valid_i) begin
      len_q           <= packet_len;
      left_q          <= left - 13'(clipped);
      total_q         <= total;
      bad_q           <= bad;
      if (in_first_i) l3_q <= l3;
      out_q.first     <= in_first_i;
      out_q.last      <= in_last_i;
      out_q.data_end  <= ends_here || (raw && in_last_i);
      out_q.bad       <= bad || length_bad;
      out_q.l3        <= in_first_i ? l3 : l3_q;
      out_q.port      <= in_port_i;
      out_q.len_bytes <= clipped;
      out_q.raw_bytes <= in_len_bytes_i;
      out_q.data      <= in_data_i;
    end
  end

  assign out_valid_o  = out_valid_q;
  assign out_o        = out_q;
  assign out_l3_len_o = len_q;
  assign out_kept_o   = kept_q;
  assign out_store_o  = store_q;
  assign out_store_data_o = store_data_q;

endmodule
