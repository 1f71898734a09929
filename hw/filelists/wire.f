// Headers, ICRC, VCRC.
hw/rtl/wire/hca_wire_pkg.sv
hw/rtl/wire/hca_tx_hdr.sv
hw/rtl/wire/hca_tx_pack.sv
hw/rtl/wire/hca_mad_rx.sv
hw/rtl/wire/hca_mad_tx.sv
hw/rtl/wire/hca_icrc_tx.sv
hw/rtl/wire/hca_tx_wire.sv
hw/rtl/wire/hca_rx_l3.sv
hw/rtl/wire/hca_rx_crc.sv
hw/rtl/wire/hca_rx_parse.sv
hw/rtl/wire/hca_rx_delay.sv
hw/rtl/wire/hca_rx_room.sv
hw/rtl/wire/hca_rx_buf.sv
hw/rtl/wire/hca_rx_wire.sv
