// QPs that congestion control holds. One that hca_cc_pace finds held stands in a line of hca_sq_wait for about as long
// as its debt takes (half of that to twice: an allowance is left, so nothing is lost), and its slot is shut. The QP,
// not the slot, waits: others may have the slot meanwhile. When its time has come hca_sq_sched is told, who knows where
// the QP is, and lets the slot open or the QP queue for one. If it is still held then it waits again, and so does one
// that the longest line is too short for.
module hca_sq_hold
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [63:0]      now_i,
  input  logic             hold_i,        // the QP in slot_i owes this much: a level
  input  logic [SlotW-1:0] slot_i,
  input  logic [QpW-1:0]   qpn_i,
  input  cc_debt_t         debt_i,
  input  logic [Slots-1:0] bind_i,        // strobe: a slot has a new QP
  output logic             due_valid_o,   // this QP has waited
  input  logic             due_ready_i,
  output logic [QpW-1:0]   due_qpn_o,
  input  logic             lift_i,        // strobe: it was in this slot
  input  logic [SlotW-1:0] lift_slot_i,
  output logic [Slots-1:0] open_o,
  output logic             held_o         // somebody waits
);

  localparam int unsigned TickW = $clog2(CcTickCycles);
  localparam int unsigned Lines = 11;
  localparam int unsigned LineW = $clog2(Lines);
  localparam int unsigned LogW  = $clog2(CcDebtW);

  function automatic logic [LogW-1:0] log2(logic [CcDebtW-1:0] value);
    log2 = '0;
    for (int unsigned b = 1; b < CcDebtW; b++) if (value[b]) log2 = LogW'(b);
  endfunction

  logic               hold, found_q, log_q, push_q;
  logic [CcDebtW-1:0] excess_q;
  logic [CcRateW-1:0] rate_q;
  logic [LogW:0]      excess_log_q, tick_log_q;   // logarithms: of what it owes, and of what a tick pays of that
  logic [LogW:0]      ticks;                      // of how many it takes
  logic [LineW-1:0]   line_q;
  logic [QpW-1:0]     qpn_q, qpn_log_q, qpn_late_q;

  assign hold  = hold_i && open_o[slot_i];
  assign ticks = excess_log_q - tick_log_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {found_q, log_q, push_q} <= '0;
      open_o                   <= '1;
    end else begin
      found_q <= hold;
      log_q   <= found_q;
      push_q  <= log_q;
      open_o  <= open_o | bind_i;
      if (hold_i) open_o[slot_i] <= 1'b0;
      if (lift_i) open_o[lift_slot_i] <= 1'b1;
    end
    if (hold) begin
      qpn_q    <= qpn_i;
      rate_q   <= debt_i.rate;
      excess_q <= debt_i.debt - CcAhead;
    end
    if (found_q) begin
      qpn_log_q    <= qpn_q;
      excess_log_q <= (LogW + 1)'(log2(excess_q));
      tick_log_q   <= (LogW + 1)'(log2(CcDebtW'(rate_q))) + (LogW + 1)'(TickW);
    end
    if (log_q) begin
      qpn_late_q <= qpn_log_q;
      line_q     <= ticks[LogW] ? '0 : (ticks > (LogW + 1)'(Lines - 1)) ? LineW'(Lines - 1) : ticks[LineW-1:0];
    end
  end

  hca_sq_wait #(
    .Lines(Lines),
    .Ids  (NumQps),
    .TickW(TickW)
  ) u_wait (
    .clk_i, .rst_i, .now_i,
    .push_i     (push_q),
    .push_line_i(line_q),
    .push_id_i  (qpn_late_q),
    .valid_o    (due_valid_o),
    .pop_i      (due_ready_i),
    .pop_id_o   (due_qpn_o),
    .used_o     (held_o)
  );

endmodule
