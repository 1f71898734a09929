// Mailbox: 4 KiB of memory that firmware reads and writes by words, and a small DMA engine that moves whole
// 64-byte lines between it and host memory. One command at a time; address, mailbox offset and length are
// multiples of 64 bytes (a command that is not sets err_o and moves nothing). Reads are cut at 512-byte
// blocks, writes at 256. Of the first and the last line that go to the host, bytes at the edge can be left out.
// Firmware leaves the mailbox alone while busy_o is high.
module hca_mgmt_dma
  import hca_pkg::*;
(
    input  logic        clk_i,
    input  logic        rst_i,
    // Firmware word port; read data next cycle.
    input  logic        mb_re_i,
    input  logic        mb_we_i,
    input  logic [9:0]  mb_addr_i,   // word
    input  logic [31:0] mb_wdata_i,
    output logic [31:0] mb_rdata_o,
    // Command.
    input  logic        go_i,
    input  logic        to_host_i,
    input  logic [7:0]  func_i,
    input  logic [63:0] addr_i,
    input  logic [11:0] local_i,     // byte offset in the mailbox
    input  logic [12:0] len_i,       // bytes, 64..4096
    input  logic [5:0]  skip_i,      // to the host: bytes of the first line that are not written
    input  logic [5:0]  spare_i,     // and of the last one, at its end
    output logic        busy_o,
    output logic        err_o,
    // Host memory.
    output logic        rd_req_valid_o,
    input  logic        rd_req_ready_i,
    output dma_rd_req_t rd_req_o,
    input  logic        rd_rsp_valid_i,
    output logic        rd_rsp_ready_o,
    input  dma_rd_rsp_t rd_rsp_i,
    output logic        wr_valid_o,
    input  logic        wr_ready_i,
    output dma_wr_t     wr_o
);
  typedef enum logic [2:0] {StIdle, StReq, StData, StFetch, StSend} state_e;
  state_e      state_q;
  logic [7:0]  func_q;
  logic [63:0] addr_q;
  logic [5:0]  line_q;          // mailbox line
  logic [6:0]  left_q;          // lines left of the command
  logic [5:0]  line_next;
  logic [5:0]  skip_q, spare_q;

  // One write port for firmware's words and for lines from the host: firmware leaves the mailbox alone meanwhile.
  // Beats behind an error are taken and dropped.
  logic              fill;
  logic [15:0]       we;
  logic [15:0][31:0] row;
  logic [3:0]        word_q;

  assign fill       = rd_rsp_valid_i && !rd_rsp_i.err && !err_o;
  assign we         = fill ? '1 : 16'(mb_we_i) << mb_addr_i[3:0];
  assign mb_rdata_o = row[word_q];
  assign line_next  = line_q + 6'd1;

  hca_ram_words #(.WordW(32), .Words(16), .Depth(64)) u_mailbox (
    .clk_i, .we_i(we), .waddr_i(fill ? line_q : mb_addr_i[9:4]), .wdata_i(fill ? rd_rsp_i.data : {16{mb_wdata_i}}),
    .re_i(mb_re_i || state_q == StFetch), .raddr_i(mb_re_i ? mb_addr_i[9:4] : line_q), .rdata_o(row)
  );

  always_ff @(posedge clk_i) begin
    if (mb_re_i) word_q <= mb_addr_i[3:0];
  end

  // Lines of the next read request: to the end of the 512-byte block or of the command.
  logic [3:0] block_lines;
  logic [3:0] req_lines;
  assign block_lines = 4'd8 - {1'b0, addr_q[8:6]};
  assign req_lines   = (left_q < {3'd0, block_lines}) ? left_q[3:0] : block_lines;

  logic legal;
  assign legal = (len_i != '0) && (len_i[5:0] == '0) && (addr_i[5:0] == '0) && (local_i[5:0] == '0)
                 && (14'(local_i) + 14'(len_i) <= 14'd4096);

  // The readies move with everybody's traffic: looked at only while this block wants something (decision 0020).
  logic        asked, sent;
  logic [63:0] from_skip, to_spare;
  assign busy_o         = state_q != StIdle;
  assign rd_req_valid_o = state_q == StReq;
  assign asked          = rd_req_valid_o && rd_req_ready_i;
  assign rd_req_o       = '{func: func_q, addr: addr_q, len_bytes: {req_lines, 6'd0}};
  assign rd_rsp_ready_o = 1'b1;
  assign wr_valid_o     = state_q == StSend;
  assign sent           = wr_valid_o && wr_ready_i;
  assign from_skip      = ~64'd0 << skip_q;
  assign to_spare       = ~64'd0 >> ((left_q == 7'd1) ? spare_q : 6'd0);
  assign wr_o = '{msix: 1'b0, last: (left_q == 7'd1) || (addr_q[7:6] == 2'd3), func: func_q,
                  addr: addr_q, strb: from_skip & to_spare, data: row};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StIdle;
      err_o   <= 1'b0;
    end else begin
      unique case (state_q)
        StIdle: if (go_i) begin
          err_o  <= !legal;
          func_q <= func_i;
          skip_q <= skip_i;
          spare_q <= spare_i;
          addr_q <= addr_i;
          line_q <= local_i[11:6];
          left_q <= len_i[12:6];
          if (legal) state_q <= to_host_i ? StFetch : StReq;
        end
        StReq: if (asked) state_q <= StData;
        StData: if (rd_rsp_valid_i) begin
          line_q  <= line_next;
          left_q  <= left_q - 7'd1;
          addr_q  <= addr_q + 64'd64;
          if (rd_rsp_i.err) begin
            err_o   <= 1'b1;
            state_q <= rd_rsp_i.last ? StIdle : StData;
          end else if (rd_rsp_i.last) begin
            state_q <= ((left_q == 7'd1) || err_o) ? StIdle : StReq;
          end
        end
        StFetch: state_q <= StSend;
        StSend: if (sent) begin
          skip_q  <= '0;
          line_q  <= line_next;
          left_q  <= left_q - 7'd1;
          addr_q  <= addr_q + 64'd64;
          state_q <= (left_q == 7'd1) ? StIdle : StFetch;
        end
        default: state_q <= StIdle;
      endcase
    end
  end
endmodule
