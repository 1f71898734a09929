"""Which blocks there are, what their results depend on, what is read out of Yosys, and the verdicts."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import area
import pytest
import timing
from synth import cells, hierarchy, mapping, packing
from synth.hierarchy import Block

LEAF = """module leaf #(
  parameter int unsigned Width = 4, parameter logic [15:0] Poly = 16'h8005, localparam int unsigned L = 2
) (input logic clk_i);
  localparam int Here = used_pkg::Used;
endmodule
"""
MIDDLE = """module middle (input logic clk_i);
  for (genvar g = 0; g < 3; g++) begin : gen_leaf
    leaf #(.Width(8)) u_leaf (.clk_i);
  end
  if (1'b0) begin : gen_never
    leaf #(.Width(99)) u_leaf (.clk_i);
  end
endmodule
"""
TOP = """module hca_core (input logic clk_i);
  middle u_a (.clk_i);
  middle u_b (.clk_i);
  leaf u_leaf (.clk_i);
endmodule
"""


PACKAGES = {"base_pkg": "package base_pkg;\n  localparam int Base = 1;\nendpackage\n",
            "used_pkg": "package used_pkg;\n  localparam int Used = base_pkg::Base;\nendpackage\n",
            "other_pkg": "package other_pkg;\n  localparam int Other = 3;\nendpackage\n"}


@pytest.fixture
def small(tmp_path):
    """A card of three modules and three packages; elaborates it as it is on disk."""
    texts = PACKAGES | {"leaf": LEAF, "middle": MIDDLE, "hca_core": TOP}
    for name, text in texts.items():
        (tmp_path / f"{name}.sv").write_text(text)
    files = tmp_path / "card.f"
    files.write_text("".join(f"{tmp_path / name}.sv\n" for name in texts))
    return lambda: hierarchy.elaborate((str(files),))


def test_blocks_have_the_parameters_of_their_instances(small):
    design = small()
    leaves = design.named(["leaf"])
    assert [dict(block.parameters)["Width"] for block in leaves] == ["32'd4", "32'd8"]
    assert all("L" not in dict(block.parameters) for block in leaves)
    assert int(dict(leaves[0].parameters)["Poly"].split("d")[-1]) == 0x8005
    assert [design.label(block) for block in leaves] == ["leaf Width=4", "leaf Width=8"]
    assert design.parts() == {Block("middle"): 2, leaves[0]: 1}
    assert design.children[Block("middle")] == {leaves[1]: 3}


def test_unknown_block(small):
    with pytest.raises(ValueError, match="hca_none"):
        small().named(["hca_none"])


def test_a_result_belongs_to_its_sources(small, tmp_path):
    """A change inside a block changes the folder of the blocks around it, and of no other."""
    def folders():
        design = small()
        return {block.module: mapping.job_of(design, block).folder for block in design.children}
    before = folders()
    assert folders() == before
    (tmp_path / "middle.sv").write_text(MIDDLE + "// more\n")
    after = folders()
    assert {module for module in after if after[module] != before[module]} == {"middle", "hca_core"}


def test_a_block_is_read_with_the_packages_that_it_names(small):
    design = small()
    names = [path.stem for path in design.sources(design.named(["leaf"])[0])]
    assert names == ["base_pkg", "used_pkg", "leaf"]


def test_memories_and_what_they_became():
    dump = "".join(f"  cell $mem_v2 \\{name}\n    parameter \\MEMID \"\\\\{name}\"\n    parameter \\SIZE {depth}\n"
                   f"    parameter \\WIDTH {width}\n  end\n" for name, width, depth in
                   [("u_a.mem", 64, 512), ("gen_x[1].u_b.mem", 8, 16), ("table", 12, 64)])
    log = """mapping memory top.u_a.mem via $__XILINX_BLOCKRAM_SDP_
mapping memory top.gen_x[1].u_b.mem via $__XILINX_LUTRAM_SDP_
using FF mapping for memory top.table
"""
    found = mapping.memories(dump, log)
    assert [(memory.name, memory.bits, memory.becomes) for memory in found] == [
        ("u_a.mem", 32768, "BLOCKRAM_SDP"), ("table", 768, "FF"), ("gen_x[1].u_b.mem", 128, "LUTRAM_SDP")]


def test_registers_of_an_array_count_together():
    flops = {str(bit): {"type": "FDRE", "connections": {"Q": [bit]}} for bit in range(600)}
    names = {f"mem[{i}]": {"bits": list(range(100 * i, 100 * i + 100))} for i in range(5)}
    names |= {"$auto$1": {"hide_name": 1, "bits": [550]}, "few_q": {"bits": [560]}}
    assert mapping.registers({"cells": flops, "netnames": names}) == {"mem": 500}


def test_cells_by_column():
    cells = {"LUT6": 10, "LUT2": 1, "RAM32M": 2, "RAM64X1D": 3, "FDRE": 7, "RAMB18E2": 1, "RAMB36E2": 2, "CARRY8": 9}
    counts = {"LUT": 25, "packed": 21, "as RAM": 14, "FF": 7, "RAMB36": 2.5, "URAM": 0, "DSP": 0}
    assert area.area_of({"cells": cells, "pairs": 4}) == counts


def test_functions_that_share_a_lut():
    """Two of five inputs together, some of which they have in common; each once, and none of six inputs."""
    def functions(*inputs):
        ports = [{f"I{i}": [bit] for i, bit in enumerate(bits)} for bits in inputs]
        kinds = ["INV" if len(bits) == 1 else f"LUT{len(bits)}" for bits in inputs]
        return {"cells": {f"f{n}": {"type": kind, "connections": {"O": [100 + n], **port}}
                          for n, (kind, port) in enumerate(zip(kinds, ports))}}

    assert packing.pairs(functions([1, 2, 3], [3, 4, 5])) == 1
    assert packing.pairs(functions([1, 2, 3], [4, 5])) == 0, "nothing in common"
    assert packing.pairs(functions([1, 2, 3], [3, 4, 5, 6])) == 0, "six inputs"
    assert packing.pairs(functions([1, 2, 3, 4, 5, 6], [1, 2])) == 0, "no room"
    assert packing.pairs(functions([1, 2, 3, 4, 5], [1, 2, 3], [6, 7], [7, "1"])) == 2
    many = packing.MANY + 1
    assert packing.pairs(functions(*[[1, 10 + 2 * n, 11 + 2 * n] for n in range(many)])) == 0, "a net that all look at"


def test_what_is_not_in_block_ram():
    """Large memories in LUTs or registers, and large arrays, but not what an exception names."""
    rules = area.Rules.read('bits = 100\nplaces = 64\n[[exception]]\nname = ".*u_fifo.mem"\nreason = "shallow"\n')
    memories = [{"name": "u_fifo.mem", "width": 64, "depth": 128, "becomes": "LUTRAM_SDP"},
                {"name": "shallow", "width": 64, "depth": 64, "becomes": "LUTRAM_SDP"},
                {"name": "big", "width": 64, "depth": 512, "becomes": "BLOCKRAM_SDP"},
                {"name": "box", "width": 32, "depth": 16, "becomes": "FF"},
                {"name": "tiny", "width": 4, "depth": 16, "becomes": "FF"}]
    summary = {"memories": memories, "registers": {"array": 4096, "word_q": 64}}
    found = list(area.strays("hca_x", summary, rules))
    assert [name for name, _, _ in found] == ["hca_x.u_fifo.mem", "hca_x.box", "hca_x.array"]
    said = []
    assert area.judge([{"block": "hca_x", "depth": 0}], {"hca_x": summary}, rules, False, said.append) == 2
    assert "hca_x.box" in said[0] and "hca_x.array" in said[1]


BUDGETS = "# why\ngoal_ns = 4.0\ncheck = [\"hca_a\"]\n\n[debt]\nhca_b = 9.1\nhca_c = 6.0\n"


def test_verdicts():
    budgets = timing.Budgets.read(BUDGETS)
    assert [budgets.verdict(*block) for block in [("hca_a", 3.9), ("hca_a", 4.1), ("hca_b", 9.1), ("hca_b", 9.2)]] == [
        "ok", "FAIL", "debt", "FAIL"]


def test_accepting_writes_ceilings_of_what_was_measured_alone():
    budgets = timing.Budgets.read(BUDGETS)
    rows = [{"module": "hca_b", "worst_ns": 3.5}, {"module": "hca_a", "worst_ns": 5.01},
            {"module": "hca_a", "worst_ns": 4.2}]
    text = timing.accepted(BUDGETS, rows, budgets)
    assert text == "# why\ngoal_ns = 4.0\ncheck = [\"hca_a\"]\n\n[debt]\nhca_a = 5.1\nhca_c = 6.0\n"


def test_notes():
    row = {"block": "hca_b", "module": "hca_b", "worst_ns": 5.0, "loops": 2}
    found = timing.notes([row], timing.Budgets.read(BUDGETS), {"hca_a", "hca_b"})
    assert [text.split()[0] for text in found] == ["hca_b", "hca_b", "hca_c"]


def arcs_of(module):
    """Lines of delays of a cell, as the mapper reads it."""
    text = cells.for_mapper().split(f"module {module}(" if f"module {module}(" in cells.for_mapper()
                                    else f"module {module} (")[1].split("endmodule")[0]
    return [line.strip() for line in text.splitlines() if "=>" in line]


def test_the_mapper_has_the_delays_that_paths_are_measured_with():
    delays = cells.Delays()
    assert {line.split("= ")[-1] for line in arcs_of("LUT6")} == {f"{cells.ps(delays.lut)};"}
    into, along = (f"{cells.ps(ns)};" for ns in (delays.net + delays.carry_entry, delays.carry_step))
    carries = arcs_of("CARRY4")
    assert f"(CI     => CO[3]) = {along}" in carries
    assert f"(DI[0]  => CO[3]) = {into}" in carries
    assert f"(I => O) = {cells.ps(delays.ram_out - delays.clock_to_out)};" in arcs_of(cells.LATE)
    assert cells.is_memory("RAMB36E2")
    assert not cells.is_memory("RAMB36E1")


def test_the_mapper_counts_luts_as_make_area_does():
    text = cells.for_mapper()
    assert {int(inputs): int(area) for area, inputs in re.findall(r"abc9_lut=(\d+) \*\)\nmodule \S*LUT(\d)", text)} \
        == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 2, 8: 4}


def netlist(path, luts, levels):
    """A chain of LUTs between two flip-flops, and some beside it."""
    gates = {f"g{n}": {"type": "LUT1", "port_directions": {"I0": "input", "O": "output"},
                       "connections": {"I0": [2 + min(n, levels)], "O": [3 + n]}} for n in range(luts)}
    ends = {"q": {"type": "FDRE", "port_directions": {"D": "input", "Q": "output", "C": "input"},
                  "connections": {"D": [2 + levels], "Q": [2], "C": [1]}}}
    path.write_text(mapping.json.dumps({"modules": {"block": {"cells": gates | ends, "ports": {}, "netnames": {}}}}))
    return path


def test_the_smallest_netlist_that_reaches_the_goal_counts(tmp_path):
    slow, fast, large = (netlist(tmp_path / name, *size)
                         for name, size in {"slow": (20, 12), "fast": (25, 10), "large": (40, 2)}.items())
    assert mapping.best("block", [slow, fast]) == fast
    assert mapping.best("block", [slow, large, fast]) == large
    small = netlist(tmp_path / "small", 30, 6)
    assert mapping.best("block", [large, small]) == small
