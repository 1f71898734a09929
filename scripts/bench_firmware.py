"""What the card's own processor costs the simulator while it sleeps: the same traffic with firmware on it and natively.

usage: scripts/bench_firmware.py [--runs N] [--only LOAD ...] [--limit PERCENT] [--no-build] [--json FILE]

Each load of tests/system/examples/sim_speed.rs runs in turn with firmware natively and on the core of both cards;
its figures begin when the queues are connected, so that firmware has nothing to do in either. Compared is processor
time per simulated cycle, the least of all runs of each: other work on the machine only ever adds to it. Ends with 1 if
a load is slower on the core by more than the limit.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import bench_sim

FOLDER = bench_sim.FOLDER
# `idle` takes no processor time with either.
LOADS = ["bulk", "storm", "pingpong"]
PROCESSORS = ["native", "core"]
# The goal: a core that waits in WFI is not evaluated.
LIMIT_PERCENT = 5


def say(text):
    """Progress, beside the table."""
    print(f"bench-firmware: {text}", file=sys.stderr, flush=True)


def run_load(program, load, processor):
    """What the example says of one run."""
    done = subprocess.run([program, load], env=os.environ | {"HCA_FIRMWARE": processor}, text=True,
                          timeout=bench_sim.LIMIT_S, capture_output=True)
    if done.returncode:
        sys.exit(f"bench-firmware: {load} with firmware {processor} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def measure(run, loads, runs):
    """{load: {processor: [one run, ...]}}, the processors in turn."""
    rows = {load: {processor: [] for processor in PROCESSORS} for load in loads}
    for load in loads:
        for turn in range(runs):
            say(f"{load}, pair {turn + 1} of {runs}")
            for processor in PROCESSORS:
                rows[load][processor].append(run(load, processor))
    return rows


def summary(rows):
    """[{load, cycles, native_ns, core_ns, slower_percent}]: nanoseconds of processor time per simulated cycle."""
    table = []
    for load, found in rows.items():
        cycles = {processor: {run["simulated_cycles"] for run in found[processor]} for processor in PROCESSORS}
        if len(cycles["native"] | cycles["core"]) != 1:
            sys.exit(f"bench-firmware: {load} takes {cycles} cycles: it is not the same traffic, so firmware has "
                     "worked")
        simulated = cycles["native"].pop()
        native, core = (min(run["cpu_s"] for run in found[processor]) * 1e9 / simulated for processor in PROCESSORS)
        table.append({"load": load, "cycles": simulated, "native_ns": native, "core_ns": core,
                      "slower_percent": 100 * (core / native - 1)})
    return table


def show(table):
    bench_sim.show_table(
        ["load", "simulated cycles", "natively, ns", "on the core, ns", "slower"],
        [[row["load"], bench_sim.figure(row["cycles"]), bench_sim.figure(row["native_ns"]),
          bench_sim.figure(row["core_ns"]), f"{row['slower_percent']:+.1f} %"] for row in table])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="pairs of each load (default 7)")
    parser.add_argument("--only", nargs="+", choices=LOADS, metavar="LOAD", default=LOADS,
                        help="some of: " + ", ".join(LOADS))
    parser.add_argument("--limit", type=float, default=LIMIT_PERCENT, metavar="PERCENT",
                        help=f"how much slower a load may be (default {LIMIT_PERCENT})")
    parser.add_argument("--no-build", action="store_true", help="measure what was built the last time")
    parser.add_argument("--json", type=Path, default=FOLDER / "firmware.json", help="where the figures go")
    args = parser.parse_args()
    target = bench_sim.ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    tree = bench_sim.Tree("this tree", bench_sim.ROOT, target)
    program = tree.program("examples/sim_speed")
    if not args.no_build:
        done = tree.cargo("build", "--release", "-p", "hca-system-tests", "--example", "sim_speed")
        if done.returncode:
            sys.exit(f"bench-firmware: this tree does not build:\n{done.stdout[-3000:]}")
    elif not program.exists():
        sys.exit(f"bench-firmware: {program} is not there: run once without --no-build")
    table = summary(measure(lambda load, processor: run_load(program, load, processor), args.only, max(1, args.runs)))
    show(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"runs": args.runs, "rows": table}, indent=1) + "\n")
    say(f"figures in {args.json}")
    slow = [row["load"] for row in table if row["slower_percent"] > args.limit]
    if slow:
        sys.exit(f"bench-firmware: {', '.join(slow)}: more than {args.limit:g} % slower with a core that sleeps; on a "
                 "machine with other work more --runs tell noise from cost")


if __name__ == "__main__":
    main()
