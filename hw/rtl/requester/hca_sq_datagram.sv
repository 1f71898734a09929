// What datagrams need beside other packets: their own lane, and a slot of the header stage for their destination.
// Slots are used in turn. As at most AvSlots - 1 of them are under way, the next one is always free: every WQE of a
// UD QP is written there when it is looked at, whether or not its datagram can be made then; the next look, of
// whatever QP, writes it again.
module hca_sq_datagram
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic [NumLanes-1:0] sl_open_i,
  input  eth_class_t [NumPorts-1:0] class_i,   // Ethernet ports: priorities
  input  sq_qpc_t             qpc_i,
  input  logic                look_i,   // block_i is the first block of a WQE of this QP
  input  beat_t               block_i,
  input  logic                made_i,   // strobe: a packet of this QP is made
  input  logic                left_i,   // strobe: the slot of a datagram is free again
  output logic                is_o,     // the QP sends datagrams
  output tx_path_t            path_o,   // of the packet: the datagram's, from the cycle after look_i on; or the QP's
  output logic                open_o,   // the lane of path_o could send a cycle ago
  output logic                full_o,   // no slot is to be had
  output logic [AvSlotW-1:0]  slot_o,   // of the next datagram
  output av_wr_t              av_wr_o
);

  sq_wqe_ud_ctrl_t    wqe;
  tx_path_t           path_q;
  logic [AvSlotW-1:0] count_q;  // datagrams under way
  logic               made, unused_bits;
  logic [PortW-1:0]   port;

  assign unused_bits = ^qpc_i;
  assign wqe    = block_i;
  assign is_o   = qpc_i.service == ServiceUd;
  assign made   = made_i && is_o;
  assign path_o = is_o ? path_q : qpc_i.path;
  assign full_o = count_q == AvSlotW'(AvSlots - 1);

  assign port    = PortW'(qpc_i.path.sl >> 4);
  assign av_wr_o = '{valid: look_i && is_o, slot: slot_o, port: port, wqe: wqe};

  always_ff @(posedge clk_i) begin
    if (look_i) path_q <= datagram_path(wqe, qpc_i, class_i[port]);
    open_o <= sl_open_i[path_o.sl];
    if (rst_i) begin
      slot_o  <= '0;
      count_q <= '0;
    end else begin
      slot_o  <= slot_o + AvSlotW'(made);
      count_q <= count_q + AvSlotW'(made) - AvSlotW'(left_i);
    end
  end

endmodule
