// InfiniBand side of the receiver: checks the LRH fields that one beat shows: LVer, LNH, destination LID
// (under the LID mask, or permissive). The VL is not looked at. Two register stages, so that packets of hca_eth_rx and
// of this block come out in the order in which they went in. Never stalls.
module hca_ib_rx
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  port_cfg_t [NumPorts-1:0] port_cfg_i,  // LID and LMC of each port
  input  logic        mac_valid_i,
  input  mac_t        mac_i,
  input  logic [PortW-1:0] mac_port_i,
  output logic        out_valid_o,
  output logic        out_first_o,
  output logic        out_last_o,
  output logic        out_bad_o,        // with first
  output logic        out_global_o,     // with first: a GRH follows
  output logic [PortW-1:0] out_port_o,
  output logic [6:0]  out_len_bytes_o,  // 0..64
  output beat_t       out_data_o
);

  logic        in_first_q, in_valid_q, first_q, out_valid_q, out_first_q, out_last_q, out_bad_q, out_global_q;
  logic [6:0]  out_len_q;
  beat_t       out_q;
  mac_t        in_q;
  logic [PortW-1:0] in_port_q, out_port_q;
  port_cfg_t   cfg;
  logic [3:0]  lver;
  logic [1:0]  lnh;
  logic [15:0] dlid, path_mask;

  assign cfg       = port_cfg_i[in_port_q];
  assign lver      = in_q.data[3:0];
  assign lnh       = in_q.data[9:8];
  assign dlid      = {in_q.data[23:16], in_q.data[31:24]};
  assign path_mask = ~(16'hffff << cfg.lmc);

  logic unused_cfg;
  assign unused_cfg = ^cfg;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_first_q  <= 1'b1;
      in_valid_q  <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (mac_valid_i) in_first_q <= mac_i.last;
      in_valid_q  <= mac_valid_i;
      out_valid_q <= in_valid_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (mac_valid_i) begin
      in_q      <= mac_i;
      in_port_q <= mac_port_i;
      first_q   <= in_first_q;
    end
    if (in_valid_q) begin
      out_port_q   <= in_port_q;
      out_first_q  <= first_q;
      out_last_q   <= in_q.last;
      out_bad_q    <= (lver != 4'd0) || (lnh != 2'(LnhIbaLocal) && lnh != 2'(LnhIbaGlobal)) ||
                      ((dlid | path_mask) != (cfg.lid | path_mask) && dlid < 16'(LidMulticast));
      out_global_q <= lnh == 2'(LnhIbaGlobal);
      out_len_q    <= (in_q.len_bytes > 7'd64 || !in_q.last) ? 7'd64 : in_q.len_bytes;
      out_q        <= in_q.data;
    end
  end

  assign out_valid_o     = out_valid_q;
  assign out_first_o     = out_first_q;
  assign out_last_o      = out_last_q;
  assign out_bad_o       = out_bad_q;
  assign out_global_o    = out_global_q;
  assign out_port_o      = out_port_q;
  assign out_len_bytes_o = out_len_q;
  assign out_data_o      = out_q;

endmodule
