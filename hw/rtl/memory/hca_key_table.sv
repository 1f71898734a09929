// Memory protection table (one row per key) and memory translation table (one row per page). Firmware
// writes; two clients read (0: gather, 1: rx_exec), each from its own copy, data in the next cycle.
module hca_key_table
  import hca_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 mpt_we_i,
  input  logic [MrW-1:0]       mpt_waddr_i,
  input  mpt_t                 mpt_wdata_i,
  input  logic                 mtt_we_i,
  input  logic [MttW-1:0]      mtt_waddr_i,
  input  logic [63:0]          mtt_wdata_i,
  // Read ports, by client; read data holds until the client's next read.
  input  logic [1:0]           mpt_re_i,
  input  logic [1:0][MrW-1:0]  mpt_raddr_i,
  output mpt_t [1:0]           mpt_rdata_o,
  input  logic [1:0]           mtt_re_i,
  input  logic [1:0][MttW-1:0] mtt_raddr_i,
  output logic [1:0][63:0]     mtt_rdata_o
);

  for (genvar i = 0; i < 2; i++) begin : gen_client
    hca_ram_1r1w #(
      .Width($bits(mpt_t)),
      .Depth(NumMrs)
    ) u_mpt (
      .clk_i,
      .we_i   (mpt_we_i),
      .waddr_i(mpt_waddr_i),
      .wdata_i(mpt_wdata_i),
      .re_i   (mpt_re_i[i]),
      .raddr_i(mpt_raddr_i[i]),
      .rdata_o(mpt_rdata_o[i])
    );

    hca_ram_1r1w #(
      .Width(64),
      .Depth(NumMtts)
    ) u_mtt (
      .clk_i,
      .we_i   (mtt_we_i),
      .waddr_i(mtt_waddr_i),
      .wdata_i(mtt_wdata_i),
      .re_i   (mtt_re_i[i]),
      .raddr_i(mtt_raddr_i[i]),
      .rdata_o(mtt_rdata_o[i])
    );
  end

endmodule
