// How much is on its way to each transmit ring: packets that a scheduler has made and that the gather has not let out
// yet, in blocks of 64 bytes per VL. With what lies in the ring that is all that waits for the VL's turn on the wire,
// so its gate can shut early: enough to hide the latency of the host's memory, and no more than that.
// A packet counts for the VL that its SL had when it was made. Counts are a cycle old. Never stalls.
module hca_tx_ahead
  import hca_pkg::*;
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls  = NumVlsDefault,
  parameter int unsigned Packets = 128   // of one scheduler before the gather's exit, at most
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

  item_t [1:0] in_q, old, out_q;
  logic  [1:0] in_valid_q, out_valid_q, unused_ready, unused_valid;
  logic  [1:0] unused_bits;

  for (genvar s = 0; s < 2; s++) begin : gen_source
    logic [PortW-1:0] port;
    logic [3:0]       sl;

    assign {port, sl}     = LaneW'(made_i[s].lane);
    assign unused_bits[s] = ^made_i[s];

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        in_valid_q[s]  <= 1'b0;
        out_valid_q[s] <= 1'b0;
      end else begin
        in_valid_q[s]  <= made_valid_i[s] && made_i[s].gathered;
        out_valid_q[s] <= left_i[s];
      end
      in_q[s].port   <= port;
      in_q[s].vl     <= sl2vl_i[port][sl];
      in_q[s].blocks <= 7'((made_i[s].bytes + 13'd63) >> 6);
      out_q[s]       <= old[s];
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

  function automatic logic [AheadW-1:0] part(logic valid, item_t item, int unsigned port, int unsigned vl);
    return (valid && 32'(item.port) == port && 32'(item.vl) == vl) ? AheadW'(item.blocks) : '0;
  endfunction

  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < NumPorts; p++) begin
      for (int unsigned v = 0; v < NumVls; v++) begin
        ahead_o[p][v] <= rst_i ? '0
                         : ahead_o[p][v] + part(in_valid_q[0], in_q[0], p, v) + part(in_valid_q[1], in_q[1], p, v)
                           - part(out_valid_q[0], out_q[0], p, v) - part(out_valid_q[1], out_q[1], p, v);
      end
    end
  end

endmodule
