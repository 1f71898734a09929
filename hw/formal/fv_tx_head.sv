// Proof of hca_tx_head: the two packets in front of a ring keep their order and their lengths, and one is stale exactly
// if its QP has begun another round than its own: when it came by the table's word, later by what is told. The table
// knows of a round a cycle before it is told here.
module fv_tx_head
  import hca_pkg::*;
  import hca_link_pkg::*;
(
  input logic               clk_i,
  input tx_round_t          begins_i,     // to the table; here a cycle later
  input logic               in_valid_i,
  input logic [PacketW-1:0] in_bytes_i,
  input tx_round_t          in_round_i,
  input logic               other_i,      // what the table says of other QPs
  input logic               out_ready_i
);
  logic               rst_q = 1'b1;
  logic               in_ready, out_valid, out_stale, present, came_stale_q, came_ours_q, stale_q, in_stale;
  logic [PacketW-1:0] out_bytes;
  logic [BlocksW-1:0] out_blocks;
  logic [QpW-1:0]     qpn_q;              // any QP, for ever
  logic [RoundW-1:0]  table_q;            // its round
  tx_round_t          begins_q, round_q;  // round_q: of the packet that is followed
  logic [2:0]         in_seq, out_seq, held, watched, age;
  logic [PacketW-1:0] word;
  logic               take, follow;

  always_ff @(posedge clk_i) rst_q <= 1'b0;

  hca_tx_head u_dut (
    .clk_i, .rst_i(rst_q), .round_i(begins_q), .in_valid_i, .in_ready_o(in_ready), .in_bytes_i, .in_round_i,
    .in_stale_i(in_stale), .out_valid_o(out_valid), .out_ready_i, .out_bytes_o(out_bytes), .out_blocks_o(out_blocks),
    .out_stale_o(out_stale)
  );

  fv_order #(.Width(PacketW), .SeqW(3)) u_order (
    .clk_i, .rst_i(rst_q), .push_i(take), .pop_i(out_valid && out_ready_i), .in_i(in_bytes_i), .in_seq_o(in_seq),
    .out_seq_o(out_seq), .held_o(held), .watched_o(watched), .inside_o(present), .age_o(age), .word_o(word)
  );

  assign take     = in_valid_i && in_ready;
  assign follow   = take && in_seq == watched;
  assign in_stale = came_ours_q ? came_stale_q : other_i;

  // The table, and what it says of this QP's packets a cycle after they came.
  always_ff @(posedge clk_i) begin
    qpn_q        <= qpn_q;
    begins_q     <= rst_q ? '0 : begins_i;
    came_ours_q  <= !in_round_i.valid || in_round_i.qpn == qpn_q;
    came_stale_q <= in_round_i.valid && in_round_i.round != table_q;
    if (begins_i.valid && begins_i.qpn == qpn_q) table_q <= begins_i.round;
  end

  // What is followed: a packet of this QP, or of nobody.
  always_comb begin
    if (!rst_q && follow) m_ours: assume (!in_round_i.valid || in_round_i.qpn == qpn_q);
  end

  always_ff @(posedge clk_i) begin
    if (follow) begin
      round_q <= in_round_i;
      stale_q <= in_round_i.valid && in_round_i.round != table_q;
    end else if (begins_q.valid && begins_q.qpn == qpn_q && round_q.valid && begins_q.round != round_q.round) begin
      stale_q <= 1'b1;
    end
  end

  // The two places, each with what it knows.
  always_comb begin
    if (!rst_q) begin
      a_held: assert (held == 3'(u_dut.head_valid_q) + 3'(u_dut.next_valid_q));
      h_order: assert (u_dut.head_valid_q || !u_dut.next_valid_q);
      h_came: assert (!(u_dut.head_came_q && u_dut.next_came_q) && (!u_dut.next_came_q || u_dut.next_valid_q)
                      && (!u_dut.head_came_q || (u_dut.head_valid_q && !u_dut.head_stale_q && !u_dut.next_valid_q))
                      && (!u_dut.next_came_q || !u_dut.next_stale_q));
      if (present) begin
        h_ours: assert (!round_q.valid || round_q.qpn == qpn_q);
        if (age == '0) begin
          a_data:  assert (out_valid && out_bytes == word && out_blocks == blocks_of(word));
          a_stale: assert (out_stale == stale_q);
          h_head:  assert (u_dut.head_q.round == round_q);
          if (u_dut.head_came_q) h_head_came: assert (came_ours_q && came_stale_q == stale_q);
        end else begin
          h_next:       assert (u_dut.next_valid_q && u_dut.next_q.bytes == word
                                && u_dut.next_q.blocks == blocks_of(word) && u_dut.next_q.round == round_q);
          h_next_stale: assert ((u_dut.next_stale_q || (u_dut.next_came_q && in_stale)) == stale_q);
          if (u_dut.next_came_q) h_next_came: assert (came_ours_q && came_stale_q == stale_q);
        end
      end
      c_passed: cover (present && age == '0 && stale_q && !u_dut.head_came_q && held == 3'd2);
    end
  end
endmodule
