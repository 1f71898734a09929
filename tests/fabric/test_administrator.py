"""Our librdmacm as a client of OpenSM's administration: paths and groups are what that says (MGMT-3, MC-12, MC-13).

With an LMC no card has the LID that the simulator would have given it: who did not ask could not arrive.
"""

import re

import pytest
from cards import listens_by_cm

GROUP = "239.1.2.3"


def ip(card):
    return f"10.0.0.{card + 1}"


@pytest.fixture(name="net")
def fixture_net(fabric):
    net = fabric("two-switches")
    net.sm = net.manage("-l", "2")
    net.sm.wait_up()
    assert not set(net.lids(4)) & {1, 2, 3}
    return net


def test_connections(net):
    """MGMT-3, ADDR-10, ADDR-12: rping across two switches: a path record, the connection manager at the LID that it
    names, and the connection by that path."""
    server = net.start(3, "rping", "-s", "-a", ip(3), "-C", "5", "-v")
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    client = net.start(0, "rping", "-c", "-a", ip(3), "-C", "5", "-v")
    for end in (client.done(), server.done()):
        assert end.code == 0 and "DISCONNECT EVENT" in end.text, end


def test_nobody_there(net):
    """CM-26: whose port the administrator does not know is not found."""
    again = net.sm.up_again()
    net.command("pull", "card3")
    net.sm.wait_up(again)
    client = net.run(2, "rping", "-c", "-a", ip(3), "-C", "1", "-v")
    assert client.code != 0, client


def test_pruned(net):
    """MC-15: whose card has gone is a member no longer: the administrator takes it out of the group and its tree; the
    others go on."""
    receivers = [net.start(card, "mckey", "-m", GROUP, "-b", ip(card), "-c", "1", "-C", "5", live=True)
                 for card in (1, 3)]
    for receiver in receivers:
        receiver.prints("(?i)receiving data|joined")

    def tree():
        mlid = re.search(r"ff12:4001:ffff::f01:203.*?Mlid\.*(0x\w+)", net.ask(0, "saquery", "-g"), re.S).group(1)
        return [switch["multicast"].get(str(int(mlid, 0)), []) for switch in net.switches().values()]

    assert tree() == [[2, 8], [2, 8]]
    again = net.sm.up_again()
    net.command("pull", "card3")
    net.sm.wait_up(again)
    net.sm.program.wait_until(lambda: tree()[1] == [], "it is pruned")
    assert tree()[0] in ([], [2]), tree()
    assert len(re.findall(r"ff12:4001:ffff::f01:203", net.ask(0, "saquery", "-m"))) == 1
    sender = net.run(0, "mckey", "-m", GROUP, "-b", ip(0), "-s", "-o", "-c", "1", "-C", "5")
    assert sender.code == 0, sender
    done = receivers[0].done()
    assert done.code == 0 and "return status 0" in done.text, done
    receivers[1].kill()


def test_groups(net):
    """MC-10 to MC-14, MC-16, MC-17, MC-18: the first who joins makes the group; the administrator gives it a LID and
    the tree; switches copy by a bitmap of ports, where members are and nowhere else; who sends alone is no receiver;
    when the last has left it is no more."""
    receivers = [net.start(card, "mckey", "-m", GROUP, "-b", ip(card), "-c", "1", "-C", "5", live=True)
                 for card in (1, 3)]
    for receiver in receivers:
        receiver.prints("(?i)receiving data|joined")
    members = net.ask(0, "saquery", "-m")
    group = re.search(r"ff12:4001:ffff::f01:203", members)
    assert group, members
    tables = {name: switch["multicast"] for name, switch in net.switches().items()}
    mlid = int(re.search(r"ff12:4001:ffff::f01:203.*?Mlid\.*(0x\w+)", net.ask(0, "saquery", "-g"), re.S).group(1), 0)
    # card1 and the trunk; card3 and the trunk.
    assert [tables[name].get(str(mlid)) for name in ("sw0", "sw1")] == [[2, 8], [2, 8]], (mlid, tables)
    sender = net.run(0, "mckey", "-m", GROUP, "-b", ip(0), "-s", "-o", "-c", "1", "-C", "5")
    assert sender.code == 0, sender
    for receiver in receivers:
        done = receiver.done()
        assert done.code == 0 and "return status 0" in done.text, done
    assert "ff12:4001:ffff::f01:203" not in net.ask(0, "saquery", "-g")
