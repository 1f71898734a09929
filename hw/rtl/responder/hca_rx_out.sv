// Output queues of hca_rx_ctrl, each behind a register, for what a job pushes is known late. An item that
// needs a list pushes its fetch with it. The event queue has one place per QP and more: QP_ERROR and COMM_EST happen
// once per life of a QP, so receive never waits for firmware; ev_spare_o tells when there is room for an event that may
// be left out. room_o: for all that a job pushes, beside what comes in this cycle and in the three before; items beyond
// the first of a job wait for item_ready_o. Both, and ev_spare_o, are of a cycle ago, out of registers.
module hca_rx_out
  import hca_pkg::*, hca_rx_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        item_valid_i,
  output logic        item_ready_o,
  input  rxw_t        item_i,
  input  wqe_at_t     list_i,
  output logic        room_o,
  input  logic        upd_valid_i,
  input  ack_upd_t    upd_i,
  input  logic        ev_valid_i,
  input  rx_ev_t      ev_i,
  input  logic        look_valid_i, // one that may be left out, as it is beside another one; only with ev_spare_o
  input  rx_ev_t      look_i,
  output logic        ev_spare_o,
  input  qp_gen_t     ev_gen_i,   // of its QP, which may have left its line when firmware is told
  output logic        rxw_valid_o,
  input  logic        rxw_ready_i,
  output rxw_t        rxw_o,
  output logic        list_req_valid_o,
  input  logic        list_req_ready_i,
  output dma_rd_req_t list_req_o,
  output logic        ack_upd_valid_o,
  input  logic        ack_upd_ready_i,
  output ack_upd_t    ack_upd_o,
  output logic        ev_valid_o,
  input  logic        ev_ready_i,
  output hw_ev_t      ev_o
);

  localparam int unsigned Items   = 64;  // so many receive WQEs on their way: a PCIe read takes as long as 40 SENDs
  localparam int unsigned Upds    = 16;
  localparam int unsigned EvSpare = 64;

  rx_ev_t                   ev;
  qp_gen_t                  gen;
  logic                     in_ready, list_ready, upd_ready, ev_ready, unused_ready;
  logic [$clog2(Items):0]   item_count, list_count;
  logic [$clog2(Upds):0]    upd_count;
  logic [$clog2(EventRows):0] ev_count;

  assign unused_ready = ^{in_ready, list_ready, upd_ready, ev_ready};
  always_ff @(posedge clk_i) begin
    room_o       <= item_count < ($clog2(Items) + 1)'(Items - 5) && list_count < ($clog2(Items) + 1)'(Items - 5)
                    && upd_count < ($clog2(Upds) + 1)'(Upds - 5) && ev_count < ($clog2(EventRows) + 1)'(EventRows - 5);
    item_ready_o <= item_count < ($clog2(Items) + 1)'(Items - 2) && list_count < ($clog2(Items) + 1)'(Items - 2);
    ev_spare_o   <= ev_count < ($clog2(EventRows) + 1)'(EvSpare);
  end

  // What is in its register has its place.
  logic        item_valid_q, item_lists_q, upd_valid_q, ev_valid_q, look_valid_q;
  rxw_t        item_q;
  wqe_at_t     list_q;
  ack_upd_t    upd_q;
  rx_ev_t      ev_q, look_q;
  qp_gen_t     ev_gen_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) {item_valid_q, upd_valid_q, ev_valid_q, look_valid_q} <= '0;
    else {item_valid_q, upd_valid_q, ev_valid_q, look_valid_q} <=
           {item_valid_i && item_ready_o, upd_valid_i, ev_valid_i, look_valid_i};
    {item_q, list_q, item_lists_q, ev_q, ev_gen_q} <= {item_i, list_i, item_i.needs_list, ev_i, ev_gen_i};
    {upd_q, look_q} <= {upd_i, look_i};
  end

  hca_fifo #(
    .Width($bits(rxw_t)),
    .Depth(Items)
  ) u_rxw (
    .clk_i,
    .rst_i,
    .in_valid_i (item_valid_q),
    .in_ready_o (in_ready),
    .in_i       (item_q),
    .out_valid_o(rxw_valid_o),
    .out_ready_i(rxw_ready_i),
    .out_o      (rxw_o),
    .count_o    (item_count)
  );

  hca_fifo #(
    .Width($bits(dma_rd_req_t)),
    .Depth(Items)
  ) u_list (
    .clk_i,
    .rst_i,
    .in_valid_i (item_valid_q && item_lists_q),
    .in_ready_o (list_ready),
    .in_i       (wqe_fetch(list_q)),
    .out_valid_o(list_req_valid_o),
    .out_ready_i(list_req_ready_i),
    .out_o      (list_req_o),
    .count_o    (list_count)
  );

  hca_fifo #(
    .Width($bits(ack_upd_t)),
    .Depth(Upds)
  ) u_upd (
    .clk_i,
    .rst_i,
    .in_valid_i (upd_valid_q),
    .in_ready_o (upd_ready),
    .in_i       (upd_q),
    .out_valid_o(ack_upd_valid_o),
    .out_ready_i(ack_upd_ready_i),
    .out_o      (ack_upd_o),
    .count_o    (upd_count)
  );

  hca_fifo #(
    .Width($bits(rx_ev_t) + $bits(qp_gen_t)),
    .Depth(EventRows)
  ) u_ev (
    .clk_i,
    .rst_i,
    .in_valid_i (ev_valid_q || look_valid_q),
    .in_ready_o (ev_ready),
    .in_i       ({ev_gen_q, ev_valid_q ? ev_q : look_q}),
    .out_valid_o(ev_valid_o),
    .out_ready_i(ev_ready_i),
    .out_o      ({gen, ev}),
    .count_o    (ev_count)
  );

  always_comb begin
    ev_o       = '0;
    ev_o.kind  = ev.kind;
    ev_o.func  = ev.func;
    ev_o.id    = 32'({gen, ev.qpn});
    ev_o.cause = {14'd0, ev.who, ev.syndrome, ev.status};
  end

endmodule
