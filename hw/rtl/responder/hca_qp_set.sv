// A set of QPs and a walk through it, in the order of their numbers: one member per turn, three cycles from a turn's
// end to the next member of its row of 32, six to one of another row. Who is added behind the walk, or in the cycle
// before
// the walk comes by, is met by the next one.
module hca_qp_set
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [1:0]          add_i,
  input  logic [1:0][QpW-1:0] add_qpn_i,
  input  logic           drop_i,       // loses against an add of the same QP
  input  logic [QpW-1:0] drop_qpn_i,
  input  logic           walk_i,       // low: the next walk begins at the start
  output logic           valid_o,      // at qpn_o, held until next_i
  output logic [QpW-1:0] qpn_o,
  input  logic           next_i,
  output logic           done_o        // all have been met, held
);

  localparam int unsigned RowW = 5;
  localparam int unsigned Rows = NumQps >> RowW;
  localparam int unsigned IdxW = QpW - RowW;

  typedef enum logic [2:0] {
    StPick,    // the next row
    StLoad,    // its members
    StFirst,   // the first of them
    StNumber,  // and which one that is
    StOffer
  } state_e;

  state_e          state_q;
  logic [31:0]     set_q [Rows];
  logic [Rows-1:0] some_q, ahead_q, left, pick_q;  // rows with a member; not begun; the one that is loaded
  logic [31:0]     rest_q, lowest, first_q, row;   // rest_q: members of row_q not met; first_q: the first one
  logic [IdxW-1:0] row_q, row_idx;
  logic [RowW-1:0] bit_q, bit_idx;

  assign left   = some_q & ahead_q;
  assign lowest = rest_q & (~rest_q + 32'd1);

  always_comb begin
    row = '0;
    for (int unsigned r = 0; r < Rows; r++) row |= set_q[r] & {32{pick_q[r]}};
  end

  hca_onehot_index #(
    .N(Rows)
  ) u_row (
    .onehot_i(pick_q),
    .idx_o   (row_idx)
  );

  hca_onehot_index #(
    .N(32)
  ) u_bit (
    .onehot_i(first_q),
    .idx_o   (bit_idx)
  );

  assign valid_o = state_q == StOffer;
  assign qpn_o   = {row_q, bit_q};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      for (int unsigned r = 0; r < Rows; r++) set_q[r] <= '0;
    end else begin
      if (drop_i) set_q[drop_qpn_i[QpW-1:RowW]][drop_qpn_i[RowW-1:0]] <= 1'b0;
      for (int unsigned a = 0; a < 2; a++) begin
        if (add_i[a]) set_q[add_qpn_i[a][QpW-1:RowW]][add_qpn_i[a][RowW-1:0]] <= 1'b1;
      end
    end
    for (int unsigned r = 0; r < Rows; r++) some_q[r] <= set_q[r] != '0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i || !walk_i) begin
      state_q <= StPick;
      ahead_q <= '1;
      done_o  <= 1'b0;
    end else begin
      done_o <= state_q == StPick && left == '0;
      unique case (state_q)
        StPick:  if (left != '0) state_q <= StLoad;
        StLoad: begin
          state_q <= StFirst;
          ahead_q <= ahead_q & ~pick_q;
        end
        StFirst:  state_q <= (rest_q != '0) ? StNumber : StPick;
        StNumber: state_q <= StOffer;
        default: if (next_i) state_q <= StFirst;
      endcase
    end
    if (state_q == StPick) pick_q <= left & (~left + Rows'(1));
    if (state_q == StLoad) begin
      row_q  <= row_idx;
      rest_q <= row;
    end
    if (state_q == StFirst) begin
      first_q <= lowest;
      rest_q  <= rest_q & ~lowest;
    end
    if (state_q == StNumber) bit_q <= bit_idx;
  end

endmodule
