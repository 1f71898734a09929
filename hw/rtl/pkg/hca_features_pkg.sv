// What this card is built with (decision 0081): the bits of `feature` in abi/, all of them unless HCA_FEATURES says
// otherwise. RC, UC, UD and management are always there. What is left out has no gates: its block is not instantiated,
// and whoever stands where it stood says what a card without it says. Firmware of the same build refuses what would
// need it and says so in QUERY_DEVICE; requests of a peer for it are refused by hca_resp_check, work requests by
// hca_sq_check.
package hca_features_pkg;

  import hca_pkg::*;

  localparam bit HasRaw          = (CardFeatures & FeatureRaw) != '0;
  localparam bit HasCongestion   = (CardFeatures & FeatureCongestion) != '0;
  localparam bit HasSrq          = (CardFeatures & FeatureSrq) != '0;
  localparam bit HasKeyWr        = (CardFeatures & FeatureKeyWr) != '0;
  localparam bit HasAtomic       = (CardFeatures & FeatureAtomic) != '0;
  localparam bit HasDeviceMemory = (CardFeatures & FeatureDeviceMemory) != '0;
  localparam bit HasSelective    = (CardFeatures & FeatureSelective) != '0;
  localparam bit HasContextMemory = (CardFeatures & FeatureContextMemory) != '0;
  localparam bit HasArbitration  = (CardFeatures & FeatureArbitration) != '0;

  // Of a descriptor that comes into a block: what no packet of this card needs is 0, and has no gates behind it.
  function automatic txp_t txp_built(txp_t txp);
    txp_built = txp;
    if (!HasAtomic) {txp_built.masked, txp_built.swap_add, txp_built.compare} = '0;
    if (!HasSrq) txp_built.xrcsrq = '0;
    if (!HasRaw) txp_built.csum = 1'b0;
  endfunction

  function automatic rxd_t rxd_built(rxd_t rxd);
    rxd_built = rxd;
    if (!HasAtomic) {rxd_built.masked, rxd_built.swap_add, rxd_built.compare, rxd_built.masks} = '0;
    if (!HasSrq) rxd_built.xrcsrq = '0;
    if (!HasRaw) {rxd_built.rules, rxd_built.csum_ok, rxd_built.layers, rxd_built.ports} = '0;
  endfunction

endpackage
