// Priority flow control towards the peer (IEEE 802.1Qbb): a priority whose ring is filled to XoffBlocks is stopped, and
// let go at XonBlocks. A frame goes out when that set changes, and again every RefreshCycles while somebody
// is stopped. Every enabled class is in every frame: stopped ones with the longest time, others with zero, so a
// lost frame is made good by the next. `ctl` may stall; its payload is stable.
module hca_pfc_tx
  import hca_link_pkg::*;
#(
  parameter int unsigned NumRings      = 8,
  parameter int unsigned FillW         = 10,
  parameter int unsigned XoffBlocks    = 256,
  parameter int unsigned XonBlocks     = 128,
  parameter int unsigned RefreshCycles = 32768   // power of two; below 65535 quanta, 83,884 cycles
) (
  input  logic                           clk_i,
  input  logic                           rst_i,
  input  logic                           up_i,        // Ethernet, link up
  input  logic [7:0]                     enable_i,
  input  logic [47:0]                    mac_i,       // source; mac_i[47:40] is the first byte on the wire
  input  logic [NumRings-1:0][FillW-1:0] fill_i,      // blocks in each receive ring
  output logic                           ctl_valid_o,
  input  logic                           ctl_ready_i,
  output phy_t                           ctl_o,
  output logic [7:0]                     stop_o       // strobes: a frame leaves that stops them
);

  localparam int unsigned TickW = $clog2(RefreshCycles);

  logic [NumRings-1:0] stop_q;
  logic [7:0]          xoff, told_q, classes_q;
  logic [TickW-1:0]    tick_q;
  logic                valid_q, refresh_q, pick;

  always_comb begin
    for (int unsigned p = 0; p < 8; p++) xoff[p] = enable_i[p] && stop_q[p % NumRings];
  end

  assign pick = up_i && !valid_q && (xoff != told_q || (refresh_q && xoff != '0));

  always_ff @(posedge clk_i) begin
    if (rst_i || !up_i) begin
      stop_q    <= '0;
      valid_q   <= 1'b0;
      told_q    <= '0;
      tick_q    <= '0;
      refresh_q <= 1'b0;
    end else begin
      for (int unsigned r = 0; r < NumRings; r++) begin
        if (fill_i[r] >= FillW'(XoffBlocks)) stop_q[r] <= 1'b1;
        else if (fill_i[r] <= FillW'(XonBlocks)) stop_q[r] <= 1'b0;
      end
      if (pick) valid_q <= 1'b1;
      else if (ctl_ready_i) valid_q <= 1'b0;
      if (pick) told_q <= xoff;
      if (pick) tick_q <= '0;
      else if (xoff != '0 && !refresh_q) tick_q <= tick_q + 1'b1;
      if (pick) refresh_q <= 1'b0;
      else if (tick_q == '1) refresh_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (pick) classes_q <= enable_i | told_q;
  end

  always_comb begin
    ctl_o           = '0;
    ctl_o.last      = 1'b1;
    ctl_o.len_bytes = 7'd60;                       // shortest Ethernet frame, without FCS
    ctl_o.data[8*0 +: 48]  = {8'h01, 8'h00, 8'h00, 8'hc2, 8'h80, 8'h01};
    for (int unsigned i = 0; i < 6; i++) ctl_o.data[8*(6 + i) +: 8] = mac_i[8*(5 - i) +: 8];
    ctl_o.data[8*12 +: 16] = {8'h08, 8'h88};
    ctl_o.data[8*14 +: 16] = {8'h01, 8'h01};
    ctl_o.data[8*17 +: 8]  = classes_q;
    for (int unsigned p = 0; p < 8; p++) ctl_o.data[8*(18 + 2*p) +: 16] = {16{told_q[p]}};
  end

  assign ctl_valid_o = valid_q;
  assign stop_o      = (valid_q && ctl_ready_i) ? told_q : '0;

endmodule
