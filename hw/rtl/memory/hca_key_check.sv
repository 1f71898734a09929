// The rules of a memory key, combinational: may this segment use this row of the MPT, and where inside
// the region is it? Order of the verdicts: key, protection domain, right, range.
module hca_key_check
  import hca_pkg::*;
(
  input  seg_t        seg_i,
  input  mpt_t        mpt_i,
  output xl_err_e     err_o,
  output logic        paged_o,
  output logic [63:0] offset_o,   // of va from the start of the region
  output logic [63:0] page_pos_o  // of va from the start of the list's first page
);

  // Three numbers and one as two numbers. The one is what makes a complement a negative.
  typedef struct packed {
    logic [66:0] sum;
    logic [66:0] carry;
  } pair_t;

  function automatic pair_t carry_save(input logic [66:0] a, input logic [66:0] b, input logic [66:0] c);
    carry_save = '{sum: a ^ b ^ c, carry: 67'({(a & b) | (a & c) | (b & c), 1'b1})};
  endfunction

  pair_t       region_pos, behind, reached;
  logic        row_ok, right_ok, range_ok, page_ok, local_only, flush;
  logic [63:0] region_start, region_offset;
  logic [64:0] page_pos;
  logic [32:0] need;   // bytes that must be inside the region
  logic [66:0] room;   // what the region has behind them; negative: they reach beyond its end

  // A window of type 2 is no key for any other QP (type 2B).
  assign row_ok   = mpt_i.valid && (mpt_i.tag == seg_i.key[7:0]) && (mpt_i.func == seg_i.func)
                    && (!mpt_i.is_window || !mpt_i.is_type_2 || mpt_i.qpn == seg_i.qpn);

  assign paged_o = mpt_i.page_shift != 6'(DirectPageShift) && !mpt_i.is_null;
  assign page_ok = !paged_o || (mpt_i.page_shift >= 6'(MinPageShift) && mpt_i.page_shift <= 6'(MaxPageShift));

  // A window grants access to the peer only (an R_Key, never an L_Key).
  assign local_only = (seg_i.access == AccLocalRead) || (seg_i.access == AccLocalWrite);
  always_comb begin
    unique case (seg_i.access)
      AccLocalRead:    right_ok = 1'b1;
      AccLocalWrite:   right_ok = mpt_i.local_write;
      AccRemoteWrite:  right_ok = mpt_i.remote_write;
      AccRemoteRead:   right_ok = mpt_i.remote_read;
      AccRemoteAtomic: right_ok = mpt_i.remote_atomic && !mpt_i.is_null;   // no place to keep a result
      AccFlush, AccFlushAll: right_ok = mpt_i.flush_global;
      default:         right_ok = 1'b0;
    endcase
    if (local_only && mpt_i.is_window) right_ok = 1'b0;
  end

  assign flush     = seg_i.access inside {AccFlush, AccFlushAll};
  assign need      = (flush || seg_i.chk_bytes > 32'(seg_i.len_bytes)) ? 33'(seg_i.chk_bytes) : 33'(seg_i.len_bytes);
  // Every address of a null region is inside it; its zeros are two of the smallest pages, which a segment that begins
  // in the first one never leaves.
  assign region_start  = mpt_i.zero_based ? '0 : mpt_i.start;
  assign region_offset = seg_i.va - region_start;
  // A FLUSH may be of no bytes, or name none: it reads the first one of the region.
  assign offset_o  = mpt_i.is_null ? 64'(seg_i.va[MinPageShift-1:0]) : flush ? '0 : region_offset;
  // One chain for each sum, in front of it a row of gates for each number beyond the second. Wide enough that none
  // wraps; an address in front of the region is refused whatever they say.
  assign region_pos = carry_save(67'(mpt_i.list_offset), 67'(seg_i.va), ~67'(region_start));
  assign behind     = carry_save(67'(mpt_i.length), 67'(region_start), ~67'(need));
  assign reached    = carry_save(behind.sum, behind.carry, ~67'(seg_i.va));
  assign room       = reached.sum + reached.carry;
  assign range_ok   = mpt_i.is_null || seg_i.access == AccFlushAll
                      || (seg_i.va >= region_start && !room[66]);

  // Of a null region nobody asks.
  assign page_pos   = flush ? 65'(mpt_i.list_offset) : 65'(region_pos.sum + region_pos.carry);
  assign page_pos_o = page_pos[63:0];

  always_comb begin
    err_o = XlOk;
    if (!row_ok || !page_ok) err_o = XlKey;
    else if (mpt_i.pd != seg_i.pd && seg_i.pd != 24'(PdAny)) err_o = XlPd;
    else if (!right_ok) err_o = XlAccess;
    else if (!range_ok || (paged_o && page_pos[64])) err_o = XlBounds;
  end

  logic unused_bits;
  assign unused_bits = ^{seg_i, mpt_i, room[65:0]};

endmodule
