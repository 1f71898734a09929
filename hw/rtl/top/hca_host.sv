// The host port of hca_core, reads and writes: wiring only. A port with answers in order for each reader but the
// gather, which has one inside and comes with its reads cut; one stream of reads, one of writes, and the timers that
// the simulator is told of.
module hca_host
  import hca_pkg::*;
  import hca_features_pkg::*;
  import hca_host_pkg::*;
(
  input  logic                    clk_i,
  input  logic [NumParts-1:0]     pclk_i,          // the same clock, for each part (hca_part_clock)
  input  logic                    rst_i,
  input  logic [63:0]             now_i,
  // Readers.
  output logic                    rd_tick_o,
  input  logic [NumRd-1:0]        rreq_valid_i,
  output logic [NumRd-1:0]        rreq_ready_o,
  input  dma_rd_req_t [NumRd-1:0] rreq_i,
  output logic [NumRd-1:0]        rrsp_valid_o,
  input  logic [NumRd-1:0]        rrsp_ready_i,
  output dma_rd_rsp_t [NumRd-1:0] rrsp_o,
  input  logic                    gather_busy_i,
  input  logic                    gather_req_valid_i,
  output logic                    gather_req_ready_o,
  input  dma_rd_req_t             gather_req_i,
  input  logic [5:0]              gather_req_tag_i,
  output logic                    gather_rsp_valid_o,
  output logic [5:0]              gather_rsp_tag_o,
  output dma_rd_rsp_t             gather_rsp_o,
  // Writers.
  input  logic [NumWr-1:0]        wr_valid_i,
  output logic [NumWr-1:0]        wr_ready_o,
  input  dma_wr_t [NumWr-1:0]     wr_i,
  // The host.
  output logic                    hrd_req_valid_o,
  input  logic                    hrd_req_ready_i,
  output logic [7:0]              hrd_req_tag_o,
  output dma_rd_req_t             hrd_req_o,
  input  logic                    hrd_rsp_valid_i,
  input  logic [7:0]              hrd_rsp_tag_i,
  input  dma_rd_rsp_t             hrd_rsp_i,
  output logic                    hwr_valid_o,
  input  logic                    hwr_ready_i,
  output dma_wr_t                 hwr_o,
  // Pages of device memory.
  input  logic                    dm_wr_valid_i,
  output logic                    dm_wr_ready_o,
  input  dm_page_t                dm_wr_i,
  // What else goes by the time: QPs that congestion control holds, by its tick; timers of QPs and of CQs. Nothing
  // changes by itself before wake_at_o.
  input  logic                    held_i,
  input  logic [1:0]              timer_active_i,
  input  logic [1:0][63:0]        timer_wake_at_i,
  output logic                    active_o,
  output logic [63:0]             wake_at_o
);

  logic [NumRd-1:0]        mreq_valid, mreq_ready, mrsp_valid, busy;
  dma_rd_req_t [NumRd-1:0] mreq;
  logic [NumRd-1:0][5:0]   mreq_tag;
  logic [5:0]              mrsp_tag, few_tag;
  dma_rd_rsp_t             mrsp, few;
  logic                    hrd_valid, hrd_ready, ordered_valid, ordered_ready, rsp_valid, out_valid, out_ready;
  logic [7:0]              rsp_tag;
  dma_rd_rsp_t             rsp;
  logic [1:0]              wr_held;
  localparam int unsigned TickW = $clog2(CcTickCycles);
  logic                    rd_active;
  logic [63:0]             rd_tick_at;

  hca_dma_rd_mux #(.N(NumRd)) u_rd_mux (
    .clk_i, .rst_i, .mreq_valid_i(mreq_valid), .mreq_ready_o(mreq_ready), .mreq_i(mreq), .mreq_tag_i(mreq_tag),
    .mrsp_valid_o(mrsp_valid), .mrsp_tag_o(mrsp_tag), .mrsp_o(mrsp), .mrsp_few_tag_o(few_tag), .mrsp_few_o(few),
    .hrd_req_valid_o(hrd_valid), .hrd_req_ready_i(hrd_ready), .hrd_req_o, .hrd_req_tag_o,
    .hrd_rsp_valid_i(rsp_valid), .hrd_rsp_tag_i(rsp_tag), .hrd_rsp_i(rsp)
  );
  hca_rd_order u_rd_order (
    .clk_i, .rst_i, .in_valid_i(hrd_valid), .in_ready_o(hrd_ready), .out_valid_o(ordered_valid),
    .out_ready_i(ordered_ready), .wr_held_i(wr_held), .wr_gone_i(out_valid && out_ready)
  );
  hca_read_timer #(.Clients(NumRd)) u_rd_timer (
    .clk_i, .rst_i, .now_i, .busy_i(busy), .tick_o(rd_tick_o), .active_o(rd_active),
    .wake_at_o(rd_tick_at)
  );
  // Only a simulator is told. A tick of congestion control is compared by the cycle in front of it, which needs no sum.
