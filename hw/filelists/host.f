// Host port: doorbells, DMA read and write engines.
hw/rtl/host/hca_dma_rd_age.sv
hw/rtl/host/hca_dma_rd_port.sv
hw/rtl/host/hca_dma_rd_lines.sv
hw/rtl/host/hca_read_timer.sv
hw/rtl/host/hca_dma_rd_mux.sv
hw/rtl/host/hca_dma_wr_mux.sv
hw/rtl/host/hca_push_port.sv
hw/rtl/host/hca_doorbell.sv
hw/rtl/host/hca_rd_order.sv
hw/rtl/host/hca_device_memory.sv
hw/rtl/host/hca_rd_share.sv
