// Round-robin arbiter. grant_o is one-hot and combinational from req_i; advance_i says that the granted
// requester was served in this cycle. A grant that was not served stays with its requester (so a
// multiplexed stream keeps its payload stable) as long as that requester keeps asking.
module hca_rr_arb #(
  parameter int unsigned N     = 2,
  parameter bit          Chain = N > 10,   // by carries; else by LUTs: no way into a chain and out of it again
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
  logic [N-1:0] masked, grant, from_grant;
  logic         none;    // of this round

  assign masked = req_i & mask_q;

  // Lowest set bit, and all above it, of both side by side, and selected at the end.
  if (!Chain) begin : gen_luts
    logic [N-1:0] from_req, from_masked;

    for (genvar i = 0; i < int'(N); i++) begin : gen_from
      assign from_req[i]    = |req_i[i:0];
      assign from_masked[i] = |masked[i:0];
    end
    assign none       = !from_masked[N-1];
    assign from_grant = none ? from_req : from_masked;
    assign grant      = from_grant & ~(from_grant << 1);
  end else begin : gen_chain
    // A negated number is the same up to its lowest set bit, the opposite above it, and has a carry if there is none.
    logic [N-1:0] masked_neg, req_neg;

    assign {none, masked_neg} = {1'b0, ~masked} + 1'b1;
    assign req_neg            = ~req_i + 1'b1;
    assign grant              = none ? req_i & req_neg : masked & masked_neg;
    assign from_grant         = none ? req_i | req_neg : masked | masked_neg;
  end

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
