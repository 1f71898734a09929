// Whose QP gets the next free slot: of the queues with QPs whose gate is open, in turn; before them one whose group was
// handed a slot (its heirs), open or not. And which id is to be sorted, before all these.
// Two stages: queues that may, then one of them, which stays offered until it is popped. The next one can be popped two
// cycles later; three, if the pop before left one of those empty that were seen for it.
module hca_sq_next #(
  parameter int unsigned Queues = 16,
  localparam int unsigned QueueW = (Queues > 1) ? $clog2(Queues) : 1
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic [Queues-1:0] used_i,        // queues with QPs
  input  logic [Queues-1:0] open_i,
  input  logic [Queues-1:0] hand_i,        // strobes: the next QP of that queue inherits a slot
  input  logic              free_i,        // there is a free slot; it stays until a pop takes it
  input  logic              sort_valid_i,
  input  logic [QueueW-1:0] sort_queue_i,
  input  logic [Queues-1:0] emptied_i,     // with pop_i: the queue that has no more
  input  logic              pop_i,
  output logic              valid_o,
  output logic              sort_o,        // to be sorted only: takes no slot
  output logic [QueueW-1:0] queue_o,
  output logic              waits_o        // somebody waits for a slot
);

  // ---- Who may --------------------------------------------------------------------------------------
  logic [Queues-1:0] heir_q, round_q, heirs, ready, heirs_left, ready_left, from_q, emptied_q;
  logic              seen_q;

  assign heirs      = used_i & heir_q;
  assign ready      = used_i & open_i;
  assign heirs_left = heirs & round_q;
  assign ready_left = ready & round_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      seen_q  <= 1'b0;
      waits_o <= 1'b0;
    end else begin
      seen_q  <= !valid_o || pop_i;
      waits_o <= (ready | heirs) != '0;
    end
    emptied_q <= pop_i ? emptied_i : '0;
    if (heirs != '0) from_q <= (heirs_left != '0) ? heirs_left : heirs;
    else from_q <= (ready_left != '0) ? ready_left : ready;
  end

  // ---- One of them ----------------------------------------------------------------------------------
  logic [Queues-1:0] negated, grant, above;
  logic [QueueW-1:0] idx, unused_behind;
  logic              may, offer;  // one that takes a slot, if there is one; it will be popped
  logic              none, unused_note, unused_wraps, unused_behind_note;

  // A chain for all that hangs on each queue, and its number found beside it.
  assign negated = ~from_q + 1'b1;
  assign grant   = from_q & negated;             // lowest set bit
  assign above   = (from_q | negated) & ~grant;  // all above it
  assign may     = !valid_o && seen_q && !sort_valid_i && free_i && (from_q & emptied_q) == '0;
  assign offer   = may && !none;

  hca_low_index #(.N(2 ** QueueW)) u_low (
    .bits_i((2 ** QueueW)'(from_q)), .notes_i('0), .later_i('0), .none_o(none), .idx_o(idx), .note_o(unused_note),
    .wraps_o(unused_wraps), .behind_o(unused_behind), .behind_note_o(unused_behind_note)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      valid_o <= 1'b0;
      heir_q  <= '0;
      round_q <= '1;
    end else begin
      if (!valid_o) valid_o <= offer || (seen_q && sort_valid_i);
      else if (pop_i) valid_o <= 1'b0;
      heir_q <= (heir_q & ~(may ? grant : '0)) | hand_i;
      if (offer) round_q <= above;
    end
    if (!valid_o) begin
      sort_o  <= sort_valid_i;
      queue_o <= sort_valid_i ? sort_queue_i : idx;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      assert (!pop_i || valid_o) else $error("hca_sq_next: nothing is offered");
      assert (!valid_o || used_i[queue_o]) else $error("hca_sq_next: queue %0d is empty", queue_o);
    end
  end
`endif

endmodule
