"""Every program of Debian's infiniband-diags, unmodified, on one managed fabric: what it answers is what the simulator
knows; or it says itself why it cannot (MGMT-2, MGMT-3, MGMT-4, MGMT-9, STAT)."""

import re
import subprocess
from pathlib import Path

import pytest

ASKER = 1
FAR = 3
# Agents that nobody has: their classes are not answered, and no capability bit says that they are there.
SILENT = "timed out|query failed|query failure|classportinfo query"


def programs():
    """What the package brings, by name."""
    listed = subprocess.run(["dpkg", "-L", "infiniband-diags"], capture_output=True, text=True, check=True).stdout
    return {Path(line).name for line in listed.split() if re.search(r"/s?bin/\w", line)}


class Truth:
    """What the simulator knows of itself, in the words of the programs."""

    def __init__(self, net):
        self.net = net
        shown = net.show()
        self.switches = {switch["name"]: switch for switch in shown["switches"]}
        self.lids = [net.port(card)["lid"] for card in range(4)]
        self.guids = [net.guid(card) for card in range(4)]
        self.links = [link["ends"] for link in shown["links"]]
        self.cached = net.files / "fabric.cache"
        self.tables = net.files / "tables"

    def ways(self, name):
        return {int(lid): port for lid, port in self.switches[name]["unicast"].items()}


def rows_of(text):
    return {int(lid, 16): int(port) for lid, port in re.findall(r"^(0x\w{4}) (\d{3}) :", text, re.M)}


