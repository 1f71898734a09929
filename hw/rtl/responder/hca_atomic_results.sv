// Results of the last atomics of every QP, by PSN: a request that comes again has the answer that it had (REL-19).
// As many as a peer can have outstanding (MaxDestRdAtomic), so what it may still ask for is here. A look takes a row
// with find_i, says in the next cycle whether and where the PSN is, and gives the value in the cycle after read_i.
// Nothing is read in the cycle in which it is written.
module hca_atomic_results
  import hca_pkg::*;
(
  input  logic           clk_i,
  input  logic [QpW-1:0] qpn_i,
  input  logic           clear_i,   // none of the QP's is here
  input  logic           add_i,     // one more, in the place of the oldest
  input  logic           find_i,    // take the QP's row of find_qpn_i
  input  logic [QpW-1:0] find_qpn_i,
  input  logic           read_i,    // in the cycle after find_i: take the value of what was found
  input  logic [23:0]    psn_i,     // of what is added; of what is wanted, in the cycle after find_i
  input  logic [63:0]    value_i,
  output logic           found_o,
  output logic [63:0]    value_o
);

  localparam int unsigned Slots = MaxDestRdAtomic;
  localparam int unsigned SlotW = $clog2(Slots);

  // A place of its own for each atomic: the number of the next one stands beside the PSNs.
  typedef struct packed {
    logic        valid;
    logic [23:0] psn;
  } tag_t;

  tag_t [Slots-1:0] tags;
  logic [Slots-1:0] match, we;
  logic [SlotW-1:0] slot, next;

  assign we = clear_i ? '1 : add_i ? Slots'(1) << next : '0;

  hca_ram_words #(
    .WordW($bits(tag_t)),
    .Words(Slots),
    .Depth(NumQps)
  ) u_tags (
    .clk_i,
    .we_i   (we),
    .waddr_i(qpn_i),
    .wdata_i({Slots{!clear_i, psn_i}}),
    .re_i   (find_i),
    .raddr_i(find_qpn_i),
    .rdata_o(tags)
  );

  hca_ram_1r1w #(
    .Width(SlotW),
    .Depth(NumQps)
  ) u_next (
    .clk_i,
    .we_i   (clear_i || add_i),
    .waddr_i(qpn_i),
    .wdata_i(clear_i ? '0 : next + 1'b1),
    .re_i   (find_i),
    .raddr_i(find_qpn_i),
    .rdata_o(next)
  );

  always_comb begin
    for (int unsigned s = 0; s < Slots; s++) match[s] = tags[s].valid && tags[s].psn == psn_i;
  end
  assign found_o = match != '0;

  hca_onehot_index #(.N(Slots)) u_slot (
    .onehot_i(match),
    .idx_o   (slot)
  );

  hca_ram_1r1w #(
    .Width(64),
    .Depth(NumQps * Slots)
  ) u_values (
    .clk_i,
    .we_i   (add_i),
    .waddr_i({qpn_i, next}),
    .wdata_i(value_i),
    .re_i   (read_i),
    .raddr_i({qpn_i, slot}),
    .rdata_o(value_o)
  );

endmodule
