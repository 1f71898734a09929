// Which slots are held by congestion control, and until when: what hca_cc_pace has found of the QP in a slot is kept,
// and looked at again, a slot each cycle, until the debt is down. A slot that opens too early (its rate has fallen
// meanwhile) is judged anew in its turn; one that gets another QP is open.
module hca_sq_hold
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [63:0]      now_i,
  input  logic             hold_i,        // slot_i owes this much
  input  logic [SlotW-1:0] slot_i,
  input  cc_debt_t         debt_i,
  input  logic             bind_i,
  input  logic [SlotW-1:0] bind_slot_i,
  output logic [Slots-1:0] open_o
);

  logic [SlotW-1:0]      idx_q;
  logic [2:0]            go_q;
  logic [2:0][SlotW-1:0] at_q;
  cc_debt_t              found;
  logic [CcDebtW-1:0]    debt_q, debt_late_q, drained;
  logic                  scan, paid, unused_now;

  assign unused_now = ^now_i;
  assign scan       = open_o != '1;

  hca_ram_1r1w #(
    .Width($bits(cc_debt_t)),
    .Depth(Slots)
  ) u_debts (
    .clk_i,
    .we_i   (hold_i),
    .waddr_i(slot_i),
    .wdata_i(debt_i),
    .re_i   (scan),
    .raddr_i(idx_q),
    .rdata_o(found)
  );

  hca_cc_drain u_drain (
    .clk_i,
    .en_i   (go_q[0]),
    .now_i  (now_i[31:0]),
    .since_i(found.at),
    .rate_i (found.rate),
    .bytes_o(drained)
  );

  assign paid = debt_late_q <= drained || debt_late_q - drained <= CcAhead;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      open_o <= '1;
      idx_q  <= '0;
      go_q   <= '0;
    end else begin
      if (scan) idx_q <= idx_q + 1'b1;
      go_q <= {go_q[1:0], scan && !open_o[idx_q]};
      if (go_q[2] && paid) open_o[at_q[2]] <= 1'b1;
      if (hold_i) open_o[slot_i] <= 1'b0;
      if (bind_i) open_o[bind_slot_i] <= 1'b1;
    end
    at_q        <= {at_q[1:0], idx_q};
    debt_q      <= found.debt;
    debt_late_q <= debt_q;
  end

endmodule
