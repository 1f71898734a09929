// Round trips: of each QP one request at a time, from its way through the header stage to the acknowledge that covers
// it. A request that comes while another table access is under way is not timed; a retransmission voids what was begun.
module hca_cc_rtt
  import hca_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [63:0]      now_i,
  input  logic             sent_i,       // strobe: a request that asks for an acknowledge
  input  logic [QpW-1:0]   sent_qpn_i,
  input  logic [23:0]      sent_psn_i,
  input  logic [PortW-1:0] sent_port_i,  // a cycle later
  input  logic             upd_i,        // strobe
  input  ack_upd_t         upd_data_i,
  input  logic             init_i,       // strobe: this QP begins
  input  logic [QpW-1:0]   init_qpn_i,
  output logic             rtt_o,        // strobe
  output logic [QpW-1:0]   rtt_qpn_o,
  output logic [PortW-1:0] rtt_port_o,
  output logic [19:0]      rtt_cycles_o
);

  localparam int unsigned TimeW = 24;

  typedef struct packed {
    logic             live;
    logic [PortW-1:0] port;
    logic [23:0]      psn;
    logic [TimeW-1:0] at;
  } row_t;

  row_t             row, row_new;
  logic             take, busy_q, is_upd_q, rewind_q, begins, ends, unused_in;
  logic [QpW-1:0]   qpn, qpn_q;
  logic [23:0]      psn_q;
  logic [TimeW-1:0] now_q, took;

  assign unused_in = ^{now_i, upd_data_i};
  assign take      = !busy_q && (upd_i || sent_i);
  assign qpn       = upd_i ? upd_data_i.qpn : sent_qpn_i;
  assign took      = now_q - row.at;
  assign begins    = busy_q && !is_upd_q && !row.live;
  assign ends      = busy_q && is_upd_q && row.live && (rewind_q || psn_ge(psn_q, row.psn + 24'd1));
  assign row_new   = '{live: begins && !init_i, port: sent_port_i, psn: psn_q, at: now_q};

  always_ff @(posedge clk_i) begin
    busy_q <= take && !rst_i;
    if (take) begin
      is_upd_q <= upd_i;
      rewind_q <= upd_data_i.rewind;
      qpn_q    <= qpn;
      psn_q    <= upd_i ? upd_data_i.una_psn : sent_psn_i;
      now_q    <= now_i[TimeW-1:0];
    end
    rtt_o <= ends && !rewind_q && !init_i && !rst_i;
    rtt_qpn_o    <= qpn_q;
    rtt_port_o   <= row.port;
    rtt_cycles_o <= (took[TimeW-1:20] != '0) ? '1 : took[19:0];
  end

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumQps)
  ) u_rows (
    .clk_i,
    .we_i   (init_i || begins || ends),
    .waddr_i(init_i ? init_qpn_i : qpn_q),
    .wdata_i(row_new),
    .re_i   (take),
    .raddr_i(qpn),
    .rdata_o(row)
  );

endmodule
