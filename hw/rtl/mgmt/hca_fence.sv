// Tells when everything is over that was under way at one moment. Each stream counts what is inside a part of the
// card; its items leave in the order in which they came. At the start what is inside is remembered and counted
// down as items leave: what enters later does not matter, so a fence ends under any traffic.
//
// A start while a fence is under way begins anew, and covers both. busy_o is right from the cycle after the start.
module hca_fence #(
  parameter int unsigned Streams = 4,
  parameter int unsigned CountW  = 9   // more items than any part of the card has room for
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic [Streams-1:0] enter_i,  // strobes
  input  logic [Streams-1:0] leave_i,
  input  logic               start_i,
  output logic               busy_o
);

  logic [Streams-1:0][CountW-1:0] held_q, held, older_q, older;
  logic [Streams-1:0]             waits;

  always_comb begin
    for (int unsigned s = 0; s < Streams; s++) begin
      held[s] = held_q[s] + CountW'(enter_i[s]) - CountW'(leave_i[s]);
      older[s] = older_q[s] - CountW'(leave_i[s] && older_q[s] != '0);
      if (start_i) older[s] = held[s];
      waits[s] = older_q[s] != '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      held_q <= '0;
      older_q <= '0;
    end else begin
      held_q <= held;
      older_q <= older;
    end
  end

  assign busy_o = waits != '0;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    for (int unsigned s = 0; s < Streams; s++) begin
      if (!rst_i) assert (!leave_i[s] || held_q[s] != '0) else $error("hca_fence: stream %0d lost an item", s);
      if (!rst_i) assert (!enter_i[s] || held_q[s] != '1) else $error("hca_fence: stream %0d overflows", s);
    end
  end
`endif

endmodule
