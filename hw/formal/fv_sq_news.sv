// Proof of hca_sq_news, the bookkeeping of retransmission, against numbers that never wrap: PSNs and WQE indices of
// the card are their low bits. Without a rewind the position moves only forward, and exactly when an acknowledge is
// ahead of it; with one it goes to the oldest unacknowledged packet, wherever it was. A producer index is refused
// exactly when it is more than a ring ahead of the oldest WQE, or behind the position. What hca_sq_context makes of a
// position that has moved is what hca_sq_news says of it: it has settled, and pi_far is all that can be wrong.
module fv_sq_news
  import hca_pkg::*;
  import hca_sq_pkg::*;
(
  input logic        clk_i,
  input sq_qpc_t     qpc_i,
  input logic        init_i,
  input logic        halt_i,
  input logic [7:0]  ack_seq_i,
  input logic [7:0]  dyn_seq_i,
  input logic [31:0] una_psn_i,    // true numbers
  input logic [31:0] first_psn_i,  // of the oldest WQE
  input logic [31:0] psn_i,
  input logic [23:0] una_wqe_i,
  input logic [23:0] wqe_i,
  input logic [23:0] pi_i,
  input logic [31:0] offset_i,
  input logic        err_i,
  input logic        retx_i,
  input wqe_idx_t    started_i,
  input logic [MissingW-1:0] count_i,     // packets that the rewind asks for; 0: all
  input logic        again_i,      // some are being sent again alone, and all of them have been
  input logic [31:0] back_psn_i,   // and there it goes on
  input logic [23:0] back_wqe_i,
  input logic [31:0] back_offset_i
);
  // Numbers of a QP lie near one another: a window of PSNs and of WQEs begun; what is posted may be a full ring ahead.
  // A READ alone may have half of all PSNs: behind it and in front of it look the same, and WQEs tell.
  localparam logic [31:0] Base = 32'h40ff_0000;      // the low bits wrap in what follows
  localparam logic [31:0] Half = 32'h80_0000;
  localparam logic [23:0] BaseWqe = 24'h41_f000;

  sq_ack_t     ack;
  sq_dyn_t     dyn, redo;
  sq_news_t    news, settled;
  sq_back_t    back;
  logic        state_ok, moves, pi_bad, rewound, ahead, near, same, few, returns;
  logic [23:0] entries;
  logic [31:0] behind_first;

  assign ack = '{init: init_i, halt: halt_i, seq: ack_seq_i, again: count_i, round: '0,
                 una_wqe: una_wqe_i[WqeIndexBits-1:0], una_first_psn: first_psn_i[23:0],
                 una_psn: una_psn_i[23:0], rd_done: '0, credit: '0};
  assign dyn = '{err: err_i, retx: retx_i, seq: dyn_seq_i, wqe: wqe_i[WqeIndexBits-1:0], started: started_i,
                 psn: psn_i[23:0], offset: offset_i, local_op: 1'b0, rd_issued: '0};

  hca_sq_news u_dut (.qpc_i, .ack_i(ack), .dyn_i(dyn), .pi_i(pi_i[WqeIndexBits-1:0]), .news_o(news));

  hca_sq_redo u_redo (.qpc_i, .ack_i(ack), .dyn_i(dyn), .moves_i(moves), .again_i, .back_i(back), .redo_o(redo),
                      .few_o(few), .returns_o(), .same_o(same));

  hca_sq_news u_settled (.qpc_i, .ack_i(ack), .dyn_i(redo), .pi_i(pi_i[WqeIndexBits-1:0]), .news_o(settled));

  assign state_ok = news.state_ok;
  assign moves    = news.moves || again_i;
  assign back     = '{wqe: back_wqe_i[WqeIndexBits-1:0], psn: back_psn_i[23:0], offset: back_offset_i, rd_issued: '0};
  // Back to where it was, unless that has been acknowledged.
  assign returns  = again_i && !rewound && una_psn_i <= back_psn_i && una_wqe_i <= back_wqe_i;
  assign pi_bad   = news.pi_bad;

  assign rewound      = ack_seq_i != dyn_seq_i;
  assign ahead        = una_psn_i > psn_i || una_wqe_i > wqe_i;
  assign entries      = 24'd1 << qpc_i.log_size;
  assign behind_first = (una_psn_i - first_psn_i) << mtu_shift(qpc_i.path_mtu);
  assign near         = una_psn_i >= Base && una_psn_i <= Base + Half
                        && psn_i >= Base && psn_i <= Base + Half
                        && first_psn_i >= Base && first_psn_i <= una_psn_i
                        && una_wqe_i >= BaseWqe && una_wqe_i < BaseWqe + 24'h4000
                        && back_psn_i >= Base && back_psn_i <= Base + Half
                        && back_wqe_i >= BaseWqe && back_wqe_i < BaseWqe + 24'h4000
                        && wqe_i >= BaseWqe && wqe_i < BaseWqe + 24'h4000
                        && pi_i >= BaseWqe && pi_i < BaseWqe + 24'h1_8000 && qpc_i.log_size <= 5'(MaxLogWqSize);

  always_ff @(posedge clk_i) begin
    m_near: assume (near);
    m_half: assume ((una_psn_i - psn_i != Half || una_wqe_i > wqe_i)
                    && (una_psn_i - back_psn_i != Half || una_wqe_i > back_wqe_i));
    c_half: cover (!moves && psn_i - una_psn_i == Half);
    a_moves: assert (news.moves == (rewound || ahead));
    a_returns: assert (!returns || (redo.psn == back_psn_i[23:0] && redo.wqe == back_wqe_i[WqeIndexBits-1:0]
                                    && redo.offset == back_offset_i && redo.seq == dyn_seq_i));
    a_few: assert (!few || (rewound && count_i != '0 && !init_i && 8'(ack_seq_i - dyn_seq_i) == 8'd1));
    c_returns: cover (returns && una_psn_i > psn_i && psn_i < back_psn_i && same);
    c_passed: cover (again_i && !rewound && una_psn_i > back_psn_i);
    a_forward: assert (rewound || again_i || (redo.psn == (ahead ? una_psn_i[23:0] : psn_i[23:0])
                                   && redo.wqe == (ahead ? una_wqe_i[WqeIndexBits-1:0] : wqe_i[WqeIndexBits-1:0])));
    a_rewind: assert (!rewound || (redo.psn == una_psn_i[23:0] && redo.wqe == una_wqe_i[WqeIndexBits-1:0] && !redo.err
                                   && redo.retx == !init_i && redo.seq == ack_seq_i));
    a_offset: assert (!moves || returns || redo.offset == behind_first);
    // Its WQEs are kept only if they are those: the same index, and the ring has not begun anew.
    a_same: assert (!same || (wqe_i == (returns ? back_wqe_i : una_wqe_i) && !err_i && !init_i
                             && 8'(ack_seq_i - dyn_seq_i) <= 8'd1));
    c_same: cover (same && rewound && una_psn_i < psn_i);
    a_quiet: assert (moves || redo == dyn);
    a_pi: assert (ahead || pi_bad == (pi_i < una_wqe_i || pi_i - una_wqe_i > entries || pi_i < wqe_i));
    a_settled: assert (returns || (!settled.moves && settled.state_ok == state_ok && settled.pi_far == news.pi_far
                       && settled.pi_bad == (moves ? news.pi_far : pi_bad)));
    a_idle: assert (news.idle == (pi_i[WqeIndexBits-1:0] == wqe_i[WqeIndexBits-1:0]));
    c_wrap: cover (!rewound && ahead && una_psn_i[23:0] < psn_i[23:0]);
    c_late: cover (rewound && una_psn_i > psn_i && !pi_bad);
    c_bad: cover (!moves && pi_bad && pi_i >= wqe_i);
    c_full: cover (!pi_bad && pi_i - una_wqe_i == 24'(1 << MaxLogWqSize));
  end
endmodule
