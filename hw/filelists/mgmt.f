// Register block, mailbox, events, counters.
hw/rtl/mgmt/gen/hca_mgmt_pkg.sv
hw/rtl/mgmt/gen/hca_func_regs_pkg.sv
hw/rtl/mgmt/gen/hca_func_regs.sv
hw/rtl/mgmt/gen/hca_mgmt_regs_pkg.sv
hw/rtl/mgmt/gen/hca_mgmt_regs.sv
hw/rtl/mgmt/hca_counter_read.sv
hw/rtl/mgmt/hca_counters.sv
hw/rtl/mgmt/hca_fence.sv
hw/rtl/mgmt/hca_mgmt.sv
hw/rtl/mgmt/hca_mgmt_bus.sv
hw/rtl/mgmt/hca_mgmt_ctx.sv
hw/rtl/mgmt/hca_mgmt_dma.sv
hw/rtl/mgmt/hca_mgmt_events.sv
