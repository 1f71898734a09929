// Atomic operations on 8 bytes of host memory: read, compute, write back; in order, several at a time. One that hits
// the address of another under way waits for it and takes what it leaves there, so the hottest address costs no read.
// An address is in the table from the look at it until its write has been accepted by the write mux; a read that begins
// later sees it (hca_rd_order). The table has a digest of each, with one address of a digest at a time: another one of
// the same function waits until it has gone, and so does a burst of it that has only the digest in common. A FLUSH is a
// read that begins when everything before it has been accepted, whatever its address: when it is back, all of that is
// where the host sees it (decision 0074). Results come in order. The caller hands an operation over only when all that
// it wrote before has been accepted, and asks hold_o before each burst that it writes behind it.
//
// Two cycles per operation, one to look and one to begin; as many at a time as there are entries, and reads as many as
// their port has. May be stalled by the read port, the write mux, and whoever takes the results; never needs another
// write of its caller to go on.
module hca_atomic
  import hca_pkg::*, hca_rx_pkg::*;
#(
  parameter int unsigned Entries = 32
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        op_valid_i,
  output logic        op_ready_o,
  input  at_op_t      op_i,
  output logic        result_valid_o,
  input  logic        result_ready_i,
  output at_result_t  result_o,
  // A burst of this function, to a block of 256 bytes with this digest, must wait.
  input  logic [7:0]  look_func_i,
  input  at_digest_t  look_digest_i,
  output logic        hold_o,
  output logic        rd_req_valid_o,
  input  logic        rd_req_ready_i,
  output dma_rd_req_t rd_req_o,
  input  logic        rd_rsp_valid_i,
  output logic        rd_rsp_ready_o,
  input  dma_rd_rsp_t rd_rsp_i,
  output logic        wr_valid_o,
  input  logic        wr_ready_i,
  output dma_wr_t     wr_o
);

  localparam int unsigned IdxW = $clog2(Entries);

  typedef struct packed {
    logic            follows;  // its value is what entry `behind` leaves
    logic [IdxW-1:0] behind;
    at_op_t          op;
  } work_t;

  typedef struct packed {
    logic        err;
    logic [63:0] value;
  } left_t;

  // ---- In: is the address under way? -----------------------------------------------------------------
  logic               op_valid, alloc, full, hits, flush, waits;  // waits: writes before a FLUSH may be to come
  at_op_t             op;
  logic [IdxW:0]      head_q, tail_q;
  logic [Entries-1:0] head_at, tail_at;
  logic [Entries-1:0] live_q, newest_q, data_q, match, near;  // newest: of its address; data: no FLUSH
  logic [7:0]         func_q [Entries];
  at_digest_t         digest_q [Entries];
  logic [7:3]         low_q [Entries];
  logic [63:3]        addrs [Entries];         // a RAM of LUTs
  at_digest_t         op_digest;
  logic [IdxW-1:0]    match_idx, head, tail;
  logic               looked_q, found_q;       // what the look has found: an entry of this digest
  logic [Entries-1:0] match_q;
  logic [IdxW-1:0]    match_idx_q;

  hca_skid #(
    .Width($bits(at_op_t))
  ) u_op (
    .clk_i,
    .rst_i,
    .in_valid_i (op_valid_i),
    .in_ready_o (op_ready_o),
    .in_i       (op_i),
    .out_valid_o(op_valid),
    .out_ready_i(alloc),
    .out_o      (op)
  );

  assign head = head_q[IdxW-1:0];
  assign tail = tail_q[IdxW-1:0];
  // Places are decoded from registers: what takes one, or frees it, is late.
  assign head_at = Entries'(1) << head;
  assign tail_at = Entries'(1) << tail;
  assign full = head == tail && head_q[IdxW] != tail_q[IdxW];
  assign flush = op.cas && op.stores;
  assign waits = flush && data_q != '0;

  assign op_digest = at_digest_of(op.addr[63:8]);

  always_comb begin
    for (int unsigned e = 0; e < Entries; e++) begin
      match[e] = live_q[e] && newest_q[e] && func_q[e] == op.func && digest_q[e] == op_digest
                 && low_q[e] == op.addr[7:3];
      near[e]  = data_q[e] && func_q[e] == look_func_i && digest_q[e] == look_digest_i;
    end
  end

  hca_onehot_index #(.N(Entries)) u_match (
    .onehot_i(match),
    .idx_o   (match_idx)
  );

  // Whether it may begin behind what was found goes along with the comparison, in its carries.
  logic misses, may_hit;
  hca_same #(.Width(62)) u_same (
    .a_i   ({1'b1, op.addr}),
    .b_i   ({may_hit, addrs[match_idx_q]}),
    .same_o(hits)
  );

  // The look comes again as long as an entry is in the way, or the operation that it found something for cannot begin.
  always_ff @(posedge clk_i) begin
    if (rst_i) looked_q <= 1'b0;
    else looked_q <= looked_q ? !alloc && (!found_q || flush) : op_valid;
    if (!looked_q) begin
      match_q     <= match;
      match_idx_q <= match_idx;
      found_q     <= match != '0;
    end
  end

  assign may_hit        = looked_q && !full && found_q && !flush;
  assign misses         = looked_q && !full && (!found_q || flush) && !waits;
  assign rd_req_valid_o = misses;
  assign rd_req_o       = '{func: op.func, addr: {op.addr, 3'd0}, len_bytes: 10'd8};
  assign alloc          = hits || (misses && rd_req_ready_i);
  assign hold_o         = (op_valid && !flush) || near != '0;

  // ---- The oldest one: first its value, then what becomes of it ----------------------------------------
  logic        work_valid, have_q, begin_it, finish, writes, free;
  logic [63:0] value_q, value, next, line_word, tops, sum, swapped;
  logic        err_q, err;
  work_t       work;
  left_t       behind;

  // What begins comes into the queue a cycle later: whether it hits is known last.
  logic  begun_q;
  work_t begun_work_q;
  always_ff @(posedge clk_i) begin
    begun_q      <= alloc && !rst_i;
    begun_work_q <= {hits, match_idx_q, op};
  end

  hca_fifo #(
    .Width($bits(work_t)),
    .Depth(Entries)
  ) u_work (
    .clk_i,
    .rst_i,
    .in_valid_i (begun_q),
    .in_ready_o (),
    .in_i       (begun_work_q),
    .out_valid_o(work_valid),
    .out_ready_i(finish),
    .out_o      (work),
    .count_o    ()
  );

  // What each entry has left. Its row is written again only when a later one is finished, after all that follow it.
  hca_ram_1r1w #(
    .Width($bits(left_t)),
    .Depth(Entries)
  ) u_left (
    .clk_i,
    .we_i   (finish),
    .waddr_i(head),
    .wdata_i({err, writes ? next : value}),
    .re_i   (begin_it && work.follows),
    .raddr_i(work.behind),
    .rdata_o(behind)
  );

  assign begin_it       = work_valid && !have_q && (work.follows || rd_rsp_valid_i);
  assign rd_rsp_ready_o = work_valid && !have_q && !work.follows;
  assign line_word      = rd_rsp_i.data[{work.op.addr[5:3], 6'd0} +: 64];
  assign {err, value}   = work.follows ? behind : {err_q, value_q};
  // Fields: without their most significant bits they cannot run over into each other; these bits are added apart.
  assign tops           = work.op.compare;
  assign sum            = ((value & ~tops) + (work.op.swap_add & ~tops)) ^ ((value ^ work.op.swap_add) & tops);
  assign swapped        = (value & ~work.op.masks.swap) | (work.op.swap_add & work.op.masks.swap);
  assign next           = work.op.stores ? work.op.swap_add : work.op.cas ? swapped : sum;
  assign writes         = !err && (!work.op.cas || (((value ^ work.op.compare) & work.op.masks.compare) == '0
                                                    && !work.op.stores));
  assign wr_valid_o     = have_q && free && writes;
  assign finish         = have_q && free && (!writes || wr_ready_i);

  always_comb begin
    wr_o      = '0;
    wr_o.last = 1'b1;
    wr_o.func = work.op.func;
    wr_o.addr = {work.op.addr[63:6], 6'd0};
    wr_o.strb = 64'hff << {work.op.addr[5:3], 3'd0};
    wr_o.data = {8{next}};
  end

  hca_fifo #(
    .Width($bits(at_result_t)),
    .Depth(Entries)
  ) u_results (
    .clk_i,
    .rst_i,
    .in_valid_i (finish),
    .in_ready_o (free),
    .in_i       ({err, value}),
    .out_valid_o(result_valid_o),
    .out_ready_i(result_ready_i),
    .out_o      (result_o),
    .count_o    ()
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      head_q <= '0;
      tail_q <= '0;
      live_q <= '0;
      data_q <= '0;
      have_q <= 1'b0;
    end else begin
      if (finish) have_q <= 1'b0;
      else if (begin_it) have_q <= 1'b1;
      if (alloc) tail_q <= tail_q + 1'b1;
      if (finish) head_q <= head_q + 1'b1;
      live_q <= (live_q & ~(head_at & {Entries{finish}})) | (tail_at & {Entries{alloc}});
      data_q <= (data_q & ~(head_at & {Entries{finish}})) | (tail_at & {Entries{alloc && !flush}});
    end
    // Nothing takes its value from a FLUSH.
    newest_q <= (newest_q & ~(match_q & {Entries{hits}}) & ~(tail_at & {Entries{alloc}}))
                | (tail_at & {Entries{alloc && !flush}});
    if (alloc) begin
      func_q[tail]   <= op.func;
      digest_q[tail] <= op_digest;
      low_q[tail]    <= op.addr[7:3];
      addrs[tail]    <= op.addr;
    end
    if (begin_it && !work.follows) {err_q, value_q} <= {rd_rsp_i.err, line_word};
  end

  logic unused_rsp;
  assign unused_rsp = rd_rsp_i.last;

endmodule
