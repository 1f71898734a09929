// One direction of a cable: Delay cycles, at most 25 of 32 cycles used (12.5 GB/s at 250 MHz), and faults: link
// packets lost or with a wrong bit, data packets with a symbol error, all by chance; link packets of given VLs lost
// always. A packet that was cut by the loss of the physical link does not arrive any further. Counts offers that were
// changed or taken back although the physical link stayed up.
module link_cable
  import hca_pkg::*;
  import hca_link_pkg::*;
  import link_bench_pkg::*;
#(
  parameter int unsigned Delay = 16
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [31:0] seed_i,
  input  logic        up_i,
  input  logic        full_rate_i,      // no limit: a beat in every cycle
  input  logic [7:0]  fcp_loss_i,       // of 256
  input  logic [7:0]  fcp_flip_i,
  input  logic [15:0] fcp_block_i,      // VLs whose FCPs are lost
  input  logic [7:0]  data_err_i,       // of 65536, per beat
  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  phy_t        in_i,
  output logic        out_valid_o,
  output phy_t        out_o,
  output logic        out_err_o,
  output logic [31:0] fcps_o,           // link packets that entered,
  output logic [31:0] fcps_lost_o,      // that were lost or spoilt
  output logic [31:0] cut_o,            // ends of data packets that were on the cable when the link went down
  output logic [31:0] withdrawn_o
);

  logic [31:0]               random_q, fcps_q, lost_q, cut_q, withdrawn_q, ends;
  logic                      offered_q;
  phy_t                      offer_q;
  logic [4:0]                slot_q;
  logic [Delay-1:0]          valid_q, err_q;
  phy_t                      pipe_q [Delay];
  logic                      take, lose, flip, bad;
  phy_t                      beat;

  assign in_ready_o = up_i && (full_rate_i || slot_q < 5'd25);
  assign take       = in_valid_i && in_ready_o;
  assign lose       = in_i.link && (random_q[7:0] < fcp_loss_i || fcp_block_i[in_i.data[23:20]]);
  assign flip       = in_i.link && random_q[15:8] < fcp_flip_i;
  assign bad        = !in_i.link && random_q[31:16] < 16'(data_err_i);

  always_comb begin
    beat = in_i;
    if (flip) beat.data[random_q[21:16] % 48] = !in_i.data[random_q[21:16] % 48];
  end

  always_comb begin
    ends = '0;
    for (int unsigned i = 0; i < Delay; i++) ends += 32'(valid_q[i] && pipe_q[i].last && !pipe_q[i].link);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      random_q <= (seed_i == 32'd0) ? 32'd1 : seed_i;
      slot_q   <= '0;
      valid_q  <= '0;
      fcps_q   <= '0;
      lost_q   <= '0;
      cut_q    <= '0;
      offered_q   <= 1'b0;
      withdrawn_q <= '0;
    end else begin
      random_q <= next_random(random_q);
      slot_q   <= slot_q + 5'd1;
      valid_q  <= up_i ? {valid_q[Delay-2:0], take && !lose} : '0;
      if (take && in_i.link) fcps_q <= fcps_q + 32'd1;
      if (take && in_i.link && (lose || flip)) lost_q <= lost_q + 32'd1;
      if (!up_i) cut_q <= cut_q + ends;
      offered_q <= up_i && in_valid_i && !in_ready_o;
      offer_q   <= in_i;
      if (up_i && offered_q && !(in_valid_i && in_i === offer_q)) withdrawn_q <= withdrawn_q + 32'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    err_q     <= {err_q[Delay-2:0], bad};
    pipe_q[0] <= beat;
    for (int unsigned i = 1; i < Delay; i++) pipe_q[i] <= pipe_q[i-1];
  end

  assign out_valid_o = up_i && valid_q[Delay-1];
  assign out_o       = pipe_q[Delay-1];
  assign out_err_o   = err_q[Delay-1];
  assign fcps_o      = fcps_q;
  assign fcps_lost_o = lost_q;
  assign cut_o       = cut_q;
  assign withdrawn_o = withdrawn_q;

endmodule
