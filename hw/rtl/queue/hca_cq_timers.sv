// Timers of completion queues, one each, for moderation. Setting one takes no time: a write of its row. When the
// earliest is over all rows are walked, one per cycle; those that are over are offered, the earliest of the others says
// when the next walk begins. So a timer is up to two walks late, and between walks nothing here changes with the time.
//
// Setting a timer, also to off, withdraws it if it is being offered.
module hca_cq_timers
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [63:0]    now_i,
  input  logic           set_i,      // strobe
  input  logic           set_on_i,   // with set_i: begins anew; else it is off
  input  logic [CqW-1:0] set_cqn_i,
  input  logic [23:0]    cycles_i,
  output logic           valid_o,    // a timer is over; it runs until it is set
  input  logic           ready_i,
  output logic [CqW-1:0] cqn_o,
  output logic           active_o,   // nothing changes by itself before wake_at_o
  output logic [63:0]    wake_at_o
);

  // Longer than any timer and any time for which the host may hold up the offers: who is over stays so.
  localparam int unsigned TimeW = 32;

  typedef struct packed {
    logic             on;
    logic [TimeW-1:0] at;
  } row_t;

  logic [63:0]      set_at_q, stay_at_q, first_q, first_d;
  logic             set_q, set_on_q, stays_q, some_q, some_d;   // a timer runs; the first one
  logic             set_next, set_read;   // the timer that is set is the next one to be read, the one that was
  logic             walk_q, begin_walk, step, end_walk, passes;
  logic [CqW-1:0]   next_q, read_cqn_q, set_cqn_q;
  logic             read_q, changed_q, gone, runs, over, over_q, stays;
  row_t             row;

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumCqs)
  ) u_rows (
    .clk_i,
    .we_i   (set_q),
    .waddr_i(set_cqn_q),
    .wdata_i({set_on_q, set_at_q[TimeW-1:0]}),
    .re_i   (step),
    .raddr_i(next_q),
    .rdata_o(row)
  );

  // ---- Walk --------------------------------------------------------------------------------------
  // Whether a timer is set is known late: all of it happens a cycle later. gone: what was read is not what is there.
  assign set_next   = set_q && set_cqn_q == next_q;
  assign set_read   = set_q && set_cqn_q == read_cqn_q;
  assign gone       = changed_q || set_read;
  assign begin_walk = !walk_q && !read_q && some_q && now_i >= first_q;
  assign runs       = read_q && row.on && !gone;
  assign over       = runs && $signed(now_i[TimeW-1:0] - row.at) >= 0;
  assign stays      = runs && !over;
  // Offered a cycle after it was found: what the offer is for need not wait for the comparison.
  assign valid_o    = over_q && !gone;
  assign cqn_o      = read_cqn_q;
  assign passes     = !over || (over_q && ready_i);
  assign step       = walk_q && passes;
  assign end_walk   = &next_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      walk_q <= 1'b0;
      read_q <= 1'b0;
      over_q <= 1'b0;
    end else begin
      if (begin_walk) walk_q <= 1'b1;
      else if (step && end_walk) walk_q <= 1'b0;
      if (step) read_q <= 1'b1;
      else if (passes) read_q <= 1'b0;
      over_q <= over && !passes;
    end
    if (begin_walk) next_q <= '0;
    else if (step) next_q <= next_q + 1'b1;
    if (step) read_cqn_q <= next_q;
    changed_q <= step ? set_next : gone;
    set_cqn_q <= set_cqn_i;
  end

  // ---- The first that runs -------------------------------------------------------------------------
  // All comparisons side by side.
  logic some_stays, stay_first, set_first, set_before_stay, set_is;

  assign some_stays      = some_q && !begin_walk;
  assign stay_first      = stays_q && (!some_stays || stay_at_q < first_q);
  assign set_first       = !some_stays || set_at_q < first_q;
  assign set_before_stay = set_at_q < stay_at_q;
  assign set_is          = set_on_q && (stay_first ? set_before_stay : set_first);
  assign some_d          = some_stays || stays_q || set_on_q;
  assign first_d         = set_is ? set_at_q : stay_first ? stay_at_q : first_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      set_q    <= 1'b0;
      set_on_q <= 1'b0;
      stays_q  <= 1'b0;
      some_q   <= 1'b0;
    end else begin
      set_q    <= set_i;
      set_on_q <= set_on_i;
      stays_q  <= stays;
      some_q   <= some_d;
    end
    // Looked at in the next cycle alone. At rest they stand: a card in which the time runs on does not sleep.
    if (set_on_i) set_at_q <= now_i + 64'(cycles_i);
    if (read_q) stay_at_q <= now_i + 64'(row.at - now_i[TimeW-1:0]);
    first_q <= first_d;
  end

  assign active_o  = some_q;
  assign wake_at_o = first_q;

endmodule
