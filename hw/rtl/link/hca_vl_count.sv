// Sixteen 32-bit counters, one per VL, that wrap: one sum a cycle, one read a cycle (data at once). A small RAM,
// cleared in the sixteen cycles after reset: nothing is counted meanwhile, and what is read means nothing.
module hca_vl_count #(
  parameter int unsigned AddW = 8
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            add_i,
  input  logic [3:0]      vl_i,
  input  logic [AddW-1:0] amount_i,
  input  logic [3:0]      rd_vl_i,
  output logic [31:0]     rd_o
);

  logic [31:0] mem [16];
  logic [4:0]  clear_q;     // 16: done

  always_ff @(posedge clk_i) begin
    if (rst_i) clear_q <= '0;
    else if (!clear_q[4]) clear_q <= clear_q + 1'b1;
  end

  // Cleared by a sum, too: of nothing and nothing.
  logic        cleared;
  logic [3:0]  row;
  logic [31:0] old, more;

  assign cleared = clear_q[4];
  assign row     = cleared ? vl_i : clear_q[3:0];
  assign old     = mem[row] & {32{cleared}};
  assign more    = 32'(amount_i) & {32{cleared}};

  always_ff @(posedge clk_i) begin
    if (add_i || !cleared) mem[row] <= old + more;
  end

  assign rd_o = mem[rd_vl_i];

endmodule
