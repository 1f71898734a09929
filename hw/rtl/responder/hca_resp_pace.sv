// Holds QPs with READ responses to the rates of congestion control, as the requester holds theirs: hca_cc_pace keeps
// what a QP owes for its responses, apart from what it owes for its requests. A QP that is held leaves the queues of
// hca_resp_sched, stands in a line of hca_sq_hold, and gets a turn when its time has come (`due`).
module hca_resp_pace
  import hca_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic [63:0]        now_i,
  input  cc_pace_t [NumPorts-1:0] cc_i,
  input  cc_rate_wr_t        rate_wr_i,
  input  logic               take_i,       // strobe: a QP's event is taken, and its row read
  input  logic [QpW-1:0]     qpn_i,
  input  logic [PortW-1:0]   port_i,       // of that QP, from the second cycle on
  input  logic               ask_i,        // it has a packet to make, from the third cycle on: a level
  input  logic               made_i,       // strobe: it made one
  input  logic [12:0]        bytes_i,
  output logic               on_o,         // congestion control is on at its port
  output logic               go_o,         // while asked: it may
  output logic               hold_o,       // while asked: it stands in a line from now on
  output logic               due_valid_o,  // this QP has waited
  input  logic               due_ready_i,
  output logic [QpW-1:0]     due_qpn_o,
  output logic               held_o,       // somebody waits
  output logic               sent_valid_o,
  input  logic               sent_ready_i,
  output cc_sent_t           sent_o
);

  logic [NumPorts-1:0] on;
  logic [QpW-1:0]      qpn_q;
  logic [1:0]          asked_q;   // cycles
  logic                paced, held, judged;
  logic [1:0]          unused_open;
  cc_debt_t            debt;

  for (genvar p = 0; p < NumPorts; p++) begin : gen_on
    assign on[p] = cc_i[p].on;
  end

  // Whether a QP has a rate is known at once, whether it is held two cycles later.
  assign on_o   = on[port_i];
  assign judged = asked_q == 2'd2;
  assign go_o   = ask_i && (!paced || (judged && !held));
  assign hold_o = ask_i && paced && judged && held;

  always_ff @(posedge clk_i) begin
    if (rst_i || !ask_i) asked_q <= '0;
    else if (!judged) asked_q <= asked_q + 2'd1;
    if (take_i) qpn_q <= qpn_i;
  end

  hca_cc_pace #(.ReadsApart(1'b1)) u_pace (
    .clk_i, .rst_i, .now_i, .cc_i, .rate_wr_i,
    .re_i   (take_i && on != '0),
    .qpn_i, .port_i, .made_i, .bytes_i,
    .paced_o(paced),
    .held_o (held),
    .debt_o (debt),
    .sent_valid_o, .sent_ready_i, .sent_o
  );

  // No slots here: the one that there is is open for whoever comes.
  hca_sq_hold #(.Slots(2)) u_hold (
    .clk_i, .rst_i, .now_i,
    .hold_i     (hold_o),
    .slot_i     (1'b0),
    .qpn_i      (qpn_q),
    .debt_i     (debt),
    .bind_i     (2'b00),
    .due_valid_o, .due_ready_i, .due_qpn_o,
    .lift_i     (1'b1),
    .lift_slot_i(1'b0),
    .open_o     (unused_open),
    .held_o
  );

endmodule
