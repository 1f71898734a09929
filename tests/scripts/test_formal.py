"""scripts/formal_sat.py: what is true is proved by each engine, and what is not is not."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HARNESS = """
module counter (input logic clk_i, input logic up_i);
  logic       rst_q = 1'b1;
  logic [3:0] count_q;
  always_ff @(posedge clk_i) begin
    rst_q <= 1'b0;
    if (rst_q) count_q <= '0;
    else if (up_i && count_q < {limit}) count_q <= count_q + 1'b1;
  end
  always_comb begin
    if (!rst_q) begin
      a_limit: assert (count_q <= {bound});
      c_three: cover (count_q == {goal});
    end
  end
endmodule
"""


@pytest.mark.parametrize("engine", ["sat", "cadical"])
@pytest.mark.parametrize(("limit", "bound", "goal", "says"), [
    (9, 9, 3, "formal: reached"),
    (9, 8, 3, "proof failed"),              # false
    (15, 14, 3, "proof failed"),            # at the end of its range
    (9, 9, 10, "proof did succeed"),        # never reached
    (9, 9, 7, "proof did succeed"),         # not within six cycles
])
def test_engine(tmp_path, engine, limit, bound, goal, says):
    """Exit code 0 if all assertions hold for good and the goal is reached, else 1, and which of it failed."""
    harness = tmp_path / "counter.sv"
    harness.write_text(HARNESS.format(limit=limit, bound=bound, goal=goal))
    ran = subprocess.run([ROOT / ".venv/bin/python", ROOT / "scripts/formal_sat.py", engine, "counter", "1", "6",
                          "-D SYNTHESIS", harness], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode == 0) == (says == "formal: reached"), ran.stdout + ran.stderr
    assert says in ran.stdout + ran.stderr
