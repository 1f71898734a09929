"""What a card is called: the host says it, and everybody hears (MGMT-13); and what else `hca` shows of a port is what
its agents say (MGMT-5, MGMT-7, MGMT-9, STAT)."""

import json
import re
import subprocess

NAME = "db1 hca0"


def hca(net, *words):
    done = subprocess.run([net.hca, *words, "--dir", net.sockets], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return done.stdout


def fields(text):
    return dict(re.findall(r"^#? ?(\w+):\.*(.*)$", text, re.M))


def test_a_card_is_described(fabric):
    """MGMT-13: another NodeDescription is told by trap 144; OpenSM asks for it, and its administrator and smpquery say
    it; so does hca info."""
    net = fabric("two-switches")
    sm = net.manage()
    sm.wait_up()
    lid = net.lids(4)[3]
    assert "OpenHCA" in net.ask(1, "smpquery", "nodedesc", lid)
    hca(net, "link", "set", "--card", "3", "--node-desc", NAME)
    sm.wait(rf"num:144 .* from LID:{lid}\b")
    assert net.ask(1, "smpquery", "nodedesc", lid).endswith(f".{NAME}\n")
    watch = net.start(1, "sh", "-c", f"until saquery | grep -q 'NodeDescription.*{NAME}'; do sleep 0.1; done")
    assert watch.done().code == 0
    assert net.info(3)["node_desc"] == NAME and net.info(2)["node_desc"] == "OpenHCA"
    # Nobody else's.
    assert net.ask(1, "saquery").count(NAME) == 1


def test_hca_shows_what_agents_show(fabric):
    """MGMT-5, MGMT-7, MGMT-9, STAT: hca info, hca link, hca fabric and /sys show beside smpquery and perfquery, for
    every port of the fabric, with an M_Key set and data sent."""
    net = fabric("two-switches")
    options = net.files / "keys.conf"
    options.write_text("m_key 0x1122334455667788\nm_key_protection_level 1\nm_key_lease_period 600\n"
                       "qos TRUE\nqos_max_vls 4\nqos_high_limit 5\n")
    net.manage("-F", options).wait_up()
    assert all(done.code == 0 for done in net.pair(["ib_write_bw", "-n", "100", "-s", "4096"], cards=(3, 0)))
    lids, states = net.lids(4), {"Down": 1, "Initialize": 2, "Armed": 3, "Active": 4}
    for card, lid in enumerate(lids):
        info = net.port(card)
        link = json.loads(hca(net, "link", "--once", "--json", "--card", str(card)))
        said = fields(net.ask(1, "smpquery", "-K", "-y", "0x1122334455667788", "portinfo", lid))
        assert (info["lid"], link["lid"], info["sm_lid"]) == (lid, lid, lids[0]) == (
            int(said["Lid"]), lid, int(said["SMLid"])), (info, said)
        assert info["attributes"]["state"] == states[said["LinkState"]] == 4
        assert info["state"] == link["state"] == said["LinkState"]
        assert (info["attributes"]["lmc"], link["lmc"]) == (int(said["LMC"]),) * 2
        assert link["high_limit"] == int(said["VLHighLimit"]) == 5
        assert f"VL0-{link['vls'] - 1}" == said["OperVLs"], (link["vls"], said["OperVLs"])
        assert info["attributes"]["active_mtu"] == {"2048": 4, "4096": 5}[said["NeighborMTU"]]
        assert info["attributes"]["phys_state"] == {"LinkUp": 5}[said["PhysLinkState"]]
        assert info["attributes"]["subnet_timeout"] == int(said["SubnetTimeout"])
        # Nobody asks the card for what programs find in /sys.
        shown = net.sysfs(card, "ACTIVE")
        assert [int(shown[name], 0) for name in ("lid", "sm_lid", "lid_mask_count", "sm_sl", "cap_mask")] == [
            info["attributes"][name] for name in ("lid", "sm_lid", "lmc", "sm_sl", "port_cap_flags")], (shown, info)
        # The key is there, and who has it not reads zeros.
        assert said["Mkey"] == "0x1122334455667788" and said["ProtectBits"] == "1"
        assert set(fields(net.ask(1, "smpquery", "-K", "portinfo", lid))["Mkey"]) <= set("0x")
        # Counters: what is asked first is no more than what is asked last.
        before = net.port(card)["counters"]
        told = fields(net.ask(1, "perfquery", "-x", lid, 1))
        now = net.port(card)["counters"]
        for name, ours, unit in (("PortXmitPkts", "tx_packets", 1), ("PortRcvPkts", "rx_packets", 1),
                                 ("PortXmitData", "tx_bytes", 4), ("PortRcvData", "rx_bytes", 4)):
            assert before[ours] // unit <= int(told[name]) <= now[ours] // unit, (name, told, before, now)
        errors = fields(net.ask(1, "perfquery", lid, 1))
        assert int(errors["QP1Dropped"]) == now["qp1_drops"], (errors, now)
    for name, switch in net.switches().items():
        assert int(fields(net.ask(1, "smpquery", "portinfo", switch["lid"], 0))["Lid"]) == switch["lid"], name
        for port in switch["ports"]:
            if port["peer"]:
                said = fields(net.ask(1, "smpquery", "portinfo", switch["lid"], port["port"]))
                assert said["LinkState"].upper() == port["state"], (name, port["port"], said)
                # What OpenSM sets it enforces: 4.096 us << 18 between switches, 16 to cards.
                assert int(said["HoqLife"]) in (16, 18), said
