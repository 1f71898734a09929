// The packets of hca_resp_sched: a READ response or the answer of an atomic, with the segment that it takes from memory,
// or an acknowledge. Combinational up to the three queues of two at the outlets.
module hca_resp_out
  import hca_pkg::*, hca_resp_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           read_i,        // the packet pkt_i leaves; only while `read_room_o`
  input  resp_pkt_t      pkt_i,
  input  logic           is_last_i,     // of its job
  input  logic           ack_i,         // the acknowledge of the row; only while `ack_room_o`
  input  logic [QpW-1:0] qpn_i,
  input  resp_row_t      row_i,
  input  resp_ctx_t      ctx_i,
  input  logic [15:0]    resp_seq_i,
  output logic           read_room_o,
  output logic           ack_room_o,
  output tx_made_t       made_o,
  output logic           txp_valid_o,
  input  logic           txp_ready_i,
  output txp_t           txp_o,
  output logic           seg_valid_o,
  input  logic           seg_ready_i,
  output seg_t           seg_o,
  output logic           ack_valid_o,
  input  logic           ack_ready_i,
  output txp_t           ack_o
);

  localparam logic [7:0] NoCredits = 8'h1f;  // AETH syndrome: ACK, credit count not in use

  txp_t        txp, ack;
  seg_t        seg;
  logic        txp_room, seg_room, unused_bits;
  logic [12:0] mtu, bytes;

  assign unused_bits = ^{row_i, ctx_i, pkt_i};
  assign mtu         = mtu_bytes(ctx_i.path_mtu);
  assign bytes       = is_last_i ? pkt_i.left[12:0] : mtu;
  assign read_room_o = txp_room && seg_room;

  always_comb begin
    txp               = '0;
    txp.kind          = TxRead;
    txp.qpn           = qpn_i;
    txp.psn           = pkt_i.psn;
    txp.payload_bytes = bytes;
    txp.has_payload   = !pkt_i.none;
    txp.aeth_syndrome = NoCredits;
    txp.aeth_msn      = pkt_i.msn;
    txp.resp_seq      = resp_seq_i;
    unique case ({pkt_i.first, is_last_i})
      2'b11:   txp.opcode = BthRcReadResponseOnly;
      2'b10:   txp.opcode = BthRcReadResponseFirst;
      2'b01:   txp.opcode = BthRcReadResponseLast;
      default: txp.opcode = BthRcReadResponseMiddle;
    endcase
    if (pkt_i.atomic) begin
      txp.opcode   = BthRcAtomicAcknowledge;
      txp.swap_add = pkt_i.va;
    end
    if (pkt_i.failed) begin  // hca_gather_head raises the error
      txp.opcode        = BthRcAcknowledge;
      txp.aeth_syndrome = NakRemoteOperational;
    end
    seg           = '0;
    seg.access    = AccRemoteRead;
    seg.func      = ctx_i.func;
    seg.pd        = ctx_i.pd;
    seg.qpn       = {ctx_i.gen, qpn_i};
    seg.key       = pkt_i.rkey;
    seg.va        = pkt_i.va;
    seg.len_bytes = bytes;
    seg.chk_bytes = 32'(bytes);
    seg.last      = 1'b1;
    ack               = '0;
    ack.kind          = TxAck;
    ack.qpn           = qpn_i;
    ack.opcode        = BthRcAcknowledge;
    ack.psn           = row_i.ack_psn;
    ack.aeth_syndrome = row_i.ack_syndrome;
    ack.aeth_msn      = row_i.ack_msn;
  end

  assign made_o = tx_made_of(read_i ? txp : ack, ctx_i.path);

  hca_skid #(.Width($bits(txp_t))) u_txp (
    .clk_i, .rst_i,
    .in_valid_i (read_i),
    .in_ready_o (txp_room),
    .in_i       (txp),
    .out_valid_o(txp_valid_o),
    .out_ready_i(txp_ready_i),
    .out_o      (txp_o)
  );

  hca_skid #(.Width($bits(seg_t))) u_seg (
    .clk_i, .rst_i,
    .in_valid_i (read_i && txp.has_payload),
    .in_ready_o (seg_room),
    .in_i       (seg),
    .out_valid_o(seg_valid_o),
    .out_ready_i(seg_ready_i),
    .out_o      (seg_o)
  );

  hca_skid #(.Width($bits(txp_t))) u_ack (
    .clk_i, .rst_i,
    .in_valid_i (ack_i),
    .in_ready_o (ack_room_o),
    .in_i       (ack),
    .out_valid_o(ack_valid_o),
    .out_ready_i(ack_ready_i),
    .out_o      (ack_o)
  );

endmodule
