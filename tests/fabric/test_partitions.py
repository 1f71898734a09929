"""Partitions that OpenSM sets up: the ports at the ends and those of the switches before them keep strangers apart, and
the manager hears who tried (KEY-11, KEY-17, KEY-19, MGMT-9)."""

import re
import subprocess
from pathlib import Path


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


def test_qp1_speaks_in_every_partition(fabric, tmp_path):
    """KEY-12, KEY-16, KEY-21: a program sends on QP1 by any P_Key of its port (umad_set_pkey), across both switches;
    who gets it hears by which of his, and answers in that partition. In one that the other end is no member of nobody
    answers; an index that the port has not is refused."""
    program = tmp_path / "gsi_partitions"
    source = Path(__file__).with_name("gsi_partitions.c")
    subprocess.run(["cc", "-Wall", "-Werror", "-o", program, source, "-libumad"], check=True)
    net = fabric("two-switches")
    guids = [f"{net.guid(card):#x}" for card in range(4)]
    partitions = net.files / "partitions.conf"
    # At card 1: red, green, blue behind the default; at card 3 red and blue.
    partitions.write_text("Default=0x7fff, ipoib : ALL=full ;\n"
                          f"red=0x0101 : {guids[1]}=full, {guids[3]}=limited ;\n"
                          f"green=0x0102 : {guids[1]}=full ;\n"
                          f"blue=0x0103 : {guids[1]}=limited, {guids[3]}=full ;\n")
    net.manage("-P", partitions).wait_up()
    lids = net.lids(4)

    def index_of(card, partition):
        rows = re.findall(r"^ *\d+: (.*)$", net.ask(2, "smpquery", "pkeys", lids[card]), re.M)
        keys = [int(key, 16) & 0x7FFF for row in rows for key in row.split()]
        return keys.index(partition)

    shared = [0x7FFF, 0x0101, 0x0103]
    server = net.start(3, program, "serve", len(shared), live=True)
    server.prints("serves")
    for partition in shared:
        told = net.ask(1, program, "ask", lids[3], index_of(1, partition))
        assert told == f"answered by P_Key {index_of(1, partition)}\n", (partition, told)
    done = server.done()
    assert re.findall(r"asked by P_Key (\d+)", done.text) == [str(index_of(3, key)) for key in shared], done
    assert len({index_of(1, key) for key in shared} | {0}) == 3
    alone = net.start(3, program, "serve", 1, live=True)
    alone.prints("serves")
    done = net.run(1, program, "ask", lids[3], index_of(1, 0x0102))
    assert done.code == 3, done
    done = net.run(1, program, "ask", lids[3], 32)
    assert done.code == 2 and "umad_send: Invalid argument" in done.text, done
    alone.kill()
