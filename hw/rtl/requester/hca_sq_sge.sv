// The WQE under the emitter's hands: holds one of its 64-byte blocks, adds up its scatter/gather lengths, and
// keeps the cursor (address, key and bytes left of the current entry). Entry i lies in block (i + 2) / 4, that of a
// datagram in block (i + 4) / 4. An atomic has no payload: its one entry, behind the operands, is only looked at.
// busy_o while it seeks: one cycle per entry passed and one more per block loaded.
module hca_sq_sge
  import hca_pkg::*;
#(
  parameter int unsigned BlkW = 6
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            datagram_i,  // the QP sends datagrams; constant from start_i to the end of the WQE
  input  logic            load_i,      // blk_i is the WQE's first block
  input  logic            start_i,     // with the header loaded: check the lengths, then seek to skip_i
  input  logic            seek_i,      // with start_i: payload comes from entries
  input  logic [31:0]     skip_i,      // bytes to pass over
  input  logic            step_i,      // bytes_i of the current entry are used
  input  logic [12:0]     bytes_i,
  input  logic            more_i,      // with step_i: the message goes on behind them
  output logic            busy_o,
  output logic            sum_first_bad_o,  // entries of the first block do not add up to the length
  output logic            sum_bad_o,        // entries beyond it: all do not; valid after start_i when !busy_o
  output sq_wqe_ctrl_t    hdr_o,       // first 32 bytes of the block held: the header until start_i
  output beat_t           block_o,     // all of it
  output logic            empty0_o,    // entry 0 holds no byte (not of datagrams)
  output logic [63:0]     va_o,
  output logic [31:0]     left_o,
  output logic [31:0]     lkey_o,
  // Block reads; address relative to the WQE's first block.
  output logic            blk_re_o,
  output logic [BlkW-1:0] blk_ptr_o,
  input  beat_t           blk_i
);

  typedef enum logic [1:0] {StReady, StSum, StSeek, StBlock} state_e;

  state_e      state_q;
  beat_t       block_q;
  sge_t        sge;             // entry under the cursor
  sge_t [3:0]  lanes, lanes_in;
  logic [4:0]  idx_q;           // entry under the cursor
  logic [4:0]  count_q;         // num_sge
  logic [2:0]  sum_blk_q, last_blk;
  logic [35:0] sum_q, sum_blk, sum_first;
  logic [31:0] length_q, skip_q;
  logic        seek_q, empty0_q, empty0, used_up, pass, further, enter;
  logic [4:0]  lead;            // places of the first block before entry 0
  logic [4:0]  place;           // block and lane of the entry

  assign lanes    = block_q;
  assign lanes_in = blk_i;
  assign hdr_o    = block_q[255:0];
  assign block_o  = block_q;
  assign lead     = datagram_i ? 5'd4 : 5'd2;
  assign place    = idx_q + lead;
  assign sge      = lanes[place[1:0]];
  assign busy_o   = state_q != StReady;

  // ---- Sum of lengths: entries 0 and 1 from the header block, the rest block by block ------------------
  assign sum_first = is_atomic(hdr_o.opcode) ? 36'(lanes[3].length) :
                     ((hdr_o.num_sge != '0 && !datagram_i) ? 36'(lanes[2].length) : '0)
                     + ((hdr_o.num_sge > 8'd1 && !datagram_i) ? 36'(lanes[3].length) : '0);
  assign further   = hdr_o.num_sge > (datagram_i ? 8'd0 : 8'd2);
  assign empty0_o  = lanes[2].length == '0;
  assign last_blk  = 3'((count_q + lead - 5'd1) >> 2);
  // The cursor of a datagram begins in the second block, which is held from here on.
  assign enter     = state_q == StSum && sum_blk_q == 3'd1 && datagram_i;
  assign empty0    = enter ? lanes_in[0].length == '0 : empty0_q;
  assign sum_first_bad_o = sum_first != 36'(hdr_o.length);

  always_comb begin
    sum_blk = sum_q;
    for (int unsigned i = 0; i < 4; i++) begin
      if ({sum_blk_q, 2'(i)} < count_q + lead) sum_blk = sum_blk + 36'(lanes_in[i].length);
    end
  end

  // ---- Cursor ------------------------------------------------------------------------------------------
  assign used_up = step_i && more_i && (32'(bytes_i) == left_o);
  assign pass    = (state_q == StSeek) && (sge.length <= skip_q);

  always_comb begin
    blk_re_o  = 1'b0;
    blk_ptr_o = BlkW'(1);
    if (start_i && further) begin
      blk_re_o = 1'b1;
    end else if (state_q == StSum && sum_blk_q != last_blk) begin
      blk_re_o  = 1'b1;
      blk_ptr_o = BlkW'(sum_blk_q) + BlkW'(1);
    end else if ((used_up || pass) && place[1:0] == 2'd3) begin
      blk_re_o  = 1'b1;
      blk_ptr_o = BlkW'(place[4:2]) + BlkW'(1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StReady;
    end else begin
      unique case (state_q)
        StReady: begin
          if (start_i && further) state_q <= StSum;
          else if (start_i && seek_i && (skip_i != '0 || empty0_o)) state_q <= StSeek;
          else if (used_up) state_q <= (place[1:0] == 2'd3) ? StBlock : StSeek;
        end
        StSum: begin
          if (sum_blk_q == last_blk) begin
            state_q <= (seek_q && sum_blk == 36'(length_q) && (skip_q != '0 || empty0)) ? StSeek : StReady;
          end
        end
        StSeek: begin
          if (!pass) state_q <= StReady;
          else if (place[1:0] == 2'd3) state_q <= StBlock;
        end
        default: state_q <= StSeek;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (load_i || enter || state_q == StBlock) block_q <= blk_i;
    if (start_i) begin
      idx_q     <= '0;
      count_q   <= hdr_o.num_sge[4:0];
      length_q  <= hdr_o.length;
      skip_q    <= skip_i;
      seek_q    <= seek_i;
      empty0_q  <= empty0_o;
      sum_blk_q <= 3'd1;
      sum_q     <= sum_first;
      va_o      <= lanes[2].addr;
      left_o    <= lanes[2].length;
      lkey_o    <= lanes[2].lkey;
    end
    if (state_q == StSum) begin
      sum_blk_q <= sum_blk_q + 3'd1;
      sum_q     <= sum_blk;
      sum_bad_o <= sum_blk != 36'(length_q);
    end
    if (enter) begin
      empty0_q <= empty0;
      va_o     <= lanes_in[0].addr;
      left_o   <= lanes_in[0].length;
      lkey_o   <= lanes_in[0].lkey;
    end
    if (step_i) begin
      va_o   <= va_o + 64'(bytes_i);
      left_o <= left_o - 32'(bytes_i);
      skip_q <= '0;
    end
    if (used_up || pass) idx_q <= idx_q + 5'd1;
    if (pass) skip_q <= skip_q - sge.length;
    if (state_q == StSeek && !pass) begin
      va_o   <= sge.addr + 64'(skip_q);
      left_o <= sge.length - skip_q;
      lkey_o <= sge.lkey;
    end
  end

endmodule
