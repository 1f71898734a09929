"""Programs with thousands of objects: each is there, and works (set_up.c says what each verb took)."""

import pathlib
import re
import subprocess

import pytest


@pytest.mark.quick
def test_a_thousand_of_each_are_up(simulators, row, tmp_path):
    row("set_up", "1000 1000 connect, hca sim --functions 1", "eth")
    program = tmp_path / "set_up"
    source = pathlib.Path(__file__).with_name("set_up.c")
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", program, source, "-libverbs"], check=True)
    done = simulators(functions=1).run(0, program, 1000, 1000, "connect")
    assert done.code == 0 and re.search(r"^up after +[0-9.]+ ms$", done.text, re.M), done
