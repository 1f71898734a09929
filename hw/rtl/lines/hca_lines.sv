// Lines change hands. Doorbells and packets for a QP that has not its line come here, and what firmware wants. The
// QP's context is read from context memory while the QP that has the line goes on; then its doors are shut, a fence
// passes, and one context write takes the line from the one and gives it to the other. What the one was goes back to
// context memory. Only a QP that has nothing to do leaves so; of the others firmware is told.
//
// One thing at a time, in this order: a place that is ready is handed over, doors are shut, a further QP begins. A
// hand-over takes 13 cycles and what the takers of contexts take, the others 4 to 6. With hold_i nothing begins, and
// held_o says that nothing is under way: nothing here waits for the host, or for firmware, meanwhile. What firmware
// does to a line then (a record, a holder) spoils what was prepared for it: that is tried again.
module hca_lines
  import hca_pkg::*;
#(
  parameter int unsigned Sinks  = 6,
  parameter int unsigned RxCtrl = 2,   // of them: hca_rx_ctrl, the first
  parameter int unsigned Door   = 5,   // hca_doorbell, the last: a doorbell meets nobody who has the context not yet
  parameter int unsigned Slots  = 64
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [63:0]      now_i,
  input  lines_cfg_t       cfg_i,
  output logic             held_o,
  output logic             room_o,         // for cfg_i.want_go
  output line_holder_t     holder_o,       // of cfg_i.sel, while held_o
  input  logic             record_valid_i,
  output logic             record_ready_o,
  input  record_wr_t       record_i,
  // Who misses.
  input  logic             db_valid_i,
  output logic             db_ready_o,
  input  line_want_t       db_i,
  input  logic             pkt_valid_i,    // strobe
  input  logic [23:0]      pkt_qpn_i,
  // Doorbells again, and doors.
  output logic             again_valid_o,
  input  logic             again_ready_i,
  output line_want_t       again_o,
  output line_shut_t       shut_o,
  input  logic             door_free_i,
  // hca_rx_ctrl is asked whether a QP has nothing to do; `asks`: its peer is told what is expected.
  output logic             look_valid_o,
  input  logic             look_done_i,
  output logic             look_asks_o,
  output logic [QpW-1:0]   look_line_o,
  input  logic             quiet_i,        // with look_done_i, and with the ready of hca_rx_ctrl's context write
  // Context writes.
  output logic [Sinks-1:0] qpc_valid_o,
  input  logic [Sinks-1:0] qpc_ready_i,
  output qpc_wr_t          qpc_o,
  input  qpc_record_t      old_i,          // with hca_rx_ctrl's ready
  output logic             fence_start_o,
  input  logic             fence_busy_i,
  output logic             rd_req_valid_o,
  input  logic             rd_req_ready_i,
  output dma_rd_req_t      rd_req_o,
  input  logic             rd_rsp_valid_i,
  output logic             rd_rsp_ready_o,
  input  dma_rd_rsp_t      rd_rsp_i,
  output logic             wr_valid_o,
  input  logic             wr_ready_i,
  output dma_wr_t          wr_o,
  output logic             ev_valid_o,
  input  logic             ev_ready_i,
  output hw_ev_t           ev_o
);

  localparam int unsigned SlotW   = $clog2(Slots);
  localparam int unsigned Again   = 128;
  localparam int unsigned SinceW  = 12;
  localparam int unsigned Stay    = 8;     // in 256 cycles, like all that is `since`
  localparam int unsigned StayBusy = 200;  // then firmware takes the line from it

  typedef struct packed {
    line_holder_t      who;
    logic              busy;   // somebody else is on its way into the line, in this place
    logic [SlotW-1:0]  slot;
    logic [SinceW-1:0] since;
  } row_t;

  typedef enum logic [3:0] {
    StScrub, StIdle,
    StFw,                                         // firmware has changed the line
    StRow, StLook, StBegin, StAgain, StAsk,       // a QP that wants its line
    StShut,                                       // doors
    StSwap, StLoad, StOffer, StSpread, StUnshut, StDone  // the hand-over
  } state_e;

  state_e            state_q, state_d;
  line_want_t        want, want_q, next, shut_want, swap_want;
  logic              next_valid, takes, can_take, swap_valid, swap_dead, swap_take, shut_valid, shut_bad, shut_take;
  logic              begin_valid, begin_ready, store_busy, requeue, fw_set_q, fw_sets, set_q, fw_spoils;
  logic [SlotW-1:0]  begin_slot, shut_slot, swap_slot;
  logic [$clog2(Again):0] again_count;
  logic [QpW-1:0]    line, line_q, scrub_q;
  row_t              row, row_new;
  logic              row_we, row_re, same, due, overdue, tells, tells_stuck, filled_q;
  logic [SinceW-1:0] stayed;
  logic [2:0]        beat_q;
  beat_t             swap_data;
  logic [3:0][DataW-1:0] words_q;
  qpc_t              qpc;
  logic [Sinks-1:0]  pend_q;
  logic [23:0]       old_qpn_q;
  logic              old_valid_q;
  qpc_record_t       old_q, old_new;
  hw_ev_t            ev_q;
  logic              ev_valid_q, unused_in;

  assign unused_in = ^{now_i, cfg_i, old_i};

  // ---- Who wants a line --------------------------------------------------------------------------------
  hca_line_queue #(.Again(Again)) u_queue (
    .clk_i, .rst_i, .db_valid_i, .db_ready_o, .db_i,
    .pkt_valid_i, .pkt_i('{kind: MissAsk, func: '0, qpn: pkt_qpn_i, pi: '0}),
    .fw_valid_i(cfg_i.want_go), .fw_room_o(room_o), .fw_i(cfg_i.want),
    .again_valid_i(requeue), .again_i(want_q), .again_count_o(again_count),
    .fresh_en_i(again_count < ($clog2(Again) + 1)'(Again - Slots - 2)),
    .out_valid_o(next_valid), .out_ready_i(takes), .out_o(next)
  );

  // ---- Places --------------------------------------------------------------------------------------------
  hca_line_slots #(.Slots(Slots)) u_slots (
    .clk_i, .rst_i, .base_i(cfg_i.base), .index_bits_i(cfg_i.index_bits),
    .begin_valid_i(begin_valid), .begin_ready_o(begin_ready), .begin_i(want_q), .begin_slot_o(begin_slot),
    .req_valid_o(rd_req_valid_o), .req_ready_i(rd_req_ready_i), .req_o(rd_req_o),
    .rsp_valid_i(rd_rsp_valid_i), .rsp_ready_o(rd_rsp_ready_o), .rsp_i(rd_rsp_i),
    .shut_valid_o(shut_valid), .shut_slot_o(shut_slot), .shut_o(shut_want), .shut_bad_o(shut_bad),
    .shut_take_i(shut_take), .shut_dead_i(shut_bad || !(row.busy && row.slot == shut_slot)),
    .door_free_i, .fence_start_o, .fence_busy_i,
    .swap_valid_o(swap_valid), .swap_slot_o(swap_slot), .swap_o(swap_want), .swap_dead_o(swap_dead),
    .swap_beat_i(beat_q[1:0]), .swap_data_o(swap_data), .swap_take_i(swap_take)
  );

  // ---- Lines -----------------------------------------------------------------------------------------------
  hca_ram_1r1w #(.Width($bits(row_t)), .Depth(NumQps)) u_rows (
    .clk_i, .we_i(row_we), .waddr_i(state_q == StScrub ? scrub_q : line_q), .wdata_i(row_new),
    .re_i(row_re), .raddr_i(line), .rdata_o(row)
  );

  assign same    = row.who.valid && row.who.qpn == want_q.qpn;
  assign stayed  = now_i[8+:SinceW] - row.since;
  assign due     = stayed >= SinceW'(Stay);
  assign overdue = stayed >= SinceW'(StayBusy);

  // A further one, if there is room for an event; there is for all that may have to come again. A read is begun behind
  // all writes to context memory.
  assign can_take = cfg_i.enable && next_valid && !ev_valid_q;

  // Firmware's changes: only while held.
  assign fw_sets        = cfg_i.set_go || set_q;
  assign record_ready_o = state_q == StIdle && !store_busy && record_valid_i && !fw_sets;
  assign fw_spoils      = state_q == StIdle && (record_ready_o || fw_sets);
  assign held_o         = cfg_i.hold && state_q == StIdle && !fw_spoils;
  assign holder_o       = row.who;

  always_comb begin
    line = cfg_i.sel;
    want = want_q;
    if (state_q == StIdle) begin
      if (fw_sets) line = cfg_i.set.qpn[QpW-1:0];
      else if (fw_spoils) line = record_i.index[QpW-1:0];
      else if (cfg_i.hold) line = cfg_i.sel;
      else if (swap_valid && !store_busy) {want, line} = {swap_want, swap_want.qpn[QpW-1:0]};
      else if (shut_valid) {want, line} = {shut_want, shut_want.qpn[QpW-1:0]};
      else {want, line} = {next, next.qpn[QpW-1:0]};
    end
  end
  assign row_re = state_q == StIdle;
  assign takes  = state_q == StIdle && state_d == StRow;

  always_ff @(posedge clk_i) begin
    if (state_q == StIdle) begin
      want_q   <= want;
      line_q   <= line;
      fw_set_q <= fw_sets;
    end
    if (rst_i) set_q <= 1'b0;
    else set_q <= fw_sets && state_q != StIdle;
  end

  // ---- What happens ----------------------------------------------------------------------------------------
  always_comb begin
    state_d     = state_q;
    row_we      = 1'b0;
    row_new     = row;
    shut_o      = '{valid: 1'b0, line: line_q, shut: 1'b0};
    shut_take   = 1'b0;
    swap_take   = 1'b0;
    requeue     = 1'b0;
    tells       = 1'b0;
    tells_stuck = 1'b0;
    unique case (state_q)
      StScrub: begin
        {row_we, row_new} = {1'b1, ($bits(row_t))'(0)};
        if (scrub_q == '1) state_d = StIdle;
      end
      StIdle: begin
        if (fw_spoils) state_d = StFw;
        else if (cfg_i.hold) state_d = StIdle;
        else if (swap_valid && !store_busy) state_d = StSwap;
        else if (shut_valid) state_d = StShut;
        else if (can_take && !store_busy) state_d = StRow;
      end
      StFw: begin
        row_we       = 1'b1;
        row_new.busy = 1'b0;
        if (fw_set_q) {row_new.who, row_new.since} = {cfg_i.set, now_i[8+:SinceW]};
        shut_o.valid = row.busy;
        state_d      = StIdle;
      end
      StRow: begin
        state_d = StIdle;
        if (row.busy) requeue = 1'b1;
        else if (same && want_q.kind == MissAsk) state_d = StAsk;
        else if (same) state_d = (want_q.kind == MissFill) ? StIdle : StAgain;
        else if (!row.who.valid) state_d = StBegin;
        else if (!row.who.may_rest) {tells, tells_stuck} = '1;
        else if (!due) requeue = 1'b1;
        else state_d = StLook;
      end
      StLook: begin
        if (look_done_i) begin
          state_d = quiet_i ? StBegin : StIdle;
          requeue = !quiet_i && !overdue;
          {tells, tells_stuck} = {2{!quiet_i && overdue}};
        end
      end
      StBegin: begin
        row_we      = begin_ready;
        {row_new.busy, row_new.slot} = {1'b1, begin_slot};
        // Where reads wait, what is ready goes on.
        state_d = StIdle;
        requeue = !begin_ready;
      end
      StAsk:   if (look_done_i) state_d = StIdle;
      StAgain: if (again_ready_i) state_d = StIdle;
      StShut: begin
        shut_take    = 1'b1;
        shut_o.valid = row.busy && row.slot == shut_slot && !shut_bad;
        shut_o.shut  = 1'b1;
        state_d      = StIdle;
      end
      StSwap: begin
        // A place that came to nothing: bad, or spoiled; a doorbell looks again.
        state_d = StLoad;
        if (swap_dead || !(row.busy && row.slot == swap_slot)) begin
          swap_take    = 1'b1;
          row_we       = row.busy && row.slot == swap_slot;
          row_new.busy = 1'b0;
          requeue      = !row_we;
          state_d      = StIdle;
        end
      end
      StLoad:  if (beat_q == 3'd4) state_d = StOffer;
      StOffer: if (qpc_ready_i[RxCtrl]) state_d = quiet_i ? StSpread : StUnshut;
      StSpread: if ((pend_q & ~(qpc_ready_i & qpc_valid_o)) == '0) state_d = StDone;
      StUnshut: begin
        swap_take    = 1'b1;
        row_we       = 1'b1;
        row_new.busy = 1'b0;
        shut_o.valid = 1'b1;
        requeue      = 1'b1;
        state_d      = StIdle;
      end
      StDone: begin
        swap_take = 1'b1;
        row_we    = 1'b1;
        row_new   = '{who: '{may_rest: !filled_q, valid: 1'b1, qpn: want_q.qpn}, busy: 1'b0, slot: '0,
                      since: now_i[8+:SinceW]};
        tells     = filled_q;
        // The peer is answered when everybody has the context.
        unique case (want_q.kind)
          MissAsk:        state_d = StAsk;
          MissSq, MissRq: state_d = StAgain;
          default:        state_d = StIdle;
        endcase
      end
      default: state_d = StIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StScrub;
      scrub_q <= '0;
    end else begin
      state_q <= state_d;
      if (state_q == StScrub) scrub_q <= scrub_q + 1'b1;
    end
    beat_q <= (state_q == StLoad) ? beat_q + 3'd1 : '0;
    if (state_q == StLoad) words_q <= {swap_data, words_q[3:1]};
  end

  assign begin_valid   = state_q == StBegin;
  assign look_valid_o  = state_q inside {StLook, StAsk};
  assign look_asks_o   = state_q == StAsk;
  assign look_line_o   = line_q;
  assign again_valid_o = state_q == StAgain;
  assign again_o       = want_q;

  // ---- The context write: hca_rx_ctrl first, which may refuse, then all others ------------------------------
  always_comb begin
    qpc            = qpc_t'(words_q);
    qpc.restores   = qpc.has_record;
    qpc.asks_again = 1'b0;
    qpc.is_shut    = 1'b0;
    qpc_o          = '{swap: 1'b1, init_sq: 1'b1, init_rq: 1'b1, qpn: line_q, qpc: qpc};
    qpc_valid_o    = (state_q == StSpread) ? pend_q : '0;
    if ((pend_q & ~(Sinks'(1) << Door)) != '0) qpc_valid_o[Door] = 1'b0;
    qpc_valid_o[RxCtrl] = state_q == StOffer;
  end

  always_ff @(posedge clk_i) begin
    if (state_q == StOffer) begin
      pend_q         <= '1;
      pend_q[RxCtrl] <= 1'b0;
      old_q          <= old_i;
      old_qpn_q      <= row.who.qpn;
      filled_q       <= qpc.state inside {QpsErr, QpsSqe, QpsSqd};
    end else if (state_q == StSpread) begin
      pend_q <= pend_q & ~(qpc_ready_i & qpc_valid_o);
    end
    if (rst_i) old_valid_q <= 1'b0;
    else old_valid_q <= state_q == StOffer && state_d == StSpread && row.who.valid;
  end

  always_comb begin
    old_new            = old_q;
    old_new.has_record = 1'b1;
  end

  hca_line_store u_store (
    .clk_i, .rst_i, .base_i(cfg_i.base), .index_bits_i(cfg_i.index_bits),
    .old_valid_i(old_valid_q), .old_qpn_i(old_qpn_q), .old_i(old_new),
    .record_valid_i(record_ready_o), .record_i, .busy_o(store_busy), .wr_valid_o, .wr_ready_i, .wr_o
  );

  // ---- Firmware --------------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) ev_valid_q <= 1'b0;
    else ev_valid_q <= tells || (ev_valid_q && !ev_ready_i);
    if (tells) begin
      ev_q <= '{kind: tells_stuck ? HwEventLineMiss : HwEventLineFilled, func: want_q.func, reserved0: '0,
                id: 32'(want_q.qpn), cause: {11'd0, want_q.kind, 1'b1, want_q.kind == MissSq, want_q.pi}};
    end
  end
  assign ev_valid_o = ev_valid_q;
  assign ev_o       = ev_q;

endmodule
