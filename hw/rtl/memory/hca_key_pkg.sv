// What the check of a memory key finds, a bit for each rule, and which of them is told.
package hca_key_pkg;

  import hca_pkg::*;

  typedef struct packed {
    logic lost;     // the row could not be read
    logic key;      // no such key, stale tag, other function or QP
    logic size;     // of its pages: none that there is
    logic pd;
    logic right;
    logic bounds;
  } key_faults_t;

  // What the longest sums are of: found with the row, a cycle before them.
  typedef struct packed {
    logic paged;      // the sum says where in the list's pages, not which address of the bus
    logic no_origin;  // the region counts from 0 on
    logic no_place;   // wherever va is, a FLUSH reads the first byte
    logic low_place;  // null: every address is inside, that in the smallest page counts
  } key_use_t;

  function automatic key_use_t use_of(input access_e access, input mpt_t row);
    logic flush, unused_rest;
    unused_rest = ^row;
    flush       = access inside {AccFlush, AccFlushAll};
    // What has the upper bit is refused unless it says that there are no pages: where va lies hangs on this one bit.
    return '{paged: !row.page_shift[5] && !row.is_null, no_origin: flush || row.is_null || row.zero_based,
             no_place: flush && !row.is_null, low_place: row.is_null};
  endfunction

  // Where it lies is said by the longest sums: what they make of each other is left for a stage later.
  typedef struct packed {
    key_faults_t sure;      // but for bounds
    logic        anywhere;  // there are none
    logic        in_front;  // it begins in front of its region
    logic        carry;     // of the lower half of the sum that says whether it
    logic [1:0]  behind;    // ends behind it, for either carry
    logic        list_carry;
    logic [1:0]  list;      // its page list, if it has one, would begin behind the end of all numbers
  } key_found_t;

  function automatic key_faults_t faults_of(input key_found_t found, input logic paged);
    key_faults_t faults;
    faults        = found.sure;
    faults.bounds = (!found.anywhere && (found.in_front || found.behind[found.carry]))
                    || (found.list[found.list_carry] && paged);
    return faults;
  endfunction

  // In this order.
  function automatic xl_err_e verdict_of(input key_faults_t faults);
    if (faults.lost) return XlDma;
    if (faults.key || faults.size) return XlKey;
    if (faults.pd) return XlPd;
    if (faults.right) return XlAccess;
    if (faults.bounds) return XlBounds;
    return XlOk;
  endfunction

endpackage
