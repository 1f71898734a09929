// Hands a datagram that is for several QPs to each of them: for QP1 or QP0 to those of its port, for a multicast group
// to its members. They stand in lists of rows (group_row_t), which begin at a head: MGIDs with the same hash share one.
// A packet for one QP passes at once. Otherwise a cycle for each row of the list, and for each member a copy
// (RxdCopy) when the receiver takes it; then an end (RxdEnd), which alone frees the buffer. Nothing passes meanwhile.
// One for firmware is an end at once: hca_mad_rx has it. Copies of frames come ready-made from hca_rx_steer.
// Rows are written between packets only: no walk meets half a change, and a row that is out of every list can be
// used again.
module hca_rx_group
  import hca_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_i,
  input  logic      wr_valid_i,
  output logic      wr_ready_o,
  input  group_wr_t wr_i,
  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  rxd_t      in_i,
  output logic      out_valid_o,
  input  logic      out_ready_i,
  output rxd_t      out_o
);

  // What a row needs: fields of the layout that no hardware reads are left out.
  typedef struct packed {
    logic              valid;
    logic              is_multicast;
    logic [PortW-1:0]  port;
    logic [GroupW-1:0] next;
    logic [23:0]       qpn;
    logic [127:0]      mgid;
  } row_t;

  typedef enum logic [1:0] {
    StPass,
    StLook,   // row has come
    StCopy,   // its member is offered a copy
    StEnd
  } state_e;

  state_e            state_q, state_d;
  row_t              row, wr_row;
  logic              shared, start, is_for, read, unused_wr;
  logic [GroupW-1:0] head, raddr;
  logic [5:0]        hash;

  assign unused_wr = ^wr_i;
  assign wr_row    = '{valid: wr_i.row.valid, is_multicast: wr_i.row.is_multicast, port: PortW'(wr_i.row.port),
                       next: wr_i.row.next[GroupW-1:0], qpn: wr_i.row.qpn, mgid: wr_i.row.mgid};

  hca_ram_1r1w #(
    .Width($bits(row_t)),
    .Depth(GroupRows)
  ) u_rows (
    .clk_i,
    .we_i   (wr_valid_i && wr_ready_o),
    .waddr_i(wr_i.index),
    .wdata_i(wr_row),
    .re_i   (read),
    .raddr_i(raddr),
    .rdata_o(row)
  );

  always_comb begin
    hash = '0;
    for (int unsigned i = 0; i < 21; i++) hash = hash ^ in_i.dgid[6*i +: 6];
    hash = hash ^ 6'(in_i.dgid[127:126]);
  end

  always_comb begin
    unique case (in_i.kind)
      RxdGsi:  head = GroupW'(in_i.port);
      RxdSmi:  head = GroupW'(GroupSmiHeads) + GroupW'(in_i.port);
      default: head = GroupW'(GroupHashHeads) + GroupW'(hash);
    endcase
  end
  assign shared = in_i.kind inside {RxdGsi, RxdMulticast, RxdSmi};
  assign start  = state_q == StPass && in_valid_i && shared && !wr_valid_i;
  assign is_for = row.valid && (!row.is_multicast || (row.port == in_i.port && row.mgid == in_i.dgid));
  // The next row is read in the cycle in which this one is done with.
  assign read   = start || (state_q == StLook && !is_for) || (state_q == StCopy && out_ready_i);
  assign raddr  = (state_q == StPass) ? head : row.next;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StPass: if (start) state_d = StLook;
      StLook: begin
        if (is_for) state_d = StCopy;
        else if (row.next == '0) state_d = StEnd;
      end
      StCopy: if (out_ready_i) state_d = (row.next == '0) ? StEnd : StLook;
      default: if (out_ready_i) state_d = StPass;
    endcase
  end

  always_ff @(posedge clk_i) state_q <= rst_i ? StPass : state_d;

  assign wr_ready_o  = state_q == StPass;
  assign in_ready_o  = out_ready_i && ((state_q == StPass && !shared) || state_q == StEnd);
  assign out_valid_o = (state_q == StPass) ? in_valid_i && !shared : state_q != StLook;

  always_comb begin
    out_o = in_i;
    if (state_q == StCopy) {out_o.kind, out_o.dest_qpn} = {RxdCopy, row.qpn};
    if (state_q == StEnd || in_i.kind == RxdAgent) out_o.kind = RxdEnd;
  end

endmodule
