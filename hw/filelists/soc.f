// The soft core: memories, management bus, timer, watchdog around an Ibex. Top module: hca_fw_soc. Ibex itself is in
// .tools/ibex/ibex.f, which scripts/setup_ibex.py writes.
hw/rtl/soc/hca_fw_bus.sv
hw/rtl/soc/hca_fw_cpu.sv
hw/rtl/soc/hca_fw_journal.sv
hw/rtl/soc/hca_fw_mem.sv
hw/rtl/soc/hca_fw_regs.sv
hw/rtl/soc/hca_fw_soc.sv
