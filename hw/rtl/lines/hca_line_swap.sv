// Takes a line from one QP and gives it to another: the next place that is ready. Its context is loaded (6 cycles), and
// goes to hca_rx_ctrl first, which may refuse because the holder has something to do after all, then to all others,
// hca_doorbell last; then the doors are opened. What the holder was goes to context memory.
// The next place is loaded meanwhile, and taken in the cycle in which the last one goes. One that came to nothing (bad:
// it is dropped; spoiled, or refused: it looks again) takes 2 cycles and the load of its row. With hold_i what was
// loaded is forgotten: firmware may change lines.
module hca_line_swap
  import hca_pkg::*;
#(
  parameter int unsigned Sinks  = 6,
  parameter int unsigned RxCtrl = 2,
  parameter int unsigned Door   = 5
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  line_since_t      since_i,
  input  logic             hold_i,         // nothing begins
  input  logic             store_busy_i,   // what a holder was is not taken yet
  // Places.
  input  logic             place_valid_i,
  input  line_slot_t       place_slot_i,
  input  line_want_t       place_i,
  input  logic             place_dead_i,
  output logic [1:0]       place_beat_o,
  input  beat_t            place_data_i,   // a cycle later
  output logic             place_take_o,
  output logic             place_ahead_o,  // this one has been looked at
  // Rows of lines.
  output logic             idle_o,
  output logic             row_re_o,
  output logic [QpW-1:0]   row_re_line_o,
  input  line_row_t        row_i,          // a cycle later
  output logic [QpW-1:0]   row_line_o,
  output logic             row_valid_o,    // written, with the doors' strobe, when ready
  input  logic             row_ready_i,
  output line_row_t        row_o,
  output line_shut_t       shut_o,
  // Who has its line, and hears of it, or looks again.
  output logic             fin_valid_o,
  input  logic             fin_ready_i,
  output line_fin_t        fin_o,
  // Context writes.
  output logic [Sinks-1:0] qpc_valid_o,
  input  logic [Sinks-1:0] qpc_ready_i,
  output qpc_wr_t          qpc_o,
  input  logic             quiet_i,        // with hca_rx_ctrl's ready: it has taken it
  input  qpc_record_t      old_i,
  output logic             old_valid_o,    // until it is taken
  output logic [23:0]      old_qpn_o,
  output logic [QpW-1:0]   old_line_o,
  output qpc_record_t      old_o,
  output logic             filled_valid_o, // a QP in ERR, SQE or SQD has its line
  input  logic             filled_ready_i,
  output logic [23:0]      filled_qpn_o
);

  typedef enum logic [1:0] {LdIdle, LdRow, LdLoad, LdFull} load_e;
  typedef enum logic [2:0] {SwIdle, SwOffer, SwSpread, SwDone, SwDrop, SwRefused} state_e;

  load_e             load_q, load_d;
  state_e            state_q, state_d;
  logic              mine, dead_q, takes, leaves, hands, fills, filled_q, later;
  logic [1:0]        beat_q;
  line_want_t        ready_q, want_q;
  line_row_t         ready_row_q, row_q;
  logic [3:0][DataW-1:0] loaded_q, words_q;
  qpc_t              qpc;
  logic [Sinks-1:0]  pend_q, pend;
  logic              unused_in;

  assign unused_in = ^old_i;

  assign idle_o     = load_q == LdIdle && state_q == SwIdle;
  assign row_re_o   = load_q == LdIdle && !hold_i && place_valid_i;
  assign row_re_line_o = place_i.qpn[QpW-1:0];
  assign row_line_o = want_q.qpn[QpW-1:0];
  assign mine       = row_i.busy && row_i.slot == place_slot_i;

  // Nothing is taken that might have to wait for firmware, which may wait until nothing is under way, or for the host:
  // of what holders were one may wait beside that which is being written.
  assign takes = load_q == LdFull && (state_q == SwIdle || leaves) && !hold_i && !(store_busy_i && old_valid_o)
                 && !filled_valid_o && !fills;

  // What is over: the row is written, and who wanted it goes on, when there is room for that.
  // As soon as the last one has the context; SwDone only waits.
  assign pend         = pend_q & ~(qpc_ready_i & qpc_valid_o);
  assign hands        = state_q inside {SwSpread, SwDone};
  assign leaves       = (state_q inside {SwDone, SwDrop, SwRefused} || (state_q == SwSpread && pend == '0))
                        && !fin_valid_o && row_ready_i;
  assign fills        = hands && filled_q;
  assign place_take_o = takes;
  assign place_ahead_o = load_q inside {LdLoad, LdFull};
  assign later        = state_q == SwRefused || (state_q == SwDrop && !row_q.busy);

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      SwOffer:  if (qpc_ready_i[RxCtrl]) state_d = quiet_i ? SwSpread : SwRefused;
      SwSpread: if (takes) state_d = dead_q ? SwDrop : SwOffer;
                else if (leaves) state_d = SwIdle;
                else if (pend == '0) state_d = SwDone;
      default:  if (takes) state_d = dead_q ? SwDrop : SwOffer;
                else if (leaves) state_d = SwIdle;
    endcase
    load_d = load_q;
    unique case (load_q)
      LdIdle:  if (row_re_o) load_d = LdRow;
      LdRow:   load_d = (place_dead_i || !mine) ? LdFull : LdLoad;
      LdLoad:  if (beat_q == 2'd0) load_d = LdFull;
      default: if (takes || hold_i) load_d = LdIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    state_q <= rst_i ? SwIdle : state_d;
    load_q  <= rst_i ? LdIdle : load_d;
    if (load_q != LdFull) beat_q <= (load_q == LdIdle) ? 2'd1 : beat_q + 2'd1;
    if (load_q inside {LdRow, LdLoad}) loaded_q <= {place_data_i, loaded_q[3:1]};
    if (row_re_o) ready_q <= place_i;
    if (load_q == LdRow) begin
      dead_q           <= place_dead_i || !mine;
      ready_row_q      <= row_i;
      ready_row_q.busy <= mine;
    end
    if (takes) {want_q, row_q, words_q} <= {ready_q, ready_row_q, loaded_q};
  end
  assign place_beat_o = (load_q == LdIdle) ? 2'd0 : beat_q;

  // ---- Rows ------------------------------------------------------------------------------------------------
  // Behind a refusal the holder goes on without doorbells. Behind a bad place it goes on, and has its time again.
  always_comb begin
    row_valid_o = leaves && row_q.busy;
    row_o       = row_q;
    row_o.busy  = 1'b0;
    shut_o      = '{valid: 1'b0, line: want_q.qpn[QpW-1:0], drain: 1'b0, shut: 1'b0};
    unique case (state_q)
      SwSpread, SwDone: begin
        shut_o.valid = row_valid_o;
        row_o = '{who: '{may_rest: !filled_q, valid: 1'b1, qpn: want_q.qpn}, busy: 1'b0, slot: '0, drain: 1'b0,
                  since: since_i};
      end
      SwDrop: begin
        {row_o.drain, row_o.since} = {1'b0, since_i};
        shut_o.valid = row_valid_o;
      end
      default: {shut_o.valid, shut_o.drain} = {row_valid_o, 1'b1};
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) fin_valid_o <= 1'b0;
    else if (leaves) fin_valid_o <= later || (hands && want_q.kind != MissFill) || is_parked(want_q);
    else if (fin_ready_i) fin_valid_o <= 1'b0;
    if (leaves) fin_o <= '{later: later, want: want_q};
    if (rst_i) filled_valid_o <= 1'b0;
    else filled_valid_o <= (leaves && fills) || (filled_valid_o && !filled_ready_i);
    if (hands) filled_qpn_o <= want_q.qpn;
  end

  // ---- The context write -------------------------------------------------------------------------------------
  always_comb begin
    qpc            = qpc_t'(words_q);
    qpc.restores   = qpc.has_record;
    qpc.asks_again = 1'b0;
    qpc.is_shut    = 1'b0;
    qpc_o          = '{sweep: 1'b0, swap: 1'b1, init_sq: 1'b1, init_rq: 1'b1, qpn: want_q.qpn[QpW-1:0], qpc: qpc};
    qpc_valid_o    = (state_q == SwSpread) ? pend_q : '0;
    if ((pend_q & ~(Sinks'(1) << Door)) != '0) qpc_valid_o[Door] = 1'b0;
    qpc_valid_o[RxCtrl] = state_q == SwOffer;
  end

  always_ff @(posedge clk_i) begin
    if (state_q == SwOffer) begin
      pend_q           <= '1;
      pend_q[RxCtrl]   <= 1'b0;
      filled_q         <= qpc.state inside {QpsErr, QpsSqe, QpsSqd};
    end else if (state_q == SwSpread) begin
      pend_q <= pend;
    end
    if (rst_i) old_valid_o <= 1'b0;
    else old_valid_o <= (state_q == SwOffer && state_d == SwSpread && row_q.who.valid) || (old_valid_o && store_busy_i);
    if (!old_valid_o) begin
      old_o            <= old_i;
      old_o.has_record <= 1'b1;
      old_qpn_o        <= row_q.who.qpn;
      old_line_o       <= row_line_o;
    end
  end

endmodule
