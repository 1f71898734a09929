// Reads priority flow control frames (IEEE 802.1Qbb) and runs their eight timers. A quantum is 512 bit times: at 100
// Gb/s and a 4 ns clock 1.28 cycles, so a timer counts in 1/32 of a quantum and goes down by 25 a cycle. A new frame
// replaces the timers of the classes it names; zero ends a pause. Other MAC control frames change nothing. Never
// stalls.
module hca_pfc_rx
  import hca_link_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       clear_i,       // link down: no pause
  input  logic       valid_i,       // first beat of a MAC control frame without symbol error
  input  phy_t       phy_i,
  input  logic [7:0] enable_i,      // priorities that obey
  output logic [7:0] paused_o,
  output logic [7:0] stop_o         // strobes: this frame stops them
);

  localparam int unsigned TimerW = 16 + PfcTicksPerQuantumW;

  logic                   good;
  logic [7:0]             classes;
  logic [7:0][TimerW-1:0] timer_q;
  logic [7:0]             paused_q;

  assign good = valid_i && phy_i.last && phy_i.len_bytes >= 7'(PfcFrameBytes) &&
                phy_i.data[8*12 +: 16] == {8'h08, 8'h88} && phy_i.data[8*14 +: 16] == {8'h01, 8'h01};
  assign classes = phy_i.data[8*17 +: 8];   // class-enable vector, low byte

  logic unused_data;
  assign unused_data = ^{phy_i.link, phy_i.data};

  always_ff @(posedge clk_i) begin
    if (rst_i || clear_i) begin
      timer_q  <= '0;
      paused_q <= '0;
    end else begin
      for (int unsigned p = 0; p < 8; p++) begin
        if (good && classes[p]) begin
          timer_q[p] <= {phy_i.data[8*(18 + 2*p) +: 8], phy_i.data[8*(19 + 2*p) +: 8], PfcTicksPerQuantumW'(0)};
        end else if (timer_q[p] > TimerW'(PfcTicksPerCycle)) begin
          timer_q[p] <= timer_q[p] - TimerW'(PfcTicksPerCycle);
        end else begin
          timer_q[p] <= '0;
        end
        paused_q[p] <= enable_i[p] && timer_q[p] != '0;
      end
    end
  end

  assign paused_o = paused_q;

  always_comb begin
    for (int unsigned p = 0; p < 8; p++) begin
      stop_o[p] = good && classes[p] && enable_i[p] && phy_i.data[8*(18 + 2*p) +: 16] != '0;
    end
  end

endmodule
