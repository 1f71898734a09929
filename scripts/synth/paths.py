"""Static timing of a mapped, flat netlist, without placement: the worst path into every register, RAM and port.

What a delay is made of stands in `Delays`; how far to trust it in docs/timing.md.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Delays:
    """Nanoseconds, of a mid-speed UltraScale+ part. Every net costs the same, whatever its fan-out."""

    net: float = 0.35
    lut: float = 0.12
    mux: float = 0.08          # MUXF7..9
    mux_entry: float = 0.05    # from the LUT beside it
    carry_entry: float = 0.12
    carry_step: float = 0.03   # from one carry cell to the next
    carry_exit: float = 0.08
    ram_out: float = 1.0       # block RAM and UltraRAM without their output register
    lut_ram: float = 0.25      # from its address, or its clock
    dsp: float = 1.8           # a multiplication without registers inside
    clock_to_out: float = 0.08
    setup: float = 0.05


# Ends that are looked at for paths with different starts.
LOOKED_AT = 2000

KINDS = {"lut": r"LUT[1-6](_2)?|INV", "carry": r"CARRY[48]", "mux": r"MUXF[789]", "ff": r"FD[CPRS]E",
         "ram": r"RAMB\w+|URAM\w+", "lut_ram": r"RAM\d+[MSX]\w*|SRL\w+", "dsp": r"DSP48E2"}
CLOCKS = {"ff": r"C", "ram": r"CLK\w*", "lut_ram": r"W?CLK", "dsp": r"CLK"}


def kind(cell_type: str) -> str:
    """What a cell is to this analysis."""
    for name, pattern in KINDS.items():
        if re.fullmatch(pattern, cell_type):
            return name
    raise ValueError(f"no delay is known for a cell {cell_type}")


@dataclass(frozen=True)
class Path:
    """A path by the names along it; `start` and `end` are a register, a RAM or a port."""

    ns: float
    luts: int
    carries: int
    start: str
    end: str
    via: tuple[str, ...]


@dataclass
class Netlist:
    """Cells and nets of one module; a net bit is a number, a constant is not."""

    cells: dict[str, dict]
    ports: dict[str, dict]
    driver: dict[int, tuple[str, str, int]] = field(default_factory=dict)   # bit: cell, pin, index
    names: dict[int, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, module: dict) -> Netlist:
        """From a module of Yosys' write_json."""
        net = cls(module["cells"], module["ports"])
        for name, cell in net.cells.items():
            net.kinds[name] = kind(cell["type"])
            for pin, direction in cell["port_directions"].items():
                if direction == "output":
                    for index, bit in enumerate(cell["connections"].get(pin, [])):
                        net.driver[bit] = (name, pin, index)
        for name, entry in sorted(module["netnames"].items(), key=lambda item: (item[1].get("hide_name", 0), item[0])):
            for index, bit in enumerate(entry["bits"]):
                net.names.setdefault(bit, f"{name}[{index}]" if len(entry["bits"]) > 1 else name)
        return net

    def inputs(self, name: str) -> Iterator[tuple[str, int, int]]:
        """Pin, index and net bit of the cell's inputs, without clocks and constants."""
        cell = self.cells[name]
        clock = CLOCKS.get(self.kinds[name])
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input" and not (clock and re.fullmatch(clock, pin)):
                for index, bit in enumerate(bits):
                    if isinstance(bit, int):
                        yield pin, index, bit

    def kind_of(self, bit: int) -> str:
        """Kind of the cell that drives the bit; "port" if none does."""
        return self.kinds[self.driver[bit][0]] if bit in self.driver else "port"


def start_delay(net: Netlist, bit: int, delays: Delays) -> float | None:
    """When the bit is there if it comes from a clock, None where it depends on nothing but other bits."""
    of = net.kind_of(bit)
    if of == "dsp":
        cell = net.cells[net.driver[bit][0]]
        return delays.clock_to_out if int(str(cell["parameters"].get("PREG", "1")), 2) else None
    # Ports are taken as registered: what comes in leaves a register of the neighbour.
    known = {"ff": delays.clock_to_out, "port": delays.clock_to_out, "ram": delays.ram_out, "lut_ram": delays.lut_ram}
    return known.get(of)


def arcs(net: Netlist, bit: int, delays: Delays) -> Iterator[tuple[int, float]]:
    """(input bit, delay from there) of everything that the bit depends on within the cycle."""
    name, pin, index = net.driver[bit]
    of = net.kinds[name]
    if of in ("ff", "ram") or (of == "dsp" and start_delay(net, bit, delays) is not None):
        return
    for other, place, source in net.inputs(name):
        delay = through(of, (pin, index), (other, place), net.kind_of(source), delays)
        if delay is not None:
            yield source, delay


