// Notification point: data that came with a congestion mark is answered with a CNP to the QP's peer, at most one per QP
// in `interval_i` ticks. Of a QP it keeps when its last CNP was made, nothing else. CNPs wait for their lane in a few
// places; a mark that finds none is lost, and so is one in the cycle behind another: the next one says the same. Never
// stalls. A QP that begins voids what is there of it.
module hca_cc_notify
  import hca_pkg::*;
#(
  parameter int unsigned Places = 8
) (
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic [63:0]         now_i,
  input  logic                marked_i,     // strobe, with the QP and its port
  input  logic [QpW-1:0]      qpn_i,
  input  logic [PortW-1:0]    port_i,
  input  logic [15:0]         interval_i,   // of that port
  input  logic                init_i,       // strobe: this QP begins
  input  logic [QpW-1:0]      init_qpn_i,
  input  logic [NumPorts-1:0] open_i,       // the lane of CNPs of each port
  output logic                cnp_valid_o,
  input  logic                cnp_ready_i,
  output logic [QpW-1:0]      cnp_qpn_o,
  output logic [PortW-1:0]    cnp_port_o
);

  localparam int unsigned TickW  = 32;      // a QP that was idle for 2^32 ticks, 18 minutes, may lose its first CNP
  localparam int unsigned PlaceW = $clog2(Places);

  // ---- Is it time? ------------------------------------------------------------------------------------------------
  logic [TickW-1:0] tick, tick_q, last, since_q;
  logic             look, look_q, fresh_q, judge_q, due, may, make, unused_now;
  logic [QpW-1:0]   qpn_q;
  logic [PortW-1:0] port_q;
  logic [15:0]      interval_q;

  assign unused_now = ^now_i;
  assign tick  = now_i[$clog2(CcTickCycles) +: TickW];
  assign look  = marked_i && !look_q && !(judge_q && init_i);
  assign due   = since_q >= TickW'(interval_q);

  always_ff @(posedge clk_i) begin
    look_q  <= !rst_i && look;
    // How long ago that was, and a cycle later whether it is long enough. A QP that begins has the RAM for itself.
    judge_q <= !rst_i && (init_i ? judge_q && init_qpn_i != qpn_q : look_q);
    fresh_q <= make && qpn_i == qpn_q;
    if (look_q) {tick_q, since_q} <= {tick, fresh_q ? TickW'(0) : tick - last};
    if (look) {qpn_q, port_q, interval_q} <= {qpn_i, port_i, interval_i};
  end

  // A QP that begins had its last CNP long ago.
  hca_ram_1r1w #(
    .Width(TickW),
    .Depth(NumQps)
  ) u_last (
    .clk_i,
    .we_i   (init_i || make),
    .waddr_i(init_i ? init_qpn_i : qpn_q),
    .wdata_i(init_i ? tick - {1'b1, (TickW-1)'(0)} : tick_q),
    .re_i   (look),
    .raddr_i(qpn_i),
    .rdata_o(last)
  );

  // ---- Places -----------------------------------------------------------------------------------------------------
  logic [Places-1:0] valid_q, free, ready, grant;
  logic [PlaceW-1:0] pick;
  logic [QpW-1:0]    place_qpn_q [Places];
  logic [PortW-1:0]  place_port_q [Places];
  logic              pop, out_ready;

  assign may  = judge_q && !init_i && valid_q != '1;
  assign make = may && due;
  assign free = ~valid_q & (valid_q + 1'b1);   // the lowest one

  // Nobody leaves in the cycle in which some may become void: whose they are is known later.
  for (genvar i = 0; i < Places; i++) begin : gen_ready
    assign ready[i] = valid_q[i] && open_i[place_port_q[i]] && !init_i;
  end

  hca_rr_arb #(.N(Places)) u_turns (
    .clk_i, .rst_i,
    .req_i    (ready),
    .advance_i(pop),
    .grant_o  (grant),
    .idx_o    (pick)
  );

  assign pop = ready != '0 && out_ready;

  always_ff @(posedge clk_i) begin
    automatic logic [Places-1:0] stays;
    for (int unsigned i = 0; i < Places; i++) begin
      stays[i] = valid_q[i] && !(init_i && place_qpn_q[i] == init_qpn_i) && !(pop && grant[i]);
      if (rst_i) valid_q[i] <= 1'b0;
      else valid_q[i] <= stays[i] || (may && free[i] && due);   // due comes last
      // What is written into a free place is nothing before it is valid.
      if (may && free[i]) begin
        place_qpn_q[i]  <= qpn_q;
        place_port_q[i] <= port_q;
      end
    end
  end

  hca_skid #(.Width(QpW + PortW)) u_out (
    .clk_i, .rst_i,
    .in_valid_i (ready != '0),
    .in_ready_o (out_ready),
    .in_i       ({place_qpn_q[pick], place_port_q[pick]}),
    .out_valid_o(cnp_valid_o),
    .out_ready_i(cnp_ready_i),
    .out_o      ({cnp_qpn_o, cnp_port_o})
  );

endmodule
