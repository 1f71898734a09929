// Port state of the link (requirement VL-14). Firmware moves it by `wr`; the hardware alone does: ACTIVE to
// ACTIVE_DEFER when the physical link falls, back when it rises, to DOWN when it stays away; INIT and ARMED to
// DOWN when it falls. A write to INIT, ARMED or ACTIVE without a physical link changes nothing, nor does a value
// that is no state to ask for (0, ACTIVE_DEFER). What the state lets through is decided where packets pass.
module hca_link_state
  import hca_link_pkg::*;
#(
  parameter int unsigned DownCycles = 1 << 20    // power of two
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        wr_i,
  input  logic [2:0]  wr_state_i,
  input  logic        phy_up_i,
  output link_state_e state_o,
  output logic        recovery_o,    // strobe: link_error_recovery
  output logic        downed_o       // strobe: link_downed
);

  localparam int unsigned TimerW = $clog2(DownCycles);

  link_state_e       state_q, state_d;
  logic [TimerW-1:0] timer_q;
  logic              recovery, downed, recovery_q, downed_q;

  always_comb begin
    state_d  = state_q;
    recovery = 1'b0;
    downed   = 1'b0;
    unique case (state_q)
      LinkInit, LinkArmed: begin
        if (!phy_up_i) begin
          state_d = LinkDown;
          downed  = 1'b1;
        end
      end
      LinkActive: begin
        if (!phy_up_i) begin
          state_d  = LinkDefer;
          recovery = 1'b1;
        end
      end
      LinkDefer: begin
        if (phy_up_i) begin
          state_d = LinkActive;
        end else if (timer_q == '1) begin
          state_d = LinkDown;
          downed  = 1'b1;
        end
      end
      default: state_d = LinkDown;
    endcase
    if (wr_i && wr_state_i == LinkDown) state_d = LinkDown;
    else if (wr_i && phy_up_i && state_q != LinkDefer &&
             (wr_state_i == LinkInit || wr_state_i == LinkArmed || wr_state_i == LinkActive)) begin
      state_d = link_state_e'(wr_state_i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q    <= LinkDown;
      timer_q    <= '0;
      recovery_q <= 1'b0;
      downed_q   <= 1'b0;
    end else begin
      state_q    <= state_d;
      timer_q    <= (state_q == LinkDefer) ? timer_q + 1'b1 : '0;
      recovery_q <= recovery;
      downed_q   <= downed;
    end
  end

  assign state_o    = state_q;
  assign recovery_o = recovery_q;
  assign downed_o   = downed_q;

endmodule
