"""The simulators of the run, and the table of what has been run."""

import os
from pathlib import Path

import pages
import pytest
import report
from cards import Simulator

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: a representative of its kind; the quick ones are part of make test")
    if config.getoption("write_docs") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--write-docs lists programs in the order in which they ran: it needs a run without -n")


def pytest_addoption(parser):
    parser.addoption("--write-docs", action="store_true", help="write the tables of docs/programs.md")


@pytest.fixture(scope="session")
def hca():
    """The release build, or what HCA_BIN names. The C library is expected beside it."""
    path = Path(os.environ.get("HCA_BIN", TARGET / "release" / "hca")).resolve()
    library = path.with_name("libibverbs.so")
    for file in (path, library):
        assert file.is_file(), f"{file} is not there: run 'make hca libibverbs' first"
    return path


@pytest.fixture(scope="session")
def simulators(hca):
    """simulators(link="ib", faults="loss=0.001"): the simulator with these options, started when first asked for.
    What one test leaves behind meets the next one: that nothing goes wrong then is a part of what is tested."""
    started = {}

    def simulator(**options):
        # A topology file says itself what its links are.
        default = {} if "topology" in options else {"link": "eth"}
        words = tuple(f"--{name}={value}" for name, value in sorted((default | options).items()))
        found = started.get(words)
        if found is None or not found.running():
            started[words] = Simulator(hca, *words)
        return started[words]

    yield simulator
    failures = []
    for found in started.values():
        try:
            found.stop()
        except AssertionError as error:
            failures.append(error)
    assert not failures, failures


@pytest.fixture
def sim(simulators):
    """Two cards on an Ethernet cable without faults."""
    return simulators()


@pytest.fixture
def row(request):
    """row("ibv_devinfo", "-v"): the test's line in the table; row.result(...) says more than passed or failed."""
    return report.Row(request.node)


def is_whole(session, stats):
    """Every test of this folder has run and passed."""
    here = Path(__file__).parent
    files = {item.path for item in session.items}
    bad = ("failed", "error", "skipped", "deselected")
    return files == set(here.glob("test_*.py")) and not any(stats.get(outcome) for outcome in bad)


def pytest_sessionfinish(session):
    """After a whole run docs/programs.md lists what has run."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if not is_whole(session, stats) or session.config.getoption("numprocesses", None):
        return
    found = [row for row in report.rows(stats) if row[0]["program"] != "pyverbs"]  # those have tables of their own
    text = pages.table(["Program", "Link", "Options", "Result"], report.summary(found))
    if session.config.getoption("write_docs"):
        pages.write("programs", text)
    elif pages.read("programs") != text:
        session.config.stale = True
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    found = report.rows(terminalreporter.stats)
    if not found:
        return
    text = report.aligned(report.lines(found))
    path = TARGET / "programs" / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    terminalreporter.section(f"programs ({path})")
    terminalreporter.write(text)
    if getattr(config, "stale", False):
        terminalreporter.write(f"docs/programs.md does not list what has run: {pages.HOW}\n", red=True)
