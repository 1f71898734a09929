// Counters of the port, in the order of query_counters_result of the contract. They count from reset and
// wrap at 64 bits (those of hca_rx_wire at 32).
module hca_counters
  import hca_pkg::*;
#(
    parameter int unsigned NumCounters = 17
) (
    input  logic                         clk_i,
    input  logic                         rst_i,
    input  logic                         tx_beat_i,
    input  logic                         tx_last_i,
    input  logic [6:0]                   tx_len_i,
    input  logic                         rx_beat_i,
    input  logic [6:0]                   rx_len_i,
    input  logic [31:0]                  rx_good_i,
    input  logic [31:0]                  rx_icrc_err_i,
    input  logic [31:0]                  rx_vcrc_err_i,
    input  logic [31:0]                  rx_malformed_i,
    input  logic [31:0]                  rx_dropped_i,
    input  logic [31:0]                  pkey_viol_i,
    input  logic                         rxd_i,         // a packet enters rx_ctrl
    input  logic [7:0]                   rxd_opcode_i,
    input  logic [1:0]                   rxd_class_i,   // AETH syndrome bits 6:5
    input  logic                         rewind_i,
    input  logic                         dup_i,
    input  logic                         timeout_i,
    input  logic                         sent_i,
    input  tx_kind_e                     sent_kind_i,
    input  logic [7:0]                   sent_syndrome_i,
    output logic [NumCounters-1:0][63:0] counters_o
);
  logic [63:0] tx_packets_q, tx_bytes_q, rx_bytes_q;
  logic [63:0] rnr_sent_q, nak_sent_q, seq_sent_q, rnr_rcvd_q, nak_rcvd_q, rewinds_q;
  logic [63:0] dups_q, timeouts_q;
  logic        nak_rcvd;

  assign nak_rcvd = rxd_i && (rxd_opcode_i == BthRcAcknowledge);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      tx_packets_q <= '0;
      tx_bytes_q   <= '0;
      rx_bytes_q   <= '0;
      rnr_sent_q   <= '0;
      nak_sent_q   <= '0;
      seq_sent_q   <= '0;
      rnr_rcvd_q   <= '0;
      nak_rcvd_q   <= '0;
      rewinds_q    <= '0;
      dups_q       <= '0;
      timeouts_q   <= '0;
    end else begin
      if (tx_beat_i) begin
        tx_packets_q <= tx_packets_q + 64'(tx_last_i);
        tx_bytes_q   <= tx_bytes_q + 64'(tx_len_i);
      end
      if (rx_beat_i) rx_bytes_q <= rx_bytes_q + 64'(rx_len_i);
      if (sent_i && (sent_kind_i == TxAck)) begin
        if (sent_syndrome_i[6:5] == 2'b01) rnr_sent_q <= rnr_sent_q + 1'b1;
        if (sent_syndrome_i[6:5] == 2'b11) nak_sent_q <= nak_sent_q + 1'b1;
        if (sent_syndrome_i == NakPsnSequence) seq_sent_q <= seq_sent_q + 1'b1;
      end
      if (nak_rcvd && (rxd_class_i == 2'b01)) rnr_rcvd_q <= rnr_rcvd_q + 1'b1;
      if (nak_rcvd && (rxd_class_i == 2'b11)) nak_rcvd_q <= nak_rcvd_q + 1'b1;
      if (rewind_i) rewinds_q <= rewinds_q + 1'b1;
      if (dup_i) dups_q <= dups_q + 1'b1;
      if (timeout_i) timeouts_q <= timeouts_q + 1'b1;
    end
  end

  assign counters_o[0]  = tx_packets_q;
  assign counters_o[1]  = tx_bytes_q;
  assign counters_o[2]  = 64'(rx_good_i);
  assign counters_o[3]  = rx_bytes_q;
  assign counters_o[4]  = 64'(rx_icrc_err_i) + 64'(rx_vcrc_err_i);
  assign counters_o[5]  = 64'(rx_dropped_i);
  assign counters_o[6]  = 64'(rx_malformed_i);
  assign counters_o[7]  = 64'(pkey_viol_i);
  assign counters_o[8]  = '0;                  // Q_Key violations: no datagram service yet
  assign counters_o[9]  = seq_sent_q;          // gaps seen: one NAK each
  assign counters_o[10] = dups_q;              // requests seen before
  assign counters_o[11] = rnr_sent_q;
  assign counters_o[12] = rnr_rcvd_q;
  assign counters_o[13] = nak_sent_q;
  assign counters_o[14] = nak_rcvd_q;
  assign counters_o[15] = timeouts_q;          // transport timers expired
  assign counters_o[16] = rewinds_q;           // times transmission went back
endmodule
