// Judges a request packet by the rules of its QP's service: connections (hca_resp_check) or datagrams (hca_dg_check).
// Both look at it in the same two cycles; who is not meant does not apply. Ports: hca_resp_check. No stalls.
module hca_rx_request
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic           look_i,
  output logic           late_o,
  input  logic           apply_i,
  input  rxd_t           rxd_i,
  input  rxd_t           req_i,
  input  logic [QpW-1:0] qpn_i,
  input  rx_ctx_t        now_ctx_i,
  input  resp_st_t       now_st_i,
  input  rx_ctx_t        ctx_i,
  input  resp_st_t       st_i,
  input  wqe_idx_t       rq_pi_i,
  input  logic [5:0]     rd_popped_i,
  input  logic [4:0]     credits_i,
  input  logic [4:0]     less_i,
  input  srq_head_t      srq_i,
  input  logic [4:0]     pkey_index_i,
  output logic           srq_pop_o,
  output logic           full_o,       // a datagram finds no receive WQE
  output logic           wrong_o,      // a datagram that no QP takes
  output rxw_t           item_o,
  output wqe_at_t        list_o,
  output resp_st_t       st_o,
  output logic           dead_o,
  output logic           dup_o,
  output logic           inv_valid_o,  // strobe: to hca_mw
  output mw_inv_t        inv_o,
  output logic           ev_valid_o,
  output rx_ev_t         ev_o
);

  // XRC: the packet names the SRQ, and that says the rest. It is looked at twice: what its row says is from the cycle
  // before the verdict, whether it has a receive WQE from that of it.
  rx_ctx_t  ctx;
  xrc_srq_t xrc_q;
  logic     no_srq_q, foreign_q, same_srq, same_xrcd, unused_xrc;

  hca_same #(.Width(8 + 24)) u_same_srq (
    .a_i({srq_i.xrc.func, srq_i.xrc.number}), .b_i({ctx_i.func, req_i.xrcsrq}), .same_o(same_srq)
  );
  hca_same #(.Width(24)) u_same_xrcd (.a_i(srq_i.xrc.xrcd), .b_i(ctx_i.xrcd), .same_o(same_xrcd));
  assign unused_xrc = ^xrc_q;
  always_ff @(posedge clk_i) begin
    xrc_q     <= srq_i.xrc;
    no_srq_q  <= !srq_i.xrc.valid || !same_srq;
    foreign_q <= !same_xrcd;
  end

  always_comb begin
    ctx = ctx_i;
    if (ctx_i.is_xrc) begin
      ctx.pd            = xrc_q.pd;
      ctx.recv_cqn      = xrc_q.cqn;
      ctx.rq_base       = xrc_q.slots;
      ctx.rq_log_size   = xrc_q.log_size;
      ctx.rq_log_stride = xrc_q.log_stride;
    end
  end

  rxw_t        rc_item, dg_item;
  wqe_at_t     rc_list, dg_list;
  resp_st_t    rc_st, dg_st;
  logic        rc_pop, dg_pop;

  hca_resp_check u_resp (
    .clk_i,
    .look_i,
    .late_o,
    .apply_i    (apply_i && !ctx_i.is_ud),
    .rxd_i,
    .req_i,
    .qpn_i,
    .now_ctx_i, .now_st_i,
    .ctx_i      (ctx),
    .st_i,
    .rq_pi_i,
    .rd_popped_i, .credits_i, .less_i,
    .srq_i,
    .no_srq_i   (ctx_i.is_xrc && no_srq_q),
    .foreign_i  (ctx_i.is_xrc && foreign_q),
    .srq_pop_o  (rc_pop),
    .item_o     (rc_item),
    .list_o     (rc_list),
    .st_o       (rc_st),
    .dead_o,
    .dup_o,
    .inv_o(inv_valid_o),
    .ev_valid_o,
    .ev_o
  );

  hca_dg_check u_dg (
    .clk_i,
    .look_i,
    .apply_i(apply_i && ctx_i.is_ud),
    .rxd_i,
    .req_i,
    .qpn_i,
    .now_ctx_i, .now_st_i,
    .ctx_i,
    .st_i,
    .rq_pi_i,
    .srq_i,
    .pkey_index_i,
    .srq_pop_o(dg_pop),
    .full_o,
    .wrong_o,
    .item_o (dg_item),
    .list_o (dg_list),
    .st_o   (dg_st)
  );

  assign srq_pop_o = rc_pop || dg_pop;
  assign item_o = dg_item | rc_item;   // nothing of who does not apply
  assign list_o = ctx_i.is_ud ? dg_list : rc_list;
  assign st_o   = ctx_i.is_ud ? dg_st : rc_st;
  assign inv_o  = '{func: ctx.func, pd: ctx.pd, qpn: {ctx.gen, qpn_i}, key: rc_st.wr_rkey};

endmodule
