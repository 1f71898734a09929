// Doorbell page: turns 64-bit MMIO writes of a function into doorbell streams, after a check that the
// queue exists and (for QPs) belongs to that function. A refused doorbell is dropped, counted, and
// reported to firmware when the event stream has room. A doorbell is taken, compared with its QP's row in the next
// cycle, and passed on in the one behind it, in which the next one may be taken: two cycles each, four on a QP in ERR
// (or SQE, of its send queue).
// Writes to push slots pass (hca_push_port); those to other pages are taken and lost.
// A doorbell for a QP that has not its row goes to hca_lines, which sends it again; where that has no room, or there is
// no context memory, to firmware.
module hca_doorbell
  import hca_pkg::*;
  import hca_features_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  // MMIO writes to all pages but that of the registers.
  input  logic        mmio_wr_valid_i,
  output logic        mmio_wr_ready_o,
  input  logic [7:0]  mmio_wr_func_i,
  input  logic [15:0] mmio_wr_addr_i,
  input  logic [63:0] mmio_wr_data_i,
  input  logic [7:0]  mmio_wr_strb_i,
  // QP context writes: state and owner are kept here.
  input  logic        qpc_wr_valid_i,
  output logic        qpc_wr_ready_o,
  input  qpc_wr_t     qpc_wr_i,
  input  line_shut_t  shut_i,       // never with a context write but a hand-over's, which leaves doors as they are
  input  logic        lines_on_i,
  output logic        miss_valid_o, // offered once: what is not taken goes to firmware
  input  logic        miss_ready_i,
  output line_want_t  miss_o,
  input  logic        again_valid_i,
  output logic        again_ready_o,
  input  line_want_t  again_i,
  output logic        free_o,       // no doorbell is here, or the last one leaves
  output logic        push_wr_valid_o,
  output push_wr_t    push_wr_o,
  output logic        sq_db_valid_o,
  input  logic        sq_db_ready_i,
  output qp_db_t      sq_db_o,
  output logic        rq_db_valid_o,
  input  logic        rq_db_ready_i,
  output qp_db_t      rq_db_o,
  output logic        cq_db_valid_o,
  input  logic        cq_db_ready_i,
  output cq_db_t      cq_db_o,
  output logic        eq_db_valid_o,
  input  logic        eq_db_ready_i,
  output eq_db_t      eq_db_o,
  output logic        srq_db_valid_o,
  input  logic        srq_db_ready_i,
  output srq_db_t     srq_db_o,
  // Flush request for a QP in ERR (or SQE: its send queue), after its doorbell was passed on.
  output logic        msg_valid_o,
  input  logic        msg_ready_i,
  output pipe_msg_t   msg_o,
  output logic        ev_valid_o,
  input  logic        ev_ready_i,
  output hw_ev_t      ev_o,
  output logic [31:0] bad_db_cnt_o
);

  typedef enum logic [1:0] {
    StIdle,
    StLook,
    StPass,
    StFlush
  } state_e;

  typedef struct packed {
    logic [7:0] func;
    logic [2:0] state;  // qp_state_e
    logic       shared;
    logic       shut;
    qp_gen_t    gen;
  } qp_owner_t;

  state_e      state_q;
  logic [7:0]  func_q;
  logic [11:0] addr_q;
  logic [63:0] data_q;
  // Which doorbell it is, as far as the write says: whole, and of an object that there can be.
  logic        on_sq_q, on_rq_q, on_cq_q, on_eq_q, on_srq_q, on_admin_q;

  // ---- Accept ------------------------------------------------------------------------------------
  logic           accept, is_db, free, again, again_q, shut, old, passes, is_sq_q, is_rq_q;
  sq_doorbell_t   qp_word;   // both QP doorbells have this layout
  logic [QpW-1:0] in_line;
  qp_owner_t     owner, owner_new;
  cq_doorbell_t  in_cq;
  eq_doorbell_t  in_eq;
  srq_doorbell_t in_srq;

  assign in_cq  = mmio_wr_data_i;
  assign in_eq  = mmio_wr_data_i;
  assign in_srq = mmio_wr_data_i;

  assign qp_word = data_q;

  logic unused_in;
  assign unused_in = ^{in_cq, in_eq, in_srq};

  assign is_db           = mmio_wr_addr_i[15:12] == 4'(DoorbellPageOffset >> 12);
  // In turn with the host's; never beside the end of one, whose index is not in the tables yet.
  assign again           = again_valid_i && state_q == StIdle && !(again_q && mmio_wr_valid_i && is_db);
  assign again_ready_o   = again;
  assign free_o          = free;
  assign mmio_wr_ready_o = (free && !again) || !is_db;
  assign accept          = (mmio_wr_valid_i && is_db && free) || again;
  assign qpc_wr_ready_o  = !passes;
  assign owner_new       = '{func: qpc_wr_i.qpc.func, state: qpc_wr_i.qpc.state,
                             shared: qpc_wr_i.qpc.is_shared,
                             shut: qpc_wr_i.qpc.is_shut, gen: qpc_wr_i.qpc.qpn[23:QpW]};

  logic unused_qpc;
  assign unused_qpc = ^qpc_wr_i;

  hca_ram_1r1w #(
    .Width($bits(qp_owner_t)),
    .Depth(NumQps)
  ) u_owner (
    .clk_i,
    .we_i   (qpc_wr_valid_i && !passes),
    .waddr_i(qpc_wr_i.qpn),
    .wdata_i(owner_new),
    .re_i   (accept),
    .raddr_i(in_line),
    .rdata_o(owner)
  );

  // Doors that hca_lines has shut.
  assign in_line = again ? again_i.qpn[QpW-1:0] : mmio_wr_data_i[QpW-1:0];

  if (HasContextMemory) begin : gen_shut
    logic opens;
    assign opens = qpc_wr_valid_i && !qpc_wr_i.swap;
    hca_ram_1r1w #(
      .Width(1),
      .Depth(NumQps)
    ) u_shut (
      .clk_i,
      .we_i   (opens || shut_i.valid),
      .waddr_i(opens ? qpc_wr_i.qpn : shut_i.line),
      .wdata_i(!opens && (shut_i.shut || shut_i.drain)),
      .re_i   (accept),
      .raddr_i(in_line),
      .rdata_o(shut)
    );

    // The newest index of each queue: one that comes again, and is older, is old news.
    wqe_idx_t sq_pi, rq_pi;
    logic     sets_sq, sets_rq;
    assign sets_sq = qpc_wr_i.init_sq || qpc_wr_i.qpc.state == QpsReset;
    assign sets_rq = (qpc_wr_i.init_rq && qpc_wr_i.qpc.state == QpsInit) || qpc_wr_i.qpc.state == QpsReset
                     || qpc_wr_i.qpc.restores;
    hca_ram_1r1w #(
      .Width(WqeIndexBits),
      .Depth(NumQps)
    ) u_sq_pi (
      .clk_i,
      .we_i   (passes ? is_sq_q : qpc_wr_valid_i && sets_sq),
      .waddr_i(passes ? qp_word.qpn[QpW-1:0] : qpc_wr_i.qpn),
      .wdata_i(passes ? qp_word.producer_index : qpc_wr_i.qpc.restores ? qpc_wr_i.qpc.sq_pi : '0),
      .re_i   (again),
      .raddr_i(in_line),
      .rdata_o(sq_pi)
    );
    hca_ram_1r1w #(
      .Width(WqeIndexBits),
      .Depth(NumQps)
    ) u_rq_pi (
      .clk_i,
      .we_i   (passes ? is_rq_q : qpc_wr_valid_i && sets_rq),
      .waddr_i(passes ? qp_word.qpn[QpW-1:0] : qpc_wr_i.qpn),
      .wdata_i(passes ? qp_word.producer_index : qpc_wr_i.qpc.restores ? qpc_wr_i.qpc.rq_pi : '0),
      .re_i   (again),
      .raddr_i(in_line),
      .rdata_o(rq_pi)
    );
    // Indices run freely; half of their range is ahead.
    wqe_idx_t ahead;
    assign ahead = qp_word.producer_index - (on_sq_q ? sq_pi : rq_pi);
    assign old   = again_q && (ahead == '0 || ahead[WqeIndexBits-1]);
  end else begin : gen_no_shut
    logic unused_shut;
    assign unused_shut = ^shut_i;
    assign shut        = 1'b0;
    assign old         = 1'b0;
  end

  logic        whole;
  logic [11:0] in_addr;
  assign whole   = &mmio_wr_strb_i;
  assign in_addr = mmio_wr_addr_i[11:0];

  // One of hca_lines' comes as the host's has come.
  sq_doorbell_t again_word;
  always_comb begin
    again_word = '0;
    {again_word.qpn, again_word.producer_index} = {again_i.qpn, again_i.pi};
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) again_q <= 1'b0;
    else if (accept) again_q <= again;
    if (again) begin
      {on_cq_q, on_eq_q, on_srq_q, on_admin_q} <= '0;
      func_q  <= again_i.func;
      addr_q  <= (again_i.kind == MissSq) ? 12'(SqDoorbellOffset) : 12'(RqDoorbellOffset);
      data_q  <= again_word;
      on_sq_q <= again_i.kind == MissSq;
      on_rq_q <= again_i.kind == MissRq;
    end else if (accept) begin
      func_q     <= mmio_wr_func_i;
      addr_q     <= in_addr;
      data_q     <= mmio_wr_data_i;
      on_sq_q    <= in_addr == 12'(SqDoorbellOffset) && whole;
      on_rq_q    <= in_addr == 12'(RqDoorbellOffset) && whole;
      on_cq_q    <= in_addr == 12'(CqDoorbellOffset) && whole && in_cq.cqn[23:CqW] == '0;
      on_eq_q    <= in_addr == 12'(EqDoorbellOffset) && whole && in_eq.eqn[7:EqW] == '0;
      on_srq_q   <= in_addr == 12'(SrqDoorbellOffset) && whole && in_srq.srqn[23:SrqW] == '0;
      on_admin_q <= in_addr == 12'(AdminDoorbellOffset) && &mmio_wr_strb_i[1:0] && mmio_wr_func_i < 8'(NumFuncs);
    end
  end

  hca_push_port u_push (
    .clk_i,
    .rst_i,
    .mmio_wr_valid_i,
    .mmio_wr_func_i,
    .mmio_wr_addr_i,
    .mmio_wr_data_i,
    .mmio_wr_strb_i,
    .wr_valid_o(push_wr_valid_o),
    .wr_o      (push_wr_o)
  );

  // ---- Decode ------------------------------------------------------------------------------------
  cq_doorbell_t    cq_word;
  eq_doorbell_t    eq_word;
  srq_doorbell_t   srq_word;
  // What StLook has found.
  logic            missed_q, old_q, to_flush_q, bad, miss;
  logic            same, mine, on_sq, on_rq, pass_done, miss_ready, miss_taken;
  logic            fails, turned_q, flushes, unused_words;

  assign cq_word = data_q;
  assign eq_word = data_q;
  assign srq_word = data_q;
  assign unused_words = ^{qp_word, cq_word, eq_word, srq_word};

  assign same  = qp_word.qpn[23:QpW] == owner.gen && !owner.shut && !shut;
  assign mine  = same && owner.func == func_q;
  assign on_rq = on_rq_q && owner.state != QpsReset;
  assign on_sq = on_sq_q && owner.state >= QpsRts && owner.state <= QpsErr;

  // A QP that has not the row now, which is of its function: hca_lines, or firmware, knows whether there is one.
  assign miss = (on_sq_q || on_rq_q) && owner.shared && owner.func == func_q && !same;

  assign bad = !(is_sq_q || is_rq_q || missed_q || old_q || on_cq_q || on_eq_q || on_srq_q || on_admin_q);

  always_ff @(posedge clk_i) begin
    if (state_q == StLook) begin
      is_sq_q    <= on_sq && mine && !old;
      is_rq_q    <= on_rq && mine && !old;
      old_q      <= old;
      missed_q   <= miss;
      to_flush_q <= mine && (((on_sq || on_rq) && owner.state == QpsErr) || (on_sq && owner.state == QpsSqe));
    end
  end

  // Its QP came into ERR or SQE while the doorbell was on its way: the flush that began then may have passed it.
  assign fails   = qpc_wr_valid_i && qpc_wr_i.qpc.state inside {QpsErr, QpsSqe};
  assign flushes = to_flush_q || (turned_q && (is_sq_q || is_rq_q));

  always_ff @(posedge clk_i) begin
    if (accept) turned_q <= fails && qpc_wr_i.qpn == in_line;
    else if (fails && qpc_wr_i.qpn == qp_word.qpn[QpW-1:0]) turned_q <= 1'b1;
  end

  assign sq_db_valid_o = (state_q == StPass) && is_sq_q;
  assign rq_db_valid_o = (state_q == StPass) && is_rq_q;
  assign cq_db_valid_o = (state_q == StPass) && on_cq_q;
  assign eq_db_valid_o = (state_q == StPass) && on_eq_q;
  assign srq_db_valid_o = (state_q == StPass) && on_srq_q;
  assign sq_db_o = '{sq: 1'b1, qpn: qp_word.qpn[QpW-1:0], pi: qp_word.producer_index,
                     push: '{valid: qp_word.push, slot: qp_word.push_slot}};
  assign rq_db_o = '{sq: 1'b0, qpn: qp_word.qpn[QpW-1:0], pi: qp_word.producer_index, push: '0};
  assign cq_db_o = '{func: func_q, cqn: cq_word.cqn[CqW-1:0], arm: cq_word.arm, ci: cq_word.consumer_index};
  assign eq_db_o = '{func: func_q, eqn: eq_word.eqn[EqW-1:0], ci: eq_word.consumer_index};

  assign srq_db_o = '{func: func_q, srqn: srq_word.srqn[SrqW-1:0], pi: srq_word.producer_index};

  assign msg_valid_o = state_q == StFlush;
  assign msg_o = '{kind: is_sq_q ? MsgFlushSq : MsgFlushRq, qpn: qp_word.qpn[QpW-1:0],
                   wqe_index: qp_word.producer_index, status: 8'd0, syndrome: 8'd0};

  assign pass_done = (state_q == StPass)
                     && !((is_sq_q && !sq_db_ready_i) || (is_rq_q && !rq_db_ready_i) || (on_cq_q && !cq_db_ready_i)
                          || (on_eq_q && !eq_db_ready_i) || (on_srq_q && !srq_db_ready_i)
                          || (missed_q && !miss_ready && !miss_taken));
  assign passes    = pass_done && (is_sq_q || is_rq_q);
  assign free      = state_q == StIdle || (pass_done && !flushes);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle:  if (accept) state_q <= StLook;
        StLook:  state_q <= StPass;
        StPass:  if (pass_done) state_q <= flushes ? StFlush : accept ? StLook : StIdle;
        StFlush: if (msg_ready_i) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
    end
  end

  // ---- Events ------------------------------------------------------------------------------------
  // One place per function for the newest admin producer index (never lost, only merged), one place for
  // a refused doorbell (further ones are only counted), a queue for those that miss: they wait when it is full, and
  // firmware empties it whatever else it does. Who is next is found in one cycle, and its event read in another one: of
  // what firmware gets, two cycles each are enough.
  localparam int unsigned Misses = 16;
  localparam int unsigned Slots = NumFuncs + 2;
  localparam int unsigned SlotW = $clog2(Slots);

  logic [Slots-1:0]         pending_q, pending_d, grant;
  logic [NumFuncs-1:0][15:0] admin_pi_q;
  hw_event_t                bad_ev_q, pick, ev_q;
  hw_event_t                miss_ev, miss_head;
  logic                     ev_valid_q, ev_load, take_admin, take_bad, miss_valid, choose;
  logic                     next_q, next_bad_q, next_miss_q;
  logic [Slots-1:0]         waiting;
  logic [SlotW-1:0]         slot, slot_q;

  assign miss_valid_o = state_q == StPass && missed_q && lines_on_i;
  assign miss_taken   = miss_valid_o && miss_ready_i;
  assign miss_o       = '{kind: on_sq_q ? MissSq : MissRq, func: func_q, qpn: qp_word.qpn, pi: qp_word.producer_index};

  assign take_admin = state_q == StPass && on_admin_q;
  assign take_bad   = state_q == StPass && bad;
  assign miss_ev    = '{kind: HwEventLineMiss, func: func_q, reserved0: '0, id: 32'(qp_word.qpn),
                        cause: {14'd0, on_sq_q, qp_word.producer_index}};
  assign waiting    = {miss_valid, pending_q[NumFuncs:0]};
  assign choose     = !next_q;
  assign ev_load    = next_q && (!ev_valid_q || ev_ready_i);

  hca_fifo #(.Width($bits(hw_event_t)), .Depth(Misses)) u_misses (
    .clk_i, .rst_i, .in_valid_i(state_q == StPass && missed_q && !miss_taken), .in_ready_o(miss_ready), .in_i(miss_ev),
    .out_valid_o(miss_valid), .out_ready_i(ev_load && next_miss_q), .out_o(miss_head), .count_o()
  );
  assign ev_valid_o = ev_valid_q;
  assign ev_o       = ev_q;

  hca_rr_arb #(
    .N(Slots)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i    (waiting),
    .advance_i(choose),
    .grant_o  (grant),
    .idx_o    (slot)
  );

  always_comb begin
    pick      = '0;
    pick.kind = HwEventAdminDb;
    pick.func = 8'(slot_q);
    pick.id   = 32'(admin_pi_q[FuncIdxW'(slot_q)]);
    if (next_bad_q) pick = bad_ev_q;
    if (next_miss_q) pick = miss_head;
  end

  always_comb begin
    pending_d = pending_q;
    if (ev_load) pending_d[slot_q] = 1'b0;
    if (take_admin) pending_d[SlotW'(func_q)] = 1'b1;
    if (take_bad) pending_d[NumFuncs] = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      pending_q    <= '0;
      next_q       <= 1'b0;
      ev_valid_q   <= 1'b0;
      bad_db_cnt_o <= '0;
    end else begin
      pending_q <= pending_d;
      next_q    <= choose ? waiting != '0 : !ev_load;
      if (ev_load) ev_valid_q <= 1'b1;
      else if (ev_ready_i) ev_valid_q <= 1'b0;
      if (take_bad) bad_db_cnt_o <= bad_db_cnt_o + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (choose) {slot_q, next_bad_q, next_miss_q} <= {slot, grant[NumFuncs], grant[NumFuncs+1]};
    if (ev_load) ev_q <= pick;
    if (take_admin) admin_pi_q[func_q[FuncIdxW-1:0]] <= data_q[15:0];
    if (take_bad && (!pending_q[NumFuncs] || (ev_load && next_bad_q))) begin   // its place is free, or becomes so
      bad_ev_q <= '{cause: 32'(addr_q), id: 32'(qp_word.qpn), reserved0: 16'd0, func: func_q,
                    kind: HwEventBadDoorbell};
    end
  end

endmodule
