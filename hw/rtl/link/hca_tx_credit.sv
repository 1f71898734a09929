// Credits of one VL at its sender (IBA vol1 7.9.4): blocks sent (FCTBS) and blocks the peer has promised to take
// (FCCL), both modulo 4096. Without a promise nothing may be sent, nor while the peer initialises, for it would drop
// the packet. A packet that was allowed is charged with send_i, in the same or a later cycle, before the next one asks.
module hca_tx_credit
  import hca_link_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic               clear_i,         // the link is down: no promises, count from 0
  input  logic               upd_i,           // the peer's flow control packet
  input  logic               upd_init_i,
  input  logic [11:0]        upd_fccl_i,
  input  logic [BlocksW-1:0] ask_blocks_i,    // may a packet of so many blocks go?
  output logic               ok_o,
  input  logic               send_i,
  input  logic [BlocksW-1:0] send_blocks_i,
  output logic [11:0]        fctbs_o,
  output logic [11:0]        left_o           // blocks that may still be sent
);

  logic        promised_q;
  logic [11:0] fctbs_q, fccl_q;

  always_ff @(posedge clk_i) begin
    if (rst_i || clear_i) begin
      promised_q <= 1'b0;
      fctbs_q    <= '0;
      fccl_q     <= '0;
    end else begin
      if (send_i) fctbs_q <= fctbs_q + 12'(send_blocks_i);
      if (upd_i) begin
        promised_q <= !upd_init_i;
        fccl_q     <= upd_fccl_i;
      end
    end
  end

  assign ok_o    = promised_q && credit_ok(fccl_q, fctbs_q, ask_blocks_i);
  assign fctbs_o = fctbs_q;
  assign left_o  = promised_q ? credits_left(fccl_q, fctbs_q) : 12'd0;

endmodule
