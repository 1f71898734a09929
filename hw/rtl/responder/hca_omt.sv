// Outstanding message table: one row per unacknowledged send WQE, in blocks of a pool, and per QP the high-water marks
// of what the requester has emitted. Written by `omt` only (one record per two cycles; init_i goes first). A record
// that repeats an earlier packet (retransmission) changes nothing. A QP whose blocks have come back sends none before
// init_i: the requester has its context write before.
module hca_omt
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            omt_valid_i,
  output logic            omt_ready_o,
  input  omt_wr_t         omt_i,
  output logic            room_o,       // QPs with something outstanding may take a further block of rows
  // The QP of clear, init and ask.
  input  logic [QpW-1:0]  qpn_i,
  // Its blocks come back; held until clear_done_o. clear_init_i: init_i comes then.
  input  logic            clear_i,
  input  logic            clear_init_i,
  input  logic            clear_quiet_i,  // nothing of it is outstanding, and clear_init_i
  input  logic            peek_i,         // with clear_quiet_i: clear_i may be next
  output logic            clear_done_o,
  // Send queue (re)initialised: nothing of it is outstanding, it goes on from init_mark_i.
  input  logic            init_i,
  input  hw_mark_t        init_mark_i,
  // Reads; data in the next cycle, held.
  input  logic            mark_en_i,
  input  logic [QpW-1:0]  mark_qpn_i,
  output hw_mark_t        mark_o,
  input  omt_ask_t        ask_i,
  output omt_row_t        row_o,
  output logic [MsgBlkW-1:0] blk_o,
  input  logic            tmr_en_i,
  input  logic [QpW-1:0]  tmr_qpn_i,
  output logic [23:0]     tmr_psn_o
);

  // Marks, and the block of the newest WQE if it has one: an initialised queue may go on amid a block.
  typedef struct packed {
    logic               has_blk;
    logic [MsgBlkW-1:0] blk;
    hw_mark_t           mark;
  } own_t;

  logic           accept, upd_q, upd_we, alloc, stall, we, ready, alloc_ready, mark_look, same_wqe, same_psn,
                  unused_in;
  logic [QpW-1:0] upd_qpn_q, waddr, scrub;
  wqe_idx_t       upd_wqe_q;
  logic [15:0]    ahead;
  logic [23:0]    further;
  own_t           new_own, old, wdata;
  hw_mark_t       new_q;
  logic [MsgBlkW-1:0] alloc_blk;
  // No lawful opcode has more bits.
  localparam int unsigned OpcodeW = 4;
  localparam int unsigned StoredW = $bits(omt_row_t) - 8 + OpcodeW;

  logic [StoredW-1:0] row_q, row;

  assign unused_in   = ^{omt_i.first, ahead[14:0], further[22:0]};
  assign omt_ready_o = !upd_q && ready && !mark_look;
  assign accept      = omt_valid_i && omt_ready_o;

  // ---- High-water marks: read, compare, write ------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) upd_q <= 1'b0;
    else if (accept) upd_q <= 1'b1;
    else if (!init_i && !stall) upd_q <= 1'b0;
    if (accept) begin
      upd_qpn_q <= omt_i.qpn;
      upd_wqe_q <= omt_i.wqe_index;
      new_q     <= '{wqe: omt_i.wqe_index + 1'b1, psn: omt_i.next_psn};
      row_q     <= {is_answered(omt_i.opcode), omt_i.opcode[OpcodeW-1:0], omt_i.signaled, omt_i.last_psn,
                    omt_i.len_bytes};
    end
  end

  // A WQE further on, or further inside the same WQE. They are never further apart than WQEs may be outstanding.
  hca_same #(
    .Width(16)
  ) u_same_wqe (
    .a_i   (new_q.wqe[15:0]),
    .b_i   (old.mark.wqe[15:0]),
    .same_o(same_wqe)
  );

  hca_same #(
    .Width(24)
  ) u_same_psn (
    .a_i   (new_q.psn),
    .b_i   (old.mark.psn),
    .same_o(same_psn)
  );

  assign ahead   = new_q.wqe[15:0] - old.mark.wqe[15:0];
  assign further = new_q.psn - old.mark.psn;
  // Beside init_i the pool gives none (clear_done_o): that is late.
  assign alloc   = upd_q && !same_wqe && !ahead[15] && (upd_wqe_q[MsgRowW-1:0] == '0 || !old.has_blk);
  assign stall   = alloc && !alloc_ready;   // some cycles for each block
  assign upd_we  = upd_q && !stall && !init_i
                   && (same_wqe ? !same_psn && !further[23] : !ahead[15]);
  assign new_own = '{has_blk: 1'b1, blk: alloc ? alloc_blk : old.blk, mark: new_q};

  assign we    = init_i || upd_we || !ready;
  assign waddr = !ready ? scrub : init_i ? qpn_i : upd_qpn_q;
  assign wdata = !ready ? '0 : init_i ? '{has_blk: 1'b0, blk: '0, mark: init_mark_i} : new_own;

  hca_ram_1r1w #(
    .Width($bits(own_t)),
    .Depth(NumQps)
  ) u_mark_own (
    .clk_i,
    .we_i   (we),
    .waddr_i(waddr),
    .wdata_i(wdata),
    .re_i   (accept || mark_look),
    .raddr_i(mark_look ? qpn_i : omt_i.qpn),
    .rdata_o(old)
  );

  hca_ram_1r1w #(
    .Width($bits(hw_mark_t)),
    .Depth(NumQps)
  ) u_mark_ctrl (
    .clk_i,
    .we_i   (we),
    .waddr_i(waddr),
    .wdata_i(wdata.mark),
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
    .wdata_i(wdata.mark.psn),
    .re_i   (tmr_en_i),
    .raddr_i(tmr_qpn_i),
    .rdata_o(tmr_psn_o)
  );

  // ---- Rows ----------------------------------------------------------------------------------------
  // What went on amid a block and has begun nothing since has no part of that block.
  wqe_idx_t begun;
  assign begun = {old.mark.wqe[WqeIndexBits-1:MsgRowW], old.has_blk ? old.mark.wqe[MsgRowW-1:0] : MsgRowW'(0)};

  hca_msg_pool u_pool (
    .clk_i,
    .rst_i,
    .room_o,
    .ready_o      (ready),
    .scrub_o      (scrub),
    .alloc_ready_o(alloc_ready),
    .alloc_blk_o  (alloc_blk),
    .alloc_i      (alloc),
    .alloc_qpn_i  (upd_qpn_q),
    .alloc_wqe_i  (upd_wqe_q),
    .alloc_tail_i (old.blk),
    .map_en_i     (ask_i.map_en),
    .qpn_i,
    .map_blk_o    (blk_o),
    .next_en_i    (ask_i.next_en),
    .next_of_i    (ask_i.blk),
    .free_i       (ask_i.free),
    .free_blk_i   (ask_i.free_blk),
    .free_wqe_i   (ask_i.free_wqe),
    .clear_i,
    .clear_init_i, .clear_quiet_i, .peek_i,
    .clear_wqe_i  (init_mark_i.wqe),
    .clear_done_o,
    .mark_ready_i (!upd_q),
    .mark_en_o    (mark_look),
    .mark_wqe_i   (begun)
  );

  assign row_o = {row[StoredW-1], (8 - OpcodeW)'(0), row[StoredW-2:0]};

  hca_ram_deep #(
    .Width(StoredW),
    .Depth(MsgBlocks * MsgBlockRows)
  ) u_rows (
    .clk_i,
    .we_i   (upd_we && !same_wqe),
    .waddr_i({new_own.blk, upd_wqe_q[MsgRowW-1:0]}),
    .wdata_i(row_q),
    .re_i   (ask_i.row_en),
    .raddr_i({ask_i.blk, ask_i.wqe[MsgRowW-1:0]}),
    .rdata_o(row)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!accept || omt_i.opcode < 8'(1 << OpcodeW)) else $error("hca_omt: no lawful opcode");
    if (!rst_i) assert (!init_i || clear_done_o || !upd_q) else $error("hca_omt: a QP begins that has not ended");
  end

  // Its blocks may be another QP's already.
  logic [NumQps-1:0] ended_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) ended_q <= '0;
    else if (init_i) ended_q[qpn_i] <= 1'b0;
    else if (clear_i && clear_done_o) ended_q[qpn_i] <= 1'b1;
    if (!rst_i) assert (!accept || !ended_q[omt_i.qpn]) else $error("hca_omt: a QP that has ended begins a message");
  end
`endif

endmodule
