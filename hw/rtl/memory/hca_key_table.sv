// Where the functions' keys are in host memory, for both clients (0: gather, 1: rx_exec); and what makes them forget
// what they keep of it. Firmware writes.
module hca_key_table
  import hca_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  logic                      wr_valid_i,     // taken at once
  input  logic [FuncIdxW-1:0]       wr_func_i,
  input  key_place_t                wr_i,
  output key_place_t [NumFuncs-1:0] tables_o,
  input  logic                      forget_valid_i,
  output logic                      forget_ready_o,
  input  key_forget_t               forget_i,
  // hca_xlate: by client, keys and pages.
  output logic [1:0][1:0]           forget_valid_o,
  input  logic [1:0][1:0]           forget_ready_i,
  output key_forget_t               forget_o
);

  logic [1:0][1:0] wanted, done_q, done;

  always_ff @(posedge clk_i) begin
    for (int unsigned f = 0; f < NumFuncs; f++) begin
      if (wr_valid_i && wr_func_i == FuncIdxW'(f)) tables_o[f] <= wr_i;
      if (rst_i) tables_o[f].valid <= 1'b0;
    end
  end

  assign wanted         = {2{forget_i.pages || forget_i.all, 1'b1}};
  assign forget_valid_o = {4{forget_valid_i}} & wanted & ~done_q;
  assign done           = done_q | (forget_valid_o & forget_ready_i);
  assign forget_ready_o = forget_valid_i && (wanted & ~done) == '0;
  assign forget_o       = forget_i;

  always_ff @(posedge clk_i) begin
    if (rst_i || forget_ready_o) done_q <= '0;
    else done_q <= done;
  end

endmodule
