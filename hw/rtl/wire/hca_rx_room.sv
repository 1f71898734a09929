// Room in the receiver, for sources that can wait: `room_o` means that a packet of maximal size of each source may
// begin, whatever beats are still between the input and the buffer: all sources may look at it at the same time
// (links and loopback); each looks once per packet, before the packet's first beat.
// Never too optimistic: what entered in the last `Pipe` cycles counts as if it were not in the buffer yet.
module hca_rx_room
  import hca_pkg::*;
#(
  parameter int unsigned DescDepth = 64,
  parameter int unsigned Sources   = NumPorts + 1
) (
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic                       mac_valid_i,
  input  logic                       mac_last_i,
  input  logic [RxBufW:0]            used_i,    // beats of packets in the buffer, the newest may be unfinished
  input  logic [$clog2(DescDepth):0] descs_i,   // descriptors waiting
  output logic                       room_o
);

  localparam int unsigned Pipe = 12;            // more than the cycles from the input to the buffer
  // LRH or Ethernet header, IPv6/GRH, BTH, extended headers, payload, CRCs: 66 beats. The margin covers beats
  // that a source began under the old value of room_o.
  localparam int unsigned PacketBeats = 67;
  localparam int unsigned ReserveBeats = Sources * PacketBeats + 6;
  localparam int unsigned ReserveDescs = Sources + 4;
  localparam int unsigned PipeW = $clog2(Pipe + 1);

  logic [Pipe-1:0]  beat_q, last_q;
  logic [PipeW-1:0] beats_q, lasts_q;
  logic             room_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      beat_q  <= '0;
      last_q  <= '0;
      beats_q <= '0;
      lasts_q <= '0;
      room_q  <= 1'b0;
    end else begin
      beat_q  <= {beat_q[Pipe-2:0], mac_valid_i};
      last_q  <= {last_q[Pipe-2:0], mac_valid_i && mac_last_i};
      beats_q <= beats_q + PipeW'(mac_valid_i) - PipeW'(beat_q[Pipe-1]);
      lasts_q <= lasts_q + PipeW'(mac_valid_i && mac_last_i) - PipeW'(last_q[Pipe-1]);
      room_q  <= (used_i + (RxBufW + 1)'(beats_q) <= (RxBufW + 1)'(RxBufBeats - ReserveBeats)) &&
                 (32'(descs_i) + 32'(lasts_q) <= DescDepth - ReserveDescs);
    end
  end

  assign room_o = room_q;

endmodule
