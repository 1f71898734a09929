// Proof of hca_resp_jobs: each place is fresh, free once, or taken; who takes one gets a free one, and nobody else has
// it until it comes back; the links that the lists of QPs are made of, and the jobs, stay as they were written while
// their places are taken. How many are free is counted right, so that with more_o a QP without a job finds a place.
// The free places are kept beside the pool, as a stack: one comes off it, up to three that are linked go onto it.
module fv_resp_jobs #(
  parameter  int unsigned Places = 8,
  parameter  int unsigned Owners = 2,
  localparam int unsigned PlaceW = $clog2(Places)
) (
  input logic              clk_i,
  input logic              put_i,
  input logic              owner_i,     // whose job it is, or was
  input logic              set_i,
  input logic              link_i,
  input logic [PlaceW-1:0] from_i,
  input logic [PlaceW-1:0] to_i,
  input logic [1:0]        put_job_i,
  input logic              get_i,
  input logic [PlaceW-1:0] head_i,
  input logic              free_i,
  input logic [PlaceW-1:0] free_head_i,
  input logic [PlaceW-1:0] free_tail_i,
  input logic [PlaceW:0]   free_count_i
);

  typedef enum logic [1:0] {Fresh, Free, Taken} what_e;
  typedef logic [PlaceW-1:0] place_t;

  logic       rst_q = 1'b1;
  logic       more;
  place_t     new_place, next;
  logic [1:0] job;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_resp_jobs #(.Width(2), .Owners(Owners), .Places(Places)) u_dut (
    .clk_i, .rst_i(rst_q), .more_o(more), .put_i, .set_i, .link_i, .from_i, .to_i, .put_job_i, .new_o(new_place),
    .get_i, .head_i, .job_o(job), .next_o(next), .free_i, .free_head_i, .free_tail_i, .free_count_i
  );

  // ---- What each place is ----------------------------------------------------------------------------------
  what_e           what_q [Places];
  place_t          pos_q [Places];      // of a free one: where it is in the stack
  place_t          stack_q [Places];
  logic [PlaceW:0] stacked_q;           // free ones that are not fresh
  place_t          link_q [Places];     // as the user has linked them
  logic [Places-1:0] linked_q;
  logic [1:0]      job_q [Places];
  logic [PlaceW:0] has_q [Owners];      // jobs of each owner
  place_t          chain [3];           // what comes back, from its head on
  logic            is_fresh, put_q, more_q, get_q;
  place_t          head_q;

  assign is_fresh = 32'(u_dut.fresh_q) != Places;
  assign chain[0] = free_head_i;
  assign chain[1] = link_q[chain[0]];
  assign chain[2] = link_q[chain[1]];

  always_ff @(posedge clk_i) begin
    put_q  <= !rst_q && put_i;
    more_q <= !rst_q && more;
    get_q  <= !rst_q && get_i;
    head_q <= head_i;
    if (rst_q) begin
      stacked_q <= '0;
      linked_q  <= '0;
      for (int unsigned p = 0; p < Places; p++) what_q[p] <= Fresh;
      for (int unsigned q = 0; q < Owners; q++) has_q[q] <= '0;
    end else begin
      if (put_i) begin
        what_q[new_place]   <= Taken;
        job_q[new_place]    <= put_job_i;
        linked_q[new_place] <= 1'b0;
        has_q[owner_i]      <= has_q[owner_i] + 1'b1;
        if (!is_fresh) stacked_q <= stacked_q - 1'b1;
      end
      if (set_i) job_q[head_i] <= put_job_i;
      if (link_i) begin
        link_q[from_i]   <= to_i;
        linked_q[from_i] <= 1'b1;
      end
      if (free_i) begin
        stacked_q      <= stacked_q + free_count_i;
        has_q[owner_i] <= has_q[owner_i] - free_count_i;
        for (int unsigned n = 0; n < 3; n++) begin
          if (n < 32'(free_count_i)) begin
            what_q[chain[n]] <= Free;
            pos_q[chain[n]]  <= place_t'(stacked_q + free_count_i - (PlaceW + 1)'(n + 1));
            stack_q[place_t'(stacked_q + free_count_i - (PlaceW + 1)'(n + 1))] <= chain[n];
          end
        end
      end
    end
  end

  // Those that come back are taken, linked, and not the same.
  logic whole;
  always_comb begin
    whole = 1'b1;
    for (int unsigned n = 0; n < 3; n++) begin
      if (n < 32'(free_count_i)) begin
        whole &= what_q[chain[n]] == Taken && (n + 1 == 32'(free_count_i) || linked_q[chain[n]]);
        for (int unsigned k = 0; k < n; k++) whole &= chain[n] != chain[k];
      end
    end
  end

  // ---- The user --------------------------------------------------------------------------------------------
  always_comb begin
    m_reset: assume (!rst_q || !(put_i || set_i || link_i || get_i || free_i));
    m_one:   assume (32'(put_i) + 32'(set_i) + 32'(get_i) + 32'(free_i) < 2 && !(link_i && (get_i || free_i)));
    if (put_i) m_put: assume (!put_q && (has_q[owner_i] == '0 || more || more_q));
    if (set_i || get_i) m_taken: assume (what_q[head_i] == Taken);
    if (link_i) m_link: assume (what_q[from_i] == Taken || (put_i && from_i == new_place));
    if (free_i) begin
      m_count: assume (free_count_i >= 1 && free_count_i <= 3 && free_count_i <= has_q[owner_i] &&
                       free_tail_i == chain[free_count_i[1:0] - 2'd1]);
      m_chain: assume (whole);
    end
  end

  // ---- What is true ----------------------------------------------------------------------------------------
  logic [PlaceW:0]   without, taken;
  logic [PlaceW+1:0] has;
  always_comb begin
    without = '0;
    taken   = '0;
    has     = '0;
    for (int unsigned q = 0; q < Owners; q++) without += (PlaceW + 1)'(has_q[q] == '0);
    for (int unsigned q = 0; q < Owners; q++) has += (PlaceW + 2)'(has_q[q]);
    for (int unsigned p = 0; p < Places; p++) taken += (PlaceW + 1)'(what_q[p] == Taken);
  end

  always_comb begin
    if (!rst_q) begin
      a_count: assert (u_dut.count_q == (PlaceW + 1)'(Places) - u_dut.fresh_q + stacked_q);
      a_all:   assert (u_dut.count_q + taken == (PlaceW + 1)'(Places) && has == (PlaceW + 2)'(taken));
      a_room:  assert (u_dut.count_q >= without);
      h_has:   assert (32'(has_q[0]) <= Places && 32'(has_q[1]) <= Places);
      if (put_i) a_new: assert (what_q[new_place] == (is_fresh ? Fresh : Free) &&
                                (is_fresh || 32'(pos_q[new_place]) + 1 == 32'(stacked_q)));
      if (get_q) a_job: assert (job == job_q[head_q]);
      if (get_q && linked_q[head_q]) a_next: assert (next == link_q[head_q]);
      h_fresh: assert (32'(u_dut.fresh_q) <= Places && 32'(stacked_q) <= 32'(u_dut.fresh_q));
      h_after: assert (!u_dut.refill_q || put_q);
      h_more:  assert (!more || 32'(u_dut.count_q) + 32'(put_q) > Owners + 3);
      h_was:   assert (!more_q || 32'(u_dut.count_q) + 2 > Owners + 3);
      if (stacked_q != '0) h_head: assert (u_dut.free_head == stack_q[place_t'(stacked_q - 1'b1)]);
      c_again: cover (put_i && !is_fresh);
      c_chain: cover (free_i && free_count_i == (PlaceW + 1)'(3));
    end
  end

  for (genvar p = 0; p < int'(Places); p++) begin : gen_place
    place_t mem;
    assign mem = u_dut.u_next.gen_slice[0].u_ram.mem[p];
    always_comb begin
      if (!rst_q) begin
        a_fresh: assert ((what_q[p] == Fresh) == (p >= 32'(u_dut.fresh_q)));
        h_what:  assert (what_q[p] inside {Fresh, Free, Taken});
        if (what_q[p] == Free) a_free: assert (32'(pos_q[p]) < 32'(stacked_q) && 32'(stack_q[pos_q[p]]) == p);
        if (what_q[p] == Taken) a_holds: assert (u_dut.u_jobs.mem[p] == job_q[p]);
        if (what_q[p] == Taken && linked_q[p]) a_linked: assert (mem == link_q[p]);
        if (p < 32'(stacked_q)) begin
          h_stack: assert (what_q[stack_q[p]] == Free && 32'(pos_q[stack_q[p]]) == p);
          if (p > 0) h_behind: assert (u_dut.u_next.gen_slice[0].u_ram.mem[stack_q[p]] == stack_q[(p + 7) % 8]);
        end
      end
    end
  end

endmodule
