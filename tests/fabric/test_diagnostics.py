"""What the programs of infiniband-diags say of a fabric, beside what the simulator knows itself (MGMT-2, MGMT-3, STAT).

OpenSM has QP0 of card 0: what needs a QP0 asks from another one.
"""

import re

import pytest

NODE = re.compile(r"^(Switch|Ca)\s+(\d+) \"[SH]-(\w+)\"", re.M)


@pytest.fixture(name="net")
def fixture_net(fabric):
    net = fabric("two-switches")
    net.manage().wait_up()
    return net


def fields(text):
    """`Name:......value` lines."""
    return dict(re.findall(r"^#? ?(\w+):\.*(.*)$", text, re.M))


def test_topology(net):
    """ibnetdiscover, iblinkinfo, ibtracert, ibroute, ibhosts, ibswitches: nodes, cables and ways are the topology's."""
    switches = net.switches()
    found = net.ask(3, "ibnetdiscover")
    nodes = NODE.findall(found)
    assert sorted(kind for kind, *_ in nodes) == ["Ca"] * 4 + ["Switch"] * 2, found
    guids = {int(guid, 16) for kind, _, guid in nodes if kind == "Switch"}
    assert guids == {switch["guid"] for switch in switches.values()}
    # [8] of sw0 to [8] of sw1, and back.
    trunks = re.findall(r"^\[8\]\s+\"S-(\w+)\"\[8\]", found, re.M)
    assert {int(guid, 16) for guid in trunks} == guids, found

    lids = net.lids(4)
    way = net.ask(1, "ibtracert", lids[0], lids[3])
    steps = re.findall(r"^\[(\d+)\] -> (\w+) port \{(0x\w+)\}\[(\d+)\]", way, re.M)
    assert [(out, kind, port) for out, kind, _, port in steps] == [
        ("1", "switch", "1"), ("8", "switch", "8"), ("2", "ca", "1")], way

    links = net.ask(2, "iblinkinfo")
    assert links.count("Active/  LinkUp") == 10, links
    for name, switch in switches.items():
        table = net.ask(1, "ibroute", switch["lid"])
        rows = {str(int(lid, 16)): int(port) for lid, port in re.findall(r"^(0x\w{4}) (\d{3}) :", table, re.M)}
        assert rows == switch["unicast"], (name, table)
    assert net.ask(1, "ibhosts").count("Ca\t:") == 4 and net.ask(1, "ibswitches").count("Switch\t:") == 2
    groups = net.ask(1, "ibroute", "-M", switches["sw0"]["lid"])
    assert re.search(r"0xc000 |Valid mlids|0 valid mlids", groups), groups


def test_attributes(net):
    """smpquery: every attribute that it knows of a card's port and of a switch, by LID and by directed route."""
    operations = re.findall(r"^  (\w+) \((?:\w+)\) <addr>", net.run(1, "smpquery", "--help").text, re.M)
    assert operations == ["NodeInfo", "NodeDesc", "PortInfo", "PortInfoExtended", "SwitchInfo", "PKeyTable",
                          "SL2VLTable", "VLArbitration", "GUIDInfo", "MlnxExtPortInfo"], operations
    switches = net.switches()
    lid, sw0, sw1 = net.lids(4)[3], switches["sw0"], switches["sw1"]
    info = fields(net.ask(1, "smpquery", "nodeinfo", lid))
    assert info["NodeType"] == "Channel Adapter" and info["NumPorts"] == "1", info
    info = fields(net.ask(1, "smpquery", "nodeinfo", sw0["lid"]))
    assert info["NodeType"] == "Switch" and int(info["Guid"], 16) == sw0["guid"], info
    assert "sw1" in net.ask(1, "smpquery", "nodedesc", sw1["lid"])
    port = fields(net.ask(1, "smpquery", "portinfo", lid))
    assert (port["Lid"], port["SMLid"], port["LinkState"]) == (str(lid), "1", "Active"), port
    assert "IsTrapSupported" in net.ask(1, "smpquery", "portinfo", lid)
    for number in (1, 2, 8):
        port = fields(net.ask(3, "smpquery", "portinfo", sw0["lid"], number))
        assert (port["LinkState"], port["PhysLinkState"], port["LocalPort"]) == ("Active", "LinkUp", "8"), port
    assert fields(net.ask(3, "smpquery", "portinfo", sw0["lid"], 5))["LinkState"] == "Down"
    info = fields(net.ask(3, "smpquery", "switchinfo", sw0["lid"]))
    assert (info["LinearFdbTop"], info["LinearFdbCap"]) == ("6", "49152"), info
    assert "0xffff" in net.ask(1, "smpquery", "pkeys", lid)
    assert "0xffff" in net.ask(1, "smpquery", "pkeys", sw0["lid"], 0)
    assert "# SL2VL table" in net.ask(1, "smpquery", "sl2vl", lid)
    assert "# VLArbitration tables" in net.ask(1, "smpquery", "vlarb", lid)
    assert "# SL2VL table" in net.ask(1, "smpquery", "sl2vl", sw0["lid"], 8)
    assert "# VLArbitration tables" in net.ask(1, "smpquery", "vlarb", sw0["lid"], 8)
    assert "1 guids capacity" in net.ask(1, "smpquery", "guidinfo", lid)
    # Not there, and not claimed: speeds beyond those of PortInfo, a vendor's.
    for operation, said in (("PortInfoExtended", "not supported"), ("MlnxExtPortInfo", "query failed")):
        for at in (lid, sw0["lid"]):
            done = net.run(1, "smpquery", operation, at)
            assert done.code != 0 and said in done.text, done
    # LIDs to a switch, and a directed route from there.
    info = fields(net.ask(1, "smpquery", "-c", "nodeinfo", sw1["lid"], "0,2"))
    assert info["NodeType"] == "Channel Adapter", info
    # By a directed route, through both switches.
    info = fields(net.ask(1, "smpquery", "-D", "nodeinfo", "0,1,8,2"))
    assert info["NodeType"] == "Channel Adapter", info
    info = fields(net.ask(1, "smpquery", "-D", "switchinfo", "0,1,8"))
    assert info["LinearFdbTop"] == "6", info
    # What no agent of ours has: LedInfo, VendorDiag.
    for attribute in ("0x31", "0x30"):
        done = net.run(1, "smpdump", "-D", "0,1,8,2", attribute)
        assert "ffff" not in done.text and ("status" in done.text or done.code != 0), done


