"""How long a program takes until it can work: thousands of regions and connected QPs (set_up.c)."""

import pathlib
import re
import subprocess

import pytest

# On a machine that has nothing else to do it is 2 s without the connections; this one may have much.
LIMIT_MS = 30_000


@pytest.mark.quick
def test_a_thousand_of_each_are_up(simulators, row, tmp_path):
    row("set_up", "1000 1000 connect, hca sim --functions 1", "eth")
    program = tmp_path / "set_up"
    source = pathlib.Path(__file__).with_name("set_up.c")
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", program, source, "-libverbs"], check=True)
    done = simulators(functions=1).run(0, program, 1000, 1000, "connect")
    assert done.code == 0, done
    took = re.search(r"^up after +([0-9.]+) ms$", done.text, re.M)
    assert took and float(took.group(1)) < LIMIT_MS, done
