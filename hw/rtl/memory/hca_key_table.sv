// Memory protection table, one row per key. Firmware writes; two clients read (0: gather, 1: rx_exec), each from its
// own copy, data in the next cycle. A key of a region with a page list gets its row only when the client has forgotten
// what it kept of the list of an earlier one.
module hca_key_table
  import hca_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic                mpt_wr_valid_i,
  output logic                mpt_wr_ready_o,
  input  logic [MrW-1:0]      mpt_wr_index_i,
  input  mpt_t                mpt_wr_i,
  // hca_xlate, by client.
  output logic [1:0]          forget_valid_o,
  input  logic [1:0]          forget_ready_i,
  output logic [MrW-1:0]      forget_index_o,
  // Read ports, by client; read data holds until the client's next read.
  input  logic [1:0]          mpt_re_i,
  input  logic [1:0][MrW-1:0] mpt_raddr_i,
  output mpt_t [1:0]          mpt_rdata_o
);

  logic       has_list;
  logic [1:0] written_q, write;

  assign has_list       = mpt_wr_i.valid && mpt_wr_i.page_shift != 6'(DirectPageShift);
  assign forget_valid_o = {2{mpt_wr_valid_i && has_list}} & ~written_q;
  assign forget_index_o = mpt_wr_index_i;
  assign write          = {2{mpt_wr_valid_i}} & ~written_q & ({2{!has_list}} | forget_ready_i);
  assign mpt_wr_ready_o = mpt_wr_valid_i && (written_q | write) == '1;

  always_ff @(posedge clk_i) begin
    if (rst_i || mpt_wr_ready_o) written_q <= '0;
    else written_q <= written_q | write;
  end

  for (genvar i = 0; i < 2; i++) begin : gen_client
    hca_ram_1r1w #(
      .Width($bits(mpt_t)),
      .Depth(NumMrs)
    ) u_mpt (
      .clk_i,
      .we_i   (write[i]),
      .waddr_i(mpt_wr_index_i),
      .wdata_i(mpt_wr_i),
      .re_i   (mpt_re_i[i]),
      .raddr_i(mpt_raddr_i[i]),
      .rdata_o(mpt_rdata_o[i])
    );
  end

endmodule
