// What hca_resp_sched sends of a QP whose row, context and job are there: a packet of the job, or its acknowledge, and
// how many bytes that is on the wire. A register behind each stream. Stalls show in the free outputs: who sees one does
// not send.
module hca_resp_out
  import hca_pkg::*, hca_features_pkg::*, hca_rx_resp_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           send_read_i,   // strobe: a packet of the job
  input  logic           send_ack_i,    // strobe: the acknowledge of the row
  input  logic [QpW-1:0] qpn_i,
  input  logic [15:0]    seq_i,         // resp_seq of the packet
  input  resp_row_t      row_i,
  input  resp_ctx_t      ctx_i,
  input  resp_job_t      job_i,
  input  logic [23:0]    psn_i,         // of the packet:
  input  logic [31:0]    off_i,         // bytes of the job before it
  input  logic [12:0]    bytes_i,       // its payload
  input  logic           has_payload_i,
  input  logic           is_last_i,
  output logic           txp_free_o,
  output logic           txp_valid_o,
  input  logic           txp_ready_i,
  output txp_t           txp_o,
  output logic           seg_free_o,
  output logic           seg_valid_o,
  input  logic           seg_ready_i,
  output seg_t           seg_o,
  output logic           ack_free_o,
  output logic           ack_valid_o,
  input  logic           ack_ready_i,
  output txp_t           ack_o,
  output logic [12:0]    wire_bytes_o,  // of the packet
  output tx_made_t       made_o         // of whatever is sent
);

  txp_t       txp, ack;
  seg_t       seg;
  logic [6:0] rest;
  logic       unused_carry, unused_bits;

  assign unused_bits = ^{row_i, ctx_i, job_i};

  // The payload, up to four bytes, and the rest: one addition with a carry. Only answers of atomics have no payload
  // and more than an AETH.
  assign rest = ctx_i.ack_bytes + (job_i.atomic ? 7'(AtomicAckEthBytes) : '0);
  assign {wire_bytes_o[12:2], unused_carry} = {bytes_i[12:2], 1'b1} + {6'd0, rest[6:2], bytes_i[1:0] != 2'b00};
  assign wire_bytes_o[1:0] = rest[1:0];

  always_comb begin
    txp               = '0;
    txp.kind          = TxRead;
    txp.qpn           = qpn_i;
    txp.psn           = psn_i;
    txp.payload_bytes = bytes_i;
    txp.has_payload   = has_payload_i;
    txp.aeth_syndrome = {3'b000, job_i.credits};
    txp.aeth_msn      = job_i.msn;
    txp.resp_seq      = seq_i;
    unique case ({row_i.jobs.partly, is_last_i})
      2'b01:   txp.opcode = BthRcReadResponseOnly;
      2'b00:   txp.opcode = BthRcReadResponseFirst;
      2'b11:   txp.opcode = BthRcReadResponseLast;
      default: txp.opcode = BthRcReadResponseMiddle;
    endcase
    if (job_i.atomic) begin
      txp.opcode   = BthRcAtomicAcknowledge;
      txp.swap_add = job_i.va;
    end
    if (job_i.failed) begin  // hca_gather_head raises the error
      txp.opcode        = BthRcAcknowledge;
      txp.aeth_syndrome = NakRemoteOperational;
    end
    seg           = '0;
    seg.access    = AccRemoteRead;
    seg.func      = ctx_i.func;
    seg.pd        = ctx_i.pd;
    seg.qpn       = {ctx_i.gen, qpn_i};
    seg.key       = job_i.rkey;
    seg.va        = job_i.va + 64'(off_i);
    seg.len_bytes = bytes_i;
    seg.chk_bytes = 32'(bytes_i);
    seg.last      = 1'b1;
    ack               = '0;
    ack.kind          = TxAck;
    ack.qpn           = qpn_i;
    ack.opcode        = BthRcAcknowledge;
    ack.psn           = row_i.ack_psn;
    ack.aeth_syndrome = row_i.ack_syndrome;
    ack.aeth_msn      = row_i.ack_msn;
  end

  hca_skid #(.Width($bits(txp_t))) u_txp (
    .clk_i, .rst_i, .in_valid_i(send_read_i), .in_ready_o(txp_free_o), .in_i(txp_built(txp)),
    .out_valid_o(txp_valid_o), .out_ready_i(txp_ready_i), .out_o(txp_o)
  );

  hca_skid #(.Width($bits(seg_t))) u_seg (
    .clk_i, .rst_i, .in_valid_i(send_read_i && has_payload_i), .in_ready_o(seg_free_o), .in_i(seg),
    .out_valid_o(seg_valid_o), .out_ready_i(seg_ready_i), .out_o(seg_o)
  );

  hca_skid #(.Width($bits(txp_t))) u_ack (
    .clk_i, .rst_i, .in_valid_i(send_ack_i), .in_ready_o(ack_free_o), .in_i(ack), .out_valid_o(ack_valid_o),
    .out_ready_i(ack_ready_i), .out_o(ack_o)
  );

  assign made_o = '{gathered: send_read_i, lane: ctx_i.lane, group: ctx_i.group, interval: ctx_i.interval,
                    bytes: send_read_i ? wire_bytes_o : 13'(ctx_i.ack_bytes)};

endmodule
