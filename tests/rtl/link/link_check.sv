// Takes packets of link_gen and checks every bit, and the order on each VL. Numbers that were jumped over count as
// lost, everything else that is wrong as an error. Stalls: `ready` by chance within packets, `room` for spells of
// random length.
module link_check
  import hca_pkg::*;
  import link_bench_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              ib_i,
  input  logic [31:0]       seed_i,
  input  logic [7:0]        stall_i,       // of 256: chance of no ready
  input  logic [7:0]        spell_i,       // room comes and goes in spells of up to 16 * spell_i cycles; 0: always
  input  logic              valid_i,
  output logic              ready_o,
  input  mac_t              mac_i,
  output logic              room_o,
  output logic [15:0][31:0] packets_o,
  output logic [15:0][31:0] beats_o,
  output logic [15:0][31:0] lost_o,
  output logic [31:0]       errors_o
);

  logic [31:0]       random_q;
  logic              ready_q, room_q;
  logic [11:0]       spell_q;
  logic              first_q;
  logic [3:0]        vl_q, vl;
  logic [31:0]       seq_q, seq;
  logic [7:0]        index_q, index, beats_q, beats;
  logic [6:0]        len_q, len;
  logic [15:0][31:0] next_q, beats_cnt_q, lost_q, packets_q;
  logic [31:0]       errors_q;
  mac_t              want;

  always_comb begin
    vl    = first_q ? mac_i.data[8*29 +: 4] : vl_q;
    seq   = first_q ? mac_i.data[8*24 +: 32] : seq_q;
    len   = first_q ? mac_i.data[8*28 +: 7] : len_q;
    beats = first_q ? mac_i.data[8*30 +: 8] : beats_q;
    index = first_q ? 8'd0 : index_q;
    want  = make_beat(ib_i, vl, seq, beats, len, index);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      random_q    <= (seed_i == 32'd0) ? 32'd1 : seed_i;
      ready_q     <= 1'b0;
      room_q      <= 1'b0;
      spell_q     <= '0;
      first_q     <= 1'b1;
      next_q      <= '0;
      beats_cnt_q <= '0;
      packets_q   <= '0;
      lost_q      <= '0;
      errors_q    <= '0;
    end else begin
      random_q <= next_random(random_q);
      ready_q  <= random_q[7:0] >= stall_i;
      if (spell_i == 8'd0) begin
        room_q  <= 1'b1;
        spell_q <= '0;
      end else if (spell_q == '0) begin
        room_q  <= random_q[8];
        spell_q <= 12'(({8'd0, random_q[31:24]} * {8'd0, spell_i}) >> 4);
      end else begin
        spell_q <= spell_q - 12'd1;
      end
      if (valid_i && ready_q) begin
        first_q         <= mac_i.last;
        index_q         <= index + 8'd1;
        beats_cnt_q[vl] <= beats_cnt_q[vl] + 32'd1;
        if (mac_i !== want || (first_q && seq - next_q[vl] > 32'h7fff_ffff)) errors_q <= errors_q + 32'd1;
        if (first_q) begin
          vl_q       <= vl;
          seq_q      <= seq;
          len_q      <= len;
          beats_q    <= beats;
          next_q[vl] <= seq + 32'd1;
          lost_q[vl] <= lost_q[vl] + (seq - next_q[vl]);
        end
        if (mac_i.last) packets_q[vl] <= packets_q[vl] + 32'd1;
      end
    end
  end

  assign ready_o   = ready_q;
  assign room_o    = room_q;
  assign packets_o = packets_q;
  assign beats_o   = beats_cnt_q;
  assign lost_o    = lost_q;
  assign errors_o  = errors_q;

endmodule
