// What firmware has said of congestion control: the row LINK_ROW_CONGESTION of each port, as it came. A port of
// InfiniBand is off, whatever its row says. After reset: off. `epoch_o` counts the writes of a row: what an algorithm
// has kept from before the newest one is void.
module hca_cc_cfg
  import hca_pkg::*;
  import hca_link_pkg::*;
(
  input  logic                           clk_i,
  input  logic                           rst_i,
  input  logic [NumPorts-1:0]            ib_i,
  input  link_wr_t                       link_wr_i,
  output link_congestion_t [NumPorts-1:0] cfg_o,
  output logic [NumPorts-1:0]            on_o,
  output logic [NumPorts-1:0][7:0]       epoch_o
);

  logic unused_bits;
  assign unused_bits = ^link_wr_i;

  for (genvar p = 0; p < NumPorts; p++) begin : gen_port
    logic write;
    assign write   = link_wr_i.valid && link_wr_i.port == 1'(p) && 32'(link_wr_i.row) == LinkRowCongestion;
    assign on_o[p] = cfg_o[p].enable && !ib_i[p];

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        cfg_o[p]   <= '0;
        epoch_o[p] <= '0;
      end else if (write) begin
        cfg_o[p]   <= link_congestion_t'(link_wr_i.data[8*LinkCongestionBytes-1:0]);
        epoch_o[p] <= epoch_o[p] + 8'd1;
      end
    end
  end

endmodule
