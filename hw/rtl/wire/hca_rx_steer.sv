// Hands a frame to the QP of each rule that has it, with its tag in `imm`: a copy (RxdCopy) to each but the last,
// which frees the buffer. A rule that drops, or is gone meanwhile, gets none; if there is none to be the last the frame
// is at its end (RxdEnd). Two cycles for the first, one for each further copy when the receiver takes it, one for one
// that drops before others. Everything else passes at once.
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
  output rxd_t     out_o,
  output logic     spread_o,     // with out_o: dest_qpn is a row of hca_rss
  output logic     count_o,      // a rule has a frame: never the same one in two cycles that follow each other
  output logic [$clog2(Rules)-1:0] rule_o,
  output logic [12:0]              bytes_o
);

  // What a rule does with a frame.
  typedef struct packed {
    logic        drops;
    logic        spreads;
    logic [23:0] qpn;
    logic [31:0] tag;
  } action_t;

  logic [Rules-1:0]       there_q;    // rules
  action_t [Rules-1:0]    actions_q;  // of each
  logic                   busy_q;     // a frame has been looked at
  logic [Rules-1:0]       left_q;     // rules behind the one in hand
  logic                   none_q, last_q;
  action_t                action, action_q;
  logic [Rules-1:0]       from, lowest;
  logic                   frame, skips, looks, moves, unused_row;

  assign unused_row = ^rule_wr_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) there_q <= '0;
    else if (rule_wr_i.valid) there_q[rule_wr_i.index] <= rule_wr_i.row.valid;
    if (rule_wr_i.valid) begin
      actions_q[rule_wr_i.index] <= '{drops: rule_wr_i.row.drops, spreads: rule_wr_i.row.spreads,
                                      qpn: rule_wr_i.row.qpn, tag: rule_wr_i.row.tag};
    end
  end

  assign frame  = in_i.kind == RxdRaw;
  assign from   = (busy_q ? left_q : in_i.rules) & there_q;
  assign lowest = from & (~from + 1'b1);
  assign skips  = action_q.drops && !last_q && !none_q;  // makes no copy
  assign moves  = busy_q && (out_ready_i || skips);
  assign looks  = in_valid_i && frame && (!busy_q || moves);

  always_comb begin
    action = '0;
    for (int unsigned i = 0; i < Rules; i++) action = action | (lowest[i] ? actions_q[i] : '0);
  end

  hca_onehot_index #(
    .N(Rules)
  ) u_rule (
    .onehot_i(lowest), .idx_o(rule_o)
  );

  assign count_o = looks && from != '0 && !(busy_q && last_q);
  assign bytes_o = in_i.payload_bytes;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      busy_q <= 1'b0;
    end else if (in_valid_i && frame && !busy_q) begin
      busy_q <= 1'b1;
    end else if (moves && last_q) begin
      busy_q <= 1'b0;
    end
    if (looks) begin
      left_q   <= from & ~lowest;
      action_q <= action;
      none_q   <= from == '0;
      last_q   <= (from & ~lowest) == '0;
    end
  end

  assign out_valid_o = in_valid_i && (frame ? busy_q && !skips : 1'b1);
  assign in_ready_o  = out_ready_i && (!frame || (busy_q && last_q));
  assign spread_o    = frame && action_q.spreads && !action_q.drops && !none_q;

  always_comb begin
    out_o = in_i;
    if (frame) begin
      out_o.kind     = (none_q || (last_q && action_q.drops)) ? RxdEnd : last_q ? RxdQp : RxdCopy;
      out_o.dest_qpn = action_q.qpn;
      out_o.imm      = action_q.tag;
    end
  end

endmodule
