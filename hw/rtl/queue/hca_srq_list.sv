// Keeps the next slot numbers of every SRQ here: of a queue that something has happened to (doorbell, pops, a line that
// came, a context) it looks at everything at once: is its head missing, is its limit reached, is there room for a
// further line? One queue at a time, in turn; four cycles each, six with a head.
//
// A line of which not all is posted is read as far as it is, and again later; not while two lines are here anyway.
// Reads leave through a register, so answers are always taken. Waits for events only when firmware has left as many
// unread as no firmware does (four of each queue).
module hca_srq_list
  import hca_pkg::*;
#(
  parameter  int unsigned Lines = 4,
  localparam int unsigned LineW = $clog2(Lines),
  localparam int unsigned EntW  = $clog2(SrqLineEntries),
  localparam int unsigned AddrW = SrqW + LineW
) (
  input  logic                 clk_i,
  input  logic                 rst_i,
  input  logic                 hold_i,         // no context write now
  input  logic                 srqc_wr_valid_i,
  output logic                 srqc_wr_ready_o,
  input  logic [SrqW-1:0]      srqc_wr_srqn_i,
  input  srqc_t                srqc_wr_i,
  // Strobes: look at these queues.
  input  logic [1:0]           hint_i,
  input  logic [1:0][SrqW-1:0] hint_srqn_i,
  // What others keep of the queue looked at: in the cycle after re_o.
  output logic                 re_o,
  output logic [SrqW-1:0]      srqn_o,
  input  wqe_idx_t             pi_i,
  input  logic                 head_ok_i,
  input  wqe_idx_t             popped_i,
  input  wqe_idx_t             arrived_i,
  input  logic                 watch_armed_i,
  input  wqe_idx_t             watch_at_i,
  output logic                 arrived_we_o,
  output logic [SrqW-1:0]      arrived_srqn_o,
  output wqe_idx_t             arrived_o,      // index behind the last number that is here
  output logic                 watch_we_o,
  output logic [SrqW-1:0]      watch_srqn_o,
  output logic                 watch_armed_o,
  output wqe_idx_t             watch_at_o,
  output logic                 line_we_o,      // with the answer's data
  output logic [AddrW-1:0]     line_waddr_o,
  output logic                 line_re_o,
  input  logic                 line_ready_i,
  output logic [AddrW-1:0]     line_raddr_o,
  output logic                 put_valid_o,    // the head of the line read: index put_popped_o
  input  logic                 put_ready_i,
  output logic [SrqW-1:0]      put_srqn_o,
  output wqe_idx_t             put_popped_o,
  output logic                 req_valid_o,
  input  logic                 req_ready_i,
  output dma_rd_req_t          req_o,
  input  logic                 rsp_valid_i,
  output logic                 rsp_ready_o,
  input  logic                 rsp_err_i,
  output logic                 ev_valid_o,
  input  logic                 ev_ready_i,
  output hw_ev_t               ev_o
);

  localparam int unsigned MaxReads = 16;  // more than the port has tags
  localparam int unsigned Events   = 4 * NumSrqs;
  // So many numbers here or on their way are enough to wait until a line is full.
  localparam wqe_idx_t Enough      = WqeIndexBits'(2 * SrqLineEntries);

  typedef enum logic [2:0] {
    StIdle,
    StJudge,  // the rows have been read
    StAct,
    StPut,    // the line is read: write the head
    StSettle  // a limit is watched now: pops that have not seen it get their rows, then it is looked at once more
  } state_e;

  // Only this block writes and reads them.
  typedef struct packed {
    wqe_idx_t    asked;    // index behind the last number that was asked for
    logic [7:0]  reached;  // limit_tag of the last limit that was reached
    logic        failed;   // the list cannot be read
  } own_t;

  typedef struct packed {
    logic [SrqW-1:0] srqn;
    wqe_idx_t        upto;
  } read_t;

  typedef struct packed {
    logic            failed;
    logic [7:0]      tag;
    logic [SrqW-1:0] srqn;
  } ev_t;

  state_e state_q, state_d;
  logic   idle, init_any, arrive, look, look_again, second_q, act, put;

  // ---- Queues to look at: a walk around them ---------------------------------------------------------
  logic [NumSrqs-1:0] todo_q, todo_d, above_q, first_q, pick_q, ahead;
  logic [SrqW-1:0]    first, pick_srqn_q, srqn_q;
  logic               again;

  assign ahead = todo_q & above_q;

  hca_onehot_index #(
    .N(NumSrqs)
  ) u_pick (
    .onehot_i(first_q),
    .idx_o   (first)
  );

  always_comb begin
    todo_d = todo_q;
    if (look) todo_d = todo_d & ~pick_q;
    for (int unsigned i = 0; i < 2; i++) if (hint_i[i]) todo_d[hint_srqn_i[i]] = 1'b1;
    if (arrive) todo_d[arrived_srqn_o] = 1'b1;
    if (init_any) todo_d[srqc_wr_srqn_i] = 1'b1;
    if (again) todo_d[srqn_q] = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    // And its number, which tables are read with. What is old by then is in todo_q no more.
    pick_q      <= first_q;
    pick_srqn_q <= first;
    first_q     <= (ahead != '0) ? ahead & (~ahead + 1'b1) : todo_q & (~todo_q + 1'b1);
    if (look) begin
      srqn_q  <= pick_srqn_q;
      above_q <= ~(pick_q | (pick_q - 1'b1));
    end
    if (rst_i) begin
      todo_q  <= '0;
      first_q <= '0;
      pick_q  <= '0;
      above_q <= '0;
    end else begin
      todo_q <= todo_d;
    end
  end

  // ---- Which job -------------------------------------------------------------------------------------
  logic req_valid_q, read_room, event_room, unused_reads_valid;

  assign idle            = state_q == StIdle;
  assign srqc_wr_ready_o = idle && !hold_i && !req_valid_q;  // then all reads of the queue are with the port
  assign init_any        = srqc_wr_valid_i && srqc_wr_ready_o;
  assign rsp_ready_o     = idle && !init_any;
  assign arrive          = rsp_valid_i && rsp_ready_o;
  assign look            = idle && !srqc_wr_valid_i && !rsp_valid_i && (pick_q & todo_q) != '0 && !req_valid_q
                           && read_room && event_room;

  // Three cycles behind the write of the watch. A second look asks for no line, and is followed by no third: whoever
  // rings meanwhile is on the list of those to look at.
  logic [1:0] settle_q;
  assign look_again = state_q == StSettle && settle_q == '0;
  assign re_o       = look || look_again;
  assign srqn_o     = (state_q == StSettle) ? srqn_q : pick_srqn_q;   // where nobody looks it does not matter

  always_ff @(posedge clk_i) begin
    settle_q <= (state_q != StSettle) ? 2'd2 : settle_q - 2'd1;
    if (re_o) second_q <= look_again;
  end

  // ---- Rows ------------------------------------------------------------------------------------------
  srqc_t srqc;
  own_t  own, own_new;
  logic  own_we, unused_srqc;

  assign unused_srqc = ^{srqc, srqc_wr_i};

  hca_ram_1r1w #(
    .Width($bits(srqc_t)),
    .Depth(NumSrqs)
  ) u_srqc (
    .clk_i,
    .we_i   (init_any),
    .waddr_i(srqc_wr_srqn_i),
    .wdata_i(srqc_wr_i),
    .re_i   (re_o),
    .raddr_i(srqn_o),
    .rdata_o(srqc)
  );

  hca_ram_1r1w #(
    .Width($bits(own_t)),
    .Depth(NumSrqs)
  ) u_own (
    .clk_i,
    .we_i   ((init_any && !srqc_wr_i.keep) || own_we),
    .waddr_i(init_any ? srqc_wr_srqn_i : srqn_q),
    .wdata_i(init_any ? '0 : own_new),
    .re_i   (re_o),
    .raddr_i(srqn_o),
    .rdata_o(own)
  );

  // An answer that says that memory is not there: told with the next look.
  logic [NumSrqs-1:0] unread_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) unread_q <= '0;
    else if (arrive && rsp_err_i) unread_q[arrived_srqn_o] <= 1'b1;
    else if (init_any && !srqc_wr_i.keep) unread_q[srqc_wr_srqn_i] <= 1'b0;
  end

  // ---- Judge -----------------------------------------------------------------------------------------
  logic        live, fails, below, armed, want, full, headless;
  logic        fails_q, below_q, armed_q, want_q, headless_q, rewatch_q;
  wqe_idx_t    posted, ahead_of_pop, upto, upto_q, at_q, popped_q, asked_q;
  logic [WqeIndexBits-EntW-1:0] lines_here;

  assign live         = srqc.valid && !own.failed;
  assign fails        = live && unread_q[srqn_q];
  assign headless     = live && !fails && !head_ok_i && popped_i != arrived_i;
  assign posted       = pi_i - popped_i;
  assign armed        = live && srqc.limit != '0 && srqc.limit_tag != own.reached;
  assign below        = armed && posted < srqc.limit;
  // The line that is being asked for is full if its end is not in front of the producer index.
  assign full         = pi_i[WqeIndexBits-1:EntW] != own.asked[WqeIndexBits-1:EntW]
                        || pi_i[EntW-1:0] < own.asked[EntW-1:0];
  assign ahead_of_pop = own.asked - popped_i;
  assign lines_here   = own.asked[WqeIndexBits-1:EntW] - popped_i[WqeIndexBits-1:EntW];
  assign want         = live && !fails && pi_i != own.asked && lines_here < (WqeIndexBits - EntW)'(Lines)
                        && (full || ahead_of_pop < Enough);
  assign upto         = full ? {own.asked[WqeIndexBits-1:EntW] + 1'b1, EntW'(0)} : pi_i;

  always_ff @(posedge clk_i) begin
    if (state_q == StJudge) begin
      {fails_q, below_q, want_q, headless_q} <= {fails, below, want && !second_q, headless};
      {upto_q, popped_q, asked_q} <= {upto, popped_i, own.asked};
      armed_q   <= armed && !below;
      at_q      <= pi_i - srqc.limit;
      rewatch_q <= watch_armed_i != (armed && !below) || (armed && watch_at_i != WqeIndexBits'(pi_i - srqc.limit));
    end
  end

  // ---- Act -------------------------------------------------------------------------------------------
  assign act     = state_q == StAct && (!headless_q || line_ready_i);
  assign put     = state_q == StPut && put_ready_i;
  assign own_we  = act && (want_q || below_q || fails_q);
  assign own_new = '{asked: want_q ? upto_q : asked_q, reached: below_q ? srqc.limit_tag : own.reached,
                     failed: fails_q};
  assign again   = act && want_q;

  assign watch_we_o    = act && rewatch_q;
  assign watch_srqn_o  = srqn_q;
  assign watch_armed_o = armed_q;
  assign watch_at_o    = at_q;
  assign line_re_o     = state_q == StAct && headless_q;
  assign line_raddr_o  = {srqn_q, popped_q[EntW +: LineW]};
  assign put_valid_o   = state_q == StPut;
  assign put_srqn_o    = srqn_q;
  assign put_popped_o  = popped_q;

  // ---- Reads -----------------------------------------------------------------------------------------
  read_t                     read_head, read_new;
  logic [$clog2(MaxReads):0] reads;
  wqe_idx_t                  arrived_last;
  logic [63:0]               line_mask;
  logic                      read_in_ready;

  assign read_new  = '{srqn: srqn_q, upto: upto_q};
  assign read_room = reads < ($clog2(MaxReads) + 1)'(MaxReads - 1);
  assign line_mask = (64'd1 << srqc.log_size) - 64'd1;

  always_ff @(posedge clk_i) begin
    if (rst_i) req_valid_q <= 1'b0;
    else if (act && want_q) req_valid_q <= 1'b1;
    else if (req_ready_i) req_valid_q <= 1'b0;
    if (act && want_q) begin
      req_o.func      <= srqc.func;
      req_o.addr      <= {srqc.base[63:6], 6'd0} + (((64'(asked_q) & line_mask) >> EntW) << 6);
      req_o.len_bytes <= 10'd64;
    end
  end
  assign req_valid_o = req_valid_q;

  hca_fifo #(
    .Width($bits(read_t)),
    .Depth(MaxReads)
  ) u_reads (
    .clk_i,
    .rst_i,
    .in_valid_i (act && want_q),
    .in_ready_o (read_in_ready),
    .in_i       (read_new),
    .out_valid_o(unused_reads_valid),
    .out_ready_i(arrive),
    .out_o      (read_head),
    .count_o    (reads)
  );

  // Of a line that could not be read nothing has arrived.
  assign arrived_last   = read_head.upto - 1'b1;
  assign arrived_we_o   = arrive && !rsp_err_i;
  assign arrived_srqn_o = read_head.srqn;
  assign arrived_o      = read_head.upto;
  assign line_we_o      = arrive && !rsp_err_i;
  assign line_waddr_o   = {read_head.srqn, arrived_last[EntW +: LineW]};

  // ---- Events ----------------------------------------------------------------------------------------
  ev_t                     ev, ev_new;
  logic [$clog2(Events):0] ev_count;
  logic                    ev_in_ready;

  assign ev_new     = '{failed: fails_q, tag: srqc.limit_tag, srqn: srqn_q};
  assign event_room = ev_count < ($clog2(Events) + 1)'(Events - 2);

  hca_fifo #(
    .Width($bits(ev_t)),
    .Depth(Events)
  ) u_events (
    .clk_i,
    .rst_i,
    .in_valid_i (act && (fails_q || below_q)),
    .in_ready_o (ev_in_ready),
    .in_i       (ev_new),
    .out_valid_o(ev_valid_o),
    .out_ready_i(ev_ready_i),
    .out_o      (ev),
    .count_o    (ev_count)
  );

  always_comb begin
    ev_o       = '0;
    ev_o.kind  = ev.failed ? HwEventSrqError : HwEventSrqLimit;
    ev_o.id    = 32'(ev.srqn);
    ev_o.cause = 32'(ev.tag);
  end

  // ---- State -----------------------------------------------------------------------------------------
  logic settles;
  assign settles = rewatch_q && armed_q && !second_q;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle:  if (look) state_d = StJudge;
      StJudge: state_d = StAct;
      StAct:   if (act) state_d = headless_q ? StPut : settles ? StSettle : StIdle;
      StPut:   if (put) state_d = settles ? StSettle : StIdle;
      default: if (look_again) state_d = StJudge;
    endcase
  end
  always_ff @(posedge clk_i) state_q <= rst_i ? StIdle : state_d;

  logic unused_ready;
  assign unused_ready = ^{read_in_ready, ev_in_ready, arrived_last};

endmodule
