"""The cards in /sys and /dev of programs: what is there is what the card says, and the rest is as it was."""

import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT
from pairs import end, run_pair

DUMP = [sys.executable, "-B", str(Path(__file__).with_name("sysfs_dump.py"))]
STATES = {1: "1: DOWN", 4: "4: ACTIVE"}
PHYS_STATES = {2: "2: Polling", 5: "5: LinkUp"}
LANES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}  # of active_width
GBPS = {1: 2.5, 2: 5, 4: 10, 8: 10, 16: 14, 32: 25, 64: 50, 128: 100}  # of active_speed
COUNTERS = [f"counters/{name}" for name in
            ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets")] + [
    f"hw_counters/{name}" for name in ("rx_bytes", "rx_pkts", "tx_bytes", "tx_pkts")]
OURS = {"infiniband", "infiniband_verbs", "infiniband_mad"}
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
# Since Linux 5.12 a user 0 that has no capabilities may make none either.
NO_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
# A user namespace in which no further one can be made.
NO_NAMESPACES = ["unshare", "-Ur", "sh", "-c",
                 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"',
                 "sh"]
SKIPPED = "hca: cards are in /sys and /dev for calls of the C library alone, "
# What a program finds that is led to the files; __xstat is what Python wheels of manylinux2014 call.
LED = """
import ctypes, json, os, stat
card = "/sys/class/infiniband/hca0"
buffer = ctypes.create_string_buffer(512)
node = os.open("/dev/infiniband/uverbs0", os.O_RDWR)
print(json.dumps({
    "cards": os.listdir("/sys/class/infiniband"), "state": open(card + "/ports/1/state").read().strip(),
    "nodes": sorted(os.listdir("/dev/infiniband")),
    "is_device": stat.S_ISCHR(os.stat("/dev/infiniband/uverbs0").st_mode),
    "net": os.listdir(card + "/device/net"), "xstat": ctypes.CDLL(None).__xstat(1, card.encode(), buffer),
    "path": os.path.realpath(card), "classes": "infiniband" in os.listdir("/sys/class"),
    "missing": os.path.exists("/sys/class/infiniband/hca7"), "opened": node >= 0,
    "bus": os.path.exists("/sys/bus/pci/devices/" + os.path.realpath(card).split("/")[4])}))
"""
UNPLUGGED = """
[defaults]
kind = "ethernet"
[[card]]
ports = 2
[[card]]
[[link]]
ends = ["card0", "card1"]
rate_gbps = 25
"""
TOPOLOGIES = {"a port without a link": UNPLUGGED, "two switches": None}


def guid(text):
    """As sysfs prints what the JSON has as 16 digits."""
    return ":".join(text[at:at + 4] for at in range(0, len(text), 4))


def port_files(attributes, port, gid_entries, pkey_entries):
    """What a port's folder has, going by `hca info`: no path is there that is not here."""
    infiniband = port["link"] == "ib"
    lanes = LANES[attributes["active_width"]]
    rate = f"{lanes * GBPS[attributes['active_speed']]:g} Gb/sec ({lanes}X "
    files = {"state": STATES[attributes["state"]], "phys_state": PHYS_STATES[attributes["phys_state"]], "rate": rate,
             "link_layer": "InfiniBand" if infiniband else "Ethernet", "lid": f"{attributes['lid']:#x}",
             "lid_mask_count": f"{attributes['lmc']}", "sm_lid": f"{attributes['sm_lid']:#x}",
             "sm_sl": f"{attributes['sm_sl']}", "cap_mask": f"{attributes['port_cap_flags']:#010x}"}
    for index in range(gid_entries):
        gid = port["gids"][index] if index < len(port["gids"]) else "::"
        files[f"gids/{index}"] = ipaddress.ip_address(gid).exploded
        if index < len(port["gids"]):
            files[f"gid_attrs/types/{index}"] = "IB/RoCE v1" if infiniband else "RoCE v2"
            if not infiniband:
                files[f"gid_attrs/ndevs/{index}"] = "lo"
    return files | {f"pkeys/{index}": "0x0000" if index else "0xffff" for index in range(pkey_entries)}


def assert_true(found, info):
    """A card's files against its answers."""
    attributes = info["attributes"]
    ports = {name: text for name, text in found["files"].items() if name.startswith("ports/")}
    rest = {name: text for name, text in found["files"].items() if name not in ports}
    counters = {name: ports.pop(name) for name in list(ports) if "counters/" in name}
    assert set(counters) == {f"ports/{port['port']}/{name}" for port in info["ports"] for name in COUNTERS}
    assert all(text.isdigit() for text in counters.values()), counters
    assert rest.pop("uevent").startswith("NAME=hca") and rest.pop("node_desc").startswith("hca"), rest
    assert rest == {"node_guid": guid(info["node_guid"]), "sys_image_guid": guid(attributes["sys_image_guid"]),
                    "node_type": "1: CA", "fw_ver": info["firmware"], "hw_rev": f"{attributes['hw_ver']:x}",
                    "hca_type": "OpenHCA", "board_id": "simulated"}
    wanted = {}
    for port in info["ports"]:
        of = port["attributes"]
        files = port_files(of, port, of["gid_tbl_len"], of["pkey_tbl_len"])
        wanted |= {f"ports/{port['port']}/{name}": text for name, text in files.items()}
    for name in wanted:
        if name.endswith("/rate"):
            assert ports[name].startswith(wanted[name]), (name, ports[name], wanted[name])
            wanted[name] = ports[name]
    assert ports == wanted


