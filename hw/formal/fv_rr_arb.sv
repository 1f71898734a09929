// Proof of hca_rr_arb: one grant, only to who asks; a grant that was not served stays; fair: who keeps asking is
// passed over by each other requester at most once.
module fv_rr_arb #(
  parameter int unsigned N     = 5,
  parameter bit          Chain = 0
) (
  input logic         clk_i,
  input logic [N-1:0] req_i,
  input logic         advance_i
);
  localparam int unsigned IdxW = $clog2(N);

  logic            rst_q = 1'b1;
  logic [N-1:0]    grant, kept_q;
  logic [IdxW-1:0] idx, watched_q;
  logic [N-1:0]    passed_q;  // served while the watched one was waiting
  logic            served;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_rr_arb #(.N(N), .Chain(Chain)) u_dut (.clk_i, .rst_i(rst_q), .req_i, .advance_i, .grant_o(grant), .idx_o(idx));

  assign served = advance_i && req_i != '0;

  always_ff @(posedge clk_i) begin
    watched_q <= watched_q;
    kept_q    <= (!rst_q && !advance_i) ? grant : '0;
    if (rst_q || !req_i[watched_q] || (served && grant[watched_q])) passed_q <= '0;
    else if (served) passed_q <= passed_q | grant;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_q && watched_q < IdxW'(N)) begin
      a_one:  assert ($onehot0(grant) && (grant & ~req_i) == '0 && (grant != '0) == (req_i != '0));
      a_idx:  assert (grant == '0 || grant[idx]);
      if ((kept_q & req_i) != '0) a_kept: assert (grant == kept_q);
      if (served && !grant[watched_q] && req_i[watched_q]) a_fair: assert ((passed_q & grant) == '0);
      // The round has passed everything below some place; who was served is behind the watched one in the order of
      // service: above it, or below it and out of this round.
      h_round: assert ((~u_dut.mask_q & (~u_dut.mask_q + 1'b1)) == '0);
      h_self: assert (!passed_q[watched_q]);
      c_all: cover (passed_q[(watched_q == '0) ? 1 : 0] && $countones(passed_q) == N - 1);
    end
  end

  for (genvar i = 0; i < N; i++) begin : gen_passed
    always_ff @(posedge clk_i) begin
      if (!rst_q && watched_q < IdxW'(N) && passed_q[i]) begin
        if (IdxW'(i) < watched_q) h_below: assert (u_dut.mask_q[watched_q] && !u_dut.mask_q[i]);
        if (!u_dut.mask_q[watched_q]) h_above: assert (!u_dut.mask_q[i]);
      end
    end
  end
endmodule
