// A receive has been posted to a QP whose peer was told that there is none: the peer is to hear of it (decision 0068).
//
// Ordering: hca_rx_ctrl looks at the producer index when it picks a job, and says with the job's end whether the peer
// has been told of no credit (dry_i). A doorbell behind that finds the bit; one between the two is news with the job's
// end. Nothing depends on it: a requester that hears nothing sends a packet beyond its limit in the end.
//
// Timing: a doorbell is looked up in the next cycle, as is what a job has said at its end; further ones wait (busy_o)
// until news of it has been taken, which is some cycles. What a job says comes late and is written a cycle later: a
// doorbell is compared with it until then.
module hca_rq_news
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           pick_i,     // a job of pick_qpn_i begins: the producer index is read
  input  logic [QpW-1:0] pick_qpn_i,
  input  logic           we_i,       // it ends, QP qpn_i
  input  logic [QpW-1:0] qpn_i,
  input  logic           dry_i,
  input  logic           db_i,       // a doorbell is taken
  input  logic [QpW-1:0] db_qpn_i,
  output logic           busy_o,     // none may be
  output logic           valid_o,
  input  logic           ready_i,
  output logic [QpW-1:0] qpn_o
);

  logic           crossed_q, ended_q, ended_dry_q, look_q, hit_q, hit_dry_q, dry, found, crosses;
  logic           take_found, take_crossed, hit_now, ended_we_q;
  logic           found_q, late_q;   // news of the doorbell that was looked up; of one that crossed a job
  logic [QpW-1:0] look_qpn_q, late_qpn_q, ended_qpn_q;

  hca_ram_1r1w #(
    .Width(1),
    .Depth(NumQps)
  ) u_dry (
    .clk_i,
    .we_i   (ended_we_q),
    .waddr_i(ended_qpn_q),
    .wdata_i(ended_dry_q),
    .re_i   (db_i),
    .raddr_i(db_qpn_i),
    .rdata_o(dry)
  );

  assign hit_now      = we_i && qpn_i == db_qpn_i;
  assign found        = look_q && (hit_q ? hit_dry_q : dry);
  assign crosses      = ended_q && ended_dry_q;
  assign busy_o       = look_q || found_q || late_q;
  assign valid_o      = found_q || late_q;
  assign qpn_o        = found_q ? look_qpn_q : late_qpn_q;
  assign take_found   = ready_i && found_q;
  assign take_crossed = ready_i && !found_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {crossed_q, ended_q, look_q, found_q, late_q} <= '0;
    end else begin
      crossed_q <= pick_i ? db_i && db_qpn_i == pick_qpn_i : crossed_q || (db_i && db_qpn_i == qpn_i);
      ended_q   <= we_i && crossed_q;
      look_q    <= db_i;
      found_q   <= found || (found_q && !take_found);
      late_q    <= crosses || (late_q && !take_crossed);
    end
    {hit_q, hit_dry_q} <= {hit_now || (ended_we_q && ended_qpn_q == db_qpn_i), hit_now ? dry_i : ended_dry_q};
    ended_we_q         <= we_i && !rst_i;
    if (db_i) look_qpn_q <= db_qpn_i;
    {ended_dry_q, ended_qpn_q} <= {dry_i, qpn_i};
    if (crosses) late_qpn_q <= ended_qpn_q;
  end

endmodule