def test_manager_and_administrator(net):
    """MGMT-3: sminfo, saquery: who is master, and what the administrator has of whom."""
    lids = net.lids(4)
    for card in (1, 3):
        assert re.search(rf"sm lid {lids[0]} .* state 3 SMINFO_MASTER", net.ask(card, "sminfo"))
    assert net.ask(2, "saquery").count("NodeRecord dump") == 6
    assert net.ask(2, "saquery", "portinforecord").count("PortInfoRecord dump") >= 4
    path = net.ask(3, "saquery", "--src-to-dst", f"{lids[0]}:{lids[3]}")
    assert f"dlid....................{lids[3]}" in path and f"slid....................{lids[0]}" in path, path
    assert net.ask(1, "saquery", "LFTRecord").count("LFT Record dump") >= 2
    assert net.ask(1, "saquery", "-s").count(f"base_lid................{lids[0]}\n") == 1
    # Several datagrams: every path between any two.
    assert net.ask(1, "saquery", "-p").count("PathRecord dump") >= 16


def test_counters(net):
    """STAT: perfquery of ports of cards and switches: what the simulator counts, 64 bits wide, cleared when asked."""
    sw0 = net.switches()["sw0"]
    card = net.lids(4)[3]
    assert all(done.code == 0 for done in net.pair(["ib_write_bw", "-n", "100", "-s", "4096"], cards=(3, 0)))

    def counters(port):
        return next(at["counters"] for at in net.switches()["sw0"]["ports"] if at["port"] == port)

    before = counters(2)
    for words in (["-x"], []):
        got = fields(net.ask(0, "perfquery", *words, sw0["lid"], 2))
        now = counters(2)
        assert before["port_xmit_pkts"] <= int(got["PortXmitPkts"]) <= now["port_xmit_pkts"], got
        assert before["port_rcv_bytes"] // 4 <= int(got["PortRcvData"]) <= now["port_rcv_bytes"] // 4, got
    trunk = fields(net.ask(0, "perfquery", "-x", sw0["lid"], 8))
    assert int(trunk["PortXmitPkts"]) > 100 and int(trunk["PortXmitData"]) > 100 * 1024, trunk
    far = fields(net.ask(0, "perfquery", "-x", card, 1))
    assert int(far["PortRcvData"]) > 100 * 1024, far
    # Read and clear; the simulator's own counters run on.
    net.ask(0, "perfquery", "-R", sw0["lid"], 8)
    again = fields(net.ask(0, "perfquery", sw0["lid"], 8))
    assert int(again["PortXmitData"]) < int(trunk["PortXmitData"]) // 10, again
    assert counters(8)["port_xmit_pkts"] >= int(trunk["PortXmitPkts"])
    net.ask(0, "perfquery", "-R", card, 1)
    assert int(fields(net.ask(0, "perfquery", card, 1))["PortRcvData"]) < 100 * 1024
    done = net.run(0, "perfquery", sw0["lid"], 77)
    assert done.code != 0, done
    summary = net.run(1, "ibqueryerrors").text
    assert re.search(r"6 nodes checked", summary), summary


def test_ping(net):
    """MGMT-4: a vendor's class goes from program to program, across both switches."""
    server = net.start(3, "ibping", "-S")
    lid = net.lids(4)[3]
    answered = net.ask(0, "ibping", "-c", "5", lid)
    assert "5 packets transmitted, 5 received, 0% packet loss" in answered, answered
    server.kill()


def test_port_disabled_and_enabled(net):
    """MGMT-7, ibportstate: a port of a switch is switched off, its card sees it; switched on, it comes up again."""
    sw1 = net.switches()["sw1"]
    assert "LinkState:.......................Active" in net.ask(1, "ibportstate", sw1["lid"], 2)
    net.ask(1, "ibportstate", sw1["lid"], 2, "disable")
    assert net.ports()["sw1:2"] == "DOWN"
    assert "PhysLinkState:...................Disabled" in net.ask(1, "ibportstate", sw1["lid"], 2)
    assert "PhysLinkState:...................Polling" in net.ask(1, "ibportstate", sw1["lid"], 5), "no cable"
    watch = net.start(3, "sh", "-c", "until ibstat | grep -q 'State: Down'; do sleep 0.1; done")
    assert watch.done().code == 0
    net.ask(1, "ibportstate", sw1["lid"], 2, "enable")
    watch = net.start(3, "sh", "-c", "until ibstat | grep -q 'State: Active'; do sleep 0.1; done")
    assert watch.done().code == 0
    assert net.ports()["sw1:2"] == "ACTIVE"
    assert all(done.code == 0 for done in net.pair(["ibv_rc_pingpong", "-n", "20"], cards=(0, 3)))
