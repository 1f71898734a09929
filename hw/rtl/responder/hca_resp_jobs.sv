// Jobs of all QPs in one pool: a list for each QP that has some, and the list of the free ones. A QP without a job
// always finds room; others take a further one only while more places are free than there are QPs (more_o).
//
// put_i takes the place new_o; set_i writes over the job of place head_i. link_i, alone or with put_i: behind place
// from_i comes place to_i, of which one may be new_o. get_i: the job of place head_i, and the place behind it, in the
// next cycle, held. free_i gives the places from free_head_i to free_tail_i back, free_count_i of them. In one cycle
// there is one of put_i, set_i, get_i and free_i at most, and no link_i with get_i or free_i; no put_i follows put_i at
// once.
module hca_resp_jobs
  import hca_pkg::*;
#(
  parameter int unsigned Width  = 32,
  parameter int unsigned Owners = NumQps,
  parameter int unsigned Places = JobPlaces,
  localparam int unsigned PlaceW = $clog2(Places)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  output logic             more_o,
  input  logic             put_i,
  input  logic             set_i,
  input  logic             link_i,
  input  logic [PlaceW-1:0] from_i,
  input  logic [PlaceW-1:0] to_i,
  input  logic [Width-1:0] put_job_i,
  output logic [PlaceW-1:0] new_o,
  input  logic             get_i,
  input  logic [PlaceW-1:0] head_i,
  output logic [Width-1:0] job_o,
  output logic [PlaceW-1:0] next_o,
  input  logic             free_i,
  input  logic [PlaceW-1:0] free_head_i,
  input  logic [PlaceW-1:0] free_tail_i,
  input  logic [PlaceW:0]   free_count_i
);

  logic [PlaceW-1:0] free_q, free_head;   // the first free place
  logic [PlaceW-1:0] put_at;              // of put_i: it never comes while the RAM says which one is the first
  logic [PlaceW:0]   fresh_q, count_q;    // places never taken begin at fresh_q; free places of both kinds
  logic                 is_fresh, refill_q;  // free_q is what the RAM says now

  assign is_fresh  = fresh_q != (PlaceW + 1)'(Places);
  assign free_head = refill_q ? next_o : free_q;
  assign new_o     = is_fresh ? fresh_q[PlaceW-1:0] : free_head;
  assign put_at    = is_fresh ? fresh_q[PlaceW-1:0] : free_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      fresh_q  <= '0;
      count_q  <= (PlaceW + 1)'(Places);
      more_o   <= 1'b0;
      refill_q <= 1'b0;
    end else begin
      if (put_i && is_fresh) fresh_q <= fresh_q + 1'b1;
      count_q  <= count_q - (PlaceW + 1)'(put_i) + (free_i ? free_count_i : '0);
      // A place for each QP, and those that are taken before it is known.
      more_o   <= count_q > (PlaceW + 1)'(Owners + 3);
      refill_q <= put_i && !is_fresh;
    end
    if (free_i) free_q <= free_head_i;
    else if (refill_q) free_q <= next_o;
  end

  // Looked at as soon as it is read.
  hca_ram_deep #(
    .Width(PlaceW),
    .Depth(Places)
  ) u_next (
    .clk_i,
    .we_i   (free_i || link_i),
    .waddr_i(free_i ? free_tail_i : from_i),
    .wdata_i(free_i ? free_head : to_i),
    .re_i   (get_i || (put_i && !is_fresh)),
    .raddr_i(get_i ? head_i : free_q),
    .rdata_o(next_o)
  );

  hca_ram_1r1w #(
    .Width(Width),
    .Depth(Places)
  ) u_jobs (
    .clk_i,
    .we_i   (put_i || set_i),
    .waddr_i(set_i ? head_i : put_at),
    .wdata_i(put_job_i),
    .re_i   (get_i),
    .raddr_i(head_i),
    .rdata_o(job_o)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert (32'(put_i) + 32'(set_i) + 32'(get_i) + 32'(free_i) < 2) else $error("hca_resp_jobs: two at a time");
      assert (!put_i || !refill_q) else $error("hca_resp_jobs: a place is taken while the next one is read");
      assert (!link_i || !(get_i || free_i)) else $error("hca_resp_jobs: a link beside a walk");
      assert (!put_i || count_q != '0) else $error("hca_resp_jobs: no place is free");
      assert (count_q <= (PlaceW + 1)'(Places)) else $error("hca_resp_jobs: a place came back twice");
    end
  end
`endif

endmodule
