// Packets of the READ job that hca_resp_sched takes: PSN of the last one, its bytes, and whether it is the only one.
// The context, and with it the QP's MTU, is there a cycle after the job: until then there is one answer for each MTU.
module hca_resp_span
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        take_i,
  input  rsp_job_t    rsp_i,
  input  logic [2:0]  path_mtu_i,   // from the next cycle on
  output logic [23:0] last_psn_o,
  output logic        only_o,
  output logic        some_o,       // it has bytes
  output logic [12:0] tail_o
);

  localparam int unsigned Mtus = 32'(MtuBytes4096) + 1;

  logic                  none, none_q, unused_bits;
  logic [23:0]           psn_q;
  logic [11:0]           reach_q;   // the last byte
  logic [Mtus-1:0]       only, only_q;
  logic [Mtus-1:0][23:0] last_q;

  assign none        = rsp_i.atomic || rsp_i.len_bytes == '0;
  assign unused_bits = ^rsp_i;

  // As no difference: a chain for each MTU would be as long as all 32 bits.
  always_comb begin
    for (int unsigned m = 0; m < Mtus; m++) begin
      only[m] = none || (rsp_i.len_bytes & ~32'(mtu_bytes(3'(m)) - 13'd1)) == '0
                || rsp_i.len_bytes == 32'(mtu_bytes(3'(m)));
    end
  end

  // Whole MTUs in all of its bytes, one more if they leave something, and one less: a row of gates in front of one
  // chain. Of the last byte it would be a chain to find that, and another one. Without bytes it is the PSN before.
  function automatic logic [23:0] last_psn(input logic [23:0] psn, input logic [31:0] len_bytes, input logic [2:0] mtu);
    logic [23:0] whole;
    logic        rest;
    whole = 24'(len_bytes >> mtu_shift(mtu));
    rest  = (13'(len_bytes) & (mtu_bytes(mtu) - 13'd1)) != '0;
    return ~(psn ^ whole) + {psn[22:0] | whole[22:0], rest};
  endfunction

  always_ff @(posedge clk_i) begin
    if (take_i) begin
      none_q  <= none;
      psn_q   <= rsp_i.psn;
      reach_q <= rsp_i.len_bytes[11:0] - 12'd1;
      for (int unsigned m = 0; m < Mtus; m++) begin
        only_q[m] <= only[m];
        last_q[m] <= last_psn(rsp_i.psn, rsp_i.len_bytes, 3'(m));
      end
    end
  end

  assign last_psn_o = none_q ? psn_q : last_q[path_mtu_i];
  assign only_o     = only_q[path_mtu_i];
  assign some_o     = !none_q;
  assign tail_o     = none_q ? '0 : (13'(reach_q) & (mtu_bytes(path_mtu_i) - 13'd1)) + 13'd1;

endmodule
