// Sniffers see packets of the transport, too. keep_o: ports that have a sniffer; frames of their packets are stored
// whole. kept_o: what has been kept of the packet whose last beat came five cycles ago, as its verdict, and rules_o the
// sniffers among the rules that have it (none, if its frame has not been kept, or does not fit). A rule counts from the
// cycle after its write. Never stalls.
module hca_rx_sniff
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_i,
  input  rule_wr_t            rule_wr_i,
  output logic [NumPorts-1:0] keep_o,
  input  logic                last_i,    // the last beat of a packet or frame
  input  rx_kept_t            kept_i,    // with it
  input  logic [Rules-1:0]    rules_i,   // that have it, five cycles later
  output rx_kept_t            kept_o,
  output logic [Rules-1:0]    rules_o
);

  localparam int unsigned Cycles = 5;

  logic [Rules-1:0]               sniffs_q;
  logic [NumPorts-1:0][Rules-1:0] at_q;    // those of each port
  logic [Cycles:1]                go_q;
  rx_kept_t [Cycles:1]            kept_q;
  logic                           unused_row;

  assign unused_row = ^rule_wr_i;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      sniffs_q <= '0;
      at_q     <= '0;
      go_q     <= '0;
    end else begin
      go_q <= {go_q[Cycles-1:1], last_i};
      if (rule_wr_i.valid) begin
        sniffs_q[rule_wr_i.index] <= rule_wr_i.row.sniffs;
        for (int unsigned p = 0; p < NumPorts; p++) begin
          at_q[p][rule_wr_i.index] <= rule_wr_i.row.valid && rule_wr_i.row.sniffs
                                      && PortW'(rule_wr_i.row.port) == PortW'(p);
        end
      end
    end
    if (last_i) kept_q[1] <= kept_i;
    for (int unsigned i = 2; i <= Cycles; i++) if (go_q[i-1]) kept_q[i] <= kept_q[i-1];
  end

  for (genvar p = 0; p < NumPorts; p++) begin : gen_port
    assign keep_o[p] = at_q[p] != '0;
  end

  assign kept_o  = kept_q[Cycles];
  assign rules_o = (kept_o.keep && kept_o.fits) ? rules_i & sniffs_q : '0;

endmodule
