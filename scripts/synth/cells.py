"""UltraScale+ as the mapper sees it: Yosys' cells, with the delays that paths are measured with (`paths.Delays`).

Yosys has delays of an Artix-7 alone, whatever the family: there a RAM takes three levels of logic, a carry chain two,
and a late signal is cheap at some pins of a LUT. A mapper that believes it makes the wrong paths short.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path

from synth.paths import Delays

# What all blocks are to reach: a path that does is not made shorter, for that costs LUTs.
GOAL_NS = tomllib.loads((Path(__file__).resolve().parents[2] / "hw" / "timing.toml").read_text())["goal_ns"]
# Ways in which the mapper looks for small netlists that are fast; the best one counts, for none of them wins always:
# the logic balanced by what its inputs share (-x), or by sums of products before that (-g). `{W}`: the delay of a net,
# before each LUT. -C: so many ways to cover a gate are kept; -F, -A: so often their choice is gone through again.
FIRST = "&scorr; &sweep; "
BY_INPUTS = "&if -x -K 6 -C 16; &st; "
BY_SUMS = "&if -g -K 6 -C 16; &st; "
MAP = "&dch -f -r; &if -C 16 -F 3 -A 6 -D {goal_ps} {W}; &mfs"
SEARCHES = (FIRST + BY_INPUTS + MAP, FIRST + BY_SUMS + BY_INPUTS + MAP)
# The mapper's sums are not those of `paths` to the last picosecond: it is told a little less.
MARGIN_NS = 0.08

LATE = "hca_late"
MODULE = re.compile(r"^\s*module\s+\\?(\S+?)\s*(?=[\s(#;])")
ARC = re.compile(r"\(\s*(?:posedge |negedge )?(?P<pin>\w+)(?:\[\d+\])?\s*=>\s*\(?(?P<out>\w+)")
CLOCKED = re.compile(r"\b(pos|neg)edge\b")
VALUE = re.compile(r"=\s*[^=;>]+;")
SETUP = re.compile(r"(\$setup\s*\(.*,)[^,]*\);")
LUT_AREA = re.compile(r"abc9_lut=\d+( \*\)\nmodule \S*LUT)(\d)")


def ps(ns: float) -> int:
    return round(1000 * ns)


def searches(delays: Delays = Delays()) -> list[str]:
    """Scripts for the mapper; between the ends of a path there is what the goal leaves of the cycle."""
    goal = GOAL_NS - MARGIN_NS - delays.clock_to_out - delays.net - delays.setup
    return [search.replace("{goal_ps}", str(ps(goal))) for search in SEARCHES]


def delay_of(module: str, pin: str, out: str, *, clocked: bool, delays: Delays) -> int | None:
    """Picoseconds from a pin to an output, or from a clock: what it is later than a flip-flop. None: as it is."""
    if clocked:
        late = {"RAMB": delays.ram_out, "URAM": delays.ram_out, "RAM": delays.lut_ram, "SRL": delays.lut_ram}
        found = next((ns for name, ns in late.items() if module.startswith(name)), None)
        return None if found is None else ps(found - delays.clock_to_out)
    if re.fullmatch(r"LUT[1-6]", module):
        return ps(delays.lut)
    if wide := re.fullmatch(r"\$__ABC9_LUT([78])", module):
        inputs, number = int(wide.group(1)), int(pin[1:])
        if number < 6:
            return ps(delays.lut + delays.mux_entry + delays.mux * (inputs - 6))
        return ps(delays.mux * (inputs - number))
    if module.startswith("MUXF"):
        return ps(delays.mux)
    if module == "CARRY4":
        # Only into a LUT does the mapper count the net; the carry's own gate is the LUT beside it.
        enter = {"S": delays.carry_entry, "CI": delays.carry_step}.get(pin, delays.net + delays.carry_entry)
        return ps(enter + (delays.carry_exit if out == "O" else 0.0))
    return ps(delays.net + delays.lut_ram) if re.match(r"RAM\d|SRL", module) else None


def for_mapper(delays: Delays = Delays()) -> str:
    """Yosys' models of the cells, with these delays. Set-up times are those of every register, so they are left out."""
    share = files("pyosys") / "share" / "xilinx"
    lines, module = [], ""
    for line in [line for name in ("cells_sim.v", "cells_xtra.v") for line in (share / name).read_text().splitlines()]:
        if begins := MODULE.match(line):
            module = begins.group(1)
        if (arc := ARC.search(line)) and VALUE.search(line):
            found = delay_of(module, arc["pin"], arc["out"], clocked=bool(CLOCKED.search(line)), delays=delays)
            line = line if found is None else VALUE.sub(f"= {found};", line, count=1)
        lines.append(SETUP.sub(r"\1 0);", line))
    return LUT_AREA.sub(lut_area, "\n".join(lines)) + "\n" + late_box(delays)


def lut_area(found: re.Match) -> str:
    """A LUT is a LUT, whatever the number of its inputs; more than six take several. Yosys counts small ones for less,
    and then the mapper makes three choices of two where one of four does."""
    inputs = int(found[2])
    return f"abc9_lut={1 << max(inputs - 6, 0)}{found[1]}{inputs}"


def is_memory(module: str) -> bool:
    """A RAM of UltraScale+, of which Yosys knows the ports alone."""
    return re.fullmatch(r"RAMB(18|36)E2|URAM288(_BASE)?", module) is not None


def late_box(delays: Delays) -> str:
    """A cell that is the delay of a RAM; the mapper cannot look into it, for it would take the wire in it."""
    return (f"(* abc9_box *)\nmodule {LATE} (output O, input I);\n"
            f"  specify\n    (I => O) = {ps(delays.ram_out - delays.clock_to_out)};\n  endspecify\nendmodule\n")
