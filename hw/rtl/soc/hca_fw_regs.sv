// Registers beside the soft core: time, timer, what interrupts, the watchdog, and words to the board. An access is
// answered in the next cycle; the map is in abi/ (SOC_*).
//
// The watchdog counts cycles in which the core is awake: a core that sleeps is woken by what it has to do. When its
// time is over, or firmware asks for it, the core is held in reset until no access to the card is under way and the
// journal has been played back, and 8 cycles at least. Memories and these registers keep what they hold; the watchdog
// begins anew with the same time. Restarts since firmware last said that it is well are counted: they tell it how to
// start.
module hca_fw_regs
  import hca_pkg::*;
#(
    localparam int unsigned FirstW = $clog2(SocDataBytes / 4)
) (
    input  logic        clk_i,
    input  logic        rst_i,
    input  logic [63:0] now_i,
    // The core.
    input  logic        req_i,
    input  logic        we_i,
    input  logic [11:0] addr_i,
    input  logic [31:0] wdata_i,
    output logic [31:0] rdata_o,
    input  logic        sleeps_i,
    input  logic        bus_busy_i,
    output logic        core_rst_o,
    // The journal of the data memory.
    output logic        commit_o,
    output logic [FirstW-1:0] commit_first_o,  // in words
    input  logic        whole_i,
    output logic        undo_o,
    input  logic        undo_busy_i,
    output logic        irq_external_o,
    output logic        irq_timer_o,
    output logic        timer_active_o,
    output logic [63:0] timer_at_o,
    // The card and the board.
    input  logic        fw_irq_i,
    input  logic        board_event_i,
    output logic        tell_valid_o,
    output logic [11:0] tell_addr_o,
    output logic [31:0] tell_data_o,
    output logic [31:0] restarts_o
);
  localparam int unsigned HoldCycles = 8;
  // With so many left the core is in reset and its last write has reached the journal.
  localparam int unsigned UndoAt     = 4;
  localparam int unsigned StrikeW    = 2;

  logic [31:0] time_hi_q, limit_q, awake_q;
  logic        board_q, timer_on_q, expired, undone_q;
  logic [3:0]  hold_q;
  logic        wr;
  // Restarts since firmware was well; the last value stays.
  logic [StrikeW-1:0] strikes_q;

  assign wr             = req_i && we_i;
  assign irq_external_o = fw_irq_i || board_q;
  assign irq_timer_o    = timer_on_q && (now_i >= timer_at_o);
  assign timer_active_o = timer_on_q;
  assign core_rst_o     = hold_q != '0;
  assign expired        = ((limit_q != '0) && (awake_q >= limit_q)) || (wr && (addr_i == 12'(SocRestart)));
  assign commit_o       = wr && (addr_i == 12'(SocJournal));
  assign commit_first_o = wdata_i[FirstW+1:2];
  assign undo_o         = (hold_q == 4'(UndoAt)) && !undone_q;

  always_ff @(posedge clk_i) begin
    tell_valid_o <= wr && addr_i[11];
    tell_addr_o  <= addr_i;
    tell_data_o  <= wdata_i;
    if (req_i && !we_i) begin
      unique case (addr_i)
        12'(SocTimeLo):   rdata_o <= now_i[31:0];
        12'(SocTimeHi):   rdata_o <= time_hi_q;
        12'(SocIrq):      rdata_o <= {29'd0, irq_timer_o, board_q, fw_irq_i};
        12'(SocRestarts): rdata_o <= restarts_o;
        12'(SocStrikes):  rdata_o <= 32'(strikes_q);
        12'(SocJournal):  rdata_o <= {31'd0, whole_i};
        default:          rdata_o <= '0;
      endcase
      if (addr_i == 12'(SocTimeLo)) time_hi_q <= now_i[63:32];
    end
    if (wr && (addr_i == 12'(SocTimerLo))) timer_at_o[31:0] <= wdata_i;
    if (wr && (addr_i == 12'(SocTimerHi))) timer_at_o[63:32] <= wdata_i;

    if (rst_i) begin
      board_q      <= 1'b0;
      timer_on_q   <= 1'b0;
      limit_q      <= '0;
      awake_q      <= '0;
      restarts_o   <= '0;
      hold_q       <= 4'(HoldCycles);
      undone_q     <= 1'b1;
      strikes_q    <= '0;
      tell_valid_o <= 1'b0;
    end else begin
      if (board_event_i) board_q <= 1'b1;
      else if (wr && (addr_i == 12'(SocBoardSeen))) board_q <= 1'b0;

      if (wr && (addr_i == 12'(SocTimerLo))) timer_on_q <= 1'b0;
      if (wr && (addr_i == 12'(SocTimerHi))) timer_on_q <= 1'b1;

      if (wr && (addr_i == 12'(SocWatchdog))) begin
        limit_q <= wdata_i;
        awake_q <= '0;
      end else if (!sleeps_i) begin
        awake_q <= awake_q + 32'd1;
      end

      if (wr && (addr_i == 12'(SocStrikes))) strikes_q <= '0;

      if ((hold_q != '0) && ((hold_q != 4'd1) || !(bus_busy_i || undo_busy_i))) hold_q <= hold_q - 4'd1;
      if (undo_o) undone_q <= 1'b1;
      if (core_rst_o) awake_q <= '0;
      if (expired && !core_rst_o) begin
        hold_q     <= 4'(HoldCycles);
        undone_q   <= 1'b0;
        awake_q    <= '0;
        timer_on_q <= 1'b0;
        restarts_o <= restarts_o + 32'd1;
        if (strikes_q != '1) strikes_q <= strikes_q + 1'b1;
      end
    end
  end
endmodule
