// The rules of binding, registering and invalidating: may this QP do so with the rows that were read, and what is the
// key's row from then on? An unbound window and a free region have a row that is not valid. Answers two cycles after
// the rows, which stay: one to compare, one to judge. The operation is there three cycles before them.
module hca_mw_check
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        bind_i,       // BIND_MW
  input  logic        reg_i,        // REG_MR; neither: its key is to be invalid
  input  logic        remote_i,     // the peer says so
  input  mw_op_t      op_i,
  input  mpt_t        window_i,     // the row of op_i.key, also if it is a region's
  input  mpt_t        region_i,     // bind: the row of op_i.wqe.lkey
  output logic        ok_o,
  output logic        was_bound_o,  // its key was good: somebody may be using it
  output mpt_t        row_o
);

  localparam int unsigned LocalWriteBit = 0, RemoteWriteBit = 1, RemoteReadBit = 2, RemoteAtomicBit = 3,
                          MwBindBit = 4, ZeroBasedBit = 5, MaxLogBytes = 48;

  logic        own_q, key_q, kind_q, region_own_q, rights_ok_q, range_ok, unbinds, writes, good;
  logic [63:0] offset_q;
  logic        before_q;      // it begins before the region
  logic        empty_q;       // it has no bytes
  logic [64:0] range_end;
  logic [5:0]  access;
  mpt_t        bound, registered;

  assign access      = op_i.wqe.access;
  assign was_bound_o = window_i.valid;
  assign writes      = access[RemoteWriteBit] || access[RemoteAtomicBit];
  assign unbinds     = empty_q && !op_i.wqe.is_type_2;
  assign range_end   = 65'(offset_q) + 65'(op_i.wqe.length);
  assign range_ok    = !before_q && range_end <= 65'(region_i.length);

  // ---- REG_MR: how many pages, by the operation alone ------------------------------------------------
  localparam int unsigned SpanW = MaxLogBytes + 2;

  logic [MaxPageShift-1:0]     below, inside_q;    // where in its first page it begins
  logic [SpanW-1:0]            span_q;             // of its last byte, from the beginning of the first page
  logic [SpanW-MinPageShift-1:0] more_q;           // pages behind the first one
  logic                        shape_q, free_q;
  logic [64:0]                 last_end;

  assign below    = MaxPageShift'((31'd1 << op_i.wqe.page_shift[4:0]) - 31'd1);
  assign last_end = 65'(op_i.va) + 65'(op_i.wqe.length);

  always_ff @(posedge clk_i) begin
    inside_q <= MaxPageShift'(op_i.va) & below;
    span_q   <= SpanW'(inside_q) + SpanW'(op_i.wqe.length) - SpanW'(1);
    more_q   <= span_q[SpanW-1:MinPageShift] >> (op_i.wqe.page_shift[4:0] - 5'(MinPageShift));
    shape_q  <= op_i.wqe.page_shift >= 6'(MinPageShift) && op_i.wqe.page_shift <= 6'(MaxPageShift)
                && op_i.wqe.length != '0 && op_i.wqe.length <= 64'd1 << MaxLogBytes && !last_end[64]
                && op_i.wqe.page_list_addr[5:0] == '0;
    // MEM-8. No windows on it: who invalidates it need not ask for them.
    free_q   <= window_i.is_fast && !window_i.is_window && !window_i.valid && !access[MwBindBit]
                && !access[ZeroBasedBit] && (!writes || access[LocalWriteBit]) && 32'(more_q) < window_i.max_pages
                && more_q[SpanW-MinPageShift-1:32] == '0;
  end

  always_ff @(posedge clk_i) begin
    own_q  <= window_i.func == op_i.func && window_i.pd == op_i.pd;
    // KEY-30, type 2B: only who has bound it. A region for fast registration: any QP of its domain; of the peers those
    // that may use it. And only by the key that it has now.
    key_q  <= window_i.valid && window_i.tag == op_i.key[7:0]
              && (window_i.is_window ? window_i.is_type_2 && window_i.qpn == op_i.qpn
                  : window_i.is_fast && (!remote_i || window_i.remote_write || window_i.remote_read
                                         || window_i.remote_atomic));
    kind_q <= window_i.is_window && op_i.wqe.is_type_2 == window_i.is_type_2
              && !(window_i.is_type_2 && window_i.valid);
    // MEM-14.
    rights_ok_q  <= !access[LocalWriteBit] && !access[MwBindBit] && region_i.mw_bind
                    && (!writes || region_i.local_write);
    region_own_q <= region_i.valid && !region_i.is_window && !region_i.is_fast && region_i.func == op_i.func
                    && region_i.pd == op_i.pd && region_i.tag == op_i.wqe.lkey[7:0];
    empty_q      <= op_i.wqe.length == '0;
    {before_q, offset_q} <= 65'(op_i.va) - 65'(region_i.start);
    ok_o <= own_q && good;
  end

  // A binding of no bytes is none, and needs no region (V-137).
  assign good = bind_i ? kind_q && (unbinds || (!empty_q && region_own_q && rights_ok_q && range_ok))
                       : reg_i ? free_q && shape_q : key_q;

  always_comb begin
    bound               = region_i;
    bound.valid         = !unbinds;
    bound.is_window     = 1'b1;
    bound.is_type_2     = op_i.wqe.is_type_2;
    bound.local_write   = 1'b0;
    bound.remote_write  = access[RemoteWriteBit];
    bound.remote_read   = access[RemoteReadBit];
    bound.remote_atomic = access[RemoteAtomicBit];
    bound.flush_global  = 1'b0;   // a work request cannot give it, and a region does not hand it on
    bound.mw_bind       = 1'b0;
    bound.zero_based    = access[ZeroBasedBit];
    bound.tag           = op_i.key[7:0];
    bound.func          = op_i.func;
    bound.pd            = op_i.pd;
    bound.qpn           = op_i.qpn;
    bound.region        = op_i.wqe.lkey[8 +: MrW];
    bound.start         = op_i.va;
    bound.length        = op_i.wqe.length;
    bound.list_offset   = region_i.list_offset + offset_q;
    if (region_i.page_shift == 6'(DirectPageShift)) bound.iova = region_i.iova + offset_q;
  end

  always_comb begin
    registered               = window_i;
    registered.valid         = 1'b1;
    registered.is_null       = 1'b0;
    registered.local_write   = access[LocalWriteBit];
    registered.remote_write  = access[RemoteWriteBit];
    registered.remote_read   = access[RemoteReadBit];
    registered.remote_atomic = access[RemoteAtomicBit];
    registered.mw_bind       = 1'b0;
    registered.zero_based    = 1'b0;
    registered.tag           = op_i.key[7:0];
    registered.page_shift    = op_i.wqe.page_shift;
    registered.start         = op_i.va;
    registered.length        = op_i.wqe.length;
    registered.iova          = op_i.wqe.page_list_addr;
    registered.list_offset   = 64'(inside_q);
    registered.num_pages     = 32'(more_q) + 32'd1;
    row_o = bind_i ? bound : reg_i ? registered : window_i;
    if (!bind_i && !reg_i) row_o.valid = 1'b0;
  end

  logic unused_bits;
  assign unused_bits = ^{op_i, window_i, region_i, access, span_q[MinPageShift-1:0], last_end[63:0]};

endmodule
