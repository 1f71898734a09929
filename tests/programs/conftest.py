"""The simulators of the run, and the table of what has been run."""

import os
from pathlib import Path

import pages
import pytest
import report
import store
from cards import Simulator

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: a representative of its kind; the quick ones are part of make test")
    if config.getoption("write_docs") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--write-docs writes files that all tests share: it needs a run without -n")
    config.ran = {}
    config.commit = store.commit(ROOT)
    config.pluginmanager.register(Results(config), "results of programs")


def pytest_addoption(parser):
    parser.addoption("--write-docs", action="store_true",
                     help="keep what has run in results.json, and write the tables of docs/programs.md")


class Results:
    """Keeps the line of each test when it has ended: a run that is stopped has not been for nothing."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        line = store.line_of(report, self.config.commit)
        if line is None:
            return
        self.config.ran[line["test"]] = line
        if self.config.getoption("write_docs"):
            store.change(lambda kept: kept | {line["test"]: line})


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


def pytest_collection_modifyitems(session, config, items):
    """Before any is left out: the tests that there are."""
    config.collected = {store.name_of(item.nodeid) for item in items}


def pytest_sessionfinish(session):
    """docs/programs.md lists what has run; after a whole run it must be the same as before."""
    config = session.config
    if config.getoption("numprocesses", None) or not config.ran:
        return
    if config.getoption("write_docs"):
        files = {test.split("::")[0] for test in config.collected}
        whole = not any("::" in word for word in config.args)  # a file of which all tests were collected
        kept = store.change(lambda kept: store.without(kept, lambda test: whole and test.split("::")[0] in files
                                                       and test not in config.collected))
        headings = ["Program", "Link", "Options", "Result", "Last run"]
        pages.write("programs", pages.table(headings, store.summary(kept)))
    elif is_whole(session, config.pluginmanager.get_plugin("terminalreporter").stats):
        if store.told(store.load()) != store.told(config.ran):
            config.stale = True
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
