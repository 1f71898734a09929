// Registers beside the soft core: time, timer, what interrupts, the watchdog, and words to the board. An access is
// answered in the next cycle; the map is in abi/ (SOC_*).
//
// The watchdog counts cycles in which the core is awake: a core that sleeps is woken by what it has to do. When its
// time is over, the core is held in reset until no access to the card is under way, and 8 cycles at least; memories and
// these registers keep what they hold, but for the watchdog itself, which is off until firmware starts it again.
module hca_fw_regs
  import hca_pkg::*;
(
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

  logic [31:0] time_hi_q, limit_q, awake_q;
  logic        board_q, timer_on_q, expired;
  logic [3:0]  hold_q;
  logic        wr;

  assign wr             = req_i && we_i;
  assign irq_external_o = fw_irq_i || board_q;
  assign irq_timer_o    = timer_on_q && (now_i >= timer_at_o);
  assign timer_active_o = timer_on_q;
  assign core_rst_o     = hold_q != '0;
  assign expired        = (limit_q != '0) && (awake_q >= limit_q);

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

      if ((hold_q != '0) && ((hold_q != 4'd1) || !bus_busy_i)) hold_q <= hold_q - 4'd1;
      if (expired) begin
        hold_q     <= 4'(HoldCycles);
        limit_q    <= '0;
        awake_q    <= '0;
        timer_on_q <= 1'b0;
        restarts_o <= restarts_o + 32'd1;
      end
    end
  end
endmodule
