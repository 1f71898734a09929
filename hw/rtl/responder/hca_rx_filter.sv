// Is a received packet for a live QP of its service, through its port, of its partition, and from its peer (a datagram:
// with its Q_Key)? Keeps the path of every QP; looks at one packet at a time: rd_en_i reads the path, and the verdict
// on rxd_i stands from the next cycle on.
// No stalls, no further cycle. What is refused drops silently. Rules: README.md.
module hca_rx_filter
  import hca_pkg::*, hca_features_pkg::*, hca_rx_pkg::*;
(
  input  logic           clk_i,
  input  logic [NumPorts-1:0][NumPkeys-1:0][15:0] pkey_tbl_i,
  input  logic           rd_en_i,
  input  logic [QpW-1:0] rd_qpn_i,
  input  logic           we_i,
  input  logic [QpW-1:0] wr_qpn_i,
  input  qpc_t           qpc_i,
  input  logic           swap_i,       // with we_i: doors stay as they are
  input  line_shut_t     shut_i,       // never with another we_i
  input  rxd_t           rxd_i,        // with rd_en_i, and behind it
  // In the cycle after rd_en_i, and as long as they are held:
  input  rx_ctx_t        ctx_i,
  input  logic           dead_i,
  output rx_verdict_t    verdict_o,
  output logic [4:0]     pkey_index_o  // QP1: of the P_Key that the packet had, a cycle behind the verdict
);

  typedef struct packed {
    logic [31:0]  qkey;
    logic         is_global;
    logic [15:0]  dlid;
    logic [127:0] sgid;
    logic [127:0] dgid;
  } path_t;

  path_t path, path_new;
  logic  alive, here, asks, live, mine, answer, pkey_ok, gen_ok, lid_ok, qkey_ok, gids_ok, has_grh, source_ok, is_cnp,
         unused_in;

  assign unused_in = ^{rxd_i, ctx_i, qpc_i};
  assign path_new  = '{qkey: qpc_i.qkey, is_global: qpc_i.is_global, dlid: qpc_i.dlid, sgid: qpc_i.sgid,
                       dgid: qpc_i.dgid};

  hca_ram_1r1w #(
    .Width($bits(path_t)),
    .Depth(NumQps)
  ) u_path (
    .clk_i,
    .we_i   (we_i),
    .waddr_i(wr_qpn_i),
    .wdata_i(path_new),
    .re_i   (rd_en_i),
    .raddr_i(rd_qpn_i),
    .rdata_o(path)
  );

  logic shut, drain, stops, begins_q, opens;
  assign opens = we_i && !swap_i;
  if (HasContextMemory) begin : gen_shut
    // A block RAM: whose row it is that is read is known late, and LUTs with a row of their own each come behind that.
    hca_ram_words #(
      .WordW(2),
      .Words(1),
      .Depth(NumQps)
    ) u_shut (
      .clk_i,
      .we_i   (opens || shut_i.valid),
      .waddr_i(opens ? wr_qpn_i : shut_i.line),
      .wdata_i({!opens && shut_i.drain, !opens && shut_i.shut}),
      .re_i   (rd_en_i),
      .raddr_i(rd_qpn_i),
      .rdata_o({drain, shut})
    );
  end else begin : gen_no_shut
    logic unused_shut;
    assign unused_shut = ^{shut_i, opens};
    assign {drain, shut} = '0;
  end

  // Who is to leave its line begins no answer that takes time: of RC, XRC, and masked atomics.
  assign stops = ctx_i.is_shut || shut || (drain && begins_q);

  always_ff @(posedge clk_i) begin
    begins_q <= rxd_i.opcode[7:5] inside {3'(ServiceRc), 3'(ServiceXrc), BthRcMaskedCmpSwap[7:5]}
                && rxd_i.opcode[4:0] inside {BthRcReadRequest[4:0], BthRcCmpSwap[4:0], BthRcFetchAdd[4:0],
                                             BthRcFlush[4:0], BthRcAtomicWrite[4:0]};
  end

  // The port of a frame is its rule's to judge. An initiator of XRC takes answers, a target requests.
  assign answer  = rxd_i.opcode[4:0] inside {[BthRcReadResponseFirst[4:0]:BthRcAtomicAcknowledge[4:0]]};
  assign mine    = (ctx_i.is_rc && !ctx_i.is_xrc && rxd_i.opcode[7:5] == 3'(ServiceRc))
                   || (ctx_i.is_xrc && rxd_i.opcode[7:5] == 3'(ServiceXrc) && answer != ctx_i.is_target)
                   || (ctx_i.is_uc && rxd_i.opcode[7:5] == 3'(ServiceUc))
                   || (ctx_i.is_raw ? rxd_i.opcode[7:5] == 3'(ServiceRaw)
                       : ctx_i.is_ud && rxd_i.opcode[7:5] == 3'(ServiceUd));
  hca_same #(.Width(24 - QpW)) u_gen (.a_i(rxd_i.dest_qpn[23:QpW]), .b_i(ctx_i.gen), .same_o(gen_ok));
  assign alive   = gen_ok && !stops && ctx_i.rx_ok && !dead_i && rxd_i.kind != RxdEnd;
  assign here    = alive && (ctx_i.is_raw || rxd_i.port == ctx_i.port);
  assign asks    = alive && mine && ctx_i.is_armed && rxd_i.mig_req;
  assign live    = here && mine && !asks;
  assign is_cnp  = rxd_i.opcode == 8'(BthCnp) && rxd_i.payload_bytes == '0 && (ctx_i.is_rc || ctx_i.is_uc);
  assign verdict_o.miss = ctx_i.is_shared && (!gen_ok || stops)
                          && rxd_i.kind == RxdQp;

  // QP1 is of every partition of its port, and says which one a datagram was of (KEY-16, KEY-21).
  // The packet is there when its path is read: it is compared with the tables of all ports then.
  logic [NumPorts-1:0][NumPkeys-1:0] found_at_q;
  logic [NumPkeys-1:0]               pkey_found, pkey_found_q, wanted;

  assign pkey_found = found_at_q[ctx_i.port];

  always_comb begin
    for (int unsigned i = 0; i < NumPkeys; i++) wanted[i] = ctx_i.is_gsi || ctx_i.pkey_index == 5'(i);
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < NumPorts; p++) begin
      for (int unsigned i = 0; i < NumPkeys; i++) found_at_q[p][i] <= pkey_match(rxd_i.pkey, pkey_tbl_i[p][i]);
    end
    pkey_found_q <= pkey_found;
  end

  hca_onehot_index #(
    .N(NumPkeys)
  ) u_pkey_index (
    .onehot_i(pkey_found_q & (~pkey_found_q + 1'b1)),
    .idx_o   (pkey_index_o)
  );

  assign pkey_ok = rxd_i.smp || (pkey_found & wanted) != '0;

  // APM-3. Whoever has migrated says so on the other path, which may be through another port. Firmware knows that path:
  // the packet drops, and comes again when the QP is there.
  assign verdict_o.asks = asks;
  assign verdict_o.arms = live && pkey_ok && source_ok && ctx_i.is_rearm && !rxd_i.mig_req;

  // QPS-17. InfiniBand: the source LID is the path's, and the GIDs are where both sides have a GRH. Ethernet: the GIDs.
  assign has_grh = rxd_i.sgid != '0 || rxd_i.dgid != '0;
  // By carries, a GID's halves by themselves: the verdict waits for the path, and for nothing behind it.
  logic [3:0] halves_ok;
  hca_same #(.Width(16)) u_lid (.a_i(rxd_i.slid), .b_i(path.dlid), .same_o(lid_ok));
  hca_same #(.Width(32)) u_qkey (.a_i(rxd_i.deth_qkey), .b_i(path.qkey), .same_o(qkey_ok));
  for (genvar h = 0; h < 2; h++) begin : gen_half
    hca_same #(.Width(64)) u_source (
      .a_i(rxd_i.sgid[64*h +: 64]), .b_i(path.dgid[64*h +: 64]), .same_o(halves_ok[h])
    );
    hca_same #(.Width(64)) u_dest (
      .a_i(rxd_i.dgid[64*h +: 64]), .b_i(path.sgid[64*h +: 64]), .same_o(halves_ok[2+h])
    );
  end
  assign gids_ok = &halves_ok;

  always_comb begin
    source_ok = gids_ok;
    if (rxd_i.ib) source_ok = lid_ok && (gids_ok || !has_grh || !path.is_global);
    if (ctx_i.is_ud) source_ok = rxd_i.smp || qkey_ok;
    verdict_o.bad_source = live && pkey_ok && !source_ok && !ctx_i.is_ud;
    verdict_o.qkey_viol  = live && pkey_ok && !source_ok && ctx_i.is_ud;
    verdict_o.pkey_viol  = live && !pkey_ok;
    verdict_o.accept     = live && pkey_ok && source_ok;
    // An acknowledge is not worth a CNP: nobody sends fewer of them.
    verdict_o.marked     = live && pkey_ok && source_ok && rxd_i.marked && !ctx_i.is_ud
                           && !(ctx_i.is_rc
                                && rxd_i.opcode[4:0] inside {BthRcAcknowledge[4:0], BthRcAtomicAcknowledge[4:0]});
    verdict_o.cnp        = here && is_cnp && pkey_ok && source_ok;
    verdict_o.stray      = !live && !verdict_o.cnp && !verdict_o.miss && rxd_i.kind != RxdEnd;
  end

endmodule
