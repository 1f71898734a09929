// Says whether anything may be under way in the card: a request of the host, a stream that is valid, a read
// that has not been answered, or any of these within the last HoldCycles. Lets a simulator (or a clock gate)
// stop the clock of an idle card.
module hca_activity #(
  parameter int unsigned Streams    = 8,
  parameter int unsigned HoldCycles = 512
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic [Streams-1:0] valid_i,
  input  logic               rd_req_i,   // a read request leaves
  input  logic               rd_done_i,  // the last beat of an answer arrives
  output logic               busy_o
);
  localparam int unsigned HoldW = $clog2(HoldCycles + 1);
  logic [HoldW-1:0] hold_q;
  logic [8:0]       reads_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      hold_q  <= HoldW'(HoldCycles);
      reads_q <= '0;
    end else begin
      reads_q <= reads_q + 9'(rd_req_i) - 9'(rd_done_i);
      if ((|valid_i) || (reads_q != '0)) hold_q <= HoldW'(HoldCycles);
      else if (hold_q != '0) hold_q <= hold_q - 1'b1;
    end
  end
  assign busy_o = (|valid_i) || (hold_q != '0);
endmodule
