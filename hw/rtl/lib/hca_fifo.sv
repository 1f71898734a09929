// First-word-fall-through FIFO, one transfer per cycle on both sides. Depth is a power of two, at least 2.
// Up to 16 entries: registers, data visible one cycle after the write. Deeper: RAM whose read register is
// the output stage, data visible two cycles after the write. count_o counts everything inside.
module hca_fifo #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 16,
  localparam int unsigned CountW = $clog2(Depth) + 1
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              in_valid_i,
  output logic              in_ready_o,
  input  logic [Width-1:0]  in_i,
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output logic [Width-1:0]  out_o,
  output logic [CountW-1:0] count_o
);

  localparam int unsigned PtrW = $clog2(Depth);

  if (Depth < 2 || (Depth & (Depth - 1)) != 0) begin : gen_bad_depth
    $error("hca_fifo: Depth must be a power of two and at least 2");
  end

  logic [PtrW-1:0]   wr_ptr_q, rd_ptr_q;
  logic [CountW-1:0] count_q, ones, zeros;   // all bits below are
  logic              push, pop;

  assign in_ready_o = !count_q[PtrW];
  assign push       = in_valid_i && in_ready_o;
  assign pop        = out_valid_o && out_ready_i;
  assign count_o    = count_q;

  // Which bits change with one more or one less is there, in gates, when it is known what comes and what goes: that is
  // often late.
  always_comb begin
    for (int unsigned b = 0; b < CountW; b++) begin
      ones[b]  = (~count_q & CountW'((1 << b) - 1)) == '0;
      zeros[b] = (count_q & CountW'((1 << b) - 1)) == '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wr_ptr_q <= '0;
      count_q  <= '0;
    end else begin
      if (push) wr_ptr_q <= wr_ptr_q + 1'b1;
      count_q <= count_q ^ ((ones & {CountW{push && !pop}}) | (zeros & {CountW{pop && !push}}));
    end
  end

  if (Depth <= 16) begin : gen_regs
    logic [Width-1:0] mem [Depth];

    always_ff @(posedge clk_i) begin
      if (push) mem[wr_ptr_q] <= in_i;
      if (rst_i) rd_ptr_q <= '0;
      else if (pop) rd_ptr_q <= rd_ptr_q + 1'b1;
    end

    assign out_valid_o = count_q != '0;
    assign out_o       = mem[rd_ptr_q];
  end else begin : gen_ram
    logic            out_valid_q;
    logic            fetch;
    logic [CountW-1:0] stored;  // words in the RAM that the output stage has not taken

    assign stored      = count_q - CountW'(out_valid_q);
    assign fetch       = (stored != '0) && (!out_valid_q || out_ready_i);
    assign out_valid_o = out_valid_q;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        rd_ptr_q    <= '0;
        out_valid_q <= 1'b0;
      end else begin
        if (fetch) rd_ptr_q <= rd_ptr_q + 1'b1;
        if (fetch) out_valid_q <= 1'b1;
        else if (pop) out_valid_q <= 1'b0;
      end
    end

    hca_ram_1r1w #(
      .Width(Width),
      .Depth(Depth)
    ) u_ram (
      .clk_i,
      .we_i   (push),
      .waddr_i(wr_ptr_q),
      .wdata_i(in_i),
      .re_i   (fetch),
      .raddr_i(rd_ptr_q),
      .rdata_o(out_o)
    );
  end

endmodule
