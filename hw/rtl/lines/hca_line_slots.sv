// QPs on their way into their lines, a ring of places: each has its context read from host memory. The doors of its
// line are shut when it gets its place, or a cycle later. A fence, begun when all doorbells from before are through
// their door, covers all places that there are at its start; behind it, and when they have been read, they are handed
// over, in order. A read that fails, or finds the context of another QP or function, makes a place dead.
module hca_line_slots
  import hca_pkg::*;
#(
  parameter int unsigned Slots = 64,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [63:8]      base_i,
  input  logic [4:0]       index_bits_i,
  // A further one: taken when its read is.
  input  logic             begin_valid_i,
  output logic             begin_ready_o,
  input  line_want_t       begin_i,
  output logic [SlotW-1:0] begin_slot_o,
  output logic             req_valid_o,
  input  logic             req_ready_i,
  output dma_rd_req_t      req_o,
  input  logic             rsp_valid_i,
  output logic             rsp_ready_o,
  input  dma_rd_rsp_t      rsp_i,
  // Doors and fence.
  input  logic             door_free_i,     // no doorbell is in its door, or the last one leaves
  output logic             fence_start_o,
  input  logic             fence_busy_i,
  // The next one that may have its line. Its context: a beat in the cycle after its number. With swap_ahead_i the one
  // behind it is looked at, and is there when this one has been taken.
  input  logic             swap_ahead_i,
  output logic             swap_valid_o,
  output logic [SlotW-1:0] swap_slot_o,
  output line_want_t       swap_o,
  output logic             swap_dead_o,
  input  logic [1:0]       swap_beat_i,
  output beat_t            swap_data_o,
  input  logic             swap_take_i
);

  localparam int unsigned W = $bits(line_want_t);

  typedef struct packed {
    logic        err;
    logic [7:0]  func;
    logic [23:0] qpn;
  } seen_t;

  typedef enum logic [2:0] {FnIdle, FnShut, FnJob, FnDoor, FnStart, FnWait} fence_e;

  logic [SlotW:0]   head_q, arrived_q, looked_q, mark_q, safe_q, swap_q, swap_next;
  logic [SlotW-1:0] swap_look;
  logic             full, begins, beat, last, first_q, err_q, there, aligned_q;
  logic [1:0]       beat_q;
  fence_e           fence_q;
  seen_t            seen, seen_new;
  qpc_t             head;
  logic [23:0]      index;
  qpc_t             second;
  logic [7:0]       func_q;
  logic [23:0]      qpn_q;
  logic             unused_head, unused_second;

  // ---- Reads ---------------------------------------------------------------------------------------
  assign full          = head_q == {!swap_q[SlotW], swap_q[SlotW-1:0]};
  assign index         = begin_i.qpn & ~({24{1'b1}} << index_bits_i);
  assign req_valid_o   = begin_valid_i && !full;
  assign req_o         = '{func: '0, addr: {base_i + 56'(index), 8'd0}, len_bytes: 10'd256};
  assign begin_ready_o = !full && req_ready_i;
  assign begins        = begin_valid_i && begin_ready_o;
  assign begin_slot_o  = head_q[SlotW-1:0];

  assign rsp_ready_o = 1'b1;   // every read has its place
  assign beat        = rsp_valid_i;
  assign last        = beat && rsp_i.last;
  assign head        = qpc_t'({(2048 - DataW)'(0), rsp_i.data});
  assign unused_head = ^head;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      first_q <= 1'b1;
      beat_q  <= '0;
      err_q   <= 1'b0;
    end else if (beat) begin
      first_q <= rsp_i.last;
      beat_q  <= rsp_i.last ? '0 : beat_q + 2'd1;
      err_q   <= !rsp_i.last && (err_q || rsp_i.err);
    end
    if (beat && first_q) func_q <= head.func;
    if (beat && beat_q == 2'd1) qpn_q <= second.qpn;
  end

  // The QPN is in the second beat.
  assign second        = qpc_t'({(2048 - 2 * DataW)'(0), rsp_i.data, DataW'(0)});
  assign unused_second = ^second;
  assign seen_new      = '{err: err_q || rsp_i.err || beat_q != 2'd3, func: func_q, qpn: qpn_q};

  hca_ram_1r1w #(.Width(DataW), .Depth(4 * Slots)) u_data (
    .clk_i, .we_i(beat), .waddr_i({arrived_q[SlotW-1:0], beat_q}), .wdata_i(rsp_i.data),
    .re_i(1'b1), .raddr_i({swap_q[SlotW-1:0], swap_beat_i}), .rdata_o(swap_data_o)
  );
  hca_ram_1r1w #(.Width($bits(seen_t)), .Depth(Slots)) u_seen (
    .clk_i, .we_i(last), .waddr_i(arrived_q[SlotW-1:0]), .wdata_i(seen_new),
    .re_i(1'b1), .raddr_i(swap_look), .rdata_o(seen)
  );
  hca_ram_1r1w #(.Width(W), .Depth(Slots)) u_wants (
    .clk_i, .we_i(begins), .waddr_i(head_q[SlotW-1:0]), .wdata_i(begin_i),
    .re_i(1'b1), .raddr_i(swap_look), .rdata_o(swap_o)
  );

  // ---- Places ----------------------------------------------------------------------------------------
  // Whether one is taken is known late: what is looked at does not wait for that.
  assign swap_next    = swap_q + 1'b1;
  assign swap_look    = swap_ahead_i ? swap_next[SlotW-1:0] : swap_q[SlotW-1:0];
  assign there        = safe_q != swap_q && looked_q != swap_q;
  assign swap_valid_o = there && aligned_q;
  assign swap_slot_o  = swap_q[SlotW-1:0];
  assign swap_dead_o  = seen.err || seen.qpn != swap_o.qpn
                        || (swap_o.kind inside {MissSq, MissRq} && seen.func != swap_o.func);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      {head_q, arrived_q, looked_q, swap_q} <= '0;
    end else begin
      if (begins) head_q <= head_q + 1'b1;
      if (last) arrived_q <= arrived_q + 1'b1;
      looked_q <= arrived_q;  // what was seen of it can be read a cycle later
      if (swap_take_i) swap_q <= swap_next;
    end
  end

  always_ff @(posedge clk_i) aligned_q <= swap_ahead_i == swap_take_i;

  // ---- Fence -----------------------------------------------------------------------------------------
  assign fence_start_o = fence_q == FnStart;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      fence_q <= FnIdle;
      mark_q  <= '0;
      safe_q  <= '0;
    end else begin
      unique case (fence_q)
        FnIdle: begin
          mark_q <= head_q;
          if (safe_q != head_q) fence_q <= FnShut;
        end
        FnShut:  fence_q <= FnJob;    // the doors are shut in the cycle before this one
        FnJob:   fence_q <= FnDoor;   // what hca_rx_ctrl had begun with then is on its way
        FnDoor:  if (door_free_i) fence_q <= FnStart;
        FnStart: fence_q <= FnWait;
        default: begin
          if (!fence_busy_i) begin
            fence_q <= FnIdle;
            safe_q  <= mark_q;
          end
        end
      endcase
    end
  end

  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) assert (!last || arrived_q != head_q) else $error("hca_line_slots: an answer of no read");
    if (!rst_i) assert (!swap_take_i || there) else $error("hca_line_slots: nothing to hand over");
  end
  `endif

endmodule
