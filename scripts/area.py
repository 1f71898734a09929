"""Area of every block of the card (one port, eight VLs), by open synthesis for UltraScale+ (docs/area.md).

usage: scripts/area.py [--parts] [--least] [--publish] [--vary PARAMETER=A,B,..] [BLOCK ...]   (no name: every block)
Prints a table and writes target/area/area.json. Exit code 1 if a memory or an array became something else than block
RAM and is no exception of hw/area.toml.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from synth import hierarchy, mapping, page, pool
from synth.hierarchy import Block, Design

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "hw" / "area.toml"
PAGE = ROOT / "docs" / "area.md"
RESULT = ROOT / "target" / "area" / "area.json"
# What a cell of the library counts for. LUT memory is made of LUTs: RAM32M and the like of four, the X1D of two.
LOGIC = {r"LUT[1-6](_2)?|INV": 1}
LUT_RAM = {r"RAM(32|64)M": 4, r"RAM(32M16|64M8)": 8, r"RAM(32|64)X1D": 2, r"RAM(32|64)X1S": 1, r"RAM128X1S": 2,
           r"RAM128X1D|RAM256X1S": 4, r"RAM256X1D|RAM512X1S": 8, r"SRL\w+": 1}
CELLS = {"LUT": LOGIC | LUT_RAM, "as RAM": LUT_RAM, "FF": {r"FD[CPRS]E": 1},
         "RAMB36": {r"RAMB36E2": 1, r"RAMB18E2": 0.5}, "URAM": {r"URAM288\w*": 1}, "DSP": {r"DSP48E2": 1}}
# packed: LUTs where two functions share one (scripts/synth/packing.py).
COLUMNS = ("LUT", "packed", *(name for name in CELLS if name != "LUT"))


@dataclass(frozen=True)
class Rules:
    """How large a memory or an array may be that is not in block RAM, how deep one may be that is in LUTs, and what is
    let off, with a reason."""

    bits: int
    places: int
    exceptions: tuple[tuple[str, str], ...]   # pattern of a name, reason

    @classmethod
    def read(cls, text: str) -> Rules:
        table = tomllib.loads(text)
        exceptions = tuple((entry["name"], entry["reason"]) for entry in table.get("exception", []))
        return cls(table["bits"], table["places"], exceptions)

    def used(self, name: str) -> str | None:
        """The exception that lets the name off."""
        return next((pattern for pattern, _ in self.exceptions if re.fullmatch(pattern, name)), None)


def count(cells: dict[str, int], weights: dict[str, float]) -> float:
    """Cells of a column, each with its weight."""
    return sum(number * weight for cell, number in cells.items() for pattern, weight in weights.items()
               if re.fullmatch(pattern, cell))


def area_of(summary: dict) -> dict[str, float]:
    counts = {name: count(summary["cells"], weights) for name, weights in CELLS.items()}
    return {"LUT": counts["LUT"], "packed": counts["LUT"] - summary["pairs"]} | counts


def strays(label: str, summary: dict, rules: Rules) -> Iterator[tuple[str, int, str]]:
    """(name, bits, what it became) of everything large that is not in block RAM, exceptions among them."""
    for memory in summary["memories"]:
        bits = memory["width"] * memory["depth"]
        if memory["depth"] <= rules.places and memory["becomes"].startswith("LUTRAM"):
            continue
        if bits > rules.bits and not re.match(r"BLOCKRAM|URAM", memory["becomes"]):
            yield f"{label}.{memory['name']}", bits, memory["becomes"]
    for name, bits in summary["registers"].items():
        if bits > rules.bits:
            yield f"{label}.{name}", bits, "FF"


def tree(design: Design) -> Iterator[tuple[int, Block, int]]:
    """(depth, block, instances in the card) of all blocks, each once, below the first part that has it."""
    seen: set[Block] = set()

    def walk(block: Block, depth: int, number: int) -> Iterator[tuple[int, Block, int]]:
        if block in seen or (depth and block.module in hierarchy.CELLS):
            return
        seen.add(block)
        yield depth, block, number
        for child, times in sorted(design.children[block].items()):
            yield from walk(child, depth + 1, times)

    for part, number in sorted(design.parts().items()):
        yield from walk(part, 0, number)


def varied(design: Design, blocks: list[Block], text: str) -> list[tuple[int, Block, int]]:
    """Each block with each value of a parameter in the place of the card's."""
    name, _, values = text.partition("=")
    found = []
    for block in blocks:
        if name not in dict(block.parameters):
            raise ValueError(f"{block.module} has no parameter {name}")
        for value in values.split(","):
            parameters = tuple((key, value if key == name else old) for key, old in block.parameters)
            form = dataclasses.replace(block, parameters=parameters)
            design.children.setdefault(form, design.children[block])
            found.append((0, form, 1))
    return found


