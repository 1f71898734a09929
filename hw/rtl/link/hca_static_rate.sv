// Static rate control: groups of QPs that share a rate, because the path to their destination is slower than
// the port (IBA vol1 9.11), or because they are paced. Each packet puts its time on that path onto the debt of
// its group; the debt falls by a cycle per cycle. While it is above `Ahead` cycles the group is shut: nobody
// picks its QPs, and the others go on. So a group gets its rate exactly in the long run, and is never more than
// Ahead cycles and one packet per asker ahead of it.
// Two askers: [0] hca_resp_sched, [1] the requester. A release permits each of them one packet. A permission
// lasts until it is used, so neither can take every turn of a group, and neither waits for the other.
// A packet shuts its asker's gate in the next cycle; but small ones leave it open while the debt is below half
// of Ahead, so that their rate does not depend on how fast an asker finds its way back to the group.
// One group is looked at in a cycle: one that has been charged, else the next one of those that owe something or are
// shut. With n of them a group may open n cycles late, which costs it nothing: Ahead is longer than n can be.
// Group 0 has no rate and is always open. Never stalls.
module hca_static_rate
  import hca_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic [1:0]                 made_valid_i,  // a packet was made; each at most every second cycle
  input  tx_made_t [1:0]         made_i,
  output logic [1:0][NumRateGroups-1:0] open_o,
  output logic                       busy_o           // a group is shut
);

  localparam int unsigned FracBits  = 8;              // of a cycle
  localparam int unsigned ProdW     = $bits(made_i[0].bytes) + $bits(made_i[0].interval);
  localparam int unsigned DropBits  = 16 - FracBits;
  localparam int unsigned CostW     = ProdW - DropBits;
  localparam int unsigned DebtW     = CostW + 2;      // never more than four packets of the slowest rate
  localparam int unsigned AheadBits = 8;              // Ahead = 256 cycles
  localparam int unsigned SeenW     = 11;             // cycles between two visits: turns of the groups, and charges
  localparam int unsigned RowW      = DebtW + SeenW;

  // ---- One packet after the other: [1] waits for a cycle if both come at once ------------------------------
  logic [1:0]   rated, unused_bits;
  logic         late_q, now_valid, item_valid_q, size_valid_q, cost_valid_q;
  tx_made_t     late_item_q, now_item, item_q;
  logic [RateGroupW-1:0] size_group_q, cost_group_q;
  logic [ProdW-1:0]      size_q;
  logic [CostW-1:0]      cost_q;

  assign rated     = {made_valid_i[1] && made_i[1].group != '0, made_valid_i[0] && made_i[0].group != '0};
  assign now_valid = rated != '0 || late_q;
  assign now_item  = rated[0] ? made_i[0] : late_q ? late_item_q : made_i[1];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      late_q       <= 1'b0;
      item_valid_q <= 1'b0;
      size_valid_q <= 1'b0;
      cost_valid_q <= 1'b0;
    end else begin
      late_q       <= (rated[1] && (rated[0] || late_q)) || (late_q && rated[0]);
      item_valid_q <= now_valid;
      size_valid_q <= item_valid_q;
      cost_valid_q <= size_valid_q;
    end
    if (rated[1]) late_item_q <= made_i[1];
    if (now_valid) item_q <= now_item;
    if (item_valid_q) begin
      size_group_q <= item_q.group;
      size_q       <= ProdW'(item_q.bytes) * ProdW'(item_q.interval);
    end
    if (size_valid_q) begin
      cost_group_q <= size_group_q;
      cost_q       <= CostW'(size_q >> DropBits) + CostW'(size_q[DropBits-1:0] != '0);
    end
  end

  assign unused_bits = {^{made_i, late_item_q}, ^{now_item, item_q}};

  // ---- Debts -------------------------------------------------------------------------------------------------
  // A group is visited when it is charged, or when it is its turn. Its row says what it owed at the
  // last visit, and when that was. First the row is read, in the next cycle (here) the debt is that of now, and in the
  // one after it (told) the gates hear of it.
  logic [NumRateGroups-1:0] has_q, half_q;               // groups with a debt: the others' rows say nothing
  logic [SeenW-1:0]      tick_q, visit_seen, here_passed_q;
  logic [RateGroupW-1:0] scan_q, visit_group, here_group_q, told_group_q;
  logic                  visit, is_here, here_valid_q, told_valid_q, told_low_q;
  logic [CostW-1:0]      here_cost_q;
  logic [DebtW-1:0]      visit_debt, here_debt_q, paid, left, after;
  logic [DebtW:0]        owed;                        // negative: something of the debt is left
  logic                  here_owed, here_owes, unused_owed;
  logic                  here_charge_q;
  logic [RowW-1:0]       rows [NumRateGroups];
  logic [NumRateGroups-1:0] waiting, unused_grant;
  logic [RateGroupW-1:0] turn;

  hca_rr_arb #(
    .N(NumRateGroups)
  ) u_turns (
    .clk_i,
    .rst_i,
    .req_i    (waiting),
    .advance_i(!cost_valid_q),
    .grant_o  (unused_grant),
    .idx_o    (turn)
  );

  // Without a packet under way, a debt or a shut group nothing here changes, and no time passes.
  assign waiting     = has_q | ~(open_o[0] & open_o[1]);
  assign visit       = cost_valid_q || waiting != '0;
  assign visit_group = cost_valid_q ? cost_group_q : scan_q;
  assign is_here     = here_valid_q && here_group_q == visit_group;
  assign {visit_debt, visit_seen} = rows[visit_group];

  // A debt is never below zero: what is left of it, and the cost, are added beside the comparison that says so.
  assign paid      = DebtW'({here_passed_q, FracBits'(0)});
  assign owed      = {1'b0, paid} - {1'b0, here_debt_q};
  assign here_owed = owed[DebtW];
  assign left      = here_debt_q + DebtW'(here_cost_q) - paid;
  assign after     = here_owed ? left : DebtW'(here_cost_q);
  assign here_owes = here_owed || here_charge_q;
  assign unused_owed = ^owed[DebtW-1:0];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      here_valid_q <= 1'b0;
      told_valid_q <= 1'b0;
      has_q        <= '0;
      half_q       <= '0;
      tick_q       <= '0;
      scan_q       <= '0;
    end else begin
      here_valid_q <= visit;
      told_valid_q <= here_valid_q;
      if (here_valid_q) has_q[here_group_q] <= here_owes;
      if (here_valid_q) half_q[here_group_q] <= (after >> (FracBits + AheadBits - 1)) != '0;
      if (here_valid_q || told_valid_q) tick_q <= tick_q + 1'b1;
      if (waiting != '0 && !cost_valid_q) scan_q <= turn;
    end
    if (visit) begin
      here_group_q  <= visit_group;
      here_charge_q <= cost_valid_q;
      here_cost_q   <= cost_valid_q ? cost_q : '0;
      here_debt_q   <= is_here ? after : has_q[visit_group] ? visit_debt : '0;
      here_passed_q <= is_here ? SeenW'(1) : tick_q + 1'b1 - visit_seen;
    end
    if (here_valid_q) begin
      rows[here_group_q] <= {after, tick_q};
      told_group_q       <= here_group_q;
      told_low_q         <= (after >> (FracBits + AheadBits)) == '0;
    end
  end

  // ---- Permissions -------------------------------------------------------------------------------------------
  logic [NumRateGroups-1:0]      due;
  logic [1:0][NumRateGroups-1:0] shuts;
  logic [1:0]                 is_large;
  logic                       under_way;

  assign under_way = (made_valid_i[0] && made_i[0].group == told_group_q)
                     || (made_valid_i[1] && made_i[1].group == told_group_q)
                     || (late_q && late_item_q.group == told_group_q)
                     || (item_valid_q && item_q.group == told_group_q)
                     || (size_valid_q && size_group_q == told_group_q)
                     || (cost_valid_q && cost_group_q == told_group_q)
                     || (here_valid_q && here_charge_q && here_group_q == told_group_q);

  always_comb begin
    due               = '0;
    due[told_group_q] = told_valid_q && told_low_q && !under_way;
    shuts             = '0;
    for (int unsigned p = 0; p < 2; p++) begin
      is_large[p] = made_i[p].bytes > 13'(RateSmallBytes);
      for (int unsigned g = 0; g < NumRateGroups; g++) begin
        shuts[p][g] = made_valid_i[p] && made_i[p].group == RateGroupW'(g) && (half_q[g] || is_large[p]);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < 2; p++) begin
      open_o[p]    <= rst_i ? '1 : (open_o[p] | due) & ~shuts[p];
      open_o[p][0] <= 1'b1;
    end
  end

  assign busy_o = open_o != '1;

endmodule
