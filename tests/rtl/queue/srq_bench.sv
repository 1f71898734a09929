// Bench top: hca_srq, of which a head is taken in the cycle in which it is seen, if the test wants it and there is one.
module srq_bench
  import hca_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            srqc_wr_valid_i,
  output logic            srqc_wr_ready_o,
  input  logic [SrqW-1:0] srqc_wr_srqn_i,
  input  srqc_t           srqc_wr_i,
  input  logic            srq_db_valid_i,
  output logic            srq_db_ready_o,
  input  srq_db_t         srq_db_i,
  input  logic            look_i,
  input  logic [SrqW-1:0] look_srqn_i,
  output logic            ok_o,
  output logic [15:0]     slot_o,
  output xrc_srq_t        xrc_o,
  input  logic            want_i,
  output logic            req_valid_o,
  input  logic            req_ready_i,
  output dma_rd_req_t     req_o,
  input  logic            rsp_valid_i,
  output logic            rsp_ready_o,
  input  dma_rd_rsp_t     rsp_i,
  output logic            ev_valid_o,
  input  logic            ev_ready_i,
  output hw_ev_t          ev_o,
  output logic [31:0]     bad_db_cnt_o
);

  srq_head_t head;

  hca_srq u_srq (
    .clk_i, .rst_i, .srqc_wr_valid_i, .srqc_wr_ready_o, .srqc_wr_srqn_i, .srqc_wr_i, .srq_db_valid_i, .srq_db_ready_o,
    .srq_db_i, .look_i, .look_srqn_i, .head_o(head), .pop_i(want_i && head.ok), .req_valid_o, .req_ready_i, .req_o,
    .rsp_valid_i, .rsp_ready_o, .rsp_i, .ev_valid_o, .ev_ready_i, .ev_o, .bad_db_cnt_o
  );
  assign {ok_o, slot_o, xrc_o} = head;

endmodule
