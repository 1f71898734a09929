"""What the options of Verilator and of the C++ compiler do to the speed of the models.

usage: scripts/bench_compiler.py [--runs N] [--only NAME ...]

Builds tests/system/examples/sim_speed.rs once with each variant (target/bench-sim/variants) and runs the variants in
turn, so that a machine whose speed drifts does not matter. Figures are processor time per evaluated card cycle, the
least of all runs; `build` is the processor time of the models.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "bench-sim" / "variants"
LOADS = ["bulk", "storm", "pingpong"]
NATIVE = "-march=native"
# Name: what differs from the ordinary build.
VARIANTS = {
    "clang++ -O2, as built": {},
    "clang++ -O3": {"HCA_VSIM_CFLAGS": f"-O3 {NATIVE}"},
    "clang++ -Os": {"HCA_VSIM_CFLAGS": f"-Os {NATIVE}"},
    "clang++ -O1": {"HCA_VSIM_CFLAGS": f"-O1 {NATIVE}"},
    "clang++ -O2 for any x86-64": {"HCA_VSIM_CFLAGS": "-O2"},
    "clang++-19 -O2": {"HCA_VSIM_CXX": "clang++-19"},
    "g++ -O2": {"HCA_VSIM_CXX": "g++"},
    "Verilator --x-assign 0": {"HCA_VSIM_VERILATOR_FLAGS": "--x-assign 0"},
    "Verilator --x-initial 0": {"HCA_VSIM_VERILATOR_FLAGS": "--x-initial 0"},
    "Verilator --output-split 5000": {"HCA_VSIM_VERILATOR_FLAGS": "--output-split 5000"},
    "Verilator --inline-mult 20000": {"HCA_VSIM_VERILATOR_FLAGS": "--inline-mult 20000"},
    "Verilator --unroll-count 256": {"HCA_VSIM_VERILATOR_FLAGS": "--unroll-count 256"},
    "Verilator, no assertions": {"HCA_VSIM_VERILATOR_FLAGS": "--no-assert"},
    "no waveforms": {"HCA_VSIM_TRACE": "0"},
}


def say(text):
    """Progress, beside the table."""
    print(f"bench-compiler: {text}", file=sys.stderr, flush=True)


def build(name, number):
    """(program of a variant, processor seconds of its build); no program where it does not build. A name that is none:
    one that is built fast, so that the Rust code is there."""
    program = FOLDER / f"sim_speed{number}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variant = VARIANTS.get(name, {"HCA_VSIM_CFLAGS": "-O0"})
    environment = os.environ | variant | {"CARGO_TARGET_DIR": str(FOLDER), "CCACHE_DISABLE": "1"}
    command = ["cargo", "build", "--release", "-p", "hca-system-tests", "--example", "sim_speed"]
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        say(f"{name} does not build:\n{done.stdout[-1500:]}")
        return None, 0
    shutil.copy2(FOLDER / "release" / "examples" / "sim_speed", program)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return program, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def nanoseconds(program, load):
    """Processor time of a card cycle."""
    output = subprocess.run([program, load], check=True, text=True, stdout=subprocess.PIPE).stdout
    row = json.loads(output)
    return row["cpu_s"] * 1e9 / row["evaluated_card_cycles"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each variant (default 5)")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, metavar="NAME", default=list(VARIANTS),
                        help="some of: " + ", ".join(VARIANTS))
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    start, programs, cost_s, least_ns = time.monotonic(), {}, {}, {}
    say("building all that is not measured")
    build("", 0)
    for number, name in enumerate(args.only):
        say(f"[{number + 1}/{len(args.only)}, {time.monotonic() - start:.0f} s] building {name}")
        program, cost_s[name] = build(name, number)
        if program:
            programs[name] = program
    for turn in range(max(1, args.runs)):
        say(f"run {turn + 1} of {args.runs}, {time.monotonic() - start:.0f} s")
        for name, program in programs.items():
            for load in LOADS:
                figure = nanoseconds(program, load)
                least_ns[name, load] = min(figure, least_ns.get((name, load), figure))
    print(f"| Variant | {' | '.join(f'{load}, ns' for load in LOADS)} | build, s |")
    print("|---|" + "---:|" * (len(LOADS) + 1))
    for name in programs:
        print(f"| {name} | {' | '.join(f'{least_ns[name, load]:.0f}' for load in LOADS)} | {cost_s[name]:.0f} |")


if __name__ == "__main__":
    main()
