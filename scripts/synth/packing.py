"""How many LUTs of the device a netlist takes: on UltraScale+ one holds two functions that have five inputs together.

The mapper, and `make area`, count every function as a LUT. A vendor's tool places two in one where it can; this says
how many pairs there are of functions that have inputs in common, without regard for where they are placed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

SHARED_INPUTS = 5
# A net that so many functions look at brings nobody together: reset, a state, a bit that selects.
MANY = 200


def small_functions(module: dict) -> dict[str, frozenset[int]]:
    """Inputs of each function that leaves room for another one in its LUT."""
    found = {}
    for name, cell in module["cells"].items():
        if re.fullmatch(r"LUT[1-5]|INV", cell["type"]):
            found[name] = frozenset(bit for port, bits in cell["connections"].items() if port.startswith("I")
                                    for bit in bits if isinstance(bit, int))
    return found


def pairs(module: dict) -> int:
    """Pairs of functions that share a LUT: each takes the one with which it has most inputs in common, those with most
    inputs first."""
    functions = small_functions(module)
    readers: dict[int, list[str]] = defaultdict(list)
    for name, inputs in functions.items():
        for bit in inputs:
            readers[bit].append(name)
    free, found = set(functions), 0
    for name in sorted(functions, key=lambda one: (-len(functions[one]), one)):
        if name not in free:
            continue
        common = Counter(other for bit in functions[name] if len(readers[bit]) <= MANY
                         for other in readers[bit] if other != name and other in free)
        fits = [(shared, len(functions[other]), other) for other, shared in common.items()
                if len(functions[name] | functions[other]) <= SHARED_INPUTS]
        if fits:
            free -= {name, max(fits)[2]}
            found += 1
    return found
