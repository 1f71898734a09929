// Outstanding message table: one row per unacknowledged send WQE, and per QP the high-water marks of what
// the requester has emitted. Written by `omt` only (one record per two cycles; init_i goes first). A record
// that repeats an earlier packet (retransmission) rewrites its row but does not move the marks back.
module hca_omt
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            omt_valid_i,
  output logic            omt_ready_o,
  input  omt_wr_t         omt_i,
  // Send queue (re)initialised: nothing emitted, next PSN is init_psn_i.
  input  logic            init_i,
  input  logic [QpW-1:0]  init_qpn_i,
  input  logic [23:0]     init_psn_i,
  // Reads; data in the next cycle, held.
  input  logic            mark_en_i,
  input  logic [QpW-1:0]  mark_qpn_i,
  output hw_mark_t        mark_o,
  input  logic            row_en_i,
  input  logic [QpW-1:0]  row_qpn_i,
  input  logic [OmtW-1:0] row_wqe_i,
  output omt_row_t        row_o,
  input  logic            tmr_en_i,
  input  logic [QpW-1:0]  tmr_qpn_i,
  output logic [23:0]     tmr_psn_o
);

  logic           accept, upd_q, upd_we, we, unused_in;
  logic [QpW-1:0] upd_qpn_q, waddr;
  hw_mark_t       new_q, old, wdata;
  logic [15:0]    ahead;
  logic [23:0]    further;
  omt_row_t       row;

  assign unused_in   = omt_i.first;
  assign omt_ready_o = !upd_q;
  assign accept      = omt_valid_i && omt_ready_o;

  assign row = '{opcode: omt_i.opcode, signaled: omt_i.signaled, last_psn: omt_i.last_psn,
                 len_bytes: omt_i.len_bytes};

  hca_ram_1r1w #(
    .Width($bits(omt_row_t)),
    .Depth(NumQps * MaxOutstanding)
  ) u_rows (
    .clk_i,
    .we_i   (accept),
    .waddr_i({omt_i.qpn, omt_i.wqe_index[OmtW-1:0]}),
    .wdata_i(row),
    .re_i   (row_en_i),
    .raddr_i({row_qpn_i, row_wqe_i}),
    .rdata_o(row_o)
  );

  // ---- High-water marks: read, compare, write ------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) upd_q <= 1'b0;
    else if (accept) upd_q <= 1'b1;
    else if (!init_i) upd_q <= 1'b0;
    if (accept) begin
      upd_qpn_q <= omt_i.qpn;
      new_q     <= '{wqe: omt_i.wqe_index + 16'd1, psn: omt_i.next_psn};
    end
  end

  // A WQE further on, or further inside the same WQE.
  assign ahead   = new_q.wqe - old.wqe;
  assign further = new_q.psn - old.psn;
  assign upd_we  = upd_q && ((ahead != '0) ? !ahead[15] : (further != '0 && !further[23]));
  assign we     = init_i || upd_we;
  assign waddr  = init_i ? init_qpn_i : upd_qpn_q;
  assign wdata  = init_i ? '{wqe: '0, psn: init_psn_i} : new_q;

  hca_ram_1r1w #(
    .Width($bits(hw_mark_t)),
    .Depth(NumQps)
  ) u_mark_own (
    .clk_i,
    .we_i   (we),
    .waddr_i(waddr),
    .wdata_i(wdata),
    .re_i   (accept),
    .raddr_i(omt_i.qpn),
    .rdata_o(old)
  );

  hca_ram_1r1w #(
    .Width($bits(hw_mark_t)),
    .Depth(NumQps)
  ) u_mark_ctrl (
    .clk_i,
    .we_i   (we),
    .waddr_i(waddr),
    .wdata_i(wdata),
    .re_i   (mark_en_i),
    .raddr_i(mark_qpn_i),
    .rdata_o(mark_o)
  );

  hca_ram_1r1w #(
    .Width(24),
    .Depth(NumQps)
  ) u_mark_tmr (
    .clk_i,
    .we_i   (we),
    .waddr_i(waddr),
    .wdata_i(wdata.psn),
    .re_i   (tmr_en_i),
    .raddr_i(tmr_qpn_i),
    .rdata_o(tmr_psn_o)
  );

endmodule
