"""What docs/ci.md tells people to paste does what it says: its steps are run in a bare root, as far as that goes
without a network. Stand-ins: `sudo` runs the command, `curl` copies the package, `apt-get` says whether all is
installed."""

import subprocess

import pytest
import yaml
from conftest import ROOT, Bare

PAGE = ROOT / "docs" / "ci.md"
STANDINS = {
    "sudo": 'exec "$@"',
    "curl": '[ "$1" = -fsSLo ] && [ "$3" = "$OPENHCA_URL" ] && exec cp /openhca.deb "$2"',
    "apt-get": """[ "$1" = update ] && exit 0
for word; do case $word in install|-*|ca-certificates|curl) ;; *) dpkg -s "$word" >/dev/null || exit 1;; esac; done""",
}


def snippets():
    """The YAML blocks of the page, by the heading above each."""
    found, heading, block = {}, None, None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if block is not None and line == "```":
            found[heading], block = yaml.safe_load("\n".join(block)), None
        elif block is not None:
            block.append(line)
        elif line == "```yaml":
            block = []
        elif line.startswith("## "):
            heading = line.removeprefix("## ")
    return found


def github(seed):
    job = snippets()["GitHub Actions"]["jobs"]["rdma"]
    steps = [step["run"].replace("${{ matrix.seed }}", seed) for step in job["steps"] if "run" in step]
    assert seed in map(str, job["strategy"]["matrix"]["seed"])
    assert all("${{" not in step for step in steps), steps
    return steps, job["env"]


def gitlab(seed):
    job = snippets()["GitLab CI"]["rdma"]
    assert seed in job["parallel"]["matrix"][0]["SEED"]
    return [*job["before_script"], *job["script"]], job["variables"] | {"SEED": seed}


@pytest.fixture
def runner(installed):
    """A machine of a CI service: `sudo` is there, and the package is not yet."""
    for name, script in STANDINS.items():
        path = installed.path / "usr/local/bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
    yield installed
    for name in STANDINS:
        (installed.path / "usr/local/bin" / name).unlink()


@pytest.mark.parametrize("service", [github, gitlab])
def test_the_steps_pass(runner: Bare, service):
    steps, environment = service("2")
    assert sum("hca run --pair" in step for step in steps) == 2
    script = "\n".join(["set -e", *steps, "test ! -e failure", "cat rdma.json 2>/dev/null || true"])
    # As root: dpkg wants it. What the snippets start needs no rights: test_package.py.
    done = runner.run("bash", "-c", script, user=(), environment=environment)
    assert done.returncode == 0, done
    assert done.stdout.count("100 iters in") == 4, done
    assert '"seed": 2' in done.stdout and '"verdict": "passed"' in done.stdout, done


@pytest.mark.parametrize("service", [github, gitlab])
def test_a_failing_program_leaves_its_artifacts(installed, service):
    """The same command lines with a program that fails in the place of the pingpong."""
    steps, environment = service("1")
    step = steps[-1].replace("ibv_rc_pingpong -g 1 -n 100 -c",
                             "sh -c 'ibv_rc_pingpong -g 1 -n 5 \"$@\" && exit 3' test")
    script = f"{step}\ncode=$?\ncat failure/report.json\nls failure failure/again\nexit $code"
    done = installed.run("bash", "-c", script, environment=environment)
    assert done.returncode == 3, done
    for file in ("link.pcap", "server.log", "client.log", "report.json", "report.txt", "command.sh", "again",
                 "card0.fst"):
        assert file in done.stdout, (file, done)
    assert '"verdict": "failed"' in done.stdout and '"seed": 1' in done.stdout


def test_every_shell_line_parses():
    for service in (github, gitlab):
        for step in service("1")[0]:
            subprocess.run(["bash", "-n", "-c", step], check=True)
