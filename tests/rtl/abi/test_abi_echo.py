"""The SystemVerilog structures of the contract lie where the tables say: a module made here returns every
field of every structure by itself, and is fed structures in which one field after the other is all ones,
then random ones."""

import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb  # noqa: E402
import hca_abi  # noqa: E402
from cocotb.triggers import Timer  # noqa: E402
from common import PKG, ROOT, layouts  # noqa: E402

TOP = "abi_echo"
BUILD = ROOT / "target" / "rtl" / TOP


def in_hardware():
    """(struct or header, table, pack, unpack) of everything that hca_pkg declares."""
    declared = layouts()
    kinds = [(hca_abi.STRUCTS, hca_abi.struct_to_int, hca_abi.struct_from_int),
             (hca_abi.HEADERS, hca_abi.header_to_int, hca_abi.header_from_int)]
    for tables, pack, unpack in kinds:
        for name, table in tables.items():
            if f"{name}_t" in declared:
                yield name, table, pack, unpack


def echo_module():
    """Source of a module with one input per structure and one output per field."""
    ports, body = [], []
    for name, table, _, _ in in_hardware():
        ports.append(f"  input logic [{8 * table['bytes'] - 1}:0] {name}_i")
        body.append(f"  {name}_t {name};\n  assign {name} = {name}_t'({name}_i);")
        for field, (_, width) in table["fields"].items():
            ports.append(f"  output logic [{width - 1}:0] {name}__{field}_o")
            body.append(f"  assign {name}__{field}_o = {name}.{field};")
    head = f"module {TOP}\n  import hca_pkg::*;\n("
    return "\n".join([head, ",\n".join(ports), ");", *body, "endmodule", ""])


async def check(dut, name, word, fields):
    """Feeds one structure and compares every field."""
    getattr(dut, f"{name}_i").value = word
    await Timer(1, "ns")
    got = {field: int(getattr(dut, f"{name}__{field}_o").value) for field in fields}
    assert got == fields, f"{name}: {word:#x}"


@cocotb.test()
async def one_field_of_ones(dut):
    """A field of ones comes back in that field and nowhere else."""
    for name, table, pack, unpack in in_hardware():
        for field, (_, width) in table["fields"].items():
            word = pack(name, **{field: (1 << width) - 1})
            expected = dict.fromkeys(table["fields"], 0) | {field: (1 << width) - 1}
            assert unpack(name, word) == expected
            await check(dut, name, word, expected)


@cocotb.test()
async def random_structures(dut):
    """Random words, reserved bits included, come back as the tables say."""
    rng = random.Random(1)
    for name, table, _, unpack in in_hardware():
        for _ in range(8):
            word = rng.getrandbits(8 * table["bytes"])
            await check(dut, name, word, unpack(name, word))


def test_contract_is_in_hardware():
    """Every structure that hardware uses, and every header, is declared; sizes agree."""
    declared = layouts()
    names = {name for name, *_ in in_hardware()}
    assert set(hca_abi.HEADERS) <= names
    assert {"sq_wqe_ctrl", "sge", "rq_wqe_ctrl", "cqe", "eqe", "qpc", "mpt", "cqc", "eqc"} <= names
    for name, table, _, _ in in_hardware():
        assert declared[f"{name}_t"][0] == 8 * table["bytes"], name


def test_abi_echo():
    """Builds the echo module and runs the simulator's tests."""
    from cocotb_tools.runner import get_results
    from model import Runner

    BUILD.mkdir(parents=True, exist_ok=True)
    source = BUILD / f"{TOP}.sv"
    source.write_text(echo_module())
    runner = Runner()
    runner.build(sources=[PKG, source], includes=[PKG.parent], hdl_toplevel=TOP, build_dir=BUILD, always=True,
                 build_args=["-Wno-fatal", "-Wno-lint", "-Wno-style"], timescale=("1ns", "1ps"))
    here = Path(__file__).resolve().parent
    results = runner.test(hdl_toplevel=TOP, test_module=Path(__file__).stem, build_dir=BUILD,
                          results_xml=str(BUILD / "results.xml"),
                          extra_env={"PYTHONPATH": os.pathsep.join([str(here.parent), str(here)])})
    tests, failed = get_results(results)
    assert tests == 2 and failed == 0, f"{TOP}: {failed} of {tests} tests failed"
