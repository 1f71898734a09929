// The number of the one bit that is set; 0 if there is none. A reduction per bit of the number, no walk.
module hca_onehot_index #(
  parameter int unsigned N = 2,
  localparam int unsigned IdxW = (N > 1) ? $clog2(N) : 1
) (
  input  logic [N-1:0]    onehot_i,
  output logic [IdxW-1:0] idx_o
);

  // Bit b of the number of each position.
  function automatic logic [IdxW-1:0][N-1:0] number_bits();
    logic [IdxW-1:0][N-1:0] bits;
    for (int unsigned b = 0; b < IdxW; b++) begin
      for (int unsigned i = 0; i < N; i++) bits[b][i] = ((i >> b) & 1) != 0;
    end
    return bits;
  endfunction

  localparam logic [IdxW-1:0][N-1:0] NumberBits = number_bits();

  for (genvar b = 0; b < int'(IdxW); b++) begin : gen_idx
    assign idx_o[b] = (onehot_i & NumberBits[b]) != '0;
  end

endmodule
