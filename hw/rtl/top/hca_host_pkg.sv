// Who reads and writes host memory: indices of the clients of hca_host.
package hca_host_pkg;

  import hca_pkg::*;
  import hca_features_pkg::*;

  localparam int unsigned RdSq = 0, RdList = 1, RdGather = 2, RdMgmt = 3, RdLines = 4, RdSrq = 8, RdAtomic = 9,
                          NumRd = 10;
  localparam int unsigned NumRdLines = RdSrq - RdLines;
  localparam int unsigned WrExec = 0, WrCq = 1, WrEq = 2, WrMgmt = 3, WrAtomic = 4, WrMw = 5, WrLines = 6, NumWr = 7;

  // Those that this card has (hca_features_pkg).
  localparam logic [NumRd-1:0] HasRd = ~(NumRd'(!HasSrq) << RdSrq | NumRd'(!HasAtomic) << RdAtomic);
  localparam logic [NumWr-1:0] HasWr = ~(NumWr'(!HasAtomic) << WrAtomic | NumWr'(!HasKeyWr) << WrMw
                                            | NumWr'(!HasContextMemory) << WrLines);

  // Reads under way, and the part of the card that each reader up to RdLines belongs to.
  localparam int unsigned RdTags [NumRd] = '{RdTagsMany, RdTagsMany, 64, 2, 8, 8, 8, 8, 8, 16};
  localparam part_e RdPart [RdLines+1] = '{PartRdSq, PartRdList, PartGather, PartRdMgmt, PartRdLines};

endpackage
