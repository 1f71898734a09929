// A slot on its way back to the scheduler: the emitter hands it over and goes on at once. One at a time; until the
// scheduler has taken it (`gone_i`, the cycle after out_ready_i) the slot still belongs to its QP, has news like any
// other, and gets no turn. What depends on the emitter's slot is kept as it was when the slot was handed over.
module hca_sq_leave
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             in_valid_i,
  output logic             in_ready_o,
  input  logic [SlotW-1:0] slot_i,
  input  logic [QpW-1:0]   qpn_i,
  input  logic             requeue_i,
  input  logic             idle_i,
  input  logic [LaneW-1:0] sl_i,
  input  logic             hand_i,
  input  logic             held_i,
  output logic             out_valid_o,
  input  logic             out_ready_i,
  output logic [SlotW-1:0] slot_o,
  output logic [QpW-1:0]   qpn_o,
  output logic             requeue_o,
  output logic             idle_o,
  output logic [LaneW-1:0] sl_o,
  output logic             hand_o,
  output logic             held_o,
  output logic             busy_o,      // slot_o is on its way
  input  logic             gone_i
);

  assign in_ready_o = !busy_o;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      out_valid_o <= 1'b0;
      busy_o      <= 1'b0;
    end else if (in_valid_i && in_ready_o) begin
      out_valid_o <= 1'b1;
      busy_o      <= 1'b1;
    end else begin
      if (out_ready_i) out_valid_o <= 1'b0;
      if (gone_i) busy_o <= 1'b0;
    end
    if (in_valid_i && in_ready_o) begin
      slot_o    <= slot_i;
      qpn_o     <= qpn_i;
      requeue_o <= requeue_i;
      idle_o    <= idle_i;
      sl_o      <= sl_i;
      hand_o    <= hand_i;
      held_o    <= held_i;
    end
  end

endmodule
