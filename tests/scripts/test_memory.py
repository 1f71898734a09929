"""docs/memory.md tells of the RAMs that the RTL has, each with a reason, and no more than is allowed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import memory
import pytest
from memory import Ram, Reasons


@pytest.fixture(scope="module")
def rams():
    """Of the card as it is."""
    return memory.rams()


def test_the_page_is_the_card(rams):
    """What the page says is what is elaborated."""
    assert memory.table(rams, Reasons.read()) in memory.PAGE.read_text(), "make memory ARGS=--publish"


def test_every_ram_has_a_reason_and_the_lines_fit(rams):
    """Nothing is forgotten, nothing told of that is gone, 16,384 lines take no more than hw/memory.toml lets them."""
    assert not memory.judge(rams, Reasons.read())


def test_what_is_known_is_found(rams):
    """Widths and depths as the RTL has them: rows of outstanding messages, pushed WQEs of 16 functions, and a cell of a
    generate loop."""
    bits = {ram.name: ram.bits for ram in rams}
    rows = 62 * 8 * 2048, 62 * 8 * (4096 + 1024), 62 * 4 * (16384 + 2048)
    assert bits["u_receive.u_rx_ctrl.u_tables.u_omt.u_rows"] == rows
    assert bits["u_requester.u_push.u_slots"] == (16 << 16,) * 3
    assert len([name for name in bits if name.startswith("u_host.gen_rd_port[")]) > 4


def test_verdicts():
    """A RAM without a reason, a reason without a RAM, too many bits."""
    some = [Ram("u_a.u_x", (10, 20, 40)), Ram("u_b", (7, 7, 7))]
    assert not memory.judge(some, Reasons(40, ((r"u_a\..*", "x"), ("u_b", "y"))))
    assert len(memory.judge(some, Reasons(39, ((r"u_a\..*", "x"), ("u_c", "y"))))) == 3
    assert "| **with the lines** | 0 | 0 | 0 |" in memory.table(some, Reasons(0, ()))
