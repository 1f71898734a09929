"""The tables of the benches: which figures they are made of. Building and running is left out."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))

import bench_compiler
import bench_firmware
import bench_sim


def test_ratios_are_taken_pair_by_pair():
    """A machine that became half as fast in the middle of a run; seconds and rates."""
    rows = {"bulk: wall s": [(10, 5), (20, 10), (10, 2)], "bulk: simulated cycles/s": [(50, 100), (25, 50), (50, 200)]}
    table = {row["measure"]: row for row in bench_sim.summary(rows)}
    assert [table[name]["times_faster"] for name in rows] == [2, 2]
    assert (table["bulk: wall s"]["before"], table["bulk: wall s"]["after"]) == (10, 5)


def test_trees_run_in_turn():
    """Each measure, pair after pair, and a task that is told to run once does."""
    calls = []

    def task(tree, name):
        calls.append((tree, name))
        return {name: len(calls)}

    rows = bench_sim.measure(["before", "now"], [("bulk", task, 2), ("suite", task, 1)], 2)
    assert calls == [("before", "bulk"), ("now", "bulk")] * 2 + [("before", "suite"), ("now", "suite")]
    assert rows == {"bulk": [(1, 2), (3, 4)], "suite": [(5, 6)]}


def test_without_a_build_there_must_be_programs(tmp_path, monkeypatch):
    """It names what is missing and the remedy."""
    monkeypatch.setattr(bench_sim, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench_sim.py", "--no-build"])
    with pytest.raises(SystemExit, match="build/release/hca is not there: run once without --no-build"):
        bench_sim.main()


def test_compilers_are_compared_by_their_least(tmp_path, monkeypatch, capsys):
    """The least of all runs of each variant; one that does not build is left out and said."""
    figures = iter([5, 50, 500, 7, 70, 700, 4, 60, 600, 8, 60, 500])
    names = ["clang++ -O2, as built", "g++ -O2"]
    built = []

    def build(name, number):
        built.append(name)
        return (None if name == "clang++ -O3" else tmp_path / str(number)), 100

    monkeypatch.setattr(bench_compiler, "FOLDER", tmp_path)
    monkeypatch.setattr(bench_compiler, "build", build)
    monkeypatch.setattr(bench_compiler, "nanoseconds", lambda program, load: next(figures))
    monkeypatch.setattr(sys, "argv", ["bench_compiler.py", "--runs", "2", "--only", *names, "clang++ -O3"])
    bench_compiler.main()
    assert built == ["", *names, "clang++ -O3"]
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| clang++ -O2, as built | 4 | 50 | 500 | 100 |", "| g++ -O2 | 7 | 60 | 500 | 100 |"]


def test_processors_are_compared_by_their_least():
    """In turn, the least processor time of each; other work on the machine in one run changes nothing."""
    calls, times = [], iter([1.0, 1.2, 9.0, 1.04, 1.1, 1.5])

    def run(load, processor):
        calls.append((load, processor))
        return {"simulated_cycles": 1_000_000, "cpu_s": next(times)}

    [row] = bench_firmware.summary(bench_firmware.measure(run, ["bulk"], 3))
    assert calls == [("bulk", "native"), ("bulk", "core")] * 3
    assert (row["load"], row["cycles"], row["native_ns"], row["core_ns"]) == ("bulk", 1_000_000, 1000, 1040)
    assert round(row["slower_percent"], 6) == 4


def test_processors_are_compared_on_the_same_traffic():
    """Another number of cycles is no figure but a mistake, and is named."""
    def run(load, processor):
        return {"simulated_cycles": 1_000 + (processor == "core"), "cpu_s": 1.0}

    with pytest.raises(SystemExit, match="storm takes .*1001.* cycles: it is not the same traffic"):
        bench_firmware.summary(bench_firmware.measure(run, ["storm"], 1))


@pytest.mark.parametrize(("slower", "code"), [(1.04, None), (1.06, "bulk: more than 5 % slower")])
def test_a_core_that_costs_too_much_fails(tmp_path, monkeypatch, capsys, slower, code):
    """The limit is the goal's; the figures are printed and kept either way."""
    def run(program, load, processor):
        return {"simulated_cycles": 1_000_000, "cpu_s": slower if processor == "core" else 1.0}

    monkeypatch.setattr(bench_firmware, "run_load", run)
    monkeypatch.setattr(bench_firmware.bench_sim.Tree, "program", lambda tree, name: tmp_path)
    kept = tmp_path / "figures.json"
    words = ["bench_firmware.py", "--no-build", "--only", "bulk", "--runs", "1", "--json", str(kept)]
    monkeypatch.setattr(sys, "argv", words)
    if code is None:
        bench_firmware.main()
    else:
        with pytest.raises(SystemExit, match=code):
            bench_firmware.main()
    assert f"+{round(100 * (slower - 1))}.0 %" in capsys.readouterr().out and kept.is_file()
