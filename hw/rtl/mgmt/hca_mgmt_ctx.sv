// Context port: firmware fills the data words, then names a table and an index; this block delivers the row
// to whoever keeps it. QP contexts go to every listener in parallel, each takes it in its own time; busy_o
// stays high until the last has. Rows are write-only: firmware keeps the master copy. After reset the block
// clears every row of every table (but the links' control rows: a link resets to DOWN by itself, and no function has a
// key table; no rule leads to the rows of RSS; no page of device memory is there) and is busy meanwhile.
module hca_mgmt_ctx
  import hca_pkg::*;
  import hca_link_pkg::link_wr_t;
#(
    parameter int unsigned NumQpcSinks = 6
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    // Data words, 64 of 32 bits.
    input  logic                   word_we_i,
    input  logic [5:0]             word_addr_i,
    input  logic [31:0]            word_data_i,
    // Command: taken when busy_o is low.
    input  logic                   go_i,
    input  ctx_table_e             table_i,
    input  logic [31:0]            index_i,
    input  logic                   init_sq_i,
    input  logic                   init_rq_i,
    output logic                   busy_o,
    output logic                   err_o,      // the last command named no such table or row
    // Tables.
    output logic [NumQpcSinks-1:0] qpc_wr_valid_o,
    input  logic [NumQpcSinks-1:0] qpc_wr_ready_i,
    output qpc_wr_t                qpc_wr_o,
    output logic                   key_wr_valid_o,   // for one cycle, taken at once
    output logic [FuncIdxW-1:0]    key_wr_func_o,
    output key_place_t             key_wr_o,
    output logic                   forget_valid_o,
    input  logic                   forget_ready_i,
    output key_forget_t            forget_o,
    output logic                   cqc_wr_valid_o,
    input  logic                   cqc_wr_ready_i,
    output logic [CqW-1:0]         cqc_wr_cqn_o,
    output cqc_t                   cqc_wr_o,
    output logic                   eqc_wr_valid_o,
    input  logic                   eqc_wr_ready_i,
    output logic [EqW-1:0]         eqc_wr_eqn_o,
    output eqc_t                   eqc_wr_o,
    output link_wr_t               link_wr_o,   // valid for one cycle, taken at once
    output gid_wr_t                gid_wr_o,    // the same
    output rule_wr_t               rule_wr_o,   // a strobe; the row holds while rule_busy_i
    input  logic                   rule_busy_i,
    output rss_wr_t                rss_wr_o,    // the same
    output rss_qp_wr_t             rss_qp_wr_o, // the same
    output logic                   srqc_wr_valid_o,
    input  logic                   srqc_wr_ready_i,
    output logic [SrqW-1:0]        srqc_wr_srqn_o,
    output srqc_t                  srqc_wr_o,
    output logic                   group_wr_valid_o,
    input  logic                   group_wr_ready_i,
    output group_wr_t              group_wr_o,
    output logic                   record_valid_o,
    input  logic                   record_ready_i,
    output record_wr_t             record_o,
    output logic                   dm_wr_valid_o,
    input  logic                   dm_wr_ready_i,
    output dm_page_t               dm_wr_o
);
  localparam int unsigned LinkRowsAll = NumPorts * LinkPortRows;
  localparam int unsigned SweepW = $clog2((NumQps > LinkRowsAll) ? NumQps : LinkRowsAll);  // no swept table has more

  logic [63:0][31:0] words_q;
  logic [KeyW-1:0]   index_q;   // no index is longer
  logic              init_sq_q, init_rq_q, swept_q;
  logic              known, known_link, named_q;   // named_q: firmware's table has firmware's row
  // Sweep after reset.
  logic              sweep_q;
  ctx_table_e        sweep_table_q;
  logic [SweepW-1:0] sweep_row_q, sweep_end;  // sweep_end: the last row
  logic              go, sweep_last;
  ctx_table_e        tbl;
  logic [KeyW-1:0]   index;
  logic              waiting;
  logic [NumQpcSinks-1:0] qpc_pend_q;
  logic              forget_pend_q, cqc_pend_q, eqc_pend_q, srqc_pend_q, group_pend_q, dm_pend_q, rec_pend_q,
                        link_wr_valid_q, gid_wr_valid_q, rule_wr_valid_q, rss_wr_valid_q, rss_qp_wr_valid_q;

  // A table's ready moves with its traffic: it is looked at only while there is something for it.
  logic [NumQpcSinks-1:0] qpc_taken;
  logic                   forget_taken, cqc_taken, eqc_taken, srqc_taken, group_taken, dm_taken;
  assign qpc_taken = qpc_pend_q & qpc_wr_ready_i;
  assign forget_taken = forget_pend_q && forget_ready_i;
  assign cqc_taken = cqc_pend_q && cqc_wr_ready_i;
  assign eqc_taken = eqc_pend_q && eqc_wr_ready_i;
  assign srqc_taken = srqc_pend_q && srqc_wr_ready_i;
  assign group_taken = group_pend_q && group_wr_ready_i;
  assign dm_taken = dm_pend_q && dm_wr_ready_i;

  always_ff @(posedge clk_i) begin
    if (word_we_i) words_q[word_addr_i] <= word_data_i;
  end

  assign waiting = (|qpc_pend_q) || forget_pend_q || cqc_pend_q || eqc_pend_q || srqc_pend_q
                   || group_pend_q || dm_pend_q || rec_pend_q || rule_wr_valid_q || rule_busy_i;
  assign busy_o  = sweep_q || waiting;
  assign go      = (sweep_q || go_i) && !waiting;
  assign tbl   = sweep_q ? sweep_table_q : table_i;
  assign index   = sweep_q ? KeyW'(sweep_row_q) : index_i[KeyW-1:0];
  assign sweep_last = sweep_row_q == sweep_end;

  function automatic logic has_row(ctx_table_e of, logic [31:0] row);
    unique case (of)
      CtxTableQpc: has_row = row < NumQps;
      CtxTableKeyTable: has_row = row < NumFuncs;
      CtxTableForget: has_row = row[31:KeyW] == '0;
      CtxTableCqc: has_row = row < NumCqs;
      CtxTableEqc: has_row = row < NumEqs;
      CtxTableGid: has_row = row < 16 * NumPorts;
      CtxTableSrqc: has_row = row < NumSrqs;
      CtxTableGroup: has_row = row < GroupRows;
      CtxTableRule: has_row = row < Rules;
      CtxTableRss: has_row = row < RssQps;
      CtxTableRssQp: has_row = row < RssQps * RssEntries;
      CtxTableDeviceMemory: has_row = row < DmPages;
      CtxTableRecord: has_row = row[31:24] == '0;
      CtxTableLink: has_row = (row < LinkRowsAll) && (32'(row[7:0]) < LinkRows);
      default:     has_row = 1'b0;
    endcase
  endfunction

  // Firmware names table and row some cycles before it says go. The sweep stays within its tables, but for a link's.
  always_ff @(posedge clk_i) named_q <= has_row(table_i, index_i);
  assign known      = sweep_q || named_q;
  assign known_link = sweep_q ? (32'(sweep_row_q[7:0]) < LinkRows) && (32'(sweep_row_q[7:0]) != LinkRowCtrl) : named_q;

  always_comb begin
    unique case (sweep_table_q)
      CtxTableQpc:   sweep_end = SweepW'(NumQps - 1);
      CtxTableCqc:   sweep_end = SweepW'(NumCqs - 1);
      CtxTableEqc:   sweep_end = SweepW'(NumEqs - 1);
      CtxTableSrqc:  sweep_end = SweepW'(NumSrqs - 1);
      CtxTableGroup: sweep_end = SweepW'(GroupRows - 1);
      CtxTableRule:  sweep_end = SweepW'(Rules - 1);
      default:       sweep_end = SweepW'(LinkRowsAll - 1);
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      sweep_q       <= 1'b1;
      sweep_table_q <= CtxTableQpc;
      sweep_row_q   <= '0;
    end else if (sweep_q && !waiting) begin
      sweep_row_q <= sweep_row_q + 1'b1;
      if (sweep_last) begin
        sweep_row_q <= '0;
        unique case (sweep_table_q)
          CtxTableQpc: sweep_table_q <= CtxTableCqc;
          CtxTableCqc: sweep_table_q <= CtxTableEqc;
          CtxTableEqc: sweep_table_q <= CtxTableSrqc;
          CtxTableSrqc: sweep_table_q <= CtxTableGroup;
          CtxTableGroup: sweep_table_q <= CtxTableRule;
          CtxTableRule: sweep_table_q <= CtxTableLink;
          default:     sweep_q <= 1'b0;
        endcase
      end
    end
  end

  // Words: the sweep writes zeros.
  logic [63:0][31:0] row_q;
  always_ff @(posedge clk_i) begin
    if (go) begin
      row_q     <= sweep_q ? '0 : words_q;
      index_q   <= index;
      swept_q   <= sweep_q;
      init_sq_q <= sweep_q || init_sq_i;
      init_rq_q <= sweep_q || init_rq_i;
    end
    key_wr_valid_o  <= !rst_i && go && known && (tbl == CtxTableKeyTable);
    link_wr_valid_q <= !rst_i && go && known_link && (tbl == CtxTableLink);
    gid_wr_valid_q  <= !rst_i && go && known && (tbl == CtxTableGid);
    rule_wr_valid_q <= !rst_i && go && known && (tbl == CtxTableRule);
    rss_wr_valid_q    <= !rst_i && go && known && (tbl == CtxTableRss);
    rss_qp_wr_valid_q <= !rst_i && go && known && (tbl == CtxTableRssQp);
    if (rst_i) begin
      qpc_pend_q <= '0;
      forget_pend_q <= 1'b0;
      cqc_pend_q <= 1'b0;
      eqc_pend_q <= 1'b0;
      srqc_pend_q <= 1'b0;
      group_pend_q <= 1'b0;
      dm_pend_q <= 1'b0;
      rec_pend_q <= 1'b0;
      err_o      <= 1'b0;
    end else begin
      qpc_pend_q <= qpc_pend_q & ~qpc_taken;
      if (forget_taken) forget_pend_q <= 1'b0;
      if (cqc_taken) cqc_pend_q <= 1'b0;
      if (eqc_taken) eqc_pend_q <= 1'b0;
      if (srqc_taken) srqc_pend_q <= 1'b0;
      if (group_taken) group_pend_q <= 1'b0;
      if (dm_taken) dm_pend_q <= 1'b0;
      if (rec_pend_q && record_ready_i) rec_pend_q <= 1'b0;
      if (go) begin
        err_o <= !known && !sweep_q;
        if (known && (tbl == CtxTableQpc)) qpc_pend_q <= '1;
        if (known && (tbl == CtxTableForget)) forget_pend_q <= 1'b1;
        if (known && (tbl == CtxTableCqc)) cqc_pend_q <= 1'b1;
        if (known && (tbl == CtxTableEqc)) eqc_pend_q <= 1'b1;
        if (known && (tbl == CtxTableSrqc)) srqc_pend_q <= 1'b1;
        if (known && (tbl == CtxTableGroup)) group_pend_q <= 1'b1;
        if (known && (tbl == CtxTableDeviceMemory)) dm_pend_q <= 1'b1;
        if (known && (tbl == CtxTableRecord)) rec_pend_q <= 1'b1;
      end
    end
  end

  assign qpc_wr_valid_o   = qpc_pend_q;
  assign record_valid_o   = rec_pend_q;
  assign record_o         = '{whole: init_sq_q, index: index_q[23:0], qpc: row_q[$bits(qpc_t)/32-1:0]};
  assign qpc_wr_o.sweep   = swept_q;
  assign qpc_wr_o.swap    = 1'b0;
  assign qpc_wr_o.init_sq = init_sq_q;
  assign qpc_wr_o.init_rq = init_rq_q;
  assign qpc_wr_o.qpn     = index_q[QpW-1:0];
  assign qpc_wr_o.qpc     = row_q[$bits(qpc_t)/32-1:0];
  assign key_wr_func_o    = index_q[FuncIdxW-1:0];
  key_table_t key_row;
  forget_t    forget_row;
  assign key_row          = row_q[$bits(key_table_t)/32-1:0];
  assign key_wr_o         = '{valid: key_row.valid, log_size: key_row.log_size, base: key_row.base[63:6]};
  assign forget_row       = row_q[$bits(forget_t)/32-1:0];
  assign forget_valid_o   = forget_pend_q;
  assign forget_o         = '{all: forget_row.all, pages: forget_row.pages, one: 1'b0, line: '0, index: index_q};
  logic unused_forget;
  assign unused_forget    = ^{key_row, forget_row};
  assign cqc_wr_valid_o   = cqc_pend_q;
  assign cqc_wr_cqn_o     = index_q[CqW-1:0];
  assign cqc_wr_o         = row_q[$bits(cqc_t)/32-1:0];
  assign eqc_wr_valid_o   = eqc_pend_q;
  assign eqc_wr_eqn_o     = index_q[EqW-1:0];
  assign eqc_wr_o         = row_q[$bits(eqc_t)/32-1:0];
  assign srqc_wr_valid_o  = srqc_pend_q;
  assign srqc_wr_srqn_o   = index_q[SrqW-1:0];
  assign srqc_wr_o        = row_q[$bits(srqc_t)/32-1:0];
  assign group_wr_valid_o = group_pend_q;
  assign group_wr_o       = '{index: index_q[GroupW-1:0], row: row_q[$bits(group_row_t)/32-1:0]};
  dm_row_t dm_row;
  logic    unused_dm;
  assign dm_row        = row_q[$bits(dm_row_t)/32-1:0];
  assign unused_dm     = ^dm_row;
  assign dm_wr_valid_o = dm_pend_q;
  assign dm_wr_o       = '{page: index_q[DmRowW-1:0], there: dm_row.there, func: dm_row.func};
  gid_row_t gid_row;
  logic     unused_gid;
  assign gid_row    = row_q[$bits(gid_row_t)/32-1:0];
  assign unused_gid = ^gid_row;
  assign gid_wr_o   = '{valid: gid_wr_valid_q, port: index_q[4], index: index_q[3:0], gid: gid_row.gid};
  assign rule_wr_o  = '{valid: rule_wr_valid_q, index: index_q[$clog2(Rules)-1:0],
                        row: row_q[$bits(rule_row_t)/32-1:0]};
  assign rss_wr_o   = '{valid: rss_wr_valid_q, index: index_q[$clog2(RssQps)-1:0],
                        row: row_q[$bits(rss_row_t)/32-1:0]};
  rss_qp_row_t rss_qp_row;
  logic        unused_rss;
  assign rss_qp_row  = row_q[$bits(rss_qp_row_t)/32-1:0];
  assign unused_rss  = ^rss_qp_row;
  assign rss_qp_wr_o = '{valid: rss_qp_wr_valid_q, index: index_q[$clog2(RssQps * RssEntries)-1:0],
                         qpn: rss_qp_row.qpn};
  assign link_wr_o = '{valid: link_wr_valid_q, port: index_q[8], row: index_q[7:0], data: row_q[7:0]};
endmodule
