// A set of QPs and a walk through it, row by row of 32 of them: one member per turn, three cycles from a turn's
// end to the next member of its row of 32, seven to one of another row, if nobody comes in between. Who is added behind
// the walk, or in the four cycles before the walk comes by, is met by the next one.
//
// Members are bits of rows in a RAM, with a flop per row. Adds, a drop and the walk take turns at it: add [0] goes at
// once, the others when they can. Add [0] comes every second cycle at most, add [1] and drops every eighth.
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

  localparam int unsigned BitW = 5;
  localparam int unsigned Rows = NumQps >> BitW;
  localparam int unsigned RowW = QpW - BitW;

  typedef enum logic [1:0] {OpNone, OpAdd, OpDrop, OpLoad} op_e;

  typedef enum logic [2:0] {
    StPick,    // the next row
    StIndex,   // its number
    StLoad,    // until it has its turn at the RAM
    StRow,     // its members
    StFirst,   // the first of them
    StNumber,  // and which one that is
    StOffer
  } state_e;

  // ---- Who has the RAM ---------------------------------------------------------------------------------------
  op_e             op_q, op_d;
  logic [QpW-1:0]  op_qpn_q, op_qpn_d, late_qpn_q, drop_qpn_q;
  logic            late_q, drop_q, late_done, drop_done;
  state_e          state_q;
  logic [RowW-1:0] row_q, row_idx;

  always_comb begin
    late_done = 1'b0;
    drop_done = 1'b0;
    op_d      = OpNone;
    op_qpn_d  = {row_q, BitW'(0)};
    if (add_i[0]) begin
      op_d     = OpAdd;
      op_qpn_d = add_qpn_i[0];
    end else if (late_q) begin
      op_d      = OpAdd;
      op_qpn_d  = late_qpn_q;
      late_done = 1'b1;
    end else if (drop_q) begin
      op_d      = OpDrop;
      op_qpn_d  = drop_qpn_q;
      drop_done = 1'b1;
    end else if (state_q == StLoad) begin
      op_d = OpLoad;
    end
  end

  // Is the QP of a drop added, when it comes and while it waits?
  function automatic logic is_added(logic [QpW-1:0] qpn);
    return (add_i[0] && add_qpn_i[0] == qpn) || (add_i[1] && add_qpn_i[1] == qpn) || (late_q && late_qpn_q == qpn);
  endfunction

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      op_q   <= OpNone;
      late_q <= 1'b0;
      drop_q <= 1'b0;
    end else begin
      op_q   <= op_d;
      late_q <= add_i[1] || (late_q && !late_done);
      drop_q <= drop_i ? !is_added(drop_qpn_i) : drop_q && !drop_done && !is_added(drop_qpn_q);
    end
    if (op_d != OpNone) op_qpn_q <= op_qpn_d;
    if (add_i[1]) late_qpn_q <= add_qpn_i[1];
    if (drop_i) drop_qpn_q <= drop_qpn_i;
  end

  // ---- Rows --------------------------------------------------------------------------------------------------
  logic [Rows-1:0] some_q;              // rows that have members; of others the RAM says nothing
  logic            changes, written_q, dropped_q;
  logic [31:0]     rdata, row, row_new, row_new_q, bit_mask;
  logic [RowW-1:0] op_row, written_row_q;

  assign op_row   = op_qpn_q[QpW-1:BitW];
  assign bit_mask = 32'd1 << op_qpn_q[BitW-1:0];
  // A row that was written in the cycle before was not there yet when it was read.
  assign row      = (written_q && written_row_q == op_row) ? row_new_q : some_q[op_row] ? rdata : '0;
  assign row_new  = (op_q == OpAdd) ? row | bit_mask : row & ~bit_mask;
  assign changes  = op_q == OpAdd || op_q == OpDrop;

  hca_ram_1r1w #(
    .Width(32),
    .Depth(Rows)
  ) u_rows (
    .clk_i,
    .we_i   (changes),
    .waddr_i(op_row),
    .wdata_i(row_new),
    .re_i   (op_d != OpNone),
    .raddr_i(op_qpn_d[QpW-1:BitW]),
    .rdata_o(rdata)
  );

  always_ff @(posedge clk_i) begin
    written_q <= !rst_i && changes;
    if (changes) begin
      written_row_q <= op_row;
      row_new_q     <= row_new;
    end
    dropped_q <= !rst_i && op_q == OpDrop;
    // A row that has lost its last member is still there for a cycle.
    if (rst_i) begin
      some_q <= '0;
    end else begin
      if (dropped_q) some_q[written_row_q] <= row_new_q != '0;
      if (op_q == OpAdd) some_q[op_row] <= 1'b1;
    end
  end

  // ---- Walk --------------------------------------------------------------------------------------------------
  logic [Rows-1:0] ahead_q, left, pick_q;    // rows not begun; of them those with a member; the next one
  logic [31:0]     rest_q, lowest, first_q;  // members of row_q not met; the first one
  logic [BitW-1:0] bit_q, bit_idx;

  assign left   = some_q & ahead_q;
  assign lowest = rest_q & (~rest_q + 32'd1);

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
    if (rst_i || !walk_i) begin
      state_q <= StPick;
      ahead_q <= '1;
      done_o  <= 1'b0;
    end else begin
      done_o <= state_q == StPick && left == '0;
      unique case (state_q)
        StPick:   if (left != '0) state_q <= StIndex;
        StIndex: begin
          state_q <= StLoad;
          ahead_q <= ahead_q & ~pick_q;
        end
        StLoad:   if (op_d == OpLoad) state_q <= StRow;
        StRow:    state_q <= StFirst;
        StFirst:  state_q <= (rest_q != '0) ? StNumber : StPick;
        StNumber: state_q <= StOffer;
        default:  if (next_i) state_q <= StFirst;
      endcase
    end
    if (state_q == StPick) pick_q <= left & (~left + Rows'(1));
    if (state_q == StIndex) row_q <= row_idx;
    if (state_q == StRow) rest_q <= row;
    if (state_q == StFirst) begin
      first_q <= lowest;
      rest_q  <= rest_q & ~lowest;
    end
    if (state_q == StNumber) bit_q <= bit_idx;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert (!(add_i[1] && late_q && !late_done)) else $error("hca_qp_set: an add before the last one had its turn");
      assert (!(drop_i && drop_q && !drop_done)) else $error("hca_qp_set: a drop before the last one had its turn");
    end
  end
`endif

endmodule
