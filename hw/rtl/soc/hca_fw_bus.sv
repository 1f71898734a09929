// The soft core's way to the card's firmware registers. One access at a time. A write is answered in the next cycle
// and goes on by itself (posted); whatever comes behind it waits here, so the card sees accesses in program order.
// A read is answered when the card has answered. All outputs to the card are flops.
module hca_fw_bus (
    input  logic        clk_i,
    input  logic        rst_i,
    // The core: taken with req && gnt.
    input  logic        req_i,
    input  logic        we_i,
    input  logic [19:0] addr_i,
    input  logic [31:0] wdata_i,
    output logic        gnt_o,
    output logic        rvalid_o,
    output logic [31:0] rdata_o,
    // Something is under way.
    output logic        busy_o,
    // The card: hca_core's firmware bus.
    output logic        fw_req_o,
    output logic        fw_we_o,
    output logic [19:0] fw_addr_o,
    output logic [31:0] fw_wdata_o,
    input  logic        fw_req_stall_i,
    input  logic        fw_rd_ack_i,
    input  logic        fw_wr_ack_i,
    input  logic [31:0] fw_rdata_i
);
  logic busy_q, req_q, we_q;

  assign gnt_o    = !busy_q;
  assign busy_o   = busy_q;
  assign fw_req_o = req_q;
  assign fw_we_o  = we_q;

  always_ff @(posedge clk_i) begin
    rvalid_o <= 1'b0;
    if (fw_rd_ack_i) rdata_o <= fw_rdata_i;
    if (rst_i) begin
      busy_q <= 1'b0;
      req_q  <= 1'b0;
    end else if (!busy_q) begin
      if (req_i) begin
        busy_q     <= 1'b1;
        req_q      <= 1'b1;
        we_q       <= we_i;
        fw_addr_o  <= addr_i;
        fw_wdata_o <= wdata_i;
        rvalid_o   <= we_i;
      end
    end else begin
      if (!fw_req_stall_i) req_q <= 1'b0;
      if (fw_rd_ack_i || fw_wr_ack_i) begin
        busy_q   <= 1'b0;
        rvalid_o <= !we_q;
      end
    end
  end
endmodule
