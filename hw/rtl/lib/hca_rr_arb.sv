// Round-robin arbiter. grant_o is one-hot and combinational from req_i; advance_i says that the granted
// requester was served in this cycle. A grant that was not served stays with its requester (so a
// multiplexed stream keeps its payload stable) as long as that requester keeps asking.
module hca_rr_arb #(
  parameter int unsigned N = 2,
  localparam int unsigned IdxW = (N > 1) ? $clog2(N) : 1
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic [N-1:0]    req_i,
  input  logic            advance_i,
  output logic [N-1:0]    grant_o,
  output logic [IdxW-1:0] idx_o
);

  logic [N-1:0] mask_q;  // requesters with priority in this round
  logic [N-1:0] masked, pick_from, negated, grant, from_grant;

  assign masked     = req_i & mask_q;
  assign pick_from  = (masked != '0) ? masked : req_i;
  assign negated    = ~pick_from + 1'b1;    // the same up to the lowest set bit, the opposite above it
  assign grant      = pick_from & negated;  // lowest set bit
  assign from_grant = pick_from | negated;  // the granted bit and all above it
  assign grant_o    = grant;

  hca_onehot_index #(
    .N(N)
  ) u_idx (
    .onehot_i(grant),
    .idx_o
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) mask_q <= '1;
    else if (req_i != '0) mask_q <= advance_i ? (from_grant & ~grant) : from_grant;
  end

endmodule
