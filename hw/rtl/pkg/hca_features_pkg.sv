// What this card is built with (decision 0081): the bits of `feature` in abi/, all of them unless HCA_FEATURES says
// otherwise. RC, UC, UD and management are always there. What is left out has no gates: its block is not instantiated,
// and whoever stands where it stood says what a card without it says. Firmware of the same build refuses what would
// need it and says so in QUERY_DEVICE; requests of a peer for it are refused by hca_resp_check, work requests by
// hca_sq_check.
package hca_features_pkg;

  import hca_pkg::*;

`ifdef HCA_FEATURES
  localparam logic [15:0] Features = 16'(`HCA_FEATURES);
`else
  localparam logic [15:0] Features = '1;
`endif

  localparam bit HasRaw          = (Features & FeatureRaw) != '0;
  localparam bit HasCongestion   = (Features & FeatureCongestion) != '0;
  localparam bit HasSrq          = (Features & FeatureSrq) != '0;
  localparam bit HasKeyWr        = (Features & FeatureKeyWr) != '0;
  localparam bit HasAtomic       = (Features & FeatureAtomic) != '0;
  localparam bit HasDeviceMemory = (Features & FeatureDeviceMemory) != '0;
  localparam bit HasSelective    = (Features & FeatureSelective) != '0;
  localparam bit HasContextMemory = (Features & FeatureContextMemory) != '0;
  localparam bit HasArbitration  = (Features & FeatureArbitration) != '0;

endpackage
