// Part of hca_pkg: pieces of memory, keys, and what becomes of them.

  typedef enum logic [2:0] {
    AccLocalRead    = 3'd0,
    AccLocalWrite   = 3'd1,
    AccRemoteWrite  = 3'd2,
    AccRemoteRead   = 3'd3,
    AccRemoteAtomic = 3'd4,
    AccFlush        = 3'd6,  // FLUSH of chk_bytes from va on: the piece itself is the first byte of the region
    AccFlushAll     = 3'd7   // FLUSH of the region, whatever va and chk_bytes are
  } access_e;

  // One contiguous piece of virtual memory under one key.
  typedef struct packed {
    logic        bypass;     // 1: va is a bus address of the function, no key (rings, inline data)
    access_e     access;
    logic [7:0]  func;
    logic [23:0] pd;
    logic [23:0] qpn;        // on whose behalf: a window of type 2 is one QP's
    logic [31:0] key;
    logic [63:0] va;
    logic [12:0] len_bytes;  // bytes to move, 0..4096, of a frame up to MaxKept; 0: check only, moves nothing
    logic [31:0] chk_bytes;  // range that must be inside the region, from va (>= len_bytes)
    logic        last;       // last piece of this packet
  } seg_t;

  // Where the rows of a function's keys are.
  typedef struct packed {
    logic        valid;
    logic [4:0]  log_size;
    logic [63:6] base;
  } key_place_t;

  // What is kept of host memory for keys is forgotten: hca_key_table to hca_xlate.
  typedef struct packed {
    logic            all;    // of the index's function, every key and page list
    logic            pages;  // of this key's page list, too
    logic            one;    // but only this line of it
    logic [28:0]     line;
    logic [KeyW-1:0] index;
  } key_forget_t;

  // What a send queue asks of hca_mw: BIND_MW, REG_MR or LOCAL_INV, with the WQE's fields.
  typedef struct packed {
    logic        bind_mw;
    logic        reg_mr;     // neither: invalidate key
    logic [7:0]  func;
    logic [23:0] pd;
    logic [23:0] qpn;
    wqe_idx_t    wqe_index;
    logic [31:0] key;        // of the window or region; a bind, a registration: from now on
    logic [63:0] va;
    sq_wqe_bind_t wqe;
  } mw_op_t;

  // A SEND with invalidate has come: hca_rx_ctrl to hca_mw.
  typedef struct packed {
    logic [7:0]  func;
    logic [23:0] pd;
    logic [23:0] qpn;
    logic [31:0] key;
  } mw_inv_t;

  typedef enum logic [2:0] {
    XlOk     = 3'd0,
    XlKey    = 3'd1,  // no such key, stale tag, other function
    XlPd     = 3'd2,
    XlBounds = 3'd3,
    XlAccess = 3'd4,
    XlDma    = 3'd5   // host answered the read with an error
  } xl_err_e;

  // A translated piece: one bus range inside one chunk boundary.
  typedef struct packed {
    xl_err_e     err;        // != XlOk: addr void; exactly one such chunk per piece that failed
    logic        discards;   // a null region: what is written there is forgotten
    logic        seg_last;   // last chunk of its segment
    logic        pkt_last;   // last chunk of the packet (segment had last = 1)
    logic        has_bytes;  // len_bytes is not 0
    logic [7:0]  func;
    logic [63:0] addr;
    logic [12:0] len_bytes;  // 0 for a zero-length or failed segment
    logic [11:0] end_at;     // of its last byte, from the beginning of its first beat on; void if it has none
  } chunk_t;
