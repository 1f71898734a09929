// Which reads of a port the host has left without their answer for too long. A read that is under way at two ticks in
// a row ends at the second (expire_o); its tag rests (resting_o) until the rest of the answer has come, or for three
// ticks more: what comes meanwhile belongs to nobody.
module hca_dma_rd_age #(
  parameter  int unsigned Tags = 64,
  localparam int unsigned TagW = $clog2(Tags)
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            tick_i,
  input  logic            sent_i,       // strobe: a read is on its way to the host
  input  logic [TagW-1:0] sent_tag_i,
  input  logic            last_i,       // strobe: the last beat of an answer
  input  logic [TagW-1:0] last_tag_i,
  output logic [Tags-1:0] expire_o,     // in the cycle of a tick
  output logic [Tags-1:0] resting_o,
  output logic            busy_o        // ticks are wanted
);

  localparam logic [1:0] RestTicks = 2'd3;

  logic [Tags-1:0]      waits_q, old_q, resting_q, last;
  logic [Tags-1:0][1:0] rest_q;      // ticks to go, of a tag that rests

  assign last      = Tags'(last_i) << last_tag_i;
  assign expire_o  = waits_q & old_q & ~last & {Tags{tick_i}};
  assign busy_o    = waits_q != '0 || resting_q != '0;
  assign resting_o = resting_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      waits_q   <= '0;
      old_q     <= '0;
      resting_q <= '0;
    end else begin
      waits_q <= (waits_q & ~last & ~expire_o) | (Tags'(sent_i) << sent_tag_i);
      if (tick_i) old_q <= waits_q;
      if (sent_i) old_q[sent_tag_i] <= 1'b0;
      if (tick_i) begin
        for (int unsigned t = 0; t < Tags; t++) begin
          if (expire_o[t]) resting_q[t] <= 1'b1;
          else if (rest_q[t] == 2'd1) resting_q[t] <= 1'b0;
        end
      end
      if (last_i) resting_q[last_tag_i] <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (tick_i) begin
      for (int unsigned t = 0; t < Tags; t++) rest_q[t] <= expire_o[t] ? RestTicks : rest_q[t] - 2'd1;
    end
  end

endmodule
