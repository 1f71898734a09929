// Reaction point: one event after the other, of whatever QP, goes to the algorithm with that QP's state and comes back
// with a new one, and with the rate, which goes to those who make packets. An event takes 2 cycles and CcCycles for
// each turn. Events wait in a FIFO. A CNP or a round trip that finds it full is lost, as it may be in a network; who
// made packets keeps their count; a context write waits.
module hca_cc_react
  import hca_pkg::*;
  import hca_cc_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic [63:0]                now_i,
  input  link_congestion_t [NumPorts-1:0] cfg_i,
  input  logic [NumPorts-1:0][7:0]   epoch_i,
  // Strobes.
  input  logic                       cnp_i,
  input  logic [QpW-1:0]             cnp_qpn_i,
  input  logic [PortW-1:0]           cnp_port_i,
  input  logic                       rtt_i,
  input  logic [QpW-1:0]             rtt_qpn_i,
  input  logic [PortW-1:0]           rtt_port_i,
  input  logic [19:0]                rtt_cycles_i,
  // Streams.
  input  logic                       init_valid_i,
  output logic                       init_ready_o,
  input  logic [QpW-1:0]             init_qpn_i,
  input  logic                       sent_valid_i,
  output logic                       sent_ready_o,
  input  cc_sent_t                   sent_i,
  output cc_rate_wr_t                rate_o
);

  localparam int unsigned Depth = 16;
  localparam int unsigned CountW = $clog2(Depth) + 1;
  localparam int unsigned Spare = 4;   // places that CNPs alone may have

  // ---- Events in --------------------------------------------------------------------------------------------------
  cc_job_t              in, head;
  logic                 in_valid, in_ready, head_valid, roomy_q, pop;
  logic [CountW-1:0]    count;

  assign init_ready_o = roomy_q && !cnp_i;
  assign sent_ready_o = roomy_q && !cnp_i && !init_valid_i;

  // There are places but the spare ones, also behind what comes in this cycle.
  always_ff @(posedge clk_i) begin
    roomy_q <= rst_i || count < CountW'(Depth - Spare - 1)
               || (count == CountW'(Depth - Spare - 1) && (pop || !in_valid))
               || (count == CountW'(Depth - Spare) && pop && !in_valid);
  end

  always_comb begin
    in_valid = cnp_i || (roomy_q && (init_valid_i || sent_valid_i || rtt_i));
    in       = '{kind: CcRtt, port: rtt_port_i, qpn: rtt_qpn_i, value: rtt_cycles_i};
    if (sent_valid_i) in = '{kind: CcSent, port: sent_i.port, qpn: sent_i.qpn, value: 20'(sent_i.bytes)};
    if (init_valid_i) in = '{kind: CcInit, port: '0, qpn: init_qpn_i, value: '0};
    if (cnp_i) in = '{kind: CcCnp, port: cnp_port_i, qpn: cnp_qpn_i, value: '0};
  end

  hca_fifo #(
    .Width($bits(cc_job_t)),
    .Depth(Depth)
  ) u_events (
    .clk_i, .rst_i,
    .in_valid_i (in_valid),
    .in_ready_o (in_ready),
    .in_i       (in),
    .out_valid_o(head_valid),
    .out_ready_i(pop),
    .out_o      (head),
    .count_o    (count)
  );

  // ---- Turns ------------------------------------------------------------------------------------------------------
  typedef enum logic [1:0] {StIdle, StRow, StTurn} state_e;

  // `epoch`: state of another one is void.
  typedef struct packed {
    logic                live;
    logic [7:0]          epoch;
    logic [CcStateW-1:0] state;
  } row_t;

  state_e                     state_q;
  cc_job_t                    job_q;
  row_t                       row, row_new;
  cc_in_t                     alg_q;
  cc_out_t                    alg;
  logic [$clog2(CcCycles)-1:0] cycle_q;
  logic [$clog2(CcTurns)-1:0] turn_q;
  logic                       last_cycle, row_we, unused_bits;

  assign unused_bits = ^{now_i, in_ready, job_q};
  assign pop         = state_q == StIdle && head_valid;
  assign last_cycle  = state_q == StTurn && cycle_q == '1;
  assign row_we      = last_cycle || (state_q == StRow && job_q.kind == CcInit);
  assign row_new     = '{live: last_cycle, epoch: epoch_i[job_q.port], state: alg.state};

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(NumQps)
  ) u_rows (
    .clk_i,
    .we_i   (row_we),
    .waddr_i(job_q.qpn),
    .wdata_i(row_new),
    .re_i   (pop),
    .raddr_i(head.qpn),
    .rdata_o(row)
  );

  hca_cc_algorithms u_algorithms (
    .clk_i,
    .in_i (alg_q),
    .out_o(alg)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) state_q <= StIdle;
    else begin
      unique case (state_q)
        StIdle:  if (pop) state_q <= StRow;
        StRow:   state_q <= (job_q.kind == CcInit) ? StIdle : StTurn;
        default: if (last_cycle && !(alg.more && turn_q != '1)) state_q <= StIdle;
      endcase
    end
    if (pop) job_q <= head;
    cycle_q <= (state_q == StTurn) ? cycle_q + 1'b1 : '0;
    if (state_q == StRow) begin
      turn_q <= '0;
      alg_q  <= '{kind: job_q.kind, first: !row.live || row.epoch != epoch_i[job_q.port], again: 1'b0,
                  tick: now_i[$clog2(CcTickCycles) +: 32], bytes: job_q.value[15:0], rtt: job_q.value,
                  state: row.state, cfg: cfg_i[job_q.port]};
    end else if (last_cycle) begin
      turn_q      <= turn_q + 1'b1;
      alg_q.state <= alg.state;
      alg_q.first <= 1'b0;
      alg_q.again <= 1'b1;
    end
  end

  // ---- Rates out --------------------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    rate_o.valid <= row_we && !rst_i;
    rate_o.qpn   <= job_q.qpn;
    rate_o.epoch <= epoch_i[job_q.port];
    rate_o.rate  <= last_cycle ? alg.rate : CcRateW'(CcRateFull);
  end

endmodule
