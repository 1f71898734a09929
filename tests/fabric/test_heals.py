"""Managers that die, cables that are pulled, switches that restart: the fabric heals, programs hear of it (MGMT-1)."""

import re

PINGPONG = ["ibv_rc_pingpong", "-n", "20"]
# port_cap (E-5).
IS_SM = 1 << 1


def flows(net, first, second):
    ended = net.pair(PINGPONG, cards=(first, second))
    assert all(done.code == 0 for done in ended), ended


def watch(net, card):
    """A program that prints events; they must have been asked for before something happens."""
    program = net.start(card, "ibv_asyncwatch", live=True)
    program.prints("async event FD")
    return program


def test_traps_tell_of_cables(fabric):
    """MGMT-9, EVT: a cable pulled and plugged: trap 128, PORT_ERR and PORT_ACTIVE; the port comes up again."""
    net = fabric("two-switches")
    sm = net.manage()
    sm.wait_up()
    switch = net.switches()["sw1"]["lid"]
    events = watch(net, 3)
    net.command("pull", "sw1:2")
    events.prints("port error|PORT_ERR|IBV_EVENT_PORT_ERR|port_error")
    sm.wait(rf"num:128 .* from LID:{switch}\b")
    assert net.ports()["sw1:2"] == "DOWN"
    assert net.sysfs(3, "DOWN")["phys_state"] == "2: Polling"
    again = sm.up_again()
    net.command("plug", "card3")
    sm.wait_up(again)
    events.prints("(?i)port.active")
    assert net.ports()["sw1:2"] == "ACTIVE"
    assert net.sysfs(3, "ACTIVE")["phys_state"] == "5: LinkUp"
    flows(net, 0, 3)
    # A trap that is repressed comes no more.
    assert sm.traps() >= {(128, switch)}
    counted = len(re.findall(r"num:128", sm.text))
    net.ask(1, "smpquery", "nodeinfo", switch)
    assert len(re.findall(r"num:128", sm.text)) <= counted + 1


def test_ways_around(fabric):
    """MGMT-1: in a ring a trunk is pulled: the manager finds the way around, without another LID for anybody."""
    net = fabric("ring")
    sm = net.manage()
    sm.wait_up()
    lids = net.lids(4)
    way = net.ask(1, "ibtracert", lids[0], lids[1])
    assert way.count("switch port") == 2, way
    again = sm.up_again()
    net.command("pull", "sw0:2")
    sm.wait_up(again)
    way = net.ask(1, "ibtracert", lids[0], lids[1])
    assert way.count("switch port") == 4, way
    flows(net, 0, 1)
    assert net.lids(4) == lids


# Blocks of 64 bytes: beyond what a manager says, data are under way.
BLOCKS = 2_000


def trunk_blocks(net, name):
    """Blocks that the port of a switch has sent on its data VLs."""
    switch, number = name.split(":")
    port = next(port for port in net.switches()[switch]["ports"] if port["port"] == int(number))
    return sum(lane["blocks_sent"] for lane in port["lanes"])


def test_traffic_goes_on_another_way(fabric):
    """MGMT-1, REL: a trunk is pulled under traffic whose retries last for longer than the manager takes: the same
    connection goes on by the other way around the ring, and nobody hears of an error."""
    net = fabric("ring")
    sm = net.manage()
    sm.wait_up()
    # 4.3 s between two tries.
    words = ["ib_write_bw", "-n", "200000", "-s", "4096", "-u", "20"]
    server, client = net.start_pair(words, cards=(1, 0))
    client.wait_until(lambda: trunk_blocks(net, "sw0:2") > BLOCKS, "data went the short way")
    again = sm.up_again()
    net.command("pull", "sw0:2")
    sm.wait_up(again)
    before = trunk_blocks(net, "sw0:3")
    client.wait_until(lambda: trunk_blocks(net, "sw0:3") > before + BLOCKS, "data went the long way")
    assert not server.ended() and not client.ended(), (server.text, client.text)
    for program in (client, server):
        program.kill()


def test_traffic_fails_as_it_must(fabric):
    """MGMT-1, REL, EVT: the cable of a card is pulled under traffic: who sends gets RETRY_EXC_ERR when its retries are
    over, who is cut off PORT_ERR; plugged in again, another connection works."""
    net = fabric("two-switches")
    sm = net.manage()
    sm.wait_up()
    events = watch(net, 3)
    # 4.2 ms between two tries.
    words = ["ib_write_bw", "-n", "200000", "-s", "4096", "-u", "10"]
    server, client = net.start_pair(words, cards=(3, 0))
    client.wait_until(lambda: trunk_blocks(net, "sw1:2") > BLOCKS, "data came")
    net.command("pull", "card3")
    done = client.done()
    assert done.code != 0 and re.search("transport retry counter exceeded|status 12", done.text), done
    events.prints("(?i)port.err")
    server.kill()
    again = sm.up_again()
    net.command("plug", "card3")
    sm.wait_up(again)
    flows(net, 0, 3)


def test_a_switch_restarts(fabric):
    """MGMT-1: a switch that has forgotten everything gets its tables again."""
    net = fabric("ring")
    sm = net.manage()
    sm.wait_up()
    before = net.switches()["sw2"]
    again = sm.up_again()
    net.command("restart", "sw2")
    sm.wait_up(again)
    sm.program.wait_until(lambda: set(net.ports().values()) == {"ACTIVE"}, "every port is ACTIVE again")
    after = net.switches()["sw2"]
    assert (after["lid"], after["unicast"]) == (before["lid"], before["unicast"])
    flows(net, 1, 2)


