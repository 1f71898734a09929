// Completion and event queues.
hw/rtl/queue/hca_cq_events.sv
hw/rtl/queue/hca_cq_timers.sv
hw/rtl/queue/hca_cq.sv
hw/rtl/queue/hca_eq.sv
hw/rtl/queue/hca_srq_list.sv
hw/rtl/queue/hca_srq.sv
