// Shared receive queues: which slot is next. A receive WQE lies in a numbered slot in host memory; the numbers of those
// that are posted lie in a list beside them, of which the next ones are here, a line of 32 at a time (hca_srq_list).
//
// look_i: the head of an SRQ stands at the output in the next cycle; with pop_i then it is the asker's. Looks of one or
// of many queues may follow each other in every second cycle. Nobody waits: a queue of which nothing is here is empty.
// Limits and lists that cannot be read become events. A doorbell takes two cycles.
module hca_srq
  import hca_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  // Context writes; also empty the queue, unless the row says to keep it: then another limit is armed.
  input  logic            srqc_wr_valid_i,
  output logic            srqc_wr_ready_o,
  input  logic [SrqW-1:0] srqc_wr_srqn_i,
  input  srqc_t           srqc_wr_i,
  input  logic            srq_db_valid_i,
  output logic            srq_db_ready_o,
  input  srq_db_t         srq_db_i,
  input  logic            look_i,
  input  logic [SrqW-1:0] look_srqn_i,
  output srq_head_t       head_o,
  input  logic            pop_i,
  // Lines of the lists, in order.
  output logic            req_valid_o,
  input  logic            req_ready_i,
  output dma_rd_req_t     req_o,
  input  logic            rsp_valid_i,
  output logic            rsp_ready_o,
  input  dma_rd_rsp_t     rsp_i,
  output logic            ev_valid_o,
  input  logic            ev_ready_i,
  output hw_ev_t          ev_o,
  output logic [31:0]     bad_db_cnt_o  // doorbells of a queue that is not valid or not the function's
);

  localparam int unsigned Lines     = 4;   // here of each queue: a PCIe read takes as long as 40 SENDs
  localparam int unsigned LineW     = $clog2(Lines);
  localparam int unsigned LineEntW  = $clog2(SrqLineEntries);
  localparam int unsigned LineAddrW = SrqW + LineW;

  typedef struct packed {
    logic        ok;       // slot is that of index popped
    wqe_idx_t    popped;   // index of the next one
    logic [15:0] slot;
  } row_t;

  // Below it a limit is reached, if one is armed: then hca_srq_list is told of every pop.
  typedef struct packed {
    logic        armed;
    wqe_idx_t    at;
  } watch_t;

  function automatic logic [15:0] entry_of(beat_t entries, logic [LineEntW-1:0] index);
    return entries[{index, 4'd0} +: 16];
  endfunction

  // ---- Heads: written by a pop, else by hca_srq_list -------------------------------------------------
  logic            pop_q, pop_ok_q, last, row_we, put_valid, put_ready, bypass_q;
  wqe_idx_t        popped_q;
  logic [SrqW-1:0] look_srqn_q, pop_srqn_q, row_srqn, put_srqn, list_srqn;
  row_t            row, row_new, put, rdata, bypassed_q, list_row;
  logic            ok_rdata;
  logic            list_re, init, arrived_we, watch_we;
  wqe_idx_t        arrived, arrived_new, list_arrived;
  logic [SrqW-1:0] init_srqn, arrived_srqn, watch_srqn;
  watch_t          watch, watch_new, list_watch;
  xrc_srq_t        xrc, xrc_new;
  beat_t           line;
  logic            line_we, line_re, line_ready;
  logic [LineAddrW-1:0] line_waddr, line_raddr;
  wqe_idx_t        popped_next;

  assign row         = bypass_q ? bypassed_q : '{ok: ok_rdata, popped: rdata.popped, slot: rdata.slot};
  assign head_o      = '{ok: row.ok, slot: row.slot, xrc: xrc};
  assign popped_next = row.popped + 1'b1;
  hca_next #(
    .Width(WqeIndexBits)
  ) u_last (
    .a_i   (row.popped),
    .b_i   (arrived),
    .next_o(last)
  );

  assign init        = srqc_wr_valid_i && srqc_wr_ready_o && !srqc_wr_i.keep;
  assign init_srqn   = srqc_wr_srqn_i;

  assign put_ready = !pop_q && !init;
  assign row_we    = pop_q || init || put_valid;
  assign row_srqn  = pop_q ? pop_srqn_q : init ? init_srqn : put_srqn;

  always_comb begin
    row_new      = put;
    row_new.slot = entry_of(line, put.popped[LineEntW-1:0]);
    if (init) row_new = '0;
    if (pop_q) row_new = '{ok: pop_ok_q, popped: popped_q, slot: entry_of(line, popped_q[LineEntW-1:0])};
  end

  always_ff @(posedge clk_i) begin
    pop_q <= pop_i && !rst_i;
    if (look_i) look_srqn_q <= look_srqn_i;
    if (pop_i) begin
      pop_srqn_q <= look_srqn_q;
      popped_q   <= popped_next;
      pop_ok_q   <= !last;
    end
    bypass_q   <= look_i && row_we && row_srqn == look_srqn_i;
    if (look_i && row_we) bypassed_q <= row_new;
  end

  // ---- What a peer means that names one (XRC) ---------------------------------------------------------
  assign xrc_new = '{valid: srqc_wr_i.valid && srqc_wr_i.is_xrc, func: srqc_wr_i.func, number: srqc_wr_i.number,
                     xrcd: srqc_wr_i.xrcd, pd: srqc_wr_i.pd, cqn: srqc_wr_i.cqn[CqW-1:0], slots: srqc_wr_i.slots,
                     log_size: srqc_wr_i.slots_log_size, log_stride: srqc_wr_i.slots_log_stride};

  hca_ram_1r1w #(
    .Width($bits(xrc_srq_t)),
    .Depth(NumSrqs)
  ) u_xrc (
    .clk_i,
    .we_i   (srqc_wr_valid_i && srqc_wr_ready_o),
    .waddr_i(srqc_wr_srqn_i),
    .wdata_i(xrc_new),
    .re_i   (look_i),
    .raddr_i(look_srqn_i),
    .rdata_o(xrc)
  );

  // What hca_srq_list should look at, after the head is written.
  logic     hint_q;
  wqe_idx_t past_watch;  // of the next one, less one; negative: the limit is not reached
  assign past_watch = row.popped - watch.at;

  always_ff @(posedge clk_i) begin
    hint_q <= pop_i && !rst_i && (row.popped[2:0] == '1 || last
                                  || (watch.armed && !past_watch[WqeIndexBits-1]));
  end

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumSrqs)
  ) u_rows (
    .clk_i,
    .we_i   (row_we),
    .waddr_i(row_srqn),
    .wdata_i(row_new),
    .re_i   (look_i),
    .raddr_i(look_srqn_i),
    .rdata_o(rdata)
  );

  // Whether there is one, by itself: in LUTs it is there sooner, and the verdict hangs on it.
  hca_ram_1r1w #(
    .Width(1),
    .Depth(NumSrqs)
  ) u_ok (
    .clk_i,
    .we_i   (row_we),
    .waddr_i(row_srqn),
    .wdata_i(row_new.ok),
    .re_i   (look_i),
    .raddr_i(look_srqn_i),
    .rdata_o(ok_rdata)
  );

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumSrqs)
  ) u_rows_list (
    .clk_i,
    .we_i   (row_we),
    .waddr_i(row_srqn),
    .wdata_i(row_new),
    .re_i   (list_re),
    .raddr_i(list_srqn),
    .rdata_o(list_row)
  );

  hca_ram_1r1w #(
    .Width(WqeIndexBits),
    .Depth(NumSrqs)
  ) u_arrived (
    .clk_i,
    .we_i   (arrived_we || init),
    .waddr_i(init ? init_srqn : arrived_srqn),
    .wdata_i(init ? '0 : arrived_new),
    .re_i   (look_i),
    .raddr_i(look_srqn_i),
    .rdata_o(arrived)
  );

  hca_ram_1r1w #(
    .Width(WqeIndexBits),
    .Depth(NumSrqs)
  ) u_arrived_list (
    .clk_i,
    .we_i   (arrived_we || init),
    .waddr_i(init ? init_srqn : arrived_srqn),
    .wdata_i(init ? '0 : arrived_new),
    .re_i   (list_re),
    .raddr_i(list_srqn),
    .rdata_o(list_arrived)
  );

  hca_ram_1r1w #(
    .Width($bits(watch_t)),
    .Depth(NumSrqs)
  ) u_watch (
    .clk_i,
    .we_i   (watch_we || init),
    .waddr_i(init ? init_srqn : watch_srqn),
    .wdata_i(init ? '0 : watch_new),
    .re_i   (look_i),
    .raddr_i(look_srqn_i),
    .rdata_o(watch)
  );

  hca_ram_1r1w #(
    .Width($bits(watch_t)),
    .Depth(NumSrqs)
  ) u_watch_list (
    .clk_i,
    .we_i   (watch_we || init),
    .waddr_i(init ? init_srqn : watch_srqn),
    .wdata_i(init ? '0 : watch_new),
    .re_i   (list_re),
    .raddr_i(list_srqn),
    .rdata_o(list_watch)
  );

  // ---- Lines: a pop reads first ----------------------------------------------------------------------
  logic [LineAddrW-1:0] pop_raddr;
  assign pop_raddr  = {look_srqn_q, popped_next[LineEntW +: LineW]};
  assign line_ready = !pop_i;

  hca_ram_1r1w #(
    .Width(DataW),
    .Depth(NumSrqs * Lines)
  ) u_lines (
    .clk_i,
    .we_i   (line_we),
    .waddr_i(line_waddr),
    .wdata_i(rsp_i.data),
    .re_i   (pop_i || line_re),
    .raddr_i(pop_i ? pop_raddr : line_raddr),
    .rdata_o(line)
  );

  // ---- Doorbells -------------------------------------------------------------------------------------
  typedef struct packed {
    logic       valid;
    logic [7:0] func;
  } owner_t;

  owner_t      owner, owner_new;
  logic        check_q, rung;   // the owner has been read
  wqe_idx_t    list_pi;

  assign owner_new      = '{valid: srqc_wr_i.valid, func: srqc_wr_i.func};
  assign srq_db_ready_o = check_q;
  assign rung           = check_q && owner.valid && owner.func == srq_db_i.func;

  always_ff @(posedge clk_i) begin
    check_q <= srq_db_valid_i && !check_q && !srqc_wr_valid_i && !rst_i;
    if (rst_i) bad_db_cnt_o <= '0;
    else if (check_q && !rung) bad_db_cnt_o <= bad_db_cnt_o + 32'd1;
  end

  hca_ram_1r1w #(
    .Width($bits(owner_t)),
    .Depth(NumSrqs)
  ) u_owner (
    .clk_i,
    .we_i   (srqc_wr_valid_i && srqc_wr_ready_o),
    .waddr_i(srqc_wr_srqn_i),
    .wdata_i(owner_new),
    .re_i   (srq_db_valid_i && !check_q),
    .raddr_i(srq_db_i.srqn),
    .rdata_o(owner)
  );

  hca_ram_1r1w #(
    .Width(WqeIndexBits),
    .Depth(NumSrqs)
  ) u_pi (
    .clk_i,
    .we_i   (rung || init),
    .waddr_i(init ? init_srqn : srq_db_i.srqn),
    .wdata_i(init ? '0 : srq_db_i.pi),
    .re_i   (list_re),
    .raddr_i(list_srqn),
    .rdata_o(list_pi)
  );

  // ---- Lists -----------------------------------------------------------------------------------------
  hca_srq_list #(
    .Lines(Lines)
  ) u_list (
    .clk_i, .rst_i,
    .hold_i(pop_q || check_q), .srqc_wr_valid_i, .srqc_wr_ready_o, .srqc_wr_srqn_i, .srqc_wr_i,
    .hint_i({hint_q, rung}), .hint_srqn_i({pop_srqn_q, srq_db_i.srqn}),
    .re_o(list_re), .srqn_o(list_srqn), .pi_i(list_pi), .head_ok_i(list_row.ok), .popped_i(list_row.popped),
    .arrived_i(list_arrived), .watch_armed_i(list_watch.armed), .watch_at_i(list_watch.at),
    .arrived_we_o(arrived_we), .arrived_srqn_o(arrived_srqn), .arrived_o(arrived_new),
    .watch_we_o(watch_we), .watch_srqn_o(watch_srqn), .watch_armed_o(watch_new.armed), .watch_at_o(watch_new.at),
    .line_we_o(line_we), .line_waddr_o(line_waddr), .line_re_o(line_re), .line_ready_i(line_ready),
    .line_raddr_o(line_raddr),
    .put_valid_o(put_valid), .put_ready_i(put_ready), .put_srqn_o(put_srqn), .put_popped_o(put.popped),
    .req_valid_o, .req_ready_i, .req_o, .rsp_valid_i, .rsp_ready_o, .rsp_err_i(rsp_i.err), .ev_valid_o, .ev_ready_i,
    .ev_o
  );
  assign put.ok   = 1'b1;
  assign put.slot = '0;

  logic unused;
  assign unused = ^{list_row, rdata.ok, srqc_wr_i, rsp_i.last};

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && pop_i) assert (row.ok) else $error("hca_srq: pop of SRQ %0d, which is empty", look_srqn_q);
  end
`endif

endmodule
