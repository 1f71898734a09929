// What sniffers may have of the receiver's time. hold_o: no copies for them now, because the receive buffer is filling
// up, or because copies for `Share` beats and more have been begun since the ones before them were done. So what is
// under way for them is twice that at most, and some copies, and whoever comes behind waits no longer. A copy counts as
// its beats and as `Each` for its WQE and completion. Copies of a packet are done when its buffer is freed; buffers are
// freed in order.
module hca_sniff_share
  import hca_pkg::*;
#(
  parameter int unsigned Share = 128,
  parameter int unsigned Each  = 8
) (
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       filling_i,
  input  logic       valid_i,   // of hca_rx_steer: a descriptor is at its input
  input  logic       take_i,    // and leaves it
  input  logic       copy_i,    // a sniffer gets a copy of that
  input  logic [6:0] beats_i,
  input  logic       free_i,    // the buffer of one that has left is freed
  output logic       hold_o
);

  localparam int unsigned CountW = RxBufW + 1;   // each has a beat of the buffer, but for what is at the input
  localparam int unsigned BegunW = $clog2(Share + 128 + Each) + 1;

  logic [CountW-1:0] out_q;     // left, and not freed
  logic [CountW-1:0] before_q;  // of those, the ones that the copies before are waited for with
  logic [BegunW-1:0] begun_q, charge;
  logic              turn;      // the copies before are done: those that have begun are the ones before now

  assign charge = copy_i ? BegunW'(beats_i) + BegunW'(Each) : '0;
  assign turn   = before_q == '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      out_q    <= '0;
      before_q <= '0;
      begun_q  <= '0;
    end else begin
      out_q <= out_q + CountW'(take_i) - CountW'(free_i);
      if (turn) begin
        before_q <= (begun_q == '0) ? '0 : out_q + CountW'(valid_i) - CountW'(free_i);
        begun_q  <= charge;
      end else begin
        before_q <= before_q - CountW'(free_i);
        begun_q  <= begun_q + charge;
      end
    end
  end

  assign hold_o = filling_i || begun_q >= BegunW'(Share);

endmodule