def test_standby_takes_over(fabric):
    """MGMT-1, MGMT-9: a second manager sees the first by IsSM and stands by; when that is killed it is the master."""
    net = fabric("two-switches")
    options = net.files / "standby.conf"
    options.write_text("sminfo_polling_timeout 500\npolling_retry_number 2\n")
    first = net.manage("-p", "9")
    first.wait_up()
    events = watch(net, 2)
    second = net.manage("-p", "3", "-F", options, card=3, name="standby")
    second.wait("Entering STANDBY")
    lids = net.lids(4)
    first.wait(rf"num:144 .* from LID:{lids[3]}\b")
    both = net.ask(1, "saquery", "-s").split("IsSMdisabled")[0]
    assert all(f"base_lid................{lid}\n" in both for lid in (lids[0], lids[3])), both
    first.kill()
    second.wait("Entering MASTER")
    second.wait_up()
    assert net.lids(4) == lids
    events.prints("(?i)sm.change")
    assert int(net.sysfs(3, "ACTIVE")["cap_mask"], 0) & IS_SM, "/sys says who is a manager"
    assert not int(net.sysfs(2, "ACTIVE")["cap_mask"], 0) & IS_SM
    assert re.search(rf"sm lid {lids[3]} .* SMINFO_MASTER", net.ask(2, "sminfo"))
    # hca info shows what the agents show.
    told = net.port(3)
    assert (told["lid"], told["sm_lid"], told["is_sm"]) == (lids[3], lids[3], True), told
    # The port of the dead one says no longer that a manager is there.
    assert "IsSM\n" not in net.ask(1, "smpquery", "portinfo", lids[0])
    flows(net, 0, 1)
    # The first one comes again; it has the higher priority.
    again = net.manage("-p", "9", name="again")
    again.wait("Entering MASTER")
    second.wait("Entering STANDBY", times=2)
    again.stop()


def test_bad_mkeys_are_told_of(fabric):
    """KEY-2, KEY-3, KEY-4, MGMT-6: a wrong M_Key gets no answer, is counted, and told of by trap 256."""
    net = fabric("two-switches")
    options = net.files / "keys.conf"
    options.write_text("m_key 0x1122334455667788\nm_key_protection_level 2\nm_key_lease_period 600\n")
    sm = net.manage("-F", options)
    sm.wait_up()
    lid, switch = net.lids(4)[2], net.switches()["sw1"]["lid"]
    for target in (lid, switch):
        for _ in range(3):
            done = net.run(1, "smpquery", "-t", "200", "-y", "0x1", "portinfo", target)
            assert done.code != 0, done
        sm.wait(rf"num:256 .* from LID:{target}\b")
        told = net.ask(1, "smpquery", "-y", "0x1122334455667788", "portinfo", target, 0)
        assert int(re.search(r"MkeyViolations:\.*(\d+)", told).group(1)) >= 3, told


def test_partitions_and_qos(fabric):
    """MGMT-5, MGMT-10, KEY-10, KEY-11, KEY-20, VL-8: P_Keys and QoS files: the tables are what OpenSM was told."""
    net = fabric("two-switches")
    ports = [hex(net.guid(card)) for card in range(4)]
    partitions = net.files / "partitions.conf"
    partitions.write_text("Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
                          f"blue=0x0123 : {ports[0]}=full, {ports[3]}=limited ;\n")
    options = net.files / "opensm.conf"
    options.write_text("qos TRUE\nqos_max_vls 4\nqos_high_limit 7\nqos_vlarb_high 0:3,1:9\n"
                       "qos_vlarb_low 0:1,1:2,2:4,3:8\nqos_sl2vl 0,1,2,3,0,1,2,3,3,2,1,0,0,0,0,0\n")
    events = watch(net, 3)
    sm = net.manage("-P", partitions, "-F", options)
    sm.wait_up()
    for name in ("(?i)lid.change", "(?i)sm.change", "(?i)p.?key.change", "(?i)client.reregister"):
        events.prints(name)
    lids = net.lids(4)
    keys = [set(re.findall(r"0x[1-9a-f]\w{3}|0x0[1-9a-f]\w{2}", net.ask(1, "smpquery", "pkeys", lid))) for lid in lids]
    assert keys[0] >= {"0xffff", "0x8123"} and keys[3] >= {"0x7fff", "0x0123"}, keys
    assert not {"0x8123", "0x0123"} & (keys[1] | keys[2]), keys
    arbitration = net.ask(1, "smpquery", "vlarb", lids[3])
    assert re.search(r"WEIGHT: *\|0x3 *\|0x9 *\|0x0", arbitration), arbitration
    maps = net.ask(1, "smpquery", "sl2vl", lids[3])
    assert re.search(r"\| *0\| *1\| *2\| *3\| *0\| *1\| *2\| *3\| *3\| *2\| *1\| *0\|", maps), maps
    assert "VLHighLimit:.....................7" in net.ask(1, "smpquery", "portinfo", lids[3])
    flows(net, 0, 3)
    sm.stop()
