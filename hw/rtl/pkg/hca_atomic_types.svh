// Part of hca_rx_pkg: what hca_atomic is asked, and what it answers.

  typedef struct packed {
    logic [7:0]  func;
    logic [63:3] addr;      // bus address
    logic        cas;       // compare and swap, not fetch and add
    logic        stores;    // swap_add, whatever is there
    logic [63:0] swap_add;
    logic [63:0] compare;
  } at_op_t;

  typedef struct packed {
    logic        err;       // memory could not be read: nothing was done
    logic [63:0] value;     // the original one
  } at_result_t;
