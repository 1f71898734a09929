// Key check and address translation: virtual segments in, bus-address chunks out, in order. Chunks never
// cross an address that is a multiple of ChunkBytes, nor a page.
//
//   accept: MPT read | stage 1: check | stage 2: page index, MTT read | stage 3: cut into chunks
//
// First chunk three cycles after the segment; one chunk per cycle, so one-chunk segments pass at one per
// cycle. The MTT row of the next page is read while the last chunk of a page leaves.
module hca_xlate
  import hca_pkg::*;
#(
  parameter int unsigned ChunkBytes = 512
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            seg_valid_i,
  output logic            seg_ready_o,
  input  seg_t            seg_i,
  output logic            chunk_valid_o,
  input  logic            chunk_ready_i,
  output chunk_t          chunk_o,
  // Key table, one client.
  output logic            mpt_re_o,
  output logic [MrW-1:0]  mpt_raddr_o,
  input  mpt_t            mpt_rdata_i,
  output logic            mtt_re_o,
  output logic [MttW-1:0] mtt_raddr_o,
  input  logic [63:0]     mtt_rdata_i
);

  localparam int unsigned ChunkW = $clog2(ChunkBytes);

  if (ChunkBytes < 64 || ChunkBytes > 4096 || (ChunkBytes & (ChunkBytes - 1)) != 0) begin : gen_bad_chunk
    $error("hca_xlate: ChunkBytes must be a power of two, 64 to 4096 (the smallest page)");
  end

  logic s1_valid_q, s2_valid_q, s3_valid_q;
  logic s1_move, s2_move, s3_done;

  // ---- Stage 1: the row arrives ------------------------------------------------------------------
  seg_t        s1_q;
  xl_err_e     s1_err, key_err;
  logic        key_paged, s1_free, s1_translated;
  logic [63:0] key_offset, key_page_pos;
  logic [32:0] key_need;

  assign seg_ready_o = !s1_valid_q || s1_move;
  assign mpt_re_o    = seg_valid_i && seg_ready_o;
  assign mpt_raddr_o = seg_i.key[8+:MrW];

  hca_key_check u_check (
    .seg_i     (s1_q),
    .mpt_i     (mpt_rdata_i),
    .err_o     (key_err),
    .paged_o   (key_paged),
    .offset_o  (key_offset),
    .page_pos_o(key_page_pos),
    .need_o    (key_need)
  );

  // Bus addresses need no key, and neither does a segment that touches nothing.
  assign s1_free       = s1_q.bypass || (s1_q.len_bytes == '0 && s1_q.chk_bytes == '0);
  assign s1_err        = s1_free ? XlOk : key_err;
  assign s1_translated = !s1_free && key_paged;

  // ---- Stage 2: page index -----------------------------------------------------------------------
  typedef struct packed {
    xl_err_e     err;
    logic        paged;
    logic        last;
    logic [7:0]  func;
    logic [12:0] len_bytes;
    logic [5:0]  shift;
    logic [63:0] addr;      // bus address, or position in the region's pages
  } walk_t;

  walk_t           s2_q, s2_out;
  logic [31:0]     s2_mtt_base_q;
  logic [32:0]     s2_need_q;
  logic [64:0]     s2_last_pos;
  logic [63:0]     s2_last_row;
  logic [MttW-1:0] s2_first_row;  // right when the last row is inside the table

  assign s1_move = s1_valid_q && (!s2_valid_q || s2_move);

  always_ff @(posedge clk_i) begin
    if (seg_valid_i && seg_ready_o) s1_q <= seg_i;
    if (s1_move) begin
      s2_q.err       <= s1_err;
      s2_q.paged     <= s1_translated;
      s2_q.last      <= s1_q.last;
      s2_q.func      <= s1_q.func;
      s2_q.len_bytes <= s1_q.len_bytes;
      s2_q.shift     <= mpt_rdata_i.page_shift;
      if (s1_free) s2_q.addr <= s1_q.va;
      else if (key_paged) s2_q.addr <= key_page_pos;
      else s2_q.addr <= mpt_rdata_i.iova + key_offset;
      s2_mtt_base_q <= mpt_rdata_i.mtt_base;
      s2_need_q     <= key_need;
    end
  end

  // Rows of the first and the last page that the range touches; need is at least 1 here.
  assign s2_last_pos  = 65'(s2_q.addr) + 65'(s2_need_q) - 65'd1;
  assign s2_first_row = s2_mtt_base_q[MttW-1:0] + MttW'(s2_q.addr >> s2_q.shift);
  assign s2_last_row  = 64'(s2_mtt_base_q) + 64'(s2_last_pos >> s2_q.shift);

  always_comb begin
    s2_out = s2_q;
    if (s2_q.err == XlOk && s2_q.paged && s2_last_row >= 64'(NumMtts)) s2_out.err = XlKey;
  end

  // ---- Stage 3: chunks ---------------------------------------------------------------------------
  walk_t           s3_q;
  logic [MttW-1:0] s3_row_q;
  logic [63:0]     s3_mask;
  logic [12:0]     to_cut, n;
  logic [63:0]     next_addr;
  logic            final_chunk, step, next_page;

  assign s2_move     = s2_valid_q && (!s3_valid_q || s3_done);
  assign to_cut      = 13'(ChunkBytes) - 13'(s3_q.addr[ChunkW-1:0]);
  assign n           = (s3_q.len_bytes < to_cut) ? s3_q.len_bytes : to_cut;
  assign next_addr   = s3_q.addr + 64'(n);
  assign final_chunk = (s3_q.err != XlOk) || (n == s3_q.len_bytes);
  assign step        = s3_valid_q && chunk_ready_i;
  assign s3_done     = step && final_chunk;
  assign s3_mask     = (64'd1 << s3_q.shift) - 64'd1;
  assign next_page   = step && !final_chunk && s3_q.paged && ((next_addr & s3_mask) == '0);

  assign mtt_re_o    = (s2_move && s2_out.paged) || next_page;
  assign mtt_raddr_o = next_page ? s3_row_q + 1'b1 : s2_first_row;

  always_ff @(posedge clk_i) begin
    if (s2_move) begin
      s3_q     <= s2_out;
      s3_row_q <= s2_first_row;
    end else if (step) begin
      s3_q.addr      <= next_addr;
      s3_q.len_bytes <= s3_q.len_bytes - n;
      if (next_page) s3_row_q <= s3_row_q + 1'b1;
    end
  end

  assign chunk_valid_o = s3_valid_q;
  always_comb begin
    chunk_o.err       = s3_q.err;
    chunk_o.seg_last  = final_chunk;
    chunk_o.pkt_last  = final_chunk && s3_q.last;
    chunk_o.func      = s3_q.func;
    chunk_o.addr      = s3_q.paged ? (mtt_rdata_i & ~s3_mask) | (s3_q.addr & s3_mask) : s3_q.addr;
    chunk_o.len_bytes = (s3_q.err != XlOk) ? '0 : n;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
    end else begin
      if (seg_ready_o) s1_valid_q <= seg_valid_i;
      if (!s2_valid_q || s2_move) s2_valid_q <= s1_valid_q;
      if (!s3_valid_q || s3_done) s3_valid_q <= s2_valid_q;
    end
  end

endmodule
