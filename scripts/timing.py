"""Worst paths of every block of the card, estimated by open synthesis for UltraScale+ (docs/timing.md).

usage: scripts/timing.py [--check] [--parts] [--least] [--paths N] [--accept] [--publish] [BLOCK ...]   (none: all)
Prints a table and writes target/timing/timing.json. Exit code 1 if a block is over its budget (hw/timing.toml).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from synth import hierarchy, mapping, page, paths, pool

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "hw" / "timing.toml"
PAGE = ROOT / "docs" / "timing.md"
RESULT = ROOT / "target" / "timing" / "timing.json"
DEBT_MARK = "[debt]\n"
# Better than its ceiling by this much: worth lowering it.
SPARE_NS = 0.3
STYLES = {"ok": "green", "debt": "yellow", "FAIL": "bold red"}


@dataclass(frozen=True)
class Budgets:
    """The goal of all blocks, the ceilings of those that miss it today, and the blocks that CI looks at."""

    goal_ns: float
    debt: dict[str, float]
    check: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Budgets:
        table = tomllib.loads(text)
        return cls(table["goal_ns"], table.get("debt", {}), tuple(table.get("check", [])))

    def of(self, module: str) -> float:
        return self.debt.get(module, self.goal_ns)

    def verdict(self, module: str, worst_ns: float) -> str:
        if worst_ns <= self.goal_ns:
            return "ok"
        return "debt" if worst_ns <= self.of(module) else "FAIL"


def estimate(job: mapping.Job) -> dict:
    """The block's paths, computed once for a netlist and a state of the analysis."""
    mapping.mapped(job)
    state = hashlib.sha256(Path(paths.__file__).read_bytes()).hexdigest()
    kept = job.folder / "paths.json"
    if kept.exists() and (known := json.loads(kept.read_text()))["state"] == state:
        return known
    found = paths.analyse(mapping.read_netlist(job)) | {"state": state}
    kept.write_text(json.dumps(found))
    return found


def row_of(job: mapping.Job, found: dict, budgets: Budgets) -> dict:
    """One block, as the table and the JSON have it. A block of wires alone has no path."""
    worst = found["paths"][0] if found["paths"] else {"ns": 0.0, "luts": 0, "carries": 0, "start": "", "end": ""}
    over = sum(number for ns, number in found["ends"].items() if float(ns) > budgets.goal_ns)
    return {"block": job.label, "module": job.module, "worst_ns": worst["ns"], "luts": worst["luts"],
            "carries": worst["carries"], "start": worst["start"], "end": worst["end"],
            "budget_ns": budgets.of(job.module), "verdict": budgets.verdict(job.module, worst["ns"]),
            "ends": sum(found["ends"].values()), "ends_over_goal": over, "loops": found["loops"],
            "paths": found["paths"]}


def table_of(rows: list[dict]) -> Table:
    """Worst block first."""
    table = Table(box=None, header_style="bold")
    for name in ("block", "worst ns", "LUTs", "carries", "start", "end", "ends over goal", "budget", ""):
        right = name in ("worst ns", "LUTs", "carries", "ends over goal", "budget")
        table.add_column(name, justify="right" if right else "left", overflow="ellipsis", no_wrap=True,
                         max_width=44 if name in ("block", "start", "end") else None)
    for row in rows:
        texts = [row["block"], f"{row['worst_ns']:.2f}", row["luts"], row["carries"], row["start"], row["end"],
                 f"{row['ends_over_goal']}/{row['ends']}", f"{row['budget_ns']:.1f}"]
        # Text, not markup: names have brackets.
        table.add_row(*(Text(str(text)) for text in texts), Text(row["verdict"], STYLES[row["verdict"]]))
    return table


def notes(rows: list[dict], budgets: Budgets, known: set[str]) -> list[str]:
    """What a reader of the table should do."""
    worst: dict[str, float] = {}
    for row in rows:
        worst[row["module"]] = max(worst.get(row["module"], 0.0), row["worst_ns"])
    found = [f"{module} is {ns:.2f} ns: its ceiling of {budgets.debt[module]} can come down"
             for module, ns in worst.items() if module in budgets.debt and ns < budgets.debt[module] - SPARE_NS]
    found += [f"{row['block']} has a combinational loop of {row['loops']} nets" for row in rows if row["loops"]]
    return found + [f"{module} has a ceiling and does not exist" for module in budgets.debt if module not in known]