def assert_complete(seen, numbers):
    """Every card is at every place where programs look."""
    names = {f"hca{number}" for number in numbers}
    # Of each port one node for programs of management, and one for a subnet manager.
    ports = sorted((name, port) for name, card in seen["cards"].items() for port in card["ports"])
    for kind in ("umad", "issm"):
        mads = [(seen["mads"][node]["ibdev"], seen["mads"][node]["port"]) for node in seen["mads"] if kind in node]
        assert sorted(mads) == ports and seen["nodes"][f"{kind}0"]["is_device"], seen["mads"]
    assert all(card["device"] == seen["cards"][card["ibdev"]]["realpath"] for card in seen["mads"].values())
    assert set(seen["cards"]) == names and {card["ibdev"] for card in seen["verbs"].values()} == names, seen
    assert seen["abi"] == {"infiniband_verbs": "6", "infiniband_mad": "5"}
    for number in numbers:
        card, verbs = seen["cards"][f"hca{number}"], seen["verbs"][f"uverbs{number}"]
        node = seen["nodes"][f"uverbs{number}"]
        assert node["is_device"] and node["number"] == verbs["dev"], node
        assert card["realpath"] == verbs["device"] and card["realpath"].startswith("/sys/devices/pci"), card
        assert card["in_bus"] and card["subsystem"] == "/sys/class/infiniband", card
        pci = card["pci"]
        cpus = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii").strip()
        assert (pci["vendor"], pci["device"], pci["class"]) == ("0x1234", "0x0ca1", "0x020700"), pci
        assert pci["local_cpulist"] == cpus and pci["numa_node"] == "-1", pci
        assert int(pci["local_cpus"].replace(",", ""), 16).bit_count() == len(os.sched_getaffinity(1)), pci
        assert pci["config"].startswith("3412a10c") and len(pci["config"]) == 2 * 256, pci
        assert f"PCI_SLOT_NAME={Path(card['realpath']).name}" in pci["uevent"], pci


def assert_rest_is_there(seen):
    """/sys and /dev as they are on the machine, which itself has no card."""
    assert not Path("/sys/class/infiniband").exists() and not Path("/dev/infiniband").exists()
    assert set(seen["classes"]) - OURS == set(os.listdir("/sys/class"))
    assert {name for name in os.listdir("/sys/devices") if name.startswith("pci")} < set(seen["devices"])
    assert set(os.listdir("/sys/devices")) < set(seen["devices"])
    assert set(seen["buses"]) >= set(os.listdir("/sys/bus/pci/devices"))
    assert set(seen["dev"]) - {"infiniband", ".machine"} == set(os.listdir("/dev"))
    assert seen["net"] == sorted(os.listdir("/sys/class/net"))
    assert seen["pseudo_terminal"] is True, seen["pseudo_terminal"]


def dump(sim, card=None):
    done = sim.run(card, *DUMP)
    assert done.code == 0, done
    return json.loads(done.text)


@pytest.mark.parametrize("options", [{"link": "eth"}, {"link": "ib"}, pytest.param(
    {"link": "ib,eth", "ports": "2"}, marks=pytest.mark.quick)], ids=lambda options: "-".join(options.values()))
def test_what_is_there_is_true(simulators, row, options):
    row("files in /sys/class/infiniband", link=options["link"].replace(",", " and "))
    sim = simulators(**options)
    seen = dump(sim)
    assert_complete(seen, [0, 1])
    for info in sim.info():
        assert_true(seen["cards"][f"hca{info['card']}"], info)
    assert_rest_is_there(seen)
    alone = dump(sim, 1)
    assert_complete(alone, [0])  # the only card is the first one
    assert_true(alone["cards"]["hca0"], sim.info(1))


@pytest.mark.quick
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_of_a_topology(simulators, row, tmp_path, name):
    row("files in /sys/class/infiniband", name, "ib" if TOPOLOGIES[name] is None else "eth")
    file = ROOT / "docs" / "topologies" / "two-switches.toml"
    if TOPOLOGIES[name] is not None:
        file = tmp_path / "topology.toml"
        file.write_text(TOPOLOGIES[name], encoding="ascii")
    sim = simulators(topology=file)
    seen, cards = dump(sim), sim.info()
    assert_complete(seen, range(len(cards)))
    for info in cards:
        assert_true(seen["cards"][f"hca{info['card']}"], info)


