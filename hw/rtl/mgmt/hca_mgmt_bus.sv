// One master at a time on the register block: firmware, or a host read or write of the function registers.
// The host reaches only the registers of its own function: the function number of the access selects the
// window. A 64-bit host write becomes one or two 32-bit writes, low word first. Registers are written whole: of a word
// with bytes without strobe, which keep their value, the rest is read first.
// Firmware goes first; each access takes 3 cycles or more.
module hca_mgmt_bus
  import hca_pkg::*;
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
    // Register block (PeakRDL passthrough).
    output logic        reg_req_o,
    output logic        reg_we_o,
    output logic [17:0] reg_addr_o,
    output logic [31:0] reg_wdata_o,
    output logic        reg_first_o,      // its first byte is really written: what such a write starts looks at it
    input  logic        reg_stall_i,
    input  logic        reg_rd_ack_i,
    input  logic        reg_wr_ack_i,
    input  logic [31:0] reg_rdata_i
);
  typedef enum logic [1:0] {StIdle, StReq, StWait} state_e;
  typedef enum logic [1:0] {SrcFw, SrcHostRd, SrcHostWr} src_e;

  state_e      state_q;
  src_e        src_q;
  logic        we_q;
  logic [17:0] addr_q;
  logic [63:0] wdata_q;     // the word to write now is the low one
  logic [7:0]  strb_q;      // of this word, and of the one behind it
  logic        from_high;   // the host writes nothing of the low word
  logic [7:0]  wr_strb;
  logic [31:0] merged;
  logic        ack, fw_legal, rd_legal, unused_low;
  assign unused_low = ^mmio_wr_addr_i[2:0];
  assign from_high  = mmio_wr_strb_i[3:0] == '0;
  assign wr_strb    = from_high ? {4'd0, mmio_wr_strb_i[7:4]} : mmio_wr_strb_i;

  always_comb begin
    for (int unsigned b = 0; b < 4; b++) merged[8*b +: 8] = strb_q[b] ? wdata_q[8*b +: 8] : reg_rdata_i[8*b +: 8];
  end

  // An access outside the map answers at once: zero, and the write is lost.
  assign fw_legal = fw_addr_i < 20'h2_1000;
  // What is not there reads as all ones, as on PCI.
  assign rd_legal = (mmio_rd_func_i < 8'(NumFuncs)) && (mmio_rd_addr_i[15:12] == 4'd0);

  assign fw_req_stall_o  = state_q != StIdle;
  assign mmio_wr_ready_o = (state_q == StIdle) && !fw_req_i;
  assign mmio_rd_ready_o = (state_q == StIdle) && !fw_req_i && !mmio_wr_valid_i;

  assign reg_req_o   = (state_q == StReq);
  assign reg_we_o    = we_q;
  assign reg_addr_o  = addr_q;
  assign reg_wdata_o = wdata_q[31:0];
  assign reg_first_o = strb_q[0];
  assign ack = (state_q != StIdle) && (we_q ? reg_wr_ack_i : reg_rd_ack_i);

  always_ff @(posedge clk_i) begin
    fw_rd_ack_o        <= 1'b0;
    fw_wr_ack_o        <= 1'b0;
    mmio_rdata_valid_o <= 1'b0;
    if (ack) begin
      fw_rdata_o   <= reg_rdata_i;
      mmio_rdata_o <= reg_rdata_i;
    end
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle: begin
          if (fw_req_i) begin
            src_q       <= SrcFw;
            we_q        <= fw_we_i;
            addr_q      <= fw_addr_i[17:0];
            wdata_q     <= {32'd0, fw_wdata_i};
            strb_q      <= 8'h0f;
            state_q     <= fw_legal ? StReq : StIdle;
            fw_wr_ack_o <= !fw_legal && fw_we_i;
            fw_rd_ack_o <= !fw_legal && !fw_we_i;
            if (!fw_legal) fw_rdata_o <= '0;
          end else if (mmio_wr_valid_i) begin
            src_q   <= SrcHostWr;
            we_q    <= &wr_strb[3:0];
            addr_q  <= {mmio_wr_func_i[5:0], mmio_wr_addr_i[11:3], from_high, 2'd0};
            wdata_q <= from_high ? {32'd0, mmio_wr_data_i[63:32]} : mmio_wr_data_i;
            strb_q  <= wr_strb;
            state_q <= (mmio_wr_func_i < 8'(NumFuncs) && wr_strb != '0) ? StReq : StIdle;
          end else if (mmio_rd_valid_i) begin
            src_q   <= SrcHostRd;
            we_q    <= 1'b0;
            addr_q  <= {mmio_rd_func_i[5:0], mmio_rd_addr_i[11:0]};
            state_q <= rd_legal ? StReq : StIdle;
            mmio_rdata_valid_o <= !rd_legal;
            if (!rd_legal) mmio_rdata_o <= '1;
          end
        end
        StReq, StWait: begin
          if ((state_q == StReq) && !reg_stall_i) state_q <= StWait;
          if (ack) begin
            if (src_q == SrcHostWr && !we_q) begin
              we_q          <= 1'b1;
              wdata_q[31:0] <= merged;
              state_q       <= StReq;
            end else if (src_q == SrcHostWr && strb_q[7:4] != '0) begin
              we_q    <= &strb_q[7:4];
              strb_q  <= {4'd0, strb_q[7:4]};
              wdata_q <= {32'd0, wdata_q[63:32]};
              addr_q  <= addr_q + 18'd4;
              state_q <= StReq;
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
