  // Pools, and what is fetched ahead. A small card (HCA_SMALL_POOLS) has what one wire needs at a time: block RAM for
  // what many QPs may ask for together is most of what the others spend on it (docs/memory.md).
`ifdef HCA_SMALL_POOLS
  localparam bit SmallPools = 1'b1;
`else
  localparam bit SmallPools = 1'b0;
`endif

  // Outstanding (unacknowledged) send WQEs of one QP at most. Their rows come in blocks, from a pool for all QPs: a
  // block for each QP, and further rows beside them.
  localparam int unsigned MaxOutstanding  = 256;
  localparam int unsigned MsgBlockRows    = (SmallPools || NumQps > 4096) ? 4 : 8;
  localparam int unsigned MsgRowW         = $clog2(MsgBlockRows);
`ifdef HCA_MSG_ROWS
  localparam int unsigned MsgRows         = `HCA_MSG_ROWS;   // a proof has few
`else
  localparam int unsigned MsgRows         = SmallPools ? 4096 : 8192;
`endif
  localparam int unsigned MsgBlocks       = NumQps + MsgRows / MsgBlockRows;
  localparam int unsigned MsgBlkW         = $clog2(MsgBlocks);
  // WQEs fetched ahead for each QP whose turn it may be, in blocks of 64 bytes. One QP sends no more than that while
  // the host is asked once: in 500 ns 64 are more than it can, 32 would be some 55 million a second.
  localparam int unsigned SendSlotBlocks  = SmallPools ? 32 : 64;
  // Reads of WQEs under way, and of lists of scatter entries and pages: each has several of them.
  localparam int unsigned RdTagsMany      = SmallPools ? 32 : 64;
  // Packets a QP may have in flight before the requester waits for an acknowledge.
  localparam int unsigned WindowPackets   = 2048;
  localparam int unsigned MaxDestRdAtomic = 16;
  // Jobs of READs and atomics: one for each QP at least, and a pool beside them. 16,384 are all that 1,022 QPs may be
  // asked for at once; 64 QPs are asked for 1,024.
  localparam int unsigned JobPool   = SmallPools ? 1024 : (NumQps > 4096) ? 8192 : 16384;
  localparam int unsigned JobPlaces = NumQps + JobPool;
  localparam int unsigned JobPlaceW = $clog2(JobPlaces);
  // QPs whose atomics' results are kept. Who comes beyond them takes the place of the one that has its longest.
  localparam int unsigned AtomicBlocks = (NumQps < 2048) ? NumQps : 2048;
  // Events of QPs to firmware: two of each QP never wait.
  localparam int unsigned EventRows = ((SmallPools || NumQps >= 4096) ? 2 : 4) * NumQps;
