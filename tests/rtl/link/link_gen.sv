// Sends random packets on random VLs out of those enabled and open; one number per VL counts them. A packet has
// min_beats to max_beats beats (on VL15 at most 5: management datagrams) and at least 34 bytes.
module link_gen
  import hca_pkg::*;
  import link_bench_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              ib_i,
  input  logic [31:0]       seed_i,
  input  logic [15:0]       enable_i,
  input  logic [15:0]       open_i,
  input  logic [31:0]       budget_i,      // packets in all
  input  logic [7:0]        min_beats_i,
  input  logic [7:0]        max_beats_i,
  input  logic [7:0]        gap_i,         // of 256: chance per cycle to wait between packets
  output logic              valid_o,
  input  logic              ready_i,
  output mac_t              mac_o,
  output logic [15:0][31:0] sent_o,        // packets begun, per VL
  output logic              idle_o
);

  logic [31:0]       random_q, total_q;
  logic [15:0][31:0] seq_q;
  logic              busy_q;
  logic [3:0]        vl_q, vl;
  logic [7:0]        index_q, beats_q, beats;
  logic [6:0]        len_q;
  logic              found;

  always_comb begin
    found = 1'b0;
    vl    = '0;
    for (int unsigned i = 0; i < 16; i++) begin
      logic [3:0] v;
      v = random_q[3:0] + 4'(i);
      if (!found && enable_i[v] && open_i[v]) begin
        found = 1'b1;
        vl    = v;
      end
    end
  end

  assign beats = min_beats_i + 8'({8'd0, random_q[23:16]} * (16'(max_beats_i - min_beats_i) + 16'd1) >> 8);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      random_q <= (seed_i == 32'd0) ? 32'd1 : seed_i;
      total_q  <= '0;
      seq_q    <= '0;
      busy_q   <= 1'b0;
    end else begin
      random_q <= next_random(random_q);
      if (!busy_q) begin
        if (found && total_q != budget_i && random_q[31:24] >= gap_i) begin
          busy_q  <= 1'b1;
          vl_q    <= vl;
          index_q <= '0;
          beats_q <= (ib_i && vl == 4'd15 && beats > 8'd5) ? 8'd5 : beats;
          len_q   <= 7'd34 + {2'd0, random_q[9:6], 1'b0};
        end
      end else if (ready_i) begin
        index_q <= index_q + 8'd1;
        if (mac_o.last) begin
          busy_q      <= 1'b0;
          total_q     <= total_q + 32'd1;
          seq_q[vl_q] <= seq_q[vl_q] + 32'd1;
        end
      end
    end
  end

  assign valid_o = busy_q;
  assign mac_o   = make_beat(ib_i, vl_q, seq_q[vl_q], beats_q, len_q, index_q);
  assign sent_o  = seq_q;
  assign idle_o  = !busy_q && (total_q == budget_i || enable_i == '0);

endmodule
