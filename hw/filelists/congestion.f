// Congestion control.
hw/rtl/congestion/hca_cc_cfg.sv
hw/rtl/congestion/hca_cc_notify.sv
hw/rtl/congestion/hca_cc.sv
