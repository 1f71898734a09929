// Proof of hca_work_set: who was added is in it once, until it is taken; nobody else is offered; an offer stays until
// it is taken. Fair: while one waits, another one of its row is taken twice at most, any other once.
module fv_work_set #(
  parameter int unsigned Items = 64,
  localparam int unsigned ItemW = $clog2(Items)
) (
  input logic             clk_i,
  input logic             add_valid_i,
  input logic [ItemW-1:0] add_i,
  input logic             out_ready_i
);
  localparam logic [1:0] OpAdd = 2'd1, OpLoad = 2'd2;   // hca_work_set's op_e

  logic             rst_q = 1'b1;
  logic             add_ready, out_valid, added, taken, other_taken, member_q, held_q, asked_q, same_row;
  logic [ItemW-1:0] out, out_q, add_q, watched_q, other_q;
  logic [1:0]       passed_q;   // the other one was taken while the watched one was in
  logic             in_row, in_rest, in_load, other_in_rest;
  logic             watched_row, watched_set, rest_set;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_work_set #(.Items(Items)) u_dut (
    .clk_i, .rst_i(rst_q), .add_valid_i, .add_ready_o(add_ready), .add_i, .out_valid_o(out_valid), .out_ready_i,
    .out_o(out)
  );

  assign added       = add_valid_i && add_ready && add_i == watched_q;
  assign taken       = out_valid && out_ready_i && out == watched_q;
  assign other_taken = out_valid && out_ready_i && out == other_q;
  assign same_row    = other_q[ItemW-1:5] == watched_q[ItemW-1:5];

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    other_q   <= other_q;
    out_q     <= out;
    add_q     <= add_i;
    asked_q   <= !rst_q && add_valid_i && !add_ready;
    held_q    <= !rst_q && out_valid && !out_ready_i;
    member_q  <= !rst_q && (added || (member_q && !taken));
    if (rst_q || !member_q || taken) passed_q <= '0;
    else if (other_taken && passed_q != '1) passed_q <= passed_q + 1'b1;
  end

  // The places of the watched one.
  assign watched_row   = watched_q[ItemW-1:5];
  assign watched_set   = u_dut.u_rows.mem[watched_row][watched_q[4:0]];
  assign rest_set      = u_dut.rest_q[watched_q[4:0]];
  assign in_rest       = u_dut.row_q == watched_row && rest_set;
  assign in_load       = u_dut.op_q == OpLoad && u_dut.row_q == watched_row;
  assign in_row        = u_dut.some_q[watched_row] && watched_set;
  assign other_in_rest = u_dut.row_q == other_q[ItemW-1:5] && u_dut.rest_q[other_q[4:0]];

  always_ff @(posedge clk_i) begin
    if (!rst_q && asked_q) m_add: assume (add_valid_i && add_i == add_q);
    if (!rst_q && watched_q != other_q) begin
      if (out_valid && out == watched_q) a_member: assert (member_q);
      if (member_q) a_inside: assert (in_row || in_rest);
      if (held_q) a_held: assert (out_valid && out == out_q);
      a_fair: assert (passed_q <= (same_row ? 2'd2 : 2'd1));
      h_one_place: assert (!(in_row && in_rest));
      h_places: assert (member_q == (in_row || in_rest));
      // The RAM's answer is that of the row it was asked for.
      if (u_dut.op_q == OpLoad) begin
        h_load: assert (u_dut.rest_q == '0 && u_dut.some_q[u_dut.row_q]);
        h_loaded: assert (u_dut.rdata == u_dut.u_rows.mem[u_dut.row_q] && u_dut.rdata != '0);
      end
      if (u_dut.op_q == OpAdd) begin
        h_add: assert (asked_q && u_dut.rdata == u_dut.u_rows.mem[add_i[ItemW-1:5]]);
      end
      if (u_dut.any_q) h_any: assert (u_dut.some_q[u_dut.next] && u_dut.op_q != OpLoad);
      h_pick:  assert (!u_dut.any_q || u_dut.pick_q == 2'd1 << u_dut.next);
      h_above: assert (u_dut.above_q == (u_dut.row_q == '0 ? 2'b10 : 2'b00));
      if (u_dut.any_q) h_empty: assert (!u_dut.empty_q || u_dut.rest_q == '0);
      // How the other one can have been taken.
      if (!member_q) h_none: assert (passed_q == '0);
      if (member_q && !in_rest && passed_q != '0) begin
        h_again: assert (passed_q == 2'd1 && (!other_in_rest || in_load));
        if (!same_row && !in_load) begin
          h_row:  assert (u_dut.op_q != OpLoad && u_dut.row_q != watched_row);
          h_next: assert (!u_dut.any_q || u_dut.next == watched_row);
        end
      end
      if (member_q && in_rest) h_rest: assert (passed_q < 2'd2 || !other_in_rest);
      c_twice: cover (passed_q == 2'd2);
      c_both: cover (u_dut.some_q == '1 && out_valid);
    end
  end

  for (genvar r = 0; r < Items / 32; r++) begin : gen_row
    always_ff @(posedge clk_i) begin
      if (!rst_q && u_dut.some_q[r]) h_some: assert (u_dut.u_rows.mem[r] != '0);
    end
  end
endmodule
