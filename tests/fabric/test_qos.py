"""QoS that OpenSM's policy sets up on switches and cards alike: the tables are what it says, and traffic shares a trunk
by them (VL-8, VL-10, VL-12, MGMT-5)."""

import json
import re
import subprocess

from cards import free_port, listens, listens_by_cm

HIGH = [(2, 9), (3, 4)]
LOW = [(0, 64), (1, 192)]
LIMIT = 7
SL2VL = [0, 1, 2, 3, 0, 1, 2, 3, 3, 2, 1, 0, 0, 0, 0, 1]
POLICY = ("qos TRUE\nqos_max_vls 4\nqos_high_limit {limit}\nqos_vlarb_high {high}\nqos_vlarb_low {low}\n"
          "qos_sl2vl {sl2vl}\n")
# Packets of 4 KiB on the trunk between two looks.
PACKETS = 1_500


def words(table):
    return ",".join(f"{vl}:{weight}" for vl, weight in table)


def link_of(net, card):
    """A port as its card has it."""
    command = [net.hca, "link", "--once", "--json", "--dir", net.sockets, "--card", str(card)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def of_smpquery(text):
    """(VL, weight) of the entries with a weight, of the low table and of the high one."""
    tables = []
    for part in re.split("# (?:Low|High) priority VL Arbitration Table:", text)[1:]:
        rows = [[int(cell, 16) for cell in re.findall(r"\|(0x\w+)", line)] for line in part.splitlines()]
        rows = [row for row in rows if row]
        pairs = [pair for vls, weights in zip(rows[::2], rows[1::2], strict=True) for pair in zip(vls, weights,
                                                                                                strict=True)]
        tables.append([pair for pair in pairs if pair[1]])
    return tables


def weighted(entries):
    return [(entry["vl"], entry["weight"]) for entry in entries if entry["weight"]]


def trunk(net):
    return next(port for port in net.switches()["sw0"]["ports"] if port["port"] == 8)


def managed(fabric):
    net = fabric("two-switches")
    options = net.files / "qos.conf"
    options.write_text(POLICY.format(limit=LIMIT, high=words(HIGH), low=words(LOW), sl2vl=",".join(map(str, SL2VL))))
    net.manage("-F", options).wait_up()
    return net


def test_tables_are_the_policy(fabric):
    """VL-8, VL-12: each card and each port of a switch has the policy's tables: as smpquery says, and as the simulator
    works by them. VL-11: arbitration may be missing; ports that have it say how long their tables are."""
    net = managed(fabric)
    switches = net.switches()
    for card, lid in enumerate(net.lids(4)):
        told = link_of(net, card)
        assert (told["vlarb_high"], told["vlarb_low"]) == (words(HIGH), words(LOW)), told
        assert (told["high_limit"], told["sl2vl"]) == (LIMIT, SL2VL), told
        said = net.ask(1, "smpquery", "portinfo", lid)
        assert all(int(re.search(rf"VLArb{part}Cap:\.+(\d+)", said).group(1)) >= 8 for part in ("High", "Low")), said
        assert of_smpquery(net.ask(1, "smpquery", "vlarb", lid)) == [LOW, HIGH]
        row = re.search(r"^ports: in  0, out  0: (.*)$", net.ask(1, "smpquery", "sl2vl", lid), re.M).group(1)
        assert [int(cell) for cell in re.findall(r"\| *(\d+)", row)] == SL2VL, row
    for switch in switches.values():
        wired = [port for port in switch["ports"] if port["peer"]]
        for port in wired:
            found, number = port["arbitration"], port["port"]
            assert (weighted(found["high"]), weighted(found["low"])) == (HIGH, LOW), port
            assert of_smpquery(net.ask(1, "smpquery", "vlarb", switch["lid"], number)) == [LOW, HIGH]
            assert found["limit"] == LIMIT, port
            said = net.ask(1, "smpquery", "portinfo", switch["lid"], number)
            assert f"VLHighLimit:.....................{LIMIT}\n" in said, said
            ways = {int(input_): vls for input_, vls in port["sl2vl"].items() if int(input_) != number}
            assert ways and all(vls == SL2VL for vls in ways.values()), port


def test_shares_of_a_trunk(fabric):
    """VL-12, VL-13: two cards send through one trunk, on service levels whose VLs have 64 and 192 of the weights: each
    gets its share, and the trunk is full."""
    net = managed(fabric)
    share(net, ((0, 2, 0), (1, 3, 1)))


def test_shares_of_partitions(fabric):
    """VL-10: the administrator gives each partition a service level of its own; whoever asks for a path with the
    partition's P_Key learns it. A partition that sends all it can gets its share of the trunk, and no more."""
    net = fabric("two-switches")
    members = {"red": (0, 0x11, 0, 2), "blue": (1, 0x12, 1, 3)}
    partitions = net.files / "partitions.conf"
    partitions.write_text("Default=0x7fff, ipoib : ALL=full ;\n" + "".join(
        f"{name}={key:#x}, sl={level} : {net.guid(one):#x}=full, {net.guid(other):#x}=full ;\n"
        for name, (level, key, one, other) in members.items()))
    options = net.files / "qos.conf"
    options.write_text(POLICY.format(limit=LIMIT, high=words(HIGH), low=words(LOW), sl2vl=",".join(map(str, SL2VL))))
    net.manage("-P", partitions, "-F", options).wait_up()
    lids = net.lids(4)
    for level, key, one, other in members.values():
        path = net.ask(one, "saquery", "--pkey", hex(0x8000 | key), "--src-to-dst", f"{lids[one]}:{lids[other]}")
        assert re.search(rf"^\s*pkey\.+{0x8000 | key:#x}$", path, re.I | re.M), path
        assert re.search(rf"^\s*sl\.+(0x)?{level}$", path, re.M), path
    share(net, [(one, other, level) for level, _, one, other in members.values()])


def share(net, senders):
    """Two cards send through the trunk, on levels whose VLs are 0 and 1, until enough has gone."""
    programs = []
    for sender, receiver, level in senders:
        port = free_port()
        command = ["ib_write_bw", "-n", "200000", "-s", "65536", "-S", level, "-p", port]
        server = net.start(receiver, *command)
        server.wait_until(lambda port=port: listens(port), "it listened")
        programs.append(net.start(sender, *command, "localhost"))

    def sent():
        return [trunk(net)["lanes"][vl]["blocks_sent"] for vl in (0, 1)]

    blocks = PACKETS * 4096 // 64
    programs[0].wait_until(lambda: min(sent()) > blocks // 10, "both have begun")
    before = sent()
    programs[0].wait_until(lambda: sum(sent()) - sum(before) > blocks, "enough was sent")
    first, second = (now - was for now, was in zip(sent(), before, strict=True))
    assert not any(program.ended() for program in programs)
    assert 2.9 < second / first < 3.1, (first, second)


def test_policy_file(fabric):
    """RATE-2, VL-8, MGMT-3: a QoS policy file says which service level paths to a port have: the administrator's
    records say it, librdmacm asks for them, and its connection's packets cross the trunk on that level's VL alone."""
    net = fabric("two-switches")
    policy = net.files / "qos-policy.conf"
    policy.write_text(f"qos-ulps\n  default : 1\n  any, target-port-guid {net.guid(3):#x} : 2\nend-qos-ulps\n")
    options = net.files / "qos.conf"
    options.write_text(POLICY.format(limit=LIMIT, high=words(HIGH), low=words(LOW), sl2vl=",".join(map(str, SL2VL))))
    net.manage("-F", options, "-Q", "-Y", policy).wait_up()
    lids = net.lids(4)
    for to, level in ((3, 2), (2, 1)):
        path = net.ask(1, "saquery", "--src-to-dst", f"{lids[0]}:{lids[to]}")
        assert re.search(rf"^\s*sl\.+(0x)?{level}$", path, re.M), path

    def sent():
        return [lane["packets_sent"] for lane in trunk(net)["lanes"]]

    for to, level in ((3, 2), (2, 1)):
        before = sent()
        address = f"10.0.0.{to + 1}"
        server = net.start(to, "rping", "-s", "-a", address, "-C", "20", "-S", "1000")
        server.wait_until(lambda server=server: listens_by_cm(server.pid), "it listened")
        client = net.run(0, "rping", "-c", "-a", address, "-C", "20", "-S", "1000")
        assert client.code == 0 and server.done().code == 0, (client, server.text)
        moved = [now - was for now, was in zip(sent(), before, strict=True)]
        assert moved[SL2VL[level]] >= 40 and sum(moved) - moved[SL2VL[0]] == moved[SL2VL[level]], (level, moved)
