// Wire formats shared by the header builder and the parser: which extended headers follow a BTH, which bits
// the ICRC does not cover, byte order. Byte vectors: byte 0, first on the wire, is bits 7:0.
package hca_wire_pkg;

  import hca_pkg::*;

  // What stands in front of the BTH.
  typedef enum logic [2:0] {
    L3Ipv4     = 3'd0,  // IPv4 + UDP: 28 bytes
    L3Ipv6     = 3'd1,  // IPv6 + UDP: 48 bytes
    L3IbLocal  = 3'd2,  // LRH: 8 bytes
    L3IbGlobal = 3'd3,  // LRH + GRH: 48 bytes
    L3Raw      = 3'd4   // nothing, and no BTH: a whole Ethernet frame, as its process made it
  } l3_e;

  localparam int unsigned HdrBytes   = 92;    // longest headers that this card sends
  localparam int unsigned MaxPayload = 4096;

  // Where LLDP goes: 01:80:c2:00:00:0e, the other end of the cable (IEEE 802.1AB 7.1).
  localparam logic [47:0] LldpMac = 48'h0e00_00c2_8001;

  // CRC registers are reflected and not inverted. RoCEv2: eight bytes of ones have gone in already.
  localparam logic [31:0] IcrcInitRoce = 32'hdebb_20e3;
  localparam logic [31:0] IcrcInitIb   = 32'hffff_ffff;
  localparam logic [31:0] IcrcResidue  = 32'hdebb_20e3;  // register after a packet and its good ICRC
  localparam logic [15:0] VcrcInit     = 16'hffff;
  localparam logic [15:0] VcrcResidue  = 16'h556f;

  // Headers of one packet to send, from the IP header or LRH on, and the link facts of its Ethernet frame.
  typedef struct packed {
    logic [PortW-1:0]      port;
    l3_e                   l3;
    logic                  csum;        // of a frame: its checksums are to be filled in
    tx_round_t             round;
    logic                  has_payload;
    logic [6:0]            len_bytes;
    logic [8*HdrBytes-1:0] bytes;
  } tx_hdr_t;

  // What the Ethernet header of a packet is made of; a frame has its own.
  typedef struct packed {
    logic        ipv4;
    logic [47:0] dmac;   // dmac[7:0] is the first byte on the wire
  } tx_eth_t;

  // 64-byte stream inside the wire blocks. len_bytes: 64 unless last (receive: clipped to the packet).
  typedef struct packed {
    logic [PortW-1:0] port;
    l3_e        l3;
    logic       csum;   // with the first beat
    tx_round_t  round;
    logic       last;
    logic [6:0] len_bytes;
    beat_t      data;
  } tx_beat_t;

  // A beat of a packet's frame, as it came.
  typedef struct packed {
    logic [4:0] lead;       // bytes of the Ethernet header
    logic [6:0] len_bytes;
    beat_t      data;
  } rx_frame_t;

  // What the buffer has of a packet.
  typedef struct packed {
    logic        keep;      // its whole frame
    logic        fits;      // which is not too long
    logic [4:0]  lead;      // bytes of the frame before the packet
    logic [12:0] bytes;     // of the frame
  } rx_kept_t;

  // Received beat. A packet may have beats past its end (Ethernet padding): their len_bytes is 0.
  typedef struct packed {
    logic       first;
    logic       last;
    logic       data_end;   // the last byte of the packet proper is in this beat
    logic       bad;        // read with last: length or link header wrong
    l3_e        l3;
    logic [PortW-1:0] port; // through which it came
    logic [6:0] len_bytes;  // bytes of the packet proper, up to and with the ICRC
    logic [6:0] raw_bytes;  // bytes on the wire
    beat_t      data;
  } rx_beat_t;

  // What hca_frame_sums finds in a frame.
  typedef struct packed {
    logic        is_ip;     // an IPv4 header without options, whole
    logic        is_l4;     // TCP or UDP behind it, no fragment, whole
    logic        is_udp;
    logic        vlan;      // a VLAN tag before it
    logic        no_csum;   // UDP with the checksum 0: there is none
    logic [15:0] ip;        // sums, in the byte order of numbers
    logic [15:0] l4;
  } frame_sums_t;

  // Extended headers of an opcode, in the order of the wire: DETH, XRCETH, FETH, RETH, AETH, atomics, ImmDt or IETH.
  // The 8 bytes of an ATOMIC WRITE, which have one length and one place, leave as a header; at the receiver they are
  // payload.
  typedef struct packed {
    logic deth;
    logic xrc;
    logic feth;
    logic reth;
    logic data8;  // of an ATOMIC WRITE
    logic aeth;
    logic atomic;
    logic atomic_ack;
    logic imm;   // ImmDt or IETH
    logic cnp;   // the 16 reserved bytes of a CNP, all zero
  } ext_t;

  // Those that packets of this card may have. (A peer's may have others, and are refused by their opcode.)
  function automatic ext_t ext_built(ext_t ext);
    ext_built = ext;
    if (!hca_features_pkg::HasAtomic) {ext_built.feth, ext_built.data8, ext_built.atomic, ext_built.atomic_ack} = '0;
    if (!hca_features_pkg::HasSrq) ext_built.xrc = 1'b0;
  endfunction

  function automatic ext_t ext_of(logic [7:0] opcode);
    ext_t ext;
    ext = '0;
    if (opcode[7:6] == 2'd0 || opcode[7:5] == 3'(ServiceXrc)) begin  // RC, UC, XRC
      ext.xrc = opcode[7] && (opcode[4:0] < 5'h0d || opcode[4:0] > 5'h12);  // requests
      case (opcode[4:0])
        5'h03, 5'h05, 5'h09, 5'h16, 5'h17: ext.imm = 1'b1;
        5'h06, 5'h0a, 5'h0c:               ext.reth = 1'b1;
        5'h0b: begin
          ext.reth = 1'b1;
          ext.imm  = 1'b1;
        end
        5'h0d, 5'h0f, 5'h10, 5'h11: ext.aeth = 1'b1;
        5'h12: begin
          ext.aeth       = 1'b1;
          ext.atomic_ack = 1'b1;
        end
        5'h13, 5'h14: ext.atomic = 1'b1;
        5'h1c: begin
          ext.feth = 1'b1;
          ext.reth = 1'b1;
        end
        5'h1d: begin
          ext.reth  = 1'b1;
          ext.data8 = 1'b1;
        end
        default: ;
      endcase
    end else if (opcode[7:1] == 7'h32) begin  // UD SEND only
      ext.deth = 1'b1;
      ext.imm  = opcode[0];
    end else begin
      ext.cnp = opcode == 8'(BthCnp);
    end
    return ext;
  endfunction

  // Masked atomics are of the manufacturer's range: the opcode of the one without masks, with ones in front. Bit 5
  // tells XRC from RC in both.
  function automatic logic opcode_masked(logic [7:0] opcode);
    logic unused_bit;
    unused_bit = opcode[5];
    return opcode[7:6] == 2'b11 && (opcode[4:0] == BthRcCmpSwap[4:0] || opcode[4:0] == BthRcFetchAdd[4:0]);
  endfunction

  function automatic logic [7:0] without_masks(logic [7:0] opcode);
    return opcode_masked(opcode) ? {opcode[5], 1'b0, opcode[5:0]} : opcode;
  endfunction

  function automatic logic [7:0] with_masks(logic [7:0] opcode, logic masked);
    return masked ? {2'b11, opcode[5:0]} : opcode;
  endfunction

  // Opcodes whose headers this card can parse.
  function automatic logic opcode_known(logic [7:0] opcode);
    if (opcode_masked(opcode)) return 1'b1;
    case (opcode[7:5])
      3'd0, 3'd5: return (opcode[4:0] <= 5'h17 && opcode[4:0] != 5'h15) || opcode[4:0] inside {5'h1c, 5'h1d};
      3'd1:    return opcode[4:0] <= 5'h0b;
      3'd3:    return opcode[4:1] == 4'h2;
      3'd4:    return opcode == 8'(BthCnp);
      default: return 1'b0;
    endcase
  endfunction

  // Words of the headers behind the BTH, and some more. All but XRCETH have bits of their own in their number of words
  // where they come together: no sum.
  function automatic logic [4:0] ext_words(ext_t ext, logic [4:0] more);
    logic [3:0] words;
    words[0]   = ext.imm || ext.aeth || ext.atomic || ext.feth;
    words[1]   = ext.deth || ext.atomic_ack || ext.data8 || ext.atomic;
    words[2]   = ext.reth || ext.cnp || ext.atomic;
    words[3]   = ext.xrc;
    ext_words  = '0;
    for (int unsigned n = 0; n < 16; n++) begin
      if (words == 4'(n)) ext_words |= 5'(n[2:0]) + 5'(n[3]) + more;
    end
  endfunction

  function automatic logic [5:0] ext_bytes(ext_t ext);
    return 6'({ext_words(ext, 5'd0), 2'd0});
  endfunction

  function automatic logic l3_is_ib(l3_e l3);
    return l3 == L3IbLocal || l3 == L3IbGlobal;
  endfunction

  // Bytes in front of the BTH.
  function automatic logic [6:0] l3_bytes(l3_e l3);
    case (l3)
      L3Ipv4:    return 7'd28;
      L3IbLocal: return 7'd8;
      L3Raw:     return 7'd0;
      default:   return 7'd48;
    endcase
  endfunction

  // Bits of the first beat that count as ones in the ICRC (IBA vol1 7.8.1, annex A17.3.3).
  function automatic beat_t icrc_ones(l3_e l3);
    beat_t m;
    m = '0;
    case (l3)
      L3Ipv4: begin
        m[8*1 +: 8]   = '1;    // type of service
        m[8*8 +: 8]   = '1;    // time to live
        m[8*10 +: 16] = '1;    // header checksum
        m[8*26 +: 16] = '1;    // UDP checksum
        m[8*32 +: 8]  = '1;    // BTH byte 4
      end
      L3Ipv6: begin
        m[0 +: 4]     = '1;    // traffic class, flow label
        m[8 +: 24]    = '1;
        m[8*7 +: 8]   = '1;    // hop limit
        m[8*46 +: 16] = '1;
        m[8*52 +: 8]  = '1;
      end
      L3IbLocal: begin
        m[4 +: 4]    = '1;     // VL
        m[8*12 +: 8] = '1;
      end
      default: begin
        m[0 +: 68]    = '1;    // LRH, traffic class, flow label
        m[8*9 +: 24]  = '1;
        m[8*15 +: 8]  = '1;
        m[8*52 +: 8]  = '1;
      end
    endcase
    return m;
  endfunction

  function automatic logic [15:0] swap16(logic [15:0] x);
    return {x[7:0], x[15:8]};
  endfunction

  function automatic logic [23:0] swap24(logic [23:0] x);
    return {x[7:0], x[15:8], x[23:16]};
  endfunction

  function automatic logic [31:0] swap32(logic [31:0] x);
    return {x[7:0], x[15:8], x[23:16], x[31:24]};
  endfunction

  function automatic logic [63:0] swap64(logic [63:0] x);
    return {swap32(x[31:0]), swap32(x[63:32])};
  endfunction

endpackage
