// Pointers of one receive ring: whole packets in, whole packets out. A slot is one beat of 64 bytes, which is one
// block of the credits (every beat but the last of a packet is full), so the credits promise exactly what the ring
// can take. A packet counts only from `commit_i` on: a bad one is forgotten by not committing it. A slot is free
// again in the cycle after its read. Pointers are addresses in a RAM for all rings, so a ring may have any length.
module hca_rx_ring
  import hca_link_pkg::*;
#(
  parameter int unsigned Blocks = 512,
  parameter int unsigned First  = 0,              // address of its first slot
  parameter int unsigned AddrW  = $clog2(First + Blocks),
  localparam int unsigned PtrW = $clog2(Blocks)
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic               clear_i,             // forget everything
  input  logic               fcp_i,               // resynchronise the credits
  input  logic [11:0]        fcp_fctbs_i,
  input  logic               commit_i,            // the packet written behind wr_ptr_o is whole and good
  input  logic [BlocksW-1:0] commit_blocks_i,
  input  logic               take_i,              // the drain has chosen this ring's oldest packet
  input  logic               pop_i,               // the slot at rd_ptr_o is being read
  output logic [AddrW-1:0]   wr_ptr_o,
  output logic [AddrW-1:0]   rd_ptr_o,
  output logic [PtrW:0]      used_o,
  output logic               packet_o,            // a whole packet waits that was not taken yet
  output logic [11:0]        abr_o,
  output logic [11:0]        fccl_o
);

  localparam logic [AddrW-1:0] Last = AddrW'(First + Blocks - 1);

  logic [AddrW-1:0] wr_ptr_q, rd_ptr_q;
  logic [PtrW:0]    packets_q;
  logic             packet_q, pop_q, wraps;   // packet_q: packets_q is not 0

  assign wraps = AddrW'(commit_blocks_i) > Last - wr_ptr_q;

  always_ff @(posedge clk_i) begin
    if (rst_i || clear_i) begin
      wr_ptr_q  <= AddrW'(First);
      rd_ptr_q  <= AddrW'(First);
      packets_q <= '0;
      packet_q  <= 1'b0;
      pop_q     <= 1'b0;
    end else begin
      if (commit_i) wr_ptr_q <= (wr_ptr_q - (wraps ? AddrW'(Blocks) : '0)) + AddrW'(commit_blocks_i);
      if (pop_i) rd_ptr_q <= (rd_ptr_q == Last) ? AddrW'(First) : rd_ptr_q + 1'b1;
      // Both are late: the numbers are there.
      if (commit_i != take_i) packets_q <= commit_i ? packets_q + 1'b1 : packets_q - 1'b1;
      packet_q  <= commit_i || (packet_q && !(take_i && packets_q == (PtrW + 1)'(1)));
      pop_q     <= pop_i;
    end
  end

  hca_rx_credit #(
    .CapBlocks(Blocks)
  ) u_credit (
    .clk_i,
    .rst_i,
    .clear_i,
    .fcp_i,
    .fcp_fctbs_i,
    .recv_i       (commit_i),
    .recv_blocks_i(commit_blocks_i),
    .free_i       (pop_q),
    .abr_o,
    .fccl_o,
    .used_o
  );

  assign wr_ptr_o = wr_ptr_q;
  assign rd_ptr_o = rd_ptr_q;
  assign packet_o = packet_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (packet_q == (packets_q != '0)) else $error("hca_rx_ring: a packet is forgotten or made up");
  end
`endif

endmodule
