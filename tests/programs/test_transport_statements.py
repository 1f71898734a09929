"""ACC-1, ACC-3: the tables of QPs' attributes and of operations, by a C program over libibverbs."""

import pathlib
import subprocess

import pytest


@pytest.mark.quick
@pytest.mark.parametrize(("link", "options"), [("eth", ["--manager"]), ("ib", [])], ids=["eth", "ib"])
def test_statements(simulators, row, tmp_path, link, options):
    """Each statement is named in transport_statements.c where it is looked at."""
    row("what the transport promises", "", link)
    program = tmp_path / "transport_statements"
    source = pathlib.Path(__file__).with_name("transport_statements.c")
    subprocess.run(["cc", "-Wall", "-Werror", "-O1", "-o", program, source, "-libverbs"], check=True)
    done = simulators(link=link).run(0, program, options=options)
    assert done.code == 0 and " 0 do not hold" in done.text, done
