// Collects the messages to hca_rx_ctrl, one place at a time, round robin. Messages of hca_rx_exec get a queue
// of their own with room for every error it can report (one per QP and side until the QP is initialised
// again), so hca_rx_exec never waits for hca_rx_ctrl, which may be waiting for it. Flush messages go into a set of
// work queues that is never full, and what a slice of a flush leaves over comes back into it: queues take turns, and
// whoever asks for a flush waits some cycles, however long others are.
module hca_rx_msgs
  import hca_pkg::*, hca_rx_pkg::*;
#(
  parameter int unsigned N = 5,  // ordinary sources
  parameter logic [N-1:0] Flushing = '1,  // those that may ask for a flush
  localparam int unsigned IdxW = $clog2(N + 1)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic      [N-1:0] in_valid_i,
  output logic      [N-1:0] in_ready_o,
  input  pipe_msg_t [N-1:0] in_i,
  input  logic              exec_valid_i,
  output logic              exec_ready_o,
  input  pipe_msg_t         exec_i,
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output rx_msg_t           out_o,
  // Work queues to flush; beside them what is left of one, taken when it is its turn among those who ask.
  output logic              flush_valid_o,
  input  logic              flush_ready_i,
  output flush_t            flush_o,
  input  logic              left_valid_i,
  output logic              left_ready_o,
  input  flush_t            left_i,
  // Receive queues that hca_rq_news tells of: they stand among those to flush.
  input  logic              news_valid_i,
  output logic              news_ready_o,
  input  logic [QpW-1:0]    news_qpn_i
);

  logic            exec_first_valid, exec_first_ready, exec_valid, exec_ready;
  pipe_msg_t       exec_in_q, exec_first, exec_msg;
  logic            exec_in_valid_q;
  logic [N:0]      req, next, grant_q;
  logic [IdxW-1:0] next_idx, idx_q;   // the same as a number
  logic            valid_q;
  logic [N-1:0]    flush;
  logic [N:0]      flush_grant;    // N: what is left, and news
  logic [IdxW-1:0] unused_flush_idx;
  logic            inner_q, inner_room;
  flush_t          inner_item_q;
  logic            add_valid, add_ready;
  flush_t          add;
  logic [$clog2(2 * NumQps):0] unused_count;

  // It comes late in its cycle: what waits in the register is one of those that the queue has room for.
  always_ff @(posedge clk_i) begin
    exec_in_q <= exec_i;
    if (rst_i) exec_in_valid_q <= 1'b0;
    else exec_in_valid_q <= exec_valid_i && exec_ready_o;
  end

  hca_fifo #(
    .Width($bits(pipe_msg_t)),
    .Depth(2 * NumQps)
  ) u_exec (
    .clk_i,
    .rst_i,
    .in_valid_i (exec_in_valid_q),
    .in_ready_o (exec_ready_o),
    .in_i       (exec_in_q),
    .out_valid_o(exec_first_valid),
    .out_ready_i(exec_first_ready),
    .out_o      (exec_first),
    .count_o    (unused_count)
  );
  // A message out of a RAM would be late in the choice of a job.
  hca_skid #(.Width($bits(pipe_msg_t))) u_exec_first (
    .clk_i, .rst_i, .in_valid_i(exec_first_valid), .in_ready_o(exec_first_ready), .in_i(exec_first),
    .out_valid_o(exec_valid), .out_ready_i(exec_ready), .out_o(exec_msg)
  );

  always_comb begin
    req[N] = exec_valid;
    for (int unsigned i = 0; i < N; i++) begin
      flush[i] = Flushing[i] && in_valid_i[i] && (in_i[i].kind == MsgFlushSq || in_i[i].kind == MsgFlushRq);
      req[i]   = in_valid_i[i] && !flush[i];
    end
  end

  // Who is next is chosen a cycle before it can be taken, out of the way of what it says and of the job that becomes of
  // it. The message itself waits where it is: a fence counts it there.
  hca_rr_arb #(
    .N(N + 1)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (req),
    .advance_i(!valid_q),
    .grant_o  (next),
    .idx_o    (next_idx)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) valid_q <= 1'b0;
    else valid_q <= valid_q ? !out_ready_i : req != '0;
    if (!valid_q) {grant_q, idx_q} <= {next, next_idx};
  end

  assign out_valid_o = valid_q;
  assign in_ready_o  = (grant_q[N-1:0] & {N{out_ready_i}}) | (flush_grant[N-1:0] & {N{add_ready}});
  assign exec_ready  = grant_q[N] && out_ready_i;

  // By the number: a job's QP hangs on it, and an AND and an OR for each of them are a level more.
  pipe_msg_t [(1 << IdxW) - 1:0] all;
  assign all   = ((1 << IdxW) * $bits(pipe_msg_t))'({exec_msg, in_i});
  assign out_o = '{from_exec: grant_q[N], msg: all[idx_q]};

  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!valid_q || (req & grant_q) != '0) else $error("hca_rx_msgs: a message was taken back");
    if (!rst_i) assert (!exec_in_valid_q || exec_ready_o) else $error("hca_rx_msgs: an error without a place");
    if (!rst_i) assert (!out_ready_i || valid_q) else $error("hca_rx_msgs: nothing to take");
    for (int unsigned i = 0; i < N; i++) begin
      if (!rst_i) assert (Flushing[i] || !in_valid_i[i] || !(in_i[i].kind inside {MsgFlushSq, MsgFlushRq}))
        else $error("hca_rx_msgs: source %0d asks for a flush", i);
    end
  end
  `endif

  // ---- Flushes -------------------------------------------------------------------------------------
  assign add_valid    = inner_q || flush != '0;

  // What is left, and news, have one place between them.
  assign inner_room   = !inner_q || (flush_grant[N] && add_ready);
  assign left_ready_o = inner_room;
  assign news_ready_o = inner_room && !left_valid_i;

  always_ff @(posedge clk_i) begin
    if (inner_room) inner_item_q <= left_valid_i ? left_i : '{qpn: news_qpn_i, sq: 1'b0};
    if (rst_i) inner_q <= 1'b0;
    else if (inner_room) inner_q <= left_valid_i || news_valid_i;
  end

  hca_rr_arb #(
    .N(N + 1)
  ) u_flush_arb (
    .clk_i,
    .rst_i,
    .req_i    ({inner_q, flush}),
    .advance_i(add_ready),
    .grant_o  (flush_grant),
    .idx_o    (unused_flush_idx)
  );

  always_comb begin
    add = inner_item_q & {$bits(flush_t){flush_grant[N]}};
    for (int unsigned i = 0; i < N; i++) begin
      add |= {in_i[i].qpn, in_i[i].kind == MsgFlushSq} & {$bits(flush_t){Flushing[i] && flush_grant[i]}};
    end
  end

  // Who asks is not part of the set's cycle, nor is the set part of the choice of a job: what is taken out of it, and
  // comes into it once more, is flushed twice, which does nothing.
  logic   set_valid, set_ready, due_valid, due_ready;
  flush_t set, due;

  hca_skid #(.Width($bits(flush_t))) u_add (
    .clk_i, .rst_i, .in_valid_i(add_valid), .in_ready_o(add_ready), .in_i(add),
    .out_valid_o(set_valid), .out_ready_i(set_ready), .out_o(set)
  );

  hca_work_set #(
    .Items(1 << $bits(flush_t))
  ) u_flushes (
    .clk_i,
    .rst_i,
    .add_valid_i(set_valid),
    .add_ready_o(set_ready),
    .add_i      (set),
    .out_valid_o(due_valid),
    .out_ready_i(due_ready),
    .out_o      (due)
  );

  hca_skid #(.Width($bits(flush_t))) u_next (
    .clk_i, .rst_i, .in_valid_i(due_valid), .in_ready_o(due_ready), .in_i(due),
    .out_valid_o(flush_valid_o), .out_ready_i(flush_ready_i), .out_o(flush_o)
  );

endmodule
