// Receives flow control packets (IBA vol1 7.9.4): six bytes {Op, FCTBS}, {VL, FCCL}, LPCRC, most significant
// byte first. A good one gives a strobe one cycle after its beat, so that it keeps its place between data
// packets: the packet in the beat behind it is judged in the cycle of the strobe. Never stalls.
module hca_fcp_rx
  import hca_link_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        enable_i,        // InfiniBand, link not DOWN
  input  logic [15:0] vl_ok_i,         // data VLs that are operational
  input  logic        valid_i,         // a beat of a link packet
  input  logic        first_i,         // the beat begins a packet
  input  phy_t        phy_i,
  input  logic        err_i,           // symbol error in this packet
  output logic        fcp_o,
  output logic        fcp_init_o,
  output logic [3:0]  fcp_vl_o,
  output logic [11:0] fcp_fctbs_o,
  output logic [11:0] fcp_fccl_o,
  output logic        lpcrc_err_o,     // strobes of bad ones: LPCRC wrong,
  output logic        malformed_o      // LPCRC right, but length, operand or VL wrong
);

  logic [31:0] word;
  logic [15:0] crc;
  logic        sized, crc_ok, known;
  logic        fcp_q, init_q, lpcrc_err_q, malformed_q;
  logic [3:0]  vl_q;
  logic [11:0] fctbs_q, fccl_q;

  assign word   = {phy_i.data[7:0], phy_i.data[15:8], phy_i.data[23:16], phy_i.data[31:24]};
  assign crc    = phy_i.data[47:32];
  assign sized  = first_i && phy_i.last && phy_i.len_bytes == 7'(FcpBytes);
  assign crc_ok = crc == lpcrc(phy_i.data[31:0]);
  assign known  = word[31:28] <= 4'd1 && vl_ok_i[word[15:12]];

  logic unused_data;
  assign unused_data = ^{phy_i.link, phy_i.data[511:48]};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      fcp_q       <= 1'b0;
      lpcrc_err_q <= 1'b0;
      malformed_q <= 1'b0;
    end else begin
      fcp_q       <= valid_i && enable_i && !err_i && sized && crc_ok && known;
      lpcrc_err_q <= valid_i && enable_i && !err_i && sized && !crc_ok;
      malformed_q <= valid_i && enable_i && !err_i && phy_i.last && (!sized || (crc_ok && !known));
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      init_q  <= word[28];
      fctbs_q <= word[27:16];
      vl_q    <= word[15:12];
      fccl_q  <= word[11:0];
    end
  end

  assign fcp_o       = fcp_q;
  assign fcp_init_o  = init_q;
  assign fcp_vl_o    = vl_q;
  assign fcp_fctbs_o = fctbs_q;
  assign fcp_fccl_o  = fccl_q;
  assign lpcrc_err_o = lpcrc_err_q;
  assign malformed_o = malformed_q;

endmodule
