"""Open MPI and MPICH over UCX: ranks on cards of their own, behind switches."""

import os
import re
from pathlib import Path

import pytest
from cards import Program

HERE = Path(__file__).resolve().parent
TOPOLOGIES = HERE.parent.parent / "docs" / "topologies"
# Debian's mpi4py is for Debian's Python.
PYTHON = "/usr/bin/python3"
FOUR = {"topology": TOPOLOGIES / "two-switches.toml"}
THREE = {"topology": TOPOLOGIES / "roce.toml"}
RC, UD = "rc_verbs,ud_verbs:aux", "ud_verbs"
LOSSY = {"topology": HERE / "two-switches-loss.toml"}
LINK = {"two-switches": "ib", "two-switches-loss": "ib", "roce": "eth"}


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


def mpirun(simulator, transports, ranks, *words):
    """A rank on each card, and nothing but the cards between them."""
    settings = ["--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "btl", "self", "--mca", "osc",
                "ucx", "-x", f"UCX_TLS={transports},self", "-x", "UCX_NET_DEVICES=hca0:1"]
    on_card = f'exec "{simulator.hca}" run --dir "{simulator.sockets}" --card $OMPI_COMM_WORLD_RANK -- "$@"'
    command = ["mpirun", *settings, "-np", str(ranks), "sh", "-c", on_card, "rank"]
    program = Program(command, words, os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, simulator.folder)
    simulator.programs.append(program)
    return program.done()


def assert_crossed(simulator, before, least):
    """Every card has sent so many packets at least."""
    sent = [after - past for after, past in zip(simulator.sent(*range(len(before))), before, strict=True)]
    assert min(sent) >= least, sent


@pytest.mark.parametrize(("transports", "options", "ranks"), [
    quick(RC, FOUR, 4), (UD, FOUR, 4),
    *[(transports, *where) for transports in (RC, UD) for where in ((THREE, 3), (LOSSY, 2))],
], ids=lambda value: value["topology"].stem if isinstance(value, dict) else str(value))
def test_ranks(simulators, row, transports, options, ranks):
    name = options["topology"].stem
    row("Open MPI, mpi4py", f"{ranks} ranks, {name}, {transports}: point to point, collectives, one-sided", LINK[name])
    simulator = simulators(**options)
    before = simulator.sent(*range(ranks))
    done = mpirun(simulator, transports, ranks, PYTHON, HERE / "mpi_end.py")
    assert done.code == 0, done
    # Lines of ranks may share one.
    found = re.findall(rf"rank (\d) of {ranks}: all right", done.text)
    assert sorted(map(int, found)) == list(range(ranks)), done
    assert_crossed(simulator, before, 100)


@pytest.mark.parametrize("words", [["helloworld"], ["ringtest", "-l", 3, "-n", 1000]],
                         ids=lambda words: words[0])
def test_bench(simulators, row, words):
    """What mpi4py brings along."""
    row("Open MPI, mpi4py", " ".join(["-m mpi4py.bench", *map(str, words)]), "ib")
    simulator = simulators(**FOUR)
    done = mpirun(simulator, RC, 4, PYTHON, "-m", "mpi4py.bench", *words)
    assert done.code == 0, done


@pytest.mark.parametrize(("transports", "options", "ranks"),
                         [(RC, FOUR, 4), (UD, FOUR, 4), (RC, THREE, 3), (RC, LOSSY, 2)],
                         ids=lambda value: value["topology"].stem if isinstance(value, dict) else str(value))
def test_mpich(simulators, row, transports, options, ranks):
    """MPICH of Debian is built for UCX, and takes it for ranks of one machine, too, where nothing else is allowed."""
    name = options["topology"].stem
    row("MPICH", f"{ranks} ranks, {name}, {transports}: point to point, collectives", LINK[name])
    simulator = simulators(**options)
    before = simulator.sent(*range(ranks))
    on_card = f'exec "{simulator.hca}" run --dir "{simulator.sockets}" --card $PMI_RANK -- "$@"'
    program = Program(["mpiexec.mpich", "-n", str(ranks), "sh", "-c", on_card, "rank"], [PYTHON, HERE / "mpich_end.py"],
                      os.environ | {"UCX_TLS": f"{transports},self", "UCX_NET_DEVICES": "hca0:1",
                                    "MPIR_CVAR_NOLOCAL": "1", "PYTHONDONTWRITEBYTECODE": "1"}, simulator.folder)
    simulator.programs.append(program)
    done = program.done()
    assert done.code == 0, done
    found = re.findall(rf"rank (\d) of {ranks}: all right", done.text)
    assert sorted(map(int, found)) == list(range(ranks)), done
    assert_crossed(simulator, before, 100)
