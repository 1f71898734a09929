// Receive credits of one VL (IBA vol1 7.9.4). `abr_o`: blocks received since the link came up, as the sender
// counts them (each FCP sets it to the sender's count, so blocks of lost packets do not stay lost).
// `fccl_o` = ABR + free blocks: the sender's count may go up to there. A packet that comes into the ring moves
// ABR up and the free blocks down: FCCL stays; only a freed block or a resynchronisation moves it.
// Promise: FCCL - ABR is never more than the ring's free blocks, 2048 at most.
module hca_rx_credit #(
  parameter int unsigned CapBlocks = 512,        // of the ring, at most 2048
  localparam int unsigned UsedW = $clog2(CapBlocks) + 1
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             clear_i,        // link down: nothing received, nothing in the ring
  input  logic             fcp_i,          // a good FCP of this VL, in its place between the packets
  input  logic [11:0]      fcp_fctbs_i,
  input  logic             recv_i,         // a whole packet came into the ring
  input  logic [7:0]       recv_blocks_i,
  input  logic             free_i,         // one block left the ring
  output logic [11:0]      abr_o,
  output logic [11:0]      fccl_o,
  output logic [UsedW-1:0] used_o          // blocks in the ring
);

  if (CapBlocks > 2048) begin : gen_bad_cap
    $error("hca_rx_credit: CapBlocks must be 2048 at most");
  end

  logic [11:0]      abr_q, counted;
  logic [UsedW-1:0] used_q, less, more;

  // Whether a packet or an FCP comes in is late: all sums are there.
  assign less = used_q - UsedW'(free_i);
  assign more = less + UsedW'(recv_blocks_i);
  assign counted = fcp_i ? fcp_fctbs_i + 12'(recv_blocks_i) : abr_q + 12'(recv_blocks_i);

  always_ff @(posedge clk_i) begin
    if (rst_i || clear_i) begin
      abr_q  <= '0;
      used_q <= '0;
    end else begin
      // Both at once: the FCP was in front of the packet.
      abr_q  <= recv_i ? counted : fcp_i ? fcp_fctbs_i : abr_q;
      used_q <= recv_i ? more : less;
    end
  end

  assign abr_o  = abr_q;
  assign used_o = used_q;
  assign fccl_o = abr_q + 12'(UsedW'(CapBlocks) - used_q);

endmodule
