"""Guests, cards and wires of the run, and the table of what has been run."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
GUESTS = ROOT / ".tools/guests"
sys.path.append(str(ROOT / "tests/programs"))  # simulators, programs on their cards, rows of tables

import report  # noqa: E402
from guest import Guest  # noqa: E402
from initramfs import with_programs  # noqa: E402

HEADINGS = ["Test", "Options", "Ends", "Result", "Seconds"]


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: a representative of its kind; the quick ones are part of make test")


@pytest.fixture(scope="session")
def hca():
    """The release build, or what HCA_BIN names. The C library is expected beside it."""
    path = Path(os.environ.get("HCA_BIN", TARGET / "release" / "hca")).resolve()
    library = path.with_name("libibverbs.so")
    for file in (path, library):
        assert file.is_file(), f"{file} is not there: run 'make hca libibverbs' first"
    return path


@pytest.fixture(scope="session")
def initramfs(hca, tmp_path_factory):
    """The guests' files: those of Debian's packages, and of ours `hca` and the library."""
    assert GUESTS.is_dir(), f"{GUESTS} is not there: run 'scripts/setup.sh peers' first"
    path = tmp_path_factory.mktemp("guests") / "initramfs.cpio"
    libraries = {"libibverbs.so.1": hca.with_name("libibverbs.so")}
    with_programs(GUESTS, TARGET / "peers", path, [hca], libraries)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def boot(initramfs):
    """boot(name, devices...): a guest that lives until the end of the run, or until its stop()."""
    started = []

    def start(name, *devices, **options):
        started.append(Guest(GUESTS, initramfs, name, *devices, **options))
        return started[-1]

    yield start
    for guest in started:
        guest.stop(keep=TARGET / "peers" / "consoles")


@pytest.fixture
def row(request):
    """row("ib_write_bw", "-n 5", "card -> rxe"): the test's line in the table."""
    return report.Row(request.node)


def pytest_terminal_summary(terminalreporter):
    found = report.rows(terminalreporter.stats)
    if not found:
        return
    text = report.aligned(report.lines(found), HEADINGS)
    path = TARGET / "peers" / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    terminalreporter.section(f"peers ({path})")
    terminalreporter.write(text)
