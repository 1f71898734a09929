// Port personality, and the link layer: virtual lanes, arbitration, flow control.
hw/rtl/link/hca_link_pkg.sv
hw/rtl/link/hca_eth_tx.sv
hw/rtl/link/hca_vcrc_tx.sv
hw/rtl/link/hca_eth_rx.sv
hw/rtl/link/hca_ib_rx.sv
hw/rtl/link/hca_link_state.sv
hw/rtl/link/hca_link_rx.sv
hw/rtl/link/hca_rx_sort.sv
hw/rtl/link/hca_rx_ring.sv
hw/rtl/link/hca_rx_drain.sv
hw/rtl/link/hca_pfc_rx.sv
hw/rtl/link/hca_pfc_tx.sv
hw/rtl/link/ib/hca_fcp_rx.sv
hw/rtl/link/ib/hca_fcp_tx.sv
hw/rtl/link/ib/hca_rx_credit.sv
