// Whose turn it is: QPs that wait, in a queue for each lane and each rate group, and the next one of them. Queues whose
// gate is open have turns in turn; one that is to be looked through (sort_i) goes first.
//
// A queue is chosen; its first QP is looked at and offered, while its gate is open; when it is taken it leaves the queue, a
// cycle later. So nobody loses a place in a queue whose gate shuts meanwhile: it may be one that shuts behind every
// packet. What was chosen may be old by some cycles, which does no harm. While nobody waits, a QP whose gate is open is
// offered at once and is in no queue. Turns of one queue are four cycles apart: the gates know of the packet before.
module hca_resp_turn
  import hca_pkg::*, hca_resp_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_i,
  input  logic [RespQueues-1:0] open_i,
  input  logic                  push_i,        // a QP that is not here: not two cycles in a row
  input  logic [RespQueueW-1:0] push_queue_i,
  input  logic [QpW-1:0]        push_qpn_i,
  input  logic                  push_open_i,   // the gates that it waits behind are open
  input  logic [RespQueues-1:0] sort_i,        // strobes
  output logic                  valid_o,
  input  logic                  ready_i,       // taken; only while valid_o
  output logic [QpW-1:0]        qpn_o
);

  logic [RespQueues-1:0] offers, ready_q, masked, mask_q, next_q, negated, first, chosen_q, at_q, sort_at;
  logic [RespQueueW-1:0] at_queue, queue_q, sort_queue;
  logic                  sort, sort_q, choose, chosen_valid_q, chosen_sort_q, load, direct, gone, pop_q;
  // What is offered: of no queue (alone), of one that is sorted, or of one whose gate must be open.
  logic                  valid_q, alone_q, sorted_q;
  logic [QpW-1:0]        head_qpn;

  // ---- Which queue ---------------------------------------------------------------------------------------
  assign choose  = !chosen_valid_q || load || (chosen_q & offers) == '0;
  assign sort_at = RespQueues'(1) << sort_queue;

  // Round robin in two steps: those that are behind the one that was chosen last, or all; the first of them.
  assign masked  = ready_q & mask_q;
  assign negated = ~next_q + 1'b1;
  assign first   = next_q & negated;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      ready_q        <= '0;
      next_q         <= '0;
      mask_q         <= '1;
      sort_q         <= 1'b0;
      chosen_valid_q <= 1'b0;
    end else begin
      ready_q <= offers & open_i;
      next_q  <= (masked != '0) ? masked : ready_q;
      sort_q  <= sort;
      if (choose) chosen_valid_q <= sort_q || next_q != '0;
      if (choose && !sort_q && next_q != '0) mask_q <= ~next_q & negated;
    end
    if (choose) chosen_q <= sort_q ? sort_at : first;
    if (choose) chosen_sort_q <= sort_q;
  end

  // ---- Which QP --------------------------------------------------------------------------------------------
  assign load    = chosen_valid_q && !valid_q && !pop_q && (chosen_q & offers) != '0;
  assign direct  = push_i && push_open_i && !valid_q && !pop_q && !chosen_valid_q && next_q == '0 && ready_q == '0;
  assign gone    = !alone_q && !sorted_q && (at_q & open_i) == '0;
  assign valid_o = valid_q && !gone;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      valid_q <= 1'b0;
      pop_q   <= 1'b0;
    end else begin
      if (load || direct) valid_q <= 1'b1;
      else if (ready_i || gone) valid_q <= 1'b0;
      pop_q <= ready_i && !alone_q;
    end
    if (load || direct) begin
      qpn_o    <= load ? head_qpn : push_qpn_i;
      alone_q  <= !load;
      sorted_q <= chosen_sort_q;
      at_q     <= chosen_q;
    end
    queue_q <= at_queue;
  end

  hca_onehot_index #(.N(RespQueues)) u_at (
    .onehot_i(at_q),
    .idx_o   (at_queue)
  );

  hca_id_queues #(.Queues(RespQueues), .Ids(NumQps)) u_active (
    .clk_i, .rst_i,
    .push_i      (push_i && !direct),
    .push_queue_i,
    .push_id_i   (push_qpn_i),
    .valid_o     (offers),
    .pop_i       (pop_q),
    .pop_queue_i (queue_q),
    .pop_id_o    (),
    .peek_at_i   (chosen_q),
    .peek_id_o   (head_qpn),
    .sort_i,
    .sort_valid_o(sort),
    .sort_queue_o(sort_queue)
  );

endmodule
