// The test card of the simulator: the ports of hca_core, no RDMA.
sim/hca-vsim/testtop/hca_core.sv
