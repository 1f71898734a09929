// Keys, memory windows and fences of hca_core: wiring only.
module hca_keys
  import hca_pkg::*;
  import hca_features_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  logic                      mw_clk_i,        // the part that firmware's reads belong to
  // hca_mgmt: where keys are, what is to be forgotten, its reads and its fence.
  input  logic                      key_wr_valid_i,
  input  logic [FuncIdxW-1:0]       key_wr_func_i,
  input  key_place_t                key_wr_i,
  input  logic                      fw_forget_valid_i,
  output logic                      fw_forget_ready_o,
  input  key_forget_t               fw_forget_i,
  input  logic                      fw_req_valid_i,
  output logic                      fw_req_ready_o,
  input  dma_rd_req_t               fw_req_i,
  output logic                      fw_rsp_valid_o,
  input  logic                      fw_rsp_ready_i,
  input  logic                      fw_fence_start_i,
  output logic                      fw_fence_busy_o,
  // Strobes: what has begun that may touch memory, and what of it is over.
  input  logic [7:0]                enter_i,
  input  logic [7:0]                leave_i,
  // hca_xlate, by client: gather, rx_exec.
  output key_place_t [NumFuncs-1:0] tables_o,
  output logic [1:0][1:0]           forget_valid_o,
  input  logic [1:0][1:0]           forget_ready_i,
  output key_forget_t               forget_o,
  // Windows.
  input  logic                      op_made_i,       // strobe: op comes
  input  logic                      op_valid_i,
  output logic                      op_ready_o,
  input  mw_op_t                    op_i,
  input  logic                      inv_valid_i,
  input  mw_inv_t                   inv_i,
  output logic                      msg_valid_o,
  input  logic                      msg_ready_i,
  output pipe_msg_t                 msg_o,
  output logic                      wr_valid_o,
  input  logic                      wr_ready_i,
  output dma_wr_t                   wr_o,
  // One hca_dma_rd_port for firmware and windows.
  output logic                      req_valid_o,
  input  logic                      req_ready_i,
  output dma_rd_req_t               req_o,
  input  logic                      rsp_valid_i,
  output logic                      rsp_ready_o,
  input  dma_rd_rsp_t               rsp_i
);

  logic        forget_valid, forget_ready, fence_start, fence_busy, req_valid, req_ready, rsp_valid, rsp_ready;
  key_forget_t forget;
  dma_rd_req_t req;
  dma_rd_rsp_t rsp;
  logic [1:0]  over;

  if (HasKeyWr) begin : gen_mw
    hca_mw u_mw (
      .clk_i(mw_clk_i), .rst_i, .op_valid_i, .op_ready_o, .op_i, .inv_valid_i, .inv_i, .msg_valid_o, .msg_ready_i,
      .msg_o, .over_o(over), .tables_i(tables_o), .req_valid_o(req_valid), .req_ready_i(req_ready), .req_o(req),
      .rsp_valid_i(rsp_valid), .rsp_ready_o(rsp_ready), .rsp_i(rsp), .wr_valid_o, .wr_ready_i, .wr_o,
      .fw_forget_valid_i, .fw_forget_ready_o, .fw_forget_i, .forget_valid_o(forget_valid),
      .forget_ready_i(forget_ready), .forget_o(forget), .fence_start_o(fence_start), .fence_busy_i(fence_busy)
    );
  end else begin : gen_no_mw
    // Only firmware has keys forgotten. hca_sq_check and hca_resp_check let nothing through that would come here.
    logic unused_mw;
    assign unused_mw         = ^{op_valid_i, op_i, inv_i, msg_ready_i, wr_ready_i, req_ready, rsp_valid, rsp,
                                 fence_busy};
    assign op_ready_o        = 1'b1;
    assign {msg_valid_o, msg_o}   = '0;
    assign over              = '0;
    assign {req_valid, req}       = '0;
    assign rsp_ready         = 1'b1;
    assign {wr_valid_o, wr_o}     = '0;
    assign forget_valid      = fw_forget_valid_i;
    assign fw_forget_ready_o = forget_ready;
    assign forget            = fw_forget_i;
    assign fence_start       = 1'b0;
  end

  hca_key_table u_table (
    .clk_i, .rst_i, .wr_valid_i(key_wr_valid_i), .wr_func_i(key_wr_func_i), .wr_i(key_wr_i), .tables_o,
    .forget_valid_i(forget_valid), .forget_ready_o(forget_ready), .forget_i(forget), .forget_valid_o, .forget_ready_i,
    .forget_o
  );

  hca_rd_share u_share (
    .clk_i(mw_clk_i), .rst_i, .req_valid_i({req_valid, fw_req_valid_i}), .req_ready_o({req_ready, fw_req_ready_o}),
    .req_i({req, fw_req_i}), .rsp_valid_o({rsp_valid, fw_rsp_valid_o}), .rsp_ready_i({rsp_ready, fw_rsp_ready_i}),
    .rsp_o(rsp), .port_req_valid_o(req_valid_o), .port_req_ready_i(req_ready_i), .port_req_o(req_o),
    .port_rsp_valid_i(rsp_valid_i), .port_rsp_ready_o(rsp_ready_o), .port_rsp_i(rsp_i)
  );

  // Whatever may touch memory for a QP or by a key is inside one of the streams. Firmware waits for windows, too.
  hca_fence #(.Streams(10), .CountW(12)) u_fw_fence (
    .clk_i, .rst_i, .enter_i({inv_valid_i, op_made_i, enter_i}), .leave_i({over, leave_i}), .start_i(fw_fence_start_i),
    .busy_o(fw_fence_busy_o)
  );
  hca_fence #(.Streams(8), .CountW(12)) u_mw_fence (
    .clk_i, .rst_i, .enter_i, .leave_i, .start_i(fence_start), .busy_o(fence_busy)
  );

endmodule
