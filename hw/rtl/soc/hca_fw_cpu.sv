// The processor: an Ibex (lowRISC, Apache-2.0), RV32IMC with Zba, Zbb and Zbs, three stages, one-cycle multiplier,
// machine mode alone, no cache, no protection. It starts in the boot program, 0x80 behind SocRomBase; firmware says
// where exceptions go.
// sleeps_o: it waits in WFI and nothing in it changes but its count of cycles (mcycle), which firmware does not read.
module hca_fw_cpu
  import ibex_pkg::*;
  import hca_pkg::*;
(
    input  logic        clk_i,
    input  logic        rst_ni,
    output logic        instr_req_o,
    input  logic        instr_gnt_i,
    input  logic        instr_rvalid_i,
    output logic [31:0] instr_addr_o,
    input  logic [31:0] instr_rdata_i,
    input  logic        instr_err_i,
    output logic        data_req_o,
    input  logic        data_gnt_i,
    input  logic        data_rvalid_i,
    output logic        data_we_o,
    output logic [3:0]  data_be_o,
    output logic [31:0] data_addr_o,
    output logic [31:0] data_wdata_o,
    input  logic [31:0] data_rdata_i,
    input  logic        data_err_i,
    input  logic        irq_timer_i,
    input  logic        irq_external_i,
    output logic        sleeps_o
);
  ibex_top #(
    .RV32M(RV32MSingleCycle),
    .RV32B(RV32BBalanced),
    .RegFile(RegFileFPGA),
    .BranchTargetALU(1'b1),
    .WritebackStage(1'b1)
  ) u_ibex (
    .clk_i, .rst_ni, .test_en_i(1'b0), .ram_cfg_i('0), .hart_id_i('0), .boot_addr_i(32'(SocRomBase)),
    .instr_req_o, .instr_gnt_i, .instr_rvalid_i, .instr_addr_o, .instr_rdata_i, .instr_rdata_intg_i('0), .instr_err_i,
    .data_req_o, .data_gnt_i, .data_rvalid_i, .data_we_o, .data_be_o, .data_addr_o, .data_wdata_o,
    .data_wdata_intg_o(), .data_rdata_i, .data_rdata_intg_i('0), .data_err_i,
    .irq_software_i(1'b0), .irq_timer_i, .irq_external_i, .irq_fast_i('0), .irq_nm_i(1'b0),
    .scramble_key_valid_i(1'b0), .scramble_key_i('0), .scramble_nonce_i('0), .scramble_req_o(),
    .debug_req_i(1'b0), .crash_dump_o(), .double_fault_seen_o(), .fetch_enable_i(IbexMuBiOn),
    .alert_minor_o(), .alert_major_internal_o(), .alert_major_bus_o(), .core_sleep_o(sleeps_o), .scan_rst_ni(1'b1)
  );
endmodule
