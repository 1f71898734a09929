// The whole vendor-neutral card. Top module: hca_core.
-f hw/filelists/pkg.f
-f hw/filelists/lib.f
-f hw/filelists/host.f
-f hw/filelists/memory.f
-f hw/filelists/queue.f
-f hw/filelists/lines.f
-f hw/filelists/requester.f
-f hw/filelists/responder.f
-f hw/filelists/wire.f
-f hw/filelists/link.f
-f hw/filelists/congestion.f
-f hw/filelists/mgmt.f
hw/rtl/top/hca_host_pkg.sv
hw/rtl/top/hca_host.sv
hw/rtl/top/hca_contexts.sv
hw/rtl/top/hca_keys.sv
hw/rtl/top/hca_ports.sv
hw/rtl/top/hca_receive.sv
hw/rtl/top/hca_trace.sv
hw/rtl/top/hca_core.sv
