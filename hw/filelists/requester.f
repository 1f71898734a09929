// Send side: scheduling, WQE fetch, segmentation, retransmission.
hw/rtl/requester/hca_sq_pkg.sv
hw/rtl/requester/hca_sq_sched.sv
hw/rtl/requester/hca_sq_pick.sv
hw/rtl/requester/hca_sq_gate.sv
hw/rtl/requester/hca_sq_hold.sv
hw/rtl/requester/hca_sq_leave.sv
hw/rtl/requester/hca_sq_push.sv
hw/rtl/requester/hca_sq_fetch.sv
hw/rtl/requester/hca_sq_check.sv
hw/rtl/requester/hca_sq_build.sv
hw/rtl/requester/hca_sq_sge.sv
hw/rtl/requester/hca_sq_news.sv
hw/rtl/requester/hca_sq_packet.sv
hw/rtl/requester/hca_sq_datagram.sv
hw/rtl/requester/hca_sq_pos.sv
hw/rtl/requester/hca_sq_emit.sv
hw/rtl/requester/hca_requester.sv
