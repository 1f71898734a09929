// Appends the inverted CRC of a packet, low byte first, to a stream of 64-byte beats. ones_i is ORed into
// the first beat for the CRC only; init_i is the register before the first byte. Lengths are multiples of
// four, bytes past the end are zero. Each packet grows by at most one beat; one beat per cycle. A packet
// starts only when its CRC is known or enough of it waits here to hide the CRC's latency. The tag of a packet stands
// beside each of its beats and goes with them. A bare packet, of any length, passes without a CRC.
module hca_crc_append #(
  parameter int unsigned     CrcW = 32,
  parameter int unsigned     TagW = 1,
  parameter logic [CrcW-1:0] Poly = 32'hEDB8_8320
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            in_valid_i,
  output logic            in_ready_o,
  input  logic            in_bare_i,
  input  logic            in_last_i,
  input  logic [6:0]      in_len_bytes_i,
  input  logic [511:0]    in_data_i,
  input  logic [TagW-1:0] in_tag_i,
  input  logic [511:0]    ones_i,
  input  logic [CrcW-1:0] init_i,
  output logic            out_valid_o,
  input  logic            out_ready_i,
  output logic            out_last_o,
  output logic [6:0]      out_len_bytes_o,
  output logic [511:0]    out_data_o,
  output logic [TagW-1:0] out_tag_o
);

  localparam int unsigned Depth    = 16;
  localparam int unsigned CrcDelay = 6;   // cycles from a beat to its CRC in the FIFO
  localparam logic [6:0]  CrcBytes = 7'(CrcW / 8);

  logic            take, first_q;
  logic            head_valid, head_ready, head_last, head_bare;
  logic [6:0]      head_len;
  logic [511:0]    head_data;
  logic [TagW-1:0] head_tag;
  logic [4:0]      head_count;
  logic            done, crc_valid, crc_ready;
  logic [CrcW-1:0] done_crc, crc;

  assign take = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i) begin
    if (rst_i) first_q <= 1'b1;
    else if (take) first_q <= in_last_i;
  end

  hca_fifo #(
    .Width(521 + TagW),
    .Depth(Depth)
  ) u_beats (
    .clk_i,
    .rst_i,
    .in_valid_i,
    .in_ready_o,
    .in_i       ({in_tag_i, in_bare_i, in_last_i, in_len_bytes_i, in_data_i}),
    .out_valid_o(head_valid),
    .out_ready_i(head_ready),
    .out_o      ({head_tag, head_bare, head_last, head_len, head_data}),
    .count_o    (head_count)
  );

  hca_crc_512 #(
    .CrcW   (CrcW),
    .Poly   (Poly),
    .Granule(4)
  ) u_crc (
    .clk_i,
    .rst_i,
    .valid_i(take),
    .first_i(first_q),
    .end_i  (in_last_i),
    .len_i  (in_len_bytes_i),
    .init_i,
    .data_i (first_q ? (in_data_i | ones_i) : in_data_i),
    .done_o (done),
    .crc_o  (done_crc)
  );

  // Never overflows: each CRC here or on its way has its last beat in u_beats.
  logic       unused_crc_ready;
  logic [4:0] unused_crc_count;

  hca_fifo #(
    .Width(CrcW),
    .Depth(Depth)
  ) u_crcs (
    .clk_i,
    .rst_i,
    .in_valid_i (done),
    .in_ready_o (unused_crc_ready),
    .in_i       (~done_crc),
    .out_valid_o(crc_valid),
    .out_ready_i(crc_ready),
    .out_o      (crc),
    .count_o    (unused_crc_count)
  );

  logic         spill_q, started_q, out_valid_q, out_free, fits, appends, go;
  logic         out_last_q;
  logic [6:0]   out_len_q;
  logic [511:0] out_data_q;
  logic [TagW-1:0] out_tag_q;

  assign out_free   = !out_valid_q || out_ready_i;
  assign fits       = head_len != 7'd64 || head_bare;
  assign appends    = head_last && fits && !head_bare;
  assign go         = head_valid && !spill_q &&
                      (crc_valid || (!head_last && (started_q || head_count > 5'(CrcDelay))));
  assign head_ready = go && out_free;
  assign crc_ready  = out_free && (spill_q || (go && head_last && fits));

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      spill_q     <= 1'b0;
      started_q   <= 1'b0;
      out_valid_q <= 1'b0;
    end else if (out_free) begin
      if (go) started_q <= !head_last;
      spill_q     <= go && head_last && !fits;
      out_valid_q <= go || spill_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (out_free && spill_q) begin
      out_last_q <= 1'b1;
      out_len_q  <= CrcBytes;
      out_data_q <= 512'(crc);
    end else if (out_free && go) begin
      out_tag_q  <= head_tag;
      out_last_q <= head_last && fits;
      out_len_q  <= appends ? head_len + CrcBytes : head_len;
      out_data_q <= head_data;
      for (int unsigned at = 0; at < 16; at++) begin
        if (appends && head_len[5:2] == 4'(at)) out_data_q[32*at +: CrcW] <= crc;
      end
    end
  end

  assign out_valid_o     = out_valid_q;
  assign out_last_o      = out_last_q;
  assign out_len_bytes_o = out_len_q;
  assign out_data_o      = out_data_q;
  assign out_tag_o       = out_tag_q;

endmodule
