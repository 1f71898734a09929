// The WQE under the emitter's hands: holds one of its 64-byte blocks, adds up its scatter/gather lengths, and
// keeps the cursor (address, key and bytes left of the current entry). Entry i lies in block (i + 2) / 4, that of a
// datagram in block (i + 4) / 4. An atomic has no payload: its one entry, behind the operands, is only looked at.
// busy_o while it seeks: one cycle per entry passed and one more per block loaded. It never seeks beyond the last
// entry: whether the list is as long as the message is known a cycle after busy_o.
module hca_sq_sge
  import hca_pkg::*;
  import hca_sq_pkg::*;
#(
  parameter int unsigned BlkW = 6
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            datagram_i,  // the QP sends datagrams; constant from load_i to the end of the WQE
  input  logic            load_i,      // block_i is the WQE's first block: the cursor stands at its first entry
  input  beat_t           block_i,
  input  logic [32:0]     sum_i,       // of the lengths of the entries in it
  input  logic [31:0]     skip_i,      // bytes to pass over
  input  logic            begin_i,     // the cycle behind
  input  logic            start_i,     // with begin_i: add up the lengths beyond the first block, seek
  input  sq_look_t        wqe_i,       // with begin_i
  input  logic            step_i,      // bytes_i of the current entry are used
  input  logic [12:0]     bytes_i,
  input  logic            used_up_i,   // with step_i: those are all of it, and the message goes on behind them
  output logic            busy_o,
  output logic            first_bad_o, // with begin_i, without entries beyond the first block: they are not as long
  output logic            sum_bad_o,   // with such entries: all are not as long as the message
  output beat_t           block_o,     // all of the block
  output logic [63:0]     va_o,
  output logic [31:0]     left_o,
  output logic [31:0]     lkey_o,
  // The block that may be needed next, relative to the WQE's first one. It is looked at in the next cycle.
  output logic [BlkW-1:0] blk_ptr_o,
  input  beat_t           blk_i
);

  typedef enum logic [1:0] {StReady, StSum, StSeek, StBlock} state_e;

  state_e       state_q;
  beat_t        block_q;
  sq_wqe_ctrl_t hdr;
  sge_t         sge;             // entry under the cursor
  sge_t [3:0]   lanes, lanes_in, lanes_first;
  logic [1:0]   lane_q;          // of the entry
  logic [4:0]   behind_q;        // entries behind it
  logic [4:0]   to_sum_q;        // entries from the next block to be summed on
  logic [2:0]   sum_blk_q, seek_blk_q;  // next block to be summed, to be sought in
  logic [35:0]  rest_q;          // length of the message without the entries summed
  logic [32:0]  low_q, high_q;   // newest block: sums of two entries
  logic [31:0]  skip_q;
  logic         seek_q, skips_q, empty0_q, empty0, used_up, pass, enter, start, begin_q, unused_bits;

  assign unused_bits = ^{wqe_i, hdr, lanes_first};
  assign lanes       = block_q;
  assign lanes_in    = blk_i;
  assign lanes_first = block_i;
  assign hdr         = block_i[255:0];
  assign block_o     = block_q;
  assign sge         = lanes[lane_q];
  assign start       = begin_i && start_i;
  assign busy_o      = state_q != StReady;

  // ---- Sum of lengths --------------------------------------------------------------------------------
  // Whether their sum is what is left needs no adder: the carry that each bit needs, and the one that it gets then.
  logic [35:0] needed, got;

  assign needed = rest_q ^ 36'(low_q) ^ 36'(high_q);
  assign got    = 36'({(36'(low_q) & 36'(high_q)) | ((36'(low_q) | 36'(high_q)) & ~rest_q), 1'b0});

  // Two sums of two entries of a block in one cycle, both taken from what is left of the length in the next one.
  always_ff @(posedge clk_i) begin
    if (load_i) begin
      to_sum_q <= hdr.num_sge[4:0] - (datagram_i ? 5'd0 : 5'd2);
      rest_q   <= 36'(hdr.length);
      low_q    <= '0;
      high_q   <= sum_i;
    end else if (state_q == StSum) begin
      to_sum_q <= to_sum_q - 5'd4;
      rest_q   <= rest_q - 36'(low_q) - 36'(high_q);
      low_q    <= 33'(lanes_in[0].length) + ((to_sum_q > 5'd1) ? 33'(lanes_in[1].length) : '0);
      high_q   <= ((to_sum_q > 5'd2) ? 33'(lanes_in[2].length) : '0)
                  + ((to_sum_q > 5'd3) ? 33'(lanes_in[3].length) : '0);
    end
    sum_bad_o   <= needed != got;
  end

  assign first_bad_o = rest_q[32:0] != high_q;

  // ---- Cursor ------------------------------------------------------------------------------------------
  // That of a datagram begins in the second block, which is held from here on.
  assign enter   = state_q == StSum && begin_q && datagram_i;
  assign empty0  = enter ? lanes_in[0].length == '0 : empty0_q;
  assign used_up = step_i && used_up_i;
  assign pass    = state_q == StSeek && sge.length <= skip_q && behind_q != '0;

  // An entry is left behind in lane 3: the next one is in the block that is read in this cycle.
  assign blk_ptr_o = BlkW'((begin_i || state_q == StSum) ? sum_blk_q : seek_blk_q);

  always_ff @(posedge clk_i) begin
    if (rst_i || load_i) begin
      state_q <= StReady;
    end else begin
      unique case (state_q)
        StReady: begin
          if (start && wqe_i.many) state_q <= StSum;
          else if (start && wqe_i.payload && (wqe_i.resumed || wqe_i.empty0)) state_q <= StSeek;
          else if (used_up) state_q <= (lane_q == 2'd3) ? StBlock : StSeek;
        end
        StSum:   if (to_sum_q <= 5'd4) state_q <= (seek_q && (skips_q || empty0)) ? StSeek : StReady;
        StSeek: begin
          if (!pass) state_q <= StReady;
          else if (lane_q == 2'd3) state_q <= StBlock;
        end
        default: state_q <= StSeek;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    begin_q <= start;
    if (load_i) block_q <= block_i;
    else if (enter || state_q == StBlock) block_q <= blk_i;
    if (load_i) begin
      lane_q     <= datagram_i ? 2'd0 : 2'd2;
      behind_q   <= hdr.num_sge[4:0] - 5'd1;
      seek_blk_q <= datagram_i ? 3'd2 : 3'd1;
      skip_q     <= skip_i;
      va_o       <= lanes_first[2].addr;
      left_o     <= lanes_first[2].length;
      lkey_o     <= lanes_first[2].lkey;
    end else begin
      if (used_up || pass) begin
        lane_q   <= lane_q + 2'd1;
        behind_q <= behind_q - 5'd1;
        if (lane_q == 2'd3) seek_blk_q <= seek_blk_q + 3'd1;
      end
      if (step_i) begin
        va_o   <= va_o + 64'(bytes_i);
        left_o <= left_o - 32'(bytes_i);
        skip_q <= '0;
      end
      if (pass) skip_q <= skip_q - sge.length;
      if (enter) begin
        va_o   <= lanes_in[0].addr;
        left_o <= lanes_in[0].length;
        lkey_o <= lanes_in[0].lkey;
      end
      if (state_q == StSeek && !pass) begin
        va_o   <= sge.addr + 64'(skip_q);
        left_o <= sge.length - skip_q;
        lkey_o <= sge.lkey;
      end
    end
    if (load_i) sum_blk_q <= 3'd1;
    else if (begin_i || state_q == StSum) sum_blk_q <= sum_blk_q + 3'd1;
    if (begin_i) begin
      seek_q   <= wqe_i.payload;
      skips_q  <= wqe_i.resumed;
      empty0_q <= wqe_i.empty0;
    end else if (enter) begin
      empty0_q <= empty0;
    end
  end

endmodule
