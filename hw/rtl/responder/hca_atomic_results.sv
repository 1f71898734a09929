// Results of the last atomics of QPs, by PSN: a request that comes again has the answer that it had (REL-19). They come
// in blocks of as many as a peer can have outstanding (MaxDestRdAtomic), so of a QP that has a block all is here that
// its peer may still ask for. A QP takes a block with its first atomic and keeps it; when all are taken,
// the next one takes the block that was taken first, and what was there is lost.
//
// find_i takes a row of a QP; an atomic that is added (add_i, in the next cycle) is stored in the one behind it. A look
// goes on two cycles after find_i with the PSN, and with read_i in the next one: that says whether the PSN is here, and
// gives the value a cycle later. From one find_i to the next there are two cycles at least, four behind a look.
// scrub_i: rows are cleared one by one, after reset.
module hca_atomic_results
  import hca_pkg::*;
#(
  parameter int unsigned Blocks = AtomicBlocks
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           scrub_i,
  input  logic [QpW-1:0] scrub_qpn_i,
  input  logic [QpW-1:0] qpn_i,
  input  logic           clear_i,   // none of the QP's is here
  input  logic           add_i,     // one more, in the place of the oldest
  input  logic           find_i,
  input  logic [QpW-1:0] find_qpn_i,
  input  logic           read_i,
  input  logic [23:0]    psn_i,     // of what is added; of what is wanted, in the cycle before read_i
  input  logic [63:0]    value_i,
  output logic           found_o,
  output logic [63:0]    value_o
);

  localparam int unsigned Slots = MaxDestRdAtomic;
  localparam int unsigned SlotW = $clog2(Slots);
  localparam int unsigned BlockW = $clog2(Blocks);

  typedef struct packed {
    logic              has;    // it took block `block`, which may be another QP's by now
    logic              empty;  // there is nothing in it
    logic [BlockW-1:0] block;
    logic [SlotW-1:0]  next;
  } row_t;

  typedef struct packed {
    logic        valid;
    logic [23:0] psn;
  } tag_t;

  // Words of a row of tags: one for each slot, and the owner of all.
  typedef union packed {
    tag_t                             tag;
    struct packed {
      logic [$bits(tag_t)-1-QpW:0] unused;
      logic [QpW-1:0]              qpn;
    } owner;
  } word_t;

  row_t              row, row_new, found_row;
  word_t [Slots:0]   words, words_new;
  logic [Slots-1:0]  next_at, match, match_q;   // match_q: none of a block that is another QP's
  logic [Slots:0]    we;
  logic              find_q, add_q, clear_q, own, goes_on, row_we, late_q, unused_bits;
  row_t              late_row_q, row_q;   // what was written in the cycle in which the row was read
  logic [QpW-1:0]    qpn_q;
  logic [23:0]       psn_q;
  logic [63:0]       value_q;
  logic [BlockW-1:0] fresh_q, block, look_block_q;
  logic [SlotW-1:0]  slot, put_slot;

  // ---- Which block -----------------------------------------------------------------------------------
  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumQps)
  ) u_row (
    .clk_i,
    .we_i   (row_we || scrub_i),
    .waddr_i(scrub_i ? scrub_qpn_i : qpn_q),
    .wdata_i(scrub_i ? '0 : row_new),
    .re_i   (find_i || clear_i),
    .raddr_i(find_i ? find_qpn_i : qpn_i),
    .rdata_o(row)
  );

  always_ff @(posedge clk_i) begin
    late_q <= find_i && row_we && qpn_q == find_qpn_i;
    if (find_i) late_row_q <= row_new;
    row_q   <= found_row;
    find_q  <= find_i;
    qpn_q   <= qpn_i;
    psn_q   <= psn_i;
    value_q <= value_i;
    add_q   <= add_i && !rst_i;
    clear_q <= clear_i && !rst_i;
  end

  // ---- Tags of the block: there with add_q, and in the cycle before read_i -----------------------------------
  assign found_row = late_q ? late_row_q : row;

  hca_ram_words #(
    .WordW($bits(word_t)),
    .Words(Slots + 1),
    .Depth(Blocks)
  ) u_tags (
    .clk_i,
    .we_i   (add_q ? we : '0),
    .waddr_i(block),
    .wdata_i(words_new),
    .re_i   (find_q && found_row.has),
    .raddr_i(found_row.block),
    .rdata_o(words)
  );

  // Whose block it is comes out of the RAM: all that hangs on it is there before, for either answer.
  hca_same #(.Width(QpW + 1)) u_own (.a_i({1'b1, qpn_q}), .b_i({row_q.has, words[Slots].owner.qpn}), .same_o(own));
  assign next_at  = Slots'(1) << row_q.next;
  assign goes_on  = own && !row_q.empty;
  assign block    = own ? row_q.block : fresh_q;
  assign put_slot = row_q.next & {SlotW{goes_on}};

  always_comb begin
    words_new = '0;
    words_new[Slots].owner.qpn = qpn_q;
    for (int unsigned s = 0; s < Slots; s++) words_new[s].tag = '{valid: goes_on ? next_at[s] : s == 0, psn: psn_q};
    we = {1'b0, next_at} | {Slots + 1{!goes_on}};
  end

  always_comb begin
    row_new = '{has: 1'b1, empty: 1'b0, block: block, next: goes_on ? row_q.next + 1'b1 : SlotW'(1)};
    if (clear_q) row_new = '{has: row.has, empty: 1'b1, block: row.block, next: '0};
  end
  assign row_we = add_q || clear_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) fresh_q <= '0;
    else if (add_q && !own) fresh_q <= fresh_q + 1'b1;
  end

  // ---- Look ------------------------------------------------------------------------------------------
  always_comb begin
    for (int unsigned s = 0; s < Slots; s++) match[s] = words[s].tag.valid && words[s].tag.psn == psn_i;
  end
  always_ff @(posedge clk_i) begin
    match_q      <= goes_on ? match : '0;
    look_block_q <= row_q.block;
  end
  assign found_o     = match_q != '0;
  assign unused_bits = ^words[Slots];

  hca_onehot_index #(.N(Slots)) u_slot (
    .onehot_i(match_q),
    .idx_o   (slot)
  );

  hca_ram_1r1w #(
    .Width(64),
    .Depth(Blocks * Slots)
  ) u_values (
    .clk_i,
    .we_i   (add_q),
    .waddr_i({block, put_slot}),
    .wdata_i(value_q),
    .re_i   (read_i),
    .raddr_i({look_block_q, slot}),
    .rdata_o(value_o)
  );

endmodule
