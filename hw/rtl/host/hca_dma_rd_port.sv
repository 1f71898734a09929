// DMA read port of one client: gives each request a tag, keeps the answers until they are complete, and
// returns them in request order. Tags are handed out as a ring, so the tag is also the order.
//
// A read that the host does not answer in time ends with an error. Its tag rests then, and the ring passes over it.
//
// A client of short reads keeps less: Bytes, a power of two of 64 to 512. Several such may keep their answers in one
// RAM (OwnData = 0): a beat that comes is written at once, one that leaves is asked for until it is granted.
//
// A response of a request starts on rsp two cycles after its last beat arrived (if nothing older is
// waiting), then one beat per cycle. An error status anywhere in a response marks all beats of it.
module hca_dma_rd_port
  import hca_pkg::*;
#(
  parameter int unsigned Tags  = 64,
  parameter int unsigned Bytes = DmaReadBytes,
  parameter bit          OwnData = 1'b1,
  localparam int unsigned RowW = $clog2(Tags * (Bytes / DataBytes))
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        tick_i,       // strobe: two of them is what an answer may take (hca_read_timer)
  output logic        busy_o,       // ticks are wanted
  // Requests: inside one block of Bytes.
  input  logic        req_valid_i,
  output logic        req_ready_o,
  input  dma_rd_req_t req_i,
  // Responses in request order, memory lanes.
  output logic        rsp_valid_o,
  input  logic        rsp_ready_i,
  output dma_rd_rsp_t rsp_o,
  // Requests completed contiguously from the first one, modulo 2^16; strobe per step, err with it.
  output logic [15:0] done_idx_o,
  output logic        done_strb_o,
  output logic        done_err_o,
  // To and from hca_dma_rd_mux.
  output logic        mreq_valid_o,
  input  logic        mreq_ready_i,
  output dma_rd_req_t mreq_o,
  output logic [5:0]  mreq_tag_o,
  input  logic        mrsp_valid_i,
  input  logic [5:0]  mrsp_tag_i,
  input  dma_rd_rsp_t mrsp_i,
  // A RAM of several ports: data_i is what data_raddr_o has, in the same cycle.
  output logic            data_we_o,
  output logic [RowW-1:0] data_waddr_o,
  output logic            data_ask_o,
  output logic [RowW-1:0] data_raddr_o,
  input  logic            data_grant_i,
  input  beat_t           data_i
);

  localparam int unsigned TagW  = $clog2(Tags);
  localparam int unsigned Beats = Bytes / DataBytes;
  localparam int unsigned BeatW = (Beats > 1) ? $clog2(Beats) : 1;

  if (Tags < 2 || Tags > 64 || (Tags & (Tags - 1)) != 0) begin : gen_bad_tags
    $error("hca_dma_rd_port: Tags must be a power of two, 2 to 64");
  end
  if (Beats < 1 || Bytes > DmaReadBytes || (Bytes & (Bytes - 1)) != 0) begin : gen_bad_bytes
    $error("hca_dma_rd_port: Bytes must be a power of two, 64 to 512");
  end

  // Ring positions, one bit wider than a tag: read <= done <= alloc <= read + Tags.
  logic [TagW:0] alloc_q, done_q, read_q;
  logic [15:0]   done_idx_q;

  logic [Tags-1:0]  complete_q;          // all beats of the tag are in the RAM
  logic [Tags-1:0]  err_q;               // the response carried an error status
  logic [Tags-1:0]  skip_q;              // the tag was passed over: no request has it
  logic [Tags-1:0]  begun_q;             // beats have arrived, but not the last one
  logic [Tags-1:0]  lost_q;              // the answer did not come in time: one beat stands for it
  logic [Tags-1:0]  expire, resting;
  logic [BeatW-1:0] count_q [Tags];      // where begun: beats that have arrived so far
  logic [BeatW-1:0] last_beat_q [Tags];  // where complete and not lost: index of the last beat

  // ---- Requests ----------------------------------------------------------------------------------
  // Whether the next tag may be had is found a cycle before. A free one does not begin to rest; of one that rests no
  // more by now the ring may pass over once more.
  logic            full_q, rests_q, all_rest_q, alloc, sent, skip, leaves, last_place;
  logic [TagW-1:0] tag, behind_tag;
  logic [TagW:0]   behind;

  assign tag          = alloc_q[TagW-1:0];
  assign behind       = alloc_q + 1'b1;
  assign behind_tag   = behind[TagW-1:0];
  assign last_place   = (behind[TagW] != read_q[TagW]) && (behind_tag == read_q[TagW-1:0]);
  assign skip         = req_valid_i && !full_q && rests_q && !all_rest_q;   // one that is free is ahead
  assign mreq_valid_o = req_valid_i && !full_q && !rests_q;
  assign req_ready_o  = mreq_ready_i && !full_q && !rests_q;

  always_ff @(posedge clk_i) begin
    full_q     <= !rst_i && !leaves && (full_q || (alloc && last_place));
    rests_q    <= !rst_i && (alloc ? resting[behind_tag] : resting[tag]);
    all_rest_q <= resting == '1;
  end

  assign mreq_o       = req_i;
  assign mreq_tag_o   = 6'(tag);
  assign sent         = mreq_valid_o && mreq_ready_i;
  assign alloc        = sent || skip;

  // ---- Responses into the RAM --------------------------------------------------------------------
  logic [TagW-1:0]  in_tag;
  logic [BeatW-1:0] in_beat;

  logic             in_valid, in_last;
  logic [Tags-1:0]  comes;               // a beat of this tag: each by itself, for to look it up by the number is long

  // Late answers are nobody's.
  assign in_tag   = TagW'(mrsp_tag_i);
  assign in_beat  = begun_q[in_tag] ? count_q[in_tag] : '0;
  assign in_valid = mrsp_valid_i && !resting[in_tag];
  assign in_last  = in_valid && mrsp_i.last;

  always_comb begin
    for (int unsigned t = 0; t < Tags; t++) begin
      comes[t] = mrsp_valid_i && in_tag == TagW'(t) && !resting[t] && !expire[t];
    end
  end

  hca_dma_rd_age #(
    .Tags(Tags)
  ) u_age (
    .clk_i,
    .rst_i,
    .tick_i,
    .sent_i    (sent),
    .sent_tag_i(tag),
    .last_i    (mrsp_valid_i && mrsp_i.last),
    .last_tag_i(in_tag),
    .expire_o  (expire),
    .resting_o (resting),
    .busy_o
  );

  logic unused_tag;
  assign unused_tag = ^mrsp_tag_i;  // a port with fewer tags uses fewer bits

  // What waits for the last beat may expire, but never in the cycle in which that comes.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      begun_q <= '0;
      lost_q  <= '0;
    end else begin
      if (tick_i) begin
        begun_q <= begun_q & ~expire;
        lost_q  <= lost_q | expire;
      end
      for (int unsigned t = 0; t < Tags; t++) if (comes[t]) begun_q[t] <= !mrsp_i.last;
      if (sent) lost_q[tag] <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (in_valid) count_q[in_tag] <= in_beat + 1'b1;
    if (in_last) last_beat_q[in_tag] <= in_beat;
    if (tick_i) err_q <= err_q | expire;
    for (int unsigned t = 0; t < Tags; t++) if (comes[t]) err_q[t] <= mrsp_i.err || (err_q[t] && begun_q[t]);
  end

  // ---- Responses out -----------------------------------------------------------------------------
  logic             may_fetch, fetch, fetch_last, pass, out_valid_q, out_last_q, out_err_q;
  logic [BeatW-1:0] out_beat_q;
  logic [TagW-1:0]  out_tag;

  assign out_tag    = read_q[TagW-1:0];
  assign may_fetch  = (read_q != alloc_q) && complete_q[out_tag] && (!out_valid_q || rsp_ready_i);
  assign fetch      = may_fetch && (OwnData || data_grant_i);
  assign pass       = skip_q[out_tag];
  assign leaves     = (fetch && fetch_last) || pass;
  assign fetch_last = lost_q[out_tag] || out_beat_q == last_beat_q[out_tag];

  assign data_we_o    = in_valid;
  assign data_waddr_o = RowW'((Beats > 1) ? {in_tag, in_beat} : {1'b0, in_tag});
  assign data_ask_o   = may_fetch;
  assign data_raddr_o = RowW'((Beats > 1) ? {out_tag, out_beat_q} : {1'b0, out_tag});

  // The read register of the RAM is the output stage: it holds while the consumer stalls.
  if (OwnData) begin : gen_own
    logic unused_data;
    assign unused_data = ^{data_grant_i, data_i};

    hca_ram_1r1w #(
      .Width(DataW),
      .Depth(Tags * Beats)
    ) u_data (
      .clk_i,
      .we_i   (data_we_o),
      .waddr_i(data_waddr_o),
      .wdata_i(mrsp_i.data),
      .re_i   (fetch),
      .raddr_i(data_raddr_o),
      .rdata_o(rsp_o.data)
    );
  end else begin : gen_shared
    beat_t data_q;
    logic  unused_data;
    assign unused_data = ^mrsp_i.data;   // for whoever has the RAM

    always_ff @(posedge clk_i) begin
      if (fetch) data_q <= data_i;
    end
    assign rsp_o.data = data_q;
  end

  assign rsp_valid_o = out_valid_q;
  assign rsp_o.last  = out_last_q;
  assign rsp_o.err   = out_err_q;

  always_ff @(posedge clk_i) begin
    if (fetch) begin
      out_last_q <= fetch_last;
      out_err_q  <= err_q[out_tag];
    end
  end

  // ---- Completion in order -----------------------------------------------------------------------
  logic            step, step_over;
  logic [TagW-1:0] done_tag;

  assign done_tag    = done_q[TagW-1:0];
  assign step        = (done_q != alloc_q) && complete_q[done_tag];
  assign step_over   = (done_q != alloc_q) && skip_q[done_tag];
  assign done_idx_o  = done_idx_q;
  assign done_strb_o = step;
  assign done_err_o  = err_q[done_tag];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      alloc_q     <= '0;
      done_q      <= '0;
      read_q      <= '0;
      done_idx_q  <= '0;
      out_beat_q  <= '0;
      out_valid_q <= 1'b0;
      complete_q  <= '0;
      skip_q      <= '0;
    end else begin
      if (alloc) alloc_q <= alloc_q + 1'b1;
      if (step || step_over) done_q <= done_q + 1'b1;
      if (step) done_idx_q <= done_idx_q + 1'b1;
      if (fetch) out_valid_q <= 1'b1;
      else if (rsp_ready_i) out_valid_q <= 1'b0;
      if (fetch) out_beat_q <= fetch_last ? '0 : out_beat_q + 1'b1;
      if (leaves) read_q <= read_q + 1'b1;
      if (pass) skip_q[out_tag] <= 1'b0;
      if (skip) skip_q[tag] <= 1'b1;
      if (tick_i) complete_q <= complete_q | expire;
      if (fetch && fetch_last) complete_q[out_tag] <= 1'b0;
      if (in_last) complete_q[in_tag] <= 1'b1;
    end
  end

endmodule
