// Frames and bytes that each rule has had; they begin with 0 when its row is cleared. Two frames of one rule are two
// cycles apart (hca_rx_steer), as long as it takes to count one. Words of a rule: packets, bytes, low word first; a
// read of the first holds the others, so that all are of one moment. The word is there in the next cycle.
module hca_rule_counts
  import hca_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_i,
  input  rule_wr_t                 rule_wr_i,
  input  logic                     count_i,    // a rule has a frame
  input  logic [$clog2(Rules)-1:0] rule_i,
  input  logic [12:0]              bytes_i,
  input  logic                     rd_i,
  input  logic [$clog2(Rules)+1:0] word_i,     // rule, word
  output logic [31:0]              data_o
);

  typedef struct packed {
    logic [63:0] bytes;
    logic [63:0] packets;
  } counts_t;

  logic                     count_q, first_q, clear_q, unused_row;
  logic [$clog2(Rules)-1:0] rule_q, gone_q;
  logic [12:0]              bytes_q;
  logic [1:0]               word_q;
  counts_t                  old_q, fresh, shown_q, held_q;

  assign unused_row = ^rule_wr_i;

  // A row is cleared behind the last frame that it had: from then on it has none. Between two frames is a cycle, and
  // firmware writes no two rows as fast.
  always_ff @(posedge clk_i) begin
    if (rst_i) clear_q <= 1'b0;
    else if (rule_wr_i.valid && !rule_wr_i.row.valid) clear_q <= 1'b1;
    else if (!count_q) clear_q <= 1'b0;
    if (rule_wr_i.valid && !rule_wr_i.row.valid) gone_q <= rule_wr_i.index;
  end

  always_ff @(posedge clk_i) begin
    count_q <= !rst_i && count_i;
    {rule_q, bytes_q} <= {rule_i, bytes_i};
    first_q <= !rst_i && rd_i && word_i[1:0] == '0;
    if (rd_i) word_q <= word_i[1:0];
    if (first_q) held_q <= shown_q;
  end

  assign fresh = '{packets: old_q.packets + 1'b1, bytes: old_q.bytes + 64'(bytes_q)};

  // One memory, of two readers.
  logic [$bits(counts_t)-1:0] mem [Rules];

  always_ff @(posedge clk_i) begin
    if (count_q || clear_q) mem[count_q ? rule_q : gone_q] <= count_q ? fresh : '0;
    if (count_i) old_q <= mem[rule_i];
    if (rd_i && word_i[1:0] == '0) shown_q <= mem[word_i[$clog2(Rules)+1:2]];
  end

  assign data_o = first_q ? shown_q.packets[31:0] : 32'(held_q >> {word_q, 5'd0});

endmodule