def page_table(rows: list[dict]) -> str:
    """The table of the page."""
    names = ["Block", "Worst ns", "LUTs", "Carries", "From", "To", "Ends over the goal"]
    cells = [[row["block"], f"{row['worst_ns']:.2f}", str(row["luts"]), str(row["carries"]), f"`{row['start']}`",
              f"`{row['end']}`", f"{row['ends_over_goal']} of {row['ends']}"] for row in rows]
    return page.markdown(names, cells)


def print_paths(rows: list[dict], number: int, out) -> None:
    for row in rows:
        out.print(Text(f"\n{row['block']}", "bold"))
        for path in row["paths"][:number]:
            via = " > ".join(path["via"])
            out.print(Text(f"  {path['ns']:6.2f} ns {path['luts']:3} LUTs {path['carries']:2} carries  "
                           f"{path['start']} -> {path['end']}   {via}"), soft_wrap=True)


def accepted(text: str, rows: list[dict], budgets: Budgets) -> str:
    """The budget file with what was measured as the ceilings of these blocks."""
    debt = dict(budgets.debt)
    for module in {row["module"] for row in rows}:
        worst = max(row["worst_ns"] for row in rows if row["module"] == module)
        debt.pop(module, None)
        if worst > budgets.goal_ns:
            debt[module] = math.ceil(worst * 10 - 1e-6) / 10
    head = text.partition(DEBT_MARK)[0] + DEBT_MARK
    return head + "".join(f"{module} = {debt[module]}\n" for module in sorted(debt))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only the blocks that CI looks at")
    parser.add_argument("--parts", action="store_true", help="only the blocks that no other one has in it")
    parser.add_argument("--least", action="store_true", help="of the least card (as make area ARGS=--least)")
    parser.add_argument("--paths", type=int, default=0, metavar="N", help="print N paths with different starts of each")
    parser.add_argument("--accept", action="store_true", help="write what was measured as ceilings to hw/timing.toml")
    parser.add_argument("--publish", action="store_true", help="write the table into docs/timing.md")
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help="modules, cells among them")
    args = parser.parse_args()
    if args.least and (args.publish or args.accept):
        parser.error("--least: the page and the ceilings are the whole card's")
    return args


def main() -> None:
    args = arguments()
    text = BUDGETS.read_text()
    budgets = Budgets.read(text)
    design = hierarchy.elaborate_for(args.blocks, hierarchy.LEAST if args.least else hierarchy.DEFINES)
    try:
        wanted = args.blocks or (budgets.check if args.check else ())
        blocks = design.named(wanted) if wanted else list(design.parts()) if args.parts else design.blocks()
    except ValueError as error:
        sys.exit(f"timing: {error}")
    sizes = {mapping.job_of(design, block): design.weight(block) for block in blocks}
    rows = [row_of(job, found, budgets) for job, found in pool.run_all(list(sizes), estimate, sizes)]
    rows.sort(key=lambda row: (-row["worst_ns"], row["block"]))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"goal_ns": budgets.goal_ns, "delays_ns": vars(paths.Delays()), "blocks": rows},
                                 indent=1))
    out = pool.console()
    out.print(table_of(rows))
    if args.paths:
        print_paths(rows, args.paths, out)
    for note in notes(rows, budgets, set(design.files)):
        out.print(Text(f"note: {note}"))
    if args.publish:
        page.publish(PAGE, page_table(rows))
    if args.accept:
        BUDGETS.write_text(accepted(text, rows, budgets))
        return
    failed = sum(row["verdict"] == "FAIL" for row in rows)
    met = sum(row["verdict"] == "ok" for row in rows)
    out.print(Text(f"timing: {len(rows)} blocks, {met} within {budgets.goal_ns} ns, "
                   f"{len(rows) - met - failed} in debt, {failed} over budget"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
