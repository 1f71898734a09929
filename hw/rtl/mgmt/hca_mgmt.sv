// Management: the register block, and what its registers command (context port, mailbox DMA, events,
// messages, EQEs). The host reaches its function registers, firmware everything. Nothing on the data path
// waits for this block: events queue up, commands are fire and forget with a busy bit.
module hca_mgmt
  import hca_pkg::*;
  import hca_mgmt_pkg::*;
  import hca_link_pkg::link_wr_t;
  import hca_mad_pkg::*;
#(
    parameter int unsigned NumQpcSinks   = 6,
    parameter int unsigned RecordSink    = 2,   // of contexts: who says what the QP was (record_i)
    parameter int unsigned NumEvSources  = 5,   // the last is this block's own
    parameter int unsigned DoorbellSource = 1,  // of events: who says that admin queues were rung
    parameter int unsigned ClockHz       = 250_000_000,
    parameter int unsigned NumVectors    = 32,
    parameter int unsigned NumVls        = hca_link_pkg::NumVlsDefault    // data VLs of the links
) (
    input  logic                          clk_i,
    input  logic                          clk_bus_i,      // the same clock, for the part that looks at all accesses
    input  logic                          rst_i,
    input  logic [63:0]                   now_i,
    input  logic [1:0]                    num_ports_i,    // fitted, 1..NumPorts
    // Host registers.
    input  logic                          mmio_wr_valid_i,
    output logic                          mmio_wr_ready_o,
    input  logic [7:0]                    mmio_wr_func_i,
    input  logic [11:0]                   mmio_wr_addr_i,
    input  logic [63:0]                   mmio_wr_data_i,
    input  logic [7:0]                    mmio_wr_strb_i,
    input  logic                          mmio_rd_valid_i,
    output logic                          mmio_rd_ready_o,
    input  logic [7:0]                    mmio_rd_func_i,
    input  logic [15:0]                   mmio_rd_addr_i,
    output logic                          mmio_rdata_valid_o,
    output logic [31:0]                   mmio_rdata_o,
    // Firmware.
    input  logic                          fw_req_i,
    input  logic                          fw_we_i,
    input  logic [19:0]                   fw_addr_i,
    input  logic [31:0]                   fw_wdata_i,
    output logic                          fw_req_stall_o,
    output logic                          fw_rd_ack_o,
    output logic                          fw_wr_ack_o,
    output logic [31:0]                   fw_rdata_o,
    output logic                          fw_irq_o,
    // Tables.
    output logic [NumQpcSinks-1:0]        qpc_wr_valid_o,
    input  logic [NumQpcSinks-1:0]        qpc_wr_ready_i,
    output qpc_wr_t                       qpc_wr_o,
    input  qpc_record_t                   record_i,       // of the row that RecordSink takes
    output logic                          key_wr_valid_o,
    output logic [FuncIdxW-1:0]           key_wr_func_o,
    output key_place_t                    key_wr_o,
    output logic                          forget_valid_o,
    input  logic                          forget_ready_i,
    output key_forget_t                   forget_o,
    output logic                          cqc_wr_valid_o,
    input  logic                          cqc_wr_ready_i,
    output logic [CqW-1:0]                cqc_wr_cqn_o,
    output cqc_t                          cqc_wr_o,
    output logic                          eqc_wr_valid_o,
    input  logic                          eqc_wr_ready_i,
    output logic [EqW-1:0]                eqc_wr_eqn_o,
    output eqc_t                          eqc_wr_o,
    // Rows of the links: a strobe.
    output link_wr_t                      link_wr_o,
    output gid_wr_t                       gid_wr_o,
    output rule_wr_t                      rule_wr_o,
    input  logic                          rule_busy_i,
    output rss_wr_t                       rss_wr_o,
    output rss_qp_wr_t                    rss_qp_wr_o,
    output logic                          srqc_wr_valid_o,
    input  logic                          srqc_wr_ready_i,
    output logic [SrqW-1:0]               srqc_wr_srqn_o,
    output srqc_t                         srqc_wr_o,
    output logic                          group_wr_valid_o,
    input  logic                          group_wr_ready_i,
    output group_wr_t                     group_wr_o,
    output logic                          record_wr_valid_o,
    input  logic                          record_wr_ready_i,
    output record_wr_t                    record_wr_o,
    output lines_cfg_t                    lines_cfg_o,
    input  line_holder_t                  line_holder_i,
    input  logic                          lines_held_i,
    input  logic                          lines_room_i,
    output logic                          dm_wr_valid_o,
    input  logic                          dm_wr_ready_i,
    output dm_page_t                      dm_wr_o,
    // Status words of the links: {port, word}, data in the next cycle.
    output logic [8:0]                    link_stat_addr_o,
    input  logic [31:0]                   link_stat_data_i,
    input  logic [NumPorts-1:0]           link_event_i,   // link_status of the port changed
    // Management datagrams of firmware.
    output mad_req_t                      mad_req_o,
    input  mad_rsp_t                      mad_rsp_i,
    // Messages, EQEs, events.
    output logic                          msg_valid_o,
    input  logic                          msg_ready_i,
    output pipe_msg_t                     msg_o,
    output logic                          eqe_valid_o,
    input  logic                          eqe_ready_i,
    output eqe_job_t                      eqe_o,
    input  logic [NumEvSources-2:0]       ev_valid_i,
    output logic [NumEvSources-2:0]       ev_ready_o,
    input  hw_ev_t                        ev_i [NumEvSources-1],
    // Host memory.
    output logic                          rd_req_valid_o,
    input  logic                          rd_req_ready_i,
    output dma_rd_req_t                   rd_req_o,
    input  logic                          rd_rsp_valid_i,
    output logic                          rd_rsp_ready_o,
    input  dma_rd_rsp_t                   rd_rsp_i,
    output logic                          wr_valid_o,
    input  logic                          wr_ready_i,
    output dma_wr_t                       wr_o,
    // Configuration and counters.
    output logic                          fence_start_o,  // strobe
    input  logic                          fence_busy_i,
    output port_cfg_t [NumPorts-1:0]      port_cfg_o,
    output logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_o,
    output counter_req_t                  counter_req_o,
    input  logic [31:0]                   counter_data_i   // next cycle
);
  localparam int unsigned NumOwn   = NumFuncs + NumPorts + 1;
  localparam int unsigned OwnW     = $clog2(NumOwn);

  hca_func_regs_pkg::hca_func_regs__in_t  func_in  [NumFuncs];
  hca_func_regs_pkg::hca_func_regs__out_t func_out [NumFuncs];
  hca_mgmt_regs_pkg::hca_mgmt_regs__in_t  hwif_in;
  hca_mgmt_regs_pkg::hca_mgmt_regs__out_t hwif_out;

  logic        mgmt_req, reg_we, reg_first, win_ack;
  windows_t    win, win_q;
  logic [15:2] reg_addr;
  logic [31:0] reg_wdata, mgmt_rdata, win_rdata;
  logic [NumFuncs-1:0]       func_req;
  logic [NumFuncs-1:0][31:0] func_rdata;

  hca_mgmt_bus u_bus (
    .clk_i(clk_bus_i), .rst_i,
    .mmio_wr_valid_i, .mmio_wr_ready_o, .mmio_wr_func_i, .mmio_wr_addr_i, .mmio_wr_data_i, .mmio_wr_strb_i,
    .mmio_rd_valid_i, .mmio_rd_ready_o, .mmio_rd_func_i, .mmio_rd_addr_i, .mmio_rdata_valid_o, .mmio_rdata_o,
    .fw_req_i, .fw_we_i, .fw_addr_i, .fw_wdata_i, .fw_req_stall_o, .fw_rd_ack_o, .fw_wr_ack_o, .fw_rdata_o,
    .func_req_o(func_req), .mgmt_req_o(mgmt_req), .win_req_o(win), .reg_we_o(reg_we), .reg_addr_o(reg_addr),
    .reg_wdata_o(reg_wdata), .reg_first_o(reg_first),
    .func_rdata_i(func_rdata), .mgmt_rdata_i(mgmt_rdata), .win_ack_i(win_ack), .win_rdata_i(win_rdata)
  );

  for (genvar f = 0; f < NumFuncs; f++) begin : gen_func
    hca_func_regs u_regs (
      .clk(clk_i), .rst(rst_i),
      .s_cpuif_req(func_req[f]), .s_cpuif_req_is_wr(reg_we), .s_cpuif_addr({reg_addr[5:2], 2'd0}),
      .s_cpuif_wr_data(reg_wdata),
      .s_cpuif_wr_biten({31'h7fff_ffff, reg_first}), .s_cpuif_req_stall_wr(), .s_cpuif_req_stall_rd(),
      .s_cpuif_rd_ack(), .s_cpuif_rd_err(), .s_cpuif_rd_data(func_rdata[f]), .s_cpuif_wr_ack(), .s_cpuif_wr_err(),
      .hwif_in(func_in[f]), .hwif_out(func_out[f])
    );
  end

  hca_mgmt_regs u_mgmt_regs (
    .clk(clk_i), .rst(rst_i),
    .s_cpuif_req(mgmt_req), .s_cpuif_req_is_wr(reg_we), .s_cpuif_addr({6'd0, reg_addr[10:2], 2'd0}),
    .s_cpuif_wr_data(reg_wdata),
    .s_cpuif_wr_biten({31'h7fff_ffff, reg_first}), .s_cpuif_req_stall_wr(), .s_cpuif_req_stall_rd(),
    .s_cpuif_rd_ack(), .s_cpuif_rd_err(), .s_cpuif_rd_data(mgmt_rdata), .s_cpuif_wr_ack(), .s_cpuif_wr_err(),
    .hwif_in, .hwif_out
  );

  // Where a function's admin rings are, for firmware to read: memory, for nothing else looks at it.
  logic [$clog2(4 * NumFuncs)-1:0] base_word;
  logic [31:0] base_rdata;
  assign base_word = $clog2(4 * NumFuncs)'({reg_addr[15:12], reg_addr[3:2]});
  hca_ram_1r1w #(.Width(32), .Depth(4 * NumFuncs)) u_bases (
    .clk_i, .we_i(win.func_admin && reg_we), .waddr_i(base_word), .wdata_i(reg_wdata),
    .re_i(win.func_admin), .raddr_i(base_word), .rdata_o(base_rdata)
  );

  // ---- Context port --------------------------------------------------------------------------------
  logic ctx_busy, ctx_err;
  hca_mgmt_ctx #(.NumQpcSinks(NumQpcSinks)) u_ctx (
    .clk_i, .rst_i,
    .word_we_i(win.ctx_data && reg_we), .word_addr_i(reg_addr[7:2]), .word_data_i(reg_wdata),
    .go_i(hwif_out.mgmt.ctx_cmd.write.value), .table_i(ctx_table_e'(hwif_out.mgmt.ctx_table.value.value)),
    .index_i(hwif_out.mgmt.ctx_index.value.value), .init_sq_i(hwif_out.mgmt.ctx_flags.init_sq.value),
    .init_rq_i(hwif_out.mgmt.ctx_flags.init_rq.value), .busy_o(ctx_busy), .err_o(ctx_err),
    .qpc_wr_valid_o, .qpc_wr_ready_i, .qpc_wr_o, .key_wr_valid_o, .key_wr_func_o, .key_wr_o,
    .forget_valid_o, .forget_ready_i, .forget_o, .cqc_wr_valid_o, .cqc_wr_ready_i, .cqc_wr_cqn_o, .cqc_wr_o,
    .eqc_wr_valid_o, .eqc_wr_ready_i, .eqc_wr_eqn_o, .eqc_wr_o,
    .srqc_wr_valid_o, .srqc_wr_ready_i, .srqc_wr_srqn_o, .srqc_wr_o,
    .link_wr_o, .gid_wr_o, .rule_wr_o, .rule_busy_i, .rss_wr_o, .rss_qp_wr_o, .group_wr_valid_o, .group_wr_ready_i,
    .group_wr_o, .dm_wr_valid_o, .dm_wr_ready_i, .dm_wr_o,
    .record_valid_o(record_wr_valid_o), .record_ready_i(record_wr_ready_i), .record_o(record_wr_o)
  );

  // What the QP was that had the row before the last context write: reads of ctx_data.
  logic [$bits(qpc_record_t)/32-1:0][31:0] record_q;
  logic [31:0]       ctx_rdata_q;
  always_ff @(posedge clk_i) begin
    if (qpc_wr_valid_o[RecordSink] && qpc_wr_ready_i[RecordSink]) record_q <= record_i;
    if (win.ctx_data) ctx_rdata_q <= record_q[reg_addr[6:2]];
  end

  // ---- Lines that change hands -----------------------------------------------------------------------
  assign lines_cfg_o = '{
    enable: hwif_out.mgmt.lines_ctrl.enable.value, hold: hwif_out.mgmt.lines_ctrl.hold.value,
    index_bits: hwif_out.mgmt.lines_ctrl.index_bits.value,
    base: {hwif_out.mgmt.lines_base_hi.value.value, hwif_out.mgmt.lines_base_lo.value.value[31:8]},
    sel: hwif_out.mgmt.lines_sel.value.value[QpW-1:0], set_go: hwif_out.mgmt.lines_set.go.value,
    set: '{may_rest: hwif_out.mgmt.lines_set.may_rest.value, valid: hwif_out.mgmt.lines_set.valid.value,
           qpn: hwif_out.mgmt.lines_set.qpn.value},
    want_go: hwif_out.mgmt.lines_want.go.value,
    want: '{kind: line_miss_e'(hwif_out.mgmt.lines_want.kind.value), func: hwif_out.mgmt.lines_want_index.func.value,
            qpn: hwif_out.mgmt.lines_want.qpn.value, pi: hwif_out.mgmt.lines_want_index.index.value}
  };
  line_holder_t line_holder_q;
  logic         lines_held_q, lines_room_q;
  always_ff @(posedge clk_i) begin
    line_holder_q <= line_holder_i;
    lines_held_q  <= lines_held_i;
    lines_room_q  <= lines_room_i && !hwif_out.mgmt.lines_want.go.value;
  end

  // ---- Mailbox -------------------------------------------------------------------------------------
  logic        dma_busy, dma_err;
  logic [31:0] mb_rdata;
  hca_mgmt_dma u_dma (
    .clk_i, .rst_i,
    .mb_re_i(win.mailbox && !reg_we), .mb_we_i(win.mailbox && reg_we), .mb_addr_i(reg_addr[11:2]),
    .mb_wdata_i(reg_wdata), .mb_rdata_o(mb_rdata),
    .go_i(hwif_out.mgmt.dma_ctrl.host_to_mailbox.value || hwif_out.mgmt.dma_ctrl.mailbox_to_host.value),
    .to_host_i(hwif_out.mgmt.dma_ctrl.mailbox_to_host.value), .func_i(hwif_out.mgmt.dma_func.value.value),
    .addr_i({hwif_out.mgmt.dma_addr_hi.value.value, hwif_out.mgmt.dma_addr_lo.value.value}),
    .local_i(hwif_out.mgmt.dma_local.value.value), .len_i(hwif_out.mgmt.dma_len.value.value),
    .skip_i(hwif_out.mgmt.dma_local.skip.value), .spare_i(hwif_out.mgmt.dma_local.spare.value),
    .busy_o(dma_busy), .err_o(dma_err),
    .rd_req_valid_o, .rd_req_ready_i, .rd_req_o, .rd_rsp_valid_i, .rd_rsp_ready_o, .rd_rsp_i,
    .wr_valid_o, .wr_ready_i, .wr_o
  );

  // ---- Events --------------------------------------------------------------------------------------
  logic [NumEvSources-1:0] all_ev_valid, all_ev_ready;
  hw_ev_t                  all_ev [NumEvSources];
  hw_ev_t                  head_ev;
  logic                    head_valid;
  // This block's own: writes of CONTROL, changes of a link, datagrams; a pending bit per function, per port, and one.
  logic [NumOwn-1:0]       own_set, own_pend_q, own_grant;
  hw_ev_t                  own_ev;
  logic                    own_valid_q, own_take;
  logic [OwnW-1:0]         own_idx;

  hca_mgmt_events #(.NumSources(NumEvSources)) u_events (
    .clk_i, .rst_i, .ev_valid_i(all_ev_valid), .ev_ready_o(all_ev_ready), .ev_i(all_ev),
    .head_valid_o(head_valid), .head_o(head_ev), .pop_i(hwif_out.mgmt.ev_pop.pop.value)
  );
  always_comb begin
    for (int unsigned i = 0; i < NumEvSources - 1; i++) all_ev[i] = ev_i[i];
    all_ev[NumEvSources-1] = own_ev;
  end
  assign all_ev_valid = {own_valid_q, ev_valid_i};
  assign ev_ready_o   = all_ev_ready[NumEvSources-2:0];
  assign own_take     = all_ev_ready[NumEvSources-1] && own_valid_q;

  // In turns: a driver that writes CONTROL without end must not keep the others' events back.
  hca_rr_arb #(.N(NumOwn)) u_own_arb (
    .clk_i, .rst_i, .req_i(own_pend_q), .advance_i(own_take), .grant_o(own_grant), .idx_o(own_idx)
  );
  always_comb begin
    own_set = '0;
    own_set[NumOwn-1:NumFuncs] = {mad_rsp_i.arrived, link_event_i};
    for (int unsigned f = 0; f < NumFuncs; f++) own_set[f] = func_out[f].func.control.enable.swmod;
    own_ev      = '0;
    own_ev.kind = HwEventFuncControl;
    own_ev.func = 8'(own_idx);
    if (own_idx >= OwnW'(NumFuncs)) begin
      own_ev.kind = HwEventPort;
      own_ev.func = '0;
      own_ev.id   = 32'(own_idx) - NumFuncs + 32'd1;   // port, from 1
    end
    if (own_idx == OwnW'(NumOwn - 1)) begin
      own_ev.kind = HwEventMad;
      own_ev.id   = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) {own_valid_q, own_pend_q} <= '0;
    else begin
      own_pend_q  <= (own_pend_q & ~(own_take ? own_grant : '0)) | own_set;
      own_valid_q <= own_pend_q != '0 && !own_take;
    end
  end
  assign fw_irq_o = head_valid;

  // Newest producer index of each admin queue, from the doorbell's events.
  hw_ev_t                    rung;
  logic                      rings, unused_rung;
  logic [NumFuncs-1:0][15:0] admin_pi_q;
  assign rung  = ev_i[DoorbellSource];
  assign unused_rung = ^rung;
  assign rings = ev_valid_i[DoorbellSource] && ev_ready_o[DoorbellSource] && rung.kind == HwEventAdminDb;
  for (genvar f = 0; f < int'(NumFuncs); f++) begin : gen_admin_pi
    always_ff @(posedge clk_i) begin
      // A doorbell of the last owner must not count for the next.
      if (rst_i || hwif_out.mgmt.fn[f].reset_done.go.value) admin_pi_q[f] <= '0;
      else if (rings && rung.func == 8'(f)) admin_pi_q[f] <= rung.id[15:0];
    end
  end

  // ---- Messages and EQEs ---------------------------------------------------------------------------
  logic msg_pend_q, eqe_pend_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      msg_pend_q <= 1'b0;
      eqe_pend_q <= 1'b0;
    end else begin
      if (hwif_out.mgmt.msg_go.go.value) msg_pend_q <= 1'b1;
      else if (msg_ready_i) msg_pend_q <= 1'b0;
      if (hwif_out.mgmt.eqe_go.go.value) eqe_pend_q <= 1'b1;
      else if (eqe_ready_i) eqe_pend_q <= 1'b0;
    end
  end
  assign fence_start_o = hwif_out.mgmt.fence_go.go.value;
  assign msg_valid_o = msg_pend_q;
  always_comb begin
    msg_o      = '0;
    msg_o.kind = msg_kind_e'(hwif_out.mgmt.msg_kind.value.value);
    msg_o.qpn  = hwif_out.mgmt.msg_qpn.value.value[QpW-1:0];
  end
  assign eqe_valid_o = eqe_pend_q;
  assign eqe_o = '{eqn: hwif_out.mgmt.eqe_eqn.value.value[EqW-1:0], kind: hwif_out.mgmt.eqe_data[0].value.value[7:0],
                   id: hwif_out.mgmt.eqe_data[1].value.value, data0: hwif_out.mgmt.eqe_data[2].value.value,
                   data1: hwif_out.mgmt.eqe_data[3].value.value};

  // ---- Port, P_Key and GID tables, counters ----------------------------------------------------------
  localparam int unsigned MapPorts = 2;   // of the register map: every access is answered
  logic [MapPorts-1:0][31:0] pk_rdata_q, gid_rdata;
  // Address and data move with every access of the register block: parts of the card behind it that would look at them
  // sleep while it is about others.
  assign counter_req_o = win.counters ? '{rd: !reg_we, word: reg_addr[9:2]} : '0;
  logic mad_we;   // the same for words of datagrams
  assign mad_we    = win.mad && reg_we && reg_addr[9];
  assign mad_req_o = '{
    re: win.mad && !reg_we && !reg_addr[9], we: mad_we,
    word: win.mad ? reg_addr[8:2] : '0, data: mad_we ? reg_wdata : '0,
    pop: hwif_out.mgmt.mad_rx.pop.value, go: hwif_out.mgmt.mad_tx.go.value,
    bytes: hwif_out.mgmt.mad_tx.bytes.value, port: PortW'(hwif_out.mgmt.mad_tx.port.value)
  };

  for (genvar p = NumPorts; p < MapPorts; p++) begin : gen_absent
    assign pk_rdata_q[p] = '0;
    assign gid_rdata[p]  = '0;
  end

  for (genvar p = 0; p < NumPorts; p++) begin : gen_port
    assign port_cfg_o[p] = '{
      ib: hwif_out.mgmt.port[p].ctrl.ib.value, active: hwif_out.mgmt.port[p].ctrl.active.value,
      mac: {hwif_out.mgmt.port[p].mac_hi.value.value, hwif_out.mgmt.port[p].mac_lo.value.value},
      lid: hwif_out.mgmt.port[p].lid.value.value, lmc: hwif_out.mgmt.port[p].lmc.value.value
    };

    logic here;
    assign here = reg_addr[9] == 1'(p);
    hca_ram_1r1w #(.Width(32), .Depth(4 * NumGids)) u_gid (
      .clk_i, .we_i(win.gid && here && reg_we), .waddr_i(reg_addr[7:2]), .wdata_i(reg_wdata),
      .re_i(win.gid && here), .raddr_i(reg_addr[7:2]), .rdata_o(gid_rdata[p])
    );

    always_ff @(posedge clk_i) begin
      if (win.pkey && here) begin
        pk_rdata_q[p] <= {16'd0, pkey_tbl_o[p][reg_addr[6:2]]};
        if (reg_we) pkey_tbl_o[p][reg_addr[6:2]] <= reg_wdata[15:0];
      end
      if (rst_i) pkey_tbl_o[p] <= '0;
    end
  end

  // Register accesses are 3 cycles apart, so the word is in link_stat_q when a read of link_data is acknowledged.
  assign link_stat_addr_o = {hwif_out.mgmt.link_sel.port.value, hwif_out.mgmt.link_sel.word.value};

  // ---- What registers read -----------------------------------------------------------------------------
  // All of it comes out of registers: the multiplexer of hundreds of them begins behind a flop. The time is that at
  // which a reader's access was taken; nobody else sees it pass.
  logic [63:0] time_q;
  logic [31:0] link_stat_q, counter_q, mad_q;
  logic        mad_pending_q, mad_busy_q;
  logic [PortW-1:0] mad_port_q;
  logic [9:0]  mad_bytes_q;
  logic [1:0]  num_ports_q;
  logic        fence_busy_q;
  always_ff @(posedge clk_i) begin
    num_ports_q  <= num_ports_i;
    fence_busy_q <= fence_start_o || fence_busy_i;
    link_stat_q  <= link_stat_data_i;
    counter_q    <= counter_data_i;
    mad_q        <= mad_rsp_i.data;
    {mad_pending_q, mad_port_q} <= {mad_rsp_i.pending && !mad_req_o.pop, mad_rsp_i.port};
    mad_bytes_q  <= mad_rsp_i.bytes;
    mad_busy_q   <= mad_rsp_i.busy || mad_req_o.go;
    if ((mmio_rd_valid_i && mmio_rd_ready_o) || (fw_req_i && !fw_req_stall_o)) time_q <= now_i;
  end

  // Who was asked has its word a cycle later, counters and datagrams (late) two.
  logic counters_late_q, mad_late_q;
  always_ff @(posedge clk_i) begin
    {win_q, counters_late_q, mad_late_q} <= rst_i ? '0 : {win, win_q.counters, win_q.mad};
  end
  assign win_ack = win_q.func_admin || win_q.func_time || win_q.link_data || win_q.ctx_data || win_q.pkey || win_q.gid
                   || win_q.mailbox || counters_late_q || mad_late_q;
  always_comb begin
    win_rdata = win_q.mailbox ? mb_rdata : '0;
    for (int unsigned p = 0; p < MapPorts; p++) begin
      if (win_q.pkey && reg_addr[9] == 1'(p)) win_rdata |= pk_rdata_q[p];
      if (win_q.gid && reg_addr[9] == 1'(p)) win_rdata |= gid_rdata[p];
    end
    if (win_q.func_admin) win_rdata |= base_rdata;
    if (win_q.func_time) win_rdata |= reg_addr[2] ? time_q[63:32] : time_q[31:0];
    if (win_q.ctx_data) win_rdata |= ctx_rdata_q;
    if (win_q.link_data) win_rdata |= link_stat_q;
    if (counters_late_q) win_rdata |= counter_q;
    if (mad_late_q) win_rdata |= mad_q;
  end

  always_comb begin
    for (int unsigned f = NumFuncs; f < Funcs; f++) begin
      hwif_in.mgmt.fn[f] = '{default: '0};
    end
    for (int unsigned f = 0; f < NumFuncs; f++) begin
      func_in[f].func.status.ready.next   = hwif_out.mgmt.fn[f].status.ready.value;
      func_in[f].func.status.fatal.next   = hwif_out.mgmt.fn[f].status.fatal.value;
      func_in[f].func.status.link_up.next = hwif_out.mgmt.fn[f].status.link_up.value;
      func_in[f].func.control.enable.hwclr = hwif_out.mgmt.fn[f].reset_done.go.value;
      func_in[f].func.control.reset.hwclr  = hwif_out.mgmt.fn[f].reset_done.go.value;
      func_in[f].func.admin_status.consumer_index.next = hwif_out.mgmt.fn[f].admin_status.consumer_index.value;
      func_in[f].func.admin_status.error.next          = hwif_out.mgmt.fn[f].admin_status.error.value;
      func_in[f].func.clock_hz.value.next = ClockHz;
      func_in[f].func.func_info.func_number.next = 8'(f);
      func_in[f].func.func_info.vectors.next     = 11'(NumVectors);
      hwif_in.mgmt.fn[f].admin_producer.value.next = admin_pi_q[f];
    end
    hwif_in.mgmt.ev_status.pending.next = head_valid;
    hwif_in.mgmt.ev_w0.value.next     = head_ev[31:0];
    hwif_in.mgmt.ev_w1.value.next     = head_ev.id;
    hwif_in.mgmt.ev_w2.value.next     = head_ev.cause;
    hwif_in.mgmt.dma_status.busy.next  = dma_busy;
    hwif_in.mgmt.dma_status.error.next = dma_err;
    hwif_in.mgmt.ctx_status.busy.next  = ctx_busy;
    hwif_in.mgmt.ctx_status.error.next = ctx_err;
    hwif_in.mgmt.go_status.msg_busy.next  = msg_pend_q;
    hwif_in.mgmt.go_status.eqe_busy.next  = eqe_pend_q;
    hwif_in.mgmt.go_status.fence_busy.next = fence_busy_q;
    hwif_in.mgmt.lines_holder.qpn.next      = line_holder_q.qpn;
    hwif_in.mgmt.lines_holder.valid.next    = line_holder_q.valid;
    hwif_in.mgmt.lines_holder.may_rest.next = line_holder_q.may_rest;
    hwif_in.mgmt.lines_status.held.next     = lines_held_q;
    hwif_in.mgmt.lines_status.room.next     = lines_room_q;
    hwif_in.mgmt.num_qps.value.next   = NumQps;
    hwif_in.mgmt.num_cqs.value.next   = NumCqs;
    hwif_in.mgmt.num_eqs.value.next   = NumEqs;
    hwif_in.mgmt.num_mrs.value.next   = NumMrs;
    hwif_in.mgmt.num_funcs.value.next = NumFuncs;
    hwif_in.mgmt.num_ports.value.next = 32'(num_ports_q);
    hwif_in.mgmt.num_vls.value.next   = 4'(NumVls);
    for (int unsigned p = 0; p < MapPorts; p++) begin
      hwif_in.mgmt.port[p].status.link_up.next = p < NumPorts && hwif_out.mgmt.port[p].ctrl.active.value;
    end
    hwif_in.mgmt.mad_status.pending.next = mad_pending_q;
    hwif_in.mgmt.mad_status.port.next    = 1'(mad_port_q);
    hwif_in.mgmt.mad_status.bytes.next   = mad_bytes_q;
    hwif_in.mgmt.mad_status.busy.next    = mad_busy_q;
  end

endmodule
