// Part of hca_rx_pkg: what hca_atomic is asked, and what it answers.

  // Low bits of a FETH: the others are reserved.
  typedef struct packed {
    logic [1:0] sel;        // selectivity level: 0 a range, 1 the region
    logic [3:0] plt;        // placement type: bit 0 global visibility, bit 1 persistence
  } feth_low_t;

  typedef struct packed {
    logic [63:0] swap;      // bits that are swapped in
    logic [63:0] compare;   // bits that must be equal
  } at_masks_t;

  typedef struct packed {
    logic [7:0]  func;
    logic [63:3] addr;      // bus address
    logic        cas;       // compare and swap, not fetch and add
    logic        stores;    // swap_add, whatever is there; with cas: FLUSH, nothing is stored
    logic [63:0] swap_add;
    logic [63:0] compare;   // fetch and add: the most significant bit of each field, no carry leaves it
    at_masks_t   masks;     // of a compare and swap
  } at_op_t;

  typedef struct packed {
    logic        err;       // memory could not be read: nothing was done
    logic [63:0] value;     // the original one
  } at_result_t;

  // Of a block of 256 bytes: each bit is the parity of five or six of its address.
  typedef logic [9:0] at_digest_t;

  function automatic at_digest_t at_digest_of(logic [63:8] block);
    at_digest_t digest;
    digest = '0;
    for (int unsigned b = 8; b < 64; b++) digest[(b - 8) % $bits(at_digest_t)] ^= block[b];
    return digest;
  endfunction

  // An atomic has no completion here: where others have theirs, the masks of a compare and swap stand.
  function automatic at_masks_t at_masks_of(cqe_job_t job);
    logic unused_bits;
    unused_bits = ^job;
    return job.wc[$bits(at_masks_t)-1:0];
  endfunction
