// Which VLs may get more packets. What a VL has, in its ring and on the way there, may reach OpenBlocks; beyond what is
// its own in any case (Guard) it draws on what all share, and may have twice as much of that as is left for the others.
// So one VL alone has all it wants, those that are many leave some to the next one, and none that stands still shuts
// another one out. Three cycles late. Rules and sums: README.md.
module hca_tx_gate
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls     = NumVlsDefault,
  parameter int unsigned FillW      = 10,
  parameter int unsigned OpenBlocks = TxOpenDefault / 64,
  parameter int unsigned Shared     = 270              // blocks
) (
  input  logic                          clk_i,
  input  logic                          rst_i,
  input  logic [NumVls-1:0][FillW-1:0]  fill_i,
  input  logic [NumVls-1:0][AheadW-1:0] ahead_i,
  output logic [NumVls-1:0]             open_o
);

  localparam int unsigned Guard   = tx_guard_blocks(NumVls);
  localparam int unsigned HasW    = AheadW + 1;
  localparam int unsigned ExcessW = $clog2(TxRingBlocks + 1);
  localparam int unsigned Groups  = (NumVls + 3) / 4;
  localparam int unsigned SumW    = ExcessW + 4;

  if (Shared == 0 || Shared >= (1 << ExcessW)) begin : gen_bad_shared
    $error("hca_tx_gate: nothing to share, or too much");
  end

  logic [NumVls-1:0]              below_q, own_q;   // OpenBlocks; one packet more is its own
  logic [NumVls-1:0][ExcessW-1:0] excess_q;         // beyond its own
  logic [Groups-1:0][SumW-1:0]    sums_q;           // of four VLs each
  logic [ExcessW-1:0]             rest_q;           // what is left to share
  logic [SumW-1:0]                total;

  always_ff @(posedge clk_i) begin
    for (int unsigned v = 0; v < NumVls; v++) begin
      logic [HasW-1:0] has;
      logic [HasW:0]   more;
      has  = HasW'(fill_i[v]) + HasW'(ahead_i[v]);
      more = (HasW + 1)'(fill_i[v]) + (HasW + 1)'(ahead_i[v]) - (HasW + 1)'(Guard);
      below_q[v]  <= rst_i || has < HasW'(OpenBlocks);
      own_q[v]    <= rst_i || has <= HasW'(Guard - MaxBlocks);
      excess_q[v] <= (rst_i || more[HasW]) ? '0 : more[ExcessW-1:0] | {ExcessW{more[HasW-1:ExcessW] != '0}};
    end
    for (int unsigned g = 0; g < Groups; g++) begin
      logic [SumW-1:0] sum;
      sum = '0;
      for (int unsigned v = 4 * g; v < 4 * g + 4 && v < NumVls; v++) sum = sum + SumW'(excess_q[v]);
      sums_q[g] <= rst_i ? '0 : sum;
    end
    rest_q <= rst_i ? ExcessW'(Shared) : (total >= SumW'(Shared)) ? '0 : ExcessW'(Shared) - ExcessW'(total);
  end

  always_comb begin
    total = '0;
    for (int unsigned g = 0; g < Groups; g++) total = total + sums_q[g];
  end

  // One VL has nobody to share with.
  for (genvar v = 0; v < int'(NumVls); v++) begin : gen_open
    assign open_o[v] = below_q[v] && (NumVls == 1 || own_q[v] || excess_q[v] >> 1 < rest_q);
  end

endmodule
