// Port personality: InfiniBand and Ethernet.
hw/rtl/link/hca_eth_tx.sv
hw/rtl/link/hca_vcrc_tx.sv
hw/rtl/link/hca_eth_rx.sv
hw/rtl/link/hca_ib_rx.sv
hw/rtl/link/hca_loopback.sv
hw/rtl/link/hca_rx_merge.sv
hw/rtl/link/hca_rx_absorb.sv
hw/rtl/link/hca_sl_open.sv
