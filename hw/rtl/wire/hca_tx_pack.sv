// Packs headers and payload pieces of a packet into a gapless stream of 64-byte beats, pads the end to a
// multiple of four with zeros, but for frames. One chunk (headers up to 63 bytes, or a payload piece) per cycle: one
// rotator, one carry register. The last beat of a packet may leave while the next packet's first bytes come
// in. Takes `pay` only after the headers of its packet. Latency two cycles. Bytes past the end are zero. A packet of
// firmware (`mad`), whole beats, goes between two others, and before the next one: they are few.
module hca_tx_pack
  import hca_pkg::*;
  import hca_wire_pkg::*;
  import hca_rotate_pkg::rotate_up;
(
  input  logic     clk_i,
  input  logic     rst_i,
  input  logic     hdr_valid_i,
  output logic     hdr_ready_o,
  input  tx_hdr_t  hdr_i,
  input  logic     pay_valid_i,
  output logic     pay_ready_o,
  input  pay_t     pay_i,
  input  logic     mad_valid_i,
  output logic     mad_ready_o,
  input  tx_beat_t mad_i,
  output logic     out_valid_o,
  input  logic     out_ready_i,
  output tx_beat_t out_o
);

  typedef enum logic [1:0] {
    StHead = 2'd0,   // the headers, or their first part
    StMore = 2'd1,   // the rest of the headers
    StPay  = 2'd2,
    StMad  = 2'd3    // behind its first beat
  } state_e;

  localparam logic [6:0] FirstChunk = 7'd48;

  // Ones for bytes 0..n-1.
  function automatic logic [63:0] below(logic [6:0] n);
    return ~(64'hffff_ffff_ffff_ffff << n);
  endfunction

  function automatic beat_t joined(beat_t carry, logic keeps, beat_t data, logic [63:0] has);
    beat_t bytes;
    for (int unsigned i = 0; i < 64; i++) begin
      bytes[8*i +: 8] = (carry[8*i +: 8] & {8{keeps}}) | (data[8*i +: 8] & {8{has[i]}});
    end
    return bytes;
  endfunction

  state_e     state_q, state_d;
  logic [5:0] pos_q;              // bytes of the packet so far, modulo 64
  logic       chunk_valid, chunk_first, chunk_final;
  logic [6:0] chunk_len;
  logic [5:0] chunk_turn;         // from its lanes to its place
  beat_t      chunk_data;
  logic       chunk_take, hdr_two, mad;

  // Headers that fill a beat go in two chunks. The first must not fill one, or it would have to wait for
  // the flush of the packet before.
  assign hdr_two = hdr_i.len_bytes >= 7'd64;
  assign mad     = state_q == StMad || (state_q == StHead && mad_valid_i);

  always_comb begin
    chunk_valid = hdr_valid_i;
    chunk_first = 1'b0;
    chunk_final = !hdr_i.has_payload;
    chunk_len   = hdr_i.len_bytes;
    chunk_turn  = '0;
    chunk_data  = hdr_i.bytes[511:0];
    state_d     = state_q;
    case (state_q)
      StHead: begin
        chunk_first = 1'b1;
        if (hdr_two) begin
          chunk_final = 1'b0;
          chunk_len   = FirstChunk;
          state_d     = StMore;
        end else if (hdr_i.has_payload) begin
          state_d = StPay;
        end
      end
      StMore: begin
        chunk_len  = hdr_i.len_bytes - FirstChunk;
        chunk_turn = pos_q;
        chunk_data = 512'(hdr_i.bytes[8*HdrBytes-1:8*FirstChunk]);
        state_d    = hdr_i.has_payload ? StPay : StHead;
      end
      StPay: begin
        chunk_valid = pay_valid_i;
        chunk_final = pay_i.last;
        chunk_len   = pay_i.len_bytes;
        chunk_turn  = pos_q - pay_i.lane;
        chunk_data  = pay_i.data;
        if (pay_i.last) state_d = StHead;
      end
      default: ;
    endcase
    if (mad) begin   // its beats are full, but for the last one
      chunk_valid = mad_valid_i;
      chunk_final = mad_i.last;
      chunk_len   = mad_i.len_bytes;
      chunk_data  = mad_i.data;
      state_d     = mad_i.last ? StHead : StMad;
    end
  end

  // Stage A: rotate the chunk to its place.
  logic       a_valid_q, a_first_q, a_final_q, a_ready;
  logic [5:0] a_off_q, chunk_off;
  logic [6:0] a_stop_q;           // offset behind the chunk: 1..127
  l3_e        a_l3_q;
  logic       a_csum_q;
  tx_round_t  a_round_q;
  logic [PortW-1:0] a_port_q;
  beat_t      a_data_q;

  assign chunk_off   = chunk_first ? 6'd0 : pos_q;
  assign chunk_take  = chunk_valid && a_ready;
  assign hdr_ready_o = a_ready && ((state_q == StMore) || (state_q == StHead && !mad_valid_i && !hdr_two));
  assign mad_ready_o = a_ready && mad;
  assign pay_ready_o = a_ready && (state_q == StPay);

  // Stage B: merge with the carry. A packet's last beat that did not fit is flushed in the next cycle; the
  // next packet may put bytes into the carry meanwhile, unless it needs the output too.
  logic       flush_q, out_valid_q, out_free, emit, spills, b_fire;
  logic [6:0] a_end;              // a_stop_q, rounded up to four on the final chunk, modulo 128
  logic [6:0] flush_len_q;
  beat_t      carry_q;
  tx_beat_t   out_q;
  logic [63:0] fresh, over;       // bytes of the chunk for this beat, for the next one
  logic [63:0] out_has, carry_has;
  logic        out_keeps, carry_keeps;

  assign a_end    = (a_final_q && a_l3_q != L3Raw) ? ((a_stop_q + 7'd3) & 7'h7c) : a_stop_q;
  assign spills   = a_stop_q[6] && a_stop_q[5:0] != '0;   // rounding passes no end of a beat
  assign emit     = a_final_q || a_stop_q[6];
  assign out_free = !out_valid_q || out_ready_i;
  assign b_fire   = a_valid_q && (emit ? (out_free && !flush_q) : (out_free || !flush_q));
  assign a_ready  = !a_valid_q || b_fire;

  // Of each byte two bits say all: what was carried stays, the chunk's comes.
  assign fresh       = below(a_stop_q[6] ? 7'd64 : a_stop_q) & ~below({1'b0, a_off_q});
  assign over        = a_stop_q[6] ? below({1'b0, a_stop_q[5:0]}) : '0;
  assign out_keeps   = flush_q || !a_first_q;
  assign out_has     = flush_q ? '0 : fresh;
  assign carry_keeps = !emit && !a_first_q;
  assign carry_has   = emit ? over : fresh;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q     <= StHead;
      a_valid_q   <= 1'b0;
      flush_q     <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (chunk_take) state_q <= state_d;
      if (a_ready) a_valid_q <= chunk_valid;
      if (b_fire && a_final_q && spills) flush_q <= 1'b1;
      else if (out_free) flush_q <= 1'b0;
      if (out_free) out_valid_q <= flush_q || (b_fire && emit);
    end
  end

  always_ff @(posedge clk_i) begin
    if (chunk_take) begin
      pos_q     <= chunk_off + chunk_len[5:0];
      a_first_q <= chunk_first;
      a_final_q <= chunk_final;
      a_off_q   <= chunk_off;
      a_stop_q  <= 7'(chunk_off) + chunk_len;
      a_data_q  <= rotate_up(chunk_data, chunk_turn);
      if (chunk_first) {a_l3_q, a_csum_q, a_round_q, a_port_q} <=
                         mad ? {mad_i.l3, mad_i.csum, mad_i.round, mad_i.port}
                             : {hdr_i.l3, hdr_i.csum, hdr_i.round, hdr_i.port};
    end
    if (out_free && flush_q) begin
      out_q.last      <= 1'b1;
      out_q.len_bytes <= flush_len_q;
    end else if (b_fire && emit) begin
      out_q.l3        <= a_l3_q;
      out_q.csum      <= a_csum_q;
      out_q.round     <= a_round_q;
      out_q.port      <= a_port_q;
      out_q.last      <= a_final_q && !spills;
      out_q.len_bytes <= spills ? 7'd64 : a_end;
    end
    if (out_free && (flush_q || (b_fire && emit))) out_q.data <= joined(carry_q, out_keeps, a_data_q, out_has);
    if (b_fire) begin
      carry_q     <= joined(carry_q, carry_keeps, a_data_q, carry_has);
      flush_len_q <= a_end - 7'd64;
    end
  end

  assign out_valid_o = out_valid_q;
  assign out_o       = out_q;

endmodule
