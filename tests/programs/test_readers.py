"""Programs that look for cards in sysfs: infiniband-diags, UCX, Mooncake's transfer engine."""

import ipaddress
import os
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from pairs import READ, WRITE, end, packets, run_pair

HERE = Path(__file__).resolve().parent
PROGRAMS = ROOT / ".tools" / "programs"
BYTES = 1 << 20
MTU = 4096
LINK_LAYERS = {"eth": "Ethernet", "ib": "InfiniBand"}


def ibstat_card(info):
    """What ibstat must print of a card, going by `hca info`."""
    text = ["CA 'hca0'", "CA type: OpenHCA", f"Number of ports: {len(info['ports'])}",
            f"Firmware version: {info['firmware']}", "Hardware version: 1", f"Node GUID: 0x{info['node_guid']}"]
    for port in info["ports"]:
        guid = ipaddress.ip_address(port["gids"][0]).packed[8:].hex()
        text += [f"Port {port['port']}:", f"State: {port['state']}", "Physical state: LinkUp", "Rate: 100",
                 f"Base lid: {port['lid']}", f"LMC: {port['attributes']['lmc']}",
                 f"Capability mask: {port['attributes']['port_cap_flags']:#010x}", f"Port GUID: 0x{guid}",
                 f"Link layer: {LINK_LAYERS[port['link']]}"]
    return text


@pytest.mark.quick
def test_ibstat(simulators, row):
    row("ibstat", link="ib and eth")
    sim = simulators(ports="2", link="ib,eth")
    done = sim.run(1, "ibstat")
    said = [line.strip() for line in done.text.splitlines()]
    wanted = ibstat_card(sim.info(1))
    assert done.code == 0 and [line for line in said if line in wanted] == wanted, (done, wanted)


def test_ibstatus(simulators, row):
    row("ibstatus", link="ib and eth")
    done = simulators(ports="2", link="ib,eth").run(0, "ibstatus")
    assert done.code == 0 and re.findall(r"'hca0' port (\d)", done.text) == ["1", "2"], done
    assert done.text.count("4: ACTIVE") == 2 and "link_layer:\t InfiniBand" in done.text, done


@pytest.mark.quick
@pytest.mark.parametrize("link", LINK_LAYERS)
def test_ucx_info(simulators, row, link):
    """UCX finds card and port in sysfs, then opens the card. Its RC wants SRQs, its UD UD."""
    row("ucx_info", "-d", link)
    row.result("lists rc_verbs on hca0:1")
    done = simulators(link=link).run(0, "ucx_info", "-d", "-t", "rc_verbs")
    transports = re.findall(r"Transport: (\w+)\n#\s+Device: (\S+)", done.text)
    assert done.code == 0 and ("rc_verbs", "hca0:1") in transports, done
    assert "# Memory domain: hca0" in done.text and "System device: hca0" in done.text, done


LOSSY = ("", ", 0.1 % loss")
FAULTS = ((), ("--faults", "loss=0.001"))


@pytest.fixture(scope="session")
def mooncake():
    path = PROGRAMS / "python"
    if not path.is_dir():
        pytest.skip("Mooncake's engine is not in .tools/programs: see scripts/setup-programs.sh")
    return path


@pytest.mark.parametrize("lossy", [False, True])
def test_mooncake(hca, row, tmp_path, mooncake, lossy):
    row("Mooncake's transfer engine", f"{BYTES} bytes written and read back{LOSSY[lossy]}")
    place, capture = tmp_path / "where", tmp_path / "link.pcap"
    program = ["env", f"PYTHONPATH={mooncake}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, HERE / "mooncake_end.py"]
    done = run_pair(hca, [*program, "serve", "hca0", place], [*program, "transfer", "hca0", place], *FAULTS[lossy],
                    capture=capture)
    assert done.returncode == 0, done
    assert f"{BYTES} bytes arrived: True" in end(done, "server"), done
    assert f"{BYTES} bytes came back: True" in end(done, "client"), done
    found = packets(hca, capture)
    assert min(found[WRITE], found[READ]) >= BYTES // MTU, found


NIXL_SETTINGS = ["UCX_TLS=rc_verbs,ud_verbs:aux", "UCX_NET_DEVICES=hca0:1", "UCX_IB_ROCE_REACHABILITY_MODE=all",
                 "UCX_RC_TIMEOUT=2ms", "UCX_WARN_UNUSED_ENV_VARS=n"]


@pytest.fixture(scope="session")
def nixl():
    path = PROGRAMS / "nixl"
    if not path.is_dir():
        pytest.skip("NIXL is not in .tools/programs: see scripts/setup-programs.sh")
    return path


@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("link", ["eth", "ib"])
def test_nixl(hca, row, tmp_path, nixl, link, lossy):
    """It brings its own UCX, a newer one than Debian's: on Ethernet that asks the kernel for routes to the cards,
    unless it is told not to. At the end it waits for its peer's acknowledges, in simulated time."""
    row("NIXL", f"{BYTES} bytes written and read back, over its own UCX{LOSSY[lossy]}", link)
    place, capture = tmp_path / "where", tmp_path / "link.pcap"
    program = ["env", *NIXL_SETTINGS, f"PYTHONPATH={nixl}", "PYTHONDONTWRITEBYTECODE=1", sys.executable,
               HERE / "nixl_end.py", place]
    done = run_pair(hca, program, [*program, "client"], "--link", link, *FAULTS[lossy], capture=capture)
    assert done.returncode == 0, done
    assert f"{BYTES} bytes arrived: True" in end(done, "server"), done
    assert f"{BYTES} bytes came back: True" in end(done, "client"), done
    found = packets(hca, capture)
    assert min(found[WRITE], found[READ]) >= BYTES // MTU, found


@pytest.mark.quick
@pytest.mark.parametrize("link", ["eth", "ib"])
def test_counters(hca, row, tmp_path, link):
    """What perftest says the port has sent is what is on the wire, in words of four octets."""
    row("ib_write_bw", "-W counters/port_xmit_data,...", link)
    names = ["port_xmit_packets", "port_xmit_data", "port_rcv_packets", "port_rcv_data"]
    wanted = ",".join(f"counters/{name}" for name in names)
    words = ["ib_write_bw", "-n", 20, "-s", 65536, "-W", wanted] + (["-x", 1] if link == "eth" else [])
    capture = tmp_path / "link.pcap"
    done = run_pair(hca, words, [*words, "localhost"], "--link", link, capture=capture)
    assert done.returncode == 0, done
    found = {name: int(value) for name, value in re.findall(r"counters/(\w+)=(\d+)", end(done, "client"))}
    assert set(found) == set(names), done
    packets_wanted = 20 * 65536 // MTU
    assert packets_wanted <= found["port_xmit_packets"] <= 3 * packets_wanted, found
    assert 20 * 65536 // 4 <= found["port_xmit_data"] <= 20 * 65536 // 3, found
    assert 0 < found["port_rcv_packets"] <= packets_wanted and 0 < found["port_rcv_data"], found