def figures(row: dict) -> list[str]:
    """The columns of a row; half a RAMB36 is a RAMB18."""
    return [f"{row[name]:.1f}" if row[name] % 1 else f"{row[name]:.0f}" for name in COLUMNS]


def page_table(rows: list[dict], total: dict[str, float] | None) -> str:
    """The table of the page; what is inside another block is indented."""
    cells = [["&emsp;" * row["depth"] + row["block"], str(row["instances"]), *figures(row)] for row in rows]
    cells += [["**total**", "", *figures(total)]] if total else []
    return page.markdown(["Block", "Instances", *COLUMNS], cells)


def table_of(rows: list[dict], total: dict[str, float] | None) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("block", no_wrap=True)
    for name in ("instances", *COLUMNS):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(Text("  " * row["depth"] + row["block"]), str(row["instances"]), *figures(row))
    if total:
        table.add_row("total", "", *figures(total), style="bold")
    return table


def judge(rows: list[dict], summaries: dict[str, dict], rules: Rules, whole: bool, say: Callable[[str], None]) -> int:
    """Says what is large and not in block RAM, and of the whole card which exceptions are in vain; the number of those
    without an exception."""
    failed, seen = 0, set()
    for row in rows:
        for name, bits, becomes in strays(row["block"], summaries[row["block"]], rules):
            # What a block inside another has was said there; parts alone are enough.
            if row["depth"] or name in seen:
                continue
            seen.add(name)
            if not rules.used(name):
                failed += 1
                say(f"FAIL: {name}, {bits} bits, became {becomes}: take a RAM of hw/rtl/lib or say why in hw/area.toml")
    unused = {pattern for pattern, _ in rules.exceptions} - {rules.used(name) for name in seen}
    for pattern in sorted(unused) if whole else ():
        say(f"note: the exception '{pattern}' of hw/area.toml lets nothing off")
    return failed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", action="store_true", help="only the blocks that the total is the sum of")
    parser.add_argument("--least", action="store_true", help="a card without all that it may be built without, for "
                        "four functions, with small pools: the defines that hierarchy.LEAST has")
    parser.add_argument("--vary", metavar="PARAMETER=A,B", help="the blocks named, with other values of a parameter")
    parser.add_argument("--publish", action="store_true", help="write the table into docs/area.md")
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help="modules, cells among them")
    return parser.parse_args()


def chosen(design: Design, args: argparse.Namespace) -> list[tuple[int, Block, int]]:
    """(depth, block, instances) of the rows."""
    if args.vary:
        return varied(design, design.named(args.blocks), args.vary)
    if args.blocks:
        return [(0, block, 1) for block in design.named(args.blocks)]
    return [row for row in tree(design) if not (args.parts and row[0])]


def main() -> None:
    args = arguments()
    rules = Rules.read(RULES.read_text())
    design = hierarchy.elaborate_for(args.blocks, hierarchy.LEAST if args.least else hierarchy.DEFINES)
    try:
        wanted = chosen(design, args)
    except ValueError as error:
        sys.exit(f"area: {error}")
    jobs = {block: mapping.job_of(design, block) for _, block, _ in wanted}
    sizes = {job: design.weight(block) for block, job in jobs.items()}
    summaries = {job.label: summary for job, summary in pool.run_all(list(sizes), mapping.mapped, sizes)}
    rows = [{"block": jobs[block].label, "depth": depth, "instances": number} | area_of(summaries[jobs[block].label])
            for depth, block, number in wanted]
    total, whole = None, not (args.blocks or args.vary)
    if whole:
        total = {name: sum(row[name] * row["instances"] for row in rows if not row["depth"]) for name in COLUMNS}
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"blocks": rows, "total": total}, indent=1))
    out = pool.console()
    out.print(table_of(rows, total))
    if args.publish:
        page.publish(PAGE, page_table(rows, total), "least" if args.least else "measured")
    failed = judge(rows, summaries, rules, whole and not args.least, lambda text: out.print(Text(text), soft_wrap=True))
    out.print(Text(f"area: {len(rows)} blocks, {failed} memories or arrays not where they belong"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
