// Fills in the checksums of frames that ask for it (OP-17): of the IPv4 header, and of TCP or UDP in it. The sum is
// known behind the last byte, so such a frame is stored whole and goes on six cycles after its last beat; one at a
// time. What hca_frame_sums does not vouch for stays as it is. Every other packet passes at once, without a register.
module hca_tx_csum
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_i,
  input  logic     in_valid_i,
  output logic     in_ready_o,
  input  tx_beat_t in_i,
  output logic     out_valid_o,
  input  logic     out_ready_i,
  output tx_beat_t out_o
);

  localparam int unsigned Beats = 128;   // more than a frame has
  localparam int unsigned Wait  = 5;     // cycles from the last beat to its sums

  typedef enum logic [1:0] {StPass, StFill, StWait, StDrain} state_e;

  state_e       state_q;
  logic         first_q, drain_first_q;   // the next beat in, out, is a packet's first
  logic [2:0]   wait_q;
  logic         fill, pass, held_valid, held_ready, held_last, unused_ready;
  logic [6:0]   held_len;
  beat_t        held_data, patched;
  frame_sums_t  sums;
  logic         unused_sums;
  logic [PortW-1:0] port_q;
  logic [$clog2(Beats):0] unused_count;

  assign unused_sums = sums.no_csum;
  assign pass       = state_q == StPass && !(first_q && in_i.csum);
  assign fill       = in_valid_i && (state_q == StFill || (state_q == StPass && !pass));
  assign in_ready_o = (state_q == StFill) || (state_q == StPass && (!pass || out_ready_i));

  hca_fifo #(
    .Width(520),
    .Depth(Beats)
  ) u_beats (
    .clk_i,
    .rst_i,
    .in_valid_i (fill),
    .in_ready_o (unused_ready),
    .in_i       ({in_i.last, in_i.len_bytes, in_i.data}),
    .out_valid_o(held_valid),
    .out_ready_i(held_ready),
    .out_o      ({held_last, held_len, held_data}),
    .count_o    (unused_count)
  );

  hca_frame_sums #(
    .SkipFields(1'b1)
  ) u_sums (
    .clk_i,
    .valid_i(fill),
    .first_i(first_q),
    .last_i (in_i.last),
    .len_i  (in_i.len_bytes),
    .data_i (in_i.data),
    .sums_o (sums)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StPass;
      first_q <= 1'b1;
    end else begin
      if (in_valid_i && in_ready_o) first_q <= in_i.last;
      unique case (state_q)
        StPass:  if (fill) state_q <= in_i.last ? StWait : StFill;
        StFill:  if (fill && in_i.last) state_q <= StWait;
        StWait:  if (wait_q == '0) state_q <= StDrain;
        default: if (held_valid && held_ready && held_last) state_q <= StPass;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    wait_q <= (state_q == StWait) ? wait_q - 1'b1 : 3'(Wait - 1);
    if (state_q != StDrain) drain_first_q <= 1'b1;
    else if (held_valid && held_ready) drain_first_q <= 1'b0;
    if (state_q == StPass && fill) port_q <= in_i.port;
  end

  // UDP: 0 would mean that there is none (RFC 768).
  logic [15:0] l4_csum;
  logic [5:0]  l4_at;

  assign l4_csum = (sums.is_udp && sums.l4 == '1) ? '1 : ~sums.l4;
  assign l4_at   = (sums.vlan ? 6'd38 : 6'd34) + (sums.is_udp ? 6'd6 : 6'd16);

  always_comb begin
    patched = held_data;
    if (drain_first_q && sums.is_ip) begin
      if (sums.vlan) patched[8*28 +: 16] = swap16(~sums.ip);
      else patched[8*24 +: 16] = swap16(~sums.ip);
    end
    if (drain_first_q && sums.is_l4) patched[{l4_at, 3'b000} +: 16] = swap16(l4_csum);
  end

  assign held_ready  = state_q == StDrain && out_ready_i;
  assign out_valid_o = (state_q == StDrain) ? held_valid : pass && in_valid_i;

  always_comb begin
    out_o = in_i;
    if (state_q == StDrain) begin
      out_o = '{port: port_q, l3: L3Raw, csum: 1'b0, round: '0, last: held_last, len_bytes: held_len, data: patched};
    end
  end

endmodule
