// Proof of hca_fence: busy from the cycle after a start until the last item has left that was inside at the newest
// start, and no longer, whatever comes in behind it. So a fence returns only when what it is for is over, and with
// that: it never waits for anything else.
module fv_fence #(
  parameter int unsigned CountW = 3
) (
  input logic       clk_i,
  input logic [1:0] enter_i,
  input logic [1:0] leave_i,
  input logic       start_i
);
  localparam int unsigned SeqW = CountW + 2;   // numbers of items: more than there are inside twice over

  logic                 rst_q = 1'b1;
  logic                 busy;
  logic [1:0][SeqW-1:0] in_q, out_q, in_new, out_new, held, due, last_q;  // entered, left; the number behind the fence
  logic [1:0]           fenced_q;                                         // it has not been reached

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_fence #(.Streams(2), .CountW(CountW)) u_dut (
    .clk_i, .rst_i(rst_q), .enter_i, .leave_i, .start_i, .busy_o(busy)
  );

  for (genvar s = 0; s < 2; s++) begin : gen_stream
    assign in_new[s]  = in_q[s] + SeqW'(enter_i[s]);
    assign out_new[s] = out_q[s] + SeqW'(leave_i[s]);
    assign held[s]    = in_q[s] - out_q[s];
    assign due[s]     = last_q[s] - out_q[s];

    always_ff @(posedge clk_i) begin
      if (rst_q) begin
        in_q[s]     <= '0;
        out_q[s]    <= '0;
        fenced_q[s] <= 1'b0;
      end else begin
        in_q[s]  <= in_new[s];
        out_q[s] <= out_new[s];
        if (start_i) begin
          last_q[s]   <= in_new[s];
          fenced_q[s] <= in_new[s] != out_new[s];
        end else if (fenced_q[s] && out_new[s] == last_q[s]) begin
          fenced_q[s] <= 1'b0;
        end
      end
    end

    always_ff @(posedge clk_i) begin
      if (!rst_q) begin
        m_leave: assume (!leave_i[s] || held[s] != '0);
        m_room:  assume (!enter_i[s] || held[s] < SeqW'((1 << CountW) - 1));
        h_held:  assert (held[s] < SeqW'(1 << CountW) && u_dut.held_q[s] == held[s][CountW-1:0]);
        h_older: assert (u_dut.older_q[s] == (fenced_q[s] ? due[s][CountW-1:0] : '0));
        if (fenced_q[s]) h_due: assert (due[s] != '0 && due[s] <= held[s]);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      a_busy: assert (busy == (fenced_q != '0));
      c_over: cover (fenced_q == 2'b11 && held[0] == SeqW'(3));
      c_behind: cover (!busy && held[0] == SeqW'(2) && last_q[0] != '0 && last_q[0] == out_q[0]);
    end
  end
endmodule
