// Parts of the register map that are not in a register block (external in abi/regs): hca_mgmt answers for them.
package hca_mgmt_pkg;
  typedef struct packed {
    logic link_data;
    logic ctx_data;
    logic pkey;       // of a port, as gid
    logic gid;
    logic counters;
    logic mad;
    logic mailbox;
  } windows_t;

  // Of an address in the map.
  function automatic windows_t window_of(logic [17:2] addr);
    window_of = '0;
    if (addr[17:12] == 6'h10) begin
      unique case (addr[11:8])
        4'h0:                   window_of.link_data = addr[7:2] == 6'h31;
        4'h1:                   window_of.ctx_data  = 1'b1;
        4'h4, 4'h6:             window_of.pkey      = addr[7];
        4'h5, 4'h7:             window_of.gid       = 1'b1;
        4'h8, 4'h9, 4'ha, 4'hb: window_of.counters  = 1'b1;
        4'hc, 4'hd, 4'he, 4'hf: window_of.mad       = 1'b1;
        default:;
      endcase
    end
    window_of.mailbox = addr[17];
  endfunction
endpackage