@pytest.fixture
def program(hca):
    """The executable where every user can read it."""
    with tempfile.TemporaryDirectory(prefix="hca-") as folder:
        Path(folder).chmod(0o755)
        for file in (hca, hca.with_name("libibverbs.so")):
            shutil.copy(file, folder)
        shutil.copy(DUMP[-1], folder)
        yield Path(folder, hca.name)


@pytest.mark.quick
@pytest.mark.parametrize("who", ["root", "nobody"])
def test_each_end_sees_its_card(program, row, who):
    row("files in /sys/class/infiniband", f"--pair, {who}")
    folder = program.parent / "verbs"  # what `hca run` makes beside itself
    folder.mkdir()
    (folder / "libibverbs.so.1").symlink_to("../libibverbs.so")
    before, user = {"root": ([], 0), "nobody": (NOBODY, 65534)}[who]
    script = ["/usr/bin/python3", "-B", program.parent / Path(DUMP[-1]).name]
    done = run_pair(program, script, script, before=before)
    assert done.returncode == 0 and not done.stderr, done
    for number, name in enumerate(["server", "client"]):
        seen = json.loads(end(done, name))
        assert (seen["user"], seen["group"]) == (user, user), seen
        assert list(seen["verbs"]) == ["uverbs0"], seen["verbs"]
        assert seen["nodes"]["uverbs0"]["is_device"] and seen["pseudo_terminal"] is True, seen
        [card] = seen["cards"].values()
        assert card["files"]["ports/1/gids/1"].endswith(f"{number + 1:04x}"), card


@pytest.mark.quick
@pytest.mark.parametrize("before", [NO_NAMESPACES, NO_CAPABILITIES], ids=["no namespaces", "no capabilities"])
def test_where_the_kernel_forbids_it(request, hca, row, before):
    row("files in /sys/class/infiniband", f"--pair, {request.node.callspec.id}")
    row.result("by a library before the C library's calls, and hca run says so")
    done = run_pair(hca, [sys.executable, "-c", LED], ["ibv_devices"], before=before)
    assert done.returncode == 0 and "hca0" in end(done, "client"), done
    assert len([line for line in done.stderr.splitlines() if line.startswith(SKIPPED)]) == 1, done.stderr
    seen = json.loads(end(done, "server"))
    path = seen.pop("path")
    assert re.fullmatch(r"/sys/devices/pci\w{4}:00/\w{4}:00:00\.0/infiniband/hca0", path), seen
    assert seen == {"cards": ["hca0"], "state": "4: ACTIVE", "nodes": ["issm0", "umad0", "uverbs0"],
                    "is_device": True, "net": ["lo"], "xstat": 0, "classes": False, "missing": False, "bus": True,
                    "opened": True}, seen


@pytest.mark.parametrize("program", [["ucx_info", "-d"], ["ibv_devinfo"], ["fi_info", "-p", "verbs"],
                                     ["rdma", "link"]], ids=lambda words: words[0])
def test_programs_where_the_kernel_forbids_it(hca, row, program):
    row(program[0], "no namespaces")
    done = run_pair(hca, program, ["true"], before=NO_CAPABILITIES)
    assert done.returncode == 0 and "hca0" in end(done, "server"), done


@pytest.mark.quick
def test_without(hca, row):
    row("files in /sys/class/infiniband", "--pair --no-sysfs")
    row.result("none")
    done = run_pair(hca, ["ls", "/sys/class", "/dev"], ["true"], "--no-sysfs")
    assert done.returncode == 0 and "infiniband" not in done.stdout and "misc" in done.stdout and not done.stderr, done


@pytest.mark.quick
def test_preloading_does_no_harm(hca, sim, row):
    """Static programs and those that run with another's rights load nothing that we ask for, and say nothing."""
    row("static and setuid programs", "ldconfig -V, su --version")
    static = sim.run(0, "/sbin/ldconfig", "-V")
    assert static.code == 0 and static.text.startswith("ldconfig "), static
    assert Path(shutil.which("su")).stat().st_mode & 0o4000
    done = sim.run(0, *NOBODY, "su", "--version")
    assert done.code == 0 and done.text.startswith("su "), done
    own = sim.run(0, "sh", "-c", "echo $LD_PRELOAD")
    ours = [str(hca.parent / "verbs" / name) for name in ("libibverbs.so.1", "libhcanetlink.so")]
    assert own.text.strip() == ":".join(ours), own
    words = [hca, "run", "--dir", sim.sockets, "--", "sh", "-c", "echo $LD_PRELOAD"]
    environment = os.environ | {"LD_PRELOAD": "libm.so.6"}
    both = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert both.stdout.strip() == f"libm.so.6:{own.text.strip()}", both
