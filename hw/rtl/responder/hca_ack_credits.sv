// What an answer says of the peer's receive queue, for hca_ack_unit (decision 0068). Credits are kept by send WQE: an
// AETH names the messages of the requester that have ended (MSN) and how many receive WQEs there are, and the WQE
// behind those messages is the oldest one when the answer has been walked, so MSN + credits is oldest + credits,
// whatever the MSN is.
//
// Ordering: the limit never goes back (the code of a count is rounded down, and an older ACK of the same PSN may come);
// an ACK that is behind what has been acknowledged says nothing, but one of the last PSN acknowledged does: that is how
// the peer tells of receives that it has posted since. 31 in any ACK ends it until the send queue is initialised.
//
// Timing: what the job says is taken with start_i, the last time that it is high. From then on `oldest + credits` is
// counted along with the oldest WQE (step_i), and so is the number behind it, so that the end of a job compares two
// registers: same_o if the oldest WQE is st_i's, next_o if it is the one behind it. Combinational from st_i on.
module hca_ack_credits
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic        clk_i,
  input  logic        start_i,
  input  ack_job_t    job_i,
  input  ack_st_t     first_i,   // with start_i: the state
  input  logic [23:0] mark_i,    // PSN behind the newest packet
  input  logic        step_i,    // strobe: the oldest WQE is the next one
  input  ack_st_t     st_i,      // state of the walk
  output logic        late_o,    // the job is an ACK of what was acknowledged before
  output logic        same_dry_o,
  output credit_t     same_o,
  output logic        same_news_o,
  output logic        next_dry_o,
  output credit_t     next_o
);

  logic        says_q, none_q, zero_q;  // of the answer: it has an ACK's code, 31, 0
  logic        last_q;                  // it is of the newest packet
  wqe_idx_t    to_q, next_to_q;         // oldest WQE and credits; the one behind it and credits
  wqe_idx_t    same_gain, next_gain;
  logic        same_all, next_all;      // the limit is there already
  logic        same_up, next_up, unused_bits;

  assign unused_bits = ^{first_i, st_i, job_i, same_gain[WqeIndexBits-2:0], next_gain[WqeIndexBits-2:0]};

  // One more, in the same chain.
  wqe_idx_t next_to;
  assign next_to = WqeIndexBits'(({first_i.una_wqe, 1'b1} + {credit_count(job_i.syndrome[4:0]), 1'b1}) >> 1);

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      says_q <= job_i.kind inside {AjAck, AjRead} && job_i.syndrome[7:5] == '0
                && (job_i.kind == AjAck || job_i.rd_ends || job_i.at_opcode);
      none_q <= job_i.syndrome[4:0] == NoCredits;
      zero_q <= job_i.syndrome[4:0] == '0;
      last_q <= job_i.psn + 24'd1 == mark_i;
      late_o <= job_i.kind == AjAck && job_i.syndrome[7:5] == '0 && job_i.psn + 24'd1 == first_i.una_psn;
    end
    if (start_i) to_q <= first_i.una_wqe + credit_count(job_i.syndrome[4:0]);
    else if (step_i) to_q <= next_to_q;
    if (start_i) next_to_q <= next_to;
    else if (step_i) next_to_q <= next_to_q + 1'b1;
  end

  // How far behind the limit that is; nothing at all is found beside it.
  assign same_gain   = to_q - st_i.credit.limit;
  assign next_gain   = next_to_q - st_i.credit.limit;
  assign same_up     = !same_gain[WqeIndexBits-1] && !same_all;
  assign next_up     = !next_gain[WqeIndexBits-1] && !next_all;
  hca_same #(.Width(WqeIndexBits)) u_same_all (.a_i(to_q), .b_i(st_i.credit.limit), .same_o(same_all));
  hca_same #(.Width(WqeIndexBits)) u_next_all (.a_i(next_to_q), .b_i(st_i.credit.limit), .same_o(next_all));
  assign same_news_o = says_q && st_i.credit.on && (none_q || same_up);
  // Without a credit the limit is the oldest WQE, or before it.
  assign same_dry_o  = says_q && st_i.credit.on && zero_q && last_q && !same_gain[WqeIndexBits-1];
  assign next_dry_o  = says_q && st_i.credit.on && zero_q && last_q && !next_gain[WqeIndexBits-1];

  always_comb begin
    same_o    = st_i.credit;
    next_o    = st_i.credit;
    if (says_q && none_q) {same_o.on, next_o.on} = '0;
    if (says_q && !none_q && same_up) same_o.limit = to_q;
    if (says_q && !none_q && next_up) next_o.limit = next_to_q;
  end

endmodule
