// Where the beats of a set of rings lie: a pool of pages that all rings share, each ring a chain of them. A ring owns
// at least one page, the one that its next beat goes into; it takes the next one with the beat that fills it, so
// whoever reads finds the chain whole. What has been read comes back page by page; what is dropped goes on along the
// chain, a page per cycle, behind the back of its ring.
//   write: wr_at_o is the place of this beat. A packet counts with commit_i; one that ends with undo_i instead was
//          never there, and its pages come back. None may begin while wait_o.
//   read:  rd_at_o is the place of the oldest beat of rd_ring_i; not while hold_o.
//   drop:  so many beats of a ring at once; not while busy_o.
// Free pages are counted by the user's leave: enough_o says that one more packet of the longest kind fits, and the
// reserve beside it. One that begins without it must fit into the reserve.
module hca_page_pool #(
  parameter int unsigned  Rings      = 9,
  parameter int unsigned  Blocks     = 2560,   // a multiple of PageBlocks
  parameter int unsigned  PageBlocks = 8,      // a power of two
  parameter int unsigned  RoomBlocks = 66,     // longest packet
  parameter int unsigned  KeepBlocks = 16,     // what the ring with a reserve holds at most
  parameter int unsigned  CountW     = 8,
  localparam int unsigned RingW      = $clog2(Rings),
  localparam int unsigned AddrW      = $clog2(Blocks)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              wr_i,
  input  logic [RingW-1:0]  wr_ring_i,
  input  logic              wr_first_i,    // no beat of this packet has come before
  input  logic [Rings-1:0]  commit_i,      // with wr_i: the packet is whole
  input  logic              undo_i,        // without wr_i: it is not to be
  output logic [AddrW-1:0]  wr_at_o,
  output logic              enough_o,
  output logic              wait_o,
  input  logic              rd_i,
  input  logic [RingW-1:0]  rd_ring_i,
  output logic [AddrW-1:0]  rd_at_o,
  output logic              hold_o,
  input  logic              drop_i,
  input  logic [RingW-1:0]  drop_ring_i,
  input  logic [CountW-1:0] drop_blocks_i,
  output logic              busy_o
);

  localparam int unsigned Pages = Blocks / PageBlocks;
  localparam int unsigned PageW = $clog2(Pages);
  localparam int unsigned OffW  = $clog2(PageBlocks);
  localparam int unsigned LeftW = CountW - OffW + 1;
  // Pages that a packet takes beside the one it begins in. The ring with a reserve may have dropped two more that are
  // not back yet. Two are always there: one whose number is in the register, and the one that comes after it.
  localparam int unsigned Need  = (RoomBlocks + PageBlocks - 1) / PageBlocks;
  localparam int unsigned Keep  = (KeepBlocks + PageBlocks - 1) / PageBlocks + 4;

  if (Blocks % PageBlocks != 0 || (PageBlocks & (PageBlocks - 1)) != 0 || Pages < Rings + Need + Keep + 1)
  begin : gen_bad_pool
    $error("hca_page_pool: too few pages");
  end

  typedef logic [PageW-1:0] page_t;
  typedef logic [OffW-1:0]  off_t;

  page_t [Rings-1:0] wr_page_q, rd_page_q;
  off_t  [Rings-1:0] wr_off_q, rd_off_q;

  // ---- Free pages: those that were never used, by a counter; the others in the order in which they came back -------
  page_t            free_mem [Pages];
  page_t            head_q, fresh_q, come_q, go_q;   // the next one; never used; places to write and to read
  page_t            go_then_q;                       // the place behind go_q: the RAM is read with what go_q will be
  page_t            give_page_q;                     // comes back
  logic             fresh_left_q, take, give_q, enough_q;
  logic [PageW:0]   free_q;

  function automatic page_t after(page_t at);
    return (at == page_t'(Pages - 1)) ? '0 : at + 1'b1;
  endfunction

  always_ff @(posedge clk_i) begin
    if (give_q) free_mem[come_q] <= give_page_q;
    if (rst_i) begin
      head_q       <= page_t'(Rings);
      fresh_q      <= page_t'(Rings + 1);
      fresh_left_q <= 1'b1;
      come_q       <= '0;
      go_q         <= '0;
      go_then_q    <= page_t'(1);
      free_q       <= (PageW + 1)'(Pages - Rings);
      enough_q     <= 1'b1;
    end else begin
      if (take) begin
        head_q <= fresh_left_q ? fresh_q : free_mem[go_q];
        if (fresh_left_q) fresh_q <= fresh_q + 1'b1;
        else begin
          go_q      <= go_then_q;
          go_then_q <= after(go_then_q);
        end
        if (fresh_q == page_t'(Pages - 1)) fresh_left_q <= 1'b0;
      end
      if (give_q) come_q <= after(come_q);
      if (give_q != take) free_q <= free_q + (give_q ? (PageW + 1)'(1) : '1);
      // A cycle late, so one page more.
      enough_q <= free_q > (PageW + 1)'(Need + Keep);
    end
  end

  assign enough_o = enough_q;

  // ---- Write ---------------------------------------------------------------------------------------------
  page_t            at_page, at_page_q, to_page, first_page_q;   // first_page_q: the first that it took
  off_t             at_off, at_off_q;
  logic [LeftW-1:0] taken_q, taken;  // pages that this packet took; without this beat
  logic             fills;           // the last beat of its page
  logic [Rings-1:0] full;            // the next beat of this ring would be
  logic             undo_q;          // they are to come back

  assign at_page = wr_first_i ? wr_page_q[wr_ring_i] : at_page_q;
  assign at_off  = wr_first_i ? wr_off_q[wr_ring_i] : at_off_q;
  assign wr_at_o = {at_page, at_off};
  assign fills   = wr_first_i ? full[wr_ring_i] : at_off_q == '1;   // of each ring before it is known which
  assign take    = wr_i && fills;
  assign to_page = fills ? head_q : at_page;
  assign taken   = wr_first_i ? '0 : taken_q;
  assign wait_o  = undo_q;

  // ---- Read, and what comes back: in the cycle behind its last beat ------------------------------------------
  // Whoever reads on meanwhile has the page that is looked up then; so does a walk.
  page_t             next_mem [Pages];
  page_t             rd_page, next_page, walk_page, walk_page_q;
  off_t              rd_off, drop_off;
  logic              leave, walk, walk_last, walked_q, drop_q, walks_drop_q, same;
  logic [Rings-1:0]  to_next_q;      // this ring has left give_page_q
  logic [RingW-1:0]  give_ring_q, drop_ring_q;
  logic [CountW-1:0] drop_blocks_q;
  logic [LeftW-1:0]  walk_left_q, drop_pages;
  logic              walks_q;                // some are left

  assign next_page = next_mem[give_page_q];
  assign same      = give_q && !walked_q && give_ring_q == rd_ring_i;
  assign rd_page   = same ? next_page : rd_page_q[rd_ring_i];
  assign rd_off    = rd_off_q[rd_ring_i];
  assign rd_at_o   = {rd_page, rd_off};
  assign leave     = rd_i && rd_off == '1;
  assign walk      = walks_q && !leave;
  assign walk_last = walk && walk_left_q == LeftW'(1);
  assign walk_page = walked_q ? next_page : walk_page_q;

  assign {drop_pages, drop_off} = (LeftW + OffW)'(drop_blocks_q) + (LeftW + OffW)'(rd_off_q[drop_ring_q]);
  assign busy_o = drop_q || walks_q || walked_q;
  assign hold_o = (drop_q || ((walks_q || walked_q) && walks_drop_q)) && drop_ring_q == rd_ring_i;

  always_ff @(posedge clk_i) begin
    if (take) next_mem[at_page] <= head_q;
    if (wr_i) begin
      at_page_q <= to_page;
      at_off_q  <= at_off + 1'b1;
    end
    if (take && (wr_first_i || taken_q == '0)) first_page_q <= head_q;
    if (drop_i) begin
      drop_ring_q   <= drop_ring_i;
      drop_blocks_q <= drop_blocks_i;
    end
    if (rst_i) begin
      drop_q      <= 1'b0;
      walk_left_q <= '0;
      walks_q     <= 1'b0;
      walked_q    <= 1'b0;
      give_q      <= 1'b0;
      undo_q      <= 1'b0;
      taken_q     <= '0;
    end else begin
      drop_q   <= drop_i;
      walked_q <= walk;
      give_q   <= leave || walk;
      if (wr_i) taken_q <= fills ? taken + 1'b1 : taken;
      if (undo_i) undo_q <= taken_q != '0;
      // A drop goes before what was undone.
      if (drop_q) {walk_left_q, walks_q} <= {drop_pages, drop_pages != '0};
      else if (undo_q && !busy_o && !drop_i) begin
        {walk_left_q, walks_q} <= {taken_q, taken_q != '0};
        undo_q                 <= 1'b0;
      end else if (walk) {walk_left_q, walks_q} <= {walk_left_q - 1'b1, !walk_last};
    end
    give_ring_q <= rd_ring_i;
    give_page_q <= leave ? rd_page : walk_page;
    if (drop_q || !busy_o) begin
      walk_page_q  <= drop_q ? rd_page_q[drop_ring_q] : first_page_q;
      walks_drop_q <= drop_q;
    end else if (walked_q) walk_page_q <= next_page;
  end

  for (genvar r = 0; r < int'(Rings); r++) begin : gen_ring
    logic rd, dropped;

    assign rd      = rd_i && rd_ring_i == RingW'(r);
    assign dropped = drop_ring_q == RingW'(r);
    assign full[r] = wr_off_q[r] == '1;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        wr_page_q[r] <= page_t'(r);
        rd_page_q[r] <= page_t'(r);
        wr_off_q[r]  <= '0;
        rd_off_q[r]  <= '0;
        to_next_q[r] <= 1'b0;
      end else begin
        if (commit_i[r]) begin
          wr_page_q[r] <= to_page;
          wr_off_q[r]  <= at_off + 1'b1;
        end
        if (rd || (drop_q && dropped)) rd_off_q[r] <= rd ? rd_off + 1'b1 : drop_off;
        to_next_q[r] <= leave ? rd : walk_last && walks_drop_q && dropped;
        if (to_next_q[r]) rd_page_q[r] <= next_page;
      end
    end
  end

endmodule
