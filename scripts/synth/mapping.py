"""Maps one block onto UltraScale+ cells with Yosys, and keeps the result until a source of the block changes."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from synth import cells, packing, paths
from synth.hierarchy import Block, Design

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "synth"
LIMIT_S = 3600

MAPPER = Path(__file__).with_name("mapper.py")
READ = "read_slang --top {top} {options} {sources}"
# Netlists that miss the goal are equally fast if they differ by less.
SAME_NS = 0.05


@dataclass(frozen=True)
class Job:
    """A block to be mapped, free of everything that cannot go to another process."""

    label: str
    module: str
    folder: Path
    read: str


@dataclass(frozen=True)
class Memory:
    """A memory of the block, and what it became: a RAM primitive of Yosys' library, or FF."""

    name: str
    width: int
    depth: int
    becomes: str

    @property
    def bits(self) -> int:
        return self.width * self.depth


def job_of(design: Design, block: Block) -> Job:
    """The block's script, and the folder of its result: named by a hash of all that the result depends on."""
    sources = design.sources(block)
    headers = sorted(path for folder in design.include_dirs for path in folder.glob("*.svh"))
    options = [f"-D {define}" for define in design.defines] + [f"-I {folder}" for folder in design.include_dirs]
    options += [f"-G {name}={value}" for name, value in block.parameters]
    tool = (MAPPER.read_bytes(), cells.for_mapper(), cells.searches(), version("pyosys"))
    digest = hashlib.sha256(repr((tool, block, design.defines)).encode())
    for path in [*sources, *headers]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    read = READ.format(top=block.module, options=" ".join(options), sources=" ".join(map(str, sources)))
    return Job(design.label(block), block.module, FOLDER / f"{block.module}-{digest.hexdigest()[:16]}", read)


def is_mapped(job: Job) -> bool:
    """The result is there: its summary is written last."""
    return (job.folder / "summary.json").exists()


def mapped(job: Job) -> dict:
    """The summary of the block: {"cells": {type: number}, "pairs": number of functions that share a LUT (`packing`),
    "memories": [...], "registers": {name: bits}}."""
    path = job.folder / "summary.json"
    if not is_mapped(job):
        run(job)
        path.write_text(json.dumps(summarise(job), indent=1))
    known = json.loads(path.read_text())
    if "pairs" not in known:   # a netlist that was kept before they were counted
        known = summarise(job)
        path.write_text(json.dumps(known, indent=1))
    return known


def run(job: Job) -> None:
    """Runs Yosys in the folder of the job; leaves netlist.json.gz, memories.txt and the log."""
    job.folder.mkdir(parents=True, exist_ok=True)
    log = job.folder / "synth.log"
    netlists = [job.folder / f"netlist-{number}.json" for number in range(len(cells.searches()))]
    done = subprocess.run([sys.executable, MAPPER, job.module, job.read], cwd=job.folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT_S)
    if done.returncode or not all(netlist.exists() for netlist in netlists):
        said = done.stdout + (log.read_text() if log.exists() else "")
        raise RuntimeError(f"{job.label} could not be mapped, see {log}:\n{said[-2000:]}")
    with gzip.open(job.folder / "netlist.json.gz", "wb", compresslevel=3) as packed:
        packed.write(best(job.module, netlists).read_bytes())
    for netlist in netlists:
        netlist.unlink()


def best(module: str, netlists: list[Path]) -> Path:
    """The smallest netlist of those that reach the goal; if none does, of those with the shortest worst path."""
    found = []
    for netlist in netlists:
        flat = json.loads(netlist.read_text())["modules"][module]
        worst = paths.analyse(flat)["paths"]
        luts = sum(cell["type"].startswith("LUT") for cell in flat["cells"].values())
        found.append((max(worst[0]["ns"] if worst else 0.0, cells.GOAL_NS), luts, netlist))
    fast = min(ns for ns, _, _ in found)
    fast += SAME_NS if fast > cells.GOAL_NS else 0.0
    return min((luts, netlist) for ns, luts, netlist in found if ns <= fast)[1]


def read_netlist(job: Job) -> dict:
    """The flat module of the block, as Yosys' write_json has it."""
    with gzip.open(job.folder / "netlist.json.gz") as packed:
        return json.load(packed)["modules"][job.module]


def summarise(job: Job) -> dict:
    module = read_netlist(job)
    found = memories((job.folder / "memories.txt").read_text(), (job.folder / "synth.log").read_text())
    return {"label": job.label, "cells": Counter(cell["type"] for cell in module["cells"].values()),
            "pairs": packing.pairs(module),
            "memories": [asdict(memory) for memory in found], "registers": registers(module)}


def memories(dump: str, log: str) -> list[Memory]:
    """Memories of the dump of $mem_v2 cells, and what the log of memory_libmap says that they became."""
    via = dict(re.findall(r"mapping memory \S+?\.(\S+) via \$__XILINX_(\S+)", log))
    via |= dict.fromkeys(re.findall(r"using FF mapping for memory \S+?\.(\S+)", log), "FF")
    found = []
    for cell in dump.split("cell $mem_v2 ")[1:]:
        name, width, depth = (re.search(rf"parameter \\{key} \"?\\*(?P<value>[^\s\"]+)", cell).group("value")
                              for key in ("MEMID", "WIDTH", "SIZE"))
        found.append(Memory(name, int(width), int(depth), via.get(name, "FF").rstrip("_")))
    return sorted(found, key=lambda memory: (-memory.bits, memory.name))


def registers(module: dict, at_least: int = 256) -> dict[str, int]:
    """Flip-flops by the name of what they hold, elements of an array together; only names with many."""
    name_of: dict[int, str] = {}
    for name, net in module["netnames"].items():
        if not net.get("hide_name"):
            for bit in net["bits"]:
                name_of.setdefault(bit, re.sub(r"(\s*\[\d+\])+$", "", name))
    flops = (cell for cell in module["cells"].values() if re.fullmatch(r"FD[CPRS]E", cell["type"]))
    held = Counter(name_of.get(bit, "?") for cell in flops for bit in cell["connections"]["Q"])
    return {name: bits for name, bits in held.most_common() if bits >= at_least and name != "?"}
