// Key check and address translation: virtual segments in, bus-address chunks out, in order. Chunks never
// cross an address that is a multiple of ChunkBytes, nor a page.
//
//   hca_line_cache: keys | stage 1: check | stage 2: cut at 4 KiB | hca_line_cache: pages | stage 3: cut into chunks
//
// Keys and page lists are in host memory; lines of them are kept here. First chunk four cycles after the segment if
// its key is here, five if its page is, too. One chunk per cycle, so one-chunk segments pass at one per cycle.
module hca_xlate
  import hca_pkg::*;
  import hca_key_pkg::*;
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
  // hca_key_table.
  input  key_place_t [NumFuncs-1:0] tables_i,
  input  logic [1:0]      forget_valid_i,  // keys, pages
  output logic [1:0]      forget_ready_o,
  input  key_forget_t     forget_i,
  // hca_dma_rd_port, two: keys, page lists.
  output logic [1:0]        line_req_valid_o,
  input  logic [1:0]        line_req_ready_i,
  output dma_rd_req_t [1:0] line_req_o,
  input  logic [1:0]        line_rsp_valid_i,
  output logic [1:0]        line_rsp_ready_o,
  input  dma_rd_rsp_t [1:0] line_rsp_i
);

  localparam int unsigned ChunkW = $clog2(ChunkBytes);

  if (ChunkBytes < 64 || ChunkBytes > 4096 || (ChunkBytes & (ChunkBytes - 1)) != 0) begin : gen_bad_chunk
    $error("hca_xlate: ChunkBytes must be a power of two, 64 to 4096 (the smallest page)");
  end

  logic s1_valid, s2_valid, s3_valid_q;
  logic s1_move, s2_move, s3_done, s3_room;   // s3_room: from a register

  // ---- Key -----------------------------------------------------------------------------------------
  // Bus addresses need no key, and neither does a segment that touches nothing.
  typedef struct packed {
    logic free;
    logic none;   // the function has no such row
    seg_t seg;
  } wish_t;

  localparam int unsigned KeyFuncW = KeyW - MrW;

  wish_t           wish, s1;
  key_place_t      tbl;
  logic [KeyW-1:0] index;

  assign index     = seg_i.key[31:8];
  assign tbl       = tables_i[FuncIdxW'(seg_i.func)];
  assign wish.free = seg_i.bypass || (seg_i.len_bytes == '0 && seg_i.chk_bytes == '0);
  assign wish.none = !tbl.valid || 32'(seg_i.func) >= NumFuncs || index[MrW+:KeyFuncW] != KeyFuncW'(seg_i.func)
                     || (index[MrW-1:0] & ({MrW{1'b1}} << tbl.log_size)) != '0;
  // A segment that moves more than it says to check has all of it checked. A FLUSH moves a byte that is not its own.
  always_comb begin
    wish.seg = seg_i;
    if (!(seg_i.access inside {AccFlush, AccFlushAll}) && seg_i.chk_bytes < 32'(seg_i.len_bytes)) begin
      wish.seg.chk_bytes = 32'(seg_i.len_bytes);
    end
  end

  logic             s1_failed, key_comes, key_room, key_failed;
  logic [DataW-1:0] key_row;
  mpt_t             s1_mpt;
  key_use_t         s1_use;
  wish_t            key_wish;

  hca_line_cache #(
    .Lines (KeyCacheLines),
    .OwnerW(KeyFuncW),
    .NumW  (MrW),
    .NoteW ($bits(wish_t))
  ) u_keys (
    .clk_i,
    .rst_i,
    .in_valid_i (seg_valid_i),
    .in_ready_o (seg_ready_o),
    .in_line_i  (!wish.free && !wish.none),
    .in_owner_i (index[MrW+:KeyFuncW]),
    .in_num_i   (index[MrW-1:0]),
    .in_func_i  (seg_i.func),
    .in_base_i  (tbl.base),
    .in_note_i  (wish),
    .out_valid_o(key_comes),
    .out_ready_i(key_room),
    .out_word_i ('0),
    .out_data_o (key_row),
    .out_err_o  (key_failed),
    .out_note_o (key_wish),
    .idle_o     (),
    .forget_valid_i(forget_valid_i[0]),
    .forget_ready_o(forget_ready_o[0]),
    .forget_one_i  (!forget_i.all),
    .forget_num_i  (forget_i.index[MrW-1:0]),
    .forget_owner_i(forget_i.index[MrW+:KeyFuncW]),
    .forget_mask_i ('1),
    .req_valid_o(line_req_valid_o[0]),
    .req_ready_i(line_req_ready_i[0]),
    .req_o      (line_req_o[0]),
    .rsp_valid_i(line_rsp_valid_i[0]),
    .rsp_ready_o(line_rsp_ready_o[0]),
    .rsp_i      (line_rsp_i[0])
  );

  // ---- Stage 1: the row is here, out of a register: its rules are sums behind sums ----------------------
  assign key_room = !s1_valid || s1_move;

  always_ff @(posedge clk_i) begin
    if (rst_i) s1_valid <= 1'b0;
    else if (key_room) s1_valid <= key_comes;
    if (key_room) {s1_mpt, s1_failed, s1} <= {key_row[$bits(mpt_t)-1:0], key_failed, key_wish};
    if (key_room) s1_use <= use_of(key_wish.seg.access, key_row[$bits(mpt_t)-1:0]);
  end

  key_found_t  s1_found, key_found;
  logic        s1_translated;
  logic [63:0] key_pos;

  hca_key_check u_check (
    .seg_i     (s1.seg),
    .mpt_i     (s1_mpt),
    .use_i     (s1_use),
    .found_o   (key_found),
    .pos_o     (key_pos)
  );

  // Where there is no row, none was read: not both.
  always_comb begin
    s1_found           = key_found;
    s1_found.sure.lost = s1_failed;
    if (s1.none) s1_found.sure.key = 1'b1;
    if (s1.free) begin
      s1_found.sure     = '0;
      s1_found.anywhere = 1'b1;
    end
  end
  assign s1_translated = !s1.free && s1_use.paged;

  // ---- Stage 2: pieces that stay inside 4 KiB ------------------------------------------------------
  localparam int unsigned LinePages = DataBytes / 8;      // entries of a page list in a line
  localparam int unsigned LineNumW  = 32 - $clog2(LinePages);

  typedef struct packed {
    xl_err_e     err;
    logic        discards;
    logic        seg_last;
    logic        last;
    logic        has_bytes; // it moves something
    logic        fits;      // into one chunk
    logic [7:0]  func;
    logic [12:0] len_bytes;
    logic [11:0] end_at;
    logic [5:0]  shift;
    logic [63:0] addr;      // bus address; before stage 3 the position in the region's pages, if paged
  } walk_t;

  typedef struct packed {
    key_found_t      found;
    logic            paged;
    logic            discards;
    logic            last;
    logic            has_bytes;
    logic [7:0]      func;
    logic [12:0]     len_bytes;
    logic [12:0]     less;      // len_bytes - 1: where the last byte is
    logic [5:0]      shift;
    logic [63:0]     addr;
    logic [KeyW-1:0] index;
    logic [63:6]     list;
  } span_t;

  span_t       s1_span, s2;
  walk_t       s2_out, s3_q;
  logic        s2_again_q;    // behind the first piece:
  logic [63:12] s2_next_q;    // the next one's address,
  logic [12:0] s2_rest_q;     // and where the last byte is from there on
  logic [63:0] s2_addr, s2_page;
  logic [12:0] s2_to_cut, s2_upto;
  logic [13:0] s2_last_at;    // last byte, from the boundary before the first one on
  key_faults_t s2_faults;
  logic        s2_ok, s2_beyond, s2_wants_page, s2_take, s2_final, past_cache, cache_idle, cache_ready, s3_free;

  always_comb begin
    s1_span.found     = s1_found;
    s1_span.paged     = s1_translated;
    s1_span.discards  = !s1.free && s1_mpt.is_null;
    s1_span.last      = s1.seg.last;
    s1_span.has_bytes = s1.seg.len_bytes != '0;
    s1_span.func      = s1.seg.func;
    s1_span.len_bytes = s1.seg.len_bytes;
    s1_span.less      = s1.seg.len_bytes - 13'd1;
    s1_span.shift     = s1_mpt.page_shift;
    s1_span.addr      = s1.free ? s1.seg.va : key_pos;
    // A window's pages are its region's; whatever its row says, of the same function.
    s1_span.index = s1.seg.key[31:8];
    if (s1_mpt.is_window) s1_span.index[MrW-1:0] = s1_mpt.region[MrW-1:0];
    s1_span.list  = s1_mpt.iova[63:6];
  end

  // Whether the page cache takes something is not to be known on this side of it.
  hca_skid #(
    .Width($bits(span_t))
  ) u_s2 (
    .clk_i,
    .rst_i,
    .in_valid_i (s1_valid),
    .in_ready_o (s1_move),
    .in_i       (s1_span),
    .out_valid_o(s2_valid),
    .out_ready_i(s2_move),
    .out_o      (s2)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) s2_again_q <= 1'b0;
    else if (s2_take) s2_again_q <= !s2_final;
    if (s2_take) begin
      s2_next_q <= (s2_again_q ? s2_next_q : s2.addr[63:12]) + 52'd1;
      s2_rest_q <= s2_again_q ? 13'(s2_rest_q[11:0]) : {s2_last_at[13], s2_last_at[11:0]};
    end
  end

  // The smallest page ends where a piece does, so a piece is in one page, whatever its size. Said by the last byte, for
  // then a single bit says whether a segment goes on. Two pieces, three of a long frame.
  assign s2_faults      = faults_of(s2.found, s2.paged);
  assign s2_ok          = s2_faults == '0;
  assign s2_last_at     = 14'(s2.less) + 14'(s2.addr[11:0]);
  assign s2_upto        = s2.less + 13'(s2.addr[5:0]);
  assign s2_to_cut      = 13'd4096 - 13'(s2.addr[11:0]);
  assign s2_beyond      = s2.has_bytes && (s2_again_q ? s2_rest_q[12] : s2_last_at[13:12] != '0);
  assign s2_addr        = s2_again_q ? {s2_next_q, 12'd0} : s2.addr;
  assign s2_page        = s2_addr >> s2.shift[4:0];   // MaxPageShift, where a page is wanted
  assign s2_wants_page  = s2_ok && s2.paged && s2.has_bytes;
  assign s2_final       = !s2_ok || !s2_beyond;
  assign past_cache     = !s2_wants_page && cache_idle;
  assign s2_take        = s2_valid && (past_cache ? s3_room : cache_ready);
  assign s2_move        = (past_cache ? s3_room : cache_ready) && s2_final;

  // Whether the last byte, so far from a boundary of 4 KiB, is in the first chunk.
  function automatic logic in_first(input logic [12:0] last_at);
    return (last_at >> ChunkW) == '0;
  endfunction

  always_comb begin
    s2_out           = '{err: verdict_of(s2_faults), discards: s2.discards, seg_last: s2_final,
                         last: s2_final && s2.last, has_bytes: s2_ok && s2.has_bytes, fits: 1'b1, func: s2.func,
                         len_bytes: '0, end_at: '0, shift: s2.shift, addr: s2_addr};
    unique case ({s2_again_q, s2_beyond})
      2'b00: begin
        s2_out.len_bytes = s2.len_bytes;
        s2_out.end_at    = s2_upto[11:0];
        s2_out.fits      = in_first(s2.less + 13'(s2.addr[ChunkW-1:0]));
      end
      2'b01: begin
        s2_out.len_bytes = s2_to_cut;
        s2_out.end_at    = {~s2.addr[11:6], 6'h3f};
        s2_out.fits      = (s2.addr[11:0] | 12'(ChunkBytes - 1)) == '1;
      end
      2'b10: begin
        s2_out.len_bytes = 13'(s2_rest_q[11:0]) + 13'd1;
        s2_out.end_at    = s2_rest_q[11:0];
        s2_out.fits      = in_first(s2_rest_q);
      end
      default: begin
        s2_out.len_bytes = 13'd4096;
        s2_out.end_at    = '1;
        s2_out.fits      = in_first(13'd4095);
      end
    endcase
    if (!s2_ok) s2_out.len_bytes = '0;
    if (!s2_ok || !s2.has_bytes) s2_out.fits = 1'b1;
  end

  // Bits of an address above 4 KiB that are inside a page.
  function automatic logic [MaxPageShift-1:12] page_mask(input logic [4:0] shift);
    return (MaxPageShift-12)'(~(({32{1'b1}} << shift) >> 12));
  endfunction

  // ---- Page lists --------------------------------------------------------------------------------
  typedef struct packed {
    walk_t                        walk;
    logic                         wants_page;
    logic [$clog2(LinePages)-1:0] entry;
  } note_t;

  note_t            found;
  logic             found_valid, found_err;
  logic [63:0]      found_page;

  hca_line_cache #(
    .Lines (PageCacheLines),
    .OwnerW(KeyW),
    .NumW  (LineNumW),
    .NoteW ($bits(note_t)),
    .OutW  (64)
  ) u_pages (
    .clk_i,
    .rst_i,
    .in_valid_i (s2_valid && !past_cache),
    .in_ready_o (cache_ready),
    .in_line_i  (s2_wants_page),
    .in_owner_i (s2.index),
    .in_num_i   (s2_page[31:$clog2(LinePages)]),
    .in_func_i  (s2.func),
    .in_base_i  (s2.list),
    .in_note_i  ({s2_out, s2_wants_page, s2_page[$clog2(LinePages)-1:0]}),
    .out_valid_o(found_valid),
    .out_ready_i(s3_room),
    .out_word_i (found.entry),
    .out_data_o (found_page),
    .out_err_o  (found_err),
    .out_note_o (found),
    .idle_o     (cache_idle),
    .forget_valid_i(forget_valid_i[1]),
    .forget_ready_o(forget_ready_o[1]),
    .forget_one_i  (forget_i.one),
    .forget_num_i  (forget_i.line),
    .forget_owner_i(forget_i.index),
    .forget_mask_i ({{KeyFuncW{1'b1}}, {MrW{!forget_i.all}}}),
    .req_valid_o(line_req_valid_o[1]),
    .req_ready_i(line_req_ready_i[1]),
    .req_o      (line_req_o[1]),
    .rsp_valid_i(line_rsp_valid_i[1]),
    .rsp_ready_o(line_rsp_ready_o[1]),
    .rsp_i      (line_rsp_i[1])
  );

  logic unused_bits;
  assign unused_bits = ^{forget_i.pages, s2_page[63:32], found_page[11:0], s2_upto[12], s3_q.shift};

  // ---- Stage 3: chunks ---------------------------------------------------------------------------
  walk_t       s3_in, spare_q;
  logic        s3_comes, spare_valid_q;
  logic [MaxPageShift-1:12] in_page;

  assign in_page = page_mask(found.walk.shift[4:0]);

  always_comb begin
    s3_in = past_cache ? s2_out : found.walk;
    if (!past_cache && found.wants_page) begin
      if (found_err) {s3_in.err, s3_in.has_bytes, s3_in.fits, s3_in.len_bytes} = {XlDma, 1'b0, 1'b1, 13'd0};
      s3_in.addr[63:12] = found_page[63:12];
      s3_in.addr[MaxPageShift-1:12] = (found_page[MaxPageShift-1:12] & ~in_page)
                                      | (found.walk.addr[MaxPageShift-1:12] & in_page);
    end
  end

  // A place beside it for what comes while it stalls: whether the consumer takes a chunk is not to be known in front.
  // A piece that stays inside 4 KiB is one chunk, where those are as long.
  logic step, fits;
  assign fits     = ChunkBytes == 4096 || s3_q.fits;
  assign s3_room  = !spare_valid_q;
  assign s3_comes = past_cache ? s2_valid : found_valid;
  assign s3_free  = !s3_valid_q || s3_done;
  assign step     = s3_valid_q && chunk_ready_i;
  assign s3_done  = step && fits;

  // What is left behind a chunk.
  walk_t       s3_rest;
  logic [12:0] to_cut;
  assign to_cut = 13'(ChunkBytes) - 13'(s3_q.addr[ChunkW-1:0]);

  always_comb begin
    s3_rest              = s3_q;
    s3_rest.addr         = {s3_q.addr[63:ChunkW] + 1'b1, ChunkW'(0)};
    s3_rest.len_bytes    = s3_q.len_bytes + 13'(s3_q.addr[ChunkW-1:0]) - 13'(ChunkBytes);
    s3_rest.end_at[11:6] = s3_q.end_at[11:6] + 6'(s3_q.addr[ChunkW-1:0] >> 6) - 6'(ChunkBytes / 64);
    s3_rest.fits         = in_first(13'(s3_rest.end_at));
  end

  always_ff @(posedge clk_i) begin
    if (s3_room) spare_q <= s3_in;
    if (s3_free) s3_q <= spare_valid_q ? spare_q : s3_in;
    else if (step) s3_q <= s3_rest;
  end

  assign chunk_valid_o = s3_valid_q;
  assign chunk_o = '{
    err:       s3_q.err,
    discards:  s3_q.discards,
    seg_last:  fits && s3_q.seg_last,
    pkt_last:  fits && s3_q.last,
    has_bytes: s3_q.has_bytes,
    func:      s3_q.func,
    addr:      s3_q.addr,
    len_bytes: fits ? s3_q.len_bytes : to_cut,
    end_at:    fits ? s3_q.end_at : {6'(~s3_q.addr[ChunkW-1:0] >> 6), 6'h3f}
  };

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      s3_valid_q    <= 1'b0;
      spare_valid_q <= 1'b0;
    end else begin
      if (s3_free) s3_valid_q <= spare_valid_q || s3_comes;
      spare_valid_q <= !s3_free && (spare_valid_q || s3_comes);
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && s3_valid_q) assert (!fits || s3_q.fits) else $error("hca_xlate: a piece of more than one chunk");
  end
`endif

endmodule
