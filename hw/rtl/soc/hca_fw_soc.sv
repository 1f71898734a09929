// The card's own processor with its memories: runs the firmware on the firmware bus of hca_core. All outputs to the
// card are flops, so a simulator may evaluate it after the card in every cycle, and not at all while sleeps_o is up and
// its inputs stay (timer_at_o names the cycle that counts).
//
// The board loads the boot program, the image and its data by load_*, a word per cycle, with rst_i up; later it may
// change its data and raise board_event_i for a cycle, and replace the image when the boot program asks for it. What
// firmware tells the board (console) leaves by tell_*.
module hca_fw_soc
  import hca_pkg::*;
#(
    localparam int unsigned LoadAddrW = $clog2((SocImageBytes + SocBoardBytes + SocRomBytes) / 4),
    localparam int unsigned JournalW  = $clog2(SocJournalWords + 1)
) (
    input  logic                 clk_i,
    input  logic                 rst_i,
    input  logic [63:0]          now_i,
    // Firmware bus of the card.
    output logic                 fw_req_o,
    output logic                 fw_we_o,
    output logic [19:0]          fw_addr_o,
    output logic [31:0]          fw_wdata_o,
    input  logic                 fw_req_stall_i,
    input  logic                 fw_rd_ack_i,
    input  logic                 fw_wr_ack_i,
    input  logic [31:0]          fw_rdata_i,
    input  logic                 fw_irq_i,
    // The board.
    input  logic                 load_valid_i,
    input  logic [LoadAddrW-1:0] load_addr_i,
    input  logic [31:0]          load_data_i,
    input  logic                 board_event_i,
    output logic                 tell_valid_o,
    output logic [11:0]          tell_addr_o,
    output logic [31:0]          tell_data_o,
    // Rest.
    output logic                 sleeps_o,
    output logic                 timer_active_o,
    output logic [63:0]          timer_at_o,
    output logic [31:0]          restarts_o,
    output logic [JournalW-1:0]  journal_most_o
);
  localparam int unsigned DataAddrW = $clog2(SocDataBytes / 4);

  typedef enum logic [2:0] {ToConst, ToData, ToCard, ToRegs, ToNothing} target_e;

  logic        ireq, ignt, irvalid_q, ierr_q;
  logic [31:0] iaddr, image_rdata;
  logic        dreq, dgnt, dwe, drvalid, derr_q, daccept;
  logic [3:0]  dbe;
  logic [31:0] daddr, dwdata, drdata, ram_rdata, card_rdata, regs_rdata;
  target_e     target, target_q;
  logic        local_q, card_gnt, card_rvalid, bus_busy, core_rst, core_sleeps, irq_external, irq_timer;
  logic        core_rst_nq, started_q, data_req, commit, whole, undo, undo_busy, undo_valid;
  logic [31:0] undo_data;
  logic [DataAddrW-1:0] undo_addr, commit_first;

  function automatic logic in_image(logic [31:0] addr);
    return addr < 32'(SocImageBytes + SocBoardBytes + SocRomBytes);
  endfunction

  // ---- Data side -----------------------------------------------------------------------------------------------

  always_comb begin
    target = ToNothing;
    unique case (daddr[31:28])
      4'(SocImageBase >> 28): if (in_image(daddr) && !dwe) target = ToConst;
      4'(SocDataBase >> 28):  if (daddr[27:0] < 28'(SocDataBytes)) target = ToData;
      4'(SocCardBase >> 28):  if (daddr[27:20] == '0) target = ToCard;
      4'(SocRegsBase >> 28):  if (daddr[27:12] == '0) target = ToRegs;
      default:                target = ToNothing;
    endcase
  end

  // The bus answers a read late and everything else in the next cycle; the core waits for an answer before it asks
  // again, so answers never meet. A posted write holds up accesses to the card only.
  assign dgnt    = dreq && ((target != ToCard) || card_gnt);
  assign daccept = dgnt;
  assign drvalid = local_q || card_rvalid;

  always_comb begin
    unique case (target_q)
      ToConst: drdata = image_rdata;
      ToData:  drdata = ram_rdata;
      ToCard:  drdata = card_rdata;
      default: drdata = regs_rdata;
    endcase
  end

  always_ff @(posedge clk_i) begin
    irvalid_q <= ignt;
    ierr_q    <= !in_image(iaddr);
    local_q   <= daccept && (target != ToCard);
    derr_q    <= daccept && (target == ToNothing);
    if (daccept) target_q <= target;
    core_rst_nq <= !(rst_i || core_rst);
    // Out of reset the core says that it sleeps, until it begins.
    started_q   <= core_rst_nq && (started_q || !core_sleeps);
    if (rst_i || core_rst) begin
      irvalid_q <= 1'b0;
      local_q   <= 1'b0;
    end
  end

  // ---- Parts ---------------------------------------------------------------------------------------------------

  hca_fw_cpu u_cpu (
    .clk_i, .rst_ni(core_rst_nq), .instr_req_o(ireq), .instr_gnt_i(ignt), .instr_rvalid_i(irvalid_q),
    .instr_addr_o(iaddr), .instr_rdata_i(image_rdata), .instr_err_i(ierr_q), .data_req_o(dreq), .data_gnt_i(dgnt),
    .data_rvalid_i(drvalid), .data_we_o(dwe), .data_be_o(dbe), .data_addr_o(daddr), .data_wdata_o(dwdata),
    .data_rdata_i(drdata), .data_err_i(derr_q), .irq_timer_i(irq_timer), .irq_external_i(irq_external),
    .sleeps_o(core_sleeps)
  );

  hca_fw_mem u_mem (
    .clk_i, .load_valid_i, .load_addr_i, .load_data_i, .fetch_i(ireq), .fetch_addr_i(iaddr[LoadAddrW+1:2]),
    .fetch_gnt_o(ignt), .const_i(dreq && (target == ToConst)), .const_addr_i(daddr[LoadAddrW+1:2]),
    .image_rdata_o(image_rdata), .data_i(data_req), .data_we_i(dwe), .data_be_i(dbe),
    .data_addr_i(daddr[DataAddrW+1:2]), .data_wdata_i(dwdata), .data_rdata_o(ram_rdata), .undo_i(undo_valid),
    .undo_addr_i(undo_addr), .undo_data_i(undo_data)
  );

  // The core asks for nothing while it is in reset.
  assign data_req = dreq && (target == ToData);

  hca_fw_journal #(.AddrW(DataAddrW), .Depth(SocJournalWords)) u_journal (
    .clk_i, .rst_i, .commit_i(commit), .first_i(commit_first), .whole_o(whole), .most_o(journal_most_o),
    .wr_i(data_req && dwe), .wr_addr_i(daddr[DataAddrW+1:2]), .old_i(ram_rdata), .undo_i(undo), .busy_o(undo_busy),
    .undo_valid_o(undo_valid), .undo_addr_o(undo_addr), .undo_data_o(undo_data)
  );

  hca_fw_bus u_bus (
    .clk_i, .rst_i, .req_i(dreq && (target == ToCard)), .we_i(dwe), .addr_i(daddr[19:0]), .wdata_i(dwdata),
    .gnt_o(card_gnt), .rvalid_o(card_rvalid), .rdata_o(card_rdata), .busy_o(bus_busy), .fw_req_o, .fw_we_o,
    .fw_addr_o, .fw_wdata_o, .fw_req_stall_i, .fw_rd_ack_i, .fw_wr_ack_i, .fw_rdata_i
  );

  hca_fw_regs u_regs (
    .clk_i, .rst_i, .now_i, .req_i(dreq && (target == ToRegs)), .we_i(dwe), .addr_i(daddr[11:0]), .wdata_i(dwdata),
    .rdata_o(regs_rdata), .sleeps_i(core_sleeps), .bus_busy_i(bus_busy), .core_rst_o(core_rst), .commit_o(commit),
    .commit_first_o(commit_first), .whole_i(whole), .undo_o(undo), .undo_busy_i(undo_busy),
    .irq_external_o(irq_external), .irq_timer_o(irq_timer), .timer_active_o, .timer_at_o, .fw_irq_i, .board_event_i,
    .tell_valid_o, .tell_addr_o, .tell_data_o, .restarts_o
  );

  assign sleeps_o = core_sleeps && started_q && core_rst_nq && !core_rst && !bus_busy && !tell_valid_o && !irq_external
                    && !irq_timer;
endmodule
