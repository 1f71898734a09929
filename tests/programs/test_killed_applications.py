"""Applications of today, one end of which is killed in mid-run: the other one's next transfer fails, it says so and
ends, nothing is left, and the simulator serves the next pair."""

import signal
import sys

import pytest
from cards import listens
from test_crates import examples  # noqa: F401  a fixture
from test_rdmacm_matrix import run
from test_readers import HERE, NIXL_SETTINGS, mooncake, nixl  # noqa: F401  fixtures

LIMIT_S = 200


def killed_in_mid_run(sim, first, client, said, tmp_path):
    """The client's words; what it says when the server is gone."""
    before = sim.sent(1)[0]
    second = sim.start(1, *client, live=True)
    second.wait_until(lambda: sim.sent(1)[0] > before + 60, "60 packets were sent")
    assert first.kill().code == -signal.SIGKILL
    done = second.done(LIMIT_S)
    assert done.code != -signal.SIGKILL and said in done.text, done
    sim.wait_holds_nothing()
    run(sim, "rping -C 3", tmp_path)


def python(path, script, *settings):
    return ["env", *settings, f"PYTHONPATH={path}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, HERE / script]


def test_mooncake(simulators, row, tmp_path, mooncake):  # noqa: F811
    row("Mooncake's transfer engine", "server ended by SIGKILL in mid-run")
    sim, place = simulators(), tmp_path / "where"
    program = python(mooncake, "mooncake_end.py")
    first = sim.start(0, *program, "serve", "hca0", place, live=True)
    first.wait_until(place.exists, "it serves")
    killed_in_mid_run(sim, first, [*program, "repeat", "hca0", place], "a write fails: -", tmp_path)


@pytest.mark.parametrize("link", ["eth", "ib"])
def test_nixl(simulators, row, tmp_path, nixl, link):  # noqa: F811
    row("NIXL", "server ended by SIGKILL in mid-run", link)
    sim, place = simulators(link=link), tmp_path / "where"
    program = python(nixl, "nixl_end.py", *NIXL_SETTINGS)
    first = sim.start(0, *program, place, live=True)
    first.wait_until(place.exists, "it serves")
    killed_in_mid_run(sim, first, [*program, place, "repeat"], "a write fails: ", tmp_path)


def test_sideway(simulators, row, tmp_path, examples):  # noqa: F811
    row("rc_pingpong of the crate sideway", "server ended by SIGKILL in mid-run")
    sim = simulators()
    words = [examples / "rc_pingpong", "-g", 1, "-n", 1_000_000, "-s", 5000]
    first = sim.start(0, *words, live=True)
    first.wait_until(lambda: listens(18515), "it listened")
    killed_in_mid_run(sim, first, [*words, "127.0.0.1"], "Failed status", tmp_path)
