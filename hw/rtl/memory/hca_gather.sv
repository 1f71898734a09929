// Collects the payload of outgoing packets: takes packets from two sources, checks and translates their
// segments, reads host memory, and lets a packet out only when all of its payload is here. Output order is
// the order of acceptance. A failed packet leaves as one error message, never on txp or pay.
//
//   src --seg--> xlate --chunk--> read port --beats-----------------> data --> pay
//    |                    +--> status (verdict per packet) --> head --cmd--> data
//    +--txp--> FIFO ------------------------------------------> head --> txp, err
module hca_gather
  import hca_pkg::*;
  import hca_features_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  // Sources: 0 requester, 1 responder.
  input  logic [1:0]      txp_valid_i,
  output logic [1:0]      txp_ready_o,
  input  txp_t [1:0]      txp_i,
  input  logic [1:0]      seg_valid_i,
  output logic [1:0]      seg_ready_o,
  input  seg_t [1:0]      seg_i,
  output logic            txp_valid_o,
  input  logic            txp_ready_i,
  output txp_t            txp_o,
  output logic            pay_valid_o,
  input  logic            pay_ready_i,
  output pay_t            pay_o,
  output logic            err_valid_o,
  input  logic            err_ready_i,
  output pipe_msg_t       err_o,
  output logic [1:0]      left_o,    // strobes by source: its oldest packet has left, or was dropped
  output logic [1:0]      lost_o,    // strobes: a packet that nobody acknowledges was dropped: datagram, of UC
  // Keys and page lists: hca_xlate.
  input  key_place_t [NumFuncs-1:0] tables_i,
  input  logic [1:0]        forget_valid_i,
  output logic [1:0]        forget_ready_o,
  input  key_forget_t       forget_i,
  output logic [1:0]        line_req_valid_o,
  input  logic [1:0]        line_req_ready_i,
  output dma_rd_req_t [1:0] line_req_o,
  input  logic [1:0]        line_rsp_valid_i,
  output logic [1:0]        line_rsp_ready_o,
  input  dma_rd_rsp_t [1:0] line_rsp_i,
  // hca_dma_rd_mux, one client.
  input  logic            tick_i,
  output logic            rd_busy_o,
  output logic            mreq_valid_o,
  input  logic            mreq_ready_i,
  output dma_rd_req_t     mreq_o,
  output logic [5:0]      mreq_tag_o,
  input  logic            mrsp_valid_i,
  input  logic [5:0]      mrsp_tag_i,
  input  dma_rd_rsp_t     mrsp_i
);

  localparam int unsigned Reads = 64;  // reads and packets in flight
  localparam int unsigned Cmds  = 16;

  // ---- Sources -----------------------------------------------------------------------------------
  logic   in_txp_valid, in_txp_ready, seg_valid, seg_ready;
  txp_t   in_txp;
  seg_t   seg;

  hca_gather_src #(
    .N(2)
  ) u_src (
    .clk_i,
    .rst_i,
    .txp_valid_i,
    .txp_ready_o,
    .txp_i,
    .seg_valid_i,
    .seg_ready_o,
    .seg_i,
    .txp_valid_o(in_txp_valid),
    .txp_ready_i(in_txp_ready),
    .txp_o      (in_txp),
    .seg_valid_o(seg_valid),
    .seg_ready_i(seg_ready),
    .seg_o      (seg)
  );

  logic head_txp_valid, head_txp_ready;
  txp_t head_txp;

  hca_fifo #(
    .Width($bits(txp_t)),
    .Depth(Reads)
  ) u_txp (
    .clk_i,
    .rst_i,
    .in_valid_i (in_txp_valid),
    .in_ready_o (in_txp_ready),
    .in_i       (txp_built(in_txp)),
    .out_valid_o(head_txp_valid),
    .out_ready_i(head_txp_ready),
    .out_o      (head_txp),
    .count_o    ()
  );

  assign left_o = {2{head_txp_valid && head_txp_ready}} & {head_txp.kind != TxReq, head_txp.kind == TxReq};

  assign lost_o = {head_txp.unacked && !head_txp.datagram, head_txp.datagram} & {2{err_valid_o && err_ready_i}};

  // ---- Reads -------------------------------------------------------------------------------------
  logic        chunk_valid, chunk_ready, chunk_take, is_read, queues_ready;
  logic        mark_ready, piece_in_ready, req_ready;
  chunk_t      chunk;
  dma_rd_req_t req;

  hca_xlate #(
    .ChunkBytes(DmaReadBytes)
  ) u_xlate (
    .clk_i,
    .rst_i,
    .seg_valid_i  (seg_valid),
    .seg_ready_o  (seg_ready),
    .seg_i        (seg),
    .chunk_valid_o(chunk_valid),
    .chunk_ready_i(chunk_ready),
    .chunk_o      (chunk),
    .tables_i,
    .forget_valid_i,
    .forget_ready_o,
    .forget_i,
    .line_req_valid_o,
    .line_req_ready_i,
    .line_req_o,
    .line_rsp_valid_i,
    .line_rsp_ready_o,
    .line_rsp_i
  );

  assign is_read      = chunk.has_bytes;
  assign queues_ready = mark_ready && piece_in_ready;
  assign chunk_ready  = queues_ready && (!is_read || req_ready);
  assign chunk_take   = chunk_valid && chunk_ready;
  assign req          = '{func: chunk.func, addr: chunk.addr, len_bytes: chunk.len_bytes[9:0]};

  logic        rsp_valid, rsp_ready, done_strb, done_err;
  dma_rd_rsp_t rsp;

  hca_dma_rd_port #(
    .Tags(Reads)
  ) u_rd_port (
    .clk_i,
    .rst_i,
    .tick_i,
    .busy_o     (rd_busy_o),
    .req_valid_i(chunk_valid && is_read && queues_ready),
    .req_ready_o(req_ready),
    .req_i      (req),
    .rsp_valid_o(rsp_valid),
    .rsp_ready_i(rsp_ready),
    .rsp_o      (rsp),
    .done_idx_o (),
    .done_strb_o(done_strb),
    .done_err_o (done_err),
    .mreq_valid_o,
    .mreq_ready_i,
    .mreq_o,
    .mreq_tag_o,
    .mrsp_valid_i,
    .mrsp_tag_i,
    .mrsp_i,
    .data_we_o(), .data_waddr_o(), .data_ask_o(), .data_raddr_o(), .data_grant_i(1'b0), .data_i('0)
  );

  // ---- Verdict per packet ------------------------------------------------------------------------
  logic        status_valid, status_ready, cmd_in_valid, cmd_in_ready, cmd_in_drop;
  logic [12:0] cmd_in_bytes;
  xl_err_e     status;

  hca_gather_status #(
    .Depth(Reads)
  ) u_status (
    .clk_i,
    .rst_i,
    .mark_valid_i   (chunk_take),
    .mark_ready_o   (mark_ready),
    .mark_is_read_i (is_read),
    .mark_pkt_last_i(chunk.pkt_last),
    .mark_err_i     (chunk.err),
    .done_strb_i    (done_strb),
    .done_err_i     (done_err),
    .status_valid_o (status_valid),
    .status_ready_i (status_ready),
    .status_o       (status)
  );

  hca_gather_head u_head (
    .clk_i,
    .rst_i,
    .txp_valid_i   (head_txp_valid),
    .txp_ready_o   (head_txp_ready),
    .txp_i         (head_txp),
    .status_valid_i(status_valid),
    .status_ready_o(status_ready),
    .status_i      (status),
    .txp_valid_o,
    .txp_ready_i,
    .txp_o,
    .cmd_valid_o   (cmd_in_valid),
    .cmd_ready_i   (cmd_in_ready),
    .cmd_drop_o    (cmd_in_drop),
    .cmd_bytes_o   (cmd_in_bytes),
    .err_valid_o,
    .err_ready_i,
    .err_o
  );

  // ---- Payload -----------------------------------------------------------------------------------
  typedef struct packed {
    logic       is_read;
    logic       pkt_last;
    logic       short_first;   // its first beat is not filled to the end
    logic [5:0] lane;
    logic [9:0] len_bytes;
  } piece_t;

  piece_t      piece_in, piece;
  logic        piece_valid, piece_ready, cmd_valid, cmd_ready, cmd_drop;
  logic [12:0] cmd_bytes;

  assign piece_in   = '{is_read: is_read, pkt_last: chunk.pkt_last, short_first: chunk.end_at < 12'(DataBytes - 1),
                        lane: chunk.addr[5:0], len_bytes: chunk.len_bytes[9:0]};

  hca_fifo #(
    .Width($bits(piece_t)),
    .Depth(Reads)
  ) u_pieces (
    .clk_i,
    .rst_i,
    .in_valid_i (chunk_take),
    .in_ready_o (piece_in_ready),
    .in_i       (piece_in),
    .out_valid_o(piece_valid),
    .out_ready_i(piece_ready),
    .out_o      (piece),
    .count_o    ()
  );

  hca_fifo #(
    .Width(14),
    .Depth(Cmds)
  ) u_cmds (
    .clk_i,
    .rst_i,
    .in_valid_i (cmd_in_valid),
    .in_ready_o (cmd_in_ready),
    .in_i       ({cmd_in_drop, cmd_in_bytes}),
    .out_valid_o(cmd_valid),
    .out_ready_i(cmd_ready),
    .out_o      ({cmd_drop, cmd_bytes}),
    .count_o    ()
  );

  hca_gather_data u_data (
    .clk_i,
    .rst_i,
    .piece_valid_i   (piece_valid),
    .piece_ready_o   (piece_ready),
    .piece_is_read_i (piece.is_read),
    .piece_pkt_last_i(piece.pkt_last),
    .piece_lane_i    (piece.lane),
    .piece_bytes_i   (piece.len_bytes),
    .piece_short_i   (piece.short_first),
    .rsp_valid_i     (rsp_valid),
    .rsp_ready_o     (rsp_ready),
    .rsp_i           (rsp),
    .cmd_valid_i     (cmd_valid),
    .cmd_ready_o     (cmd_ready),
    .cmd_drop_i      (cmd_drop),
    .cmd_bytes_i     (cmd_bytes),
    .pay_valid_o,
    .pay_ready_i,
    .pay_o
  );

  // A packet ends by pkt_last; the upper length bits are zero at 512-byte chunks.
  logic unused_bits;
  assign unused_bits = ^{chunk.seg_last, chunk.discards, chunk.len_bytes[12:10]};

endmodule
