// Toeplitz hash of receive side scaling: bit b of it, the first the most significant, is the parity of all bits of
// the data whose place plus b is a one of the key. Byte 0 of key and data is bits 7:0 and the first; in a byte the most
// significant bit is. Data behind its end is 0, which adds nothing. A hash per cycle, two cycles after its data.
module hca_toeplitz #(
  localparam int unsigned KeyBytes  = 40,
  localparam int unsigned DataBytes = KeyBytes - 4
) (
  input  logic                   clk_i,
  input  logic [8*KeyBytes-1:0]  key_i,
  input  logic [8*DataBytes-1:0] data_i,
  output logic [31:0]            hash_o
);

  localparam int unsigned Bits   = 8 * DataBytes;
  localparam int unsigned Groups = 16;              // each two levels of 6-input tables deep
  localparam int unsigned GroupW = Bits / Groups;

  // Place 0 is the first bit.
  logic [8*KeyBytes-1:0] key;
  logic [Bits-1:0]       data;
  logic [31:0][Groups-1:0] part_q;
  logic [31:0]             hash_q;

  for (genvar i = 0; i < 8 * KeyBytes; i++) begin : gen_key
    assign key[i] = key_i[8*(i/8) + 7 - i%8];
  end
  for (genvar i = 0; i < Bits; i++) begin : gen_data
    assign data[i] = data_i[8*(i/8) + 7 - i%8];
  end

  for (genvar b = 0; b < 32; b++) begin : gen_bit
    always_ff @(posedge clk_i) begin
      for (int unsigned g = 0; g < Groups; g++) begin
        part_q[b][g] <= ^(data[GroupW*g +: GroupW] & key[GroupW*g + b +: GroupW]);
      end
      hash_q[31-b] <= ^part_q[b];
    end
  end

  assign hash_o = hash_q;

endmodule
