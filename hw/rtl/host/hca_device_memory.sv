// Device memory (MEM-19): DmBytes of the card's RAM, at bus addresses whose upper 16 bits are DmBusHigh. Sits where
// reads and writes leave for the host, and takes those for itself, so whoever can name host memory (page lists, rings,
// the firmware's DMA) can name this, with the same order between writes and reads.
//
// A page is there, for the function that its row names, from that row on, which clears it first: 64 cycles, in which
// writes to device memory wait. Reads of a page that is not there, or is another function's, end with an error, writes
// to one are lost.
//
// Reads: one at a time, a beat per cycle from two cycles behind the request, in cycles in which the host answers
// nothing; the host's own answers are never held. Its reads pass while one is answered here.
// Writes: one per cycle, never handed to the host; there for a read that is accepted in a later cycle.
module hca_device_memory
  import hca_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  // Rows: is the page there, and whose is it?
  input  logic              row_valid_i,
  output logic              row_ready_o,
  input  dm_page_t          row_i,
  // Reads of the card; hrd: those for the host.
  input  logic              rd_valid_i,
  output logic              rd_ready_o,
  input  logic [7:0]        rd_tag_i,
  input  dma_rd_req_t       rd_i,
  output logic              hrd_valid_o,
  input  logic              hrd_ready_i,
  // Answers of the host, and all answers.
  input  logic              hrsp_valid_i,
  input  logic [7:0]        hrsp_tag_i,
  input  dma_rd_rsp_t       hrsp_i,
  output logic              rsp_valid_o,
  output logic [7:0]        rsp_tag_o,
  output dma_rd_rsp_t       rsp_o,
  // Writes of the card; hwr: those for the host.
  input  logic              wr_valid_i,
  output logic              wr_ready_o,
  input  dma_wr_t           wr_i,
  output logic              hwr_valid_o,
  input  logic              hwr_ready_i
);

  localparam int unsigned LineW    = $clog2(DmPageBytes / DataBytes);  // lines of a page
  localparam int unsigned OffsetW  = $clog2(DmBytes);
  localparam int unsigned AddressW = 48;                               // bits below DmBusHigh

  if (DmPages * DmPageBytes != DmBytes || (DmBytes & (DmBytes - 1)) != 0) begin : gen_bad_sizes
    $error("hca_device_memory: DmBytes must be a power of two, and DmPages pages");
  end

  logic [DmPages-1:0]  there_q;
  logic [FuncIdxW-1:0] owner_q [DmPages];   // read in the same cycle, so no block RAM

  // ---- Which ones -------------------------------------------------------------------------------------
  typedef struct packed {
    logic                    known;   // it may be the function's
    logic [FuncIdxW-1:0]     func;
    logic [DmRowW+LineW-1:0] line;
  } place_t;

  function automatic place_t place_of(logic [7:0] func, logic [AddressW-1:6] line);
    place_of.known = (line[AddressW-1:OffsetW] == '0) && (32'(func) < NumFuncs);
    place_of.func  = func[FuncIdxW-1:0];
    place_of.line  = line[OffsetW-1:6];
  endfunction

  logic   rd_mine, wr_mine;
  place_t rd_place, wr_place;
  assign rd_mine  = rd_i.addr[63:AddressW] == 16'(DmBusHigh);
  assign wr_mine  = (wr_i.addr[63:AddressW] == 16'(DmBusHigh)) && !wr_i.msix;
  assign rd_place = place_of(rd_i.func, rd_i.addr[AddressW-1:6]);
  assign wr_place = place_of(wr_i.func, wr_i.addr[AddressW-1:6]);

  // ---- Rows --------------------------------------------------------------------------------------------
  logic              clear_q;
  logic [LineW-1:0]  clear_line_q;
  logic              clear_last;
  assign clear_last  = &clear_line_q;
  assign row_ready_o = row_i.there ? (clear_q && clear_last) : !clear_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      there_q      <= '0;
      clear_q      <= 1'b0;
      clear_line_q <= '0;
    end else begin
      clear_q <= clear_q ? !clear_last : (row_valid_i && row_i.there);
      if (clear_q) clear_line_q <= clear_line_q + 1'b1;
      if (row_valid_i && row_ready_o) there_q[row_i.page] <= row_i.there;
    end
    if (row_valid_i && row_ready_o) owner_q[row_i.page] <= row_i.func[FuncIdxW-1:0];
  end

  // ---- Writes ------------------------------------------------------------------------------------------
  logic              write;
  logic [DmRowW-1:0] wr_page;
  assign hwr_valid_o = wr_valid_i && !wr_mine;
  assign wr_ready_o  = wr_mine ? !clear_q : hwr_ready_i;
  assign wr_page     = wr_place.line[DmRowW+LineW-1:LineW];
  assign write       = wr_valid_i && wr_mine && wr_place.known && there_q[wr_page] && owner_q[wr_page] == wr_place.func;

  // ---- Reads -------------------------------------------------------------------------------------------
  logic                    busy_q, known_q, last_q, err_q, beat_q, take, fetch, leave;
  logic [7:0]              tag_q;
  logic [FuncIdxW-1:0]     func_q;
  logic [DmRowW+LineW-1:0] line_q;
  logic [DmRowW-1:0]       rd_page;
  logic [3:0]              left_q;    // lines to read
  logic [9:0]              end_byte;
  beat_t                   rdata;

  assign hrd_valid_o = rd_valid_i && !rd_mine;
  assign rd_ready_o  = rd_mine ? !busy_q : hrd_ready_i;
  assign take        = rd_valid_i && rd_mine && !busy_q;
  assign rd_page     = line_q[DmRowW+LineW-1:LineW];
  assign end_byte    = 10'(rd_i.addr[5:0]) + rd_i.len_bytes + 10'd63;
  assign leave       = beat_q && !hrsp_valid_i;
  assign fetch       = (left_q != '0) && (!beat_q || leave);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      busy_q <= 1'b0;
      beat_q <= 1'b0;
      left_q <= '0;
    end else begin
      if (take) busy_q <= 1'b1;
      else if (leave && last_q) busy_q <= 1'b0;
      if (fetch) beat_q <= 1'b1;
      else if (leave) beat_q <= 1'b0;
      if (take) left_q <= end_byte[9:6];
      else if (fetch) left_q <= left_q - 4'd1;
    end
    if (take) begin
      tag_q   <= rd_tag_i;
      known_q <= rd_place.known;
      func_q  <= rd_place.func;
      line_q  <= rd_place.line;
    end else if (fetch) begin
      line_q  <= line_q + 1'b1;
    end
    if (fetch) begin
      last_q  <= left_q == 4'd1;
      err_q   <= !known_q || !there_q[rd_page] || owner_q[rd_page] != func_q;
    end
  end

  assign rsp_valid_o = hrsp_valid_i || beat_q;
  assign rsp_tag_o   = hrsp_valid_i ? hrsp_tag_i : tag_q;
  assign rsp_o       = hrsp_valid_i ? hrsp_i : '{last: last_q, err: err_q, data: rdata};

  // ---- The RAM -----------------------------------------------------------------------------------------
  logic unused;
  assign unused = ^{wr_i.addr[5:0], wr_i.last, end_byte[5:0], row_i.func[7:FuncIdxW]};

  hca_ram_words #(.WordW(8), .Words(DataBytes), .Depth(DmPages << LineW)) u_ram (
    .clk_i,
    .we_i   (clear_q ? '1 : wr_i.strb & {DataBytes{write}}),
    .waddr_i(clear_q ? {row_i.page, clear_line_q} : wr_place.line),
    .wdata_i(clear_q ? '0 : wr_i.data),
    .re_i   (fetch),
    .raddr_i(line_q),
    .rdata_o(rdata)
  );

endmodule
