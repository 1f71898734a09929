// Static rate control: groups of QPs that share a rate, because the path to their destination is slower than
// the port (IBA vol1 9.11), or because they are paced. Each packet puts its time on that path onto the debt of
// its group; the debt falls by a cycle per cycle. While it is above `Ahead` cycles the group is shut: nobody
// picks its QPs, and the others go on. So a group gets its rate exactly in the long run, and is never more than
// Ahead cycles and one packet per asker ahead of it.
// Two askers: [0] hca_resp_sched, [1] the requester. A release permits each of them one packet. A permission
// lasts until it is used, so neither can take every turn of a group, and neither waits for the other.
// A packet shuts its asker's gate in the next cycle; but small ones leave it open while the debt is below half
// of Ahead, so that their rate does not depend on how fast an asker finds its way back to the group.
// Group 0 has no rate and is always open. Never stalls.
module hca_static_rate
  import hca_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic [1:0]                 made_valid_i,  // a packet was made; each at most every second cycle
  input  tx_made_t [1:0]         made_i,
  output logic [1:0][RateGroups-1:0] open_o,
  output logic                       busy_o           // a group is shut
);

  localparam int unsigned FracBits  = 8;              // of a cycle
  localparam int unsigned ProdW     = $bits(made_i[0].bytes) + $bits(made_i[0].interval);
  localparam int unsigned DropBits  = 16 - FracBits;
  localparam int unsigned CostW     = ProdW - DropBits;
  localparam int unsigned DebtW     = CostW + 2;      // never more than four packets of the slowest rate
  localparam int unsigned AheadBits = 8;              // Ahead = 256 cycles

  // ---- One packet after the other: [1] waits for a cycle if both come at once ------------------------------
  logic [1:0]   rated, unused_bits;
  logic         late_q, now_valid, size_valid_q, cost_valid_q;
  tx_made_t late_item_q, now_item;
  logic [RateGroupW-1:0] size_group_q, cost_group_q;
  logic [ProdW-1:0]      size_q;
  logic [CostW-1:0]      cost_q;

  assign rated     = {made_valid_i[1] && made_i[1].group != '0, made_valid_i[0] && made_i[0].group != '0};
  assign now_valid = rated != '0 || late_q;
  assign now_item  = rated[0] ? made_i[0] : late_q ? late_item_q : made_i[1];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      late_q       <= 1'b0;
      size_valid_q <= 1'b0;
      cost_valid_q <= 1'b0;
    end else begin
      late_q       <= (rated[1] && (rated[0] || late_q)) || (late_q && rated[0]);
      size_valid_q <= now_valid;
      cost_valid_q <= size_valid_q;
    end
    if (rated[1]) late_item_q <= made_i[1];
    if (now_valid) begin
      size_group_q <= now_item.group;
      size_q       <= ProdW'(now_item.bytes) * ProdW'(now_item.interval);
    end
    if (size_valid_q) begin
      cost_group_q <= size_group_q;
      cost_q       <= CostW'(size_q >> DropBits) + CostW'(size_q[DropBits-1:0] != '0);
    end
  end

  assign unused_bits = {^{made_i, late_item_q}, ^now_item};

  // ---- Debts and permissions --------------------------------------------------------------------------------
  // Without a packet under way, a debt or a shut group nothing here changes, and nothing is computed.
  logic [DebtW-1:0]           debt_q [RateGroups];
  logic [RateGroups-1:0]      under_way, due, half, owing, owing_q;
  logic [1:0][RateGroups-1:0] used, shuts;
  logic                       run, charged_q;

  assign run = now_valid || size_valid_q || cost_valid_q || charged_q || owing_q != '0 || busy_o;

  always_comb begin
    half      = '0;
    used      = '0;
    shuts     = '0;
    under_way = '0;
    due       = '0;
    owing     = '0;
    if (run) for (int unsigned g = 0; g < RateGroups; g++) begin
      half[g] = (debt_q[g] >> (FracBits + AheadBits - 1)) != '0;
      for (int unsigned p = 0; p < 2; p++) begin
        used[p][g]  = rated[p] && made_i[p].group == RateGroupW'(g);
        shuts[p][g] = used[p][g] && (half[g] || made_i[p].bytes > 13'(RateSmallBytes));
      end
      under_way[g] = used[0][g] || used[1][g]
                     || (late_q && late_item_q.group == RateGroupW'(g))
                     || (size_valid_q && size_group_q == RateGroupW'(g))
                     || (cost_valid_q && cost_group_q == RateGroupW'(g));
      due[g]       = !under_way[g] && (debt_q[g] >> (FracBits + AheadBits)) == '0;
      owing[g]     = debt_q[g] != '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      charged_q <= 1'b0;
      owing_q   <= '0;
    end else begin
      charged_q <= cost_valid_q;
      owing_q   <= owing;
    end
    if (run || rst_i) for (int unsigned g = 0; g < RateGroups; g++) begin
      if (cost_valid_q && cost_group_q == RateGroupW'(g)) begin
        debt_q[g] <= debt_q[g] + DebtW'(cost_q)
                     - ((debt_q[g] >> FracBits) == '0 ? debt_q[g] : DebtW'(1 << FracBits));
      end else if (debt_q[g] != '0) begin
        debt_q[g] <= (debt_q[g] >> FracBits) == '0 ? '0 : debt_q[g] - DebtW'(1 << FracBits);
      end
      if (rst_i) debt_q[g] <= '0;
    end
    if (run || rst_i) for (int unsigned p = 0; p < 2; p++) begin
      open_o[p]    <= rst_i ? '1 : (open_o[p] | due) & ~shuts[p];
      open_o[p][0] <= 1'b1;
    end
  end

  assign busy_o = open_o != '1;

endmodule
