// Memories of the soft core. The image, with the board's data and the boot program behind it, is read by fetches and
// by loads, and written by the board alone; the data memory is read and written by the core, and by the journal while
// the core is in reset. Every access is answered in the next cycle; a load from the image takes the place of a fetch. A
// write answers with what the word held.
module hca_fw_mem
  import hca_pkg::*;
#(
    localparam int unsigned ImageWords = (SocImageBytes + SocBoardBytes + SocRomBytes) / 4,
    localparam int unsigned ImageAddrW = $clog2(ImageWords),
    localparam int unsigned DataWords  = SocDataBytes / 4,
    localparam int unsigned DataAddrW  = $clog2(DataWords)
) (
    input  logic                  clk_i,
    // The board.
    input  logic                  load_valid_i,
    input  logic [ImageAddrW-1:0] load_addr_i,
    input  logic [31:0]           load_data_i,
    // Fetch.
    input  logic                  fetch_i,
    input  logic [ImageAddrW-1:0] fetch_addr_i,
    output logic                  fetch_gnt_o,
    // Load from the image; its word and that of a fetch.
    input  logic                  const_i,
    input  logic [ImageAddrW-1:0] const_addr_i,
    output logic [31:0]           image_rdata_o,
    // Data.
    input  logic                  data_i,
    input  logic                  data_we_i,
    input  logic [3:0]            data_be_i,
    input  logic [DataAddrW-1:0]  data_addr_i,
    input  logic [31:0]           data_wdata_i,
    output logic [31:0]           data_rdata_o,
    // The journal.
    input  logic                  undo_i,
    input  logic [DataAddrW-1:0]  undo_addr_i,
    input  logic [31:0]           undo_data_i
);
  logic [3:0] data_we;

  assign fetch_gnt_o = fetch_i && !const_i;

  hca_ram_1r1w #(.Width(32), .Depth(ImageWords)) u_image (
    .clk_i, .we_i(load_valid_i), .waddr_i(load_addr_i), .wdata_i(load_data_i), .re_i(fetch_i || const_i),
    .raddr_i(const_i ? const_addr_i : fetch_addr_i), .rdata_o(image_rdata_o)
  );

  assign data_we = (data_i && data_we_i) ? data_be_i : '0;

  hca_ram_words #(.WordW(8), .Words(4), .Depth(DataWords)) u_data (
    .clk_i, .we_i(undo_i ? 4'hf : data_we), .waddr_i(undo_i ? undo_addr_i : data_addr_i),
    .wdata_i(undo_i ? undo_data_i : data_wdata_i), .re_i(data_i), .raddr_i(data_addr_i), .rdata_o(data_rdata_o)
  );
endmodule
