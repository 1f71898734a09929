// InfiniBand side of the receiver: the LRH fields that a packet's first beat shows: LVer, LNH, destination LID (under
// the LID mask, or permissive). The VL is not looked at. Combinational.
module hca_ib_rx
  import hca_pkg::*;
(
  input  port_cfg_t  cfg_i,      // LID and LMC of the packet's port
  input  logic [31:0] lrh_i,     // its first word, as it comes
  output logic       bad_o,
  output logic       global_o    // a GRH follows
);

  logic [3:0]  lver;
  logic [1:0]  lnh;
  logic [15:0] dlid, path_mask;

  assign lver      = lrh_i[3:0];
  assign lnh       = lrh_i[9:8];
  assign dlid      = {lrh_i[23:16], lrh_i[31:24]};
  assign path_mask = ~(16'hffff << cfg_i.lmc);
  assign bad_o     = (lver != 4'd0) || (lnh != 2'(LnhIbaLocal) && lnh != 2'(LnhIbaGlobal))
                     || ((dlid | path_mask) != (cfg_i.lid | path_mask) && dlid < 16'(LidMulticast));
  assign global_o  = lnh == 2'(LnhIbaGlobal);

  logic unused_bits;
  assign unused_bits = ^{cfg_i, lrh_i};

endmodule
