// Reads the length of a packet from its IP header or LRH, clips the beats to it (Ethernet padding and what
// else follows has len_bytes 0) and compares it with the bytes that came. One register stage, never stalls.
// A packet that claims more than this card takes is clipped to nothing and marked bad.
module hca_rx_l3
  import hca_pkg::*;
  import hca_wire_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       ib_i,
  input  logic       in_valid_i,
  input  logic       in_first_i,
  input  logic [PortW-1:0] in_port_i,
  input  logic       in_last_i,
  input  logic       in_bad_i,        // with first
  input  logic       in_long_i,       // with first: IPv6, or GRH present
  input  logic       in_raw_i,        // with first: a whole frame, as long as what came
  input  logic [6:0] in_len_bytes_i,
  input  beat_t      in_data_i,
  input  logic       in_keep_i,       // with first: the frame is wanted, which is beside the packet
  input  rx_frame_t  in_frame_i,
  output logic       out_valid_o,
  output rx_beat_t   out_o,
  output logic [12:0] out_l3_len_o,   // bytes of the packet up to and with the ICRC, of the newest packet
  output rx_kept_t   out_kept_o,      // the newest packet's frame, with its last beat: its length
  output logic       out_store_o,     // the beat is worth storing: of the packet, or of its frame
  output beat_t      out_store_data_o
);

  // 48 bytes up to the BTH, BTH, the longest extended headers, payload, ICRC.
  localparam logic [15:0] MaxLen  = 16'(48 + BthBytes + AtomicEthBytes + MaxPayload + IcrcLen);
  localparam logic [15:0] MaxFrame = 16'(MaxPayload + MaxEthHeaderBytes);
  localparam logic [15:0] SumSize = 16'h8000;  // lengths that big stay that big: no wrap-around

  localparam int unsigned LenW = 13;           // of a length that is not too long
  localparam int unsigned DueW = LenW + 2;     // of what is to come of it, negative behind its end

  typedef logic signed [DueW-1:0] due_t;

  logic            out_valid_q;
  rx_beat_t        out_q;
  logic [LenW-1:0] len_q;
  due_t            due_q;      // the length that counts, less the bytes that came
  logic            some_q;     // some of the packet is to come, and it is not bad
  logic [15:0]     total_q;
  logic            bad_q;
  l3_e             l3_q;

  // ---- A first beat: what each kind of packet claims, side by side: which kind it is, is known late --------------
  typedef struct packed {
    logic            bad;    // no packet, or one too long
    logic            some;   // it claims bytes
    logic            fits;   // all of them are in this beat, if it is not bad
    logic [LenW-1:0] len;
  } claim_t;

  claim_t      ipv4, ipv6, local_ib, claim;
  logic [15:0] ip4_len, ip6_len;   // as the headers say it: the one of IPv6 does not count itself
  logic        first_right;        // a first beat that is the last one, too, has the length that it claims
  l3_e         l3;

  assign ip4_len = swap16(in_data_i[8*2 +: 16]);
  assign ip6_len = swap16(in_data_i[8*4 +: 16]);

  always_comb begin
    local_ib.len  = {in_data_i[8*4 +: 3], in_data_i[8*5 +: 8], 2'd0};
    local_ib.bad  = local_ib.len > LenW'(MaxLen);
    local_ib.some = local_ib.len != '0;
    local_ib.fits = local_ib.len <= LenW'(in_len_bytes_i);

    ipv4.len  = ip4_len[LenW-1:0];
    ipv4.bad  = in_data_i[7:0] != 8'h45 || ip4_len > MaxLen || ip4_len[1:0] != '0;   // version 4 without options
    ipv4.some = ipv4.len != '0;
    ipv4.fits = ipv4.len <= LenW'(in_len_bytes_i);

    ipv6.len  = ip6_len[LenW-1:0] + LenW'(Ipv6Bytes);   // what wraps around is too long
    ipv6.bad  = in_data_i[7:4] != 4'd6 || ip6_len > MaxLen - 16'(Ipv6Bytes) || ip6_len[1:0] != '0;
    ipv6.some = 1'b1;
    ipv6.fits = in_len_bytes_i >= 7'(Ipv6Bytes) && ip6_len[LenW-1:0] <= LenW'(in_len_bytes_i - 7'(Ipv6Bytes));
  end

  always_comb begin
    if (ib_i) begin
      l3          = in_long_i ? L3IbGlobal : L3IbLocal;
      claim       = local_ib;
      first_right = local_ib.len + LenW'(VcrcLen) == LenW'(in_len_bytes_i);
    end else if (in_raw_i) begin
      l3          = L3Raw;
      claim       = '{bad: 1'b0, some: 1'b1, fits: 1'b0, len: MaxFrame[LenW-1:0]};
      first_right = in_len_bytes_i >= 7'(MinEthHeaderBytes);
    end else begin
      l3          = in_long_i ? L3Ipv6 : L3Ipv4;
      claim       = in_long_i ? ipv6 : ipv4;
      first_right = claim.fits;
    end
  end

  // ---- Any beat: how much of it is the packet's ------------------------------------------------------------------
  logic       bad, raw, fits, some, ends_here, is_over;   // is_over: it is so late that more of it changes nothing
  logic [6:0] clipped, left;                              // left: of the length, if that is in this beat
  due_t       due, due_before;
  logic       later_fits;

  assign later_fits = due_q <= due_t'({1'b0, in_len_bytes_i});
  assign bad        = in_first_i ? in_bad_i || claim.bad : bad_q;
  assign some       = in_first_i ? claim.some && !claim.bad && !in_bad_i : some_q;
  assign fits       = in_first_i ? claim.fits : later_fits;
  assign left       = in_first_i ? claim.len[6:0] : due_q[6:0];
  assign ends_here  = some && fits;
  assign clipped    = (fits ? left : in_len_bytes_i) & {7{some}};
  assign is_over    = due_q[DueW-1 -: 2] == 2'b10;
  assign due_before = in_first_i ? due_t'({1'b0, claim.len}) : due_q;
  assign due        = due_before - ((is_over && !in_first_i) ? '0 : due_t'({1'b0, in_len_bytes_i}));

  // ---- Whether what came is as long as the packet says -----------------------------------------------------------
  logic [15:0]     total, so_far;
  logic [LenW-1:0] packet_len;
  logic            later_right;

  assign raw         = in_first_i ? in_raw_i && !ib_i : l3_q == L3Raw;
  assign so_far      = in_first_i ? 16'd0 : total_q;
  assign total       = so_far + ((so_far >= SumSize) ? 16'd0 : 16'(in_len_bytes_i));
  assign packet_len  = raw ? total[LenW-1:0] : in_first_i ? claim.len : len_q;

  always_comb begin
    if (l3_q == L3Raw) later_right = due_q >= due_t'({1'b0, in_len_bytes_i}) && total >= 16'(MinEthHeaderBytes);
    else if (ib_i) later_right = due_q == due_t'({1'b0, in_len_bytes_i}) - due_t'(VcrcLen);
    else later_right = later_fits;
  end

  // The frame beside the packet. What is longer than a link carries is stored no further, and not kept.
  rx_kept_t    kept, kept_q;
  logic [15:0] frame_so_far, frame_total_q;
  logic        store_q;
  beat_t       store_data_q;

  assign frame_so_far = in_first_i ? 16'd0 : frame_total_q;

  always_comb begin
    kept.keep  = in_first_i ? in_keep_i && !ib_i : kept_q.keep;
    kept.lead  = in_first_i ? in_frame_i.lead : kept_q.lead;
    kept.fits  = frame_so_far + 16'(in_frame_i.len_bytes) <= 16'(MaxKept);
    kept.bytes = frame_so_far[12:0] + 13'(in_frame_i.len_bytes);
  end

  always_ff @(posedge clk_i) begin
    if (in_valid_i) begin
      kept_q        <= kept;
      frame_total_q <= (frame_so_far >= SumSize) ? frame_so_far : frame_so_far + 16'(in_frame_i.len_bytes);
      store_q       <= kept.keep ? frame_so_far < 16'(MaxKept) : some && in_len_bytes_i != '0;
      store_data_q  <= kept.keep ? in_frame_i.data : in_data_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) out_valid_q <= 1'b0;
    else out_valid_q <= in_valid_i;
  end

  always_ff @(posedge clk_i) begin
    if (in_valid_i) begin
      len_q           <= packet_len;
      due_q           <= due;
      some_q          <= some && !fits;
      total_q         <= total;
      bad_q           <= bad;
      if (in_first_i) l3_q <= l3;
      out_q.first     <= in_first_i;
      out_q.last      <= in_last_i;
      out_q.data_end  <= ends_here || (raw && in_last_i);
      out_q.bad       <= bad || !(in_first_i ? first_right : later_right);
      out_q.l3        <= in_first_i ? l3 : l3_q;
      out_q.port      <= in_port_i;
      out_q.len_bytes <= clipped;
      out_q.raw_bytes <= in_len_bytes_i;
      out_q.data      <= in_data_i;
    end
  end

  assign out_valid_o  = out_valid_q;
  assign out_o        = out_q;
  assign out_l3_len_o = len_q;
  assign out_kept_o   = kept_q;
  assign out_store_o  = store_q;
  assign out_store_data_o = store_data_q;

endmodule
