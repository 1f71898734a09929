"""Fabrics that Debian's OpenSM sets up. What runs programs is that of tests/programs."""

import json
import os
import re
import signal
import subprocess
import sys
from ipaddress import IPv6Address
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests" / "programs"))

from cards import LIMIT_S, Simulator  # noqa: E402  (the folder is known from here on)

TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
TOPOLOGIES = ROOT / "docs" / "topologies"
TRAPS = re.compile(r"num:(\d+) .* from LID:(\d+)")


class Manager:
    """OpenSM on a card."""

    def __init__(self, fabric, card, name, words):
        self.log = fabric.files / f"{name}.log"
        self.program = fabric.start(card, "opensm", "-d", "2", "-D", "0x43", "-f", self.log, *words)

    @property
    def text(self):
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def wait(self, pattern, times=1):
        """Until its log has said so."""
        self.program.wait_until(lambda: len(re.findall(pattern, self.text)) >= times, pattern)

    def up_again(self):
        """How often the subnet was up so far: to be waited for once more."""
        return self.text.count("SUBNET UP") + 1

    def wait_up(self, times=1):
        self.wait("SUBNET UP", times)

    def traps(self):
        """Numbers of the traps that it has received, and the LIDs that sent them."""
        return {(int(number), int(lid)) for number, lid in TRAPS.findall(self.text)}

    def kill(self):
        self.program.signal(signal.SIGKILL)
        self.program.done()

    def stop(self):
        self.program.signal(signal.SIGTERM)
        done = self.program.done()
        assert done.code == 0, done


class Fabric(Simulator):
    """A simulator whose ports wait for a subnet manager."""

    def __init__(self, hca, files, *options):
        super().__init__(hca, "--sm=external", *options)
        self.files = files

    def manage(self, *words, card=0, name="opensm"):
        return Manager(self, card, name, words)

    def ask(self, card, *words):
        """What a program prints that must succeed."""
        done = self.run(card, *words)
        assert done.code == 0, done
        return done.text

    def command(self, *words):
        """`hca fabric`."""
        done = subprocess.run([self.hca, "fabric", *words, "--dir", self.sockets], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def show(self):
        """The simulator's own state."""
        return json.loads(self.command("show", "--json"))

    def switches(self):
        return {switch["name"]: switch for switch in self.show()["switches"]}

    def ports(self):
        """States of the ports of switches that have a cable, by name."""
        return {f"{name}:{port['port']}": port["state"] for name, switch in self.switches().items()
                for port in switch["ports"] if port["peer"]}

    def port(self, card):
        """The port of a card, as its driver sees it."""
        return self.info(card)["ports"][0]

    def sysfs(self, card, state):
        """Files of the port of a card, as programs on it find them, as soon as its state is this."""
        where = "/sys/class/infiniband/hca0/ports/1"
        names = ("phys_state", "rate", "lid", "lid_mask_count", "sm_lid", "sm_sl", "cap_mask")
        script = f"until grep -q ': {state}$' {where}/state; do sleep 0.01; done; cd {where}; cat {' '.join(names)}"
        return dict(zip(names, self.ask(card, "sh", "-c", script).splitlines(), strict=True))

    def guid(self, card):
        """GUID of the port of a card."""
        return int(IPv6Address(self.port(card)["gids"][0])) & (1 << 64) - 1

    def stat(self, card, what):
        """A line of ibstat."""
        return re.search(rf"{what}: (\w+)", self.ask(card, "ibstat")).group(1)

    def lids(self, cards):
        return [int(self.stat(card, "Base lid")) for card in range(cards)]


@pytest.fixture(scope="session")
def hca():
    path = Path(os.environ.get("HCA_BIN", TARGET / "release" / "hca")).resolve()
    assert path.is_file(), f"{path} is not there: run 'make built' first"
    return path


@pytest.fixture
def fabric(hca, tmp_path, monkeypatch):
    """fabric("ring"): what this file of docs/topologies says; fabric("pair"): two cards and a cable."""
    # What OpenSM remembers and dumps is of this test alone.
    monkeypatch.setenv("OSM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("OSM_TMP_DIR", str(tmp_path))
    made = []

    def make(name, *options):
        what = ["--link=ib"] if name == "pair" else [f"--topology={TOPOLOGIES / name}.toml"]
        made.append(Fabric(hca, tmp_path, *what, *options))
        return made[-1]

    yield make
    for found in made:
        found.stop()
