// Receive side: packet rules, acknowledgements, execution, READ responses.
hw/rtl/responder/hca_rx_pkg.sv
hw/rtl/responder/hca_ack_unit.sv
hw/rtl/responder/hca_omt.sv
hw/rtl/responder/hca_resp_check.sv
hw/rtl/responder/hca_rx_ctrl.sv
hw/rtl/responder/hca_rx_end.sv
hw/rtl/responder/hca_rx_exec.sv
hw/rtl/responder/hca_rx_filter.sv
hw/rtl/responder/hca_rx_flush.sv
hw/rtl/responder/hca_rx_mover.sv
hw/rtl/responder/hca_rx_msgs.sv
hw/rtl/responder/hca_rx_out.sv
hw/rtl/responder/hca_rx_place.sv
hw/rtl/responder/hca_rx_tables.sv
hw/rtl/responder/hca_qp_set.sv
hw/rtl/responder/hca_timers.sv
hw/rtl/responder/hca_resp_sched.sv
