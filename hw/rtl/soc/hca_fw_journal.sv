// The journal of the soft core's data memory: what each word held before the core wrote it, since firmware said that
// its state is whole (a commit). A restart plays it back, newest first, while the core is in reset: firmware finds its
// data as they were at the last commit, wherever it was stopped. Words below the first that firmware names, its stack,
// are not kept. More writes than the journal holds, or a restart of firmware that has never committed: nothing is
// whole.
//
// What a word held comes from the memory's read port, which a write leaves free, a cycle after the write.
module hca_fw_journal #(
    parameter int unsigned AddrW = 18,
    parameter int unsigned Depth = 2048,
    localparam int unsigned CountW = $clog2(Depth + 1)
) (
    input  logic              clk_i,
    input  logic              rst_i,
    // Firmware: a commit, and the first word that is kept; 0: none is.
    input  logic              commit_i,
    input  logic [AddrW-1:0]  first_i,
    // The data of the last commit are there, or were when the core was stopped.
    output logic              whole_o,
    // The longest it has been.
    output logic [CountW-1:0] most_o,
    // The core writes a word; a cycle later, what it held.
    input  logic              wr_i,
    input  logic [AddrW-1:0]  wr_addr_i,
    input  logic [31:0]       old_i,
    // The core is in reset: plays back.
    input  logic              undo_i,
    output logic              busy_o,
    output logic              undo_valid_o,
    output logic [AddrW-1:0]  undo_addr_o,
    output logic [31:0]       undo_data_o
);
  localparam int unsigned RowW = $clog2(Depth);

  logic [AddrW-1:0]  first_q;
  logic [AddrW-1:0]  addr_q;
  logic [CountW-1:0] count_q;
  logic              kept_q, full, over_q, undoing_q, read_q, push, pull;

  assign full         = count_q == CountW'(Depth);
  assign push         = kept_q && !full;
  assign pull         = undoing_q && (count_q != '0);
  assign busy_o       = undoing_q || read_q;
  assign undo_valid_o = read_q;

  hca_ram_1r1w #(.Width(AddrW + 32), .Depth(Depth)) u_rows (
    .clk_i, .we_i(push), .waddr_i(RowW'(count_q)), .wdata_i({addr_q, old_i}), .re_i(pull),
    .raddr_i(RowW'(count_q - 1'b1)), .rdata_o({undo_addr_o, undo_data_o})
  );

  always_ff @(posedge clk_i) begin
    addr_q <= wr_addr_i;
    if (rst_i) begin
      first_q   <= '0;
      count_q   <= '0;
      kept_q    <= 1'b0;
      over_q    <= 1'b0;
      undoing_q <= 1'b0;
      read_q    <= 1'b0;
      whole_o   <= 1'b0;
      most_o    <= '0;
    end else begin
      kept_q <= wr_i && (first_q != '0) && (wr_addr_i >= first_q);
      read_q <= pull;
      if (commit_i) begin
        first_q <= first_i;
        count_q <= '0;
        over_q  <= 1'b0;
        whole_o <= first_i != '0;
      end else if (push) begin
        count_q <= count_q + 1'b1;
      end else if (pull) begin
        count_q <= count_q - 1'b1;
      end
      if (kept_q && full && !commit_i) over_q <= 1'b1;
      if (push && (count_q >= most_o)) most_o <= count_q + 1'b1;
      if (undo_i) begin
        // Whatever firmware writes before its next commit, nobody may take for whole.
        whole_o   <= whole_o && (first_q != '0) && !over_q;
        undoing_q <= (first_q != '0) && !over_q;
        first_q   <= '0;
        if (over_q) count_q <= '0;
      end else if (undoing_q && (count_q == '0)) begin
        undoing_q <= 1'b0;
      end
    end
  end
endmodule
