// Proof of hca_rx_filter, the door of packets (decision 0022), for one line picked at random. What is let in names, by
// all bits of its QPN, the QP that the line had when it was looked up, and that one's door was open and itself alive;
// what names it, and is of its service, port, partition and peer, is let in. Each packet meets exactly one fate: let
// in, a miss that hca_lines hears of, a CNP, or counted for one fault; an end of copies meets none. The rules stand
// here as plain comparisons with the context as it was written last, and with the doors as the strobes left them.
module fv_rx_filter
  import hca_pkg::*;
  import hca_rx_pkg::*;
(
  input logic           clk_i,
  input logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_i,
  input logic           rd_en_i,
  input logic [QpW-1:0] rd_qpn_i,
  input logic           we_i,
  input logic [QpW-1:0] wr_qpn_i,
  input qpc_t           qpc_i,
  input logic           swap_i,
  input line_shut_t     shut_i,
  input rxd_t           rxd_i,
  input rx_ctx_t        ctx_i,
  input logic           dead_i
);
  // What the line's context and its doors are; what they were when the packet in hand was looked up.
  typedef struct packed {
    logic known;   // a context has been written: memories have no reset
    logic drain;
    logic shut;
    qpc_t qpc;
  } look_t;

  logic           rst_q = 1'b1;
  logic           rd_q, rd_line_q;
  logic [QpW-1:0] line_q;
  look_t          now_q, then_q;
  rxd_t           rxd_q;
  logic           pkey_ok_q;
  rx_verdict_t    verdict;

  hca_rx_filter u_dut (
    .clk_i, .pkey_tbl_i, .rd_en_i, .rd_qpn_i, .we_i, .wr_qpn_i, .qpc_i, .swap_i, .shut_i, .rxd_i, .ctx_i, .dead_i,
    .verdict_o(verdict), .pkey_index_o()
  );

  logic writes, strobes;
  assign writes  = we_i && wr_qpn_i == line_q;
  assign strobes = shut_i.valid && shut_i.line == line_q;

  // A P_Key of the packet's against the tables while it is looked up: the QP's own, or any for QP1.
  logic [PortW-1:0] port;
  logic             pkey_ok;
  assign port = port_of(now_q.qpc.port);
  always_comb begin
    pkey_ok = 1'b0;
    for (int unsigned i = 0; i < NumPkeys; i++) begin
      if ((now_q.qpc.is_gsi || now_q.qpc.pkey_index[4:0] == 5'(i))
          && pkey_tbl_i[port][i][14:0] != '0 && rxd_i.pkey[14:0] == pkey_tbl_i[port][i][14:0]
          && (rxd_i.pkey[15] || pkey_tbl_i[port][i][15])) pkey_ok = 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    rst_q     <= 1'b0;
    line_q    <= line_q;
    rd_q      <= !rst_q && rd_en_i;
    rd_line_q <= rd_en_i ? rd_qpn_i == line_q : rd_line_q;
    if (rst_q) now_q.known <= 1'b0;
    else if (writes) begin
      now_q.qpc <= qpc_i;
      if (!swap_i) {now_q.known, now_q.drain, now_q.shut} <= 3'b100;
    end
    if (!rst_q && strobes) {now_q.drain, now_q.shut} <= {shut_i.drain, shut_i.shut};
    if (rst_q) then_q.known <= 1'b0;
    else if (rd_en_i && rd_qpn_i == line_q) {then_q, pkey_ok_q} <= {now_q, pkey_ok};
    rxd_q <= rxd_i;
  end

  // ---- The rules, once more ----------------------------------------------------------------------------
  logic judged, named, begins, shuts, alive, fits, answer, there, by_ib, source_ok, partition_ok, is_cnp, armed;
  qpc_t qpc;
  assign qpc    = then_q.qpc;
  assign judged = rd_q && rd_line_q && then_q.known;
  assign named  = rxd_i.dest_qpn == qpc.qpn;
  // Requests whose answers take time: READs, atomics, FLUSH, of RC, XRC and with masks.
  assign begins = rxd_i.opcode[7:5] inside {3'd0, 3'd5, 3'd6}
                  && rxd_i.opcode[4:0] inside {5'h0c, 5'h13, 5'h14, 5'h1c, 5'h1d};
  assign shuts  = qpc.is_shut || then_q.shut || (then_q.drain && begins);
  assign alive  = named && !shuts && qpc.state inside {QpsRtr, QpsRts, QpsSqd, QpsSqe} && !dead_i
                  && rxd_i.kind != RxdEnd;
  // An initiator of XRC takes answers, a target requests.
  assign answer = rxd_i.opcode[4:0] >= 5'h0d && rxd_i.opcode[4:0] <= 5'h12;
  assign fits   = rxd_i.opcode[7:5] == qpc.service && qpc.service inside {3'd0, 3'd1, 3'd3, 3'd5, 3'd7}
                  && (qpc.service != ServiceXrc || answer != qpc.is_target);
  assign there  = qpc.service == ServiceRaw || rxd_i.port == port_of(qpc.port);
  assign armed  = qpc.path_mig_state == PathMigArmed && rxd_i.mig_req;   // whoever comes so is not let in
  assign by_ib  = rxd_i.slid == qpc.dlid
                  && ((rxd_i.sgid == qpc.dgid && rxd_i.dgid == qpc.sgid) || (rxd_i.sgid == '0 && rxd_i.dgid == '0)
                      || !qpc.is_global);
  assign source_ok = qpc.service inside {ServiceUd, ServiceRaw} ? rxd_i.smp || rxd_i.deth_qkey == qpc.qkey
                     : rxd_i.ib ? by_ib : rxd_i.sgid == qpc.dgid && rxd_i.dgid == qpc.sgid;
  assign partition_ok = rxd_i.smp || pkey_ok_q;
  assign is_cnp = rxd_i.opcode == 8'h81 && rxd_i.payload_bytes == '0 && qpc.service inside {3'd0, 3'd1, 3'd5};

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      // A context's QPN ends with its line's number (a_line of fv_lines, and firmware); so does a packet here.
      m_line:  assume (!we_i || qpc_i.qpn[QpW-1:0] == wr_qpn_i);
      m_read:  assume (!rd_en_i || rxd_i.dest_qpn[QpW-1:0] == rd_qpn_i);
      m_held:  assume (!rd_q || rxd_i == rxd_q);
      // hca_rx_tables has the contexts, written and read in the same cycles.
      m_ctx:   assume (!judged || ctx_i == rx_ctx(then_q.qpc));
      m_shut:  assume (!(shut_i.valid && we_i && !swap_i));

      if (judged) begin
        a_named:  assert ((verdict & ~{rx_verdict_t'{miss: 1'b1, stray: 1'b1, default: 1'b0}}) == '0 || alive);
        a_accept: assert (verdict.accept == (alive && fits && there && !armed && partition_ok && source_ok));
        a_miss:   assert (verdict.miss == (qpc.is_shared && (!named || shuts) && rxd_i.kind == RxdQp));
        a_shut:   assert (!shuts || (!verdict.accept && !verdict.cnp && !verdict.marked && !verdict.arms));
        a_cnp:    assert (verdict.cnp == (alive && there && is_cnp && partition_ok && source_ok));
        a_pkey:   assert (verdict.pkey_viol == (alive && fits && there && !armed && !partition_ok));
        a_source: assert ((verdict.bad_source || verdict.qkey_viol)
                          == (alive && fits && there && !armed && partition_ok && !source_ok));
        a_which:  assert (!(verdict.qkey_viol && qpc.service == ServiceRc) && !(verdict.bad_source
                                                                                && qpc.service == ServiceUd));
        a_asks:   assert (verdict.asks == (alive && fits && armed));
        a_also:   assert (!(verdict.marked || verdict.arms) || verdict.accept);
        a_one:    assert (rxd_i.kind == RxdEnd
                          || $onehot({verdict.accept, verdict.miss, verdict.cnp, verdict.pkey_viol, verdict.qkey_viol,
                                      verdict.bad_source, verdict.stray}));
        a_end:    assert (rxd_i.kind != RxdEnd || verdict == '0);
        c_drain:  cover (verdict.miss && named && then_q.drain && !then_q.shut);
        c_passes: cover (verdict.accept && then_q.drain && qpc.service == ServiceXrc && rxd_i.ib);
      end

      h_then:  assert (!then_q.known || !rd_q || !rd_line_q || (u_dut.path.qkey == qpc.qkey
                       && u_dut.path.is_global == qpc.is_global && u_dut.path.dlid == qpc.dlid
                       && u_dut.path.sgid == qpc.sgid && u_dut.path.dgid == qpc.dgid
                       && {u_dut.drain, u_dut.shut} == {then_q.drain, then_q.shut}));
      h_line:  assert (!then_q.known || qpc.qpn[QpW-1:0] == line_q);
      h_now:   assert (!now_q.known || now_q.qpc.qpn[QpW-1:0] == line_q);
      h_pkey:  assert (!(rd_q && rd_line_q && then_q.known) || pkey_ok_q == ((u_dut.found_at_q[port_of(qpc.port)]
                       & (qpc.is_gsi ? '1 : NumPkeys'(1) << qpc.pkey_index[4:0])) != '0));
      h_begins: assert (!rd_q || (rxd_q.opcode[7:5] inside {3'd0, 3'd5, 3'd6}
                                  && rxd_q.opcode[4:0] inside {5'h0c, 5'h13, 5'h14, 5'h1c, 5'h1d}) == u_dut.begins_q);
      h_read:  assert (!(rd_q && rd_line_q) || rxd_q.dest_qpn[QpW-1:0] == line_q);
      h_path:  assert (!now_q.known || u_dut.u_path.mem[line_q] == {now_q.qpc.qkey, now_q.qpc.is_global,
                       now_q.qpc.dlid, now_q.qpc.sgid, now_q.qpc.dgid});
      h_doors: assert (!now_q.known || u_dut.gen_shut.u_shut.mem[line_q] == {now_q.drain, now_q.shut});
    end
  end
endmodule
