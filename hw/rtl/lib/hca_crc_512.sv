// CRC (reflected, as ICRC and VCRC) of packets that arrive 64 bytes per beat, one beat per cycle for ever.
// A packet is beats of 64 bytes and an end beat of len_i bytes (1..64, a multiple of Granule). init_i is the
// register before the first byte. crc_o is the register after the last byte, not inverted: it is valid with
// done_o, five cycles after the end beat, and holds until the next done_o. Never stalls.
//
// An end beat counts as a full one with zeros behind its end, and then the register goes back over them: every step of
// a CRC can be undone. So one matrix serves every length, and no data has to be shifted.
//
// What a beat leaves modulo a multiple of the polynomial leaves the same modulo the polynomial. A multiple of few terms
// takes a bit of the beat to a few places behind it, and what is left in the end is shorter: fewer XORs than one matrix
// (decision 0095).
module hca_crc_512 #(
  parameter int unsigned       CrcW    = 32,
  parameter logic [CrcW-1:0]   Poly    = 32'hEDB8_8320,  // reflected
  parameter int unsigned       Granule = 4               // 4 or 2 bytes
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            valid_i,
  input  logic            first_i,
  input  logic            end_i,
  input  logic [6:0]      len_i,   // read on the end beat only
  input  logic [CrcW-1:0] init_i,  // read on the first beat only
  input  logic [511:0]    data_i,
  output logic            done_o,
  output logic [CrcW-1:0] crc_o
);

  typedef logic [CrcW-1:0][511:0] matrix_t;
  typedef logic [CrcW-1:0]        crc_t;

  // Row r: the data bits whose XOR is bit r of the register after a beat that started from register zero.
  // The column of bit i is the register after a one in that bit alone.
  function automatic matrix_t data_matrix();
    matrix_t m;
    crc_t    column;
    column = Poly;
    for (int unsigned i = 0; i < 512; i++) begin
      for (int unsigned r = 0; r < CrcW; r++) m[r][511 - i] = column[r];
      column = (column >> 1) ^ (column[0] ? Poly : '0);
    end
    return m;
  endfunction

  localparam matrix_t Matrix = data_matrix();

  // The register after n zero bytes: the register itself enters as the first bits of those n bytes.
  function automatic crc_t advance(crc_t state, int unsigned n);
    crc_t next;
    for (int unsigned r = 0; r < CrcW; r++) next[r] = ^(state & Matrix[r][512 - 8 * n +: CrcW]);
    return next;
  endfunction

  // The multiple: its degree, and how far behind a bit of the beat those are that stand for it. ShiftD 0: none.
  localparam int unsigned FoldW  = (CrcW == 32) ? 300 : 206;
  localparam int unsigned ShiftA = (CrcW == 32) ? 145 : 130;   // the shortest
  localparam int unsigned ShiftB = (CrcW == 32) ? 183 : 145;
  localparam int unsigned ShiftC = (CrcW == 32) ? 211 : 195;
  localparam int unsigned ShiftD = (CrcW == 32) ? 300 : 0;

  // The same value modulo the multiple, in the last FoldW bits.
  function automatic logic [511:0] folded(logic [511:0] data);
    logic [511:0] rest, part;
    rest = data;
    for (int unsigned at = 0; at < 512 - FoldW; at += ShiftA) begin
      part = rest & ~('1 << (at + ShiftA)) & ~('1 << (512 - FoldW));   // what is in front of it is zero by now
      rest = rest ^ part ^ (part << ShiftA) ^ (part << ShiftB) ^ (part << ShiftC);
      if (ShiftD != 0) rest = rest ^ (part << ShiftD);
    end
    return rest;
  endfunction

  // The register after a one in this bit of the beat: the same as after what the first bit is folded into.
  function automatic crc_t after_bit(logic [8:0] at);
    for (int unsigned r = 0; r < CrcW; r++) after_bit[r] = Matrix[r][at];
  endfunction

  localparam crc_t Folded = after_bit(9'(ShiftA)) ^ after_bit(9'(ShiftB)) ^ after_bit(9'(ShiftC))
                            ^ ((ShiftD != 0) ? after_bit(9'(ShiftD)) : '0);
  if (Folded != after_bit('0)) begin : gen_no_multiple
    $error("hca_crc_512: the shifts are of no multiple of this polynomial");
  end

  typedef logic [CrcW-1:0][CrcW-1:0] square_t;

  // The register of so many zero bytes ago differs from that of now by this. The bit that a step shifts out is the one
  // at the top after it, for the polynomial has that one.
  function automatic square_t back_matrix(int unsigned bytes);
    square_t m;
    crc_t    was;
    for (int unsigned c = 0; c < CrcW; c++) begin
      was = crc_t'(1) << c;
      for (int unsigned i = 0; i < 8 * bytes; i++) begin
        was = was[CrcW-1] ? ((was ^ Poly) << 1) | crc_t'(1) : was << 1;
      end
      for (int unsigned r = 0; r < CrcW; r++) m[r][c] = was[r] ^ (r == c);
    end
    return m;
  endfunction

  localparam square_t Back32 = back_matrix(32);
  localparam square_t Back16 = back_matrix(16);
  localparam square_t Back8  = back_matrix(8);
  localparam square_t Back4  = back_matrix(4);
  localparam square_t Back2  = back_matrix(2);

  function automatic crc_t go_back(logic steps, square_t m, crc_t state);
    for (int unsigned r = 0; r < CrcW; r++) go_back[r] = state[r] ^ (steps & ^(state & m[r]));
  endfunction

  localparam logic [6:0] LenMask = ~(7'(Granule) - 7'd1);

  // Stage 1: nothing behind the end.
  logic         s1_valid_q, s1_first_q, s1_end_q;
  logic [5:0]   s1_back_q;    // bytes from the end to the end of the beat
  crc_t         s1_init_q;
  logic [511:0] s1_data_q, s1_folded;
  logic [6:0]   len;
  // Stage 2: contribution of the data.
  logic         s2_valid_q, s2_first_q, s2_end_q;
  logic [5:0]   s2_back_q;
  crc_t         s2_init_q, s2_data_q;
  // Stage 3: register over whole beats; behind an end beat it leaves the loop.
  crc_t         state_q, entry, after;
  logic         s3_end_q;
  logic [5:0]   s3_back_q;
  // Stages 4 and 5: back by 32 and 16, then by what is left of them.
  logic         s4_end_q;
  logic [3:0]   s4_back_q;
  crc_t         s4_state_q, s4_state, s5_state, by_4;
  logic         done_q;
  crc_t         crc_q;

  logic unused_back;
  assign unused_back = s4_back_q[0];

  assign len   = len_i & LenMask;
  assign entry = s2_first_q ? s2_init_q : state_q;
  assign after = advance(entry, 64) ^ s2_data_q;

  assign s1_folded = folded(s1_data_q);
  assign by_4      = go_back(s4_back_q[3], Back8, go_back(s4_back_q[2], Back4, s4_state_q));
  assign s4_state  = go_back(s3_back_q[4], Back16, go_back(s3_back_q[5], Back32, state_q));
  assign s5_state  = go_back(s4_back_q[1], Back2, by_4);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_end_q   <= 1'b0;
      s4_end_q   <= 1'b0;
      done_q     <= 1'b0;
    end else begin
      s1_valid_q <= valid_i;
      s2_valid_q <= s1_valid_q;
      s3_end_q   <= s2_valid_q && s2_end_q;
      s4_end_q   <= s3_end_q;
      done_q     <= s4_end_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      s1_first_q <= first_i;
      s1_end_q   <= end_i;
      s1_back_q  <= (6'd0 - len[5:0]) & LenMask[5:0];   // a difference hides that its low bits are 0
      s1_init_q  <= init_i;
      for (int unsigned at = 0; at < 64; at += Granule) begin
        if (end_i && len <= 7'(at)) s1_data_q[8*at +: 8*Granule] <= '0;
        else s1_data_q[8*at +: 8*Granule] <= data_i[8*at +: 8*Granule];
      end
    end
    if (s1_valid_q) begin
      s2_first_q <= s1_first_q;
      s2_end_q   <= s1_end_q;
      s2_back_q  <= s1_back_q;
      s2_init_q  <= s1_init_q;
      for (int unsigned r = 0; r < CrcW; r++) s2_data_q[r] <= ^(s1_folded & Matrix[r]);
    end
    if (s2_valid_q) begin
      state_q   <= after;
      s3_back_q <= s2_back_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (s3_end_q) begin
      s4_state_q <= s4_state;
      s4_back_q  <= s3_back_q[3:0];
    end
    if (s4_end_q) crc_q <= s5_state;
  end

  assign done_o = done_q;
  assign crc_o  = crc_q;

endmodule
