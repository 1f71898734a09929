"""Runs the points of a sweep on a Dask cluster: those that `hca sweep FILE` runs, each by `hca sweep FILE --point`.

    .venv/bin/python scripts/sweep_dask.py FILE --scheduler tcp://host:8786     on a cluster that is there
    .venv/bin/python scripts/sweep_dask.py FILE --workers 4                     on this machine

Workers need the program at the same path (--hca), and nothing else: the sweep's file travels with the task, the result
with its answer. Results go to DIR/parts/dask.jsonl as they come, a line each, and into DIR/results.jsonl in the end, so
that a stopped sweep goes on, here or with `hca sweep FILE`. Needs `dask` and `distributed`: scripts/setup.sh studies.
Exit code: 0 all points ended well; 1 some failed; 2 the sweep could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# A point that a lost worker had is given to others this often.
RETRIES = 2


def run_point(hca: str, text: str, point: str) -> str:
    """On a worker: runs one point, and returns its result as a line of JSON."""
    with tempfile.TemporaryDirectory(prefix="hca-sweep-") as folder:
        file = Path(folder, "sweep.toml")
        file.write_text(text)
        command = [hca, "sweep", str(file), "--out", folder, "--point", point, "--print"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.endswith("}\n"):
        # Not even a result that says that the point failed.
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def points_due(hca: str, file: Path, out: Path, retry: bool) -> list[str]:
    """Names of the points that have to be run."""
    command = [hca, "sweep", str(file), "--out", str(out), "--dry-run", "--json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        print(listed.stderr.strip(), file=sys.stderr)
        raise SystemExit(2)
    points = [json.loads(line) for line in listed.stdout.splitlines()]
    wanted = {"due", "failed"} if retry else {"due"}
    return [point["id"] for point in points if point["state"] in wanted]


def merge(hca: str, file: Path, out: Path) -> int:
    """Takes results over into DIR/results.jsonl; the exit code says whether all went well."""
    parts = out / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    return subprocess.run([hca, "sweep", str(file), "--out", str(out), "--merge", str(parts)], check=False).returncode


def collect(futures: list, out: Path, as_completed) -> int:
    """Keeps each result as soon as it is there; returns how many points gave none."""
    lost = 0
    (out / "parts").mkdir(parents=True, exist_ok=True)
    with (out / "parts" / "dask.jsonl").open("a") as results:
        for number, future in enumerate(as_completed(futures), 1):
            try:
                results.write(future.result())
                results.flush()
                os.fsync(results.fileno())
            except Exception as error:  # noqa: BLE001 - whatever a worker or its loss raises, the others go on
                lost += 1
                print(f"\nsweep_dask: {future.key}: {error}", file=sys.stderr)
            print(f"\r{number} of {len(futures)} points", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what to run: docs/sweeps.md")
    parser.add_argument("--out", type=Path, help="folder of results [default: as hca sweep has it]")
    parser.add_argument("--hca", default="target/release/hca", help="the program, on every worker [%(default)s]")
    parser.add_argument("--retry", action="store_true", help="run again what has failed")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", help="address of a cluster")
    where.add_argument("--workers", type=int, help="workers on this machine [its cores]")
    args = parser.parse_args()
    out = args.out or Path("target/sweep", args.file.stem)
    hca = str(Path(args.hca).resolve())

    from dask.distributed import Client, LocalCluster, as_completed

    # What an earlier run had left to be taken over is not run again.
    if (out / "parts").is_dir() and merge(hca, args.file, out) == 2:
        return 2
    due = points_due(hca, args.file, out, args.retry)
    if not due:
        return merge(hca, args.file, out)
    text = args.file.read_text()
    cluster = None
    if not args.scheduler:
        workers = args.workers or os.cpu_count() or 1
        # One thread each: a point takes a core. No dashboard: nothing listens but for the workers, on this machine.
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    with Client(args.scheduler or cluster) as client:
        # The points of a stopped run may still be known to the scheduler: their names are this one's own.
        keys = [f"hca-{point}-{os.getpid()}" for point in due]
        futures = [
            client.submit(run_point, hca, text, point, key=key, retries=RETRIES, pure=False)
            for point, key in zip(due, keys, strict=True)
        ]
        lost = collect(futures, out, as_completed)
    if cluster:
        cluster.close()
    return max(merge(hca, args.file, out), int(lost > 0))


if __name__ == "__main__":
    sys.exit(main())
