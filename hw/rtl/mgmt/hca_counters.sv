// Counters of a port, in the order of query_counters_result of the contract. They count from reset and wrap at 64 bits.
// Strobes of something that has a port count if it is this one. All may step in the same cycle: each keeps what came
// since its turn, one has its turn in each cycle and is added to its row of a small RAM, which so is up to 32 cycles
// late. A row is read at once. In the first 32 cycles after reset the RAM is cleared; a read then means nothing.
module hca_counters
  import hca_pkg::*;
#(
    parameter int unsigned NumCounters = 25,   // 32 at most
    parameter logic [PortW-1:0] Port   = '0
) (
    input  logic                         clk_i,
    input  logic                         rst_i,
    input  logic                         tx_beat_i,
    input  logic                         tx_last_i,
    input  logic [6:0]                   tx_len_i,
    input  logic                         rx_beat_i,
    input  logic [6:0]                   rx_len_i,
    input  rx_ended_t                    rx_ended_i,
    input  logic                         rxd_take_i,    // a packet enters rx_ctrl
    input  rxd_t                         rxd_i,
    input  rx_strobes_t                  rx_i,
    input  logic                         ack_sent_i,    // an ACK, NAK or RNR NAK was sent
    input  logic [7:0]                   ack_syndrome_i,
    input  logic [PortW-1:0]             ack_port_i,
    input  logic                         cnp_sent_i,
    input  logic [PortW-1:0]             cnp_port_i,
    input  logic                         sniff_lost_i,  // sniffers do not get a packet or frame
    input  logic [PortW-1:0]             sniff_port_i,
    input  logic [4:0]                   row_i,
    output logic [63:0]                  row_o
);

  localparam int unsigned Turns = 32;
  localparam int unsigned TxBytes = 1, RxBytes = 3;   // those that step by more than one
  localparam int unsigned StepsW = 6, BytesW = 12;    // of Turns cycles

  logic                   nak_rcvd, sent, here;
  logic [NumCounters-1:0] step;
  logic [1:0][6:0]        bytes;      // received, sent

  assign nak_rcvd = rxd_take_i && rxd_i.port == Port && rxd_i.opcode == BthRcAcknowledge;
  assign sent     = ack_sent_i && ack_port_i == Port;
  assign here     = rx_i.port == Port;
  assign bytes    = {rx_len_i & {7{rx_beat_i}}, tx_len_i & {7{tx_beat_i}}};

  logic unused_rxd;
  assign unused_rxd = ^{rxd_i, rx_i};

  always_comb begin
    step     = '0;
    step[0]  = tx_beat_i && tx_last_i;
    step[2]  = rx_ended_i.good;
    step[4]  = rx_ended_i.icrc_err || rx_ended_i.vcrc_err;
    step[5]  = rx_ended_i.dropped;
    step[6]  = rx_ended_i.malformed;
    step[7]  = rx_i.pkey_viol && here;
    step[8]  = rx_i.qkey_viol && here;
    step[9]  = sent && ack_syndrome_i inside {NakPsnSequence, NakSelective};   // gaps seen: one NAK each
    step[10] = rx_i.dup && here;            // requests seen before
    step[11] = sent && ack_syndrome_i[6:5] == 2'b01;
    step[12] = nak_rcvd && rxd_i.aeth_syndrome[6:5] == 2'b01;
    step[13] = sent && ack_syndrome_i[6:5] == 2'b11;
    step[14] = nak_rcvd && rxd_i.aeth_syndrome[6:5] == 2'b11;
    step[15] = rx_i.timeout && here;        // transport timers expired
    step[16] = rx_i.rewind && here;         // times transmission went back
    step[17] = rx_i.bad_source && here;     // packets to a QP that were not from its peer
    step[18] = rx_i.marked && here;         // data with a congestion mark
    step[19] = cnp_sent_i && cnp_port_i == Port;
    step[20] = rx_i.cnp && here;
    step[21] = rx_i.qp1_drop && here;
    step[22] = rx_i.stray && here;          // packets that no QP takes
    step[23] = rx_i.dry && here;            // datagrams without a receive, but those for QP1
    step[24] = sniff_lost_i && sniff_port_i == Port;   // packets and frames that sniffers did not get
  end

  // ---- What waits for its turn ---------------------------------------------------------------------------
  logic [NumCounters-1:0][StepsW-1:0] steps_q;
  logic [1:0][BytesW-1:0]             bytes_q;
  logic [4:0]                         turn_q;
  logic                               busy;

  assign busy = steps_q != '0 || bytes_q != '0 || step != '0 || bytes != '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      turn_q  <= '0;
      steps_q <= '0;
      bytes_q <= '0;
    end else begin
      if (busy) turn_q <= turn_q + 1'b1;
      for (int unsigned c = 0; c < NumCounters; c++) begin
        steps_q[c] <= ((turn_q == 5'(c)) ? '0 : steps_q[c]) + StepsW'(step[c]);
      end
      bytes_q[0] <= ((turn_q == 5'(TxBytes)) ? '0 : bytes_q[0]) + BytesW'(bytes[0]);
      bytes_q[1] <= ((turn_q == 5'(RxBytes)) ? '0 : bytes_q[1]) + BytesW'(bytes[1]);
    end
  end

  // ---- Rows -------------------------------------------------------------------------------------------------
  logic [63:0]       rows [Turns];
  logic [5:0]        clear_q;      // Turns: done
  logic              cleared;
  logic [4:0]        row;
  logic [63:0]       old;
  logic [BytesW-1:0] more;

  assign cleared = clear_q[5];
  assign row     = cleared ? turn_q : clear_q[4:0];
  assign old     = rows[row] & {64{cleared}};

  always_comb begin
    more = '0;
    if (turn_q == 5'(TxBytes)) more = bytes_q[0];
    else if (turn_q == 5'(RxBytes)) more = bytes_q[1];
    else if (32'(turn_q) < NumCounters) more = BytesW'(steps_q[turn_q]);
    if (!cleared) more = '0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) clear_q <= '0;
    else if (!cleared) clear_q <= clear_q + 1'b1;
    if (busy || !cleared) rows[row] <= old + 64'(more);
  end

  assign row_o = rows[row_i];
endmodule
