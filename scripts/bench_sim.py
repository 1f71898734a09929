"""How fast the simulator is, against an older commit on the same machine in the same run.

usage: scripts/bench_sim.py [--runs N] [--base COMMIT] [--only NAME ...] [--no-suite] [--no-build] [--json FILE]

Both trees are built (the older one as a worktree under target/bench-sim) and measured in turn, older, newer, older and
so on; ratios are taken pair by pair, so that a machine whose speed drifts does not matter, and their median is printed.
Measured are cycles per second of two cards under four loads (tests/system/examples/sim_speed.rs, compiled against both
trees), the wall time of unmodified programs through `hca run --pair`, and tests per minute of the system suite.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "bench-sim"
# The state before the simulator was made faster.
BASE = "920244e"
SPEED = "tests/system/examples/sim_speed.rs"
LOADS = ["bulk", "storm", "pingpong", "idle"]
PROGRAMS = {
    "ibv_rc_pingpong": ["ibv_rc_pingpong", "-g", "1"],
    "ib_write_bw -a -n 5": ["ib_write_bw", "-a", "-n", "5"],
    "ib_write_lat -n 1000": ["ib_write_lat", "-n", "1000"],
}
# `hca perf` with its start; of this tree with a thread per card, which the older one does not have.
PERF = {
    "perf bulk": ["--size", "64k", "--iters", "200"],
    "perf storm": ["--size", "64", "--qps", "64", "--outstanding", "64", "--signal-every", "16"],
}
THREADS = ["--threads", "2"]
# Cards behind a switch, by threads; of this tree alone (tests/system/examples/star.rs).
STAR = "four cards"
STAR_SOURCE = "tests/system/examples/star.rs"
STAR_THREADS = [1, 2, 4]
SUITE = "system suite"
LIMIT_S = 3600


class Tree:
    """A checkout and what is built from it."""

    def __init__(self, name, path, target):
        self.name, self.path, self.target = name, path, target

    def cargo(self, *arguments):
        environment = os.environ | {"CARGO_TARGET_DIR": str(self.target)}
        return subprocess.run(["cargo", *arguments], cwd=self.path, env=environment, text=True, timeout=LIMIT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def build(self, suite):
        say(f"building {self.name} ({self.path})")
        examples = ["--example", "sim_speed"] + (["--example", "star"] if (self.path / STAR_SOURCE).exists() else [])
        wanted = [["-p", "hca", "-p", "hca-capi"], ["-p", "hca-system-tests", *examples]]
        for packages in wanted:
            done = self.cargo("build", "--release", *packages)
            if done.returncode:
                sys.exit(f"bench-sim: {self.name} does not build:\n{done.stdout[-3000:]}")
        if suite:
            self.cargo("test", "--release", "--no-run", "-p", "hca-system-tests")

    def program(self, name):
        return self.target / "release" / name

    def has_threads(self):
        options = subprocess.run([self.program("hca"), "perf", "--help"], check=True, text=True, stdout=subprocess.PIPE)
        return THREADS[0] in options.stdout


def say(text):
    """Progress, beside the table."""
    print(f"bench-sim: {text}", file=sys.stderr, flush=True)


def older_tree(commit):
    """A worktree of the commit with the tools of this checkout and this bench's example."""
    path = FOLDER / "tree"
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], text=True,
                           stdout=subprocess.PIPE)
    if found.returncode:
        sys.exit(f"bench-sim: commit {commit} is not in this clone: git fetch --unshallow, or name another with --base")
    if path.exists():
        subprocess.run(["git", "-C", str(path), "checkout", "--quiet", "--force", "--detach", commit], check=True)
    else:
        subprocess.run([*git, "worktree", "prune"], check=True)
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(path), commit], check=True)
    for tools in (".tools", ".venv"):
        if not (path / tools).exists():
            (path / tools).symlink_to(ROOT / tools)
    example = path / SPEED
    if not example.exists() or example.read_bytes() != (ROOT / SPEED).read_bytes():
        shutil.copyfile(ROOT / SPEED, example)
    return Tree(f"before ({commit})", path, FOLDER / "build")


