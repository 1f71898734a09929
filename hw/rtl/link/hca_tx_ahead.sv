// How much is on its way to each transmit ring: packets that a scheduler has made and that are not in the ring yet, in
// blocks of 64 bytes per VL. With what lies in the ring that is all that waits for the VL's turn on the wire,
// so its gate can shut early: enough to hide the latency of the host's memory, and no more than that.
// A packet counts for the VL that its SL had when it was made. Counts are a cycle old. Never stalls.
// From the gather on it goes at a beat per cycle, one packet behind the other, and the ring counts it with its last
// beat: that is waited for here by the clock (WireCycles), a little longer rather than not long enough. A packet that
// is nowhere for a moment would open its gate for some others.
module hca_tx_ahead
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls  = NumVlsDefault,
  parameter int unsigned Packets = 128,  // of one scheduler before the gather's exit, at most
  parameter int unsigned WireCycles = 26,  // of a first beat from there to the ring, at least
  parameter int unsigned OnWire  = 16    // packets whose first beat might be there; with so many the oldest is there
) (
  input  logic                                clk_i,
  input  logic                                rst_i,
  input  logic [NumPorts-1:0][15:0][3:0]      sl2vl_i,
  // By scheduler.
  input  logic [1:0]                          made_valid_i,
  input  tx_made_t [1:0]                      made_i,
  input  logic [1:0]                          left_i,      // strobes: its oldest packet has left the gather
  output logic [NumPorts-1:0][NumVls-1:0][AheadW-1:0] ahead_o
);

  typedef struct packed {
    logic [PortW-1:0] port;
    logic [3:0]       vl;
    logic [6:0]       blocks;
  } item_t;

  item_t [1:0] in_q, old;
  item_t       way, out_q;
  logic  [1:0] in_valid_q, unused_ready, unused_valid;
  logic        way_ready, way_valid, leaves, enters, arrives, out_valid_q;
  logic [$clog2(OnWire):0] on_way;
  logic  [1:0] unused_bits;

  for (genvar s = 0; s < 2; s++) begin : gen_source
    logic [PortW-1:0] port;
    logic [3:0]       sl;

    assign {port, sl}     = LaneW'(made_i[s].lane);
    assign unused_bits[s] = ^made_i[s];

    always_ff @(posedge clk_i) begin
      if (rst_i) in_valid_q[s] <= 1'b0;
      else in_valid_q[s] <= made_valid_i[s] && made_i[s].gathered;
      in_q[s].port   <= port;
      in_q[s].vl     <= sl2vl_i[port][sl];
      in_q[s].blocks <= 7'((made_i[s].bytes + 13'd63) >> 6);
    end

    hca_fifo #(.Width($bits(item_t)), .Depth(Packets)) u_items (
      .clk_i, .rst_i,
      .in_valid_i (in_valid_q[s]),
      .in_ready_o (unused_ready[s]),
      .in_i       (in_q[s]),
      .out_valid_o(unused_valid[s]),
      .out_ready_i(left_i[s]),
      .out_o      (old[s]),
      .count_o    ()
    );
  end

  // ---- On the wire's way to the ring ------------------------------------------------------------------
  localparam int unsigned WaitW = $clog2(MaxBlocks);
  logic  [WireCycles-1:0] line_valid_q;   // first beats under way, the oldest one above
  item_t [WireCycles-1:0] line_q;
  logic                   timed_q;        // the oldest packet's last beat is waited for
  logic [WaitW-1:0]       wait_q;

  assign leaves  = left_i != '0;   // one of the two: the gather has one exit
  assign enters  = line_valid_q[WireCycles-1];
  assign arrives = way_valid && ((timed_q && wait_q == '0) || 32'(on_way) >= OnWire - 1);

  always_ff @(posedge clk_i) begin
    line_valid_q <= rst_i ? '0 : {line_valid_q[WireCycles-2:0], leaves};
    line_q       <= {line_q[WireCycles-2:0], left_i[1] ? old[1] : old[0]};
  end

  hca_fifo #(.Width($bits(item_t)), .Depth(OnWire)) u_way (
    .clk_i, .rst_i,
    .in_valid_i (enters),
    .in_ready_o (way_ready),
    .in_i       (line_q[WireCycles-1]),
    .out_valid_o(way_valid),
    .out_ready_i(arrives),
    .out_o      (way),
    .count_o    (on_way)
  );

  // Two cycles at the least, which no packet beats.
  always_ff @(posedge clk_i) begin
    if (rst_i) {timed_q, out_valid_q} <= '0;
    else {timed_q, out_valid_q} <= {way_valid && !arrives, arrives};
    if (timed_q) wait_q <= wait_q - WaitW'(wait_q != '0);
    else wait_q <= (way.blocks > 7'd2) ? WaitW'(way.blocks - 7'd2) : '0;
    out_q <= way;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (left_i != 2'b11) else $error("hca_tx_ahead: two packets left the gather in a cycle");
    if (!rst_i) assert (!enters || way_ready) else $error("hca_tx_ahead: a packet is counted for ever");
  end
`endif

  function automatic logic [AheadW-1:0] part(logic valid, item_t item, int unsigned port, int unsigned vl);
    return (valid && 32'(item.port) == port && 32'(item.vl) == vl) ? AheadW'(item.blocks) : '0;
  endfunction

  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < NumPorts; p++) begin
      for (int unsigned v = 0; v < NumVls; v++) begin
        ahead_o[p][v] <= rst_i ? '0
                         : ahead_o[p][v] + part(in_valid_q[0], in_q[0], p, v) + part(in_valid_q[1], in_q[1], p, v)
                           - part(out_valid_q, out_q, p, v);
      end
    end
  end

endmodule
