// Lines of 64 bytes of host memory, kept by owner and number. Items come out in the order in which they went in, each
// with its line; one without a line only keeps its place. What is missing is read from base + number, and up to
// Waiting items stand between the look-up and their data, so that reads overlap.
//
//   accept: tag read | P1: compare, take the slot, ask | wait (FIFO) | H: data of the RAM, or of the read
//
// A slot changes hands at P1, its data at H: both in the order of items, so an item finds at H what P1 has promised,
// and an item whose line is still on its way counts as a hit. A line whose read has failed is an error for all who
// were promised it, and is forgotten. Where nothing waits, an item whose line is here, or that wants none, leaves from
// P1: one cycle. Who wants one word of a line names it as the item comes out: the choice is made in front of whether it
// comes from here or from memory.
module hca_line_cache
  import hca_pkg::*;
#(
  parameter int unsigned Lines   = 512,
  parameter int unsigned Waiting = 32,
  parameter int unsigned OwnerW  = 24,
  parameter int unsigned NumW    = 29,
  parameter int unsigned NoteW   = 8,
  parameter int unsigned OutW    = DataW,     // a word of the line, or all of it
  localparam int unsigned WordW  = (OutW < DataW) ? $clog2(DataW / OutW) : 1,
  localparam int unsigned SlotW  = $clog2(Lines)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              in_valid_i,
  output logic              in_ready_o,
  input  logic              in_line_i,     // wants a line
  input  logic [OwnerW-1:0] in_owner_i,
  input  logic [NumW-1:0]   in_num_i,
  input  logic [7:0]        in_func_i,     // whose memory
  input  logic [63:6]       in_base_i,     // of line 0, in lines
  input  logic [NoteW-1:0]  in_note_i,
  output logic              out_valid_o,
  input  logic              out_ready_i,
  input  logic [WordW-1:0]  out_word_i,
  output logic [OutW-1:0]   out_data_o,
  output logic              out_err_o,
  output logic [NoteW-1:0]  out_note_o,
  output logic              idle_o,        // nothing is inside
  // Forgets one line, or all lines of the owners that are the same under the mask. Who asks afterwards gets what is in
  // memory then. Held until ready.
  input  logic              forget_valid_i,
  output logic              forget_ready_o,
  input  logic              forget_one_i,
  input  logic [NumW-1:0]   forget_num_i,
  input  logic [OwnerW-1:0] forget_owner_i,
  input  logic [OwnerW-1:0] forget_mask_i,
  // hca_dma_rd_port.
  output logic              req_valid_o,
  input  logic              req_ready_i,
  output dma_rd_req_t       req_o,
  input  logic              rsp_valid_i,
  output logic              rsp_ready_o,
  input  dma_rd_rsp_t       rsp_i
);

  // Bits of a number folded into a slot.
  function automatic logic [SlotW-1:0] fold(input logic [63:0] number);
    fold = '0;
    for (int unsigned b = 0; b < 64; b++) fold[b % SlotW] = fold[b % SlotW] ^ number[b];
  endfunction

  typedef struct packed {
    logic              valid;
    logic [OwnerW-1:0] owner;
    logic [NumW-1:0]   num;
  } tag_t;

  // ---- Look-up -----------------------------------------------------------------------------------
  logic              p1_valid_q, p1_line_q, p1_move, p1_miss, accept, early, wait_ready, ask_ready;
  logic              taken_q, p1_hit;   // the item before took its slot
  logic              was_taken, last_same, tag_same;   // that was this one's slot; whose tag is this one
  tag_t              p1_tag_q, last_tag_q, tag_rdata;
  logic [SlotW-1:0]  p1_slot_q, last_slot_q, in_slot;
  logic [7:0]        p1_func_q;
  logic [63:6]       p1_base_q;
  logic [NoteW-1:0]  p1_note_q;
  logic              walk_read, walk_idle;
  logic              p1_early_q, p1_leaves;  // its data was read with its tag; it leaves from here
  logic              p1_direct;              // it leaves from here if it wants no line, or that is here
  logic              h_valid_q, drop_q, p1_moves, p1_takes, may_leave;
  logic [$clog2(Waiting):0] waiting;
  logic              h_err, h_out, p1_out;   // an item at H, at P1 leaves

  assign in_slot    = fold(64'(in_num_i)) ^ fold(64'(in_owner_i));
  // P1 surely moves, whether its line is here or not: that comes too late for those in front.
  assign p1_moves   = wait_ready && ask_ready && (!may_leave || (out_ready_i && !drop_q));
  assign may_leave  = waiting == '0 && !h_valid_q;
  assign in_ready_o = (!p1_valid_q || p1_moves) && !walk_read && walk_idle;
  assign accept     = in_valid_i && in_ready_o;
  assign early      = accept && may_leave;
  // The RAM is read while the item before takes the same slot: then the slot has that one's tag.
  // Both comparisons side by side: the RAM's comes late.
  assign was_taken  = taken_q && last_slot_q == p1_slot_q;
  assign p1_hit     = (was_taken && last_same) || (!was_taken && tag_same);
  assign p1_miss    = p1_line_q && !p1_hit;
  assign p1_takes   = p1_valid_q && p1_miss && wait_ready && ask_ready;
  assign p1_move    = p1_leaves ? out_ready_i && p1_out : p1_valid_q && wait_ready && (!p1_miss || ask_ready);

  hca_same #(
    .Width($bits(tag_t))
  ) u_last_same (
    .a_i   (last_tag_q),
    .b_i   (p1_tag_q),
    .same_o(last_same)
  );

  hca_same #(
    .Width($bits(tag_t))
  ) u_tag_same (
    .a_i   (tag_rdata),
    .b_i   (p1_tag_q),
    .same_o(tag_same)
  );

  always_ff @(posedge clk_i) begin
    if (accept) begin
      p1_line_q <= in_line_i;
      p1_tag_q  <= '{valid: 1'b1, owner: in_owner_i, num: in_num_i};
      p1_slot_q <= in_slot;
      p1_func_q <= in_func_i;
      p1_base_q <= in_base_i;
      p1_note_q <= in_note_i;
      taken_q     <= p1_takes;
      last_slot_q <= p1_slot_q;
      last_tag_q  <= p1_tag_q;
    end
    p1_early_q <= early || (p1_early_q && !accept && may_leave);
    if (rst_i) p1_valid_q <= 1'b0;
    else if (!p1_valid_q || p1_move) p1_valid_q <= accept;
  end

  // ---- Slots: taken by P1, emptied after a failed read, by an owner that is forgotten, and by reset --------
  logic              drop_write, walk_write, walk_match;
  logic [SlotW-1:0]  drop_slot_q, walk_slot_q;
  logic              tag_we;
  logic [SlotW-1:0]  tag_waddr;

  assign tag_we     = p1_takes || walk_write || drop_write;
  assign tag_waddr  = p1_takes ? p1_slot_q : walk_write ? walk_slot_q : drop_slot_q;
  assign drop_write = drop_q && !p1_takes && !walk_write;

  hca_ram_1r1w #(
    .Width($bits(tag_t)),
    .Depth(Lines)
  ) u_tags (
    .clk_i,
    .we_i   (tag_we),
    .waddr_i(tag_waddr),
    .wdata_i(p1_takes ? p1_tag_q : '0),
    .re_i   (accept || walk_read),
    .raddr_i(walk_read ? walk_slot_q : in_slot),
    .rdata_o(tag_rdata)
  );

  // A row that is read now, against what is to be forgotten: carries keep what waits for that apart from it.
  hca_same #(
    .Width(OwnerW + NumW)
  ) u_walk_same (
    .a_i   ({tag_rdata.owner & forget_mask_i, tag_rdata.num & {NumW{forget_one_i}}}),
    .b_i   ({forget_owner_i & forget_mask_i, forget_num_i & {NumW{forget_one_i}}}),
    .same_o(walk_match)
  );

  // Walks over all slots, or to the one of a line, two cycles for each: in the first nothing is accepted, so in the
  // second P1 is empty.
  typedef enum logic [1:0] {WalkReset, WalkIdle, WalkRead, WalkClear} walk_e;
  walk_e walk_q;
  logic  walk_last;

  assign walk_idle      = walk_q != WalkReset;
  assign walk_read      = walk_q == WalkRead && (!p1_valid_q || p1_moves);
  assign walk_write     = walk_q == WalkReset || (walk_q == WalkClear && walk_match);
  assign walk_last      = (forget_one_i && walk_q != WalkReset) || walk_slot_q == SlotW'(Lines - 1);
  assign forget_ready_o = walk_q == WalkClear && walk_last;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      walk_q      <= WalkReset;
      walk_slot_q <= '0;
    end else begin
      unique case (walk_q)
        WalkReset: if (walk_last) walk_q <= WalkIdle;
        WalkIdle:
          if (forget_valid_i) begin
            walk_q <= WalkRead;
            if (forget_one_i) walk_slot_q <= fold(64'(forget_num_i)) ^ fold(64'(forget_owner_i));
          end
        WalkRead:  if (walk_read) walk_q <= WalkClear;
        default:   walk_q <= walk_last ? WalkIdle : WalkRead;
      endcase
      if (walk_q == WalkReset || walk_q == WalkClear) walk_slot_q <= walk_last ? '0 : walk_slot_q + 1'b1;
    end
  end

  // ---- Reads -------------------------------------------------------------------------------------
  dma_rd_req_t ask;

  assign ask = '{func: p1_func_q, addr: {p1_base_q + 58'(p1_tag_q.num), 6'd0}, len_bytes: 10'd64};

  hca_skid #(
    .Width($bits(dma_rd_req_t)),
    .Eager(1'b1)
  ) u_ask (
    .clk_i,
    .rst_i,
    .in_valid_i (p1_valid_q && p1_miss && wait_ready),
    .in_ready_o (ask_ready),
    .in_i       (ask),
    .out_valid_o(req_valid_o),
    .out_ready_i(req_ready_i),
    .out_o      (req_o)
  );

  // ---- Waiting -----------------------------------------------------------------------------------
  typedef struct packed {
    logic             line;
    logic             miss;
    logic [SlotW-1:0] slot;
    logic [NoteW-1:0] note;
  } item_t;

  item_t next, h_q;
  logic  next_valid, fetch, h_move, h_may;
  logic  h_fills_q;   // what is at H has missed: a register, for it selects the data

  hca_fifo #(
    .Width($bits(item_t)),
    .Depth(Waiting)
  ) u_wait (
    .clk_i,
    .rst_i,
    .in_valid_i (p1_valid_q && (p1_miss ? ask_ready : !p1_direct)),
    .in_ready_o (wait_ready),
    .in_i       ({p1_line_q, p1_miss, p1_slot_q, p1_note_q}),
    .out_valid_o(next_valid),
    .out_ready_i(fetch),
    .out_o      (next),
    .count_o    (waiting)
  );

  // ---- Data --------------------------------------------------------------------------------------
  logic             ram_err, h_reads;
  logic [DataW-1:0] ram_data;

  // What H is about to write is read behind it.
  assign fetch   = next_valid && (!h_valid_q || h_move) && !(h_fills_q && next.line && h_q.slot == next.slot);

  assign h_reads = fetch && next.line && !next.miss;

  hca_ram_1r1w #(
    .Width(1 + DataW),
    .Depth(Lines)
  ) u_lines (
    .clk_i,
    .we_i   (h_fills_q && h_move),
    .waddr_i(h_q.slot),
    .wdata_i({rsp_i.err, rsp_i.data}),
    .re_i   (h_reads || early),
    .raddr_i(h_reads ? next.slot : in_slot),
    .rdata_o({ram_err, ram_data})
  );

  // What leaves now has failed. Of P1 all but the hit is there before it is known.
  logic failed, p1_may_fail;
  assign p1_may_fail = p1_valid_q && p1_direct && p1_line_q && ram_err && !drop_q && out_ready_i;
  assign failed      = (h_move && h_err) || (p1_may_fail && p1_hit);

  // Nothing is before it, and nothing has been written or read since its data was.
  assign p1_direct = may_leave && (!p1_line_q || p1_early_q);
  assign p1_leaves = p1_valid_q && p1_direct && !p1_miss;

  // The place for one slot to be emptied is free again before it is needed.
  assign h_err       = h_q.line && (h_q.miss ? rsp_i.err : ram_err);
  assign h_may       = h_valid_q && (!h_fills_q || (rsp_valid_i && !(rsp_i.err && drop_q)));
  assign h_out       = h_may && !(ram_err && h_q.line && !h_q.miss && drop_q);
  assign p1_out      = p1_leaves && !(p1_line_q && ram_err && drop_q);
  assign out_valid_o = h_out || p1_out;   // never both: P1 leaves where nothing waits
  if (OutW < DataW) begin : gen_word
    assign out_data_o = h_fills_q ? rsp_i.data[out_word_i*OutW +: OutW] : ram_data[out_word_i*OutW +: OutW];
  end else begin : gen_line
    logic unused_word;
    assign unused_word = ^out_word_i;
    assign out_data_o = h_fills_q ? rsp_i.data : ram_data;
  end

  assign out_err_o   = h_valid_q ? h_err : p1_line_q && ram_err;
  assign out_note_o  = h_valid_q ? h_q.note : p1_note_q;
  assign h_move      = h_out && out_ready_i;
  assign rsp_ready_o = h_fills_q && h_move;
  assign idle_o      = !p1_valid_q && waiting == '0 && !h_valid_q;

  always_ff @(posedge clk_i) begin
    if (fetch) h_q <= next;
    if (!drop_q) drop_slot_q <= h_valid_q ? h_q.slot : p1_slot_q;   // of what fails now, if anything does
    if (rst_i) begin
      h_valid_q <= 1'b0;
      h_fills_q <= 1'b0;
      drop_q    <= 1'b0;
    end else begin
      if (fetch) h_valid_q <= 1'b1;
      else if (h_move) h_valid_q <= 1'b0;
      if (fetch) h_fills_q <= next.line && next.miss;
      else if (h_move) h_fills_q <= 1'b0;
      if (failed) drop_q <= 1'b1;
      else if (drop_write) drop_q <= 1'b0;
    end
  end

  logic unused_last;
  assign unused_last = rsp_i.last;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!(p1_valid_q && p1_moves) || p1_move) else $error("hca_line_cache: P1 stays");
    if (!rst_i) assert (!p1_valid_q || walk_q != WalkClear) else $error("hca_line_cache: look-up beside a walk");
  end
`endif

endmodule
