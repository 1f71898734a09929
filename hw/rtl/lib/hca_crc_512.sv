// CRC (reflected, as ICRC and VCRC) of packets that arrive 64 bytes per beat, one beat per cycle for ever.
// A packet is beats of 64 bytes and an end beat of len_i bytes (1..64, a multiple of Granule). init_i is the
// register before the first byte. crc_o is the register after the last byte, not inverted: it is valid with
// done_o, five cycles after the end beat, and holds until the next done_o. Never stalls.
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

  localparam logic [6:0] LenMask = ~(7'(Granule) - 7'd1);

  // Stage 1: right-align, so that one matrix serves every length (zeros in front change nothing).
  logic         s1_valid_q, s1_first_q, s1_end_q;
  logic [6:0]   s1_len_q;
  crc_t         s1_init_q;
  logic [511:0] s1_data_q;
  // Stage 2: contribution of the data.
  logic         s2_valid_q, s2_first_q, s2_end_q;
  logic [6:0]   s2_len_q;
  crc_t         s2_init_q, s2_data_q;
  // Stage 3: register over full beats; an end beat leaves the loop here, a full one advanced like any other.
  crc_t         state_q, entry, by_64;
  logic         s3_end_q;
  logic [5:0]   s3_len_q;
  crc_t         s3_state_q, s3_data_q;
  // Stages 4 and 5: advance by the length of the end beat, then add its data.
  logic         s4_end_q;
  logic         s4_by_8_q, s4_by_4_q;
  crc_t         s4_state_q, s4_data_q;
  logic         done_q;
  crc_t         crc_q;

  assign entry = s2_first_q ? s2_init_q : state_q;
  assign by_64 = advance(entry, 64);

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
      s1_len_q   <= len_i & LenMask;
      s1_init_q  <= init_i;
      if (end_i) s1_data_q <= data_i << {7'd64 - (len_i & LenMask), 3'b000};
      else s1_data_q <= data_i;
    end
    if (s1_valid_q) begin
      s2_first_q <= s1_first_q;
      s2_end_q   <= s1_end_q;
      s2_len_q   <= s1_len_q;
      s2_init_q  <= s1_init_q;
      for (int unsigned r = 0; r < CrcW; r++) s2_data_q[r] <= ^(s1_data_q & Matrix[r]);
    end
    if (s2_valid_q && !s2_end_q) begin
      state_q <= by_64 ^ s2_data_q;
    end
    if (s2_valid_q && s2_end_q) begin
      s3_state_q <= s2_len_q[6] ? by_64 : entry;
      s3_data_q  <= s2_data_q;
      s3_len_q   <= s2_len_q[5:0];
    end
  end

  logic unused_len;
  assign unused_len = ^s3_len_q[1:0];  // below the granule

  crc_t by_32, by_16, by_8, by_4, by_2;

  always_comb begin
    by_32 = s3_len_q[5] ? advance(s3_state_q, 32) : s3_state_q;
    by_16 = s3_len_q[4] ? advance(by_32, 16) : by_32;
  end

  always_comb begin
    by_8 = s4_by_8_q ? advance(s4_state_q, 8) : s4_state_q;
    by_4 = s4_by_4_q ? advance(by_8, 4) : by_8;
  end

  if (Granule == 2) begin : gen_by_2
    logic s4_by_2_q;

    always_ff @(posedge clk_i) begin
      if (s3_end_q) s4_by_2_q <= s3_len_q[1];
    end

    assign by_2 = s4_by_2_q ? advance(by_4, 2) : by_4;
  end else begin : gen_no_by_2
    assign by_2 = by_4;
  end

  always_ff @(posedge clk_i) begin
    if (s3_end_q) begin
      s4_state_q <= by_16;
      s4_data_q  <= s3_data_q;
      s4_by_8_q  <= s3_len_q[3];
      s4_by_4_q  <= s3_len_q[2];
    end
    if (s4_end_q) crc_q <= by_2 ^ s4_data_q;
  end

  assign done_o = done_q;
  assign crc_o  = crc_q;

endmodule
