// Proof of hca_sq_next: what is offered stays until it is popped, is a queue with a QP, and takes a slot only if there
// is one. Fair: while a queue has QPs and its gate is open, and nobody inherits, another queue is offered once at most
// before it. An heir waits for other heirs only.
module fv_sq_next #(
  parameter int unsigned Queues = 4,
  localparam int unsigned QueueW = $clog2(Queues)
) (
  input logic              clk_i,
  input logic [Queues-1:0] push_i,
  input logic [Queues-1:0] open_i,
  input logic [Queues-1:0] hand_i,
  input logic              more_i,       // with a pop: the queue has another one
  input logic              slot_back_i,
  input logic              sort_valid_i,
  input logic [QueueW-1:0] sort_queue_i,
  input logic              pop_i
);
  logic              rst_q = 1'b1;
  logic [Queues-1:0] used_q, emptied;
  logic              free_q, valid, sort, waits, pop, asked_q, passed_q, heir_q;
  logic [QueueW-1:0] queue, watched_q, other_q;
  logic              was_valid_q, was_pop_q, was_sort_q, offer;
  logic [QueueW-1:0] was_queue_q, idx;

  // Queues as hca_id_queues has them, slots as a FIFO has them.
  assign pop     = pop_i && valid;
  assign emptied = (pop && !more_i) ? Queues'(1) << queue : '0;

  always_ff @(posedge clk_i) begin
    rst_q  <= 1'b0;
    used_q <= rst_q ? '0 : (used_q & ~emptied) | push_i;
    free_q <= !rst_q && ((free_q && !(pop && !sort)) || slot_back_i);
  end

  hca_sq_next #(.Queues(Queues)) u_dut (
    .clk_i, .rst_i(rst_q), .used_i(used_q), .open_i, .hand_i, .free_i(free_q), .sort_valid_i, .sort_queue_i,
    .emptied_i(emptied), .pop_i(pop), .valid_o(valid), .sort_o(sort), .queue_o(queue), .waits_o(waits)
  );

  assign offer = u_dut.offer;
  assign idx   = u_dut.idx;

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    other_q   <= other_q;
    {was_valid_q, was_pop_q, was_sort_q, was_queue_q} <= {valid && !rst_q, pop, sort, queue};
    // It asked when the queues were looked at.
    asked_q <= used_q[watched_q] && open_i[watched_q] && u_dut.heirs == '0;
    heir_q  <= u_dut.heirs != '0;
    if (rst_q || (offer && (!asked_q || idx == watched_q))) passed_q <= 1'b0;
    else if (offer && idx == other_q) passed_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      // A queue that is sorted has an id; sorting pauses behind a pop.
      m_sort: assume (!sort_valid_i || (used_q[sort_queue_i] && !was_pop_q));
      if (valid) a_used: assert (used_q[queue]);
      if (valid && !sort) a_slot: assert (free_q);
      if (was_valid_q && !was_pop_q) a_stays: assert (valid && sort == was_sort_q && queue == was_queue_q);
      if (was_pop_q) a_gone: assert (!valid);
      if (u_dut.seen_q && !valid) h_seen: assert ((u_dut.from_q & ~used_q & ~u_dut.emptied_q) == '0);
      if (u_dut.emptied_q != '0) h_emptied: assert (!valid);
      h_round: assert ((~u_dut.round_q & (~u_dut.round_q + 1'b1)) == '0);
      c_emptied: cover (!valid && u_dut.seen_q && (u_dut.from_q & u_dut.emptied_q) != '0);
      c_heir: cover (offer && heir_q);
      if (watched_q != other_q) begin
        if (offer && asked_q && passed_q) a_fair: assert (idx != other_q);
        if (passed_q && other_q < watched_q) h_below: assert (u_dut.round_q[watched_q] && !u_dut.round_q[other_q]);
        if (passed_q && !u_dut.round_q[watched_q]) h_above: assert (!u_dut.round_q[other_q]);
        // Those that have not had a slot in this round, or, if there are none, all that ask.
        if (u_dut.seen_q && !valid && asked_q) begin
          h_left: assert ((u_dut.from_q & ~u_dut.round_q) == '0 || (u_dut.from_q & u_dut.round_q) == '0);
          h_there: assert (u_dut.from_q[watched_q]
                           || (u_dut.from_q != '0 && (u_dut.from_q & ~u_dut.round_q) == '0
                               && !u_dut.round_q[watched_q]));
        end
        c_passed: cover (offer && asked_q && passed_q && idx == watched_q);
      end
    end
  end
endmodule
