// Proof of hca_phy_gate: a beat that is offered stays until it is taken, unless the physical link goes; while the
// physical link is up, what leaves are whole packets from their first beat to their last, whatever the port state does;
// no packet begins after the port went DOWN but one that was offered before.
module fv_phy_gate (
  input logic       clk_i,
  input logic       phy_up_i,
  input logic       down_i,
  input logic       in_valid_i,
  input logic       in_last_i,
  input logic [1:0] in_data_i,
  input logic       out_ready_i
);
  import hca_link_pkg::*;

  logic       rst_q = 1'b1;
  logic       in_ready, out_valid, in_stalled_q, out_stalled_q;
  phy_t       in, out, in_q, out_q;
  logic [3:0] in_index_q, out_index_q;   // beats of the packet that went in, and out since the physical link rose

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  always_comb begin
    in      = '0;
    in.last = in_last_i;
    in.data = 512'(in_data_i);
  end

  hca_phy_gate u_dut (
    .clk_i, .rst_i(rst_q), .phy_up_i, .down_i, .in_valid_i, .in_ready_o(in_ready), .in_i(in), .out_valid_o(out_valid),
    .out_ready_i, .out_o(out)
  );

  always_ff @(posedge clk_i) begin
    in_q  <= in;
    out_q <= out;
    if (rst_q) begin
      in_stalled_q  <= 1'b0;
      out_stalled_q <= 1'b0;
      in_index_q    <= '0;
      out_index_q   <= '0;
    end else begin
      in_stalled_q  <= in_valid_i && !in_ready;
      out_stalled_q <= out_valid && !out_ready_i;
      if (in_valid_i && in_ready) in_index_q <= in.last ? 4'd0 : in_index_q + 4'd1;
      if (!phy_up_i) out_index_q <= '0;
      else if (out_valid && out_ready_i) out_index_q <= out.last ? 4'd0 : out_index_q + 4'd1;
    end
  end

  always_comb begin
    if (!rst_q) begin
      m_in:     assume (!in_stalled_q || (in_valid_i && in == in_q));
      m_length: assume (in_index_q != 4'd14 || in_last_i);

      a_hold:  assert (!out_stalled_q || !phy_up_i || (out_valid && out == out_q));
      a_up:    assert (!out_valid || phy_up_i);
      a_whole: assert (!out_valid || in_index_q == out_index_q);
      a_begun: assert (out_index_q == '0 || !in_valid_i || !phy_up_i || out_valid);
      a_down:  assert (!(out_valid && down_i && out_index_q == '0) || out_stalled_q);

      h_length: assert (in_index_q <= 4'd14);
      h_inside: assert (u_dut.inside_q == (in_index_q != '0));
      h_out:    assert (out_index_q == '0 || (in_index_q == out_index_q && !u_dut.cut_q));
      h_cut:    assert (!u_dut.inside_q || u_dut.cut_q || in_index_q == out_index_q);
      h_offer:  assert (u_dut.offered_q == out_stalled_q);

      c_finished: cover (down_i && out_valid && out.last && out_index_q == 4'd2);
      c_offered:  cover (down_i && out_valid && out_index_q == '0);
      c_cut:      cover (u_dut.cut_q && phy_up_i && in_valid_i && in_last_i);
    end
  end
endmodule
