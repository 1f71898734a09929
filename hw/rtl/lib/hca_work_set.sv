// A set of numbers that have work, and a walk around it: a member leaves when it is offered and taken, and comes back
// by being added again, behind all others. Who is added twice is in it once; nothing is ever full.
//
// Members are bits of rows in a RAM, with a flop per row. An add takes two cycles, so does the load of the next row;
// they take turns. A lone member is offered again four cycles after it was added at the earliest.
module hca_work_set #(
  parameter  int unsigned Items = 2048,
  localparam int unsigned ItemW = $clog2(Items)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             add_valid_i,
  output logic             add_ready_o,
  input  logic [ItemW-1:0] add_i,
  output logic             out_valid_o,
  input  logic             out_ready_i,
  output logic [ItemW-1:0] out_o
);

  localparam int unsigned BitW = 5;
  localparam int unsigned RowW = ItemW - BitW;
  localparam int unsigned Rows = 1 << RowW;

  if (Items < 64 || (Items & (Items - 1)) != 0) begin : gen_bad_items
    $error("hca_work_set: Items must be a power of two, 64 or more");
  end

  typedef enum logic [1:0] {
    OpNone,
    OpAdd,
    OpLoad
  } op_e;

  op_e             op_q, op_d;
  logic [Rows-1:0] some_q;            // rows that have members; of others the RAM says nothing
  logic [Rows-1:0] ahead, above_q, pick_q;  // above_q: rows behind row_q; pick_q: the next one
  logic [ItemW-1:0] add_q;             // in the second cycle of an add: add_i, which stands
  logic [RowW-1:0] row_q, next, add_row;
  logic            any_q, empty_q, load_first_q, is_next, in_rest, enter;
  logic [31:0]     rest_q, row, rdata;      // rest_q: members of row_q that were taken out of the RAM, not offered yet
  logic [31:0]     lowest;
  logic [BitW-1:0] first;

  assign add_row = add_q[ItemW-1:BitW];
  // Who is taken in this very cycle is in it no more.
  assign lowest  = rest_q & (~rest_q + 1'b1);
  assign is_next = (rest_q & ~('1 << add_q[BitW-1:0])) == '0;   // if it is in it: lowest, without its chain
  assign in_rest = row_q == add_row && rest_q[add_q[BitW-1:0]] && !(out_ready_i && is_next);
  assign row     = (some_q[add_row] ? rdata : '0) | 32'd1 << add_q[BitW-1:0];
  assign enter   = op_q == OpAdd && !in_rest;

  // The next row behind row_q, around. It is a cycle old when it is used: only a load takes flags away, and two cycles
  // at least pass from one load to the next.
  assign ahead = some_q & above_q;
  always_ff @(posedge clk_i) pick_q <= (ahead != '0) ? ahead & (~ahead + 1'b1) : some_q & (~some_q + 1'b1);

  hca_onehot_index #(
    .N(Rows)
  ) u_next (
    .onehot_i(pick_q),
    .idx_o   (next)
  );

  hca_onehot_index #(
    .N(32)
  ) u_first (
    .onehot_i(lowest),
    .idx_o   (first)
  );

  always_comb begin
    op_d = OpNone;
    if (op_q == OpNone) begin
      if (any_q && empty_q && (load_first_q || !add_valid_i)) op_d = OpLoad;
      else if (add_valid_i) op_d = OpAdd;
    end
  end

  hca_ram_1r1w #(
    .Width(32),
    .Depth(Rows)
  ) u_rows (
    .clk_i,
    .we_i   (enter),
    .waddr_i(add_row),
    .wdata_i(row),
    .re_i   (op_d != OpNone),
    .raddr_i((op_d == OpLoad) ? next : add_i[ItemW-1:BitW]),
    .rdata_o(rdata)
  );

  assign add_ready_o = op_q == OpAdd;
  assign out_valid_o = rest_q != '0;
  assign out_o       = {row_q, first};

  always_ff @(posedge clk_i) begin
    add_q <= add_i;
    if (rst_i) begin
      op_q         <= OpNone;
      some_q       <= '0;
      any_q        <= 1'b0;
      empty_q      <= 1'b1;
      rest_q       <= '0;
      row_q        <= '0;
      above_q      <= ~Rows'(1);
      load_first_q <= 1'b0;
    end else begin
      op_q    <= op_d;
      // Right from two cycles after a load on; any_q is low before.
      empty_q <= rest_q == '0;
      any_q   <= some_q != '0 && op_d != OpLoad && op_q != OpLoad;
      if (op_d != OpNone) load_first_q <= op_d == OpAdd;
      if (enter) some_q[add_row] <= 1'b1;
      if (op_d == OpLoad) begin
        row_q   <= next;
        above_q <= ~(pick_q | (pick_q - 1'b1));
      end
      if (op_q == OpLoad) begin
        some_q[row_q] <= 1'b0;
        rest_q        <= rdata;
      end else if (out_valid_o && out_ready_i) begin
        rest_q <= rest_q & ~lowest;
      end
    end
  end

`ifndef SYNTHESIS
  logic             asked_q;
  logic [ItemW-1:0] asked_for_q;
  always_ff @(posedge clk_i) begin
    asked_q     <= !rst_i && add_valid_i && !add_ready_o;
    asked_for_q <= add_i;
    if (!rst_i && asked_q) begin
      assert (add_valid_i && add_i == asked_for_q) else $error("hca_work_set: an add was withdrawn");
    end
    if (!rst_i) assert (op_q != OpLoad || rdata != '0) else $error("hca_work_set: row %0d is empty", row_q);
  end
`endif

endmodule
