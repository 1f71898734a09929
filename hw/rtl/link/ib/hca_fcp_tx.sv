// Decides when which VL's flow control packet goes out. hca_link_tx fills FCTBS and LPCRC when it inserts the packet,
// for FCTBS must be true at the packet's place in the stream. A VL's turn comes when
//   - its FCCL has moved by a quarter of the ring since it was last told,
//   - the peer may be starved (less than one packet of maximal size left of what it was told) and FCCL has moved,
//   - FcpMaxCycles are over, the link came up, or it changed between `init` and normal packets.
// One FCP at most in FcpMinGap cycles, so data never starves. VLs of the first two kinds are in a hurry and go before
// those that are only told again, but for every second FCP: all VLs are told again at once, and a peer that needs
// credits would run dry meanwhile. Round robin otherwise; no VL waits for longer than 2 * NumVls * FcpMinGap cycles
// and a packet. A lost FCP is made good by the periodic one.
// `ctl` may stall; an older FCCL promises less, never too much. A link that goes down withdraws it.
module hca_fcp_tx
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls       = 8,
  parameter int unsigned CapBlocks    = 512,
  parameter int unsigned FcpMaxCycles = FcpMaxCyclesDefault,   // power of two
  parameter int unsigned FcpMinGap    = 32
) (
  input  logic                    clk_i,
  input  logic                    rst_i,
  input  logic [63:0]             now_i,         // cycles, also those in which the clock of an idle card stood
  input  logic                    enable_i,      // InfiniBand, link up and not DOWN
  input  logic                    init_i,        // link not yet ARMED: operand "init"
  input  logic [NumVls-1:0]       vl_ok_i,       // operational VLs
  input  logic [NumVls-1:0][11:0] abr_i,
  input  logic [NumVls-1:0][11:0] fccl_i,
  output logic                    busy_o,        // a VL's turn has come, a cycle ago
  output logic                    ctl_valid_o,
  input  logic                    ctl_ready_i,
  output phy_t                    ctl_o
);

  localparam int unsigned VlW   = (NumVls > 1) ? $clog2(NumVls) : 1;
  localparam int unsigned TickLsb = $clog2(FcpMaxCycles);
  localparam int unsigned GapW  = $clog2(FcpMinGap + 1);

  logic [15:0]             period_q;
  logic [GapW-1:0]         gap_q;
  logic                    enable_q, init_q, op_init_q, all_due, hurries, hurries_q, hurried_q;
  logic [NumVls-1:0]       due_q, due, moves, hurry_q, hurry, want_q, want, grant, vl_ok_q;
  logic [NumVls-1:0][11:0] told_q;          // FCCL of the last FCP
  logic [11:0]             fccl_q;
  logic                    picked_q, valid_q, pick, send;   // picked_q: the turn of vl_q, whose FCCL is taken now
  logic [VlW-1:0]          vl_q, pick_vl;

  assign all_due = (now_i[TickLsb +: 16] != period_q) || (enable_i && !enable_q) ||
                   (init_i != init_q) || (vl_ok_i != vl_ok_q);
  assign send    = valid_q && ctl_ready_i;
  assign pick    = !valid_q && !picked_q && enable_i && gap_q == '0 && want != '0;
  // Who is in a hurry, and who may come next, is known a cycle later each: all has settled long before the gap is over.
  assign due     = due_q & vl_ok_i;
  assign hurry   = hurry_q & vl_ok_i;
  assign hurries = hurry != '0 && !(hurried_q && due != '0);
  assign want    = want_q & vl_ok_i;

  always_comb begin
    for (int unsigned v = 0; v < NumVls; v++) begin
      logic [11:0] moved, left;
      moved   = fccl_i[v] - told_q[v];
      left    = told_q[v] - abr_i[v];       // blocks the peer may still send, by what it was told
      moves[v] = moved >= 12'(CapBlocks / 4) || (moved != 12'd0 && (left < 12'(MaxBlocks) || left[11]));
    end
  end

  hca_rr_arb #(
    .N(NumVls)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (want),
    .advance_i(pick),
    .grant_o  (grant),
    .idx_o    (pick_vl)
  );

  logic unused_inputs;
  assign unused_inputs = ^now_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      period_q <= '0;
      gap_q    <= '0;
      enable_q <= 1'b0;
      init_q   <= 1'b0;
      vl_ok_q  <= '0;
      due_q    <= '0;
      hurry_q  <= '0;
      want_q   <= '0;
      hurries_q <= 1'b0;
      picked_q <= 1'b0;
      valid_q  <= 1'b0;
      hurried_q <= 1'b0;
      told_q   <= '0;      // what nobody was told yet decides who is in a hurry, and with it the order for ever
    end else begin
      if (picked_q) told_q[vl_q] <= fccl_i[vl_q];
      if (enable_i) period_q <= now_i[TickLsb +: 16];   // who is enabled tells all anyway
      enable_q <= enable_i;
      init_q   <= init_i;
      vl_ok_q  <= vl_ok_i;
      hurry_q  <= moves;
      want_q   <= hurries ? hurry : due;
      hurries_q <= hurry != '0;
      if (send) gap_q <= GapW'(FcpMinGap);
      else if (gap_q != '0) gap_q <= gap_q - 1'b1;
      if (pick) hurried_q <= !hurried_q && hurries_q;
      picked_q <= pick;
      valid_q  <= enable_i && (picked_q || (valid_q && !send));
      if (!enable_i) due_q <= '0;
      else if (all_due) due_q <= '1;
      else if (pick) due_q <= due_q & ~grant;
    end
  end

  always_ff @(posedge clk_i) begin
    if (pick) begin
      vl_q      <= pick_vl;
      op_init_q <= init_i;
    end
    if (picked_q) fccl_q <= fccl_i[vl_q];
  end

  always_comb begin
    fcp_t fcp;
    fcp       = '0;
    fcp.op    = op_init_q ? FcpInit : FcpNormal;
    fcp.vl    = 4'(vl_q);
    fcp.fccl  = fccl_q;
    ctl_o     = fcp_beat(fcp);
  end

  assign busy_o      = enable_i && (picked_q || valid_q || due != '0 || hurry != '0);
  assign ctl_valid_o = valid_q;

endmodule
