// Hands a frame to the QP of each rule that has it, with its tag in `imm`: a copy (RxdCopy) to each but the last,
// which frees the buffer. A rule that drops, or is gone meanwhile, gets none; if there is none to be the last the frame
// is at its end (RxdEnd). Two cycles for the first, one for each further copy when the receiver takes it, one for one
// that drops before others. Everything else passes at once: also a packet of the transport, unless sniffers have its
// frame, which get their copies before it. While `hold_i` sniffers get none, of whatever it is: they hold nobody up (it
// counts from the next cycle on).
module hca_rx_steer
  import hca_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_i,
  input  rule_wr_t rule_wr_i,
  input  logic     hold_i,       // hca_sniff_share
  input  logic     in_valid_i,
  output logic     in_ready_o,
  input  rxd_t     in_i,
  output logic     out_valid_o,
  input  logic     out_ready_i,
  output rxd_t     out_o,
  output logic     spread_o,     // with out_o: dest_qpn is a row of hca_rss
  output logic     count_o,      // a rule has a frame: never the same one in two cycles that follow each other
  output logic [$clog2(Rules)-1:0] rule_o,
  output logic [12:0]              bytes_o,
  output logic                     sniffed_o,    // a sniffer gets a copy of in_i
  output logic                     lost_o        // sniffers do not get in_i: once for each
);

  // What a rule does with a frame.
  typedef struct packed {
    logic        drops;
    logic        spreads;
    logic [23:0] qpn;
    logic [31:0] tag;
  } action_t;

  logic [Rules-1:0]       there_d, there_q, sniffs_d, sniffs_q;   // rules
  logic [Rules-1:0]       open_q;     // those that get copies
  action_t [Rules-1:0]    actions_q;  // of each
  logic                   busy_q;     // a frame has been looked at
  logic [Rules-1:0]       left_q;     // rules behind the one in hand
  logic                   none_q, last_q;
  action_t                action, action_q;
  logic [Rules-1:0]       left, from, lowest;
  rxd_t                   in_frame;
  logic                   frame, packet, skips, looks, moves, passes, passes_q, unused_row;

  assign unused_row = ^rule_wr_i;

  always_comb begin
    {there_d, sniffs_d} = {there_q, sniffs_q};
    if (rule_wr_i.valid) begin
      there_d[rule_wr_i.index]  = rule_wr_i.row.valid;
      sniffs_d[rule_wr_i.index] = rule_wr_i.row.sniffs;
    end
  end

  always_ff @(posedge clk_i) begin
    there_q  <= rst_i ? '0 : there_d;
    sniffs_q <= sniffs_d;
    open_q   <= rst_i ? '0 : there_d & ~(hold_i ? sniffs_d : '0);
    if (rule_wr_i.valid) begin
      actions_q[rule_wr_i.index] <= '{drops: rule_wr_i.row.drops, spreads: rule_wr_i.row.spreads,
                                      qpn: rule_wr_i.row.qpn, tag: rule_wr_i.row.tag};
    end
  end

  assign frame  = in_i.kind == RxdRaw;
  assign packet = !frame && in_i.rules != '0;
  assign left   = (busy_q ? left_q : in_i.rules) & there_q;
  assign from   = (busy_q ? left_q : in_i.rules) & open_q;
  assign lowest = from & (~from + 1'b1);
  assign skips  = action_q.drops && !last_q && !none_q;  // makes no copy
  assign moves  = busy_q && (out_ready_i || skips);
  // A packet that has been offered stays so.
  assign passes = packet && !busy_q && (passes_q || from == '0);
  assign looks  = in_valid_i && (frame || (packet && !passes)) && (!busy_q || moves);

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
  assign bytes_o = frame ? in_i.payload_bytes : in_i.frame_bytes;
  assign sniffed_o = count_o && (lowest & sniffs_q) != '0;
  assign lost_o  = (left & ~from) != '0 && ((looks && !(busy_q && last_q)) || (in_valid_i && passes && !passes_q));

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      busy_q <= 1'b0;
    end else if (looks && !busy_q) begin
      busy_q <= 1'b1;
    end else if (moves && last_q) begin
      busy_q <= 1'b0;
    end
    passes_q <= !rst_i && in_valid_i && passes && !out_ready_i;
    if (looks) begin
      left_q   <= from & ~lowest;
      action_q <= action;
      none_q   <= from == '0;
      last_q   <= (frame ? from & ~lowest : from) == '0;
    end
  end

  assign out_valid_o = in_valid_i && (busy_q ? !skips : !frame && (!packet || passes));
  assign in_ready_o  = out_ready_i && (busy_q ? last_q : !frame && (!packet || passes));
  assign spread_o    = busy_q && action_q.spreads && !action_q.drops && !none_q;
  assign in_frame    = frame ? in_i : sniffed(in_i);

  always_comb begin
    out_o = in_i;
    if (frame || (busy_q && !none_q)) begin
      out_o          = in_frame;
      out_o.kind     = (none_q || (last_q && action_q.drops)) ? RxdEnd : last_q ? RxdQp : RxdCopy;
      out_o.dest_qpn = action_q.qpn;
      out_o.imm      = action_q.tag;
    end
  end

endmodule
