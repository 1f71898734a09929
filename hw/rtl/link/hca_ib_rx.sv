// InfiniBand side of the receiver: checks the LRH fields that one beat shows: LVer, LNH, destination LID
// (under the LID mask, or permissive). The VL is not looked at. One register stage, never stalls.
module hca_ib_rx
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [15:0] lid_i,
  input  logic [2:0]  lmc_i,
  input  logic        mac_valid_i,
  input  mac_t        mac_i,
  output logic        out_valid_o,
  output logic        out_first_o,
  output logic        out_last_o,
  output logic        out_bad_o,        // with first
  output logic        out_global_o,     // with first: a GRH follows
  output logic [6:0]  out_len_bytes_o,  // 0..64
  output beat_t       out_data_o
);

  localparam logic [15:0] LidPermissive = 16'hffff;

  logic        in_first_q, out_valid_q, out_first_q, out_last_q, out_bad_q, out_global_q;
  logic [6:0]  out_len_q;
  beat_t       out_q;
  logic [3:0]  lver;
  logic [1:0]  lnh;
  logic [15:0] dlid, path_mask;

  assign lver      = mac_i.data[3:0];
  assign lnh       = mac_i.data[9:8];
  assign dlid      = {mac_i.data[23:16], mac_i.data[31:24]};
  assign path_mask = ~(16'hffff << lmc_i);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_first_q  <= 1'b1;
      out_valid_q <= 1'b0;
    end else begin
      if (mac_valid_i) in_first_q <= mac_i.last;
      out_valid_q <= mac_valid_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (mac_valid_i) begin
      out_first_q  <= in_first_q;
      out_last_q   <= mac_i.last;
      out_bad_q    <= (lver != 4'd0) || (lnh != 2'(LnhIbaLocal) && lnh != 2'(LnhIbaGlobal)) ||
                      ((dlid | path_mask) != (lid_i | path_mask) && dlid != LidPermissive);
      out_global_q <= lnh == 2'(LnhIbaGlobal);
      out_len_q    <= (mac_i.len_bytes > 7'd64 || !mac_i.last) ? 7'd64 : mac_i.len_bytes;
      out_q        <= mac_i.data;
    end
  end

  assign out_valid_o     = out_valid_q;
  assign out_first_o     = out_first_q;
  assign out_last_o      = out_last_q;
  assign out_bad_o       = out_bad_q;
  assign out_global_o    = out_global_q;
  assign out_len_bytes_o = out_len_q;
  assign out_data_o      = out_q;

endmodule
