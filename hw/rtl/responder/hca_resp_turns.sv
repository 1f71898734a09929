// Which QP has the next turn of hca_resp_sched. QPs with work wait in a queue for each lane and rate group, and the
// open queues have turns in turn. The next QP is fetched ahead, in two steps with a register behind each: a queue
// (`pick`), the QP at its head (`turn`). A QP that comes when nobody may go has the turn in the next cycle, past the
// queues. A queue whose gate is shut is not picked, and a pick is forgotten when its gate shuts; of the one QP that
// stands in `turn` by then the scheduler sees itself that it may not go. Of a rate group the next QP stays in its queue
// until it is known whether the packet of the one before has shut the group: to be asked in vain costs a QP its place.
module hca_resp_turns
  import hca_pkg::*;
#(
  parameter int unsigned Queues = NumLanes + NumRateGroups,
  localparam int unsigned QueueW = $clog2(Queues),
  localparam int unsigned SettleCycles = 5   // from a turn until its packet has shut the group
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic [Queues-1:0] open_i,
  input  logic              push_i,
  input  logic              push_open_i,    // its queue is open
  input  logic [QueueW-1:0] push_queue_i,
  input  logic [QpW-1:0]    push_qpn_i,
  input  logic              due_valid_i,    // this QP has waited elsewhere
  output logic              due_ready_o,
  input  logic [QpW-1:0]    due_qpn_i,
  input  logic [Queues-1:0] sort_i,         // strobes: whoever is in it has a turn, open or not
  output logic              valid_o,        // held until it is taken
  input  logic              take_i,
  output logic [QpW-1:0]    qpn_o
);

  logic              turn_valid_q, pick_valid_q, pick_sort_q, move_valid_q, quiet_q, again;
  logic [2:0]        settle_q;
  logic [QpW-1:0]    turn_qpn_q, move_qpn_q, pop_qpn;
  logic [QueueW-1:0] last_queue_q, move_queue_q, pick_queue, unused_idx, sort_queue;
  logic [Queues-1:0] pick_at_q, valid, used, ready, grant;
  logic              choose, sort, pop, past;

  assign valid_o     = turn_valid_q;
  assign qpn_o       = turn_qpn_q;
  assign due_ready_o = !turn_valid_q;
  assign pop         = pick_valid_q && !turn_valid_q && !due_valid_i && !again;
  assign past        = push_i && push_open_i && quiet_q && !move_valid_q && !pick_valid_q && !turn_valid_q
                       && !due_valid_i;

  assign again = pick_queue == last_queue_q && settle_q != '0 && pick_queue >= QueueW'(NumLanes) && !pick_sort_q;

  assign ready  = valid & open_i;
  assign choose = !pick_valid_q && (sort || ready != '0);

  hca_rr_arb #(.N(Queues)) u_queue (
    .clk_i, .rst_i,
    .req_i    (ready),
    .advance_i(choose && !sort),
    .grant_o  (grant),
    .idx_o    (unused_idx)
  );

  hca_onehot_index #(.N(Queues)) u_pick (
    .onehot_i(pick_at_q),
    .idx_o   (pick_queue)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      turn_valid_q <= 1'b0;
      pick_valid_q <= 1'b0;
      move_valid_q <= 1'b0;
      quiet_q      <= 1'b0;
      settle_q     <= '0;
    end else begin
      turn_valid_q <= turn_valid_q ? !take_i : (due_valid_i || pop || past);
      pick_valid_q <= pick_valid_q ? !pop && (pick_sort_q || (ready & pick_at_q) != '0) : choose;
      move_valid_q <= push_i && !past;
      quiet_q      <= (used & open_i) == '0 && !move_valid_q;
      settle_q     <= turn_valid_q ? 3'(SettleCycles) : settle_q - 3'(settle_q != '0);
    end
    if (!turn_valid_q) turn_qpn_q <= due_valid_i ? due_qpn_i : pick_valid_q ? pop_qpn : push_qpn_i;
    if (!pick_valid_q) begin   // whether one is chosen is known late
      pick_at_q   <= sort ? Queues'(1) << sort_queue : grant;
      pick_sort_q <= sort;
    end
    if (pop) last_queue_q <= pick_queue;
    if (push_i) begin
      move_qpn_q   <= push_qpn_i;
      move_queue_q <= push_queue_i;
    end
  end

  hca_id_queues #(.Queues(Queues), .Ids(NumQps)) u_active (
    .clk_i, .rst_i,
    .push_i      (move_valid_q),
    .push_queue_i(move_queue_q),
    .push_id_i   (move_qpn_q),
    .used_o      (used),
    .valid_o     (valid),
    .pop_i       (pop),
    .pop_queue_i (pick_queue),
    .pop_id_o    (pop_qpn),
    .emptied_o   (),
    .sort_i,
    .sort_valid_o(sort),
    .sort_queue_o(sort_queue)
  );

endmodule
