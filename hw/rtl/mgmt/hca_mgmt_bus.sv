// One master at a time on the register blocks: firmware, or a host read or write of the function registers.
// The host reaches only the registers of its own function: the function number of the access selects the
// window. A 64-bit host write becomes one or two 32-bit writes, low word first. Registers are written whole: of a word
// with bytes without strobe, which keep their value, the rest is read first.
// Firmware goes first; each access takes 3 cycles or more.
//
// A register block answers at once, a window that is read later; accesses are of aligned words. What each of them reads
// is in a register of its own, for the multiplexers in front of it are long: who was asked is said behind it.
module hca_mgmt_bus
  import hca_pkg::*;
  import hca_mgmt_pkg::*;
(
    input  logic        clk_i,
    input  logic        rst_i,
    // Host, offsets below 0x1000.
    input  logic        mmio_wr_valid_i,
    output logic        mmio_wr_ready_o,
    input  logic [7:0]  mmio_wr_func_i,
    input  logic [11:0] mmio_wr_addr_i,   // multiple of 8
    input  logic [63:0] mmio_wr_data_i,
    input  logic [7:0]  mmio_wr_strb_i,
    input  logic        mmio_rd_valid_i,
    output logic        mmio_rd_ready_o,
    input  logic [7:0]  mmio_rd_func_i,
    input  logic [15:0] mmio_rd_addr_i,   // multiple of 4; only page 0 has registers
    output logic        mmio_rdata_valid_o,
    output logic [31:0] mmio_rdata_o,
    // Firmware.
    input  logic        fw_req_i,
    input  logic        fw_we_i,
    input  logic [19:0] fw_addr_i,
    input  logic [31:0] fw_wdata_i,
    output logic        fw_req_stall_o,
    output logic        fw_rd_ack_o,
    output logic        fw_wr_ack_o,
    output logic [31:0] fw_rdata_o,
    // Register blocks (PeakRDL passthrough, which answers in the cycle of the request), and windows.
    output logic [NumFuncs-1:0] func_req_o,
    output logic        mgmt_req_o,
    output windows_t    win_req_o,
    output logic        reg_we_o,
    output logic [15:2] reg_addr_o,       // holds until the answer; of a function, its number in front
    output logic [31:0] reg_wdata_o,
    output logic        reg_first_o,      // its first byte is really written: what such a write starts looks at it
    input  logic [NumFuncs-1:0][31:0] func_rdata_i,
    input  logic [31:0] mgmt_rdata_i,
    input  logic        win_ack_i,        // behind the cycle of the request, with what it reads
    input  logic [31:0] win_rdata_i
);
  typedef enum logic [1:0] {StIdle, StReq, StWait} state_e;
  typedef enum logic [1:0] {SrcFw, SrcHostRd, SrcHostWr} src_e;

  state_e      state_q;
  src_e        src_q;
  logic        we_q;
  logic [17:2] addr_q;
  logic [63:0] wdata_q;     // the word to write now is the low one
  logic [2:0][31:0] rdata_q;  // of functions, firmware, windows
  logic [2:0]  asked_q;       // who of them was
  logic        absent_q;      // there was nobody to ask
  logic [31:0] rdata, func_rdata;
  logic [7:0]  strb_q;      // of this word, and of the one behind it
  logic        from_high;   // the host writes nothing of the low word
  logic [7:0]  wr_strb;
  windows_t    windows;
  logic        to_func, to_mgmt, to_window, ack, fw_legal, rd_legal, has_func, unused_low;
  assign unused_low = ^{mmio_wr_addr_i[2:0], mmio_rd_addr_i[1:0]};
  assign from_high  = mmio_wr_strb_i[3:0] == '0;
  assign wr_strb    = from_high ? {4'd0, mmio_wr_strb_i[7:4]} : mmio_wr_strb_i;

  always_comb begin
    rdata = '0;
    for (int unsigned s = 0; s < 3; s++) rdata |= asked_q[s] ? rdata_q[s] : '0;
    for (int unsigned b = 0; b < 4; b++) reg_wdata_o[8*b +: 8] = strb_q[b] ? wdata_q[8*b +: 8] : rdata[8*b +: 8];
  end

  // An access outside the map answers at once: zero, and the write is lost.
  assign fw_legal = fw_addr_i < 20'h2_1000;
  // What is not there reads as all ones, as on PCI.
  assign rd_legal = (mmio_rd_func_i < 8'(NumFuncs)) && (mmio_rd_addr_i[15:12] == 4'd0);

  assign fw_req_stall_o  = state_q != StIdle;
  assign mmio_wr_ready_o = (state_q == StIdle) && !fw_req_i;
  assign mmio_rd_ready_o = (state_q == StIdle) && !fw_req_i && !mmio_wr_valid_i;

  // Their multiplexers are as short as the addresses that blocks see, so what leads to none of their registers is known
  // here: it reads as zeros, as the functions do that the map has room for and this card has not.
  assign has_func    = 5'(addr_q[15:12]) < 5'(NumFuncs);
  assign windows     = (has_func || addr_q[17:16] != '0) ? window_of(addr_q[17:2]) : '0;
  assign to_window   = windows != '0;
  assign to_func     = addr_q[17:16] == '0 && addr_q[11:6] == '0 && !to_window;
  assign to_mgmt     = addr_q[17:11] == 7'h20 && !to_window;
  always_comb begin
    func_rdata = '0;
    for (int unsigned f = 0; f < NumFuncs; f++) begin
      func_req_o[f] = (state_q == StReq) && to_func && addr_q[15:12] == 4'(f);
      func_rdata   |= addr_q[15:12] == 4'(f) ? func_rdata_i[f] : '0;
    end
  end
  assign mgmt_req_o  = (state_q == StReq) && to_mgmt;
  assign win_req_o   = (state_q == StReq) ? windows : '0;
  assign reg_we_o    = we_q;
  assign reg_addr_o  = addr_q[15:2];
  assign reg_first_o = strb_q[0];
  assign ack          = (state_q == StReq) ? !to_window || we_q : (state_q == StWait) && win_ack_i;
  assign fw_rdata_o   = rdata;
  assign mmio_rdata_o = rdata | {32{absent_q}};

  always_ff @(posedge clk_i) begin
    fw_rd_ack_o        <= 1'b0;
    fw_wr_ack_o        <= 1'b0;
    mmio_rdata_valid_o <= 1'b0;
    if (state_q != StIdle && !we_q) begin
      rdata_q <= {win_rdata_i, mgmt_rdata_i, func_rdata};
      asked_q <= {to_window, to_mgmt, to_func};
    end
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle: begin
          if (fw_req_i) begin
            src_q       <= SrcFw;
            we_q        <= fw_we_i;
            addr_q      <= fw_addr_i[17:2];
            wdata_q     <= {32'd0, fw_wdata_i};
            strb_q      <= 8'h0f;
            state_q     <= fw_legal ? StReq : StIdle;
            fw_wr_ack_o <= !fw_legal && fw_we_i;
            fw_rd_ack_o <= !fw_legal && !fw_we_i;
            if (!fw_legal) asked_q <= '0;
          end else if (mmio_wr_valid_i) begin
            src_q   <= SrcHostWr;
            we_q    <= &wr_strb[3:0];
            addr_q  <= {mmio_wr_func_i[5:0], mmio_wr_addr_i[11:3], from_high};
            wdata_q <= from_high ? {32'd0, mmio_wr_data_i[63:32]} : mmio_wr_data_i;
            strb_q  <= wr_strb;
            state_q <= (mmio_wr_func_i < 8'(NumFuncs) && wr_strb != '0) ? StReq : StIdle;
          end else if (mmio_rd_valid_i) begin
            src_q   <= SrcHostRd;
            we_q    <= 1'b0;
            addr_q  <= {mmio_rd_func_i[5:0], mmio_rd_addr_i[11:2]};
            state_q <= rd_legal ? StReq : StIdle;
            mmio_rdata_valid_o <= !rd_legal;
            absent_q <= !rd_legal;
          end
        end
        StReq, StWait: begin
          state_q <= StWait;
          if (ack) begin
            if (src_q == SrcHostWr && !we_q) begin
              we_q    <= 1'b1;
              state_q <= StReq;
            end else if (src_q == SrcHostWr && strb_q[7:4] != '0) begin
              we_q    <= &strb_q[7:4];
              strb_q  <= {4'd0, strb_q[7:4]};
              wdata_q <= {32'd0, wdata_q[63:32]};
              state_q <= StReq;
              addr_q[2] <= 1'b1;
            end else begin
              state_q            <= StIdle;
              fw_wr_ack_o        <= (src_q == SrcFw) && we_q;
              fw_rd_ack_o        <= (src_q == SrcFw) && !we_q;
              mmio_rdata_valid_o <= src_q == SrcHostRd;
            end
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end
endmodule
