"""ADDR-6: a program may choose any GID that its port lists."""

import ipaddress
import re
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap
from test_perftest import ALL_PROGRAMS, FEW, assert_measured, data_packets_by
from test_pingpong import assert_exchanged, packets

FOREIGN = Path(__file__).with_name("foreign-addresses.toml")
# Name: options of the simulator, then the ports that programs use.
SIMULATORS = {"eth": ({"link": "eth"}, [1]), "ib": ({"link": "ib"}, [1]),
              "ib and eth": ({"link": "ib,eth", "ports": 2}, [1, 2]),
              "eth, any addresses": ({"topology": FOREIGN}, [1])}
# Its line in the table, where the name is no link.
ROWS = {"eth, any addresses": ("every GID, addresses that do not follow from each other", "eth")}
PINGPONG = "ibv_rc_pingpong"
QUICK = [("eth, any addresses", PINGPONG), ("ib and eth", "ib_write_bw")]
ITERS = 10


def listed(done):
    """{port: {index: GID}} as ibv_devinfo -v shows them; entries that are empty it leaves out."""
    ports = {}
    for block in re.split(r"^\s+port:\s+", done.text, flags=re.MULTILINE)[1:]:
        gids = re.findall(r"GID\[ *(\d+)\]:\s+([0-9a-f:.]+)", block)
        ports[int(block.split()[0])] = {int(index): ipaddress.ip_address(gid) for index, gid in gids}
    return ports


def sent(sim, port):
    return [card["ports"][port - 1]["tx_packets"] for card in sim.info()]


def through(sim, program, port, index):
    """The program runs on the port with the GID, and its packets were on the port's cable."""
    before = sent(sim, port)
    if program == PINGPONG:
        words = ["-c", "-n", ITERS]
        assert_exchanged(sim.pair([program, "-i", port, "-g", index, *words]), words)
        wanted = [packets(words)] * 2
    else:
        words = FEW[program.rpartition("_")[2]]
        ends = sim.pair([program, "-i", port, "-x", index, *words])
        wanted = data_packets_by(program, words, assert_measured(ends, program, words))
    for after, past, least in zip(sent(sim, port), before, wanted, strict=True):
        assert after - past >= least, f"{after - past} packets, at least {least} for {program} with GID {index}"


def cases():
    for link in SIMULATORS:
        for program in (PINGPONG, *ALL_PROGRAMS):
            mark = [pytest.mark.quick] if (link, program) in QUICK else []
            yield pytest.param(link, program, marks=mark)


@pytest.mark.parametrize(("link", "program"), list(cases()))
def test_every_gid(simulators, row, link, program):
    row(program, *ROWS.get(link, ("every GID", link)))
    options, ports = SIMULATORS[link]
    sim = simulators(**options)
    shown = [listed(sim.run(card, "ibv_devinfo", "-v")) for card in (0, 1)]
    says = sim.info()
    for port in ports:
        for card in (0, 1):
            gids = list(shown[card][port].values())
            addresses = [ipaddress.ip_address(text) for text in says[card]["ports"][port - 1]["ip_addresses"]]
            is_ethernet = says[card]["ports"][port - 1]["link"] == "eth"
            assert addresses == ([gid.ipv4_mapped or gid for gid in gids] if is_ethernet else []), says
        assert shown[0][port].keys() == shown[1][port].keys() and len(shown[0][port]) >= 3, shown
        for index in shown[0][port]:
            through(sim, program, port, index)


@pytest.mark.quick
@pytest.mark.parametrize("index", range(3))
def test_addresses_on_the_wire(hca, row, tmp_path, index):
    """A packet goes from the IP address of the one end's GID to that of the other's, MAC addresses accordingly."""
    row("ibv_rc_pingpong", f"-g {index}, addresses on the cable")
    capture = tmp_path / "run.pcap"
    words = [PINGPONG, "-g", str(index), "-n", "2"]
    done = subprocess.run([hca, "run", "--pair", "--pcap", capture, "--", *words, "---", *words, "localhost"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    ends = re.findall(r"server:\s+(?:local|remote) address: .* GID (\S+)", done.stdout)
    gids = [ipaddress.ip_address(gid) for gid in ends]
    gids = [gid.ipv4_mapped or gid for gid in gids]
    assert len(set(gids)) == 2, done.stdout
    found = set()
    for frame in rdpcap(str(capture)):
        frame = Ether(bytes(frame))
        packet = frame[IP] if IP in frame else frame[IPv6]
        found.add((ipaddress.ip_address(packet.src), ipaddress.ip_address(packet.dst), frame.src, frame.dst))
    macs = ["02:00:0a:00:00:01", "02:00:0a:00:00:02"]
    assert found == {(*gids, *macs), (*reversed(gids), *reversed(macs))}
