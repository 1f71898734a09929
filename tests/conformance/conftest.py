"""The program under test, and the list of what has been judged."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import judge
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = [ROOT / "tests/golden/rxe-golden.pcap"]
JUDGED = []


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def hca():
    """Runs `hca`: hca("demo", "--seed", 1). The binary is the one of HCA_BIN, or the release build."""
    path = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "hca"
    path = Path(os.environ.get("HCA_BIN", path)).resolve()
    assert path.is_file(), f"{path} is not there: run 'cargo build --release -p hca' first"
    environment = os.environ | {"RUST_BACKTRACE": "1"}  # An error shall show all it would ever show.

    def run(*arguments, **options):
        options = {"stdout": subprocess.PIPE, "cwd": ROOT, "env": environment, "timeout": 300} | options
        command = [str(path), *map(str, arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False, **options)
        return Done(done.returncode, done.stdout or "", done.stderr)

    run.path = path
    return run


@pytest.fixture(scope="session")
def golden():
    """Soft-RoCE to soft-RoCE, recorded from two Linux machines."""
    path = next((path for path in GOLDEN if path.is_file()), None)
    if path is None:
        pytest.skip(f"no golden capture: {GOLDEN[0].relative_to(ROOT)} is not there")
    return path


@pytest.fixture(scope="session")
def judged():
    """judged(name, packets): lines of the report at the end."""
    return lambda name, packets: JUDGED.append((name, judge.count(packets)))


def pytest_terminal_summary(terminalreporter):
    """Says how much has been judged: a green run over nothing would be worth nothing."""
    if JUDGED:
        terminalreporter.section("packets judged")
    for name, counts in JUDGED:
        terminalreporter.write_line(f"{name}: {sum(counts.values())} packets, CRCs recomputed")
        detail = ", ".join(f"{judge.opcode_name(opcode)} x {counts[opcode]}" for opcode in sorted(counts))
        terminalreporter.write_line(f"    {detail}")
