"""Guests, cards and wires of the run, and the table of what has been run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
GUESTS = Path(os.environ.get("HCA_GUESTS", ROOT / ".tools/guests"))
sys.path.append(str(ROOT / "tests/programs"))  # simulators, programs on their cards, rows of tables

import report  # noqa: E402
from guest import Guest  # noqa: E402
from initramfs import with_programs  # noqa: E402
from rxe import Rxe  # noqa: E402

# This machine's programs, in guests with cards: those that the library is made for.
VERBS = """
    ibv_devices ibv_devinfo ibv_asyncwatch ibv_rc_pingpong
    ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat
""".split()
HEADINGS = ["Test", "Options", "Ends", "Result", "Seconds"]


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: a representative of its kind; the quick ones are part of make test")
    config.addinivalue_line("markers", "soak: as long as --soak-minutes says, not at all without it")


def pytest_addoption(parser):
    parser.addoption("--soak-minutes", type=float, default=0, help="run mixed traffic for that long")
    parser.addoption("--soak-seed", type=int, default=1, help="decides the traffic")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--soak-minutes"):
        chosen = [item for item in items if item.get_closest_marker("soak") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


@pytest.fixture(scope="session")
def hca():
    """The release build, or what HCA_BIN names. The C library is expected beside it."""
    path = Path(os.environ.get("HCA_BIN", TARGET / "release" / "hca")).resolve()
    library = path.with_name("libibverbs.so")
    for file in (path, library, path.with_name("librdmacm.so"), path.with_name("hca-parity")):
        assert file.is_file(), f"{file} is not there: run 'make built' first"
    return path


@pytest.fixture(scope="session")
def own_programs():
    """Verbs programs of this folder, compiled as any is."""
    folder = TARGET / "peers" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for source in sorted(HERE.glob("*.c")):
        paths.append(folder / source.stem)
        made = paths[-1].with_suffix(f".{os.getpid()}")
        subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", made, source, "-libverbs"], check=True)
        made.replace(paths[-1])  # at once: another worker may be copying it
    return paths


@pytest.fixture(scope="session")
def initramfs(hca, own_programs, tmp_path_factory):
    """The guests' files: those of Debian's packages, and of ours `hca` and the library."""
    assert GUESTS.is_dir(), f"{GUESTS} is not there: run 'scripts/setup.sh peers' first"
    path = tmp_path_factory.mktemp("guests") / "initramfs.cpio"
    libraries = {"libibverbs.so.1": hca.with_name("libibverbs.so")}
    programs = [hca, hca.with_name("hca-parity"), *map(shutil.which, VERBS)]
    with_programs(GUESTS, TARGET / "peers", path, programs, libraries, own_programs)
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


@pytest.fixture(scope="session")
def rxe(boot, hca, own_programs):
    """A guest with soft-RoCE, and the simulator of a card at the other end of its cable."""
    rxe = Rxe(boot, hca, own_programs)
    yield rxe
    rxe.stop()


@pytest.fixture
def cable(rxe):
    """Without faults; what a test has left behind on it is ended."""
    rxe.plug()
    yield rxe
    rxe.end_all()


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
