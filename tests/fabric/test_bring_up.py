"""Every fabric comes up as OpenSM says, and programs run across it (MGMT-1, MGMT-5, VL-14)."""

import re
import signal
import subprocess

import pytest
from cards import WITH_US

FABRICS = {"pair": 2, "two-switches": 4, "ring": 4}


def dumped_tables(folder):
    """The linear tables that OpenSM has dumped, by GUID of the switch."""
    tables = {}
    for line in (folder / "opensm-lfts.dump").read_text().splitlines():
        if found := re.search(r"guid (0x\w+)", line) if line.startswith("Unicast") else None:
            table = tables.setdefault(int(found.group(1), 0), {})
        elif found := re.match(r"(0x\w{4}) (\d{3}) ", line):
            table[str(int(found.group(1), 0))] = int(found.group(2))
    return tables


def given_lids(folder):
    """LIDs by port GUID, as OpenSM remembers them."""
    lines = (folder / "guid2lid").read_text().splitlines()
    return {int(guid, 0): int(lid, 0) for guid, lid, _ in (line.split() for line in lines if line)}


@pytest.mark.parametrize("name", FABRICS)
def test_comes_up(fabric, name):
    """MGMT-1, MGMT-5: SUBNET UP, every port ACTIVE; LIDs and tables are those of OpenSM's dumps, in /sys too;
    traffic flows."""
    cards = FABRICS[name]
    net = fabric(name)
    words = []
    if name == "ring":
        # Up and down a tree whose root is sw0.
        roots = net.files / "roots"
        roots.write_text(f"{net.switches()['sw0']['guid']:#x}\n")
        words = ["-R", "updn", "-a", roots]
    assert [net.sysfs(card, "INIT")["sm_lid"] for card in range(cards)] == ["0x0"] * cards
    sm = net.manage(*words)
    sm.wait_up()
    assert set(net.ports().values()) <= {"ACTIVE"}
    given = given_lids(net.files)
    for card in range(cards):
        text = net.ask(card, "ibstat")
        guid = int(re.search(r"Port GUID: (0x\w+)", text).group(1), 0)
        assert "State: Active" in text and f"Base lid: {given[guid]}\n" in text, text
        assert "SM lid: 1\n" in text, text
        shown = net.sysfs(card, "ACTIVE")
        assert (shown["phys_state"], int(shown["lid"], 0), shown["sm_lid"]) == ("5: LinkUp", given[guid], "0x1"), shown
    switches = net.switches().values()
    tables = dumped_tables(net.files) if switches else {}
    for switch in switches:
        assert switch["lid"] == given[switch["guid"]]
        assert switch["unicast"] == tables[switch["guid"]], switch["name"]
    assert "cannot build" not in sm.text, sm.text
    last = cards - 1
    for words in (["ibv_rc_pingpong", "-n", "30"], ["ib_write_bw", "-n", "50", "-s", "4096"]):
        assert all(done.code == 0 for done in net.pair(words, cards=(0, last)))
    sm.stop()


def test_fabric_up(hca, tmp_path):
    """`hca fabric up --sm opensm`: one command, and arguments for OpenSM."""
    folder = tmp_path / "c"
    command = [hca, "fabric", "up", "--sm", "opensm", "--dir", folder, "--topology",
               "docs/topologies/two-switches.toml", "--", "-p", "9"]
    with (tmp_path / "said").open("w") as said, \
            subprocess.Popen([*WITH_US, *command], stdout=subprocess.PIPE, stderr=said, text=True) as run:
        assert "sockets of 4 cards" in run.stdout.readline()
        while "SUBNET UP" not in (tmp_path / "said").read_text():
            assert run.poll() is None, (tmp_path / "said").read_text()
        told = subprocess.run([hca, "run", "--dir", folder, "--card", "2", "--", "sminfo"], check=True,
                              capture_output=True, text=True).stdout
        assert re.search(r"priority 9 state 3 SMINFO_MASTER", told), told
        run.send_signal(signal.SIGINT)
        run.communicate()
    assert run.returncode == 0
