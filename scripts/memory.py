"""Bits of every RAM of the card by the number of lines (docs/memory.md), from Verilator's view of the elaborated RTL.

usage: scripts/memory.py [--publish]
Prints the table, or writes it into the page. Exit code 1 if a RAM has no reason in hw/memory.toml, a reason has no RAM,
or the RAMs that grow with the lines have more bits than hw/memory.toml lets them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from synth import page

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "memory.md"
REASONS = ROOT / "hw" / "memory.toml"
LINES = (1024, 4096, 16384)
# Arrays of fewer bits are registers or LUTs.
SMALLEST_BITS = 2048


class Tree:
    """The design as `verilator --json-only` writes it."""

    def __init__(self, root: dict) -> None:
        self.modules = {module["addr"]: module for module in root["modulesp"] if module["type"] == "MODULE"}
        self.types: dict[str, dict] = {}
        self._find_types(root)

    def _find_types(self, node: object) -> None:
        if isinstance(node, dict):
            if str(node.get("type", "")).endswith("DTYPE") and "addr" in node:
                self.types[node["addr"]] = node
            for value in node.values():
                self._find_types(value)
        elif isinstance(node, list):
            for value in node:
                self._find_types(value)

    def bits(self, addr: str) -> int:
        """Width of a type; 0 of what is no hardware."""
        found = self.types.get(addr, {})
        kind = found.get("type")
        if kind == "BASICDTYPE":
            return _range(found["range"]) if found.get("range") else 1
        if kind in ("UNPACKARRAYDTYPE", "PACKARRAYDTYPE"):
            return _range(found["declRange"]) * self.bits(found.get("refDTypep", found["dtypep"]))
        if kind == "STRUCTDTYPE":
            return sum(self.bits(member["dtypep"]) for member in found["membersp"])
        if kind == "UNIONDTYPE":
            return max(self.bits(member["dtypep"]) for member in found["membersp"])
        if kind in ("REFDTYPE", "ENUMDTYPE", "DEFIMPLICITDTYPE", "MEMBERDTYPE"):
            return self.bits(found.get("refDTypep", found["dtypep"]))
        return 0

    def arrays(self, module: dict, path: tuple[str, ...] = ()) -> dict[str, int]:
        """Bits of each unpacked array below a module, by its path."""
        return self._arrays(module["stmtsp"], path)

    def _arrays(self, nodes: list[dict], path: tuple[str, ...]) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in nodes:
            if node["type"] == "CELL" and node["modp"] in self.modules:
                found |= self.arrays(self.modules[node["modp"]], (*path, node["name"]))
            elif node["type"] in ("GENBLOCK", "BEGIN"):
                inner = (*path, node["name"]) if node["name"] else path
                found |= self._arrays([*node.get("stmtsp", []), *node.get("itemsp", [])], inner)
            elif node["type"] == "VAR" and self.types.get(node["dtypep"], {}).get("type") == "UNPACKARRAYDTYPE":
                found[".".join((*path, node["name"]))] = self.bits(node["dtypep"])
        return found


@dataclass(frozen=True)
class Ram:
    """A RAM: its place in the card, and its bits for each number of lines."""

    name: str
    bits: tuple[int, ...]

    @property
    def grows(self) -> bool:
        """With the lines."""
        return len(set(self.bits)) > 1


@dataclass(frozen=True)
class Reasons:
    """Why each RAM is there, by pattern of its name, and how many bits those that grow may have with all lines."""

    most_bits: int
    rows: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path = REASONS) -> Reasons:
        table = tomllib.loads(path.read_text())
        return cls(table["most_bits"], tuple((row["name"], row["why"]) for row in table["ram"]))

    def of(self, ram: Ram) -> str | None:
        """Of a RAM: the first whose pattern fits."""
        return next((why for pattern, why in self.rows if re.fullmatch(pattern, ram.name)), None)


def _range(text: str) -> int:
    left, right = text.strip("[]").split(":")
    return abs(int(left) - int(right)) + 1


def elaborate(lines: int) -> Tree:
    """The card with one port."""
    verilator = os.environ.get("VERILATOR", str(ROOT / ".tools/verilator/bin/verilator"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "core.json"
        command = [verilator, "--json-only", "--json-only-output", str(out), "--Mdir", folder, "--no-timing",
                   "-Wno-fatal", "-Wno-lint", "-Wno-style", "--top-module", "hca_core",
                   f"+define+HCA_NUM_LINES={lines}", "+define+HCA_NUM_PORTS=1", "-f", "hw/filelists/hca_core.f"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return Tree(json.loads(out.read_text()))


def short_name(path: str) -> str:
    """Of a RAM: without what is inside its template, and without blocks that only say that the card has a feature."""
    return re.sub(r"\bgen_\w+\.(?=u_)", "", re.sub(r"(\.gen_ram\.u_ram|\.gen_regs)?\.mem$", "", path))


def rams() -> list[Ram]:
    """All of them, the largest ones first."""
    found = []
    for lines in LINES:
        tree = elaborate(lines)
        core = next(module for module in tree.modules.values() if module["name"] == "hca_core")
        found.append(tree.arrays(core))
    every = [Ram(short_name(name), tuple(bits.get(name, 0) for bits in found)) for name in found[-1]]
    large = [ram for ram in every if ram.bits[-1] >= SMALLEST_BITS]
    return sorted(large, key=lambda ram: (-ram.bits[-1], ram.name))


def table(every: list[Ram], reasons: Reasons) -> str:
    """The page's table: what grows, then the rest, with sums."""
    def row(name: str, bits: tuple[int, ...], why: str) -> list[str]:
        return [name, *(f"{number / 1024:,.0f}" for number in bits), why]

    def total(some: list[Ram]) -> tuple[int, ...]:
        return tuple(sum(ram.bits[n] for ram in some) for n in range(len(LINES)))

    parts = [("with the lines", [ram for ram in every if ram.grows]),
             ("whatever the lines", [ram for ram in every if not ram.grows])]
    rows = []
    for name, some in parts:
        rows += [row(f"`{ram.name}`", ram.bits, reasons.of(ram) or "") for ram in some]
        rows.append(row(f"**{name}**", total(some), ""))
    rows.append(row("**total**", total(every), ""))
    return page.markdown(["RAM", *(f"Kbit, {lines:,} lines" for lines in LINES), "Why"], rows)


def judge(every: list[Ram], reasons: Reasons) -> list[str]:
    """What is wrong."""
    found = [f"{ram.name} has no reason in hw/memory.toml" for ram in every if reasons.of(ram) is None]
    for pattern, _ in reasons.rows:
        if not any(re.fullmatch(pattern, ram.name) for ram in every):
            found.append(f"no RAM is called {pattern} (hw/memory.toml)")
    growing = sum(ram.bits[-1] for ram in every if ram.grows)
    if growing > reasons.most_bits:
        found.append(f"{LINES[-1]} lines take {growing} bits, {reasons.most_bits} at most are allowed")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publish", action="store_true", help="write the table into docs/memory.md")
    args = parser.parse_args()
    every, reasons = rams(), Reasons.read()
    text = table(every, reasons)
    if args.publish:
        page.publish(PAGE, text, "rams")
    else:
        print(text, end="")
    wrong = judge(every, reasons)
    for line in wrong:
        print(f"FAIL: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