`ifdef SYNTHESIS
  logic unused_at;
  assign unused_at             = ^{now_i, held_i, timer_active_i, timer_wake_at_i, rd_active, rd_tick_at};
  assign {active_o, wake_at_o} = '0;
`else
  hca_first #(.N(4), .Width(64)) u_first (
    .valid_i({rd_active, held_i, timer_active_i}),
    .at_i   ({rd_tick_at, {now_i[63:TickW] + 1'b1, TickW'(0)}, timer_wake_at_i}),
    .order_i({rd_tick_at, {now_i[63:TickW], {TickW{1'b1}}}, timer_wake_at_i}),
    .valid_o(active_o),
    .at_o   (wake_at_o)
  );
`endif

  // Those that read keys and page lists.
  hca_dma_rd_lines #(.Clients(NumRdLines), .Tags(RdTags[RdLines])) u_rd_lines (
    .clk_i(pclk_i[RdPart[RdLines]]), .rst_i, .tick_i(rd_tick_o), .busy_o(busy[RdLines+:NumRdLines]),
    .req_valid_i(rreq_valid_i[RdLines+:NumRdLines]), .req_ready_o(rreq_ready_o[RdLines+:NumRdLines]),
    .req_i(rreq_i[RdLines+:NumRdLines]), .rsp_valid_o(rrsp_valid_o[RdLines+:NumRdLines]),
    .rsp_ready_i(rrsp_ready_i[RdLines+:NumRdLines]), .rsp_o(rrsp_o[RdLines+:NumRdLines]),
    .mreq_valid_o(mreq_valid[RdLines+:NumRdLines]), .mreq_ready_i(mreq_ready[RdLines+:NumRdLines]),
    .mreq_o(mreq[RdLines+:NumRdLines]), .mreq_tag_o(mreq_tag[RdLines+:NumRdLines]),
    .mrsp_valid_i(mrsp_valid[RdLines+:NumRdLines]), .mrsp_tag_i(few_tag), .mrsp_i(few)
  );

  for (genvar c = 0; c < NumRd; c++) begin : gen_rd_port
    if (c >= RdLines && c < RdLines + NumRdLines) begin : gen_lines   // above
    end else if (c != RdGather && HasRd[c]) begin : gen_port
      hca_dma_rd_port #(.Tags(RdTags[c]), .Bytes((c < RdLines) ? 512 : 128)) u_port (
        .clk_i(pclk_i[RdPart[(c < RdLines) ? c : RdLines]]), .rst_i, .tick_i(rd_tick_o), .busy_o(busy[c]),
        .req_valid_i(rreq_valid_i[c]), .req_ready_o(rreq_ready_o[c]), .req_i(rreq_i[c]), .rsp_valid_o(rrsp_valid_o[c]),
        .rsp_ready_i(rrsp_ready_i[c]), .rsp_o(rrsp_o[c]), .done_idx_o(), .done_strb_o(), .done_err_o(),
        .mreq_valid_o(mreq_valid[c]), .mreq_ready_i(mreq_ready[c]), .mreq_o(mreq[c]), .mreq_tag_o(mreq_tag[c]),
        .mrsp_valid_i(mrsp_valid[c]), .mrsp_tag_i((c < RdMgmt) ? mrsp_tag : few_tag),
        .mrsp_i((c < RdMgmt) ? mrsp : few), .data_we_o(), .data_waddr_o(), .data_ask_o(), .data_raddr_o(),
        .data_grant_i(1'b0), .data_i('0)
      );
    end else begin : gen_none
      logic unused_in;
      assign unused_in          = ^{rreq_valid_i[c], rreq_i[c], rrsp_ready_i[c]};
      assign rreq_ready_o[c]    = 1'b0;
      assign rrsp_valid_o[c]    = 1'b0;
      assign rrsp_o[c]          = '0;
    end
    if (c == RdGather) begin : gen_gather
      assign busy[c]            = gather_busy_i;
      assign mreq_valid[c]      = gather_req_valid_i;
      assign mreq[c]            = gather_req_i;
      assign mreq_tag[c]        = gather_req_tag_i;
      assign gather_req_ready_o = mreq_ready[c];
      assign gather_rsp_valid_o = mrsp_valid[c];
      assign gather_rsp_tag_o   = mrsp_tag;
      assign gather_rsp_o       = mrsp;
    end else if (!HasRd[c]) begin : gen_nobody
      logic unused_port;
      assign unused_port        = ^{mreq_ready[c], mrsp_valid[c]};
      assign busy[c]            = 1'b0;
      assign mreq_valid[c]      = 1'b0;
      assign mreq[c]            = '0;
      assign mreq_tag[c]        = '0;
    end
  end

  // Of writers that are not there nothing is chosen.
  dma_wr_t [NumWr-1:0] wr_here;

  always_comb begin
    for (int unsigned c = 0; c < NumWr; c++) wr_here[c] = HasWr[c] ? wr_i[c] : '0;
  end

  hca_dma_wr_mux #(.N(NumWr)) u_wr_mux (
    .clk_i, .rst_i, .wr_valid_i(wr_valid_i & HasWr), .wr_ready_o, .wr_i(wr_here), .hwr_valid_o(out_valid),
    .hwr_ready_i(out_ready), .hwr_o, .held_o(wr_held)
  );

  if (HasDeviceMemory) begin : gen_device_memory
    hca_device_memory u_device_memory (
      .clk_i, .rst_i, .row_valid_i(dm_wr_valid_i), .row_ready_o(dm_wr_ready_o), .row_i(dm_wr_i),
      .rd_valid_i(ordered_valid), .rd_ready_o(ordered_ready), .rd_tag_i(hrd_req_tag_o),
      .rd_i(hrd_req_o), .hrd_valid_o(hrd_req_valid_o), .hrd_ready_i(hrd_req_ready_i), .hrsp_valid_i(hrd_rsp_valid_i),
      .hrsp_tag_i(hrd_rsp_tag_i), .hrsp_i(hrd_rsp_i), .rsp_valid_o(rsp_valid), .rsp_tag_o(rsp_tag), .rsp_o(rsp),
      .wr_valid_i(out_valid), .wr_ready_o(out_ready), .wr_i(hwr_o), .hwr_valid_o, .hwr_ready_i
    );
  end else begin : gen_no_device_memory
    logic unused_dm;
    assign unused_dm       = ^{dm_wr_valid_i, dm_wr_i};
    assign dm_wr_ready_o   = 1'b1;
    assign hrd_req_valid_o = ordered_valid;
    assign ordered_ready   = hrd_req_ready_i;
    assign {rsp_valid, rsp_tag, rsp} = {hrd_rsp_valid_i, hrd_rsp_tag_i, hrd_rsp_i};
    assign hwr_valid_o     = out_valid;
    assign out_ready       = hwr_ready_i;
  end

endmodule
