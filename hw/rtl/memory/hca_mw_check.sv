// The rules of binding and invalidating: may this QP do so with the rows that were read, and what is the window's row
// from then on? An unbound window has a row that is not valid. Answers two cycles after its inputs, which stay: one to
// compare, one to judge.
module hca_mw_check
  import hca_pkg::*;
(
  input  logic        clk_i,
  input  logic        bind_i,       // BIND_MW; else its key is to be invalid
  input  mw_op_t      op_i,
  input  mpt_t        window_i,     // the row of op_i.key
  input  mpt_t        region_i,     // bind: the row of op_i.wqe.lkey
  output logic        ok_o,
  output logic        was_bound_o,  // its key was good: somebody may be using it
  output mpt_t        row_o
);

  localparam int unsigned LocalWriteBit = 0, RemoteWriteBit = 1, RemoteReadBit = 2, RemoteAtomicBit = 3,
                          MwBindBit = 4, ZeroBasedBit = 5;

  logic        own_q, key_q, kind_q, region_own_q, rights_ok_q, range_ok, unbinds, writes;
  logic [63:0] offset_q;
  logic        before_q;      // it begins before the region
  logic        empty_q;       // it has no bytes
  logic [64:0] range_end;
  logic [5:0]  access;
  mpt_t        bound;

  assign access      = op_i.wqe.access;
  assign was_bound_o = window_i.valid;
  assign writes      = access[RemoteWriteBit] || access[RemoteAtomicBit];
  assign unbinds     = empty_q && !op_i.wqe.is_type_2;
  assign range_end   = 65'(offset_q) + 65'(op_i.wqe.length);
  assign range_ok    = !before_q && range_end <= 65'(region_i.length);

  always_ff @(posedge clk_i) begin
    own_q  <= window_i.is_window && window_i.func == op_i.func && window_i.pd == op_i.pd;
    // KEY-30, type 2B: only who has bound it, and only by the key that it has now.
    key_q  <= window_i.valid && window_i.is_type_2 && window_i.tag == op_i.key[7:0] && window_i.qpn == op_i.qpn;
    kind_q <= op_i.wqe.is_type_2 == window_i.is_type_2 && !(window_i.is_type_2 && window_i.valid);
    // MEM-14.
    rights_ok_q  <= !access[LocalWriteBit] && !access[MwBindBit] && region_i.mw_bind
                    && (!writes || region_i.local_write);
    region_own_q <= region_i.valid && !region_i.is_window && region_i.func == op_i.func && region_i.pd == op_i.pd
                    && region_i.tag == op_i.wqe.lkey[7:0];
    empty_q      <= op_i.wqe.length == '0;
    {before_q, offset_q} <= 65'(op_i.va) - 65'(region_i.start);
    // A binding of no bytes is none, and needs no region (V-137).
    ok_o <= own_q && (bind_i ? kind_q && (unbinds || (!empty_q && region_own_q && rights_ok_q && range_ok)) : key_q);
  end

  always_comb begin
    bound               = region_i;
    bound.valid         = !unbinds;
    bound.is_window     = 1'b1;
    bound.is_type_2     = op_i.wqe.is_type_2;
    bound.local_write   = 1'b0;
    bound.remote_write  = access[RemoteWriteBit];
    bound.remote_read   = access[RemoteReadBit];
    bound.remote_atomic = access[RemoteAtomicBit];
    bound.mw_bind       = 1'b0;
    bound.zero_based    = access[ZeroBasedBit];
    bound.tag           = op_i.key[7:0];
    bound.func          = op_i.func;
    bound.pd            = op_i.pd;
    bound.qpn           = op_i.qpn;
    bound.region        = op_i.wqe.lkey[8 +: MrW];
    bound.start         = op_i.va;
    bound.length        = op_i.wqe.length;
    bound.list_offset   = region_i.list_offset + offset_q;
    if (region_i.page_shift == 6'(DirectPageShift)) bound.iova = region_i.iova + offset_q;
    row_o = bind_i ? bound : window_i;
    if (!bind_i) row_o.valid = 1'b0;
  end

  logic unused_bits;
  assign unused_bits = ^{op_i, window_i, region_i, access};

endmodule
