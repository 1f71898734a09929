// Proof of hca_doorbell, the door of doorbells (decision 0022): each doorbell that is taken, from the host or from
// hca_lines, has one fate, once, before the next one is looked at: passed on, a miss (to hca_lines, or else to
// firmware), counted as bad, an admin doorbell, or old news of hca_lines. Of one line picked at random: what is passed
// on names, by all bits of its QPN, the QP of its function that the line had when the doorbell was taken, in a state
// that takes it, behind a door that was open; what names that one is not refused. A QP in ERR, or one that comes there
// meanwhile, has a flush behind it. Offers stay until they are taken; events of misses come in order, an admin index is
// never lost, only merged, and a bad doorbell's event is of one that no event was of before.
module fv_doorbell
  import hca_pkg::*;
(
  input logic        clk_i,
  input logic        mmio_wr_valid_i,
  input logic [7:0]  mmio_wr_func_i,
  input logic [15:0] mmio_wr_addr_i,
  input logic [63:0] mmio_wr_data_i,
  input logic [7:0]  mmio_wr_strb_i,
  input logic        qpc_wr_valid_i,
  input qpc_wr_t     qpc_wr_i,
  input line_shut_t  shut_i,
  input logic        lines_on_i,
  input logic        miss_ready_i,
  input logic        again_valid_i,
  input line_want_t  again_i,
  input logic [4:0]  db_ready_i,
  input logic        msg_ready_i,
  input logic        ev_ready_i
);
  localparam int unsigned SeqW = 6;

  logic           rst_q = 1'b1;
  logic           mmio_ready, qpc_ready, miss_valid, again_ready, msg_valid, ev_valid, idle;
  logic [4:0]     db_valid;   // SQ, RQ, CQ, EQ, SRQ
  line_want_t     miss;
  qp_db_t         sq_db, rq_db;
  cq_db_t         cq_db;
  eq_db_t         eq_db;
  srq_db_t        srq_db;
  pipe_msg_t      msg;
  hw_ev_t         ev;
  logic [31:0]    bad_cnt;

  hca_doorbell u_dut (
    .clk_i, .rst_i(rst_q), .mmio_wr_valid_i, .mmio_wr_ready_o(mmio_ready), .mmio_wr_func_i, .mmio_wr_addr_i,
    .mmio_wr_data_i, .mmio_wr_strb_i, .qpc_wr_valid_i, .qpc_wr_ready_o(qpc_ready), .qpc_wr_i, .shut_i, .lines_on_i,
    .miss_valid_o(miss_valid), .miss_ready_i, .miss_o(miss), .again_valid_i, .again_ready_o(again_ready), .again_i,
    .free_o(idle), .push_wr_valid_o(), .push_wr_o(), .sq_db_valid_o(db_valid[0]), .sq_db_ready_i(db_ready_i[0]),
    .sq_db_o(sq_db), .rq_db_valid_o(db_valid[1]), .rq_db_ready_i(db_ready_i[1]), .rq_db_o(rq_db),
    .cq_db_valid_o(db_valid[2]), .cq_db_ready_i(db_ready_i[2]), .cq_db_o(cq_db), .eq_db_valid_o(db_valid[3]),
    .eq_db_ready_i(db_ready_i[3]), .eq_db_o(eq_db), .srq_db_valid_o(db_valid[4]), .srq_db_ready_i(db_ready_i[4]),
    .srq_db_o(srq_db), .msg_valid_o(msg_valid), .msg_ready_i, .msg_o(msg), .ev_valid_o(ev_valid), .ev_ready_i,
    .ev_o(ev), .bad_db_cnt_o(bad_cnt)
  );

  // ---- The line, and the doorbell in hand --------------------------------------------------------------
  typedef struct packed {
    logic        known;               // written: memories have no reset
    logic        sq_known, rq_known;
    logic        shut;
    logic [7:0]  func;
    logic [2:0]  state;
    logic        is_shared, is_shut;
    logic [23:0] qpn;
    wqe_idx_t    sq_pi, rq_pi;
  } line_t;

  typedef struct packed {
    logic        again;
    logic        sq, rq, cq, eq, srq, admin;
    logic [7:0]  func;
    logic [11:0] addr;
    logic [63:0] data;
  } job_t;

  logic [QpW-1:0] line_q, in_line;
  line_t          now_q, then_q;
  job_t           job, job_q;
  sq_doorbell_t   word, in_word;
  logic           open_q, at_line_q, host, again, accept, flush_q, flush_sq_q;
  logic [31:0]    bad_q;

  assign in_word = mmio_wr_data_i;
  assign word    = job_q.data;
  assign host    = mmio_wr_valid_i && mmio_ready && mmio_wr_addr_i[15:12] == 4'd1;
  assign again   = again_valid_i && again_ready;
  assign accept  = host || again;
  assign in_line = again ? again_i.qpn[QpW-1:0] : in_word.qpn[QpW-1:0];

  sq_doorbell_t again_word;
  always_comb begin
    again_word                = '0;
    again_word.qpn            = again_i.qpn;
    again_word.producer_index = again_i.pi;
    job = '0;
    if (again) begin
      job.again          = 1'b1;
      job.func           = again_i.func;
      job.addr           = (again_i.kind == MissSq) ? 12'h0 : 12'h8;
      job.data           = again_word;
      {job.sq, job.rq}   = {again_i.kind == MissSq, again_i.kind == MissRq};
    end else begin
      job.func = mmio_wr_func_i;
      job.addr = mmio_wr_addr_i[11:0];
      job.data = mmio_wr_data_i;
      job.admin = job.addr == 12'h20 && mmio_wr_strb_i[1:0] == '1 && job.func < 8'(NumFuncs);
      if (mmio_wr_strb_i == '1) begin
        {job.sq, job.rq} = {job.addr == 12'h0, job.addr == 12'h8};
        job.cq           = job.addr == 12'h10 && job.data[23:0] < 24'(1 << CqW);
        job.eq           = job.addr == 12'h18 && job.data[7:0] < 8'(1 << EqW);
        job.srq          = job.addr == 12'h28 && job.data[23:0] < 24'(1 << SrqW);
      end
    end
  end

  logic writes, opens, sets_sq, sets_rq, rung_sq, rung_rq;
  assign writes  = qpc_wr_valid_i && qpc_ready && qpc_wr_i.qpn == line_q;
  // The door opens with the offer, the context may be a doorbell later: firmware holds the lines then.
  assign opens   = qpc_wr_valid_i && !qpc_wr_i.swap && qpc_wr_i.qpn == line_q;
  assign sets_sq = writes && (qpc_wr_i.init_sq || qpc_wr_i.qpc.state == QpsReset);
  assign sets_rq = writes && ((qpc_wr_i.init_rq && qpc_wr_i.qpc.state == QpsInit) || qpc_wr_i.qpc.state == QpsReset
                              || qpc_wr_i.qpc.restores);
  assign rung_sq = db_valid[0] && db_ready_i[0] && sq_db.qpn == line_q;
  assign rung_rq = db_valid[1] && db_ready_i[1] && rq_db.qpn == line_q;

  // ---- Fates -------------------------------------------------------------------------------------------
  logic       same, mine, state_sq, state_rq, is_old, misses, by_sq, by_rq, bad, told, old;
  logic [4:0] wants;
  logic [8:0] ends;
  wqe_idx_t   newer;
  logic [SeqW-1:0] held, age;
  logic       there;
  hw_event_t  miss_ev;
  hw_event_t  bad_ev, told_ev;

  assign same     = then_q.qpn == word.qpn && !then_q.shut && !then_q.is_shut;
  assign mine     = same && then_q.func == job_q.func;
  assign state_sq = then_q.state inside {QpsRts, QpsSqd, QpsSqe, QpsErr};
  assign state_rq = then_q.state != QpsReset;
  assign newer    = word.producer_index - (job_q.sq ? then_q.sq_pi : then_q.rq_pi);
  assign is_old   = job_q.again && (newer == '0 || newer >= wqe_idx_t'(1 << (WqeIndexBits - 1)));
  assign misses   = (job_q.sq || job_q.rq) && then_q.is_shared && then_q.func == job_q.func && !same;
  assign by_sq    = job_q.sq && mine && state_sq && !is_old;
  assign by_rq    = job_q.rq && mine && state_rq && !is_old;

  assign bad   = u_dut.take_bad;
  assign told  = u_dut.u_misses.in_valid_i && u_dut.u_misses.in_ready_o;
  assign old   = u_dut.pass_done && u_dut.old_q && !u_dut.missed_q;
  assign ends  = {db_valid & db_ready_i, miss_valid && miss_ready_i, told, bad, u_dut.take_admin};
  assign wants = {job_q.srq, job_q.eq, job_q.cq, 2'b00};

  // The word in the queue of misses, all the way to firmware.
  assign miss_ev = '{kind: HwEventLineMiss, func: job_q.func, reserved0: '0, id: 32'(word.qpn),
                     cause: {14'd0, job_q.sq, word.producer_index}};
  fv_order #(.Width($bits(hw_event_t)), .SeqW(SeqW)) u_order (
    .clk_i, .rst_i(rst_q), .push_i(told), .pop_i(u_dut.ev_load && u_dut.next_miss_q), .in_i(miss_ev),
    .in_seq_o(), .out_seq_o(), .held_o(held), .watched_o(), .inside_o(there), .age_o(age), .word_o(told_ev)
  );
  logic [3:0] at;
  assign at = u_dut.u_misses.rd_ptr_q + 4'(age);

  // Admin doorbells of one function; the place of a bad doorbell.
  logic [1:0]  func_q;
  logic [15:0] newest_q;
  logic        due_q, admin_ev, bad_due_q;
  assign admin_ev = ev_valid && ev.kind == HwEventAdminDb && ev.func == 8'(func_q) && ev.id == 32'(newest_q);

  always_ff @(posedge clk_i) begin
    rst_q  <= 1'b0;
    line_q <= line_q;
    func_q <= func_q;
    if (rst_q) begin
      {now_q.known, now_q.sq_known, now_q.rq_known, now_q.shut, then_q.known} <= '0;
      {open_q, flush_q, due_q, bad_due_q, bad_q} <= '0;
    end else begin
      if (writes) begin
        now_q.known     <= 1'b1;
        now_q.func      <= qpc_wr_i.qpc.func;
        now_q.state     <= qpc_wr_i.qpc.state;
        now_q.qpn       <= qpc_wr_i.qpc.qpn;
        {now_q.is_shared, now_q.is_shut} <= {qpc_wr_i.qpc.is_shared, qpc_wr_i.qpc.is_shut};
      end
      if (opens) now_q.shut <= 1'b0;
      else if (shut_i.valid && shut_i.line == line_q) now_q.shut <= shut_i.shut || shut_i.drain;
      // Not known before the first context: its door neither.
      if (writes && !now_q.known && qpc_wr_i.swap) now_q.known <= 1'b0;
      if (sets_sq || rung_sq) now_q.sq_known <= 1'b1;
      if (sets_rq || rung_rq) now_q.rq_known <= 1'b1;
      if (sets_sq) now_q.sq_pi <= qpc_wr_i.qpc.restores ? qpc_wr_i.qpc.sq_pi : '0;
      if (sets_rq) now_q.rq_pi <= qpc_wr_i.qpc.restores ? qpc_wr_i.qpc.rq_pi : '0;
      if (rung_sq) now_q.sq_pi <= sq_db.pi;
      if (rung_rq) now_q.rq_pi <= rq_db.pi;
      if (accept) begin
        {job_q, at_line_q} <= {job, in_line == line_q};
        if (in_line == line_q) then_q <= now_q;
      end
      open_q <= accept || (open_q && ends == '0 && !old);
      if ((rung_sq && now_q.state inside {QpsErr, QpsSqe}) || (rung_rq && now_q.state == QpsErr)) begin
        {flush_q, flush_sq_q} <= {now_q.known, rung_sq};
      end else if (msg_ready_i) flush_q <= 1'b0;
      if (bad) bad_q <= bad_q + 1'b1;
      if (bad && !(bad_due_q && !(u_dut.ev_load && u_dut.next_bad_q))) begin
        bad_ev <= '{kind: HwEventBadDoorbell, func: job_q.func, reserved0: '0, id: 32'(word.qpn),
                    cause: 32'(job_q.addr)};
      end
      bad_due_q <= bad || (bad_due_q && !(u_dut.ev_load && u_dut.next_bad_q));
      if (u_dut.take_admin && job_q.func == 8'(func_q)) {due_q, newest_q} <= {1'b1, job_q.data[15:0]};
      else if (admin_ev && ev_ready_i) due_q <= 1'b0;
    end
  end

  // ---- What its users keep to --------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    m_reset: assume (!rst_q || (!mmio_wr_valid_i && !again_valid_i && !qpc_wr_valid_i && !shut_i.valid));
    m_line:  assume (!qpc_wr_valid_i || qpc_wr_i.qpc.qpn[QpW-1:0] == qpc_wr_i.qpn);
    m_again: assume (!again_valid_i || again_i.kind inside {MissSq, MissRq});   // a_again of fv_lines
    m_shut:  assume (!(shut_i.valid && qpc_wr_valid_i && !qpc_wr_i.swap));
  end

  // ---- What is promised --------------------------------------------------------------------------------
  logic [4:0]  db_held_q;
  logic        ev_held_q, msg_held_q, judged;
  qp_db_t      sq_held_q, rq_held_q;
  hw_ev_t      ev_q;
  pipe_msg_t   msg_q;
  always_ff @(posedge clk_i) begin
    db_held_q  <= rst_q ? '0 : db_valid & ~db_ready_i;
    ev_held_q  <= !rst_q && ev_valid && !ev_ready_i;
    msg_held_q <= !rst_q && msg_valid && !msg_ready_i;
    {sq_held_q, rq_held_q, ev_q, msg_q} <= {sq_db, rq_db, ev, msg};
  end
  assign judged = open_q && at_line_q && then_q.known && (!job_q.again || (job_q.sq ? then_q.sq_known
                                                                                    : then_q.rq_known));

  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      // Each once, one after the other.
      a_once:   assert ($onehot0({ends, old}));
      a_none:   assert (open_q || (ends == '0 && !old));
      a_next:   assert (!accept || !open_q || ends != '0 || old);
      a_stays:  assert ((db_held_q & ~db_valid) == '0 && !(ev_held_q && (!ev_valid || ev != ev_q))
                        && !(db_held_q[0] && sq_db != sq_held_q) && !(db_held_q[1] && rq_db != rq_held_q)
                        && !(msg_held_q && (!msg_valid || msg != msg_q)));
      a_free:   assert (!idle || !open_q || ends != '0 || old);
      // What it says is what was written.
      a_sq:     assert (!db_valid[0] || (sq_db.sq && sq_db.qpn == word.qpn[QpW-1:0] && sq_db.pi == word.producer_index
                                         && sq_db.push == {word.push, word.push_slot}));
      a_rq:     assert (!db_valid[1] || (!rq_db.sq && rq_db.qpn == word.qpn[QpW-1:0]
                                         && rq_db.pi == word.producer_index));
      a_others: assert ((db_valid & 5'b11100) == '0 || (db_valid & 5'b11100) == wants);
      a_whose:  assert ((db_valid & 5'b11100) == '0
                        || (db_valid[2] ? cq_db.func : db_valid[3] ? eq_db.func : srq_db.func) == job_q.func);
      a_miss:   assert (!miss_valid || (miss.qpn == word.qpn && miss.func == job_q.func
                                        && miss.pi == word.producer_index
                                        && miss.kind == (job_q.sq ? MissSq : MissRq)));
      a_count:  assert (bad_cnt == bad_q);
      // Of the line.
      if (judged) begin
        a_named:  assert (!(db_valid[0] || db_valid[1]) || mine);
        a_pass:   assert (db_valid[1:0] == '0 || (db_valid[0] ? by_sq : by_rq));
        a_misses: assert (!(miss_valid || told) || misses);
        a_bad:    assert (!bad || !(by_sq || by_rq || misses || is_old || wants != '0 || job_q.admin));
        a_old:    assert (!old || (is_old && !misses));
        a_right:  assert ((ends == '0 && !old) || (misses ? (miss_valid || told) : by_sq ? db_valid[0]
                                                   : by_rq ? db_valid[1] : !db_valid[0] && !db_valid[1]));
      end
      a_admin_db: assert (!u_dut.take_admin || job_q.admin);
      a_flush:  assert (!flush_q || (msg_valid && msg.qpn == line_q && msg.kind == (flush_sq_q ? MsgFlushSq
                                                                                               : MsgFlushRq)));
      // To firmware.
      a_told:   assert (!(u_dut.ev_load && u_dut.next_miss_q && there && age == '0) || u_dut.pick == told_ev);
      a_admin:  assert (!due_q || u_dut.pending_q[func_q] || admin_ev);
      a_bad_ev: assert (!(u_dut.ev_load && u_dut.next_bad_q) || (bad_due_q && u_dut.pick == bad_ev));

      c_misses: cover (judged && told && job_q.again && word.qpn != then_q.qpn);
      c_shut:   cover (judged && miss_valid && miss_ready_i && word.qpn == then_q.qpn);
      c_old:    cover (judged && old && then_q.sq_pi == wqe_idx_t'(5) && mine);
      c_flush:  cover (flush_q && flush_sq_q && then_q.state == QpsRts);
    end
  end

  // ---- Helpers -----------------------------------------------------------------------------------------
  logic [1:0] state;
  assign state = u_dut.state_q;
  always_ff @(posedge clk_i) begin
    if (!rst_q) begin
      h_open:  assert (open_q == (state inside {2'd1, 2'd2}));
      h_job:   assert (!open_q || (u_dut.func_q == job_q.func && u_dut.data_q == job_q.data
                       && u_dut.again_q == job_q.again
                       && {u_dut.on_sq_q, u_dut.on_rq_q, u_dut.on_cq_q, u_dut.on_eq_q, u_dut.on_srq_q,
                           u_dut.on_admin_q}
                          == {job_q.sq, job_q.rq, job_q.cq, job_q.eq, job_q.srq, job_q.admin}));
      h_addr:  assert (!open_q || u_dut.addr_q == job_q.addr);
      h_kinds: assert (!open_q || $onehot0({job_q.sq, job_q.rq, job_q.cq, job_q.eq, job_q.srq, job_q.admin}));
      h_again: assert (!open_q || !job_q.again || job_q.sq || job_q.rq);
      h_line:  assert (!open_q || at_line_q == (word.qpn[QpW-1:0] == line_q));
      h_qpn:   assert ((!then_q.known || then_q.qpn[QpW-1:0] == line_q)
                       && (!now_q.known || now_q.qpn[QpW-1:0] == line_q));
      h_func:  assert (!job_q.admin || !open_q || job_q.func < 8'(NumFuncs));
      h_owner: assert (!now_q.known || u_dut.u_owner.mem[line_q] == {now_q.func, now_q.state, now_q.is_shared,
                                                                   now_q.is_shut, now_q.qpn[23:QpW]});
      h_door:  assert (!now_q.known || u_dut.gen_shut.u_shut.mem[line_q] == now_q.shut);
      h_sq_pi: assert (!now_q.sq_known || u_dut.gen_shut.u_sq_pi.mem[line_q] == now_q.sq_pi);
      h_rq_pi: assert (!now_q.rq_known || u_dut.gen_shut.u_rq_pi.mem[line_q] == now_q.rq_pi);
      h_read:  assert (!(open_q && at_line_q && then_q.known) || state != 2'd1
                       || (u_dut.owner == {then_q.func, then_q.state, then_q.is_shared, then_q.is_shut,
                                           then_q.qpn[23:QpW]}
                           && u_dut.shut == then_q.shut));
      h_read_pi: assert (!(open_q && at_line_q && job_q.again && state == 2'd1)
                         || ((!then_q.sq_known || u_dut.gen_shut.sq_pi == then_q.sq_pi)
                             && (!then_q.rq_known || u_dut.gen_shut.rq_pi == then_q.rq_pi)));
      h_found: assert (!judged || state != 2'd2
                       || {u_dut.is_sq_q, u_dut.is_rq_q, u_dut.old_q, u_dut.missed_q}
                          == {by_sq, by_rq, is_old, misses});
      h_mine:  assert (!(open_q && at_line_q && then_q.known) || state != 2'd2
                       || ((!u_dut.is_sq_q || (mine && state_sq)) && (!u_dut.is_rq_q || (mine && state_rq))));
      h_finds: assert (state != 2'd2 || ((!(u_dut.is_sq_q || u_dut.is_rq_q) || (!u_dut.old_q && !u_dut.missed_q))
                       && (!u_dut.is_sq_q || job_q.sq) && (!u_dut.is_rq_q || job_q.rq)
                       && (!u_dut.missed_q || job_q.sq || job_q.rq) && (!u_dut.old_q || job_q.again)));
      // ERR before the doorbell was looked at is seen then, later it has turned.
      h_turned: assert (!(open_q && at_line_q && now_q.known) || !(now_q.state inside {QpsErr, QpsSqe})
                        || u_dut.turned_q || (then_q.known && then_q.state == now_q.state));
      h_flush: assert (!(open_q && at_line_q && then_q.known) || state != 2'd2
                       || u_dut.to_flush_q == (mine && ((then_q.state == QpsErr
                          && ((job_q.sq && state_sq) || (job_q.rq && state_rq)))
                                                    || (then_q.state == QpsSqe && job_q.sq))));
      h_held:  assert (held == SeqW'(u_dut.u_misses.count_q) && held <= SeqW'(16));
      h_ptrs:  assert (u_dut.u_misses.wr_ptr_q == u_dut.u_misses.rd_ptr_q + u_dut.u_misses.count_q[3:0]);
      h_mem:   assert (!there || u_dut.u_misses.gen_regs.mem[at] == told_ev);
      h_next:  assert (!u_dut.next_q || (u_dut.next_miss_q ? u_dut.u_misses.count_q != '0
                       : u_dut.next_bad_q ? u_dut.pending_q[NumFuncs] : u_dut.slot_q < 3'(NumFuncs)));
      h_slot:  assert (!u_dut.next_q || (u_dut.slot_q == 3'(NumFuncs) + 3'(u_dut.next_miss_q)
                       || !(u_dut.next_bad_q || u_dut.next_miss_q)));
      h_slots: assert (!u_dut.next_q || !(u_dut.next_bad_q && u_dut.next_miss_q));
      h_pend:  assert (!u_dut.pending_q[NumFuncs+1] && u_dut.pending_q[NumFuncs] == bad_due_q);
      h_bad:   assert (!bad_due_q || u_dut.bad_ev_q == bad_ev);
      h_newest: assert (!due_q || u_dut.admin_pi_q[func_q] == newest_q);
    end
  end
endmodule
