// Atomic operations on 8 bytes of host memory: read, compute, write back; in order, several at a time. One that hits
// the address of another under way waits for it and takes what it leaves there, so the hottest address costs no read.
// An address is in the table from the look at it until its write has been accepted by the write mux; a read that begins
// later sees it (hca_rd_order). A FLUSH is a read that begins when everything before it has been accepted, whatever
// its address: when it is back, all of that is where the host sees it (decision 0074). Results come in order. The
// caller hands an operation over only when all that it wrote before has been accepted, and asks hold_o before each
// burst that it writes behind it.
//
// Two cycles per operation; as many at a time as there are entries, and reads as many as their port has. May be stalled
// by the read port, the write mux, and whoever takes the results; never needs another write of its caller to go on.
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
  // A burst of this function, to this block of 256 bytes, must wait.
  input  logic [7:0]  look_func_i,
  input  logic [63:8] look_block_i,
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
  logic               op_valid, alloc, full, hit, flush, waits;  // waits: writes before a FLUSH may be to come
  at_op_t             op;
  logic [IdxW:0]      head_q, tail_q;
  logic [Entries-1:0] live_q, newest_q, flush_q, match, near;  // newest: of its address
  logic [Entries-1:0] comes_at, close, at_q, behind_at_q;  // at: what is in `op` has the entry's address
  logic               op_free, comes_same, behind_same_q;
  logic [7:0]         func_q [Entries];
  logic [63:3]        addr_q [Entries];
  logic [IdxW-1:0]    match_idx, head, tail;

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
  assign full = head == tail && head_q[IdxW] != tail_q[IdxW];
  assign flush = op.cas && op.stores;
  assign waits = flush && (live_q & ~flush_q) != '0;
  assign hit  = match != '0 && !flush;

  // An operation is compared with every entry when it comes, before its turn: with it a bit for each goes through the
  // two places of u_op. The only entry that changes before its turn is the one that the operation in front of it takes,
  // when that leaves; so they are compared too.
  assign op_free = !op_valid || alloc;
  assign match   = live_q & newest_q & at_q;
  assign near    = live_q & ~flush_q & close;

  for (genvar e = 0; e < int'(Entries); e++) begin : gen_same
    hca_same #(.Width(69)) u_comes (
      .a_i   ({func_q[e], addr_q[e]}),
      .b_i   ({op_i.func, op_i.addr}),
      .same_o(comes_at[e])
    );
    hca_same #(.Width(64)) u_close (
      .a_i   ({func_q[e], addr_q[e][63:8]}),
      .b_i   ({look_func_i, look_block_i}),
      .same_o(close[e])
    );
  end

  hca_same #(.Width(69)) u_next (
    .a_i   ({op.func, op.addr}),
    .b_i   ({op_i.func, op_i.addr}),
    .same_o(comes_same)
  );

  // What is in front of the operation leaves when op_free; the second place of u_op is taken if not ready.
  always_ff @(posedge clk_i) begin
    if (op_free) begin
      at_q <= op_ready_o ? comes_at : behind_at_q;
      if (alloc) at_q[tail] <= op_ready_o ? comes_same : behind_same_q;
    end
    if (op_ready_o) begin
      behind_at_q   <= comes_at;
      behind_same_q <= comes_same;
    end
  end

  hca_onehot_index #(.N(Entries)) u_match (
    .onehot_i(match),
    .idx_o   (match_idx)
  );

  assign rd_req_valid_o = op_valid && !full && !hit && !waits;
  assign rd_req_o       = '{func: op.func, addr: {op.addr, 3'd0}, len_bytes: 10'd8};
  assign alloc          = op_valid && !full && (hit || (rd_req_ready_i && !waits));
  assign hold_o         = (op_valid && !flush) || near != '0;

  // ---- The oldest one: first its value, then what becomes of it ----------------------------------------
  logic        work_valid, have_q, begin_it, finish, writes, free;
  logic [63:0] value_q, value, next, line_word, tops, sum, swapped;
  logic        err_q, err;
  work_t       work;
  left_t       behind;

  hca_fifo #(
    .Width($bits(work_t)),
    .Depth(Entries)
  ) u_work (
    .clk_i,
    .rst_i,
    .in_valid_i (alloc),
    .in_ready_o (),
    .in_i       ({hit, match_idx, op}),
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
      have_q <= 1'b0;
    end else begin
      if (finish) have_q <= 1'b0;
      else if (begin_it) have_q <= 1'b1;
      if (alloc) tail_q <= tail_q + 1'b1;
      if (finish) head_q <= head_q + 1'b1;
      if (finish) live_q[head] <= 1'b0;
      if (alloc) live_q[tail] <= 1'b1;
    end
    if (alloc) begin
      // Nothing takes its value from a FLUSH.
      if (!flush) newest_q <= newest_q & ~match;
      newest_q[tail] <= !flush;
      flush_q[tail]  <= flush;
      func_q[tail]   <= op.func;
      addr_q[tail]   <= op.addr;
    end
    if (begin_it && !work.follows) {err_q, value_q} <= {rd_rsp_i.err, line_word};
  end

  logic unused_rsp;
  assign unused_rsp = rd_rsp_i.last;

endmodule
