// Packets of the link benches: made from a number per VL, so that the far end can say what it must see next.
package link_bench_pkg;

  import hca_pkg::*;
  import hca_link_pkg::*;

  function automatic logic [31:0] next_random(logic [31:0] x);
    logic [31:0] y;
    y = x ^ (x << 13);
    y = y ^ (y >> 17);
    return y ^ (y << 5);
  endfunction

  // Beat `index` of packet `seq` on a VL (or priority) with `beats` beats, the last of `last_len` bytes.
  function automatic mac_t make_beat(logic ib, logic [3:0] vl, logic [31:0] seq, logic [7:0] beats,
                                     logic [6:0] last_len, logic [7:0] index);
    mac_t        beat;
    logic [31:0] word;
    word           = (seq * 32'h9e37_79b1) ^ {vl, 12'd0, index, index};
    beat.last      = index == beats - 8'd1;
    beat.len_bytes = beat.last ? last_len : 7'd64;
    beat.data      = {16{word}};
    if (index == 8'd0) begin
      beat.data[8*24 +: 48] = {4'd0, vl, 1'b0, last_len, seq};
      beat.data[8*30 +: 8]  = beats;
      if (ib) begin
        beat.data[127:0] = 128'd0;                     // LRH and BTH; destination QP 0
        beat.data[15:0]  = {4'd0, 4'd2, vl, 4'd0};     // SL 0, LNH 2, VL, LVer 0
      end else begin
        beat.data[8*12 +: 32] = {vl[2:0], 5'd0, 8'h45, 16'h0008};   // IPv4
      end
    end
    if (beat.last) beat.data &= ~512'd0 >> (512 - 8 * int'(last_len));
    return beat;
  endfunction

endpackage
