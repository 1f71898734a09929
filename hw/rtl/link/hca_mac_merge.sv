// Packet arbiter: packets of N sources, each unbroken, in turns when several wait; source 0 first. While `hold_i` a
// source begins no packet; one that has begun goes on. No latency, one beat per cycle, nothing stored: who may not be
// stalled needs a store in front.
module hca_mac_merge
  import hca_pkg::*;
#(
  parameter int unsigned N     = 2,
  parameter int unsigned SideW = PortW
) (
  input  logic                    clk_i,
  input  logic                    rst_i,
  input  logic [N-1:0]            valid_i,
  output logic [N-1:0]            ready_o,
  input  mac_t                    mac_i [N],
  input  logic [N-1:0][SideW-1:0] side_i,    // what stands beside each beat of a packet: its port...
  input  logic [N-1:0]            hold_i,
  output logic                    out_valid_o,
  input  logic                    out_ready_i,
  output mac_t                    out_o,
  output logic [SideW-1:0]        out_side_o
);

  localparam int unsigned IdxW = (N > 1) ? $clog2(N) : 1;

  logic            locked_q;   // a packet has been offered or begun: chosen_q says whose
  logic [IdxW-1:0] unused_idx;
  logic [N-1:0]    req, grant, chosen_q, chosen;

  assign req = locked_q ? '0 : (valid_i & ~hold_i);

  hca_rr_arb #(.N(N)) u_arb (
    .clk_i, .rst_i, .req_i(req), .advance_i(1'b1), .grant_o(grant), .idx_o(unused_idx)
  );

  assign chosen      = locked_q ? chosen_q : grant;
  assign out_valid_o = (valid_i & chosen) != '0;
  assign ready_o     = out_ready_i ? chosen : '0;

  always_comb begin
    out_o      = mac_i[0];
    out_side_o = side_i[0];
    for (int unsigned i = 1; i < N; i++) begin
      if (chosen[i]) begin
        out_o      = mac_i[i];
        out_side_o = side_i[i];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) locked_q <= 1'b0;
    else if (out_valid_o) locked_q <= !(out_ready_i && out_o.last);
  end

  always_ff @(posedge clk_i) begin
    if (out_valid_o) chosen_q <= chosen;
  end

endmodule
