// A card of a hundred lines with the ports of the real hca_core, for tests of the simulator itself. No RDMA:
//  MMIO write 0x1000 {len[63:48], addr[47:0]}: reads host memory and sends it as one packet;
//  MMIO write 0x1008: where received packets go; each is followed by an interrupt of vector 1;
//  MMIO write 0x1010: a word for firmware, which sees fw_irq_o, reads it at 0 and answers at 4;
//  MMIO read 0x0: identity, 0x4: firmware's answer, 0x8/0xC: time, 0x10: read errors seen.
module hca_core (
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic [63:0]  now_i,
  input  logic         mmio_wr_valid_i,
  output logic         mmio_wr_ready_o,
  input  logic [7:0]   mmio_wr_func_i,
  input  logic [15:0]  mmio_wr_addr_i,
  input  logic [63:0]  mmio_wr_data_i,
  input  logic [7:0]   mmio_wr_strb_i,
  input  logic         mmio_rd_valid_i,
  output logic         mmio_rd_ready_o,
  input  logic [7:0]   mmio_rd_func_i,
  input  logic [15:0]  mmio_rd_addr_i,
  output logic         mmio_rdata_valid_o,
  output logic [31:0]  mmio_rdata_o,
  output logic         hrd_req_valid_o,
  input  logic         hrd_req_ready_i,
  output logic [7:0]   hrd_req_tag_o,
  output logic [7:0]   hrd_req_func_o,
  output logic [63:0]  hrd_req_addr_o,
  output logic [9:0]   hrd_req_len_o,
  input  logic         hrd_rsp_valid_i,
  input  logic [7:0]   hrd_rsp_tag_i,
  input  logic         hrd_rsp_last_i,
  input  logic         hrd_rsp_err_i,
  input  logic [511:0] hrd_rsp_data_i,
  output logic         hwr_valid_o,
  input  logic         hwr_ready_i,
  output logic         hwr_msix_o,
  output logic         hwr_last_o,
  output logic [7:0]   hwr_func_o,
  output logic [63:0]  hwr_addr_o,
  output logic [63:0]  hwr_strb_o,
  output logic [511:0] hwr_data_o,
  output logic         mac_tx_valid_o,
  input  logic         mac_tx_ready_i,
  output logic         mac_tx_link_o,
  output logic         mac_tx_last_o,
  output logic [6:0]   mac_tx_len_o,
  output logic [511:0] mac_tx_data_o,
  input  logic         mac_up_i,
  input  logic         mac_rx_valid_i,
  input  logic         mac_rx_err_i,
  input  logic         mac_rx_link_i,
  input  logic         mac_rx_last_i,
  input  logic [6:0]   mac_rx_len_i,
  input  logic [511:0] mac_rx_data_i,
  input  logic [1:0]   num_ports_i,
  output logic         mac1_tx_valid_o,   // this card has one port only
  input  logic         mac1_tx_ready_i,
  output logic         mac1_tx_link_o,
  output logic         mac1_tx_last_o,
  output logic [6:0]   mac1_tx_len_o,
  output logic [511:0] mac1_tx_data_o,
  input  logic         mac1_up_i,
  input  logic         mac1_rx_valid_i,
  input  logic         mac1_rx_err_i,
  input  logic         mac1_rx_link_i,
  input  logic         mac1_rx_last_i,
  input  logic [6:0]   mac1_rx_len_i,
  input  logic [511:0] mac1_rx_data_i,
  input  logic         fw_req_i,
  input  logic         fw_we_i,
  input  logic [19:0]  fw_addr_i,
  input  logic [31:0]  fw_wdata_i,
  output logic         fw_req_stall_o,
  output logic         fw_rd_ack_o,
  output logic         fw_wr_ack_o,
  output logic [31:0]  fw_rdata_o,
  output logic         fw_irq_o,
  output logic         timer_active_o,
  output logic [63:0]  wake_at_o,
  output logic         link_active_o,
  output logic [63:0]  link_wake_at_o,
  // Nothing to trace here.
  output logic [10:0]        trace_strobe_o,
  output logic [23:0]        trace_qpc_qpn_o,
  output logic               trace_qpc_init_o,
  output logic [7:0]         trace_qpc_func_o,
  output logic [23:0]        trace_qpc_dest_qpn_o,
  output logic [63:0]        trace_qpc_sq_base_o,
  output logic [7:0]         trace_qpc_sq_logs_o,
  output logic [31:0]        trace_qpc_cqns_o,
  output logic [9:0]         trace_omt_qpn_o,
  output logic [31:0]        trace_omt_wqe_index_o,
  output logic [7:0]         trace_omt_opcode_o,
  output logic               trace_omt_signaled_o,
  output logic [23:0]        trace_omt_last_psn_o,
  output logic [31:0]        trace_omt_len_o,
  output logic [9:0]         trace_emit_qpn_o,
  output logic [23:0]        trace_emit_psn_o,
  output logic [9:0]         trace_sent_qpn_o,
  output logic [7:0]         trace_sent_opcode_o,
  output logic [23:0]        trace_sent_psn_o,
  output logic [23:0]        trace_rxd_qpn_o,
  output logic [7:0]         trace_rxd_opcode_o,
  output logic [23:0]        trace_rxd_psn_o,
  output logic [7:0]         trace_rxd_syndrome_o,
  output logic [2:0]         trace_end_kind_o,
  output logic               trace_end_frees_o,
  output logic               trace_end_ok_o,
  output logic [11:0]        trace_end_beats_o,
  output logic [9:0]         trace_upd_qpn_o,
  output logic [31:0]        trace_upd_una_wqe_o
);
  localparam int unsigned FifoDepth = 64;
  localparam int unsigned PtrW = $clog2(FifoDepth) + 1;
  localparam int unsigned DataBits = 513;

  // ---- Registers ----
  logic [63:0] rx_addr_q;
  logic [31:0] fw_word_q, fw_answer_q, rd_errors_q;
  logic        mmio_wr_fire, send_fire, rx_fire, rd_open_q;
  assign mmio_wr_fire = mmio_wr_valid_i && mmio_wr_ready_o;
  assign send_fire    = mmio_wr_fire && mmio_wr_addr_i == 16'h1000;
  assign mmio_wr_ready_o = !hrd_req_valid_o && !rd_open_q;
  assign mmio_rd_ready_o = 1'b1;
  assign timer_active_o  = 1'b0;
  assign wake_at_o       = '0;
  assign link_active_o   = 1'b0;
  assign link_wake_at_o  = '0;

  always_ff @(posedge clk_i) begin
    mmio_rdata_valid_o <= mmio_rd_valid_i && !rst_i;
    unique case (mmio_rd_addr_i)
      16'h0000: mmio_rdata_o <= 32'h5052_4f42;
      16'h0004: mmio_rdata_o <= fw_answer_q;
      16'h0008: mmio_rdata_o <= mmio_rd_valid_i ? now_i[31:0] : '0;
      16'h000c: mmio_rdata_o <= mmio_rd_valid_i ? now_i[63:32] : '0;
      16'h0010: mmio_rdata_o <= rd_errors_q;
      default:  mmio_rdata_o <= {24'h0, mmio_rd_func_i};
    endcase
  end

  // ---- Firmware bus: one cycle per access ----
  assign fw_req_stall_o = 1'b0;
  always_ff @(posedge clk_i) begin
    fw_rd_ack_o <= fw_req_i && !fw_we_i && !rst_i;
    fw_wr_ack_o <= fw_req_i && fw_we_i && !rst_i;
    fw_rdata_o  <= (fw_addr_i == 20'h0) ? fw_word_q : '0;
    if (mmio_wr_fire && mmio_wr_addr_i == 16'h1010 && mmio_wr_strb_i == '1) begin
      fw_word_q <= mmio_wr_data_i[31:0];
      fw_irq_o  <= 1'b1;
    end
    if (fw_req_i && fw_we_i && fw_addr_i == 20'h4) begin
      fw_answer_q <= fw_wdata_i;
      fw_irq_o    <= 1'b0;
    end
    if (rst_i) begin
      fw_irq_o    <= 1'b0;
      fw_answer_q <= '0;
    end
  end

  // ---- Send: one read at a time, its beats through a FIFO to the MAC ----
  logic [DataBits-1:0] tx_mem [FifoDepth];
  logic [PtrW-1:0] tx_wptr_q, tx_rptr_q;

  assign hrd_req_tag_o  = 8'd5;
  assign mac_tx_valid_o = tx_wptr_q != tx_rptr_q;
  assign mac_tx_len_o   = 7'd64;
  assign mac_tx_link_o  = 1'b0;
  assign {mac_tx_last_o, mac_tx_data_o} = tx_mem[tx_rptr_q[PtrW-2:0]];

  always_ff @(posedge clk_i) begin
    if (send_fire) begin
      hrd_req_valid_o <= 1'b1;
      hrd_req_func_o  <= mmio_wr_func_i;
      hrd_req_addr_o  <= {16'h0, mmio_wr_data_i[47:0]};
      hrd_req_len_o   <= mmio_wr_data_i[57:48];
      rd_open_q       <= 1'b1;
    end else if (hrd_req_ready_i) begin
      hrd_req_valid_o <= 1'b0;
    end
    if (hrd_rsp_valid_i) begin
      if (hrd_rsp_last_i) rd_open_q <= 1'b0;
      if (hrd_rsp_err_i) begin
        rd_errors_q <= rd_errors_q + 1'b1;
      end else if (hrd_rsp_tag_i == 8'd5) begin
        tx_mem[tx_wptr_q[PtrW-2:0]] <= {hrd_rsp_last_i, hrd_rsp_data_i};
        tx_wptr_q <= tx_wptr_q + 1'b1;
      end
    end
    if (mac_tx_valid_o && mac_tx_ready_i) tx_rptr_q <= tx_rptr_q + 1'b1;
    if (rst_i) begin
      hrd_req_valid_o <= 1'b0;
      rd_open_q       <= 1'b0;
      rd_errors_q     <= '0;
      tx_wptr_q       <= '0;
      tx_rptr_q       <= '0;
    end
  end

  // ---- Receive: beats through a FIFO to host memory, then the interrupt ----
  logic [DataBits+6:0] rx_mem [FifoDepth];
  logic [PtrW-1:0] rx_wptr_q, rx_rptr_q;
  logic            irq_q, rx_last;
  logic [6:0]      rx_len;
  logic [511:0]    rx_data;
  assign {rx_last, rx_len, rx_data} = rx_mem[rx_rptr_q[PtrW-2:0]];
  assign hwr_valid_o = irq_q || rx_wptr_q != rx_rptr_q;
  assign hwr_msix_o  = irq_q;
  assign hwr_last_o  = irq_q || rx_last || rx_addr_q[7:6] == 2'b11;
  assign hwr_func_o  = 8'd0;
  assign hwr_addr_o  = irq_q ? 64'd1 : rx_addr_q;
  assign hwr_strb_o  = irq_q ? 64'hf : ~(64'hffff_ffff_ffff_fffe << (rx_len - 7'd1));
  assign hwr_data_o  = rx_data;
  assign rx_fire     = hwr_valid_o && hwr_ready_i && !irq_q;

  always_ff @(posedge clk_i) begin
    if (mac_rx_valid_i) begin
      rx_mem[rx_wptr_q[PtrW-2:0]] <= {mac_rx_last_i, mac_rx_len_i, mac_rx_data_i};
      rx_wptr_q <= rx_wptr_q + 1'b1;
    end
    if (rx_fire) begin
      rx_rptr_q <= rx_rptr_q + 1'b1;
      rx_addr_q <= rx_addr_q + 64'd64;
      irq_q     <= rx_last;
    end else if (hwr_ready_i) begin
      irq_q <= 1'b0;
    end
    if (mmio_wr_fire && mmio_wr_addr_i == 16'h1008) rx_addr_q <= mmio_wr_data_i;
    if (rst_i) begin
      rx_wptr_q <= '0;
      rx_rptr_q <= '0;
      irq_q     <= 1'b0;
    end
  end


  assign mac1_tx_valid_o = 1'b0;
  assign mac1_tx_link_o  = 1'b0;
  assign mac1_tx_last_o  = 1'b0;
  assign mac1_tx_len_o   = '0;
  assign mac1_tx_data_o  = '0;

  assign trace_strobe_o = '0;
  assign trace_qpc_qpn_o = '0;
  assign trace_qpc_init_o = '0;
  assign trace_qpc_func_o = '0;
  assign trace_qpc_dest_qpn_o = '0;
  assign trace_qpc_sq_base_o = '0;
  assign trace_qpc_sq_logs_o = '0;
  assign trace_qpc_cqns_o = '0;
  assign trace_omt_qpn_o = '0;
  assign trace_omt_wqe_index_o = '0;
  assign trace_omt_opcode_o = '0;
  assign trace_omt_signaled_o = '0;
  assign trace_omt_last_psn_o = '0;
  assign trace_omt_len_o = '0;
  assign trace_emit_qpn_o = '0;
  assign trace_emit_psn_o = '0;
  assign trace_sent_qpn_o = '0;
  assign trace_sent_opcode_o = '0;
  assign trace_sent_psn_o = '0;
  assign trace_rxd_qpn_o = '0;
  assign trace_rxd_opcode_o = '0;
  assign trace_rxd_psn_o = '0;
  assign trace_rxd_syndrome_o = '0;
  assign trace_end_kind_o = '0;
  assign trace_end_frees_o = '0;
  assign trace_end_ok_o = '0;
  assign trace_end_beats_o = '0;
  assign trace_upd_qpn_o = '0;
  assign trace_upd_una_wqe_o = '0;
endmodule
