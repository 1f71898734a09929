"""Debian's OpenSM and the programs of infiniband-diags on cards that nobody else sets up (MGMT-1, MGMT-2, MGMT-5)."""

import re
import signal
import subprocess

import pytest
from cards import Simulator
from conftest import ROOT
from pairs import end, packets, run_pair

SM = ("--link", "ib", "--sm", "external")
PORT = "/sys/class/infiniband/hca0/ports/1"
UP = 'until ibstat | grep -q "State: Active"; do sleep 0.1; done'
# The other side's ibv_rc_pingpong, at port 18515.
LISTENS = "until grep -qE ':4853 [0-9A-F:]+ 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"
# Whoever is done tells the other through a file.
DONE = "until test -e {0}; do sleep 0.1; done"


def manager(log, then, done):
    """OpenSM in the background, something beside it, and its end once the other side is done."""
    wait = DONE.format(done)
    return ["sh", "-c", f"opensm -d 2 -f {log} >/dev/null & sm=$!; {UP}; {then}; {wait}; kill $sm; wait $sm; true"]


def managed(done, *commands):
    """Commands of the other side, when its port is up."""
    return ["sh", "-c", f"trap 'touch {done}' EXIT; {UP}; set -e; " + "; ".join(commands)]


@pytest.fixture(name="files")
def fixture_files(tmp_path, monkeypatch):
    # What OpenSM remembers of a fabric is of this test alone.
    monkeypatch.setenv("OSM_CACHE_DIR", str(tmp_path))
    return tmp_path / "opensm.log", tmp_path / "done"


@pytest.mark.quick
@pytest.mark.parametrize("firmware", ["native", "core"])
def test_subnet_up(hca, row, files, firmware):
    """MGMT-1, MGMT-5, VL-14: OpenSM gives both cards a LID and brings their ports to ACTIVE; data flow by these. Agents
    that run on the card's own processor answer it, too."""
    row("opensm", f"and ibv_rc_pingpong, firmware {firmware}", "ib")
    log, done = files
    shown = f"until grep -q ACTIVE {PORT}/state; do sleep 0.1; done; head {PORT}/lid {PORT}/sm_lid"
    ran = run_pair(hca, manager(log, f"ibstat; {shown}; ibv_rc_pingpong -n 50", done),
                   managed(done, "ibstat", shown, LISTENS, "ibv_rc_pingpong -n 50 localhost"), *SM, "--firmware",
                   firmware)
    assert ran.returncode == 0, ran
    assert "SUBNET UP" in log.read_text(), log.read_text()
    # What its sweep, one in ten seconds, still asks for when it is told to end is not answered any more: no error.
    lived = log.read_text().split("Exiting SM")[0]
    assert not re.search(r"0x01 ->.*ERR", lived), log.read_text()
    lids = [re.search(r"Base lid: (\d+)", end(ran, name)).group(1) for name in ("server", "client")]
    assert sorted(lids) == ["1", "2"], ran
    for name in ("server", "client"):
        assert "SM lid: 1" in end(ran, name) and "50 iters" in end(ran, name), ran
    # What the simulator shows in /sys is what they have now.
    for name, lid in zip(("server", "client"), lids, strict=True):
        assert re.findall(r"^0x\w+$", end(ran, name), re.M) == [f"{int(lid):#x}", "0x1"], ran


def test_diagnostics(hca, row, files):
    """MGMT-3, STAT: the subnet manager and administrator, agents and counters answer those who ask, from both sides."""
    row("infiniband-diags", "smpquery, sminfo, saquery, perfquery, ibnetdiscover", "ib")
    log, done = files
    questions = ["smpquery nodeinfo 1", "smpquery portinfo 2", "smpquery -D nodeinfo 0,1", "smpquery pkeys 1",
                 "smpquery sl2vl 1", "smpquery vlarb 1", "sminfo", "saquery", "saquery -p", "saquery portinforecord",
                 "perfquery 1 1", "perfquery -x 1 1", "ibnetdiscover"]
    capture = log.with_name("link.pcap")
    ran = run_pair(hca, manager(log, "saquery; perfquery 2 1", done), managed(done, *questions), *SM, capture=capture)
    assert ran.returncode == 0, ran
    packets(hca, capture)   # every CRC
    seen = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband.mad || _ws.malformed"], capture_output=True,
                          text=True, check=True).stdout
    assert seen.count("GetResp") > 20 and "alformed" not in seen, seen
    client, server = end(ran, "client"), end(ran, "server")
    assert re.search(r"sminfo: sm lid 1 sm guid 0x\w+, activity count \d+ .* state 3 SMINFO_MASTER", client), ran
    assert client.count("NodeRecord dump") == 2 and server.count("NodeRecord dump") == 2, ran
    assert "PathRecord dump" in client and "PortInfoRecord dump" in client, ran
    assert client.count("PortXmitPkts:") == 2 and "PortXmitPkts:" in server, ran
    assert "0xffff" in client, "the default partition"


