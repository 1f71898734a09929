// Memory keys, address translation, gather.
hw/rtl/memory/hca_key_pkg.sv
hw/rtl/memory/hca_gather.sv
hw/rtl/memory/hca_gather_data.sv
hw/rtl/memory/hca_gather_head.sv
hw/rtl/memory/hca_gather_src.sv
hw/rtl/memory/hca_gather_status.sv
hw/rtl/memory/hca_key_check.sv
hw/rtl/memory/hca_key_table.sv
hw/rtl/memory/hca_line_cache.sv
hw/rtl/memory/hca_xlate.sv
hw/rtl/memory/hca_mw_check.sv
hw/rtl/memory/hca_mw.sv
