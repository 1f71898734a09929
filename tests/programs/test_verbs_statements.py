"""libibverbs from a C program: what its statements promise, each named in verbs_statements.c where it is looked at."""

import pathlib
import subprocess

import pytest


@pytest.mark.quick
@pytest.mark.parametrize("link", ["eth", "ib"])
def test_statements(simulators, row, tmp_path, link):
    row("what libibverbs promises", "", link)
    program = tmp_path / "verbs_statements"
    source = pathlib.Path(__file__).with_name("verbs_statements.c")
    subprocess.run(["cc", "-Wall", "-Werror", "-o", program, source, "-libverbs"], check=True)
    done = simulators(link=link).run(0, program)
    assert done.code == 0 and " 0 do not hold" in done.text, done
