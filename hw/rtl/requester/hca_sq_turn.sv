// How long a turn lasts, and how it really ends: packets of the turn by weight, packets since the slot was bound, and
// who else wants the slot. What is asked of the slot (gate, fetcher) is of the cycle before: news since then wakes it.
module hca_sq_turn
  import hca_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots = 64,
  parameter int unsigned Burst = 4,
  parameter int unsigned Large = 4,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic [SlotW-1:0] slot_i,
  input  logic             begin_i,      // of a turn
  input  logic             read_i,       // the cycle behind it
  input  logic [Slots-1:0] bind_i,       // strobes: the slot has another QP
  input  logic             asked_i,      // with bind_i: its WQEs have been asked for,
  input  logic             set_i,        // strobe: the QP of set_slot_i has another context than then
  input  logic [SlotW-1:0] set_slot_i,
  output logic             asked_o,      // that still stands, and it is the first turn
  input  logic             idle_i,       // nothing is posted that was not sent
  input  logic             left_i,       // it is given back without a look: as it was
  output logic             idle_o,
  output logic             first_o,      // its first turn has not ended: what was kept before is void
  input  logic             plan_i,       // a packet is made next,
  input  logic             ends_i,       // the last one of the turn,
  input  logic             large_i,      // of this size;
  input  logic             lone_i,       // the last one for its size
  input  logic             made_i,       // strobe: it is made
  input  logic             over_i,       // the turn is over
  input  sq_end_e          end_i,        // as the emitter sees it
  input  sq_gate_t         gate_i,
  input  logic             want_slot_i,
  input  logic             stopped_i,    // the fetcher has
  output logic             full_o,       // behind the packet: that was the last one of the turn
  output logic             none_o,       // no packet yet
  output logic             shut_o,       // the gate a cycle ago
  output sq_end_e          end_o
);

  localparam int unsigned CountW = $clog2(Burst + Large);

  logic [CountW-1:0] count_q, weight, weight_q;
  sq_gate_t          gate_q;
  logic [6:0]        quotas_q [Slots];
  logic [Slots-1:0]  first_q, asked_q, idle_q;
  logic [6:0]        quota_q;   // packets since the slot was bound, saturating
  logic              stopped_q, unused_bits;

  assign unused_bits = ^{gate_q};
  assign none_o      = count_q == '0;
  assign first_o     = first_q[slot_i];
  assign asked_o     = asked_q[slot_i];
  assign idle_o      = left_i ? idle_q[slot_i] : idle_i;
  assign shut_o      = gate_q.shut;
  // A large packet counts for many small ones: in a row they cost others no more time than a few large ones. Behind one
  // of over 1 KiB the turn is over: the lane's gate knows of it before the next one is decided, and no lane has more on
  // its way than its ring may hold.
  assign weight      = large_i ? CountW'(Large) : CountW'(1);

  always_ff @(posedge clk_i) begin
    gate_q    <= gate_i;
    stopped_q <= stopped_i;
    if (begin_i) count_q <= '0;
    else if (made_i) count_q <= count_q + weight_q;
    if (plan_i) begin
      weight_q <= weight;
      full_o   <= count_q + weight >= (gate_i.urgent ? CountW'(4) : CountW'(Burst)) || ends_i || lone_i;
    end
    if (read_i) quota_q <= first_o ? '0 : quotas_q[slot_i];
    else if (made_i && !quota_q[6]) quota_q <= quota_q + 7'd1;
    if (over_i) quotas_q[slot_i] <= quota_q;
    if (over_i) idle_q[slot_i] <= idle_i;
    first_q <= (first_q & ~(Slots'(over_i) << slot_i)) | bind_i;
    asked_q <= (asked_q & ~(Slots'(over_i) << slot_i) & ~(Slots'(set_i) << set_slot_i)) | (asked_i ? bind_i : '0);
  end

  // A wait is over if the fetcher has stopped; slots go back when others wait.
  always_comb begin
    end_o = end_i;
    if (end_i == EndWait && stopped_q) end_o = EndAgain;
    if (end_i == EndPark && (want_slot_i || gate_q.others)) end_o = EndRelease;
    if (end_i == EndAgain && want_slot_i && gate_q.shut && !gate_q.keep) end_o = EndRequeue;
    if (end_i == EndAgain && gate_q.others && quota_q[6]) end_o = EndRequeue;
  end

endmodule
