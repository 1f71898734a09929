// A beat of 64 bytes turned, in stages of four: each is one LUT for each bit. Two shifts and an OR say the same, and
// open synthesis takes twice as many.
package hca_rotate_pkg;

  // Bytes whose choice of four begins with the lower bit of the number of steps; the others begin with the upper one.
  // If all began alike, each two neighbours had a choice of two in common: the mapper makes what is in common by
  // itself, and what is left are six stages of choices of two.
  localparam logic [511:0] LowerFirst1  = {16{16'h0000, 16'hffff}};
  localparam logic [511:0] LowerFirst4  = {4{64'h0000_0000_0000_0000, 64'hffff_ffff_ffff_ffff}};
  localparam logic [511:0] LowerFirst16 = {256'd0, ~256'd0};

  // Byte 0 goes 0, 1, 2 or 3 steps up.
  function automatic logic [511:0] turned_by(logic [511:0] data, logic [1:0] steps, int unsigned step_bits,
                                             logic [511:0] lower_first);
    logic [511:0] once, twice, thrice, lower, upper;
    once   = (data << step_bits) | (data >> (512 - step_bits));
    twice  = (data << (2 * step_bits)) | (data >> (512 - 2 * step_bits));
    thrice = (data << (3 * step_bits)) | (data >> (512 - 3 * step_bits));
    lower  = steps[1] ? (steps[0] ? thrice : twice) : (steps[0] ? once : data);
    upper  = steps[0] ? (steps[1] ? thrice : once) : (steps[1] ? twice : data);
    return (lower & lower_first) | (upper & ~lower_first);
  endfunction

  // Byte 0 goes to byte `bytes`.
  function automatic logic [511:0] rotate_up(logic [511:0] data, logic [5:0] bytes);
    logic [511:0] by_1, by_4;
    by_1 = turned_by(data, bytes[1:0], 8, LowerFirst1);
    by_4 = turned_by(by_1, bytes[3:2], 32, LowerFirst4);
    return turned_by(by_4, bytes[5:4], 128, LowerFirst16);
  endfunction

endpackage
