// Where the WQEs of the slot under way lie in the fetcher's memory, and which block is read there. First blocks are
// read two WQEs ahead: the next WQE is looked at while this one is sent.
module hca_sq_blocks #(
  parameter int unsigned BlkW = 6
) (
  input  logic            clk_i,
  input  logic            load_i,       // the slot's state is taken, its first block read
  input  logic [BlkW:0]   have_i,
  input  logic [BlkW-1:0] head_i,
  input  logic            fetch_err_i,
  input  logic            exhausted_i,
  input  logic            clear_i,      // the slot's WQEs are dropped
  input  logic            look_i,       // the first WQE is looked at: the next one's block is read
  input  logic [3:0]      stride_i,     // blocks of a WQE, from look_i on
  input  logic            begin_i,      // a WQE is begun, or goes on
  input  logic            ahead_i,      // if a packet is made it is the WQE's last one: the block of the next but one
  input  logic [BlkW-1:0] sge_ptr_i,    // block of this WQE, in all other cycles
  input  logic            pop_i,        // strobe: the WQE is done
  output logic            ready_o,      // a WQE is there
  output logic            starved_o,    // behind begin_i: none behind this one
  output logic            fetch_err_o,
  output logic            exhausted_o,
  output logic [BlkW-1:0] blk_ptr_o
);

  logic [BlkW:0]   have_q;
  logic [BlkW-1:0] head_q, ahead_q;

  assign ready_o = have_q >= (BlkW+1)'(stride_i);

  always_comb begin
    blk_ptr_o = head_q + sge_ptr_i;
    if (load_i) blk_ptr_o = head_i;
    if (look_i) blk_ptr_o = head_q + BlkW'(stride_i);
    if (ahead_i) blk_ptr_o = ahead_q;
  end

  always_ff @(posedge clk_i) begin
    // Together with the read of the head block: a block written in this cycle is not in what it returns.
    if (load_i) {have_q, head_q, fetch_err_o, exhausted_o} <= {have_i, head_i, fetch_err_i, exhausted_i};
    if (clear_i) {have_q, head_q, fetch_err_o, exhausted_o} <= '0;
    if (begin_i) begin
      ahead_q   <= head_q + BlkW'({stride_i, 1'b0});
      starved_o <= have_q < (BlkW+1)'({stride_i, 1'b0});
    end
    if (pop_i) begin
      have_q <= have_q - (BlkW+1)'(stride_i);
      head_q <= head_q + BlkW'(stride_i);
    end
  end

endmodule
