// Collects events for firmware in one queue. All sources wait when it is full: they cope, and source 0, the receive
// path, has a queue with places for every QP of its own (hca_rx_out).
module hca_mgmt_events
  import hca_pkg::*;
#(
    parameter int unsigned NumSources = 5
) (
    input  logic                  clk_i,
    input  logic                  rst_i,
    input  logic [NumSources-1:0] ev_valid_i,
    output logic [NumSources-1:0] ev_ready_o,
    input  hw_ev_t                ev_i [NumSources],
    output logic                  head_valid_o,
    output hw_ev_t                head_o,
    input  logic                  pop_i
);
  localparam int unsigned EvBits   = $bits(hw_ev_t);
  localparam int unsigned QpEvents = 16;

  logic [NumSources-1:0] req, grant, chosen_q;
  logic                  choose;
  logic                  qp_valid, qp_ready;
  hw_ev_t                qp_ev;
  logic                  sel_valid, sel_ready;
  hw_ev_t                sel_ev;

  hca_fifo #(.Width(EvBits), .Depth(QpEvents)) u_qp_fifo (
    .clk_i, .rst_i,
    .in_valid_i(ev_valid_i[0]), .in_ready_o(ev_ready_o[0]), .in_i(ev_i[0]),
    .out_valid_o(qp_valid), .out_ready_i(qp_ready), .out_o(qp_ev), .count_o()
  );

  // Chosen in one cycle, taken in the next.
  assign req = {ev_valid_i[NumSources-1:1], qp_valid};
  hca_rr_arb #(.N(NumSources)) u_arb (
    .clk_i, .rst_i, .req_i(req), .advance_i(choose), .grant_o(grant), .idx_o()
  );
  assign choose = chosen_q == '0 && req != '0;
  always_ff @(posedge clk_i) begin
    if (rst_i) chosen_q <= '0;
    else if (choose) chosen_q <= grant;
    else if (sel_ready) chosen_q <= '0;
  end

  always_comb begin
    sel_ev = chosen_q[0] ? qp_ev : '0;
    for (int unsigned i = 1; i < NumSources; i++) sel_ev |= chosen_q[i] ? ev_i[i] : '0;
  end
  assign sel_valid = chosen_q != '0;
  assign qp_ready  = sel_ready && chosen_q[0];
  assign ev_ready_o[NumSources-1:1] = chosen_q[NumSources-1:1] & {(NumSources - 1){sel_ready}};

  hca_fifo #(.Width(EvBits), .Depth(16)) u_out_fifo (
    .clk_i, .rst_i,
    .in_valid_i(sel_valid), .in_ready_o(sel_ready), .in_i(sel_ev),
    .out_valid_o(head_valid_o), .out_ready_i(pop_i), .out_o(head_o), .count_o()
  );

endmodule
