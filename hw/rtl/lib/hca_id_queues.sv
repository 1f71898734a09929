// Many FIFOs of ids in one linked list: an id is in at most one queue, so nothing ever fills. One push and
// one pop per cycle; a queue that was popped and has more offers it two cycles later.
// Sorting: after `sort_i` a queue is named by `sort_valid_o`, up to a cycle per queue later, until all that was in it
// at that time has been popped; whoever pops it pushes each id where it belongs now, the same queue perhaps.
module hca_id_queues #(
  parameter int unsigned Queues = 16,
  parameter int unsigned Ids    = 1024,
  localparam int unsigned QueueW = (Queues > 1) ? $clog2(Queues) : 1,
  localparam int unsigned IdW    = $clog2(Ids)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              push_i,
  input  logic [QueueW-1:0] push_queue_i,
  input  logic [IdW-1:0]    push_id_i,
  output logic [Queues-1:0] valid_o,        // queues that offer an id
  input  logic              pop_i,          // only of a queue that offers one
  input  logic [QueueW-1:0] pop_queue_i,
  output logic [IdW-1:0]    pop_id_o,
  input  logic [Queues-1:0] sort_i,         // strobes
  output logic              sort_valid_o,
  output logic [QueueW-1:0] sort_queue_o
);

  logic [Queues-1:0] used_q;               // not empty
  logic [IdW-1:0]    head_q [Queues];
  logic [IdW-1:0]    tail_q [Queues];
  logic [Queues-1:0] single_q;             // one id: kept, for a compare of head and tail behind their muxes is long
  logic              refill_q, single, push_empty;
  logic [QueueW-1:0] refill_queue_q;
  logic [IdW-1:0]    next_id;

  assign pop_id_o   = head_q[pop_queue_i];
  assign single     = single_q[pop_queue_i];
  // The pushed id becomes the head: the queue is empty, or its only id leaves now.
  assign push_empty = !used_q[push_queue_i] || (pop_i && single && pop_queue_i == push_queue_i);

  always_comb begin
    valid_o = used_q;
    if (refill_q) valid_o[refill_queue_q] = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      used_q   <= '0;
      refill_q <= 1'b0;
    end else begin
      refill_q <= pop_i && !single;
      if (pop_i && single) used_q[pop_queue_i] <= 1'b0;
      if (push_i) used_q[push_queue_i] <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    refill_queue_q <= pop_queue_i;
    if (refill_q) head_q[refill_queue_q] <= next_id;
    if (refill_q) single_q[refill_queue_q] <= next_id == tail_q[refill_queue_q];
    if (push_i && push_empty) head_q[push_queue_i] <= push_id_i;
    if (push_i) tail_q[push_queue_i] <= push_id_i;
    if (push_i) single_q[push_queue_i] <= push_empty;
  end

  hca_ram_1r1w #(.Width(IdW), .Depth(Ids)) u_next (
    .clk_i,
    .we_i   (push_i && !push_empty),
    .waddr_i(tail_q[push_queue_i]),
    .wdata_i(push_id_i),
    .re_i   (pop_i),
    .raddr_i(pop_id_o),
    .rdata_o(next_id)
  );

  // Sorting, one queue at a time: up to the id that was its last. While one is wanted, `sort_queue_q` walks to it.
  logic [Queues-1:0] wanted_q, wanted;
  logic              sorting_q, start, pop_sorted, at_last;
  logic [QueueW-1:0] sort_queue_q;
  logic [IdW-1:0]    last_q;

  assign wanted       = wanted_q & used_q;
  assign start        = !sorting_q && wanted[sort_queue_q];
  assign pop_sorted   = pop_i && pop_queue_i == sort_queue_q;
  assign at_last      = head_q[sort_queue_q] == last_q;
  assign sort_queue_o = sort_queue_q;
  assign sort_valid_o = sorting_q && valid_o[sort_queue_q];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wanted_q     <= '0;
      sorting_q    <= 1'b0;
      sort_queue_q <= '0;
    end else begin
      wanted_q <= wanted | sort_i;
      if (start) wanted_q[sort_queue_q] <= sort_i[sort_queue_q];
      if (start) sorting_q <= !(pop_sorted && single);
      else if (pop_sorted && at_last) sorting_q <= 1'b0;
      if (!sorting_q && !start && wanted != '0) begin
        sort_queue_q <= (sort_queue_q == QueueW'(Queues - 1)) ? '0 : sort_queue_q + 1'b1;
      end
    end
    if (start) last_q <= tail_q[sort_queue_q];
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!pop_i || valid_o[pop_queue_i]) else $error("hca_id_queues: nothing in %0d", pop_queue_i);
  end
`endif

endmodule
