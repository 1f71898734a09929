// What has become of packets that nobody acknowledges, for hca_rx_ctrl: the gather's errors pass through, each before
// it is told of any later packet. What has left is a set of QPs with the newest PSN of each: a QP is told once, however
// many have gone meanwhile. The set takes one in two cycles; before it a queue, and while that is full (full_o) the
// header stage gets no more of the requester: it empties by itself. Two kinds: [0] datagrams, [1] of connections.
//
// done_i: the header stage has taken a packet; lost_i: the gather has dropped one; left_o: it is over (the slot of a
// datagram is free). Of a QP that begins anew (init_i) nothing is in the set: a number without a PSN is not told.
module hca_sent
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [1:0]     done_i,
  input  logic [QpW-1:0] done_qpn_i,
  input  logic [23:0]    done_psn_i,
  output logic           full_o,
  input  logic [1:0]     lost_i,
  output logic [1:0]     left_o,
  input  logic           init_i,
  input  logic [QpW-1:0] init_qpn_i,
  input  logic           err_valid_i,
  output logic           err_ready_o,
  input  pipe_msg_t      err_i,
  output logic           msg_valid_o,
  input  logic           msg_ready_i,
  output pipe_msg_t      msg_o
);

  // ---- Queue: two more may come when it says that it is full ----------------------------------------
  localparam int unsigned Depth = 16;

  logic           head_valid, head_take, add_ready, head_uc;
  logic [QpW-1:0] head_qpn;
  logic [23:0]    head_psn;
  logic [$clog2(Depth):0] count;

  hca_fifo #(
    .Width(1 + QpW + 24),
    .Depth(Depth)
  ) u_left (
    .clk_i,
    .rst_i,
    .in_valid_i (done_i != '0),
    .in_ready_o (),
    .in_i       ({done_i[1], done_qpn_i, done_psn_i}),
    .out_valid_o(head_valid),
    .out_ready_i(head_take),
    .out_o      ({head_uc, head_qpn, head_psn}),
    .count_o    (count)
  );

  always_ff @(posedge clk_i) full_o <= rst_i || count >= ($clog2(Depth)+1)'(Depth - 3);

  // A dropped one is over in a cycle in which no other is; the set takes one in two cycles at most.
  logic [1:0][2:0] lost_q;
  logic [1:0]      lost_out;
  assign head_take = head_valid && add_ready;
  assign lost_out  = {lost_q[1] != '0, lost_q[0] != '0} & {2{!head_take}};
  assign left_o    = ({head_uc, !head_uc} & {2{head_take}}) | lost_out;
  always_ff @(posedge clk_i) begin
    for (int unsigned k = 0; k < 2; k++) lost_q[k] <= rst_i ? '0 : lost_q[k] + 3'(lost_i[k]) - 3'(lost_out[k]);
  end

  // ---- Set -----------------------------------------------------------------------------------------
  logic           set_valid, set_take, look_q, told_valid, clear_q, clear;
  logic [QpW-1:0] set_qpn, look_qpn_q, clear_qpn_q;
  logic [23:0]    told_psn;

  hca_work_set #(
    .Items(NumQps)
  ) u_set (
    .clk_i,
    .rst_i,
    .add_valid_i(head_valid),
    .add_ready_o(add_ready),
    .add_i      (head_qpn),
    .out_valid_o(set_valid),
    .out_ready_i(set_take),
    .out_o      (set_qpn)
  );

  assign clear = clear_q && !head_take;
  always_ff @(posedge clk_i) begin
    if (rst_i) clear_q <= 1'b0;
    else if (init_i) clear_q <= 1'b1;
    else if (clear) clear_q <= 1'b0;
    if (init_i) clear_qpn_q <= init_qpn_i;
  end

  hca_ram_1r1w #(
    .Width(25),
    .Depth(NumQps)
  ) u_psn (
    .clk_i,
    .we_i   (head_take || clear),
    .waddr_i(head_take ? head_qpn : clear_qpn_q),
    .wdata_i(head_take ? {1'b1, head_psn} : '0),
    .re_i   (set_take),
    .raddr_i(set_qpn),
    .rdata_o({told_valid, told_psn})
  );

  // ---- Messages: what is offered stays ---------------------------------------------------------------
  logic        out_valid_q;
  logic [23:0] out_psn_q;

  assign set_take = set_valid && !look_q && !out_valid_q && !err_valid_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      look_q      <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      look_q <= set_take;
      if (look_q) out_valid_q <= told_valid;
      else if (msg_ready_i) out_valid_q <= 1'b0;
    end
    if (set_take) look_qpn_q <= set_qpn;
    if (look_q) out_psn_q <= told_psn;
  end

  assign msg_valid_o = out_valid_q || (err_valid_i && !look_q);
  assign err_ready_o = msg_ready_i && !out_valid_q && !look_q;

  always_comb begin
    msg_o = err_i;
    if (out_valid_q) begin
      msg_o           = '0;
      msg_o.kind      = MsgSent;
      msg_o.qpn       = look_qpn_q;
      msg_o.wqe_index = WqeIndexBits'(out_psn_q[15:0]);
      msg_o.status    = out_psn_q[23:16];
    end
  end

endmodule
