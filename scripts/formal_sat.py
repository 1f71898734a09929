"""Proves one harness with Yosys' own SAT solver (MiniSat, bit by bit): induction over its assertions, then each goal.

usage: scripts/formal_sat.py TOP DEPTH COVER_DEPTH FLAGS FILE...
For proofs full of adders and tables, on which the SMT solver of SymbiYosys takes minutes and this one seconds. A cover
goal is reached when its contrary, as an assertion, fails.
"""

import re
import sys

from pyosys import libyosys as ys

# No pass that touches flip-flops: a symbolic constant is one that keeps an unknown value.
PREPARE = """read_slang --top {top} {flags} {files}
prep -top {top}
flatten
memory_map
async2sync
chformal -lower
opt_expr
opt_merge
dffunmap
simplemap t:$dff t:$mux
opt_clean -purge"""

COVER = re.compile(r"^  cell \$cover (\S+)\n(?:    .*\n)*?  end\n", re.MULTILINE)
LOGIC_NOT = """  wire {wire}
  cell $logic_not $cover_not
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A {signal}
    connect \\Y {wire}
  end
"""


def run(design, script):
    for line in script.splitlines():
        ys.run_pass(line, design)


def contrary(text, goal):
    """The design with one cover goal turned into the assertion that it is never reached."""
    cell = goal.group(0)
    signal = re.search(r"connect \\A (.*)\n", cell).group(1)
    never = LOGIC_NOT.format(wire="$cover_never", signal=signal)
    never += cell.replace("cell $cover", "cell $assert").replace(f"connect \\A {signal}", "connect \\A $cover_never")
    return text[:goal.start()] + never + text[goal.end():]


def main():
    top, depth, cover_depth, flags, *files = sys.argv[1:]
    design = ys.Design()
    run(design, PREPARE.format(top=top, flags=flags, files=" ".join(files)))
    run(design, "write_rtlil goals.il")
    with open("goals.il") as file:
        text = file.read()
    run(design, f"chformal -cover -remove\n"
                f"sat -tempinduct -seq 1 -prove-asserts -set-assumes -verify -maxsteps {depth} -show-public")
    for goal in COVER.finditer(text):
        with open("goal.il", "w") as file:
            file.write(contrary(text, goal))
        design = ys.Design()
        # Assertions are left out first: the one that stands for the goal must be the only one.
        run(design, f"read_rtlil goal.il\nselect -set goal {top}/{goal.group(1)}\n"
                    f"delete {top}/t:$assert @goal %d\nchformal -cover -remove\n"
                    f"sat -tempinduct-baseonly -seq 1 -prove-asserts -set-assumes -falsify -maxsteps {cover_depth}")
        print(f"formal: reached {goal.group(1)}", flush=True)


if __name__ == "__main__":
    main()
