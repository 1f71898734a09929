// Lines change hands. Doorbells and packets for a QP that has not its line come here, and what firmware wants. The
// line's holder gets no more doorbells then, and no requests that it would have to answer later, so that it soon has
// nothing to do. Then its doors are shut, and the context of who wants the line is read from context memory. A fence
// passes, and one context write (hca_line_swap) takes the line from the one and gives it to the other. What the one was
// goes back to context memory. Only a QP that has nothing to do leaves so; of the others firmware is told.
//
// Here a line at a time: 2 cycles for a QP that must wait, 3 where its line's holder drains, 7 where it begins to and
// is done already. Beside it hca_line_swap hands over. With hold_i nothing begins; held_o says that nothing is under
// way: nothing here waits for the host, or for firmware, meanwhile. What firmware does to a line then (a record, a
// holder) spoils what was prepared for it: that is tried again.
module hca_lines
  import hca_pkg::*;
#(
  parameter int unsigned Sinks  = 6,
  parameter int unsigned RxCtrl = 2,   // of them: hca_rx_ctrl, the first
  parameter int unsigned Door   = 5    // hca_doorbell, the last: a doorbell meets nobody who has the context not yet
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
  input  logic             park_valid_i,   // packets that wait
  output logic             park_ready_o,
  input  park_want_t       park_i,
  output logic             back_valid_o,   // it is over with this one
  input  logic             back_ready_i,
  output logic [ParkW-1:0] back_slot_o,
  // Doorbells again, and doors.
  output logic             again_valid_o,
  input  logic             again_ready_i,
  output line_want_t       again_o,
  output line_shut_t       shut_o,
  input  logic             door_free_i,
  // Whether a QP has nothing to do: look_hint_i is of the line of a cycle ago. hca_rx_ctrl is asked where that is not
  // enough; `asks`: the peer is told what is expected.
  output logic             look_valid_o,
  input  logic             look_done_i,
  output logic             look_asks_o,
  output logic [QpW-1:0]   look_line_o,
  input  line_hint_t       look_hint_i,
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

  localparam int unsigned Slots    = LineSlots;
  localparam int unsigned Again    = 512;
  localparam int unsigned Drains   = 2 * Slots;
  localparam int unsigned Stay     = 16;   // in 256 cycles, like all that is `since`
  localparam int unsigned StayBusy = 200;  // then firmware takes the line from it

  typedef enum logic [3:0] {
    StScrub, StIdle,
    StFw,                                     // firmware has changed the line
    StRow, StDrain, StDoor, StHint, StSee, StLook, StBegin,  // a QP that wants its line
    StOpen,                                   // its holder is firmware's
    StAgain, StAsk, StLater                   // it has it, or looks again
  } state_e;

  state_e            state_q, state_d;
  line_want_t        want, want_q, next, swap_want, out_q;
  logic              next_valid, takes, can_take, swap_valid, swap_dead, swap_take, swap_ahead, out_valid_q, out_free;
  logic              begin_valid, begin_ready, begun_q, store_busy, store_here_q, requeue, fw_set_q, fw_sets, set_q,
                     fw_spoils, fresh_en_q;
  line_slot_t        begin_slot, swap_slot;
  logic [1:0]        swap_beat;
  beat_t             swap_data;
  logic [$clog2(Again):0]  again_count;
  logic [$clog2(Drains):0] drain_count;
  logic              drains, drains_q, requeue_q, later_drains, later_drains_q, drain_room;
  logic [QpW-1:0]    line, line_q, scrub_q, store_line, old_line;
  line_row_t         row_ram, row, row_q, row_new;
  logic              row_we, row_re, same, same_qpn, due, overdue, tells, since_above, since_below, since_around;
  line_since_t       since, since_low, stayed;
  line_shut_t        shut;
  // hca_line_swap's.
  logic              over_idle, over_free, over_read, over_we, over_taken, fin_valid, fin_take, fin_hears, fin_tells,
                     fin_waits, fin_last_q;
  logic [QpW-1:0]    over_line, over_re_line;
  line_row_t         over_row;
  line_shut_t        over_shut;
  line_fin_t         fin;
  logic              old_valid, filled_valid, filled_ready;
  logic [23:0]       old_qpn, filled_qpn;
  qpc_record_t       old;
  hw_ev_t            ev_q;
  logic              ev_valid_q, ev_is_filled, filled_first_q, unused_in;

  assign unused_in = ^{now_i, cfg_i};
  assign since     = now_i[8+:$bits(line_since_t)];

  function automatic logic less(line_since_t a, line_since_t b);
    return 1'((($bits(line_since_t) + 1)'(a) - ($bits(line_since_t) + 1)'(b)) >> $bits(line_since_t));
  endfunction

  // ---- Who wants a line --------------------------------------------------------------------------------
  // Firmware parks nothing, whatever it writes.
  line_want_t fw_want;
  always_comb begin
    fw_want = cfg_i.want;
    if (fw_want.kind == MissAsk) fw_want.pi = '0;
  end

  // Room for all that may have to come again: what is there, and what has a place.
  hca_line_queue #(.Again(Again), .Drains(Drains)) u_queue (
    .clk_i, .rst_i, .db_valid_i, .db_ready_o, .db_i,
    .pkt_valid_i, .pkt_i('{kind: MissAsk, func: '0, qpn: pkt_qpn_i, pi: '0}),
    .park_valid_i, .park_ready_o, .park_i(want_of_parked(park_i)),
    .fw_valid_i(cfg_i.want_go), .fw_room_o(room_o), .fw_i(fw_want),
    .again_valid_i(requeue_q), .again_drains_i(later_drains_q), .again_i(want_q),
    .again_count_o(again_count), .drain_count_o(drain_count),
    .fresh_en_i(fresh_en_q),
    .out_valid_o(next_valid), .out_ready_i(takes), .out_drains_o(drains), .out_o(next)
  );
  always_ff @(posedge clk_i) fresh_en_q <= again_count < ($bits(again_count))'(Again - Drains - Slots - 5);
  assign drain_room = drain_count < ($bits(drain_count))'(Drains - Slots - 4);

  // ---- Places --------------------------------------------------------------------------------------------
  hca_line_slots #(.Slots(Slots)) u_slots (
    .clk_i, .rst_i, .base_i(cfg_i.base), .index_bits_i(cfg_i.index_bits),
    .begin_valid_i(begin_valid), .begin_ready_o(begin_ready), .begin_i(want_q), .begin_slot_o(begin_slot),
    .req_valid_o(rd_req_valid_o), .req_ready_i(rd_req_ready_i), .req_o(rd_req_o),
    .rsp_valid_i(rd_rsp_valid_i), .rsp_ready_o(rd_rsp_ready_o), .rsp_i(rd_rsp_i),
    .door_free_i, .fence_start_o, .fence_busy_i,
    .swap_ahead_i(swap_ahead), .swap_valid_o(swap_valid), .swap_slot_o(swap_slot), .swap_o(swap_want),
    .swap_dead_o(swap_dead), .swap_beat_i(swap_beat), .swap_data_o(swap_data), .swap_take_i(swap_take)
  );

  // ---- Lines -----------------------------------------------------------------------------------------------
  // Who hands over reads and writes here, too, and only lines in which a place is busy: nobody else does that then.
  hca_ram_1r1w #(.Width($bits(line_row_t)), .Depth(NumQps)) u_rows (
    .clk_i, .we_i(row_we || over_we), .waddr_i(state_q == StScrub ? scrub_q : row_we ? line_q : over_line),
    .wdata_i(row_we ? row_new : over_row), .re_i(row_re || over_read), .raddr_i(over_read ? over_re_line : line),
    .rdata_o(row_ram)
  );

  // Out of the RAM in the first state behind StIdle, out of a register behind that.
  assign row     = (state_q inside {StRow, StFw, StLater}) ? row_ram : row_q;
  hca_same #(.Width(24)) u_same (.a_i(row_ram.who.qpn), .b_i(want_q.qpn), .same_o(same_qpn));
  assign same    = row_ram.who.valid && same_qpn;
  // Since when a holder has not stayed long enough: a window of times, by carries.
  assign due     = since_around ? !since_above && !since_below : !since_above || !since_below;
  assign {since_above, since_below} = {!less(row_ram.since, since_low), !less(since, row_ram.since)};
  assign since_low    = since - ($bits(line_since_t))'(Stay - 1);
  assign since_around = since < ($bits(line_since_t))'(Stay - 1);
  assign stayed  = since - row_q.since;
  assign overdue = row_q.drain && stayed >= ($bits(line_since_t))'(StayBusy);

  // A further one, if there is room for an event; there is for all that may have to come again.
  assign can_take = cfg_i.enable && next_valid && !ev_valid_q;

  // Firmware's changes: only while held.
  assign fw_sets        = cfg_i.set_go || set_q;
  assign over_free      = over_idle && !over_read;
  assign record_ready_o = state_q == StIdle && over_free && !store_busy && !old_valid && record_valid_i && !fw_sets;
  assign fw_spoils      = state_q == StIdle && over_free && (record_ready_o || fw_sets);
  assign held_o         = cfg_i.hold && state_q == StIdle && over_idle && !fin_valid && !out_valid_q && !begun_q
                          && !fw_spoils;
  assign holder_o       = row_ram.who;

  always_comb begin
    line     = cfg_i.sel;
    want     = want_q;
    fin_take = fin_tells && out_free;
    if (state_q == StIdle && !over_read) begin
      if (fw_sets && over_free) line = cfg_i.set.qpn[QpW-1:0];
      else if (fw_spoils) line = record_i.index[QpW-1:0];
      else if (fin_waits) {fin_take, want, line} = {1'b1, fin.want, fin.want.qpn[QpW-1:0]};
      else if (cfg_i.hold) line = cfg_i.sel;
      else {want, line} = {next, next.qpn[QpW-1:0]};
    end
  end
  assign row_re = state_q == StIdle;
  assign takes  = state_q == StIdle && !over_read && !fw_spoils && !fin_waits && !cfg_i.hold && can_take;

  always_ff @(posedge clk_i) begin
    if (state_q == StIdle) begin
      want_q   <= want;
      line_q   <= line;
      fw_set_q <= fw_sets;
      drains_q <= drains;
    end
    // want_q stands a cycle longer.
    requeue_q      <= requeue && !rst_i;
    later_drains_q <= later_drains;
    if (state_q == StRow) row_q <= row_ram;
    if (state_q == StDrain) row_q <= row_new;
    if (rst_i) set_q <= 1'b0;
    else set_q <= fw_sets && !fw_spoils;
  end

  // ---- Who has its line --------------------------------------------------------------------------------
  // Behind a hand-over it hears of it beside all else.
  assign fin_hears = fin_valid && !fin.later && !is_dropped(fin.want);
  assign fin_waits = fin_valid && !fin_hears;
  assign fin_tells = fin_hears && !(state_q == StAgain && fin_last_q);   // in turn
  assign out_free  = !out_valid_q || (is_parked(out_q) ? back_ready_i : again_ready_i);

  always_ff @(posedge clk_i) begin
    if (rst_i) out_valid_q <= 1'b0;
    else out_valid_q <= fin_tells || state_q == StAgain || !out_free;
    if (out_free) begin
      out_q      <= fin_tells ? fin.want : want_q;
      fin_last_q <= fin_tells;
    end
  end
  assign again_valid_o = out_valid_q && !is_parked(out_q);
  assign back_valid_o  = out_valid_q && is_parked(out_q);
  assign back_slot_o   = out_q.pi[ParkW-1:0];
  assign again_o       = out_q;

  // ---- What happens ----------------------------------------------------------------------------------------
  always_comb begin
    state_d   = state_q;
    row_we    = 1'b0;
    row_new   = row;
    shut      = '{valid: 1'b0, line: line_q, drain: 1'b0, shut: 1'b0};
    requeue   = 1'b0;
    later_drains = row.drain && !row.busy;
    tells     = 1'b0;
    unique case (state_q)
      StScrub: begin
        {row_we, row_new} = {1'b1, ($bits(line_row_t))'(0)};
        if (scrub_q == '1) state_d = StIdle;
      end
      StIdle: begin
        if (over_read) state_d = StIdle;
        else if (fw_spoils) state_d = StFw;
        else if (fin_waits) state_d = fin.later ? StLater : StAsk;
        else if (takes) state_d = StRow;
      end
      StFw: begin
        row_we       = 1'b1;
        shut.valid   = row.busy || row.drain;
        if (fw_set_q || row.drain) row_new.since = since;
        if (fw_set_q) row_new.who = cfg_i.set;
        {row_new.busy, row_new.drain} = '0;
        state_d      = StIdle;
      end
      StRow: begin
        state_d      = StIdle;
        later_drains = 1'b0;
        if (same) begin
          if (row_ram.busy || (row_ram.drain && want_q.kind != MissFill)) requeue = 1'b1;
          else if (is_dropped(want_q)) state_d = StAsk;
          else if (want_q.kind != MissFill) state_d = StAgain;
        end else if (row_ram.busy || (row_ram.drain && !drains_q)) requeue = 1'b1;
        else if (!row_ram.who.valid) state_d = StBegin;
        else if (!row_ram.who.may_rest && is_parked(want_q)) state_d = StAgain;   // it misses once more, and is dropped
        else if (!row_ram.who.may_rest) tells = 1'b1;
        else if (row_ram.drain) state_d = StSee;
        else if (due && drain_room) state_d = StDrain;
        else requeue = 1'b1;
      end
      StDrain: begin
        {row_new.drain, row_new.since} = {1'b1, since};
        {row_we, shut.valid, shut.drain} = '1;
        state_d = StDoor;
      end
      // What the holder has been rung for is known to hca_rx_ctrl then.
      StDoor: if (door_free_i) state_d = StHint;
      StHint: state_d = StSee;
      StSee: begin
        state_d = look_hint_i.rests ? StBegin : (look_hint_i.ask || overdue) ? StLook : StIdle;
        requeue = !look_hint_i.rests && !look_hint_i.ask && !overdue;
      end
      StLook: begin
        if (look_done_i) begin
          state_d = quiet_i ? StBegin : overdue ? StOpen : StIdle;
          requeue = !quiet_i && !overdue;
        end
      end
      // Firmware takes the line from it; until then it goes on.
      StOpen: begin
        {row_new.drain, row_new.since} = {1'b0, since};
        {row_we, shut.valid, tells} = '1;
        state_d = is_parked(want_q) ? StAgain : StIdle;
      end
      // The doors are shut a cycle later.
      StBegin: begin
        row_we = begin_valid && begin_ready;
        {row_new.busy, row_new.slot} = {1'b1, begin_slot};
        // Where reads wait, what is ready goes on.
        state_d = StIdle;
        requeue = !row_we;
      end
      StAsk:   if (look_done_i) state_d = StIdle;
      StAgain: if (out_free && !fin_tells) state_d = StIdle;
      StLater: {requeue, state_d} = {1'b1, StIdle};
      default: state_d = StIdle;
    endcase
    // Only in StIdle, which says nothing of doors, and in which line_q stands still.
    if (begun_q) {shut.valid, shut.drain, shut.shut} = '1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StScrub;
      scrub_q <= '0;
      begun_q <= 1'b0;
    end else begin
      state_q <= state_d;
      begun_q <= state_q == StBegin && row_we;
      if (state_q == StScrub) scrub_q <= scrub_q + 1'b1;
    end
  end

  // What a QP was is read behind what was written of it: whoever is in its line now may just have been taken from it.
  // None begins to be written meanwhile, for this line is not handed over.
  always_ff @(posedge clk_i) begin
    store_here_q <= (old_valid && old_line == line_q) || (store_busy && store_line == line_q);
  end
  assign begin_valid   = state_q == StBegin && !store_here_q;
  assign look_valid_o  = state_q inside {StLook, StAsk};
  assign look_asks_o   = state_q == StAsk;
  assign look_line_o   = line_q;

  // ---- The hand-over ---------------------------------------------------------------------------------------
  // In no state in which this here may write, or say something of doors.
  assign over_taken = !(state_q inside {StScrub, StFw, StDrain, StOpen, StBegin}) && !begun_q;
  assign shut_o     = shut.valid ? shut : over_shut;

  hca_line_swap #(.Sinks(Sinks), .RxCtrl(RxCtrl), .Door(Door)) u_swap (
    .clk_i, .rst_i, .since_i(since), .hold_i(cfg_i.hold || state_q == StScrub), .store_busy_i(store_busy),
    .place_valid_i(swap_valid), .place_slot_i(swap_slot), .place_i(swap_want), .place_dead_i(swap_dead),
    .place_beat_o(swap_beat), .place_data_i(swap_data), .place_take_o(swap_take), .place_ahead_o(swap_ahead),
    .idle_o(over_idle), .row_re_o(over_read), .row_re_line_o(over_re_line), .row_i(row_ram), .row_line_o(over_line),
    .row_valid_o(over_we), .row_ready_i(over_taken), .row_o(over_row), .shut_o(over_shut),
    .fin_valid_o(fin_valid), .fin_ready_i(fin_take), .fin_o(fin),
    .qpc_valid_o, .qpc_ready_i, .qpc_o, .quiet_i, .old_i, .old_valid_o(old_valid), .old_qpn_o(old_qpn),
    .old_line_o(old_line),
    .old_o(old), .filled_valid_o(filled_valid), .filled_ready_i(filled_ready), .filled_qpn_o(filled_qpn)
  );

  hca_line_store u_store (
    .clk_i, .rst_i, .base_i(cfg_i.base), .index_bits_i(cfg_i.index_bits),
    .old_valid_i(old_valid), .old_qpn_i(old_qpn), .old_line_i(old_line), .old_i(old),
    .record_valid_i(record_ready_o), .record_i, .busy_o(store_busy), .line_o(store_line),
    .wr_valid_o, .wr_ready_i, .wr_o
  );

  // ---- Firmware --------------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) {ev_valid_q, filled_first_q} <= '0;
    else begin
      ev_valid_q     <= tells || (ev_valid_q && !(ev_ready_i && !ev_is_filled));
      filled_first_q <= ev_is_filled && !ev_ready_i;
    end
    if (tells) begin
      ev_q <= '{kind: HwEventLineMiss, func: want_q.func, reserved0: '0, id: 32'(want_q.qpn),
                cause: {11'd0, want_q.kind, 1'b1, want_q.kind == MissSq, is_parked(want_q) ? '0 : want_q.pi}};
    end
  end
  assign ev_valid_o   = ev_valid_q || filled_valid;
  assign ev_is_filled = filled_valid && (!ev_valid_q || filled_first_q);  // what was shown first stays
  assign filled_ready = ev_ready_i && ev_is_filled;

  always_comb begin
    ev_o = ev_q;
    if (ev_is_filled || !ev_valid_q) ev_o = '{kind: HwEventLineFilled, id: 32'(filled_qpn), default: '0};
  end

endmodule
