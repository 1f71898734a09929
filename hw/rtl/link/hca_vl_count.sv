// Sixteen 32-bit counters, one per VL, that wrap: one sum a cycle, one read a cycle (data at once). A small RAM,
// cleared in the sixteen cycles after reset.
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

  always_ff @(posedge clk_i) begin
    if (!clear_q[4]) mem[clear_q[3:0]] <= '0;
    else if (add_i) mem[vl_i] <= mem[vl_i] + 32'(amount_i);
  end

  assign rd_o = clear_q[4] ? mem[rd_vl_i] : '0;

endmodule
