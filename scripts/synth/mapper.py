"""Maps a block in this folder onto UltraScale+ cells: `mapper.py TOP READ`; READ is the command that reads its sources.

Leaves memories.txt, synth.log, and a netlist-N.json for each of `cells.searches()`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyosys import libyosys as ys

from synth import cells
from synth.paths import Delays

LOG = "synth.log"
LATE = "\\" + cells.LATE


def main() -> None:
    top, read = sys.argv[1:]
    design = ys.Design()
    synth = f"synth_xilinx -family xcup -flatten -noiopad -noclkbuf -top {top} -run "
    Path("cells.v").write_text(cells.for_mapper())
    Path(LOG).write_text("")
    # In pieces: the library of cells is ours, the memories are listed as the design has them, before they become RAMs
    # or flip-flops, and the search for short paths goes on from one state several times.
    for command in (read, "read_verilog -lib -specify cells.v", f"hierarchy -check -top {top}",
                    synth + "prepare:map_memory", "tee -q -o memories.txt dump t:$mem_v2",
                    synth + "map_memory:map_luts"):
        run(design, command)
    put_late(top_of(design, top))
    run(design, "design -save before_luts")
    for number, search in enumerate(cells.searches()):
        run(design, "design -load before_luts")
        run(design, f"scratchpad -set synth_xilinx.abc9.W {cells.ps(Delays().net)}")
        run(design, "scratchpad -set abc9.script +" + search.replace(" ", ","))
        run(design, synth + "map_luts:")
        take_late(top_of(design, top))
        run(design, "opt_clean")
        run(design, f"write_json netlist-{number}.json")


def run(design: ys.Design, command: str) -> None:
    ys.run_pass(f"tee -q -a {LOG} {command}", design)


def top_of(design: ys.Design, top: str) -> ys.Module:
    return next(module for module in design.modules_.values() if module.name.str() == "\\" + top)


def put_late(module: ys.Module) -> None:
    """The mapper has no arrival times: a cell of that delay, behind each bit that a memory reads."""
    rams = [cell for cell in module.cells_.values() if cells.is_memory(cell.type.str()[1:])]
    for cell in rams:
        for port, old in [(port, old) for port, old in cell.connections_.items() if cell.output(port)]:
            new = ys.SigSpec()
            for place, bit in enumerate(old.to_sigbit_vector()):
                new.append(early(module, bit, f"$late{cell.name.str()}{port.str()}[{place}]") if bit.is_wire() else bit)
            cell.setPort(port, new)


def early(module: ys.Module, late: ys.SigBit, name: str) -> ys.SigSpec:
    """A wire of which the bit is what leaves a cell of a RAM's delay."""
    wire = ys.SigSpec(module.addWire(ys.IdString(name), 1))
    box = module.addCell(ys.IdString(name + ".box"), ys.IdString(LATE))
    box.setPort(ys.IdString("\\I"), wire)
    box.setPort(ys.IdString("\\O"), ys.SigSpec(late, 1))
    return wire


def take_late(module: ys.Module) -> None:
    """Wires again."""
    for cell in [cell for cell in module.cells_.values() if cell.type.str() == LATE]:
        module.connect(cell.getPort(ys.IdString("\\O")), cell.getPort(ys.IdString("\\I")))
        module.remove(cell)


if __name__ == "__main__":
    main()
