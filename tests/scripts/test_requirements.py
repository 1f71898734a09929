"""scripts/requirements_named.py: what counts as a statement, and as its name in a test. The IDs here are of no
requirement: this is a test, too, and would name them."""

import importlib.util
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "requirements_named.py"
SPEC = importlib.util.spec_from_file_location("requirements_named", PATH)
MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)

TEXT = """# Requirements
| SAS-9 | before any section |
## 2. Packets (WIRE)
| WARE-1 | LRH | 8 B |
* **WARE-2** GRH, see **W-110 ibv_create_qp(pd)** and WARE-77.
## 3. Empty
## 8. States (QPS)
* **QPZ-6 RESET**: all queue resources
**QPZ-T-UC** [004]
"""


def test_statements():
    """Bold, or at the head of a row; once each; sections without any are left out."""
    found = MODULE.sections(TEXT)
    assert {number: list(items) for number, (_, items) in found.items()} == {
        2: ["WARE-1", "WARE-2", "W-110"], 8: ["QPZ-6", "QPZ-T-UC"]}
    assert found[2][1]["WARE-1"] == "LRH | 8 B"


def test_names():
    """By ID or range, never by a part of another ID."""
    tested = MODULE.named(["/// KAY-14 to KAY-16, RAL-1..3: x", "QPZ-T-UC", "XPART-10"])
    assert {"KAY-14", "KAY-15", "KAY-16", "RAL-1", "RAL-2", "RAL-3", "QPZ-T-UC", "XPART-10"} <= tested
    assert not {"XPART-1", "KAY-1", "KAY-17", "RAL-4"} & tested


def test_table():
    """Sums by section and in all."""
    found = MODULE.sections(TEXT)
    lines = MODULE.table(found, {"WARE-2", "QPZ-6", "QPZ-T-UC"}).splitlines()
    assert [line.split()[-5:] for line in lines] == [["1", "of", "3", "33", "%"], ["2", "of", "2", "100", "%"],
                                                     ["3", "of", "5", "60", "%"]]
