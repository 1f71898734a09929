// Collects the messages to hca_rx_ctrl, one place at a time, round robin. Messages of hca_rx_exec get a queue
// of their own with room for every error it can report (one per QP and side until the QP is initialised
// again), so hca_rx_exec never waits for hca_rx_ctrl, which may be waiting for it. hold_flush_i: a flush is
// still being walked, so flush messages wait; the others do not.
module hca_rx_msgs
  import hca_pkg::*, hca_rx_pkg::*;
#(
  parameter int unsigned N = 5,  // ordinary sources
  localparam int unsigned IdxW = $clog2(N + 1)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              hold_flush_i,
  input  logic      [N-1:0] in_valid_i,
  output logic      [N-1:0] in_ready_o,
  input  pipe_msg_t [N-1:0] in_i,
  input  logic              exec_valid_i,
  output logic              exec_ready_o,
  input  pipe_msg_t         exec_i,
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output rx_msg_t           out_o
);

  logic            exec_valid, exec_ready;
  pipe_msg_t       exec_msg;
  logic [N:0]      req, grant;
  logic [IdxW-1:0] unused_idx;
  logic [$clog2(2 * NumQps):0] unused_count;

  hca_fifo #(
    .Width($bits(pipe_msg_t)),
    .Depth(2 * NumQps)
  ) u_exec (
    .clk_i,
    .rst_i,
    .in_valid_i (exec_valid_i),
    .in_ready_o (exec_ready_o),
    .in_i       (exec_i),
    .out_valid_o(exec_valid),
    .out_ready_i(exec_ready),
    .out_o      (exec_msg),
    .count_o    (unused_count)
  );

  always_comb begin
    req[N] = exec_valid;
    for (int unsigned i = 0; i < N; i++) begin
      req[i] = in_valid_i[i]
               && !(hold_flush_i && (in_i[i].kind == MsgFlushSq || in_i[i].kind == MsgFlushRq));
    end
  end

  hca_rr_arb #(
    .N(N + 1)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (req),
    .advance_i(out_ready_i),
    .grant_o  (grant),
    .idx_o    (unused_idx)
  );

  assign out_valid_o = req != '0;
  assign in_ready_o  = grant[N-1:0] & {N{out_ready_i}};
  assign exec_ready  = grant[N] && out_ready_i;

  always_comb begin
    out_o = '0;
    if (grant[N]) out_o = '{from_exec: 1'b1, msg: exec_msg};
    for (int unsigned i = 0; i < N; i++) begin
      if (grant[i]) out_o = '{from_exec: 1'b0, msg: in_i[i]};
    end
  end

endmodule
