// Receives flow control packets (IBA vol1 7.9.4): six bytes {Op, FCTBS}, {VL, FCCL}, LPCRC, most significant
// byte first. A good one gives a strobe one cycle after its beat, so that it keeps its place between data
// packets: the packet in the beat behind it is judged in the cycle of the strobe. Never stalls.
// One for a VL that is built but not operational changes nothing and is no error: until a subnet manager has set
// OperationalVLs at both ends, they differ.
module hca_fcp_rx
  import hca_link_pkg::*;
#(
  parameter int unsigned NumVls = 15   // built
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        enable_i,        // InfiniBand, link not DOWN
  input  logic [14:0] vl_mask_i,       // operational data VLs
  input  logic        valid_i,         // a beat of a link packet without symbol error
  input  logic        first_i,         // the beat begins a packet
  input  phy_t        phy_i,
  output logic        fcp_o,
  output fc_upd_t     fcp_upd_o,
  output logic [11:0] fcp_fctbs_o,
  output logic        lpcrc_err_o,     // strobes of bad ones: LPCRC wrong,
  output logic        malformed_o      // LPCRC right, but length or operand wrong, or no such VL
);

  fcp_t        fcp;
  logic        sized, good, known, possible;
  logic [15:0] vl_ok;
  logic        fcp_q, lpcrc_err_q, malformed_q;
  fc_upd_t     upd_q;
  logic [11:0] fctbs_q;

  assign fcp   = fcp_unpack(phy_i.data[31:0]);
  assign vl_ok = {1'b0, vl_mask_i};
  assign sized = first_i && phy_i.last && phy_i.len_bytes == FcpBytes;
  assign good  = fcp_good(phy_i.data[47:0]);
  assign possible = (fcp.op == FcpNormal || fcp.op == FcpInit) && 5'(fcp.vl) < 5'(NumVls);
  assign known    = possible && vl_ok[fcp.vl];

  logic unused_data;
  assign unused_data = ^{phy_i.link, phy_i.data[511:48]};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      fcp_q       <= 1'b0;
      lpcrc_err_q <= 1'b0;
      malformed_q <= 1'b0;
    end else begin
      fcp_q       <= valid_i && enable_i && sized && good && known;
      lpcrc_err_q <= valid_i && enable_i && sized && !good;
      malformed_q <= valid_i && enable_i && phy_i.last && (!sized || (good && !possible));
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      upd_q.init <= fcp.op == FcpInit;
      upd_q.vl   <= fcp.vl;
      upd_q.fccl <= fcp.fccl;
      fctbs_q    <= fcp.fctbs;
    end
  end

  assign fcp_o       = fcp_q;
  assign fcp_upd_o   = upd_q;
  assign fcp_fctbs_o = fctbs_q;
  assign lpcrc_err_o = lpcrc_err_q;
  assign malformed_o = malformed_q;

endmodule
