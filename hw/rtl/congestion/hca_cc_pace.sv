// Holds QPs of a scheduler to the rates that congestion control has set. A packet puts its bytes on the debt of its QP,
// which falls by the rate; above `Ahead` the QP is held. So a QP has its rate exactly in the long run, and is never
// more than Ahead bytes and one packet ahead of it. The scheduler serves one QP at a time: re_i reads what is kept of
// it; `paced_o` stands from the second cycle on, `held_o` from the fourth; then come its packets (made_i). What a QP
// has sent goes to hca_cc_react, together with what found no room there before.
module hca_cc_pace
  import hca_pkg::*;
#(
  parameter bit ReadsApart = 1'b0   // nobody looks at held_o in a cycle with re_i
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic [63:0]        now_i,
  input  cc_pace_t [NumPorts-1:0] cc_i,
  input  cc_rate_wr_t        rate_wr_i,
  input  logic               re_i,
  input  logic [QpW-1:0]     qpn_i,
  input  logic [PortW-1:0]   port_i,       // of that QP, from the second cycle on
  input  logic               made_i,       // strobe: a packet of that QP
  input  logic [12:0]        bytes_i,
  output logic               paced_o,
  output logic               held_o,
  output cc_debt_t           debt_o,       // of a QP that is held
  output logic               sent_valid_o,
  input  logic               sent_ready_i,
  output cc_sent_t           sent_o
);

  typedef struct packed {
    logic [7:0]         epoch;
    logic [CcRateW-1:0] rate;
  } rate_row_t;

  typedef struct packed {
    logic [15:0]        unsaid;   // bytes
    logic [CcDebtW-1:0] debt;
    logic [31:0]        at;
  } row_t;

  rate_row_t          rate_row, rate_q;
  row_t               row, row_new;
  logic               scrub_q;
  logic [QpW-1:0]     scrub_qpn_q;
  logic               on, read_q, known_q, product_q_ok, owed_ok_q, over, say, unused_now;
  logic [QpW-1:0]     qpn_q;
  logic [31:0]        at_q;
  logic [CcDebtW-1:0] debt_q, owed_q, owed_new, drained;
  logic [CcDebtW:0]   rest;       // debt less what was drained, or less than nothing
  logic [15:0]        unsaid_q;
  logic [16:0]        unsaid;

  assign unused_now = ^now_i;
  assign on         = cc_i[port_i].on && rate_q.epoch == cc_i[port_i].epoch;

  hca_ram_1r1w #(
    .Width($bits(rate_row_t)),
    .Depth(NumQps)
  ) u_rates (
    .clk_i,
    .we_i   (rate_wr_i.valid || scrub_q),
    .waddr_i(scrub_q ? scrub_qpn_q : rate_wr_i.qpn),
    .wdata_i(scrub_q ? {8'd0, CcRateW'(CcRateFull)} : {rate_wr_i.epoch, rate_wr_i.rate}),
    .re_i,
    .raddr_i(qpn_i),
    .rdata_o(rate_row)
  );

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumQps)
  ) u_debts (
    .clk_i,
    .we_i   ((made_i && cc_i[port_i].on) || scrub_q),
    .waddr_i(scrub_q ? scrub_qpn_q : qpn_q),
    .wdata_i(scrub_q ? '0 : row_new),
    .re_i,
    .raddr_i(qpn_i),
    .rdata_o(row)
  );

  hca_cc_drain u_drain (
    .clk_i,
    .en_i   (read_q),
    .now_i  (now_i[31:0]),
    .since_i(row.at),
    .rate_i (rate_row.rate),
    .bytes_o(drained),
    .over_o (over)
  );

  // All rows are cleared after reset, while the scheduler clears its own: nobody owes anything, or has a rate.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      scrub_q     <= 1'b1;
      scrub_qpn_q <= '0;
    end else if (scrub_q) begin
      scrub_qpn_q <= scrub_qpn_q + 1'b1;
      scrub_q     <= scrub_qpn_q != QpW'(NumQps - 1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) {read_q, known_q, product_q_ok, owed_ok_q} <= '0;
    else begin
      read_q       <= re_i;
      known_q      <= !re_i && (read_q || known_q);
      product_q_ok <= !re_i && known_q;
      owed_ok_q    <= !re_i && product_q_ok;
    end
    if (re_i) qpn_q <= qpn_i;
    if (read_q) begin
      rate_q   <= rate_row;
      debt_q   <= row.debt;
      unsaid_q <= row.unsaid;
      at_q     <= now_i[31:0];
    end
    if (made_i) begin
      owed_q   <= owed_new;
      unsaid_q <= row_new.unsaid;
    end else if (product_q_ok && !owed_ok_q) begin
      owed_q <= (over || rest[CcDebtW]) ? '0 : rest[CcDebtW-1:0];
    end
  end

  assign rest     = {1'b0, debt_q} - {1'b0, drained};
  assign paced_o  = known_q && on && rate_q.rate != CcRateW'(CcRateFull);
  assign held_o   = owed_ok_q && (ReadsApart || !re_i) && paced_o && owed_q > CcAhead;
  assign debt_o   = '{debt: owed_q, rate: rate_q.rate};
  assign owed_new = owed_q + (CcDebtW'(bytes_i) << CcRateFracW);

  // ---- What has been sent -----------------------------------------------------------------------------------------
  assign unsaid = 17'(unsaid_q) + 17'(bytes_i);
  assign say    = !sent_valid_o || sent_ready_i;

  always_comb begin
    row_new = '0;   // a QP that is not paced owes nothing
    if (paced_o) begin
      row_new.debt   = owed_new;
      row_new.at     = at_q;
      row_new.unsaid = say ? '0 : unsaid[16] ? '1 : unsaid[15:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) sent_valid_o <= 1'b0;
    else sent_valid_o <= (made_i && paced_o) || (sent_valid_o && !sent_ready_i);
    if (made_i && say) sent_o <= '{port: port_i, qpn: qpn_q, bytes: unsaid[16] ? '1 : unsaid[15:0]};
  end

endmodule
