// The number of the lowest bit that is set, and of the lowest one behind a place. Groups of some bits say each whether
// they have one, and which; behind the place the rest of its own group counts first, then the groups above. So both
// searches share what the groups say. Combinational; a number counts only where there is one.
module hca_low_index #(
  parameter  int unsigned N    = 4,          // power of two, at least 2
  localparam int unsigned IdxW = $clog2(N)
) (
  input  logic [N-1:0]    bits_i,
  input  logic [IdxW-1:0] place_i,
  output logic            none_o,
  output logic [IdxW-1:0] idx_o,
  output logic            wraps_o,   // none is behind the place
  output logic [IdxW-1:0] behind_o
);

  localparam int unsigned LowW   = (IdxW + 1) / 2;
  localparam int unsigned Size   = 1 << LowW;       // bits of a group
  localparam int unsigned Groups = N / Size;

  // By pairs, pairs of pairs: the lower half's number, if it has one.
  function automatic logic [LowW-1:0] low_of(logic [Size-1:0] bits);
    logic [Size-1:0][LowW-1:0] number;
    logic [Size-1:0]           some;
    some   = bits;
    number = '0;
    for (int unsigned b = 0; b < LowW; b++) begin
      for (int unsigned i = 0; i < (Size >> (b + 1)); i++) begin
        number[i]    = some[2*i] ? number[2*i] : number[2*i+1];
        number[i][b] = !some[2*i];
        some[i]      = some[2*i] || some[2*i+1];
      end
    end
    return number[0];
  endfunction

  // Number of the first group that has one, three to a LUT: a number goes through with what selects it.
  function automatic logic [IdxW-1:0] first_of(logic [Groups-1:0] some_in, logic [Groups-1:0][IdxW-1:0] number_in);
    logic [Groups+1:0]           some;
    logic [Groups+1:0][IdxW-1:0] number;
    some   = (Groups + 2)'(some_in);
    number = ((Groups + 2) * IdxW)'(number_in);
    for (int unsigned width = Groups; width > 1; width = (width + 2) / 3) begin
      for (int unsigned i = 0; i < (width + 2) / 3; i++) begin
        number[i] = some[3*i] ? number[3*i] : some[3*i+1] ? number[3*i+1] : number[3*i+2];
        some[i]   = some[3*i +: 3] != '0;
      end
      for (int unsigned i = (width + 2) / 3; i < width; i++) some[i] = 1'b0;
    end
    return number[0];
  endfunction

  logic [Groups-1:0]           has, above, own;    // it has one; has one and is above the place's; is the place's
  logic [Groups-1:0][IdxW-1:0] lowest;             // number of its lowest one
  logic [Size-1:0]             rest;               // of the place's own group, behind it
  logic [IdxW-1:0]             next;

  // Places behind: of groups, and inside the own one.
  logic [Groups-1:0] groups_behind;
  logic [Size-1:0]   bits_behind;

  assign groups_behind = ({Groups{1'b1}} << (place_i >> LowW)) << 1;
  assign bits_behind   = ({Size{1'b1}} << place_i[LowW-1:0]) << 1;

  for (genvar g = 0; g < int'(Groups); g++) begin : gen_group
    assign has[g]    = bits_i[g*Size +: Size] != '0;
    assign lowest[g] = IdxW'(g * Size) | IdxW'(low_of(bits_i[g*Size +: Size]));
    assign own[g]    = (place_i >> LowW) == IdxW'(g);
    assign above[g]  = has[g] && groups_behind[g];
  end

  for (genvar i = 0; i < int'(Size); i++) begin : gen_rest
    logic [Groups-1:0] bits;
    for (genvar g = 0; g < int'(Groups); g++) begin : gen_bit
      assign bits[g] = bits_i[g*Size + i];
    end
    assign rest[i] = bits_behind[i] && (bits & own) != '0;
  end

  assign none_o   = has == '0;
  assign idx_o    = first_of(has, lowest);
  assign next     = first_of(above, lowest);
  assign wraps_o  = rest == '0 && above == '0;
  assign behind_o = (rest == '0) ? next : (place_i & ~IdxW'(Size - 1)) | IdxW'(low_of(rest));

endmodule