def run_load(tree, name):
    """{measure: per second} of one load."""
    output = subprocess.run([tree.program("examples/sim_speed"), name], check=True, text=True, timeout=LIMIT_S,
                            stdout=subprocess.PIPE).stdout
    row = json.loads(output)
    wall_s, cpu_s = max(row["wall_s"], 1e-4), max(row["cpu_s"], 1e-4)
    return {f"{name}: simulated cycles/s": row["simulated_cycles"] / wall_s,
            f"{name}: evaluated card cycles/s": row["evaluated_card_cycles"] / wall_s,
            f"{name}: simulated cycles per cpu s": row["simulated_cycles"] / cpu_s}


def wall(tree, name, *arguments):
    """(seconds, output) of `hca` with these arguments."""
    start = time.monotonic()
    done = subprocess.run([tree.program("hca"), *arguments], timeout=LIMIT_S, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"bench-sim: {name} of {tree.name} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return time.monotonic() - start, done.stdout


def run_program(tree, name):
    """Of a program on both cards, of which the second finds the first by this machine's address."""
    command = PROGRAMS[name]
    seconds, _ = wall(tree, name, "run", "--pair", "--", *command, "---", *command, "127.0.0.1")
    return {f"{name}: wall s": seconds}


def run_perf(tree, name):
    """Of the whole command, and what it says of itself."""
    threads = THREADS if tree.has_threads() else []
    seconds, output = wall(tree, name, "perf", "--json", *PERF[name], *threads)
    return {f"{name}: simulated cycles/s": json.loads(output)["sim_cycles_per_wall_s"], f"{name}: wall s": seconds}


def run_suite(tree, _name):
    """{measure: per minute} of the system suite, which has been built."""
    start = time.monotonic()
    done = tree.cargo("test", "--release", "--no-fail-fast", "-p", "hca-system-tests", "--tests")
    minutes = (time.monotonic() - start) / 60
    passed = sum(int(number) for number in re.findall(r"^test result:.* (\d+) passed", done.stdout, re.MULTILINE))
    failed = sum(int(number) for number in re.findall(r"^test result:.* (\d+) failed", done.stdout, re.MULTILINE))
    if failed or not passed:
        say(f"{SUITE} of {tree.name}: {passed} passed, {failed} failed")
    return {f"{SUITE}: tests/min": passed / minutes}


def run_star(tree, threads):
    """(cycles per second, processors at work on average) of four cards behind a switch."""
    start = os.times()
    done = subprocess.run([tree.program("examples/star"), str(threads)], check=True, text=True, timeout=LIMIT_S,
                          stdout=subprocess.PIPE)
    end = os.times()
    row = json.loads(done.stdout)
    cpu_s = end.children_user + end.children_system - start.children_user - start.children_system
    return row["simulated_cycles"] / row["wall_s"], cpu_s / (end.elapsed - start.elapsed)


def measure_star(tree, runs):
    """[{threads, cycles_per_s, processors, times_one_thread}]: medians; the numbers of threads in turn."""
    say(f"{STAR} behind a switch with {', '.join(map(str, STAR_THREADS))} threads, {runs} times")
    rounds = [[run_star(tree, threads) for threads in STAR_THREADS] for _ in range(runs)]
    rows = []
    for column, threads in enumerate(STAR_THREADS):
        results = [row[column] for row in rounds]
        rows.append({"threads": threads, "cycles_per_s": median(rate for rate, _ in results),
                     "processors": median(processors for _, processors in results),
                     "times_one_thread": median(row[column][0] / row[0][0] for row in rounds)})
    return rows


def show_star(rows):
    """The same, after the other table."""
    print(f"\n{STAR} behind a switch, this tree, on {os.cpu_count()} processors:\n")
    show_table(["threads", "cycles/s", "processors at work", "times one thread"],
               [[str(row["threads"]), figure(row["cycles_per_s"]), figure(row["processors"]),
                 f"{row['times_one_thread']:.2f}"] for row in rows])


def measure(trees, tasks, runs):
    """{measure: [(before, after), ...]}, the trees in turn."""
    rows, start = {}, time.monotonic()
    for number, (name, function, repeat) in enumerate(tasks, 1):
        for turn in range(min(runs, repeat)):
            say(f"[{number}/{len(tasks)}, {time.monotonic() - start:.0f} s] {name}, pair {turn + 1}")
            before, after = (function(tree, name) for tree in trees)
            for key in before:
                rows.setdefault(key, []).append((before[key], after[key]))
    return rows


def summary(rows):
    """[{measure, before, after, times_faster}]: medians."""
    table = []
    for key, pairs in rows.items():
        slower_is_more = key.endswith("wall s")
        ratios = [old / new if slower_is_more else new / old for old, new in pairs]
        table.append({"measure": key, "before": median(old for old, _ in pairs),
                      "after": median(new for _, new in pairs), "times_faster": median(ratios), "pairs": pairs})
    return table


def figure(value):
    """Three digits that count, with thousands apart."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show(table):
    """The table in Markdown."""
    show_table(["measure", "before", "now", "times faster"],
               [[row["measure"], figure(row["before"]), figure(row["after"]), f"{row['times_faster']:.2f}"]
                for row in table])


def show_table(head, cells):
    """Markdown, the first column to the left."""
    widths = [max(len(row[column]) for row in [head, *cells]) for column in range(len(head))]
    for index, row in enumerate([head, *cells]):
        print("| " + " | ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                                for column, (cell, width) in enumerate(zip(row, widths))) + " |")
        if index == 0:
            print("|" + "|".join("-" * (width + 1) + (":" if column else "-")
                                 for column, width in enumerate(widths)) + "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*LOADS, STAR, *PERF, *PROGRAMS, SUITE]
    parser.add_argument("--runs", type=int, default=3, help="pairs of each measure (default 3; the suite: one)")
    parser.add_argument("--base", default=BASE, help=f"the older commit (default {BASE})")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names,
                        help="some of: " + ", ".join(names))
    parser.add_argument("--no-suite", action="store_true", help="leave the system suite out: it takes minutes")
    parser.add_argument("--no-build", action="store_true", help="measure what was built the last time; no suite")
    parser.add_argument("--json", type=Path, default=FOLDER / "speed.json", help="where the figures go")
    args = parser.parse_args()
    suite = SUITE in args.only and not args.no_suite and not args.no_build
    tasks = [(name, run_load, args.runs) for name in LOADS if name in args.only]
    tasks += [(name, run_perf, args.runs) for name in PERF if name in args.only]
    programs = [name for name in PROGRAMS if name in args.only and shutil.which(PROGRAMS[name][0])]
    tasks += [(name, run_program, args.runs) for name in programs]
    tasks += [(SUITE, run_suite, 1)] if suite else []
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    older = Tree(f"before ({args.base})", FOLDER / "tree", FOLDER / "build") if args.no_build else older_tree(args.base)
    trees = [older, Tree("this tree", ROOT, ROOT / target)]
    for tree in trees:
        if not args.no_build:
            tree.build(suite)
        elif not tree.program("hca").exists():
            sys.exit(f"bench-sim: {tree.program('hca')} is not there: run once without --no-build")
    runs = max(1, args.runs)
    table = summary(measure(trees, tasks, runs))
    show(table)
    star = measure_star(trees[1], runs) if STAR in args.only else []
    if star:
        show_star(star)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"base": args.base, "cores": os.cpu_count(), "runs": args.runs, "rows": table,
                                     STAR.replace(" ", "_"): star},
                                    indent=1) + "\n")
    say(f"figures in {args.json}")


if __name__ == "__main__":
    main()
