"""LLDP of an Ethernet port: what it says is judged by Wireshark; what it hears, scapy says, and who means harm."""

import json
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import judge
import pytest
from scapy.contrib import lldp
from scapy.layers.l2 import Ether

GROUP, PEER_MAC, CARD_MAC = "01:80:c2:00:00:0e", "02:00:0a:00:00:09", "02:00:0a:00:00:01"
TYPE = bytes.fromhex("88cc")
LIMIT_S = 60


class Cable:
    """The other end of a card's cable, frame by frame, and the commands of its administrator."""

    def __init__(self, hca, folder, wire):
        self.hca, self.folder = hca, folder
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(str(wire))

    def send(self, frame):
        self.socket.sendall(struct.pack(">I", len(frame)) + frame)

    def hear(self, frame):
        """Sends a frame that counts, and waits until it does: the card keeps eight, and loses what comes too fast."""
        before = self.seen(bool)["received"]
        self.send(frame)
        self.seen(lambda found: found["received"] > before)

    def receive(self):
        """The next LLDP frame of the card."""
        while True:
            length = struct.unpack(">I", self.socket.recv(4, socket.MSG_WAITALL))[0]
            frame = self.socket.recv(length, socket.MSG_WAITALL)
            if frame[12:14] == TYPE:
                return frame

    def link(self, *words):
        done = self.hca("link", *words, "--dir", self.folder)
        assert done.code == 0, done.err
        return done.out

    def seen(self, until):
        """What the card says of its neighbour, as soon as `until` holds."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            found = json.loads(self.link("lldp", "--json"))["lldp"]
            if until(found):
                return found
        raise AssertionError(found)


@pytest.fixture(name="cable", scope="module")
def plugged(hca):
    with tempfile.TemporaryDirectory(prefix="hca-") as folder:
        folder = Path(folder)
        pcap, wire, cards = folder / "wire.pcap", folder / "wire", folder / "cards"
        words = ["sim", "--dir", cards, "--cards", 1, "--peer", f"card0={wire}", "--pcap", pcap]
        with subprocess.Popen([hca.path, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as sim:
            try:
                assert sim.stdout.readline()
                cable = Cable(hca, cards, wire)
                cable.pcap = folder / "frames.pcap"
                yield cable
            finally:
                sim.send_signal(signal.SIGINT)
                sim.communicate(timeout=LIMIT_S)


FIELDS = ["lldp.chassis.id.mac", "lldp.port.id.mac", "lldp.time_to_live", "lldp.port.desc", "lldp.tlv.system.name",
          "lldp.tlv.system.desc", "lldp.tlv.system_cap.station_only", "lldp.tlv.enable_system_cap.station_only",
          "lldp.mgn.addr.ip4", "lldp.tlv.type", "lldp.dcbx.ieee.ets.maxtcs",
          *(f"lldp.dcbx.ieee.ets.tsa{tc}" for tc in range(4)), *(f"lldp.dcbx.feature.pfc.prio{n}" for n in range(8)),
          *(f"lldp.dcbx.feature.pg.pgid_prio{n}" for n in range(8)),
          *(f"lldp.dcbx.feature.pg.per{tc}" for tc in range(8)), "lldp.dcbx.ieee.pfc.numtcs"]
ETS, STRICT = 2, 0
TLVS = [1, 2, 3, 4, 5, 6, 7, 8, 127, 127, 0]


def decode(path, *options):
    command = ["tshark", "-n", "-r", str(path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout


def test_wireshark_reads_what_a_port_says(cable):
    """802.1AB 8.5, 802.1Q D.2: every TLV; a change is told; who stops takes back what he has said."""
    cable.link("ets", "--map", "0,0,0,1,0,2,0,0", "0:40", "1:60", "2:strict")
    cable.link("pfc", "3,6")
    cable.link("lldp", "--tx", "on")
    frames = [cable.receive()]
    cable.link("pfc", "none")
    while bytes.fromhex("0080c20b0800") not in frames[-1]:
        frames.append(cable.receive())
    cable.link("lldp", "--tx", "off")
    while frames[-1][len(frames[0][:14]) + 18:][:4] != bytes.fromhex("06020000"):
        frames.append(cable.receive())
    judge.write(cable.pcap, judge.ETHERNET, frames)
    rows = judge.tshark(cable.pcap)
    assert [judge.tshark_complaint(row) for row in rows] == [""] * len(rows)
    words = ["-T", "fields", "-E", "separator=/t"]
    for field in FIELDS:
        words += ["-e", field]
    first, *_, last = [dict(zip(FIELDS, line.split("\t"), strict=True))
                       for line in decode(cable.pcap, *words).splitlines()]
    assert (first["lldp.chassis.id.mac"], first["lldp.port.id.mac"]) == (CARD_MAC, CARD_MAC)
    assert (first["lldp.time_to_live"], first["lldp.port.desc"]) == ("121", "port 1")
    assert (first["lldp.tlv.system.name"], first["lldp.mgn.addr.ip4"]) == ("OpenHCA", "10.0.0.1")
    assert "RoCEv2" in first["lldp.tlv.system.desc"]
    assert first["lldp.tlv.system_cap.station_only"] in ("True", "1")
    assert first["lldp.tlv.enable_system_cap.station_only"] in ("True", "1")
    assert [int(kind) for kind in first["lldp.tlv.type"].split(",")] == TLVS
    assert (last["lldp.time_to_live"], last["lldp.tlv.type"]) == ("0", "1,2,3,0")
    number = {name: int(text, 0) for name, text in first.items() if text.isdigit() or text.startswith("0x")}
    assert [number[f"lldp.dcbx.ieee.ets.tsa{tc}"] for tc in range(3)] == [ETS, ETS, STRICT]
    assert (number["lldp.dcbx.ieee.ets.maxtcs"] or 8, number["lldp.dcbx.ieee.pfc.numtcs"]) == (8, 8)
    assert [n for n in range(8) if first[f"lldp.dcbx.feature.pfc.prio{n}"] in ("True", "1")] == [3, 6]
    assert [number[f"lldp.dcbx.feature.pg.pgid_prio{n}"] for n in range(8)] == [0, 0, 0, 1, 0, 2, 0, 0]
    assert [number[f"lldp.dcbx.feature.pg.per{tc}"] for tc in range(8)] == [40, 60, 0, 0, 0, 0, 0, 0]


def whole(ttl=120, chassis="leaf1", **more):
    frame = Ether(dst=GROUP, src=PEER_MAC) / lldp.LLDPDUChassisID(subtype=7, id=chassis.encode())
    frame /= lldp.LLDPDUPortID(subtype=5, id=b"swp3") / lldp.LLDPDUTimeToLive(ttl=ttl)
    for layer in more.values():
        frame /= layer
    return bytes(frame / lldp.LLDPDUEndOfLLDPDU()).ljust(60, b"\0")


def test_a_port_hears_its_neighbour(cable):
    """Decoded, counted, replaced by a newer one, forgotten when its time is over and when it leaves."""
    cable.send(whole(name=lldp.LLDPDUSystemName(system_name=b"leaf1.example"),
                     text=lldp.LLDPDUPortDescription(description=b"rack 4")))
    found = cable.seen(lambda found: found["neighbour"])
    assert found["received"] == 1, "a port does not hear itself"
    found = found["neighbour"]
    assert (found["chassis_id"], found["port_id"], found["ttl_s"]) == ("leaf1", "swp3", 120)
    assert (found["system_name"], found["port_description"]) == ("leaf1.example", "rack 4")
    assert 0 < found["left_s"] <= 120
    assert "neighbour leaf1.example, chassis leaf1, port swp3" in cable.link("show")
    cable.send(whole(chassis="leaf2", ttl=1))
    assert cable.seen(lambda found: found["replaced"])["replaced"] == 1
    assert cable.seen(lambda found: not found["neighbour"])["aged_out"] == 1
    cable.send(whole())
    cable.seen(lambda found: found["neighbour"])
    cable.send(whole(ttl=0))
    assert cable.seen(lambda found: not found["neighbour"])["aged_out"] == 1


def test_hostile_frames_change_nothing(cable):
    """TLVs cut off or longer than their frame, a frame of 1,500 bytes, a wrong order, a flood: what was known stays,
    the card goes on, and nothing that lay in its buffers before shows up."""
    secret = whole(name=lldp.LLDPDUSystemName(system_name=b"S" * 200))
    for _ in range(8):
        cable.hear(secret)
    cable.hear(whole(chassis="spine"))
    known = cable.seen(lambda found: found["neighbour"] and found["neighbour"]["chassis_id"] == "spine")
    head = whole(chassis="spine")[:14 + 8 + 7 + 4]
    cut = head + bytes([5 << 1, 255]) + b"x" * 40
    hostile = [cut, head + bytes([127 << 1 | 1, 255]) + b"y" * 60,
               (head[:14] + bytes([3 << 1, 2, 0, 9])).ljust(60, b"\0"),
               (head + head[14:]).ljust(60, b"\0"), head[:14] + bytes([1 << 1, 1, 7]) + bytes(60)]
    for frame in hostile:
        cable.hear(frame)
    # Longer than what firmware is given: nobody's.
    cable.send(head + (bytes([127 << 1 | 1, 231]) + b"z" * 487) * 3)
    found = cable.seen(lambda found: found["malformed"] >= known["malformed"] + len(hostile))
    assert found["neighbour"]["chassis_id"] == "spine" and "system_name" not in found["neighbour"]
    for number in range(300):
        cable.send(whole(chassis=f"c{number}"))
    cable.send(whole(chassis="the last"))
    end = time.monotonic() + LIMIT_S
    while cable.seen(lambda found: found["neighbour"])["neighbour"]["chassis_id"] != "the last":
        assert time.monotonic() < end
        cable.send(whole(chassis="the last"))
    assert cable.seen(bool)["malformed"] == known["malformed"] + len(hostile)
