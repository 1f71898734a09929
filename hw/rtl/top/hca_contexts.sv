// Contexts of QPs on their way to whoever keeps a piece of them, and lines that change hands: wiring only. Context
// writes are hca_mgmt's, or hca_lines' while firmware does not hold it. Reads of context memory share a port with those
// of WQEs.
module hca_contexts
  import hca_pkg::*;
  import hca_features_pkg::*;
#(
  parameter int unsigned Sinks  = 6,
  parameter int unsigned RxCtrl = 2,
  parameter int unsigned Door   = 5
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic [63:0]       now_i,
  // hca_mgmt.
  input  logic [Sinks-1:0]  fw_qpc_valid_i,
  output logic [Sinks-1:0]  fw_qpc_ready_o,
  input  qpc_wr_t           fw_qpc_i,
  input  lines_cfg_t        cfg_i,
  output logic              held_o,
  output logic              room_o,
  output line_holder_t      holder_o,
  input  logic              record_wr_valid_i,
  output logic              record_wr_ready_o,
  input  record_wr_t        record_wr_i,
  output logic              ev_valid_o,
  input  logic              ev_ready_i,
  output hw_ev_t            ev_o,
  // Takers of contexts, and doors.
  output logic [Sinks-1:0]  qpc_valid_o,
  input  logic [Sinks-1:0]  qpc_ready_i,
  output qpc_wr_t           qpc_o,
  input  qpc_record_t       record_i,
  input  logic              quiet_i,
  output logic              look_valid_o,
  input  logic              look_done_i,
  output logic              look_asks_o,
  output logic [QpW-1:0]    look_line_o,
  input  line_hint_t        look_hint_i,
  output line_shut_t        shut_o,
  input  logic              db_miss_valid_i,
  output logic              db_miss_ready_o,
  input  line_want_t        db_miss_i,
  input  logic              pkt_miss_i,       // strobe
  input  logic [23:0]       pkt_miss_qpn_i,
  input  logic              park_valid_i,
  output logic              park_ready_o,
  input  park_want_t        park_i,
  output logic              back_valid_o,
  input  logic              back_ready_i,
  output logic [ParkW-1:0]  back_slot_o,
  output logic              again_valid_o,
  input  logic              again_ready_i,
  output line_want_t        again_o,
  input  logic              door_free_i,
  // Strobes: what has begun that may touch memory, and what of it is over.
  input  logic [7:0]        enter_i,
  input  logic [7:0]        leave_i,
  // Reads: WQEs, and of both.
  input  logic              sq_req_valid_i,
  output logic              sq_req_ready_o,
  input  dma_rd_req_t       sq_req_i,
  output logic              sq_rsp_valid_o,
  input  logic              sq_rsp_ready_i,
  output logic              req_valid_o,
  input  logic              req_ready_i,
  output dma_rd_req_t       req_o,
  input  logic              rsp_valid_i,
  output logic              rsp_ready_o,
  input  dma_rd_rsp_t       rsp_i,
  output logic              wr_valid_o,
  input  logic              wr_ready_i,
  output dma_wr_t           wr_o
);

  if (HasContextMemory) begin : gen_lines
    logic [Sinks-1:0] qpc_valid;
    qpc_wr_t          qpc;
    logic             hands, fence_start, fence_busy, req_valid, req_ready, rsp_valid, rsp_ready;
    dma_rd_req_t      req;
    dma_rd_rsp_t      rsp;

    hca_lines #(.Sinks(Sinks), .RxCtrl(RxCtrl), .Door(Door)) u_lines (
      .clk_i, .rst_i, .now_i, .cfg_i, .held_o, .room_o, .holder_o, .record_valid_i(record_wr_valid_i),
      .record_ready_o(record_wr_ready_o), .record_i(record_wr_i), .db_valid_i(db_miss_valid_i),
      .db_ready_o(db_miss_ready_o), .db_i(db_miss_i), .pkt_valid_i(pkt_miss_i), .pkt_qpn_i(pkt_miss_qpn_i),
      .park_valid_i, .park_ready_o, .park_i, .back_valid_o, .back_ready_i, .back_slot_o,
      .again_valid_o, .again_ready_i, .again_o, .shut_o, .door_free_i, .look_valid_o, .look_done_i,
      .look_asks_o, .look_line_o, .look_hint_i, .quiet_i, .qpc_valid_o(qpc_valid), .qpc_ready_i, .qpc_o(qpc),
      .old_i(record_i),
      .fence_start_o(fence_start), .fence_busy_i(fence_busy), .rd_req_valid_o(req_valid), .rd_req_ready_i(req_ready),
      .rd_req_o(req), .rd_rsp_valid_i(rsp_valid), .rd_rsp_ready_o(rsp_ready), .rd_rsp_i(rsp), .wr_valid_o, .wr_ready_i,
      .wr_o, .ev_valid_o, .ev_ready_i, .ev_o
    );

    assign hands          = qpc_valid != '0;
    assign qpc_valid_o    = hands ? qpc_valid : fw_qpc_valid_i;
    assign qpc_o          = hands ? qpc : fw_qpc_i;
    assign fw_qpc_ready_o = hands ? '0 : qpc_ready_i;

    hca_fence #(.Streams(8), .CountW(12)) u_fence (
      .clk_i, .rst_i, .enter_i, .leave_i, .start_i(fence_start), .busy_o(fence_busy)
    );

    hca_rd_share #(.Reads(64)) u_share (
      .clk_i, .rst_i, .req_valid_i({req_valid, sq_req_valid_i}), .req_ready_o({req_ready, sq_req_ready_o}),
      .req_i({req, sq_req_i}), .rsp_valid_o({rsp_valid, sq_rsp_valid_o}), .rsp_ready_i({rsp_ready, sq_rsp_ready_i}),
      .rsp_o(rsp), .port_req_valid_o(req_valid_o), .port_req_ready_i(req_ready_i), .port_req_o(req_o),
      .port_rsp_valid_i(rsp_valid_i), .port_rsp_ready_o(rsp_ready_o), .port_rsp_i(rsp_i)
    );
  end else begin : gen_no_lines
    logic unused_in;
    assign unused_in = ^{clk_i, rst_i, now_i, cfg_i, record_wr_valid_i, record_wr_i, ev_ready_i, record_i, quiet_i,
                         look_done_i, look_hint_i, db_miss_valid_i, db_miss_i, pkt_miss_i, pkt_miss_qpn_i,
                         park_valid_i, park_i, back_ready_i, again_ready_i,
                         door_free_i, enter_i, leave_i, rsp_i, wr_ready_i};
    assign {held_o, room_o}         = {cfg_i.hold, 1'b1};
    assign holder_o                 = '0;
    assign record_wr_ready_o        = 1'b1;
    assign {ev_valid_o, ev_o}       = '0;
    assign {look_valid_o, look_asks_o, look_line_o, shut_o, db_miss_ready_o} = '0;
    assign {again_valid_o, again_o, park_ready_o, back_valid_o, back_slot_o} = '0;
    assign {qpc_valid_o, qpc_o, fw_qpc_ready_o} = {fw_qpc_valid_i, fw_qpc_i, qpc_ready_i};
    assign {req_valid_o, req_o, sq_req_ready_o} = {sq_req_valid_i, sq_req_i, req_ready_i};
    assign {sq_rsp_valid_o, rsp_ready_o}        = {rsp_valid_i, sq_rsp_ready_i};
    assign {wr_valid_o, wr_o}       = '0;
  end

endmodule
