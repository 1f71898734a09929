// What the list of a QP's READ and atomic jobs becomes when a job comes, and when a packet of the first one leaves.
// Jobs are in the order of their PSNs. Nothing that is here is ever given up for a request that comes again (REL-19: a
// copy of the network's must cost nothing), and what a peer that has gone back asks for is sent before what it had
// asked for later:
//   newer than all here    at the end
//   here, not yet begun    nothing to do
//   within the one that is being answered   it takes that one's place: answers begin with its PSN, for a peer that asks
//                          from a PSN on has all before it
//   older than all here    in front; the job that it interrupts begins again, for its peer has not taken what it was
//                          sent behind a gap
//   between such ones      behind those that have come so (replays), in front of what was here before (main)
// A QP with selective repeat keeps what it was sent behind a gap, and asks for what is missing alone (aside_i, decision
// 0071): main goes on where it was when the replays are over, and a request takes the place of the job that is answered
// only if it leads to that one's end. If it leads beyond where main goes on, main goes on at its PSN.
// A job for which there is no place is lost. Who comes for the first time (fresh_i) is newer than all here. Of others
// it is found a cycle before where they belong: list and PSNs stand still from then on. All else is combinational.
module hca_resp_list
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic                 clk_i,
  input  resp_list_t           list_i,
  // A job comes.
  input  logic                 fresh_i,
  input  logic [23:0]          psn_i,
  input  logic [23:0]          last_psn_i,
  input  logic                 more_i,      // who has a job may take a further place
  input  logic [JobPlaceW-1:0] new_i,       // the place that it gets
  input  logic                 aside_i,     // selective, and it has come before
  input  logic [23:0]          found_last_psn_i,  // last_psn_i, a cycle before it counts
  output logic                 add_o,       // it gets a place; else there is one job less: this one, or another
  output logic                 replace_o,   // it takes the place of the first one
  output logic                 link_o,      // the place behind from_o is to_o
  output logic [JobPlaceW-1:0] from_o,
  output logic [JobPlaceW-1:0] to_o,
  output logic                 relink_o,    // and behind the new one is main_head
  output resp_list_t           with_o,
  // A packet of the first one, which has these PSNs, leaves. Where main goes on inside it (goes_on_o) the list says
  // so only when it has been resumed.
  input  logic [23:0]          job_psn_i,
  input  logic [23:0]          job_last_psn_i,
  input  logic [23:0]          sent_psn_i,
  input  logic                 is_last_i,
  input  logic                 lone_i,      // of a job that has not been in the list, which is empty
  input  logic [JobPlaceW-1:0] next_i,      // the place behind it
  output resp_list_t           sent_o,
  output logic                 goes_on_o,
  output resp_list_t           resumed_o
);

  logic [23:0] head_psn;
  logic [JobCountW-1:0] more, fewer;   // jobs
  logic        full, empty, begun, alone, sent_ends;
  logic        newer, unsent, between, to_main, back, replaces, adds;
  logic        newer_q, between_q, back_q, replaces_q, adds_q;

  // In gates: open synthesis finds `empty` inside a carry chain, and lets all wait for it.
  always_comb begin
    for (int unsigned b = 0; b < JobCountW; b++) begin
      more[b]  = list_i.count[b] ^ ((~list_i.count & JobCountW'((1 << b) - 1)) == '0);
      fewer[b] = list_i.count[b] ^ ((list_i.count & JobCountW'((1 << b) - 1)) == '0);
    end
  end
  assign empty     = list_i.count == '0;
  assign full      = list_i.count == JobCountW'(MaxDestRdAtomic) || (!empty && !more_i);
  assign begun     = list_i.partly || goes_on_o;
  assign goes_on_o = list_i.midway && !list_i.replaying;        // the first job, at at_psn
  assign head_psn  = list_i.partly ? list_i.head_psn : list_i.at_psn;

  // By carries: whether main is empty (replaying), and whether the packet is the last but one of its job.
  hca_same #(.Width(JobPlaceW)) u_alone (.a_i(list_i.tail), .b_i(list_i.replay_tail), .same_o(alone));
  hca_next #(.Width(24)) u_ends (.a_i(sent_psn_i), .b_i(job_last_psn_i), .next_o(sent_ends));

  // ---- Where one belongs that has come before ------------------------------------------------------------
  assign to_main   = list_i.replaying && !psn_ge(psn_i, list_i.main_psn);
  always_comb begin
    if (aside_i) begin
      newer    = !empty && !psn_ge(list_i.newest_psn, psn_i);
      unsent   = !empty && psn_ge(psn_i, list_i.at_psn) && (!to_main || psn_ge(list_i.replay_psn, psn_i));
      back     = !newer && !unsent && list_i.midway
                 && psn_ge(found_last_psn_i, list_i.replaying ? list_i.main_psn : list_i.at_psn);
      replaces = !newer && !unsent && list_i.partly && psn_ge(psn_i, head_psn)
                 && psn_ge(found_last_psn_i, list_i.last_psn);
      between  = to_main && !unsent;
    end else begin
      newer    = empty || !psn_ge(list_i.newest_psn, psn_i);
      unsent   = psn_ge(psn_i, list_i.at_psn);
      back     = 1'b0;
      replaces = !newer && begun && psn_ge(psn_i, head_psn) && psn_ge(list_i.last_psn, psn_i);
      between  = to_main && !psn_ge(list_i.replay_psn, psn_i);
    end
    adds = newer || (!replaces && !back && (between || !unsent));
  end
  always_ff @(posedge clk_i) {newer_q, between_q, back_q, replaces_q, adds_q} <= {newer, between, back, replaces, adds};

  // ---- What becomes of it --------------------------------------------------------------------------------
  // What comes late says of each field only whether it takes what is there before.
  logic put_end, put_front, put_back, at_takes, main_takes, main_begins;

  assign put_end     = !full && (fresh_i || newer_q);
  assign put_back    = !full && !fresh_i && !newer_q && adds_q;   // among the replays: behind them,
  assign put_front   = put_back && !between_q;                    // or in front of all
  assign at_takes    = (!fresh_i && (replaces_q || (back_q && !list_i.replaying))) || put_front || (put_end && empty);
  assign main_takes  = !fresh_i && back_q && !replaces_q && list_i.replaying;
  assign main_begins = begun && !aside_i;

  assign replace_o = !fresh_i && replaces_q;
  assign add_o     = !full && (fresh_i || adds_q);
  assign link_o    = add_o && !empty;
  assign relink_o  = put_back && between_q && !alone;
  assign from_o    = (fresh_i || newer_q) ? list_i.tail : between_q ? list_i.replay_tail : new_i;
  assign to_o      = (fresh_i || newer_q || between_q) ? new_i : list_i.head;

  always_comb begin
    with_o = list_i;
    if (add_o) with_o.count = more;
    if (at_takes) with_o.at_psn = psn_i;
    if (main_takes) with_o.main_psn = psn_i;
    if (put_end) with_o.newest_psn = last_psn_i;
    if (put_end || (put_back && (empty || (between_q && alone)))) with_o.tail = new_i;
    if ((put_end && empty) || put_front) with_o.head = new_i;
    if (put_end && list_i.replaying && alone) with_o.main_head = new_i;
    if (put_back) {with_o.replaying, with_o.replay_tail, with_o.replay_psn} = {1'b1, new_i, last_psn_i};
    if (put_front) begin
      with_o.main_head = list_i.head;
      with_o.main_psn  = main_begins ? head_psn : list_i.at_psn;
      with_o.midway    = begun && aside_i;
    end
    if (replace_o || put_front) with_o.partly = 1'b0;
  end

  always_comb begin
    sent_o          = list_i;
    sent_o.partly   = 1'b1;
    sent_o.ends     = sent_ends;
    sent_o.at_psn   = sent_psn_i + 24'd1;
    sent_o.head_psn = job_psn_i;
    sent_o.last_psn = job_last_psn_i;
    if (is_last_i) begin
      sent_o.partly = 1'b0;
      sent_o.count  = fewer;
      sent_o.head   = next_i;
      if (list_i.replaying && list_i.head == list_i.replay_tail) begin
        sent_o.replaying = 1'b0;
        sent_o.at_psn    = list_i.main_psn;
      end
    end
    if (lone_i) {sent_o.count, sent_o.newest_psn} = {list_i.count, sent_psn_i};
  end

  always_comb begin
    resumed_o          = list_i;
    resumed_o.midway   = 1'b0;
    resumed_o.partly   = list_i.at_psn != job_psn_i;
    resumed_o.ends     = list_i.at_psn == job_last_psn_i;
    resumed_o.head_psn = job_psn_i;
    resumed_o.last_psn = job_last_psn_i;
  end

endmodule
