// What may be wrong with the use of a memory key, a bit for each rule, and which of them is told.
package hca_key_pkg;

  import hca_pkg::*;

  typedef struct packed {
    logic lost;     // the row could not be read
    logic key;      // no such key, stale tag, other function or QP
    logic size;     // of its pages: none that there is
    logic pd;
    logic right;
    logic bounds;
    logic list;     // its page list, if it has one, would begin behind the end of all numbers
  } key_faults_t;

  // In this order.
  function automatic xl_err_e verdict_of(input key_faults_t faults);
    if (faults.lost) return XlDma;
    if (faults.key || faults.size) return XlKey;
    if (faults.pd) return XlPd;
    if (faults.right) return XlAccess;
    if (faults.bounds || faults.list) return XlBounds;
    return XlOk;
  endfunction

endpackage