def tables_of(text):
    """The tables of all switches, by name."""
    parts = re.split(r"^Unicast lids .* guid 0x\w+ \((\w+)\):$", text, flags=re.M)
    return {name: rows_of(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def nodes_of(text):
    """Kinds and GUIDs of lines like `Ca : 0x... ports 1`."""
    return sorted((kind, int(guid, 16)) for kind, guid in re.findall(r"^(Ca|Switch)\t: (0x\w+) ports", text, re.M))


def port_lines(text):
    """LID and port of both ends of each link of `ibnetdiscover -p`."""
    pattern = r"^\S+ +(\d+) +(\d+) 0x\w+ 4x EDR - \S+ +(\d+) +(\d+) 0x"
    return {tuple(map(int, found)) for found in re.findall(pattern, text, re.M)}


def all_nodes(truth, kinds=("Ca", "Switch")):
    found = [("Ca", guid) for guid in truth.guids]
    found += [("Switch", switch["guid"]) for switch in truth.switches.values()]
    return sorted(node for node in found if node[0] in kinds)


def cables(truth):
    """Both directions of each cable: LIDs and ports."""
    places = {f"card{card}": (lid, 1) for card, lid in enumerate(truth.lids)}
    for name, switch in truth.switches.items():
        places |= {f"{name}:{port['port']}": (switch["lid"], port["port"]) for port in switch["ports"]}
    ends = [[places[end] for end in link] for link in truth.links]
    return {pair for first, second in ends for pair in ((*first, *second), (*second, *first))}


def shows_tables(truth, done):
    return tables_of(done.text) == {name: truth.ways(name) for name in truth.switches}


def keeps_tables(truth, done):
    truth.tables.write_text(done.text)
    return shows_tables(truth, done)


def counters_are_right(truth, done):
    """What perfquery says of a trunk is between what it was and what it is."""
    got = int(re.search(r"PortXmitPkts:\.*(\d+)", done.text).group(1))
    port = next(port for port in truth.net.switches()["sw0"]["ports"] if port["port"] == 8)
    was = next(port for port in truth.switches["sw0"]["ports"] if port["port"] == 8)
    return was["counters"]["port_xmit_pkts"] <= got <= port["counters"]["port_xmit_pkts"]


# MGMT-9. Not there, and not claimed: keys in memory that lasts (KEY-6), InitType (MGMT-11), baseboard and device
# management (MGMT-8), connections by an agent (MGMT-4: programs have them). MGMT-13: NodeDescription can be set.
CAPABILITIES = {"Notice", "Trap", "OptionalIPD", "SLMapping", "SystemImageGUID", "ExtendedSpeeds", "DRNotice",
                "CapabilityMaskNotice", "ClientRegistration", "CapabilityMask2", "OtherLocalChangesNotice",
                "SetNodeDescription"}


def claims_what_is(truth, done):
    names = re.findall(r"^\s+Is(\w+)$", done.text, re.M)
    claimed = {name.removesuffix("supported").removesuffix("Supported") for name in names}
    return claimed == CAPABILITIES and f"Lid:.............................{truth.lids[FAR]}\n" in done.text


def refuses(pattern):
    return lambda _, done: done.code != 0 and re.search(pattern, done.text)


# Program, its words (`{lid}` far card, `{sw}` sw0), what must hold of the answer.
ROWS = [
    ("ibaddr", "{lid}", lambda t, d: f"LID start {t.lids[FAR]:#x} end {t.lids[FAR]:#x}" in d.text),
    ("ibaddr", "-g {sw}", lambda t, d: re.search(r"GID fe80::(\S+)", d.text)),
    ("ibhosts", "", lambda t, d: nodes_of(d.text) == all_nodes(t, ["Ca"])),
    ("ibswitches", "", lambda t, d: nodes_of(d.text) == all_nodes(t, ["Switch"])),
    ("ibnodes", "", lambda t, d: nodes_of(d.text) == all_nodes(t)),
    ("ibrouters", "", lambda t, d: d.text.strip() == ""),
    ("ibnetdiscover", "-p", lambda t, d: port_lines(d.text) == cables(t)),
    ("ibnetdiscover", "--cache {cache}", lambda t, d: t.cached.stat().st_size > 0),
    ("ibcacheedit", "--switchguid {guid}:0x77 {cache} {cache}.2", lambda t, d: Path(f"{t.cached}.2").is_file()),
    ("iblinkinfo", "--load-cache {cache}.2", lambda t, d: "0x0000000000000077" in d.text),
    ("iblinkinfo", "", lambda t, d: d.text.count("Active/  LinkUp") == 2 * len(t.links)),
    ("ibidsverify", "", lambda t, d: "ERR" not in d.text),
    ("ibfindnodesusing", "{guid} 1", lambda t, d: f"{t.guids[0]:#018x} 1" in d.text),
    ("ibroute", "{sw}", lambda t, d: rows_of(d.text) == t.ways("sw0")),
    ("dump_lfts", "", shows_tables),
    ("dump_fts", "", keeps_tables),
    ("dump_mfts", "", lambda t, d: d.text.count("valid mlids dumped") == len(t.switches)),
    ("check_lft_balance", "-l {tables} -i {cache}", lambda t, d: "ERROR" not in d.text),
    ("ibtracert", "{own} {lid}", lambda t, d: re.findall(r"^\[(\d+)\] ->", d.text, re.M) == ["1", "8", "2"]),
    ("ibstat", "", lambda t, d: f"Base lid: {t.lids[ASKER]}\n" in d.text and "State: Active" in d.text),
    ("ibstatus", "", lambda t, d: f"{t.guids[ASKER] >> 16 & 0xffff:04x}:{t.guids[ASKER] & 0xffff:04x}" in d.text),
    ("ibportstate", "{sw} 8", lambda t, d: "LinkState:.......................Active" in d.text),
    ("sminfo", "", lambda t, d: re.search(rf"sm lid {t.lids[0]} sm guid {t.guids[0]:#x}, .* SMINFO_MASTER", d.text)),
    ("smpdump", "{lid} 0x11", lambda t, d: "0101 0101" in d.text.splitlines()[0]),
    ("smpquery", "nodeinfo {lid}", lambda t, d: f"{t.guids[FAR]:#018x}" in d.text),
    ("smpquery", "portinfo {lid}", claims_what_is),
    ("saquery", "-p", lambda t, d: d.text.count("PathRecord dump") >= 16),
    ("saquery", "SWIR", lambda t, d: d.text.count("SwitchInfoRecord dump") == len(t.switches)),
    ("saquery", "--smkey 1 PKTR {lid}", lambda t, d: "0xffff" in d.text.lower()),
    ("saquery", "LR", lambda t, d: d.text.count("LinkRecord dump") == 2 * len(t.links)),
    ("saquery", "GIR {lid}", lambda t, d: f"{t.guids[FAR]:#018x}" in d.text),
    ("perfquery", "{sw} 8", counters_are_right),
    ("perfquery", "-x {sw} 8", counters_are_right),
    ("perfquery", "-c {sw} 8", refuses("sampctlquery")),
    # An idle fabric has no errors, and ports without a cable answer too.
    ("ibqueryerrors", "", lambda t, d: d.code == 0 and re.search("6 nodes checked, 0 bad nodes", d.text)
     and "query failed" not in d.text),
    # Nobody has these agents: system statistics (a server of its own, as ibping), a vendor's, congestion control.
    ("ibsysstat", "-t 100 {lid}", refuses(SILENT)),
    ("vendstat", "-t 100 -N {lid}", refuses(SILENT)),
    ("ibccquery", "-t 100 CongestionInfo {lid}", refuses(SILENT)),
    ("ibccconfig", "-t 100 CongestionKey {lid} 0 0 0 0", refuses("timed out|failed")),
]


def test_every_program(fabric):
    """The whole package: each program is in the table, runs, and says what is."""
    # ibping needs a server on the other side.
    assert programs() == {name for name, *_ in ROWS} | {"ibping"}, "another version of the package?"
    net = fabric("two-switches")
    net.manage().wait_up()
    truth = Truth(net)
    words = dict(lid=truth.lids[FAR], own=truth.lids[0], sw=truth.switches["sw0"]["lid"], cache=truth.cached,
                 guid=f"{truth.switches['sw0']['guid']:#x}", tables=truth.tables)
    wrong = []
    for name, pattern, holds in ROWS:
        done = net.run(ASKER, name, *pattern.format(**words).split())
        if not holds(truth, done):
            wrong.append(str(done))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("stat", ["host", "ping"])
def test_system_statistics_of_a_server(fabric, stat):
    """MGMT-4: ibsysstat answers where its server runs, across both switches."""
    net = fabric("two-switches")
    net.manage().wait_up()
    server = net.start(FAR, "ibsysstat", "-S")
    words = [] if stat == "host" else ["ping"]
    told = net.ask(ASKER, "ibsysstat", net.lids(4)[FAR], *words)
    assert re.search("sysstat|hostname|PING|ping|System|succeeded", told), told
    server.kill()
