// Shared types, and the layouts generated from abi/.
+incdir+hw/rtl/pkg
hw/rtl/pkg/hca_pkg.sv
hw/rtl/pkg/hca_features_pkg.sv
hw/rtl/pkg/hca_mad_pkg.sv
