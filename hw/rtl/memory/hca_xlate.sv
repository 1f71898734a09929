// Key check and address translation: virtual segments in, bus-address chunks out, in order. Chunks never
// cross an address that is a multiple of ChunkBytes, nor a page.
//
//   hca_line_cache: keys | stage 1: check | stage 2: page after page | hca_line_cache: pages | stage 3: cut into chunks
//
// Keys and page lists are in host memory; lines of them are kept here. First chunk three cycles after the segment if
// its key is here, four if its page is, too. One chunk per cycle, so one-chunk segments pass at one per cycle.
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

  logic             s1_failed;
  logic [DataW-1:0] s1_row;
  mpt_t             s1_mpt;
  assign s1_mpt = s1_row[$bits(mpt_t)-1:0];

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
    .out_valid_o(s1_valid),
    .out_ready_i(s1_move),
    .out_data_o (s1_row),
    .out_err_o  (s1_failed),
    .out_note_o (s1),
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

  // ---- Stage 1: the row is here --------------------------------------------------------------------
  key_faults_t s1_faults, key_faults;
  logic        key_paged, s1_translated;
  logic [63:0] key_bus, key_page_pos;

  hca_key_check u_check (
    .seg_i     (s1.seg),
    .mpt_i     (s1_mpt),
    .faults_o  (key_faults),
    .paged_o   (key_paged),
    .bus_o     (key_bus),
    .page_pos_o(key_page_pos)
  );

  // Where there is no row, none was read: not both.
  always_comb begin
    s1_faults      = key_faults;
    s1_faults.lost = s1_failed;
    if (s1.none) s1_faults.key = 1'b1;
    if (s1.free) s1_faults = '0;
  end
  assign s1_translated = !s1.free && key_paged;

  // ---- Stage 2: pages ----------------------------------------------------------------------------
  localparam int unsigned LinePages = DataBytes / 8;      // entries of a page list in a line
  localparam int unsigned LineNumW  = 32 - $clog2(LinePages);

  typedef struct packed {
    xl_err_e     err;
    logic        paged;
    logic        discards;
    logic        seg_last;
    logic        last;
    logic [7:0]  func;
    logic [12:0] len_bytes;
    logic [5:0]  shift;
    logic [63:0] addr;      // bus address; before stage 3 the position in the region's pages, if paged
  } walk_t;

  typedef struct packed {
    key_faults_t     faults;
    walk_t           walk;      // its err comes of the faults, a stage later
    logic [KeyW-1:0] index;
    logic [63:6]     list;
  } span_t;

  span_t       s1_span, s2;
  walk_t       s2_out, s3_q;
  logic        s2_second_q;   // of its two pages
  logic [63:0] s2_addr, s2_page;
  logic [63:12] s2_next_q;    // the second one
  logic [12:0] s2_to_page_end, s2_end, s2_len;
  logic        s2_beyond, s2_wants_page, s2_take, s2_final, past_cache, cache_idle, cache_ready, s3_free;

  always_comb begin
    s1_span.faults         = s1_faults;
    s1_span.walk.err       = XlOk;
    s1_span.walk.paged     = s1_translated;
    s1_span.walk.discards  = !s1.free && s1_mpt.is_null;
    s1_span.walk.seg_last  = 1'b1;
    s1_span.walk.last      = s1.seg.last;
    s1_span.walk.func      = s1.seg.func;
    s1_span.walk.len_bytes = s1.seg.len_bytes;
    s1_span.walk.shift     = s1_mpt.page_shift;
    if (s1.free) s1_span.walk.addr = s1.seg.va;
    else if (key_paged) s1_span.walk.addr = key_page_pos;
    else s1_span.walk.addr = key_bus;
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
    if (rst_i) s2_second_q <= 1'b0;
    else if (s2_take) s2_second_q <= !s2_final;
    s2_next_q <= s2.walk.addr[63:12] + 52'd1;
  end

  // A segment is no longer than the smallest page: only in the last 4 KiB of a page can it reach the next one. Where it
  // ends, from the boundary before its beginning on, says whether it does, and by how much.
  assign s2_to_page_end = 13'd4096 - 13'(s2.walk.addr[11:0]);
  assign s2_end         = s2.walk.len_bytes + 13'(s2.walk.addr[11:0]);
  assign s2_beyond      = s2_end[12] && s2_end[11:0] != '0;
  assign s2_addr        = s2_second_q ? {s2_next_q, 12'd0} : s2.walk.addr;
  assign s2_len         = s2_second_q ? 13'(s2_end[11:0]) : s2.walk.len_bytes;
  assign s2_page        = s2_addr >> s2.walk.shift[4:0];   // MaxPageShift, where a page is wanted
  assign s2_wants_page  = s2.faults == '0 && s2.walk.paged && s2.walk.len_bytes != '0;
  assign s2_final       = s2_second_q || !(s2_wants_page && s2_beyond
                                           && (&(s2.walk.addr[MaxPageShift-1:12] | ~page_mask(s2.walk.shift[4:0]))));
  assign past_cache     = !s2_wants_page && cache_idle;
  assign s2_take        = s2_valid && (past_cache ? s3_room : cache_ready);
  assign s2_move        = past_cache ? s3_room : cache_ready && s2_final;

  always_comb begin
    s2_out           = s2.walk;
    s2_out.err       = verdict_of(s2.faults);
    s2_out.addr      = s2_addr;
    s2_out.len_bytes = s2_final ? s2_len : s2_to_page_end;
    s2_out.seg_last  = s2_final;
    s2_out.last      = s2_final && s2.walk.last;
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
  logic [DataW-1:0] found_data;
  logic [63:0]      found_page;

  hca_line_cache #(
    .Lines (PageCacheLines),
    .OwnerW(KeyW),
    .NumW  (LineNumW),
    .NoteW ($bits(note_t))
  ) u_pages (
    .clk_i,
    .rst_i,
    .in_valid_i (s2_valid && !past_cache),
    .in_ready_o (cache_ready),
    .in_line_i  (s2_wants_page),
    .in_owner_i (s2.index),
    .in_num_i   (s2_page[31:$clog2(LinePages)]),
    .in_func_i  (s2.walk.func),
    .in_base_i  (s2.list),
    .in_note_i  ({s2_out, s2_wants_page, s2_page[$clog2(LinePages)-1:0]}),
    .out_valid_o(found_valid),
    .out_ready_i(s3_room),
    .out_data_o (found_data),
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

  assign found_page = found_data[{found.entry, 6'd0}+:64];

  logic unused_bits;
  assign unused_bits = ^{forget_i.pages, s2_page[63:32], found_page[11:0], s3_q.paged, s3_q.shift, s2.walk.err,
                         s2.walk.shift[5]};

  // ---- Stage 3: chunks ---------------------------------------------------------------------------
  walk_t       s3_in, spare_q;
  logic        s3_comes, spare_valid_q;
  logic [MaxPageShift-1:12] in_page;
  logic [12:0] to_cut, n;
  logic [13:0] s3_end;
  logic [12:0] s3_rest;
  logic        final_chunk, step;

  assign in_page = page_mask(found.walk.shift[4:0]);

  always_comb begin
    s3_in = past_cache ? s2_out : found.walk;
    if (!past_cache && found.wants_page) begin
      if (found_err) s3_in.err = XlDma;
      if (found_err) s3_in.len_bytes = '0;
      s3_in.addr[63:12] = found_page[63:12];
      s3_in.addr[MaxPageShift-1:12] = (found_page[MaxPageShift-1:12] & ~in_page)
                                      | (found.walk.addr[MaxPageShift-1:12] & in_page);
    end
  end

  function automatic logic [13:0] end_of(walk_t w);
    logic unused_rest;
    unused_rest = ^w;
    return 14'(w.len_bytes) + 14'(w.addr[ChunkW-1:0]);
  endfunction

  function automatic logic is_final(xl_err_e err, logic [13:0] upto);
    return err != XlOk || upto[13:ChunkW] == '0 || upto == 14'(ChunkBytes);
  endfunction

  // A place beside it for what comes while it stalls: whether the consumer takes a chunk is not to be known in front.
  assign s3_room     = !spare_valid_q;
  assign s3_comes    = past_cache ? s2_valid : found_valid;
  assign s3_free     = !s3_valid_q || s3_done;
  // Where it ends, from the boundary before its beginning on: one sum says whether it reaches beyond the next one, and
  // by how much.
  assign s3_end      = end_of(s3_q);
  assign s3_rest     = 13'(s3_end - 14'(ChunkBytes));
  assign to_cut      = 13'(ChunkBytes) - 13'(s3_q.addr[ChunkW-1:0]);
  assign n           = final_chunk ? s3_q.len_bytes : to_cut;
  assign step        = s3_valid_q && chunk_ready_i;
  assign s3_done     = step && final_chunk;

  always_ff @(posedge clk_i) begin
    if (s3_room) spare_q <= s3_in;
    if (s3_free) s3_q <= spare_valid_q ? spare_q : s3_in;
    else if (step) begin
      s3_q.addr      <= {s3_q.addr[63:ChunkW] + 1'b1, ChunkW'(0)};
      s3_q.len_bytes <= s3_rest;
    end
  end

  // Much hangs on the last chunk where data is placed (hca_rx_mover): there it is known with it.
  if (ChunkBytes == 4096) begin : gen_early
    logic final_q;
    always_ff @(posedge clk_i) begin
      if (s3_free && spare_valid_q) final_q <= is_final(spare_q.err, end_of(spare_q));
      else if (s3_free) final_q <= is_final(s3_in.err, end_of(s3_in));
      else if (step) final_q <= is_final(XlOk, 14'(s3_rest));
    end
    assign final_chunk = final_q;
  end else begin : gen_late
    assign final_chunk = is_final(s3_q.err, s3_end);
  end

  assign chunk_valid_o = s3_valid_q;
  assign chunk_o = '{
    err:       s3_q.err,
    discards:  s3_q.discards,
    seg_last:  final_chunk && s3_q.seg_last,
    pkt_last:  final_chunk && s3_q.last,
    func:      s3_q.func,
    addr:      s3_q.addr,
    len_bytes: (s3_q.err != XlOk) ? '0 : n
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

endmodule
