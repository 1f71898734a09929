// A beat on its way from the receive buffer to memory (hca_rx_mover): turned from the lanes of the source into those of
// its destination, and merged with what the read before it had left. Gates alone.
// A value that comes with its item is all that there is in its beats, and takes no carry.
module hca_rx_turn
  import hca_pkg::*;
  import hca_rotate_pkg::rotate_up;
(
  input  logic        all_i,        // no carry: the whole beat comes from this read
  input  logic [5:0]  rot_i,        // lanes, upwards
  input  logic        by_value_i,
  input  logic [63:0] value_i,
  input  beat_t       read_i,
  input  beat_t       carry_i,      // turned_o of the read before
  input  logic [5:0]  lane_i,       // first lane written
  input  logic [5:0]  lane_end_i,   // last one
  output beat_t       turned_o,
  output beat_t       data_o,
  output logic [DataBytes-1:0] strb_o
);

  logic [DataBytes-1:0] fresh, kept, of_value;  // lanes of this read, of the one before

  // a >= b in gates: comparisons with each of 64 constants would be 64 carry chains.
  function automatic logic reaches(logic [5:0] a, logic [5:0] b);
    logic yes;
    yes = 1'b1;
    for (int unsigned n = 0; n < 6; n++) yes = (a[n] && !b[n]) || (a[n] == b[n] && yes);
    return yes;
  endfunction

  // Lane i has a byte of the value: one of the eight from `rot` on.
  function automatic logic [DataBytes-1:0] value_lanes(logic [5:0] rot);
    logic [2*DataBytes-1:0] lanes;
    lanes = (2 * DataBytes)'(8'hff) << rot;
    return lanes[DataBytes-1:0] | lanes[2*DataBytes-1:DataBytes];
  endfunction

  assign of_value = value_lanes(rot_i);
  assign turned_o = rotate_up({read_i[DataW-1:64], by_value_i ? value_i : read_i[63:0]}, rot_i);

  always_comb begin
    for (int unsigned i = 0; i < DataBytes; i++) begin
      fresh[i] = by_value_i ? of_value[i] : all_i || reaches(6'(i), rot_i);
      kept[i]  = !by_value_i && !fresh[i];
      data_o[8*i +: 8] = fresh[i] ? turned_o[8*i +: 8] : kept[i] ? carry_i[8*i +: 8] : '0;
      strb_o[i] = reaches(6'(i), lane_i) && reaches(lane_end_i, 6'(i));
    end
  end

endmodule
