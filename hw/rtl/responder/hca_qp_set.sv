// A set of QPs and a walk through it, in the order of their numbers: one member per turn, and a cycle for each 32 QPs
// among which there is one. Who is added behind the walk is met by the next one.
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

  logic [31:0]     set_q [Rows];
  logic [Rows-1:0] some, ahead_q, left;   // rows with a member; rows not begun
  logic [31:0]     rest_q;                // members of row_q not met
  logic [IdxW-1:0] row_q, row_next;
  logic [RowW-1:0] bit_first;

  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) some[r] = set_q[r] != '0;
    left     = some & ahead_q;
    row_next = '0;
    for (int r = Rows - 1; r >= 0; r--) if (left[r]) row_next = IdxW'(r);
    bit_first = '0;
    for (int b = 31; b >= 0; b--) if (rest_q[b]) bit_first = RowW'(b);
  end

  assign valid_o = rest_q != '0;
  assign qpn_o   = {row_q, bit_first};
  assign done_o  = rest_q == '0 && left == '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      for (int unsigned r = 0; r < Rows; r++) set_q[r] <= '0;
    end else begin
      if (drop_i) set_q[drop_qpn_i[QpW-1:RowW]][drop_qpn_i[RowW-1:0]] <= 1'b0;
      for (int unsigned a = 0; a < 2; a++) begin
        if (add_i[a]) set_q[add_qpn_i[a][QpW-1:RowW]][add_qpn_i[a][RowW-1:0]] <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i || !walk_i) begin
      ahead_q <= '1;
      rest_q  <= '0;
    end else if (valid_o) begin
      if (next_i) rest_q <= rest_q & (rest_q - 32'd1);
    end else if (left != '0) begin
      row_q             <= row_next;
      rest_q            <= set_q[row_next];
      ahead_q[row_next] <= 1'b0;
    end
  end

endmodule
