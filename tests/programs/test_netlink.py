"""Programs that ask the kernel about cards by RDMA netlink, as rdma(8) of iproute2 does: libhcanetlink.so answers them
from the files in /sys; what no file says is refused in so many words."""

import json
import re
import subprocess

import pytest
from cards import listens_by_cm

# Calls that ask, and what the answer must have.
RDMA = ["rdma", "-j", "-d"]
NOBODY_KNOWS = ["rdma resource show qp", "rdma statistic qp show", "rdma statistic mode", "rdma resource show",
                "rdma dev set hca0 name other", "rdma link add rxe0 type rxe netdev lo", "rdma link delete hca0"]


def asks(sim, card, *words):
    done = sim.run(card, *words)
    assert done.code == 0, done
    return json.loads(done.text)


def guid(text):
    return ":".join(text[at:at + 4] for at in range(0, len(text), 4))


@pytest.mark.parametrize("link", [pytest.param("eth", marks=pytest.mark.quick), "ib"])
def test_devices_and_links(simulators, row, link):
    row("rdma", "dev, link, system", link)
    sim = simulators(link=link)
    cards = sim.info()
    devices = asks(sim, None, *RDMA, "dev", "show")
    assert [device["ifname"] for device in devices] == [f"hca{card['card']}" for card in cards]
    links = asks(sim, None, *RDMA, "link", "show")
    for device, found, card in zip(devices, links, cards, strict=True):
        assert device["node_type"] == "ca" and device["fw"] == card["firmware"], device
        # Older versions of rdma do not print it.
        assert device.get("protocol", link) in {"eth": ("eth", "roce"), "ib": ("ib",)}[link], device
        assert device["node_guid"] == guid(card["node_guid"]), device
        attributes = card["ports"][0]["attributes"]
        assert found["ifname"] == device["ifname"] and found["port"] == 1, found
        assert found["state"] == "ACTIVE" and found["physical_state"] == "LINK_UP", found
        if link == "eth":
            assert found["netdev"] == "lo" and found["netdev_index"] == 1 and "lid" not in found, found
        else:
            assert found["lid"] == attributes["lid"] and found["lmc"] == 0 and "netdev" not in found, found
            assert found["subnet_prefix"] == "fe80:0000:0000:0000", found
    alone = asks(sim, 1, *RDMA, "link", "show", "hca0/1")
    assert [found["ifname"] for found in alone] == ["hca0"], alone
    assert "netns shared" in sim.run(0, "rdma", "system").text


@pytest.mark.quick
def test_counters_of_a_port(simulators, row):
    """Of both ends of a cable: what one has sent the other one has received."""
    row("rdma", "statistic")
    sim = simulators()
    server = sim.start(0, "rping", "-s", "-a", "10.0.0.1", "-C", 2)
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    assert sim.run(1, "rping", "-c", "-a", "10.0.0.1", "-C", 2).code == 0
    assert server.done().code == 0
    found = []
    for card in range(2):
        text = sim.run(card, "rdma", "statistic", "show", "link", "hca0/1").text
        found.append({name: int(value) for name, value in re.findall(r"([rt]x_\w+) (\d+)", text)})
    one, two = found
    assert set(one) == {"rx_bytes", "rx_pkts", "tx_bytes", "tx_pkts"} and one["tx_pkts"] > 10, found
    assert all(one[f"tx_{what}"] == two[f"rx_{what}"] for what in ("bytes", "pkts")), found


@pytest.mark.quick
@pytest.mark.parametrize("words", NOBODY_KNOWS)
def test_what_nobody_knows(simulators, row, words):
    row("rdma", words.removeprefix("rdma "))
    done = simulators().run(0, *words.split())
    row.result("ends with 'Operation not supported'")
    assert done.code != 0 and re.search("not supported", done.text, re.IGNORECASE), done


@pytest.mark.quick
def test_other_sockets_are_the_kernels(simulators, row):
    """What asks about networks is answered as ever, in the same process, too."""
    row("ip link", "beside rdma")
    sim = simulators()
    shown = sim.run(0, "ip", "-o", "link")
    machine = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert shown.code == 0 and shown.text.split() == machine.split(), shown
    both = """
import socket
rdma = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
request = (17).to_bytes(4, "little") + (18).to_bytes(2, "little") + (0x301).to_bytes(2, "little") + bytes(9)
route.send(request)
print("route", len(route.recv(65536)) > 100, route.getsockname()[0] > 0)
dump = (16).to_bytes(4, "little") + (5 << 10 | 1).to_bytes(2, "little") + (0x301).to_bytes(2, "little") + bytes(8)
rdma.sendto(dump, (0, 0))
print("rdma", b"hca0" in rdma.recv(65536), rdma.getsockname()[0] > 0)
rdma.send(b"nonsense")
rdma.setblocking(False)
try:
    rdma.recv(100)
except BlockingIOError:
    print("nothing")
"""
    done = sim.run(0, "python3", "-c", both)
    assert done.code == 0 and done.text.splitlines() == ["route True True", "rdma True True", "nothing"], done
