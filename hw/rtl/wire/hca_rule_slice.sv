// Five bits of the key of frames: which rules accept each of the values that they may have, in a RAM of LUTs. Looked up
// in the same cycle, at one place; one rule's bit of one value is set beside it.
module hca_rule_slice #(
  parameter int unsigned Rules = 32
) (
  input  logic             clk_i,
  input  logic             set_valid_i,
  input  logic [Rules-1:0] set_rule_i,   // one-hot
  input  logic [4:0]       set_bits_i,
  input  logic             accepts_i,
  input  logic [4:0]       bits_i,
  output logic [Rules-1:0] accept_o
);

  logic [Rules-1:0] accept [32];

  always_ff @(posedge clk_i) begin
    if (set_valid_i) begin
      accept[set_bits_i] <= accepts_i ? accept[set_bits_i] | set_rule_i : accept[set_bits_i] & ~set_rule_i;
    end
  end

  assign accept_o = accept[bits_i];

endmodule
