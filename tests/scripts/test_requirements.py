"""scripts/requirements_named.py: what counts as a statement, and as its name in a test."""

import importlib.util
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "requirements_named.py"
SPEC = importlib.util.spec_from_file_location("requirements_named", PATH)
MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)

TEXT = """# Requirements
| SYS-9 | before any section |
## 2. Packets (WIRE)
| WIRE-1 | LRH | 8 B |
* **WIRE-2** GRH, see **V-110 ibv_create_qp(pd)** and WIRE-77.
## 3. Empty
## 8. States (QPS)
* **QPS-6 RESET**: all queue resources
**QPS-T-UC** [004]
"""


def test_statements():
    """Bold, or at the head of a row; once each; sections without any are left out."""
    found = MODULE.sections(TEXT)
    assert {number: list(items) for number, (_, items) in found.items()} == {
        2: ["WIRE-1", "WIRE-2", "V-110"], 8: ["QPS-6", "QPS-T-UC"]}
    assert found[2][1]["WIRE-1"] == "LRH | 8 B"


def test_names():
    """By ID or range, never by a part of another ID."""
    tested = MODULE.named(["/// KEY-14 to KEY-16, REL-1..3: x", "QPS-T-UC", "XPORT-10"])
    assert {"KEY-14", "KEY-15", "KEY-16", "REL-1", "REL-2", "REL-3", "QPS-T-UC", "XPORT-10"} <= tested
    assert not {"XPORT-1", "KEY-1", "KEY-17", "REL-4"} & tested


def test_table():
    """Sums by section and in all."""
    found = MODULE.sections(TEXT)
    lines = MODULE.table(found, {"WIRE-2", "QPS-6", "QPS-T-UC"}).splitlines()
    assert [line.split()[-5:] for line in lines] == [["1", "of", "3", "33", "%"], ["2", "of", "2", "100", "%"],
                                                     ["3", "of", "5", "60", "%"]]
