"""Raw packets: perftest's raw_ethernet_* programs, and rdma-core's own tests of flow steering, unmodified."""

import json
import os
import re
import socket
import threading

import pytest
from cards import Simulator
from test_pyverbs import HERE, PYTHON, PYVERBS, pyverbs

__all__ = ["pyverbs"]

MACS = [["-B", "02:00:0a:00:00:01", "-E", "02:00:0a:00:00:02"], ["-B", "02:00:0a:00:00:02", "-E", "02:00:0a:00:00:01"]]
# What frames have and what the rule asks for: the same at both ends.
IPS = ["-J", "10.0.0.1", "-j", "10.0.0.2"]
PORTS = ["-k", 4000, "-K", 4000]
MANAGER = ["--manager"]
ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)", re.MULTILINE)


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


CASES = [
    quick("raw_ethernet_bw", ["-n", 200, "-s", 64]),
    ("raw_ethernet_bw", ["-n", 200, "-s", 1514]),
    ("raw_ethernet_bw", ["-n", 100, "-s", 9000, "-m", 4096]),
    ("raw_ethernet_bw", ["-n", 200, "-s", 256, *IPS, *PORTS]),
    ("raw_ethernet_bw", ["-n", 200, "-s", 256, *IPS, *PORTS, "--tcp"]),
    ("raw_ethernet_bw", ["-n", 100, "-s", 512, "--vlan_en"]),
    quick("raw_ethernet_lat", ["-n", 50, "-s", 64]),
    ("raw_ethernet_lat", ["-n", 50, "-s", 1000, *IPS, *PORTS]),
]


def ends(sim, program, words):
    """Server and client on cards 0 and 1; each says on its own line which side it is: nothing goes by TCP."""
    sides = []
    for card, side in enumerate(("--server", "--client")):
        sides.append(sim.start(card, program, side, *MACS[card], *words, live=True, options=MANAGER))
        if card == 0:
            sides[0].wait_until(lambda: "#bytes" in sides[0].text or sides[0].ended(), "the server's receives")
    return [side.done() for side in sides]


@pytest.mark.parametrize(("program", "words"), CASES, ids=lambda value: "".join(map(str, value or ())))
def test_raw_ethernet(sim, row, program, words):
    row(program, " ".join(map(str, words)))
    both = ends(sim, program, words)
    for done in both:
        assert done.code == 0, done
    rows = ROW.findall(both[1].text) or ROW.findall(both[0].text)
    iterations = words[words.index("-n") + 1]
    assert [int(count) for _, count, *_ in rows] == [iterations], both
    row.result(f"{rows[0][0]} bytes, {rows[0][1]} frames")


@pytest.mark.quick
def test_rules_per_second(sim, row):
    """raw_ethernet_fs_rate makes rules and takes them away again."""
    words = ["-n", 20, "-s", 64]
    row("raw_ethernet_fs_rate", " ".join(map(str, words)))
    done = sim.run(1, "raw_ethernet_fs_rate", "--client", *MACS[1], *words, options=MANAGER)
    assert done.code == 0 and re.search(r"^ *20 +[\d.]+", done.text, re.MULTILINE), done
    row.result("20 rules")


class Mirror:
    """A wire that gives back what it gets, as a loopback plug does."""

    def __init__(self, folder):
        self.ours, self.theirs = folder / "mirror", folder / "card"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.fspath(self.ours))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while frame := self.socket.recv(1 << 16):
            self.socket.sendto(frame, os.fspath(self.theirs))

    def stop(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", os.fspath(self.ours))
        self.thread.join()
        self.socket.close()


@pytest.mark.quick
def test_pyverbs_flow(hca, row, pyverbs, tmp_path):
    """rdma-core's cases of flow steering send from a port to itself: the wire brings back what it gets."""
    row("pyverbs", "test_flow")
    mirror = Mirror(tmp_path)
    sim = Simulator(hca, "--peer", f"card0=dgram:{mirror.theirs},{mirror.ours}")
    try:
        results = tmp_path / "results"
        done = sim.run(0, "env", f"PYTHONPATH={pyverbs['PYTHONPATH']}", "HCA_MANAGER=1", PYTHON, "-B",
                       HERE / "pyverbs_runner.py", results, PYVERBS / "tests", "test_flow", "--dev", "hca0", "--gid", 1)
        cases = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        assert done.code == 0 and [case["outcome"] for case in cases] == ["passed"] * 5, (cases, done)
    finally:
        sim.stop()
        mirror.stop()
    row.result("5 passed")
