// What a turn makes of the QP's context: as it is read (load_i), of its position and what rx_ctrl and the doorbells say
// of it, so that the next cycle decides by flip-flops; and where the position moves.
module hca_sq_context
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic        clk_i,
  input  logic [SlotW-1:0] slot_i, // of the turn
  input  logic        first_i,     // the first one of its QP
  input  logic        read_i,      // the turn begins; the cycle behind:
  input  logic        load_i,      // the context is there:
  input  sq_qpc_t     ctx_qpc_i,
  input  sq_ack_t     ctx_ack_i,
  input  sq_dyn_t     ctx_dyn_i,
  input  wqe_idx_t    ctx_pi_i,
  input  logic        redo_i,      // the position becomes redo_o
  input  logic        plan_i,      // a packet is made next,
  input  logic        sent_i,      // is made,
  input  logic        many_i,      // of several PSNs (READ)
  input  logic        over_i,      // the turn is over
  input  logic        pop_i,       // the position is behind the WQE,
  input  logic        last_i,      // behind which none is posted
  input  sq_qpc_t     qpc_i,       // from the cycle behind load_i on
  input  sq_ack_t     ack_i,
  input  sq_dyn_t     dyn_i,
  input  wqe_idx_t    pi_i,
  output sq_news_t    news_o,
  output sq_dyn_t     redo_o,
  output logic        ends_o,      // with plan_i: behind the packet the position goes back
  output logic        few_o,       // so many PSNs alone are sent again, from the next packet's on
  output logic [MissingW-1:0] left_o,
  output logic        back_o,      // behind the packet under way the position goes back to where it was before a gap
  output logic        same_o       // the cycle behind: a WQE that is being sent need not be read again
);

  sq_news_t news;
  sq_back_t back;
  logic     same, few, all_again, again, returns, idle;

  hca_sq_news u_news (.qpc_i(ctx_qpc_i), .ack_i(ctx_ack_i), .dyn_i(ctx_dyn_i), .pi_i(ctx_pi_i), .news_o(news));

  hca_sq_redo u_redo (
    .qpc_i, .ack_i, .dyn_i, .moves_i(news_o.moves), .again_i(again), .back_i(back), .redo_o, .few_o(few),
    .returns_o(returns), .same_o(same)
  );

  if (HasSelective) begin : gen_again
    hca_sq_again #(.Slots(Slots)) u_again (
      .clk_i, .slot_i, .read_i, .first_i, .redo_i, .few_i(few), .count_i(ack_i.again), .dyn_i, .plan_i, .sent_i,
      .many_i, .we_i(over_i), .over_o(all_again), .active_o(again), .left_o, .ends_o, .last_o(back_o), .back_o(back)
    );
  end else begin : gen_no_again
    logic unused_again;
    assign unused_again = ^{slot_i, read_i, first_i, few, plan_i, sent_i, many_i, over_i};
    assign {all_again, again, ends_o, back_o} = '0;
    assign left_o = '0;
    assign back   = '0;
  end

  assign few_o = again;

  // Nothing is posted behind where the position goes (redo_o.wqe): wherever that may be, which is late.
  assign idle = !news_o.moves ? pi_i == dyn_i.wqe : returns ? pi_i == back.wqe : pi_i == ack_i.una_wqe;

  always_ff @(posedge clk_i) begin
    same_o <= same;
    if (load_i) begin
      news_o       <= news;
      news_o.moves <= news.moves || all_again;
    end
    if (redo_i) begin
      news_o.moves <= 1'b0;
      news_o.idle  <= idle;
      // Behind a position that has moved to the oldest WQE lies nothing.
      if (news_o.moves) news_o.pi_bad <= news_o.pi_far;
    end
    if (pop_i) news_o.idle <= last_i;
  end

endmodule
