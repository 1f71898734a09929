"""The same points give the same results with hca sweep, on a Dask cluster and on a Slurm of one node."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, run

# Two of the four points fail: a READ brings data in, and has no place for it in the work request.
SWEEP = """
command = "perf"
[options]
size = 64
iters = 16
inline = true
[grid]
op = ["write", "read"]
seed = [1, 2]
[[plot]]
x = "seed"
y = "latency_p50_ns"
"""
POINTS, FAILURES = 4, 2
# Figures that depend on the machine.
WALL = "sim_cycles_per_wall_s"
SLURM_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue")
# A Slurm whose daemons trust each other, for they are on this machine and hear nobody else.
SLURM = """
ClusterName=hca
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def outcomes(out: Path) -> dict[str, tuple]:
    """What each point gave, as far as it does not depend on the machine."""
    found = {}
    for line in (out / "results.jsonl").read_text().splitlines():
        outcome = json.loads(line)
        figures = [{key: value for key, value in result.items() if key != WALL} for result in outcome["results"]]
        assert outcome["id"] not in found, "a point has been run twice"
        found[outcome["id"]] = (outcome["command"], outcome["ok"], outcome["exit_code"], figures)
    return found


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("sweep") / "inline.toml"
    file.write_text(SWEEP)
    return file


@pytest.fixture(scope="module")
def local(hca, sweep, tmp_path_factory) -> dict[str, tuple]:
    out = tmp_path_factory.mktemp("local")
    done = run(hca, "sweep", sweep, "--out", out, "--jobs", 2, code=1)
    assert f"{FAILURES} of them failed" in done.stdout
    assert (out / "latency_p50_ns-seed.svg").exists()
    found = outcomes(out)
    assert len(found) == POINTS
    assert sum(not ok for _, ok, _, _ in found.values()) == FAILURES
    return found


def test_dask_runs_the_same_points(hca, sweep, local, tmp_path):
    pytest.importorskip("distributed", reason="scripts/setup.sh studies")
    command = [sys.executable, ROOT / "scripts/sweep_dask.py", sweep, "--hca", hca, "--out", tmp_path, "--workers", 2]
    run(*command, code=1, env={**os.environ, "DASK_DISTRIBUTED__WORKER__DAEMON": "False"})
    assert outcomes(tmp_path) == local
    # Nothing is due any more, and nothing is run.
    before = (tmp_path / "results.jsonl").read_text()
    run(*command, code=1)
    assert (tmp_path / "results.jsonl").read_text() == before


def wait_for(what: str, is_there, limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not is_there():
        assert time.monotonic() < end, f"{what} within {limit_s} s"
        time.sleep(0.2)


@pytest.fixture
def slurm(tmp_path):
    """Environment of a cluster of this machine."""
    missing = [name for name in SLURM_PROGRAMS if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
    if missing or os.getuid() != 0:
        pytest.skip(f"a Slurm needs root and {', '.join(missing) or 'nothing else'}: scripts/setup.sh studies")
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    port = 20000 + os.getpid() % 20000
    host = os.uname().nodename.split(".")[0]
    config = folder / "slurm.conf"
    config.write_text(
        SLURM.format(host=host, folder=folder, port=port, node_port=port + 1, cpus=os.cpu_count() or 1)
    )
    env = {**os.environ, "SLURM_CONF": str(config), "PATH": os.environ["PATH"] + ":/usr/sbin"}
    logs = [(folder / f"{name}.log").open("w") for name in ("slurmctld", "slurmd")]
    daemons = [
        subprocess.Popen([name, "-D"], env=env, stdout=log, stderr=log)
        for name, log in zip(("slurmctld", "slurmd"), logs, strict=True)
    ]
    try:
        idle = lambda: " idle " in run("sinfo", env=env, code=None).stdout  # noqa: E731
        wait_for("a node of Slurm", idle)
        yield env
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=30)
        for log in logs:
            log.close()


def test_slurm_runs_the_same_points(hca, sweep, local, slurm, tmp_path):
    out, script = tmp_path / "an out", tmp_path / "job.sh"
    run(hca, "sweep", sweep, "--out", out, "--slurm", script)
    run("bash", "-n", script)
    assert f"#SBATCH --array=0-{POINTS - 1}" in script.read_text()
    run("sbatch", script, env=slurm)
    wait_for("an empty queue", lambda: not run("squeue", "--noheader", env=slurm).stdout.strip(), 240)
    merged = run(hca, "sweep", sweep, "--out", out, "--merge", out / "parts", code=1)
    assert merged.stdout.startswith(f"{POINTS} new results")
    assert outcomes(out) == local
    # All of it is there: no job is left to be made.
    done = run(hca, "sweep", sweep, "--out", out, "--slurm", script, code=2)
    assert "nothing to be done" in done.stderr


def test_an_array_without_slurm(hca, sweep, local, tmp_path):
    """What a task does, by hand: the script's own words with the variable that Slurm sets."""
    script = tmp_path / "job.sh"
    run(hca, "sweep", sweep, "--out", tmp_path, "--slurm", script)
    for task in range(POINTS):
        run("bash", script, code=None, env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task)})
    run(hca, "sweep", sweep, "--out", tmp_path, "--merge", tmp_path / "parts", code=1)
    assert outcomes(tmp_path) == local
