"""Proves one harness bit by bit with a SAT solver: induction over its assertions, then each goal.

usage: scripts/formal_sat.py ENGINE TOP DEPTH COVER_DEPTH FLAGS FILE...
For proofs full of adders and tables, on which the SMT solver of SymbiYosys takes minutes and this one seconds. ENGINE
is `sat`, Yosys' own MiniSat, or `cadical`, which is told of the step of the induction alone: where that one is large it
takes a tenth of the time. A cover goal is reached when its contrary, as an assertion, fails.
"""

import re
import subprocess
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
ASSERT = re.compile(r"^(?:  attribute .*\n)*  cell \$assert \S+\n    connect \\A (.*)\n    connect \\EN (.*)\n  end\n",
                    re.MULTILINE)
INIT = re.compile(r"^  attribute \\init .*\n", re.MULTILINE)
# One assertion holds, or is not asked for; all of them do.
HOLDS = """  wire $formal_holds{number}
  cell $mux $formal_mux{number}
    parameter \\WIDTH 1
    connect \\A 1'1
    connect \\B {signal}
    connect \\S {enable}
    connect \\Y $formal_holds{number}
  end
"""
ALL_HOLD = """  wire \\formal_all
  cell $reduce_and $formal_and
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH {count}
    parameter \\Y_WIDTH 1
    connect \\A {{ {wires} }}
    connect \\Y \\formal_all
  end
end
"""
UNSATISFIABLE = 20   # exit code of a SAT solver


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


def gathered(text):
    """The design without its initial state, and with one wire that says whether all assertions hold."""
    found = ASSERT.findall(text)
    if not found or len(found) != text.count("  cell $assert "):
        sys.exit("formal: there is no assertion, or one in a form that is not known here")
    cells = "".join(HOLDS.format(number=number, signal=signal, enable=enable)
                    for number, (signal, enable) in enumerate(found))
    wires = " ".join(f"$formal_holds{number}" for number in range(len(found)))
    rest = INIT.sub("", ASSERT.sub("", text)).rstrip().removesuffix("end")
    return rest + cells + ALL_HOLD.format(count=len(found), wires=wires)


def steps(text, depth):
    """Whether behind `depth` cycles in which all assertions hold comes one in which they do: asks CaDiCaL."""
    with open("step.il", "w") as file:
        file.write(gathered(text))
    design = ys.Design()
    known = " ".join(f"-set-at {cycle} formal_all 1" for cycle in range(1, depth + 1))
    # Yosys writes the question down, and may give up at once.
    run(design, f"read_rtlil step.il\nchformal -cover -remove\n"
                f"sat -seq {depth + 1} -set-assumes {known} -prove-skip {depth} "
                f"-prove formal_all 1 -dump_cnf step.cnf -timeout 1")
    return subprocess.run(["cadical", "-q", "-n", "step.cnf"], check=False).returncode == UNSATISFIABLE


def main():
    engine, top, depth, cover_depth, flags, *files = sys.argv[1:]
    design = ys.Design()
    run(design, PREPARE.format(top=top, flags=flags, files=" ".join(files)))
    run(design, "write_rtlil goals.il")
    with open("goals.il") as file:
        text = file.read()
    stepped = engine == "cadical" and steps(text, int(depth))
    # A step that fails is left to Yosys, which shows where.
    base = "-baseonly" if stepped else ""
    run(design, f"chformal -cover -remove\n"
                f"sat -tempinduct{base} -seq 1 -prove-asserts -set-assumes -verify -maxsteps {depth} -show-public")
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
