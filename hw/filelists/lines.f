// Lines that change hands.
hw/rtl/lines/hca_line_queue.sv
hw/rtl/lines/hca_line_slots.sv
hw/rtl/lines/hca_line_store.sv
hw/rtl/lines/hca_line_swap.sv
hw/rtl/lines/hca_lines.sv
hw/rtl/lines/hca_rx_park.sv
