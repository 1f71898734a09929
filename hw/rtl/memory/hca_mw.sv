// Memory windows and fast registration: carries out BIND_MW, REG_MR and LOCAL_INV of send queues, and what SENDs with
// invalidate name, one after the other. Their rows are in host memory as those of other regions are:
//
//   read the rows | check | write the key's row | readers forget it | fence | tell hca_rx_ctrl
//
// What a packet before a SEND with invalidate does with the key has to be done: a fence comes before the write, too.
// A window that was not bound had no users, so binding it needs no fence, and neither does registering a region. Lines
// of the page list that a region had before are forgotten when it is registered again: behind the fence of its
// invalidation nobody brings one back. While an operation is under way only its own
// QP waits; others are served in turn, send queues and receivers alternately. Everything that an operation waits for
// goes on without it. A receiver has one invalidation under way at a time, so their queue has a place per QP.
module hca_mw
  import hca_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  logic                      op_valid_i,
  output logic                      op_ready_o,
  input  mw_op_t                    op_i,
  input  logic                      inv_valid_i,   // always taken
  input  mw_inv_t                   inv_i,
  output logic                      msg_valid_o,
  input  logic                      msg_ready_i,
  output pipe_msg_t                 msg_o,
  output logic [1:0]                over_o,        // strobes, for the fence of firmware: an operation, an invalidation
  input  key_place_t [NumFuncs-1:0] tables_i,
  // hca_dma_rd_port, hca_dma_wr_mux.
  output logic                      req_valid_o,
  input  logic                      req_ready_i,
  output dma_rd_req_t               req_o,
  input  logic                      rsp_valid_i,
  output logic                      rsp_ready_o,
  input  dma_rd_rsp_t               rsp_i,
  output logic                      wr_valid_o,
  input  logic                      wr_ready_i,
  output dma_wr_t                   wr_o,
  // To hca_key_table: firmware's and those from here.
  input  logic                      fw_forget_valid_i,
  output logic                      fw_forget_ready_o,
  input  key_forget_t               fw_forget_i,
  output logic                      forget_valid_o,
  input  logic                      forget_ready_i,
  output key_forget_t               forget_o,
  // Its own fence.
  output logic                      fence_start_o,
  input  logic                      fence_busy_i
);

  localparam int unsigned KeyFuncW = KeyW - MrW;

  typedef enum logic [3:0] {
    StIdle,
    StPlace,    // where are the rows?
    StWindow,   // ask for the window's row
    StRegion,   // and for the region's
    StRows,     // wait for them
    StBefore,   // fence: what came before an invalidation
    StDrain,
    StCompare,
    StJudge,
    StCheck,
    StWrite,
    StForget,
    StAfter,    // fence: who had the row as it was
    StEmpty,
    StTell
  } state_e;

  state_e  state_q;
  logic    remote_q, bind_q, reg_q, ok_q, bad_q, got_q, turn_q, fw_holds_q, asked;
  logic [1:0] asked_q;   // rows under way
  mw_op_t  op_q;
  mpt_t    window_q, region_q, row_q;

  // ---- Who is next ---------------------------------------------------------------------------------
  logic    inv_valid, inv_ready, inv_room, take_inv, take_op;
  mw_inv_t inv;
  logic [$clog2(NumQps):0] unused_count;

  hca_fifo #(
    .Width($bits(mw_inv_t)),
    .Depth(NumQps)
  ) u_invs (
    .clk_i,
    .rst_i,
    .in_valid_i (inv_valid_i),
    .in_ready_o (inv_room),
    .in_i       (inv_i),
    .out_valid_o(inv_valid),
    .out_ready_i(inv_ready),
    .out_o      (inv),
    .count_o    (unused_count)
  );

  assign take_inv   = state_q == StIdle && inv_valid && (turn_q || !op_valid_i);
  assign take_op    = state_q == StIdle && op_valid_i && !take_inv;
  assign inv_ready  = take_inv;
  assign op_ready_o = take_op;

  // ---- Rows ----------------------------------------------------------------------------------------
  key_place_t  place, place_q;
  logic [MrW-1:0] beyond_q;          // bits of a row's number that its table has not
  logic        of_region, known;   // the function has such a row
  logic [KeyW-1:0] index;
  logic [63:0] addr;

  assign place     = tables_i[FuncIdxW'(op_q.func)];
  assign of_region = state_q == StRegion;
  assign index     = of_region ? op_q.wqe.lkey[31:8] : op_q.key[31:8];
  assign known     = place_q.valid && 32'(op_q.func) < NumFuncs && index[MrW+:KeyFuncW] == KeyFuncW'(op_q.func)
                     && (index[MrW-1:0] & beyond_q) == '0;
  assign addr      = {place_q.base + 58'(index[MrW-1:0]), 6'd0};

  assign req_valid_o = (state_q == StWindow || of_region) && known;
  assign req_o       = '{func: op_q.func, addr: addr, len_bytes: 10'(MptBytes)};
  assign asked       = req_valid_o && req_ready_i;
  assign rsp_ready_o = 1'b1;

  logic ok, was_bound;
  mpt_t row;
  hca_mw_check u_check (
    .clk_i,
    .bind_i     (bind_q),
    .reg_i      (reg_q),
    .remote_i   (remote_q),
    .op_i       (op_q),
    .window_i   (window_q),
    .region_i   (region_q),
    .ok_o       (ok),
    .was_bound_o(was_bound),
    .row_o      (row)
  );

  always_comb begin
    wr_o      = '0;
    wr_o.last = 1'b1;
    wr_o.func = op_q.func;
    wr_o.addr = {place_q.base + 58'(op_q.key[8 +: MrW]), 6'd0};
    wr_o.strb = '1;
    wr_o.data = DataW'(row_q);
  end
  assign wr_valid_o = state_q == StWrite;

  // ---- Readers forget: whoever has begun keeps the way -----------------------------------------------
  // A short page list is forgotten line by line: a walk through all slots of the caches takes longer.
  localparam int unsigned WalkLines = 64, LinePages = DataBytes / 8;

  logic        mine, few_q, had_pages_q, last_line;
  logic [28:0] line_q, end_line_q;
  key_forget_t forget;
  assign mine              = state_q == StForget && !fw_holds_q;
  assign forget_valid_o    = mine || fw_forget_valid_i;
  assign forget_o          = mine ? forget : fw_forget_i;
  assign fw_forget_ready_o = forget_ready_i && !mine;
  assign last_line         = !had_pages_q || !few_q || line_q == end_line_q;
  assign forget = '{all: 1'b0, pages: had_pages_q, one: had_pages_q && few_q, line: line_q, index: op_q.key[31:8]};

  // Of the row, which is there some cycles before.
  always_ff @(posedge clk_i) begin
    had_pages_q <= reg_q && window_q.num_pages != '0;
    few_q       <= window_q.num_pages <= 32'(WalkLines * LinePages);
    end_line_q  <= 29'((window_q.num_pages - 32'd1) / LinePages);
  end

  assign fence_start_o = state_q == StBefore || state_q == StAfter;

  // ---- Result --------------------------------------------------------------------------------------
  assign msg_valid_o = state_q == StTell;
  always_comb begin
    msg_o           = '0;
    msg_o.qpn       = op_q.qpn[QpW-1:0];
    msg_o.wqe_index = op_q.wqe_index;
    msg_o.kind      = remote_q ? MsgInvDone : ok_q ? MsgMwDone : MsgSqError;
    if (!ok_q) msg_o.status = remote_q ? WcRemAccessErr : WcMwBindErr;
    if (!ok_q && remote_q) msg_o.syndrome = NakRemoteAccess;
  end

  assign over_o = {remote_q, !remote_q} & {2{msg_valid_o && msg_ready_i}};

  // ---- Control -------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q    <= StIdle;
      fw_holds_q <= 1'b0;
      asked_q    <= '0;
    end else begin
      asked_q    <= asked_q + 2'(asked) - 2'(rsp_valid_i);
      fw_holds_q <= fw_forget_valid_i && !mine && !forget_ready_i;
      unique case (state_q)
        StIdle:   if (take_inv || take_op) state_q <= StPlace;
        StPlace:  state_q <= remote_q ? StBefore : StWindow;
        StBefore: state_q <= StDrain;
        StDrain:  if (!fence_busy_i) state_q <= StWindow;
        StWindow: begin
          if (!known) state_q <= StTell;
          else if (req_ready_i) state_q <= bind_q ? StRegion : StRows;
        end
        StRegion: if (!known || req_ready_i) state_q <= StRows;  // an unbinding names no region
        StRows:   if (asked_q == '0) state_q <= StCompare;
        StCompare: state_q <= StJudge;
        StJudge:   state_q <= StCheck;
        StCheck:  state_q <= (ok && !bad_q) ? StWrite : StTell;
        StWrite:  if (wr_ready_i) state_q <= StForget;
        StForget: if (mine && forget_ready_i && last_line) state_q <= was_bound ? StAfter : StTell;
        StAfter:  state_q <= StEmpty;
        StEmpty:  if (!fence_busy_i) state_q <= StTell;
        default:  if (msg_ready_i) state_q <= StIdle;  // StTell
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      StIdle: begin
        if (take_inv || take_op) begin
          turn_q   <= take_op;
          remote_q <= take_inv;
          bind_q   <= take_op && op_i.bind_mw;
          reg_q    <= take_op && op_i.reg_mr;
          op_q     <= op_i;
        end
        if (take_inv) begin
          op_q      <= '0;
          op_q.func <= inv.func;
          op_q.pd   <= inv.pd;
          op_q.qpn  <= inv.qpn;
          op_q.key  <= inv.key;
        end
        ok_q     <= 1'b0;
        bad_q    <= 1'b0;
        got_q    <= 1'b0;
        region_q <= '0;
      end
      StPlace: begin
        place_q <= place;
        for (int unsigned b = 0; b < MrW; b++) beyond_q[b] <= 32'(place.log_size) <= b;
      end
      StCheck: begin
        ok_q  <= ok && !bad_q;
        row_q <= row;
        line_q <= '0;
      end
      StForget: if (mine && forget_ready_i) line_q <= line_q + 29'd1;
      default: ;
    endcase
    if (rsp_valid_i) begin
      got_q <= 1'b1;
      bad_q <= bad_q || rsp_i.err;
      if (got_q) region_q <= rsp_i.data[$bits(mpt_t)-1:0];
      else window_q <= rsp_i.data[$bits(mpt_t)-1:0];
    end
  end

  logic unused_in;
  assign unused_in = ^{inv_room, rsp_i, place_q};

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!inv_valid_i || inv_room) else $error("hca_mw: two invalidations of a QP");
  end
`endif

endmodule