def through(of: str, output: tuple[str, int], entry: tuple[str, int], source: str, delays: Delays) -> float | None:
    """Delay from a pin of a combinational cell to an output of it, the net in front included; None: no way."""
    pin = entry[0]
    if of == "lut":
        return delays.net + delays.lut
    if of == "mux":
        if pin == "S" or source not in ("lut", "mux"):
            return delays.net + delays.mux
        return delays.mux + (delays.mux_entry if source == "lut" else 0.0)
    if of == "lut_ram":
        return delays.net + delays.lut_ram if is_read(pin, output[0]) else None
    if of == "dsp":
        return delays.net + delays.dsp if re.fullmatch(r"[ABCD]", pin) else None
    leave = delays.carry_exit if output[0] == "O" else 0.0
    if pin in ("CI", "CI_TOP", "CYINIT"):
        return leave + (delays.carry_step if source == "carry" else delays.net + delays.carry_entry)
    if entry[1] > output[1]:   # a sum bit does not depend on those above it
        return None
    return leave + delays.carry_entry + (0.0 if pin == "S" and source == "lut" else delays.net)


def is_read(pin: str, output: str) -> bool:
    """Whether the pin of a LUT RAM or a shift register is of the address that this output shows at once."""
    if pin.startswith("ADDR"):
        return pin[-1] == output[-1]
    return pin.startswith("DPRA") if output == "DPO" else bool(re.fullmatch(r"A\d*", pin))


@dataclass
class Arrivals:
    """When each bit is there after the clock edge, the bit that it waited for, and bits of combinational loops."""

    at: dict[int, float] = field(default_factory=dict)
    after: dict[int, int | None] = field(default_factory=dict)
    loops: int = 0


def arrivals(net: Netlist, delays: Delays) -> Arrivals:
    """Every bit once all that it depends on is known."""
    found = Arrivals()
    users: dict[int, list[tuple[int, float]]] = defaultdict(list)
    missing: Counter[int] = Counter()
    # A bit that nothing drives is a port, or left open: then it is there at once too.
    read = {bit for name in net.cells for _, _, bit in net.inputs(name)}
    shown = {bit for port in net.ports.values() for bit in port["bits"] if isinstance(bit, int)}
    for bit in net.driver.keys() | read | shown:
        start = start_delay(net, bit, delays)
        found.at[bit], found.after[bit] = start or 0.0, None
        for source, delay in arcs(net, bit, delays) if bit in net.driver else ():
            users[source].append((bit, delay))
            missing[bit] += 1
    ready = [bit for bit in found.at if not missing[bit]]
    while ready:
        source = ready.pop()
        for bit, delay in users[source]:
            if found.at[source] + delay > found.at[bit]:
                found.at[bit], found.after[bit] = found.at[source] + delay, source
            missing[bit] -= 1
            if not missing[bit]:
                ready.append(bit)
    found.loops = sum(1 for count in missing.values() if count > 0)
    return found


def ends(net: Netlist, delays: Delays) -> Iterator[tuple[int, float, str]]:
    """(bit, delay from it to the end of the cycle, name) of everything that a path can end at."""
    for name, of in net.kinds.items():
        if of in CLOCKS:
            held = net.names.get(net.cells[name]["connections"]["Q"][0]) if of == "ff" else None
            for pin, _, bit in net.inputs(name):
                extra = delays.dsp if of == "dsp" else 0.0
                yield bit, delays.net + delays.setup + extra, held or f"{name}.{pin}"
    for name, port in net.ports.items():
        if port["direction"] == "output":
            for bit in port["bits"]:
                if isinstance(bit, int):
                    yield bit, delays.net + delays.setup, name


def trace(net: Netlist, found: Arrivals, bit: int, ns: float, end: str) -> Path:
    """The path behind the arrival of a bit, from its start."""
    bits, at = [], bit
    while at is not None:
        bits.append(at)
        at = found.after[at]
    bits.reverse()
    along = Counter(net.kind_of(step) for step in bits)
    name, pin, _ = net.driver.get(bits[0], ("", "", 0))
    start = name if net.kind_of(bits[0]) in ("ram", "lut_ram", "dsp") else net.names.get(bits[0], f"{name}.{pin}")
    via = [net.names.get(step, "$") for step in bits[1:]]
    return Path(round(ns, 2), along["lut"], along["carry"], start, end, tuple(n for n in via if n[0] != "$"))


def analyse(module: dict, delays: Delays = Delays(), paths: int = 8) -> dict:
    """The worst paths with different starts, worst first, and how many ends there are by the tenth of a nanosecond that
    is enough for them."""
    net = Netlist.read(module)
    found = arrivals(net, delays)
    reached = sorted(((found.at[bit] + delay, bit, end) for bit, delay, end in ends(net, delays)), reverse=True)
    worst: dict[str, Path] = {}
    for ns, bit, end in reached[:LOOKED_AT]:
        path = trace(net, found, bit, ns, end)
        worst.setdefault(re.sub(r"(\[\d+\])+$", "", path.start), path)
        if len(worst) >= paths:
            break
    tenths = Counter(f"{math.ceil(ns * 10 - 1e-6) / 10:.1f}" for ns, _, _ in reached)
    return {"paths": [vars(path) for path in worst.values()], "ends": dict(tenths), "loops": found.loops}
