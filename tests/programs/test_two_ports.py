"""SYS-3: cards with two ports, one InfiniBand and one Ethernet: programs on both at the same time."""

import re

import pytest
from test_perftest import assert_measured
from test_pingpong import assert_exchanged, packets

# What a program must say to use the port.
PORTS = {1: ("ib", [], []), 2: ("eth", ["-g", 1], ["-x", 1])}


@pytest.fixture
def two(simulators):
    """Two cards: cables from first port to first port and from second to second."""
    return simulators(ports=2, link="ib,eth")


def sent(sim, port):
    """Packets that both cards have sent through a port."""
    return [card["ports"][port - 1]["tx_packets"] for card in sim.info()]


@pytest.mark.quick
def test_both_are_listed(two, row):
    row("ibv_devinfo", "-v", "ib and eth")
    for card in (0, 1):
        done = two.run(card, "ibv_devinfo", "-v")
        assert done.code == 0 and re.search(r"phys_port_cnt:\s+2\n", done.text), done
        found = re.findall(r"port:\s+(\d)\n\s+state:\s+(\w+).*?link_layer:\s+(\w+)\n", done.text, re.DOTALL)
        assert found == [("1", "PORT_ACTIVE", "InfiniBand"), ("2", "PORT_ACTIVE", "Ethernet")], done


@pytest.mark.quick
def test_pairs_at_once(two, row):
    """A pair of programs on each port, at the same time: each has its answers, on the cable of its port."""
    row("ibv_rc_pingpong", "-c -i 1 and -c -i 2 at once", "ib and eth")
    words = ["-c", "-n", 150, "-s", 5000]
    before = {port: sent(two, port) for port in PORTS}
    pairs = [two.start_pair(["ibv_rc_pingpong", "-i", port, *gid, *words]) for port, (_, gid, _) in PORTS.items()]
    for pair in pairs:
        assert_exchanged([program.done() for program in pair], words)
    for port in PORTS:
        counts = [after - past for after, past in zip(sent(two, port), before[port], strict=True)]
        assert min(counts) >= packets(words), f"{counts} packets through port {port}"


@pytest.mark.parametrize("port", PORTS)
def test_bandwidth(two, row, port):
    """Packets of a program are on the cable of its port, and none is on the other one."""
    link, _, gid = PORTS[port]
    row("ib_write_bw", f"-i {port}, of two ports", link)
    words = ["-n", 100, "-s", 16384]
    before = {at: sent(two, at) for at in PORTS}
    least = assert_measured(two.pair(["ib_write_bw", "-i", port, *gid, *words]), "ib_write_bw", words)
    assert sent(two, port)[1] - before[port][1] >= least
    assert sent(two, 3 - port) == before[3 - port]
