"""Programs that end in the middle leave nothing with the simulator: no mapping, no descriptor."""

import perftest
import pytest
from cards import Simulator, free_port, listens

LONG = 1_000_000
KILLED = -9


@pytest.fixture(scope="module")
def sim(hca):
    sim = Simulator(hca, "--cards=2")
    yield sim
    sim.stop()


def opened(sim, program, port):
    """Something of it is there, and nothing more may be yet."""
    program.wait_until(sim.held, "it opened its card")


def waiting(sim, program, port):
    program.wait_until(lambda: listens(port), f"it listened on port {port}")


@pytest.mark.quick
@pytest.mark.parametrize("point", [opened, waiting], ids=lambda point: point.__name__)
def test_killed_alone(sim, row, point):
    row("ib_write_bw", f"killed, {point.__name__}", "vfio-user")
    port = free_port()
    program = sim.start(0, *perftest.words("ib_write_bw", iterations=LONG, bytes_=65536)("hca0", 1), "-p", port)
    point(sim, program, port)
    assert sim.held()
    assert program.kill().code == KILLED
    sim.wait_holds_nothing()
    row.result("the simulator holds no memory of it")


@pytest.mark.quick
def test_a_program_forks(sim, own_programs, row):
    """Its memory is reached by its addresses: a child has a copy of its own, and the parent keeps the card's."""
    row("fork_child", "registered memory, before and after a fork", "vfio-user")
    program = next(path for path in own_programs if path.name == "fork_child")
    done = sim.run(0, program, "-d", "hca0", "-x", 1)
    assert (done.code, done.text) == (0, "forked\n"), done


@pytest.mark.quick
def test_killed_in_mid_traffic(sim, row):
    row("ib_write_bw", "both ends killed in mid-traffic", "vfio-user")
    ends = sim.start_pair(perftest.words("ib_write_bw", iterations=LONG, bytes_=65536)("hca0", 1))
    first = sim.sent(0)[0]
    ends[1].wait_until(lambda: sim.sent(0)[0] > first + 50, "its first packets")
    for program in ends:
        assert program.kill().code == KILLED
    sim.wait_holds_nothing()
    row.result("the simulator holds no memory of them")
