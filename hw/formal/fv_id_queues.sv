// Proof of hca_id_queues: every queue is first in, first out; an id that was pushed leaves once, and its queue offers
// it within two cycles of the one before it. What was in a queue when sorting was asked for is named until it has left:
// a named queue offers an id, and none of the old ones is left when it is named no more.
// Who is at each place of a queue is kept beside it, and so is where each id is: one undoes the other.
module fv_id_queues #(
  parameter  int unsigned Queues = 2,
  parameter  int unsigned Ids    = 4,
  localparam int unsigned QueueW = $clog2(Queues),
  localparam int unsigned IdW    = $clog2(Ids)
) (
  input logic              clk_i,
  input logic              push_i,
  input logic [QueueW-1:0] push_queue_i,
  input logic [IdW-1:0]    push_id_i,
  input logic              pop_i,
  input logic [QueueW-1:0] pop_queue_i,
  input logic [Queues-1:0] sort_i
);

  localparam int unsigned CountW = $clog2(Ids) + 1;

  typedef logic [IdW-1:0]    id_t;      // places of a queue are counted modulo the number of ids
  typedef logic [CountW-1:0] count_t;

  logic              rst_q = 1'b1;
  logic [Queues-1:0] used, valid, emptied;
  id_t               pop_id;
  logic              sort_valid;
  logic [QueueW-1:0] sort_queue;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_id_queues #(.Queues(Queues), .Ids(Ids)) u_dut (
    .clk_i, .rst_i(rst_q), .push_i, .push_queue_i, .push_id_i, .used_o(used), .valid_o(valid), .pop_i, .pop_queue_i,
    .pop_id_o(pop_id), .emptied_o(emptied), .sort_i, .sort_valid_o(sort_valid), .sort_queue_o(sort_queue)
  );

  // ---- What is in each queue -------------------------------------------------------------------------------
  id_t               at_q [Queues][Ids];
  id_t               first_q [Queues];
  count_t            count_q [Queues];
  count_t            old_q [Queues];    // of them, those that were there when sorting was asked for
  logic [Ids-1:0]    in_q;              // ids that are in a queue:
  logic [QueueW-1:0] of_q [Ids];        // in which, and where
  id_t               pos_q [Ids];
  logic [Queues-1:0] popped_q;          // a cycle ago, with more behind it

  always_ff @(posedge clk_i) begin
    for (int unsigned q = 0; q < Queues; q++) begin
      if (rst_q) begin
        first_q[q]  <= '0;
        count_q[q]  <= '0;
        old_q[q]    <= '0;
        popped_q[q] <= 1'b0;
      end else begin
        if (push_i && 32'(push_queue_i) == q) at_q[q][id_t'(first_q[q] + id_t'(count_q[q]))] <= push_id_i;
        first_q[q]  <= first_q[q] + id_t'(pop_i && 32'(pop_queue_i) == q);
        count_q[q]  <= count_q[q] + count_t'(push_i && 32'(push_queue_i) == q)
                       - count_t'(pop_i && 32'(pop_queue_i) == q);
        old_q[q]    <= (sort_i[q] ? count_q[q] : old_q[q])
                       - count_t'(pop_i && 32'(pop_queue_i) == q && (sort_i[q] || old_q[q] != '0));
        popped_q[q] <= pop_i && 32'(pop_queue_i) == q && count_q[q] != count_t'(1);
      end
    end
    for (int unsigned i = 0; i < Ids; i++) begin
      if (rst_q) in_q[i] <= 1'b0;
      else if (push_i && 32'(push_id_i) == i) begin
        in_q[i]  <= 1'b1;
        of_q[i]  <= push_queue_i;
        pos_q[i] <= first_q[push_queue_i] + id_t'(count_q[push_queue_i]);
      end
      else if (pop_i && 32'(pop_id) == i) in_q[i] <= 1'b0;
    end
  end

  // ---- The user --------------------------------------------------------------------------------------------
  always_comb begin
    if (push_i) m_out: assume (!rst_q && 32'(push_queue_i) < Queues &&
                               (!in_q[push_id_i] || (pop_i && pop_id == push_id_i)));
    if (pop_i) m_offered: assume (!rst_q && 32'(pop_queue_i) < Queues && valid[pop_queue_i]);
    m_reset: assume (!rst_q || sort_i == '0);
  end

  // ---- What is true ----------------------------------------------------------------------------------------
  logic [CountW:0] in_queues, in_use;
  always_comb begin
    in_queues = '0;
    in_use    = '0;
    for (int unsigned q = 0; q < Queues; q++) in_queues += (CountW + 1)'(count_q[q]);
    for (int unsigned i = 0; i < Ids; i++) in_use += (CountW + 1)'(in_q[i]);
  end

  always_comb begin
    if (!rst_q) begin
      a_all: assert (in_queues == in_use);
      if (pop_i) a_pop: assert (pop_id == at_q[pop_queue_i][first_q[pop_queue_i]]);
      if (sort_valid) a_named: assert (valid[sort_queue]);
      h_walk: assert (u_dut.sort_at_q == Queues'(1) << sort_queue && 32'(sort_queue) < Queues);
      h_one:  assert (!(u_dut.start_q && u_dut.sorting_q));
      h_valid: assert (!sort_valid || u_dut.sorting_q || u_dut.check_q || count_q[sort_queue] != '0);
      c_three: cover (pop_i && count_q[pop_queue_i] == count_t'(3) && push_i && push_queue_i == pop_queue_i);
      c_sort:  cover (sort_valid && old_q[sort_queue] == count_t'(2) && count_q[sort_queue] == count_t'(3));
    end
  end

  for (genvar i = 0; i < int'(Ids); i++) begin : gen_id
    always_comb begin
      if (!rst_q && in_q[i])
        a_in: assert (32'(of_q[i]) < Queues && 32'(at_q[of_q[i]][pos_q[i]]) == i &&
                      count_t'(id_t'(pos_q[i] - first_q[of_q[i]])) < count_q[of_q[i]]);
    end
  end

  for (genvar q = 0; q < int'(Queues); q++) begin : gen_queue
    id_t  head;
    logic mine;

    assign head = u_dut.first_q[q] ? u_dut.pushed_q[q] : u_dut.fetched_q[q];
    assign mine = 32'(sort_queue) == q;
    always_comb begin
      if (!rst_q) begin
        a_used:    assert (used[q] == (count_q[q] != '0) && count_q[q] <= count_t'(Ids));
        a_emptied: assert (emptied[q] == (pop_i && 32'(pop_queue_i) == q && count_q[q] == count_t'(1)));
        a_offers:  assert (valid[q] == (used[q] && !popped_q[q]));
        h_refill:  assert (u_dut.refill_q[q] == popped_q[q]);
        if (popped_q[q])
          h_next: assert (count_q[q] != '0 && 32'(u_dut.refill_queue_q) == q && u_dut.next_id == at_q[q][first_q[q]]);
        else if (count_q[q] != '0)
          h_head: assert (head == at_q[q][first_q[q]] && u_dut.single_q[q] == (count_q[q] == count_t'(1)));
        if (count_q[q] != '0)
          h_tail: assert (u_dut.tail_q[q] == at_q[q][id_t'(first_q[q] + id_t'(count_q[q]) - 1'b1)]);
        // Sorting goes on while there is an old one.
        h_old:    assert (old_q[q] <= count_q[q]);
        if (old_q[q] != '0)
          a_sorts: assert (u_dut.wanted_q[q] || (mine && (u_dut.start_q || u_dut.sorting_q)));
        if (mine && u_dut.sorting_q && u_dut.check_q && u_dut.popped_q == u_dut.last_q)
          h_over: assert (u_dut.wanted_q[q] || old_q[q] == '0);
        else if (mine && u_dut.sorting_q) begin
          h_last: assert (in_q[u_dut.last_q] && 32'(of_q[u_dut.last_q]) == q);
          h_behind: assert (u_dut.wanted_q[q] ||
                            count_t'(id_t'(pos_q[u_dut.last_q] - first_q[q])) + count_t'(1) >= old_q[q]);
        end
      end
    end
    for (genvar i = 0; i < int'(Ids); i++) begin : gen_place
      count_t behind;
      assign behind = count_t'(id_t'(id_t'(i) - first_q[q]));
      always_comb begin
        if (!rst_q && behind < count_q[q]) begin
          h_in: assert (in_q[at_q[q][i]] && 32'(of_q[at_q[q][i]]) == q && 32'(pos_q[at_q[q][i]]) == i);
          if (behind + count_t'(1) < count_q[q])
            h_link: assert (u_dut.u_next.mem[at_q[q][i]] == at_q[q][(i + 1) % Ids]);
        end
      end
    end
  end

endmodule
