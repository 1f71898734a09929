// The number of the lowest bit that is set, and of the lowest of some later ones, by two searches side by side. What
// belongs to a bit (its note) comes along with its number, so that nobody looks it up behind the search. Combinational;
// a number and a note count only where there is one.
module hca_low_index #(
  parameter  int unsigned N     = 4,         // power of two, at least 2
  parameter  int unsigned NoteW = 1,
  localparam int unsigned IdxW  = $clog2(N)
) (
  input  logic [N-1:0]            bits_i,
  input  logic [N-1:0][NoteW-1:0] notes_i,
  input  logic [N-1:0]            later_i,   // those of them that are behind a place
  output logic                    none_o,
  output logic [IdxW-1:0]         idx_o,
  output logic [NoteW-1:0]        note_o,
  output logic                    wraps_o,   // there is none of these
  output logic [IdxW-1:0]         behind_o,
  output logic [NoteW-1:0]        behind_note_o
);

  typedef struct packed {
    logic             some;
    logic [IdxW-1:0]  idx;
    logic [NoteW-1:0] note;
  } found_t;

  // Three to a LUT: the first of them that has one, with what that one found. It goes through with what selects it.
  function automatic found_t lowest_of(logic [N-1:0] bits, logic [N-1:0][NoteW-1:0] notes);
    found_t [N+1:0] found;
    found_t         a, b, c;
    found = '0;
    for (int unsigned i = 0; i < N; i++) found[i] = {bits[i], IdxW'(i), notes[i]};
    for (int unsigned width = N; width > 1; width = (width + 2) / 3) begin
      for (int unsigned i = 0; i < (width + 2) / 3; i++) begin
        a = found[3*i];
        b = found[3*i+1];
        c = found[3*i+2];
        found[i]      = a.some ? a : b.some ? b : c;
        found[i].some = a.some || b.some || c.some;
      end
      for (int unsigned i = (width + 2) / 3; i < width; i++) found[i] = '0;
    end
    return found[0];
  endfunction

  found_t first, next;

  assign first = lowest_of(bits_i, notes_i);
  assign next  = lowest_of(later_i, notes_i);

  assign none_o        = !first.some;
  assign idx_o         = first.idx;
  assign note_o        = first.note;
  assign wraps_o       = !next.some;
  assign behind_o      = next.idx;
  assign behind_note_o = next.note;

endmodule
