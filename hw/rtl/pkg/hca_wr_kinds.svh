// Part of hca_pkg: what kinds of work requests there are, by their opcode.

  // An atomic with masks.
  function automatic logic is_masked(logic [7:0] wr_opcode);
    return wr_opcode == WrOpMaskedAtomicCmpAndSwp || wr_opcode == WrOpMaskedAtomicFetchAndAdd;
  endfunction

  function automatic logic is_atomic(logic [7:0] wr_opcode);
    return wr_opcode == WrOpAtomicCmpAndSwp || wr_opcode == WrOpAtomicFetchAndAdd || is_masked(wr_opcode);
  endfunction

  // The peer answers with a READ response, or with a value: it counts as one of max_rd_atomic.
  function automatic logic is_answered(logic [7:0] wr_opcode);
    return wr_opcode inside {WrOpRdmaRead, WrOpAtomicWrite, WrOpFlush} || is_atomic(wr_opcode);
  endfunction

  // A send WQE takes a receive WQE of the peer.
  function automatic logic takes_receive(logic [7:0] wr_opcode);
    return wr_opcode inside {WrOpSend, WrOpSendWithImm, WrOpSendWithInv, WrOpRdmaWriteWithImm};
  endfunction

  // Carried out by hca_mw: no packet goes out.
  function automatic logic is_local(logic [7:0] wr_opcode);
    return wr_opcode inside {WrOpBindMw, WrOpLocalInv, WrOpRegMr};
  endfunction
