// Virtual lane arbiter: which data VL sends the next packet. Two lists (high, low) and two policies:
//  iba            high sends up to the limit, then one packet of low (IBA vol1 7.6.9);
//  round-quantum  per round low gets its weights once and high max(1, floor(k * L / H)) times, k = limit * 4096 / MTU,
//                 H and L the weights of the VLs that have packets.
// What is picked may change until take_i; a take is a decision: it is charged at once. A decision per
// cycle for different VLs, every second cycle for one VL. Never idle while a listed VL asks, but for the cycles of
// the walk (README.md). Never looks at credits, queues or states: req_i says it all.
module hca_vl_arb
  import hca_link_pkg::*;
#(
  parameter int unsigned  NumVls  = NumVlsDefault,
  parameter int unsigned  Entries = ArbEntries,
  localparam int unsigned VlW     = (NumVls > 1) ? $clog2(NumVls) : 1,
  localparam int unsigned EntryW  = $clog2(Entries)
) (
  input  logic                           clk_i,
  input  logic                           rst_i,
  input  logic                           clear_i,          // the link went down: forget what was owed
  input  logic                           round_quantum_i,  // policy
  input  logic [7:0]                     limit_i,          // Limit of High-Priority
  input  logic [2:0]                     mtu_i,            // code 1..5
  input  logic                           tbl_we_i,
  input  logic                           tbl_low_i,        // 0: high list
  input  logic [EntryW-1:0]              tbl_idx_i,
  input  vl_entry_t                      tbl_i,
  input  logic [NumVls-1:0]              req_i,            // the VL has a packet that may leave now
  input  logic [NumVls-1:0]              wait_i,           // only the next cycle will tell
  input  logic [NumVls-1:0][PacketW-1:0] bytes_i,          // length of that packet
  input  logic [NumVls-1:0][BlocksW-1:0] blocks_i,         // the same in blocks
  output logic                           pick_valid_o,
  output logic [NumVls-1:0]              pick_o,           // a bit for each VL
  output logic [VlW-1:0]                 pick_vl_o,
  output logic [BlocksW-1:0]             pick_blocks_o,    // of its packet
  input  logic                           take_i            // what is picked leaves, if anything is
);

  localparam int unsigned SumW    = 8 + EntryW;
  localparam int unsigned BudgetW = 15 + SumW;   // signed; k * L < 2^(12 + SumW)

  typedef logic signed [BudgetW-1:0] budget_t;
  typedef logic [SumW+11:0]          gain_t;

  // Of 4,080 at most, and of weights that are SumW bits together.
  function automatic gain_t times_k(logic [14:0] k, logic [SumW-1:0] weight);
    return gain_t'((SumW + 15)'(k) * (SumW + 15)'(weight));
  endfunction

  localparam logic [7:0] Unlimited = 8'd255;

  logic            unlimited_q, limit_0_q, use_high, turn, stall, high_step, high_lap_if, low_step;
  logic            high_any, high_start, high_take;
  logic            low_any, low_start, low_begin, low_take, low_lap, low_visit, low_leave, low_lap_only;
  logic            high_jumps, low_jumps, low_lap_if, low_first;
  logic [1:0]      low_jump, high_laps, low_laps, high_by;   // high_by: laps of high, if it jumps (laps_o)
  logic            turn_free, high_free, high_paid;   // without a look at the budget; if that pays for it
  logic            high_could, high_ahead, high_may, low_could, low_ahead, low_may;
  logic [NumVls-1:0] high_offer, low_offer;
  logic [VlW-1:0]  high_vl, low_vl;
  logic [PacketW-1:0] high_bytes;
  logic [BlocksW-1:0] high_blocks, low_blocks;
  logic [7:0]      low_weight;
  logic [SumW-1:0] high_sum, low_sum, low_early;
  logic            low_gives_early, releases;

  hca_vl_list #(
    .NumVls (NumVls),
    .Entries(Entries)
  ) u_high (
    .clk_i,
    .rst_i,
    .clear_i,
    .tbl_we_i  (tbl_we_i && !tbl_low_i),
    .tbl_idx_i,
    .tbl_i,
    .req_i,
    .wait_i,
    .bytes_i,
    .step_i    (high_step),
    .lap_only_i(1'b0),
    .laps_max_i(high_laps),
    .take_i    (take_i),
    .any_o     (high_any),
    .start_o   (high_start),
    .ready_o   (),
    .could_o   (high_could),
    .offer_o   (high_offer),
    .ahead_o   (high_ahead),
    .vl_o      (high_vl),
    .bytes_o   (high_bytes),
    .begin_o   (),
    .lap_if_o  (high_lap_if),
    .jump_if_o (high_jumps),
    .jump_o    (),
    .laps_o    (high_by),
    .lap_o     (),
    .first_o   (),
    .visit_o   (),
    .weight_o  (),
    .leave_o   (),
    .early_o    (),
    .early_sum_o(),
    .sum_o     (high_sum)
  );

  hca_vl_list #(
    .NumVls (NumVls),
    .Entries(Entries)
  ) u_low (
    .clk_i,
    .rst_i,
    .clear_i,
    .tbl_we_i  (tbl_we_i && tbl_low_i),
    .tbl_idx_i,
    .tbl_i,
    .req_i,
    .wait_i,
    .bytes_i,
    .step_i    (low_step),
    .lap_only_i(low_lap_only),
    .laps_max_i(low_laps),
    .take_i    (take_i && !stall),
    .any_o     (low_any),
    .start_o   (low_start),
    .ready_o   (),
    .could_o   (low_could),
    .offer_o   (low_offer),
    .ahead_o   (low_ahead),
    .vl_o      (low_vl),
    .bytes_o   (),
    .begin_o   (low_begin),
    .lap_if_o  (low_lap_if),
    .jump_if_o (low_jumps),
    .jump_o    (low_jump),
    .laps_o    (),
    .lap_o     (low_lap),
    .first_o   (low_first),
    .visit_o   (low_visit),
    .weight_o  (low_weight),
    .leave_o   (low_leave),
    .early_o    (low_gives_early),
    .early_sum_o(low_early),
    .sum_o     (low_sum)
  );

  // What a list has ahead of its visit is known last: all else is there by then, also of each VL by itself.
  assign high_may     = !stall && use_high;
  assign low_may      = !stall && !use_high && low_any;
  assign pick_valid_o = (high_may && high_could && !high_ahead) || (low_may && low_could && !low_ahead);
  assign pick_o       = (high_offer & {NumVls{high_may && !high_ahead}})
                        | (low_offer & {NumVls{low_may && !low_ahead}});
  assign pick_vl_o    = use_high ? high_vl : low_vl;
  assign high_take    = take_i && high_may && high_could && !high_ahead;
  assign low_take     = take_i && low_may && low_could && !low_ahead;

  // Both lists' lengths side by side: whose turn it is comes late.
  assign high_blocks   = blocks_i[high_vl];
  assign low_blocks    = blocks_i[low_vl];
  assign pick_blocks_o = use_high ? high_blocks : low_blocks;

  // ---- Policy iba: the limit counts whole blocks of 64 bytes of each packet, at least one -----------------
  // So a packet of the MTU and its headers counts as the MTU, and limit 1 is two packets of 2048 bytes.
  logic [15:0] used_q, used;         // blocks of high since the last packet of low
  logic        allowed_q;            // high may go on: known with used_q
  logic [6:0]  charge;
  logic [16:0] limit_blocks, below, below_then;
  logic        unused_bits;

  assign unused_bits = ^{below[15:0], below_then[15:0], high_bytes[5:0]};   // the signs alone, and whole blocks

  always_comb begin
    charge = high_bytes[PacketW-1:6];
    if (charge == 7'd0) charge = 7'd1;
    used = (high_take && !used_q[15]) ? used_q + 16'(charge) : used_q;
  end

  // Below the limit, in blocks: the sign of one sum.
  assign limit_blocks = {3'd0, limit_i, 6'd0};
  assign below        = 17'({1'b0, used_q} - limit_blocks);
  assign below_then   = 17'({1'b0, used_q} + 17'(charge) - limit_blocks);

  always_ff @(posedge clk_i) begin
    used_q <= (rst_i || clear_i || low_take) ? '0 : used;
    if (rst_i || clear_i || low_take) allowed_q <= 1'b1;
    else if (high_take) allowed_q <= below_then[16];
    else allowed_q <= below[16] || (limit_i == 8'd0 && used_q == '0);
  end

  // ---- Policy round-quantum -------------------------------------------------------------------------------------
  // budget: k for each unit of weight that low was given in this round, less H for each lap of high. The first lap of
  // a round needs no budget, so a round gives max(1, floor(k * L / H)) laps. Low's share of a visit is released as its
  // packets leave, so that the two lists mix packet by packet.
  budget_t         budget_q, budget, price, gain, low_gain, old, stays, pays, opens, pays_1, pays_4, pays_16, gets;
  budget_t         gets_pays, if_low;
  logic            low_done_q;    // low has had its lap in this round
  logic            rich_1, rich_4, rich_16, fresh, high_lap, both_jump, low_ends;
  logic [7:0]      pending_q, pending, left;
  logic            one_packet, few;
  logic [14:0]     k_q;           // a cycle behind what firmware says
  logic [SumW-1:0] rest;
  gain_t           low_gain_q;    // k * L
  // Released in the cycle before: k times a packet's blocks, a visit's weight, or the rest of one, made before it was
  // known which, if any. Weights given early, where nobody is visited, are a rest of the next cycle.
  gain_t           of_blocks_q, of_weight_q, of_rest_q;
  logic            gives_blocks_q, gives_weight_q, gives_rest_q, early_q;
  logic [SumW-1:0] early_sum_q;

  // At least H, 4 H, 16 H: the sign of what is left.
  assign rich_1  = !budget_q[BudgetW-1] && !pays_1[BudgetW-1];
  assign rich_4  = !budget_q[BudgetW-1] && !pays_4[BudgetW-1];
  assign rich_16 = !budget_q[BudgetW-1] && !pays_16[BudgetW-1];

  // High's turn, if both have packets; who has is known as late, and whether the budget pays for it latest of all.
  assign turn_free = unlimited_q || (round_quantum_i ? !high_start || low_done_q : allowed_q);
  assign high_free = high_any && (turn_free || !low_any);
  assign high_paid = high_any && round_quantum_i;
  assign turn      = turn_free || (round_quantum_i && rich_1);
  assign use_high  = high_free || (high_paid && rich_1);

  // A release takes a cycle to reach the budget, what is given early three: until then nobody sends and no lap begins.
  // Low may walk on, for a visit that sends nothing is the same before and after a lap of high.
  assign releases = gives_blocks_q || gives_weight_q || gives_rest_q || low_gives_early || early_q;
  assign stall    = round_quantum_i && releases && !limit_0_q && high_any;

  always_comb begin
    high_laps = 2'd3;
    low_laps  = 2'd3;
    if (round_quantum_i && low_any && !unlimited_q) begin
      if (rich_16) high_laps = 2'd3;
      else if (rich_4) high_laps = 2'd2;
      else high_laps = 2'd1;
    end
    if (round_quantum_i && high_any) low_laps = 2'd1;
  end

  assign high_step    = (high_free && !stall) || (high_paid && !stall && rich_1);
  assign low_step     = low_any && !(high_any && turn) && !(stall && low_start);
  assign fresh        = !rich_1;   // this lap of high opens a round
  assign low_lap_only = round_quantum_i && high_step && high_jumps && fresh && !unlimited_q;

  // What is still to be released, if the visit acts now; what a packet releases of it.
  assign pending     = low_first ? low_weight : pending_q;
  assign {few, left} = {1'b0, pending} - {1'b0, low_blocks};
  assign one_packet  = low_take && !low_leave && !few;
  assign rest        = early_q ? early_sum_q : SumW'(pending_q);

  // What becomes of the budget in each case is known before which case it is, also before how many laps are jumped. A
  // lap of high beside a jump of low opens a round. No lap of high begins while weight is released (stall), so none of
  // them waits for the product; under policy iba, where one may, the budget says nothing.
  assign gain     = budget_t'({1'b0, (of_blocks_q & {$bits(gain_t){gives_blocks_q}})
                                     | (of_weight_q & {$bits(gain_t){gives_weight_q}})
                                     | (of_rest_q & {$bits(gain_t){gives_rest_q}})});
  assign low_gain = budget_t'({1'b0, low_gain_q});

  assign old = low_done_q ? '0 : budget_q;

  always_comb begin
    price     = budget_t'({1'b0, high_sum});
    opens     = -price;
    pays_1    = budget_q - price;
    pays_4    = budget_q - (price <<< 2);
    pays_16   = budget_q - (price <<< 4);
    gets      = (old ^ low_gain ^ gain) + (((old & low_gain) | (old & gain) | (low_gain & gain)) <<< 1);   // carry save
    gets_pays = low_gain - price;
    stays     = budget_q + gain;
  end

  always_comb begin
    if (high_by[1]) pays = pays_16;
    else if (high_by[0]) pays = pays_4;
    else pays = pays_1;
  end

  // Whose turn it is comes last: what a turn would make of it is there.
  assign both_jump = low_jumps && round_quantum_i && high_jumps && fresh && !unlimited_q;
  assign high_lap  = high_step && high_lap_if;
  assign low_ends  = low_step && low_done_q && !low_jumps && low_lap_if;   // the round: what is left is dropped

  always_comb begin
    if_low = low_jumps ? gets : stays;
    if (high_lap) budget = both_jump ? gets_pays : fresh ? opens : pays;
    else if (low_ends) budget = gain;
    else budget = low_step ? if_low : stays;
  end

  // Nobody is visited while weights that were given early become a gain.
  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!early_q || !(low_leave || low_take)) else $error("hca_vl_arb: a visit beside what is early");
  end
  `endif

  always_ff @(posedge clk_i) begin
    limit_0_q   <= limit_i == 8'd0;
    unlimited_q <= limit_i == Unlimited;   // a limit hardly changes
    k_q         <= 15'(limit_i) << (3'd5 - mtu_i);
    low_gain_q  <= times_k(k_q, low_sum);
    of_blocks_q <= times_k(k_q, SumW'(low_blocks));
    of_weight_q <= times_k(k_q, SumW'(low_weight));
    of_rest_q   <= times_k(k_q, rest);
    early_sum_q <= low_early;
    if (rst_i || clear_i) begin
      budget_q   <= '0;
      low_done_q <= 1'b1;
      pending_q  <= '0;
      {gives_blocks_q, gives_weight_q, gives_rest_q, early_q} <= '0;
    end else begin
      budget_q  <= budget;
      if (low_leave || (low_take && few)) pending_q <= '0;
      else if (low_take) pending_q <= left;
      gives_blocks_q <= one_packet;
      gives_weight_q <= (low_leave || low_take) && !one_packet && low_visit;
      gives_rest_q   <= ((low_leave || low_take) && !one_packet && !low_visit && pending_q != '0) || early_q;
      early_q        <= low_gives_early;
      if (low_jump != 2'd0 || low_lap) low_done_q <= 1'b1;
      else if ((high_lap && fresh) || low_begin) low_done_q <= 1'b0;
    end
  end

endmodule
