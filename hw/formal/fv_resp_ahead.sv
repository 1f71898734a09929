// Proof of hca_resp_ahead, the bookkeeping of packets that came behind a gap, against one PSN picked at random: it is
// marked behind a step exactly if it was, or is the packet's; the expected PSN never stands on one that is here, never
// passes one that is not, and what a NAK says is missing is missing, up to the first one that is here.
module fv_resp_ahead
  import hca_pkg::*;
(
  input logic                 clk_i,
  input logic [AheadPsns-1:0] early_i,
  input logic [23:0]          ahead_i,
  input logic [23:0]          any_i     // distance of some PSN from the expected one
);
  logic                 near, known, leads, here, is_near;
  logic [AheadPsns-1:0] with_it, left, marks_q;
  logic                 seen_q = 1'b0;
  logic [6:0]           first, missing, passed, hole, still;
  logic [23:0]          now;    // distance of the same PSN when the expected packet has come

  hca_resp_ahead u_dut (
    .clk_i, .early_i, .marks_i(marks_q), .between_i(ahead_i - 24'd1), .near_o(near), .known_o(known),
    .leads_o(leads), .first_o(first), .passed_o(passed), .hole_o(hole)
  );
  // As those put it together who look.
  assign missing = leads ? ahead_i[6:0] : first;
  assign with_it = near ? marks_q | AheadPsns'(1) << 6'(ahead_i[6:0] - 7'd1) : marks_q;
  assign left    = marks_behind(marks_q, passed);
  assign still = hole - passed;

  // Of marks: is the packet at that distance here?
  function automatic logic has(logic [AheadPsns-1:0] marks, logic [23:0] distance);
    return distance != '0 && distance <= 24'(AheadPsns) && marks[6'(distance - 24'd1)];
  endfunction

  assign here    = has(marks_q, any_i);
  assign is_near = ahead_i != '0 && ahead_i <= 24'(AheadPsns);
  assign now     = any_i - 24'd1 - 24'(passed);

  always_ff @(posedge clk_i) begin
    marks_q <= early_i;
    seen_q  <= 1'b1;
    m_any: assume (any_i != '0 && any_i <= 24'(AheadPsns) + 24'd66);
    if (seen_q) begin
      a_near: assert (near == is_near && known == has(marks_q, ahead_i));
      a_with: assert (has(with_it, any_i) == (here || (near && any_i == ahead_i)));
      // Nothing before the first one that is here, and that one is.
      a_missing: assert (any_i >= 24'(missing) || !has(with_it, any_i));
      a_first: assert (with_it == '0 || has(with_it, 24'(missing)));
      a_none: assert (with_it != '0 || missing == 7'(AheadPsns) + 7'd1);
      // The expected PSN passes what is here, and nothing else.
      a_passed: assert (any_i > 24'(passed) || here);
      a_stops: assert (!has(marks_q, 24'(passed) + 24'd1));
      a_left: assert (any_i <= 24'(passed) + 24'd1 || has(left, now) == here);
      a_still: assert (left == '0 || (has(left, 24'(still)) && (any_i <= 24'(passed) + 24'd1 || now >= 24'(still)
                                                                || !here)));
    end
    c_two: cover (seen_q && passed == 7'd3 && still == 7'd4 && left != '0);
    c_all: cover (seen_q && passed == 7'(AheadPsns));
    c_joins: cover (seen_q && near && !known && missing == 7'd5 && with_it[63]);
  end
endmodule
