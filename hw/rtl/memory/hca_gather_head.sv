// Lets packet descriptors out in order: one without payload at once, one with payload when all of it has
// arrived. A failed packet becomes one error message instead, and behind it, if it was a READ response, the NAK that
// takes its place in the stream. Tells hca_gather_data what to do with the payload of each packet that has segments.
module hca_gather_head
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        txp_valid_i,
  output logic        txp_ready_o,
  input  txp_t        txp_i,
  input  logic        status_valid_i,
  output logic        status_ready_o,
  input  xl_err_e     status_i,
  output logic        txp_valid_o,
  input  logic        txp_ready_i,
  output txp_t        txp_o,
  output logic        cmd_valid_o,
  input  logic        cmd_ready_i,
  output logic        cmd_drop_o,
  output logic [12:0] cmd_bytes_o,
  output logic        err_valid_o,
  input  logic        err_ready_i,
  output pipe_msg_t   err_o
);

  logic complete, failed, naks, told_q, sent;
  logic refused;  // the answer of an atomic that found no memory: a NAK from the start

  // Room for the command is there before a packet is offered, so that both leave together.
  assign complete = txp_valid_i && txp_i.has_payload && status_valid_i && cmd_ready_i;
  assign failed   = status_i != XlOk;

  assign naks     = txp_i.kind == TxRead;
  assign refused  = naks && !txp_i.has_payload && txp_i.opcode == BthRcAcknowledge;

  assign txp_valid_o    = (txp_valid_i && !txp_i.has_payload && (!refused || told_q))
                          || (complete && (!failed || told_q));
  assign err_valid_o    = ((complete && failed) || (txp_valid_i && refused)) && !told_q;
  assign sent           = (txp_valid_o && txp_ready_i) || (err_valid_o && err_ready_i && !naks);
  assign txp_ready_o    = sent;
  assign status_ready_o = sent && txp_i.has_payload;
  assign cmd_valid_o    = status_ready_o;
  assign cmd_drop_o     = failed;
  assign cmd_bytes_o    = txp_i.payload_bytes;

  always_ff @(posedge clk_i) begin
    if (rst_i || sent) told_q <= 1'b0;
    else if (err_valid_o && err_ready_i) told_q <= 1'b1;
  end

  // Segments of zero bytes in all (a check only): nothing follows on pay.
  always_comb begin
    txp_o             = txp_i;
    txp_o.has_payload = txp_i.has_payload && (txp_i.payload_bytes != '0);
    if (told_q && !refused) begin
      txp_o.kind          = TxAck;
      txp_o.opcode        = BthRcAcknowledge;
      txp_o.has_payload   = 1'b0;
      txp_o.payload_bytes = '0;
      txp_o.aeth_syndrome = (status_i == XlDma) ? NakRemoteOperational : NakRemoteAccess;
    end
  end

  always_comb begin
    err_o           = '0;
    err_o.qpn       = txp_i.qpn;
    err_o.wqe_index = txp_i.wqe_index;
    err_o.syndrome  = refused ? 8'(XlDma) : 8'(status_i);
    if (txp_i.kind == TxRead) begin
      err_o.kind   = MsgReqError;
      err_o.status = (refused || status_i == XlDma) ? WcRemOpErr : WcRemAccessErr;
    end else begin
      err_o.kind   = MsgSqError;
      err_o.status = WcLocProtErr;
    end
  end

endmodule
