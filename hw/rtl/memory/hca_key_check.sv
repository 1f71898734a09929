// The rules of a memory key, combinational: may this segment use this row of the MPT, and where inside
// the region is it? What must be inside is chk_bytes. Each rule has a verdict of its own: which one counts if several
// are broken is for whoever has the time (verdict_of). That of the list counts where there is one (paged_o).
module hca_key_check
  import hca_pkg::*;
  import hca_key_pkg::*;
(
  input  seg_t        seg_i,
  input  mpt_t        mpt_i,
  output key_faults_t faults_o,
  output logic        paged_o,
  output logic [63:0] pos_o       // where va lies; if it is paged, from the start of the list's first page
);

  // Three numbers and one as two numbers. The one is what makes a complement a negative.
  typedef struct packed {
    logic [66:0] half;
    logic [66:0] carry;
  } pair_t;

  function automatic pair_t carry_save(input logic [66:0] a, input logic [66:0] b, input logic [66:0] c);
    carry_save = '{half: a ^ b ^ c, carry: 67'({(a & b) | (a & c) | (b & c), 1'b1})};
  endfunction

  // The upper half for either carry of the lower one: open synthesis takes a chain of 64 bits for a long one, and lets
  // everything beside it take as long.
  function automatic logic [66:0] sum_of(input pair_t pair);
    logic [33:0] low, high_0, high_1;
    low    = 34'(pair.half[32:0]) + 34'(pair.carry[32:0]);
    high_0 = pair.half[66:33] + pair.carry[66:33];
    high_1 = 34'(({pair.half[66:33], 1'b1} + {pair.carry[66:33], 1'b1}) >> 1);
    return {(high_0 & {34{!low[33]}}) | (high_1 & {34{low[33]}}), low[32:0]};
  endfunction

  pair_t       pos, behind, reached;
  logic        own, qp_same, pd_same, high_same, in_front;
  logic        row_ok, right_ok, range_ok, page_ok, size_ok, local_only, flush;
  logic [63:0] region_start, place, origin;
  logic [66:0] sum;
  logic [66:0] room;   // what the region has behind them; negative: they reach beyond its end

  // The row comes late: carries keep its conditions away from the comparisons.
  hca_same #(.Width(16)) u_own (.a_i({mpt_i.tag, mpt_i.func}), .b_i({seg_i.key[7:0], seg_i.func}), .same_o(own));
  hca_same #(.Width(24)) u_qp  (.a_i(mpt_i.qpn), .b_i(seg_i.qpn), .same_o(qp_same));
  hca_same #(.Width(24)) u_pd  (.a_i(mpt_i.pd), .b_i(seg_i.pd), .same_o(pd_same));

  hca_same #(.Width(32)) u_high (.a_i(seg_i.va[63:32]), .b_i(region_start[63:32]), .same_o(high_same));

  // A window of type 2 is no key for any other QP (type 2B).
  assign row_ok   = mpt_i.valid && own && (!mpt_i.is_window || !mpt_i.is_type_2 || qp_same);

  // What has the upper bit is refused unless it says that there are no pages: where va lies hangs on this one bit.
  assign paged_o = !mpt_i.page_shift[5] && !mpt_i.is_null;
  // 12 to 30, said as bits: comparisons would be chains of gates behind the row.
  assign size_ok = !mpt_i.page_shift[5] && (mpt_i.page_shift[4] || (&mpt_i.page_shift[3:2]))
                   && !(&mpt_i.page_shift[4:0]);
  assign page_ok = mpt_i.page_shift == 6'(DirectPageShift) || mpt_i.is_null || size_ok;

  if (MinPageShift != 12 || MaxPageShift != 30 || DirectPageShift < 32) begin : gen_bad_sizes
    $error("hca_key_check: size_ok says 12 to 30, paged_o that no size is 32 or more");
  end

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
  // Every address of a null region is inside it; its zeros are NullPages of the smallest pages, which a segment that
  // begins in the first one never leaves: its length has 13 bits.
  assign region_start  = mpt_i.zero_based ? '0 : mpt_i.start;
  // A FLUSH may be of no bytes, or name none: it reads the first one of the region.
  always_comb begin
    place = seg_i.va;
    if (flush) place = '0;
    if (mpt_i.is_null) place = 64'(seg_i.va[MinPageShift-1:0]);
  end
  assign origin  = (flush || mpt_i.is_null) ? '0 : region_start;
  // One chain for each sum, in front of it a row of gates for each number beyond the second. Wide enough that none
  // wraps; an address in front of the region is refused whatever they say.
  assign pos     = carry_save(67'(paged_o ? 64'(mpt_i.list_offset) : mpt_i.iova), 67'(place), ~67'(origin));
  assign sum     = sum_of(pos);
  assign pos_o   = sum[63:0];
  assign behind     = carry_save(67'(mpt_i.length), ~67'(seg_i.chk_bytes), ~67'(seg_i.va));
  assign reached    = carry_save(behind.half, behind.carry, 67'(region_start));
  assign room       = sum_of(reached);
  assign in_front   = seg_i.va[63:32] < region_start[63:32] || (high_same && seg_i.va[31:0] < region_start[31:0]);
  assign range_ok   = mpt_i.is_null || seg_i.access == AccFlushAll || (!in_front && !room[66]);

  assign faults_o = '{
    lost:   1'b0,
    key:    !row_ok,
    size:   !page_ok,
    pd:     !pd_same && seg_i.pd != 24'(PdAny),
    right:  !right_ok,
    bounds: !range_ok,
    list:   sum[64]
  };

  logic unused_bits;
  assign unused_bits = ^{seg_i, mpt_i, room[65:0], sum[66:65]};

endmodule
