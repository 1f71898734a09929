// Hands a frame to the QP of each rule that has it: a copy (RxdCopy) to each but the last, which frees the buffer. A
// rule that is gone meanwhile gets none; if there is none to be the last the frame is at its end (RxdEnd). Two cycles
// for the first, one for each further copy when the receiver takes it. Everything else passes at once.
module hca_rx_steer
  import hca_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_i,
  input  rule_wr_t rule_wr_i,
  input  logic     in_valid_i,
  output logic     in_ready_o,
  input  rxd_t     in_i,
  output logic     out_valid_o,
  input  logic     out_ready_i,
  output rxd_t     out_o
);

  logic [Rules-1:0]       there_q;    // rules
  logic [Rules-1:0][23:0] qpn_q;      // of each
  logic                   busy_q;     // a frame has been looked at
  logic [Rules-1:0]       left_q;     // rules behind the one in hand
  logic                   none_q, last_q;
  logic [23:0]            dest_q, dest;
  logic [Rules-1:0]       from, lowest;
  logic                   frame, unused_row;

  assign unused_row = ^rule_wr_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) there_q <= '0;
    else if (rule_wr_i.valid) there_q[rule_wr_i.index] <= rule_wr_i.row.valid;
    if (rule_wr_i.valid) qpn_q[rule_wr_i.index] <= rule_wr_i.row.qpn;
  end

  assign frame  = in_i.kind == RxdRaw;
  assign from   = (busy_q ? left_q : in_i.rules) & there_q;
  assign lowest = from & (~from + 1'b1);

  always_comb begin
    dest = '0;
    for (int unsigned i = 0; i < Rules; i++) dest = dest | (lowest[i] ? qpn_q[i] : '0);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      busy_q <= 1'b0;
    end else if (in_valid_i && frame && !busy_q) begin
      busy_q <= 1'b1;
    end else if (busy_q && out_ready_i && last_q) begin
      busy_q <= 1'b0;
    end
    if (in_valid_i && frame && (!busy_q || out_ready_i)) begin
      left_q <= from & ~lowest;
      dest_q <= dest;
      none_q <= from == '0;
      last_q <= (from & ~lowest) == '0;
    end
  end

  assign out_valid_o = in_valid_i && (busy_q || !frame);
  assign in_ready_o  = out_ready_i && (!frame || (busy_q && last_q));

  always_comb begin
    out_o = in_i;
    if (frame) begin
      out_o.kind     = none_q ? RxdEnd : last_q ? RxdQp : RxdCopy;
      out_o.dest_qpn = dest_q;
    end
  end

endmodule