def test_manager_comes_again(hca, row, files):
    """MGMT-1: OpenSM is killed in the middle of its work, and started again: LIDs stay, the subnet is up again."""
    row("opensm", "killed and started again", "ib")
    log, done = files
    first = f"opensm -d 2 -f {log}.1 >/dev/null & sm=$!; {UP}; ibstat | grep lid; kill -9 $sm; wait $sm"
    again = (f"opensm -d 2 -f {log} >/dev/null & sm=$!; until grep -q 'SUBNET UP' {log}; do sleep 0.1; done; "
             f"ibstat | grep lid; {DONE.format(done)}; kill $sm; wait $sm; true")
    ran = run_pair(hca, ["sh", "-c", f"{first}; {again}"],
                   managed(done, f"until grep -q 'SUBNET UP' {log} 2>/dev/null; do sleep 0.1; done", "sminfo"), *SM)
    assert ran.returncode == 0, ran
    lids = re.findall(r"Base lid: (\d+)", end(ran, "server"))
    assert len(lids) == 2 and lids[0] == lids[1] != "0", ran
    assert "SMINFO_MASTER" in end(ran, "client"), ran


@pytest.mark.quick
def test_without_a_manager(hca, row):
    """VL-14: ports wait in INIT without a LID; directed routes reach their agents; nobody else answers."""
    row("infiniband-diags", "ibstat, smpquery without a subnet manager", "ib")
    ask = "ibstat; smpquery -D nodeinfo 0; smpquery -D portinfo 0,1 1"
    ran = run_pair(hca, ["sh", "-c", ask], ["ibstat"], *SM)
    assert ran.returncode == 0, ran
    server = end(ran, "server")
    for words in ("State: Initializing", "Base lid: 0", "NodeType:........................Channel Adapter",
                  "LinkState:.......................Initialize", "LinkWidthActive:.................4X"):
        assert words in server, (words, ran)


@pytest.mark.quick
def test_two_switches(hca, row, files):
    """MGMT-1: four cards behind two switches, whose forwarding tables OpenSM fills: everybody reaches everybody."""
    row("opensm", "four cards behind two switches", "ib")
    log, _ = files
    fabric = Simulator(hca, f"--topology={ROOT}/docs/topologies/two-switches.toml", "--sm=external")
    try:
        sm = fabric.start(0, "opensm", "-d", "2", "-f", log)
        sm.wait_until(lambda: log.is_file() and "SUBNET UP" in log.read_text(), "SUBNET UP")

        def ask(card, *words):
            done = fabric.start(card, *words).done()
            assert done.code == 0, done
            return done.text

        lids = [re.search(r"Base lid: (\d+)", ask(card, "ibstat")).group(1) for card in range(4)]
        assert len(set(lids) - {"0"}) == 4, lids
        found = ask(3, "ibnetdiscover")
        assert found.count("\nSwitch") == 2 and found.count("\nCa") == 4, found
        assert ask(3, "saquery").count("NodeRecord dump") == 6
        switch = re.search(r'"sw1" base port 0 lid (\d+)', found).group(1)
        table = ask(2, "ibroute", switch)
        assert all(f"0x{int(lid):04x}" in table for lid in lids), table
        ends = fabric.start_pair(["ibv_rc_pingpong", "-n", "20"], cards=(1, 3))
        assert all("20 iters" in program.done().text for program in ends)
        sm.signal(signal.SIGTERM)
        assert sm.done().code == 0, sm.text
    finally:
        fabric.stop()
