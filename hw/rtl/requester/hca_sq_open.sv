// Asks the fetcher for the WQEs of a QP that has just got its slot, beside the emitter's turns: that slot's first turn
// finds them there. One slot at a time, three cycles and those in which the emitter has the tables or the fetcher. The
// slot may have turns from done_o on. A send queue that begins, or goes on from host memory, does so at its oldest
// WQE. If a position moves otherwise, if nothing is posted, or if the QP may not send, nothing is asked for, and the
// emitter sees to it in that turn (asked_o is 0 with done_o).
// No context write falls into it (idle_o): what it has read is true. An acknowledge or a doorbell may; that is news for
// the slot's first turn.
module hca_sq_open
  import hca_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  // Strobe: the slot has this QP, and what was posted to it. Only while ready_o.
  input  logic             bind_i,
  input  logic [SlotW-1:0] bind_slot_i,
  input  logic [QpW-1:0]   bind_qpn_i,
  input  wqe_idx_t         bind_pi_i,
  input  push_t            bind_push_i,
  output logic             ready_o,
  output logic             idle_o,       // nothing is under way
  // Context of the QP, one cycle after re_o; the emitter goes first.
  input  logic             busy_i,
  output logic             re_o,
  output logic [QpW-1:0]   qpn_o,
  input  sq_qpc_t          ctx_qpc_i,
  input  sq_ack_t          ctx_ack_i,
  input  sq_dyn_t          ctx_dyn_i,
  // To the fetcher, while the emitter tells it nothing.
  input  logic             quiet_i,
  output sq_ask_t          ask_o,
  output logic             done_o,       // strobe
  output logic             asked_o,
  output logic [SlotW-1:0] slot_o
);

  typedef enum logic [1:0] {StIdle, StRead, StCtx, StLook} state_e;

  state_e   state_q;
  push_t    push_q;
  wqe_idx_t pi_q, idx_q;
  sq_ring_t ring_q;
  sq_news_t news;
  logic     begins, asked, unused_bits;   // begins: the emitter will move it to its oldest WQE

  assign unused_bits = ^{ctx_qpc_i, ctx_ack_i, ctx_dyn_i, news};

  hca_sq_news u_news (.qpc_i(ctx_qpc_i), .ack_i(ctx_ack_i), .dyn_i(ctx_dyn_i), .pi_i(pi_q), .news_o(news));

  always_comb begin
    begins = ctx_ack_i.init && ctx_ack_i.seq != ctx_dyn_i.seq;
    asked  = news.state_ok && !ctx_ack_i.halt;
    if (begins) asked &= !news.pi_far && pi_q != ctx_ack_i.una_wqe;
    else asked &= !news.moves && !ctx_dyn_i.err && !news.pi_bad && !news.idle;
  end

  assign ready_o = state_q == StIdle;
  assign idle_o  = state_q == StIdle && !bind_i;
  assign re_o    = state_q == StRead && !busy_i;
  assign done_o  = state_q == StLook && quiet_i;
  assign ask_o   = '{restart: done_o && asked_o, limit: done_o && asked_o, ring: ring_q, idx: idx_q, pi: pi_q,
                     push: push_q};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle: if (bind_i) state_q <= StRead;
        StRead: if (re_o) state_q <= StCtx;
        StCtx:  state_q <= StLook;
        default: if (done_o) state_q <= StIdle;
      endcase
    end
    if (bind_i) {slot_o, qpn_o, pi_q, push_q} <= {bind_slot_i, bind_qpn_i, bind_pi_i, bind_push_i};
    if (state_q == StCtx) begin
      asked_o <= asked;
      idx_q   <= begins ? ctx_ack_i.una_wqe : ctx_dyn_i.wqe;
      ring_q  <= '{func: ctx_qpc_i.func, base: ctx_qpc_i.base, log_size: ctx_qpc_i.log_size,
                   log_stride: ctx_qpc_i.log_stride};
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!bind_i || ready_o) else $error("hca_sq_open: slot %0d comes too early", bind_slot_i);
  end
`endif

endmodule
