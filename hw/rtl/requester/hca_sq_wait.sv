// Ids that wait, each for a time of its own, to a factor of two: a line for each power of two of ticks. Who stands in
// a line waits as long as all others there, so whoever came first leaves first, and only heads are compared with the
// time. Line k: between 2^k - 1 and 2^k ticks. An id stands in one line at most, so nothing ever fills. A push and a
// pop per cycle; a line that was popped and has more offers that a few cycles later. Nothing here changes by itself
// between two ticks, which come every 2^TickW cycles of the card's time.
module hca_sq_wait #(
  parameter int unsigned Lines = 11,
  parameter int unsigned Ids   = 1024,
  parameter int unsigned TickW = 6,
  localparam int unsigned LineW = $clog2(Lines),
  localparam int unsigned IdW   = $clog2(Ids)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [63:0]      now_i,
  input  logic             push_i,
  input  logic [LineW-1:0] push_line_i,
  input  logic [IdW-1:0]   push_id_i,
  output logic             valid_o,      // pop_id_o has waited long enough
  input  logic             pop_i,
  output logic [IdW-1:0]   pop_id_o,
  output logic             used_o        // somebody waits
);

  // Room for the longest wait, and for whoever is popped late: all ids, a few cycles each.
  localparam int unsigned AtW = Lines + 3;

  typedef struct packed {
    logic [AtW-1:0] at;   // tick in which it came
    logic [IdW-1:0] id;
  } entry_t;

  entry_t           head_q [Lines];
  logic [IdW-1:0]   tail_q [Lines];
  logic [Lines-1:0] used_q, single_q, due, due_q, ready, pop_line;
  logic [AtW-1:0]   tick;
  entry_t           pushed, next;
  logic [LineW-1:0] out_q, first, refill_line_q;
  logic             refill_q, push_empty, unused_now;

  assign unused_now = ^now_i;
  assign tick       = now_i[TickW +: AtW];
  assign pushed     = '{at: tick, id: push_id_i};
  assign used_o     = used_q != '0;
  assign pop_id_o   = head_q[out_q].id;
  assign ready      = due_q & ~pop_line;
  // The pushed id becomes the head: the line is empty, or its only id leaves now.
  assign push_empty = !used_q[push_line_i] || (pop_line[push_line_i] && single_q[push_line_i]);

  always_comb begin
    pop_line        = '0;
    pop_line[out_q] = pop_i && valid_o;
    first = '0;   // the shortest line that is due
    for (int unsigned k = Lines; k > 0; k--) if (ready[k-1]) first = LineW'(k - 1);
    for (int unsigned k = 0; k < Lines; k++) due[k] = ((tick - head_q[k].at) >> k) != '0;
    if (refill_q) due[refill_line_q] = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {used_q, due_q} <= '0;
      refill_q        <= 1'b0;
      valid_o         <= 1'b0;
    end else begin
      due_q    <= used_q & due & ~pop_line;
      refill_q <= pop_i && valid_o && !single_q[out_q];
      if (pop_i || !valid_o) valid_o <= ready != '0;
      used_q   <= used_q & ~(pop_line & single_q);
      if (push_i) used_q[push_line_i] <= 1'b1;
    end
    if (pop_i || !valid_o) out_q <= first;
    refill_line_q <= out_q;
    if (refill_q) head_q[refill_line_q] <= next;
    if (refill_q) single_q[refill_line_q] <= next.id == tail_q[refill_line_q];
    if (push_i && push_empty) head_q[push_line_i] <= pushed;
    if (push_i) tail_q[push_line_i] <= push_id_i;
    if (push_i) single_q[push_line_i] <= push_empty;
  end

  hca_ram_1r1w #(.Width($bits(entry_t)), .Depth(Ids)) u_next (
    .clk_i,
    .we_i   (push_i && !push_empty),
    .waddr_i(tail_q[push_line_i]),
    .wdata_i(pushed),
    .re_i   (pop_i && valid_o),
    .raddr_i(pop_id_o),
    .rdata_o(next)
  );

endmodule
