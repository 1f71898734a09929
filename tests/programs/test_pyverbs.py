"""rdma-core 44's own tests of the verbs interface, as Debian ships them. They connect QPs of one card with each other,
so that all that they send stays inside it."""

import json
import os
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pages
import pytest
from conftest import ROOT

HERE = Path(__file__).resolve().parent
PYVERBS = ROOT / ".tools" / "pyverbs"
PYTHON = "/usr/bin/python3"  # the bindings are built for Debian's own
EXPECTED = tomllib.loads((HERE / "pyverbs_expected.toml").read_text(encoding="utf-8"))
# All that are no vendor's, and their cases.
MODULES = {"test_device": 22, "test_pd": 4, "test_mr": 27, "test_cq": 4, "test_cqex": 5, "test_cq_events": 2,
           "test_qp": 26, "test_qpex": 20, "test_addr": 3, "test_atomic": 9, "test_flow": 5, "test_fork": 1,
           "test_odp": 17, "test_parent_domain": 6, "test_rdmacm": 10, "test_relaxed_ordering": 3,
           "test_rss_traffic": 1, "test_shared_pd": 1, "test_tag_matching": 4}
QUICK = ["test_device", "test_pd", "test_mr", "test_cq", "test_cqex", "test_cq_events", "test_qp", "test_addr",
         "test_fork"]
# Whether or not the machine has huge pages, their cases are skipped.
WITH_HUGE_PAGES = {"test_odp": "ODP is not supported - No ODP caps",
                   "test_parent_domain": "Parent Domain is not supported on this device"}
OUTCOMES = ("passed", "skipped", "failed")
CASES, REASONS = "cases of pyverbs", "reasons of pyverbs"
CASES_HEADINGS = ["Module", "Passed", "Skipped", "Failed"]
REASONS_HEADINGS = ["Module", "Outcome", "Reason", "Cases"]


@pytest.fixture(scope="session")
def pyverbs():
    """The environment in which Python finds the bindings."""
    environment = os.environ | {"PYTHONPATH": str(PYVERBS / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    if not (PYVERBS / "tests").is_dir():
        pytest.skip("Debian's package python3-pyverbs is not in .tools/pyverbs: see scripts/setup-pyverbs.sh")
    probe = subprocess.run([PYTHON, "-c", "import pyverbs.device"], env=environment, capture_output=True, text=True,
                           check=False)
    if probe.returncode != 0:
        pytest.skip(f"{PYTHON} cannot load the bindings: {probe.stderr.splitlines()[-1]}")
    return environment


def reason_of(case):
    """In words that are the same on every machine."""
    if "dmabuf" in case["case"] and case["outcome"] == "skipped":
        return "DMA-BUF is not supported"  # or, with no graphics card there: such memory cannot be had
    if "_huge_" in case["case"] and case["outcome"] == "skipped":
        return WITH_HUGE_PAGES[case["case"].split(".")[0]]
    return re.sub(r" \(.*\)$", "", case["reason"].splitlines()[0]) if case["reason"] else ""


def lines_of(module, cases):
    """The module's lines in both tables."""
    counts = Counter(case["outcome"] for case in cases)
    by_reason = defaultdict(list)
    for case in cases:
        name = case["case"].removeprefix(f"{module}.")
        reason = EXPECTED.get(module, {}).get(name, reason_of(case))
        if case["outcome"] != "passed":
            by_reason[case["outcome"], reason].append(name)
    reasons = [[f"`{module}`", outcome, reason, ", ".join(f"`{name}`" for name in sorted(names))]
               for (outcome, reason), names in sorted(by_reason.items())]
    return [f"`{module}`", *(str(counts[outcome]) for outcome in OUTCOMES)], reasons


def check_page(name, headings, module, lines, write):
    """The page has these lines for the module, in the modules' order; with `write` they are put there."""
    rest = pages.read(name).splitlines(keepends=True)[2:]
    ours = pages.table(headings, lines).splitlines(keepends=True)[2:]
    if write:
        of = {other: [line for line in rest if line.startswith(f"| `{other}` ")] for other in MODULES} | {module: ours}
        pages.write(name, pages.table(headings, []) + "".join(line for other in of.values() for line in other))
    else:
        assert [line for line in rest if line.startswith(f"| `{module}` ")] == ours, pages.HOW


@pytest.mark.parametrize("module", [
    pytest.param(module, marks=[pytest.mark.quick] * (module in QUICK)) for module in MODULES])
def test_pyverbs(request, sim, row, pyverbs, tmp_path, module):
    row("pyverbs", module)
    results = tmp_path / "results"
    # They are root's, who may have raw packets: as function 0.
    done = sim.run(0, "env", f"PYTHONPATH={pyverbs['PYTHONPATH']}", "HCA_MANAGER=1", PYTHON, "-B",
                   HERE / "pyverbs_runner.py", results,
                   PYVERBS / "tests", module, "--dev", "hca0", "--gid", 1)
    cases = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    failed = {case["case"].removeprefix(f"{module}.") for case in cases if case["outcome"] == "failed"}
    expected = set(EXPECTED.get(module, {}))
    assert failed - expected == set(), f"failures that are not expected\n{done}"
    assert expected - failed == set(), "these do not fail: take them out of pyverbs_expected.toml"
    assert done.code == (1 if failed else 0) and len(cases) == MODULES[module], done
    counts, reasons = lines_of(module, cases)
    row.result(", ".join(f"{count} {outcome}" for count, outcome in zip(counts[1:], OUTCOMES, strict=True)))
    write = request.config.getoption("write_docs")
    check_page(CASES, CASES_HEADINGS, module, [counts], write)
    check_page(REASONS, REASONS_HEADINGS, module, reasons, write)


@pytest.mark.quick
def test_the_script_of_the_docs(sim, row, pyverbs, tmp_path):
    """docs/programs.md: it runs as it stands there."""
    row("pyverbs", "script of docs/programs.md")
    text = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    done = sim.run(0, "env", f"PYTHONPATH={pyverbs['PYTHONPATH']}", PYTHON, "-B", path)
    assert done.code == 0 and "status 0 hello" in done.text, done
