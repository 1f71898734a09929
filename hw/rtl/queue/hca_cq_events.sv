// Completion queues that owe an event. A new one is offered some cycles after it was added; one whose event queue was
// full waits here (park), and is offered again whenever an event queue has been read, once each time. Members are in
// the order of a walk, not in that of their adding. Nobody who adds waits longer than four cycles. The one that is
// offered is in a register, and no member any more; new ones and parked ones take turns with it while it is empty and
// somebody waits.
module hca_cq_events
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           add_i,        // strobe, with ready_o
  input  logic [CqW-1:0] add_cqn_i,
  output logic           add_ready_o,
  input  logic           park_i,       // strobe
  input  logic [CqW-1:0] park_cqn_i,
  output logic           park_ready_o,
  input  logic           room_i,       // strobe: an event queue has been read
  output logic           valid_o,
  input  logic           ready_i,
  output logic [CqW-1:0] cqn_o
);

  localparam int unsigned CountW = $clog2(NumCqs) + 1;

  logic              add_q, set_ready, new_valid, parked_valid, parked_turn_q, left_q, again, load;
  logic [CqW-1:0]    add_cqn_q, new_cqn, parked_cqn;
  logic [CountW-1:0] parked, tries_q;   // left_q: not 0

  assign add_ready_o = !add_q;
  assign again       = parked_turn_q && left_q;
  assign load        = !valid_o && (parked_turn_q ? again && parked_valid : new_valid);

  hca_work_set #(
    .Items(NumCqs)
  ) u_new (
    .clk_i,
    .rst_i,
    .add_valid_i(add_q),
    .add_ready_o(set_ready),
    .add_i      (add_cqn_q),
    .out_valid_o(new_valid),
    .out_ready_i(!valid_o && !parked_turn_q),
    .out_o      (new_cqn)
  );

  hca_fifo #(
    .Width(CqW),
    .Depth(NumCqs)
  ) u_parked (
    .clk_i,
    .rst_i,
    .in_valid_i (park_i),
    .in_ready_o (park_ready_o),
    .in_i       (park_cqn_i),
    .out_valid_o(parked_valid),
    .out_ready_i(!valid_o && again),
    .out_o      (parked_cqn),
    .count_o    (parked)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      add_q         <= 1'b0;
      tries_q       <= '0;
      left_q        <= 1'b0;
      valid_o       <= 1'b0;
      parked_turn_q <= 1'b0;
    end else begin
      add_q   <= add_i || (add_q && !set_ready);
      if (room_i) {tries_q, left_q} <= {parked, parked != '0};
      else if (!valid_o && again && parked_valid) {tries_q, left_q} <= {tries_q - 1'b1, tries_q != CountW'(1)};
      valid_o <= load || (valid_o && !ready_i);
      // At rest it stands: a card in which something runs in vain does not sleep.
      if (!valid_o && (new_valid || (parked_valid && left_q))) parked_turn_q <= !parked_turn_q;
    end
    if (add_ready_o) add_cqn_q <= add_cqn_i;
    if (!valid_o) cqn_o <= parked_turn_q ? parked_cqn : new_cqn;
  end

endmodule
