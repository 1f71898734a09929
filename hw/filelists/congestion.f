// Congestion control.
hw/rtl/congestion/hca_cc_pkg.sv
hw/rtl/congestion/hca_cc_algorithms.sv
hw/rtl/congestion/hca_cc_cfg.sv
hw/rtl/congestion/hca_cc_dcqcn.sv
hw/rtl/congestion/hca_cc_delay.sv
hw/rtl/congestion/hca_cc_drain.sv
hw/rtl/congestion/hca_cc_notify.sv
hw/rtl/congestion/hca_cc_pace.sv
hw/rtl/congestion/hca_cc_react.sv
hw/rtl/congestion/hca_cc_rtt.sv
hw/rtl/congestion/hca_cc.sv
