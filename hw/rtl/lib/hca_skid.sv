// Skid buffer: cuts a stream in both directions (valid, payload and ready all come from registers), one
// transfer per cycle, latency one cycle, holds at most two words. Eager: words are taken before it is known whether
// they are valid, so that a late valid is the enable of no word; for what stands still at the input while nothing is
// valid.
module hca_skid #(
  parameter int unsigned Width = 32,
  parameter bit          Eager = 1'b0
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             in_valid_i,
  output logic             in_ready_o,
  input  logic [Width-1:0] in_i,
  output logic             out_valid_o,
  input  logic             out_ready_i,
  output logic [Width-1:0] out_o
);

  logic             out_valid_q, skid_valid_q;
  logic [Width-1:0] out_q, skid_q;
  logic             push, load, out_free;

  assign in_ready_o  = !skid_valid_q;
  assign out_valid_o = out_valid_q;
  assign out_o       = out_q;
  assign push        = in_valid_i && in_ready_o;
  assign load        = Eager ? in_ready_o : push;
  assign out_free    = !out_valid_q || out_ready_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      out_valid_q  <= 1'b0;
      skid_valid_q <= 1'b0;
    end else begin
      if (out_free) out_valid_q <= skid_valid_q || push;
      if (out_free) skid_valid_q <= 1'b0;
      else if (push) skid_valid_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (out_free && skid_valid_q) out_q <= skid_q;
    else if (out_free && load) out_q <= in_i;
    if (load && !out_free) skid_q <= in_i;
  end

endmodule
