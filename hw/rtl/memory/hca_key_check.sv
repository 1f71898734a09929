// The rules of a memory key, combinational: may this segment use this row of the MPT, and where inside
// the region is it? What must be inside is chk_bytes. Each rule has a verdict of its own: which one counts if several
// are broken is for whoever has the time (faults_of, verdict_of).
module hca_key_check
  import hca_pkg::*;
  import hca_key_pkg::*;
(
  input  seg_t        seg_i,
  input  mpt_t        mpt_i,
  input  key_use_t    use_i,          // of them
  output key_found_t  found_o,
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
  typedef struct packed {
    logic [33:0] high_1;
    logic [33:0] high_0;
    logic [33:0] low;     // and its carry
  } halves_t;

  function automatic halves_t halves_of(input pair_t pair);
    halves_t halves;
    halves.low    = 34'(pair.half[32:0]) + 34'(pair.carry[32:0]);
    halves.high_0 = pair.half[66:33] + pair.carry[66:33];
    halves.high_1 = 34'(({pair.half[66:33], 1'b1} + {pair.carry[66:33], 1'b1}) >> 1);
    return halves;
  endfunction

  pair_t       pos, behind, reached;
  logic        own, qp_same, pd_same, high_same, in_front;
  logic        row_ok, right_ok, anywhere, page_ok, size_ok, local_only;
  logic [63:0] region_start, place, origin;
  logic [66:0] sum;
  halves_t     lies, room;   // room: what the region has behind them; negative: they reach beyond its end

  // The row comes late: carries keep its conditions away from the comparisons.
  hca_same #(.Width(16)) u_own (.a_i({mpt_i.tag, mpt_i.func}), .b_i({seg_i.key[7:0], seg_i.func}), .same_o(own));
  hca_same #(.Width(24)) u_qp  (.a_i(mpt_i.qpn), .b_i(seg_i.qpn), .same_o(qp_same));
  hca_same #(.Width(24)) u_pd  (.a_i(mpt_i.pd), .b_i(seg_i.pd), .same_o(pd_same));

  hca_same #(.Width(32)) u_high (.a_i(seg_i.va[63:32]), .b_i(region_start[63:32]), .same_o(high_same));

  // A window of type 2 is no key for any other QP (type 2B).
  assign row_ok   = mpt_i.valid && own && (!mpt_i.is_window || !mpt_i.is_type_2 || qp_same);

  // 12 to 30, said as bits: comparisons would be chains of gates behind the row.
  assign size_ok = !mpt_i.page_shift[5] && (mpt_i.page_shift[4] || (&mpt_i.page_shift[3:2]))
                   && !(&mpt_i.page_shift[4:0]);
  assign page_ok = mpt_i.page_shift == 6'(DirectPageShift) || mpt_i.is_null || size_ok;

  if (MinPageShift != 12 || MaxPageShift != 30 || DirectPageShift < 32) begin : gen_bad_sizes
    $error("hca_key_check: size_ok says 12 to 30, use_of that no size is 32 or more");
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

  // Every address of a null region is inside it; its zeros are NullPages of the smallest pages, which a segment that
  // begins in the first one never leaves: its length has 13 bits.
  assign region_start  = mpt_i.zero_based ? '0 : mpt_i.start;
  // A FLUSH may be of no bytes, or name none: it reads the first one of the region.
  always_comb begin
    place = seg_i.va;
    if (use_i.no_place) place = '0;
    if (use_i.low_place) place = 64'(seg_i.va[MinPageShift-1:0]);
  end
  assign origin  = use_i.no_origin ? '0 : mpt_i.start;
  // One chain for each sum, in front of it a row of gates for each number beyond the second. Wide enough that none
  // wraps; an address in front of the region is refused whatever they say.
  assign pos     = carry_save(67'(use_i.paged ? 64'(mpt_i.list_offset) : mpt_i.iova), 67'(place), ~67'(origin));
  assign lies    = halves_of(pos);
  assign sum     = {(lies.high_0 & {34{!lies.low[33]}}) | (lies.high_1 & {34{lies.low[33]}}), lies.low[32:0]};
  assign pos_o   = sum[63:0];
  assign behind     = carry_save(67'(mpt_i.length), ~67'(seg_i.chk_bytes), ~67'(seg_i.va));
  assign reached    = carry_save(behind.half, behind.carry, 67'(region_start));
  assign room       = halves_of(reached);
  assign in_front   = seg_i.va[63:32] < region_start[63:32] || (high_same && seg_i.va[31:0] < region_start[31:0]);
  assign anywhere   = mpt_i.is_null || seg_i.access == AccFlushAll;

  assign found_o = '{
    sure:       '{lost: 1'b0, key: !row_ok, size: !page_ok, pd: !pd_same && seg_i.pd != 24'(PdAny), right: !right_ok,
                  bounds: 1'b0},
    anywhere:   anywhere,
    in_front:   in_front,
    carry:      room.low[33],
    behind:     {room.high_1[33], room.high_0[33]},
    list_carry: lies.low[33],
    list:       {lies.high_1[31], lies.high_0[31]}
  };

  logic unused_bits;
  assign unused_bits = ^{seg_i, mpt_i, room, sum[66:64]};

endmodule
