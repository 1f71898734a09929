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
  output logic [Queues-1:0] used_o,         // queues with ids
  output logic [Queues-1:0] valid_o,        // queues that offer an id
  input  logic              pop_i,          // only of a queue that offers one
  input  logic [QueueW-1:0] pop_queue_i,
  output logic [IdW-1:0]    pop_id_o,
  output logic [Queues-1:0] emptied_o,      // with pop_i: the queue had no other id
  input  logic [Queues-1:0] sort_i,         // strobes
  output logic              sort_valid_o,
  output logic [QueueW-1:0] sort_queue_o
);

  // A bit for each queue wherever one is meant: to decode a number behind what it selects would be long.
  logic [Queues-1:0] used_q;               // not empty
  // Tables of one writer each, which so are RAMs of LUTs: a head is one that was pushed, or one that was fetched.
  logic [IdW-1:0]    pushed_q [Queues];
  logic [IdW-1:0]    fetched_q [Queues];
  logic [IdW-1:0]    tail_q [Queues];
  logic [Queues-1:0] first_q;              // its head was pushed
  logic [Queues-1:0] single_q;             // one id: kept, for a compare of head and tail behind their muxes is long
  logic [Queues-1:0] push_at, pop_at, pop_single, push_empty, refill_q;  // refill: its head is what the RAM says now
  logic [QueueW-1:0] refill_queue_q;
  logic [IdW-1:0]    next_id;
  logic              heads;

  assign pop_id_o   = first_q[pop_queue_i] ? pushed_q[pop_queue_i] : fetched_q[pop_queue_i];
  assign push_at    = Queues'(push_i) << push_queue_i;
  assign pop_at     = Queues'(pop_i) << pop_queue_i;
  assign pop_single = pop_at & single_q;
  // The pushed id becomes the head: the queue is empty, or its only id leaves now. What pops is late.
  assign heads      = !used_q[push_queue_i] || (pop_i && pop_queue_i == push_queue_i && single_q[push_queue_i]);
  assign push_empty = Queues'(push_i && heads) << push_queue_i;
  assign used_o     = used_q;
  assign valid_o    = used_q & ~refill_q;
  assign emptied_o  = pop_single;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      used_q   <= '0;
      refill_q <= '0;
    end else begin
      used_q   <= (used_q & ~pop_single) | push_at;
      refill_q <= pop_at & ~single_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (pop_i) refill_queue_q <= pop_queue_i;
    if (refill_q != '0) fetched_q[refill_queue_q] <= next_id;
    if (push_i && heads) pushed_q[push_queue_i] <= push_id_i;
    if (push_i) tail_q[push_queue_i] <= push_id_i;
    first_q <= (first_q & ~refill_q) | push_empty;
    for (int unsigned q = 0; q < Queues; q++) begin
      if (refill_q[q]) single_q[q] <= next_id == tail_q[refill_queue_q];
      if (push_at[q]) single_q[q] <= push_empty[q];
    end
  end

  hca_ram_1r1w #(.Width(IdW), .Depth(Ids)) u_next (
    .clk_i,
    .we_i   (push_i && !heads),
    .waddr_i(tail_q[push_queue_i]),
    .wdata_i(push_id_i),
    .re_i   (pop_i),
    .raddr_i(pop_id_o),
    .rdata_o(next_id)
  );

  // Sorting, one queue at a time: up to the id that was its last. While one is wanted, `sort_at_q` walks to it. Whether
  // a popped id was the last one is known a cycle later; its queue, which fetches its next id meanwhile, is not named.
  logic [Queues-1:0] wanted_q, wanted, sort_at_q;
  logic              sorting_q, here, pop_here, start_q, check_q;
  logic [QueueW-1:0] sort_queue_q;
  logic [IdW-1:0]    last_q, popped_q;

  assign wanted       = wanted_q & used_q;
  assign here         = (wanted & sort_at_q) != '0;
  assign pop_here     = pop_i && pop_queue_i == sort_queue_q;
  assign sort_queue_o = sort_queue_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wanted_q     <= '0;
      sorting_q    <= 1'b0;
      start_q      <= 1'b0;
      sort_valid_o <= 1'b0;
      check_q      <= 1'b0;
      sort_queue_q <= '0;
      sort_at_q    <= Queues'(1);
    end else begin
      start_q  <= here && !sorting_q && !start_q;
      // It offers one still: none of it is popped now.
      sort_valid_o <= sorting_q && !check_q && !pop_here && (valid_o & sort_at_q) != '0;
      wanted_q <= (start_q ? wanted & ~sort_at_q : wanted) | sort_i;
      check_q  <= pop_here;
      // It may have run empty since it was found.
      if (start_q) sorting_q <= (used_q & sort_at_q) != '0 && !(pop_here && (single_q & sort_at_q) != '0);
      else if (check_q && popped_q == last_q) sorting_q <= 1'b0;
      if (!sorting_q && !start_q && !here && wanted != '0) begin
        sort_queue_q <= sort_at_q[Queues-1] ? '0 : sort_queue_q + 1'b1;
        sort_at_q    <= Queues'({sort_at_q, sort_at_q[Queues-1]});
      end
    end
    if (start_q) last_q <= tail_q[sort_queue_q];
    if (pop_i) popped_q <= pop_id_o;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!pop_i || valid_o[pop_queue_i]) else $error("hca_id_queues: nothing in %0d", pop_queue_i);
  end
`endif

endmodule
