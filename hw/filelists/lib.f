// Cells that know nothing about RDMA: FIFO, skid buffer, RAM, arbiter, CRC.
hw/rtl/lib/hca_fifo.sv
hw/rtl/lib/hca_skid.sv
hw/rtl/lib/hca_part_clock.sv
hw/rtl/lib/hca_ram_1r1w.sv
hw/rtl/lib/hca_ram_words.sv
hw/rtl/lib/hca_onehot_index.sv
hw/rtl/lib/hca_low_index.sv
hw/rtl/lib/hca_rr_arb.sv
hw/rtl/lib/hca_first.sv
hw/rtl/lib/hca_crc_512.sv
hw/rtl/lib/hca_crc32_512.sv
hw/rtl/lib/hca_crc16_512.sv
hw/rtl/lib/hca_crc_append.sv
hw/rtl/lib/hca_fork.sv
hw/rtl/lib/hca_id_queues.sv
hw/rtl/lib/hca_work_set.sv
