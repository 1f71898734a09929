// A beat of 64 bytes turned, in stages of four: each is one LUT for each bit. Two shifts and an OR say the same, and
// open synthesis takes twice as many.
package hca_rotate_pkg;

  // Byte 0 goes to byte `bytes`.
  function automatic logic [511:0] rotate_up(logic [511:0] data, logic [5:0] bytes);
    logic [511:0] by_1, by_4;
    by_1 = bytes[1] ? (bytes[0] ? {data[487:0], data[511:488]} : {data[495:0], data[511:496]})
                    : (bytes[0] ? {data[503:0], data[511:504]} : data);
    by_4 = bytes[3] ? (bytes[2] ? {by_1[415:0], by_1[511:416]} : {by_1[447:0], by_1[511:448]})
                    : (bytes[2] ? {by_1[479:0], by_1[511:480]} : by_1);
    return bytes[5] ? (bytes[4] ? {by_4[127:0], by_4[511:128]} : {by_4[255:0], by_4[511:256]})
                    : (bytes[4] ? {by_4[383:0], by_4[511:384]} : by_4);
  endfunction

endpackage
