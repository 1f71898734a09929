"""Partitions that OpenSM sets up: the ports at the ends and those of the switches before them keep strangers apart, and
the manager hears who tried (KEY-11, KEY-17, KEY-19, MGMT-9)."""

import re


def keys_of(text):
    return {int(key, 16) for key in re.findall(r"0x\w{4}", text)} - {0}


def counter(net, switch, number, name):
    ports = net.switches()[switch]["ports"]
    return next(port["counters"][name] for port in ports if port["port"] == number)


def test_switches_enforce_partitions(fabric):
    """KEY-19: of a partition that card 2 is no member of nothing comes to it: the switch's port before it drops it,
    counts it, and tells the manager (trap 259)."""
    net = fabric("two-switches")
    guids = [f"{net.guid(card):#x}" for card in range(4)]
    partitions = net.files / "partitions.conf"
    partitions.write_text("Default=0x7fff, ipoib : ALL=full ;\n"
                          f"blue=0x0123 : {guids[0]}=full, {guids[3]}=full ;\n")
    sm = net.manage("-P", partitions)
    sm.wait_up()
    lids, sw1 = net.lids(4), net.switches()["sw1"]
    # Each port has the table of the card behind it, and enforces it both ways; the trunk does not.
    for number, keys in ((1, {0xFFFF}), (2, {0xFFFF, 0x8123})):
        assert keys_of(net.ask(1, "smpquery", "pkeys", sw1["lid"], number).split("capacity")[0]) == keys
        told = net.ask(1, "smpquery", "portinfo", sw1["lid"], number)
        assert "PartEnforceInb:..................1" in told and "PartEnforceOutb:.................1" in told, told
    assert "PartEnforceInb:..................0" in net.ask(1, "smpquery", "portinfo", sw1["lid"], 8)
    told = net.ask(1, "smpquery", "switchinfo", sw1["lid"])
    assert "PartEnforceCap:..................32" in told and "InboundPartEnf:..................1" in told, told
    # Members reach each other in their partition.
    index = re.search(r"^ *0: 0xffff 0x8123", net.ask(1, "smpquery", "pkeys", lids[0]), re.M)
    assert index, net.ask(1, "smpquery", "pkeys", lids[0])
    words = ["ib_write_bw", "-n", "20", "-s", "4096"]
    assert all(done.code == 0 for done in net.pair([*words, "--pkey_index", "1"], cards=(3, 0)))
    assert counter(net, "sw1", 1, "port_xmit_constraint_errors") == 0
    assert not {number for number, _ in sm.traps()} & {257, 258, 259}
    # A stranger gets no packet of it, and who sent it hears of nobody.
    server, client = net.start_pair(words, [*words, "--pkey_index", "1"], cards=(2, 0))
    sm.wait(rf"num:259 .* from LID:{sw1['lid']}\b")
    assert client.done().code != 0
    server.kill()
    assert counter(net, "sw1", 1, "port_xmit_constraint_errors") > 0
    assert "PkeyViolations:..................0" in net.ask(1, "smpquery", "portinfo", lids[2]), "it has not seen it"
    told = net.ask(1, "perfquery", sw1["lid"], 1)
    assert int(re.search(r"PortXmitConstraintErrors:\.*(\d+)", told).group(1)) > 0, told
    told = net.ask(1, "smpquery", "portinfo", sw1["lid"], 1)
    assert int(re.search(r"PkeyViolations:\.*(\d+)", told).group(1)) > 0, told
