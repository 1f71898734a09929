"""Judges packets with code that is not ours: tshark, scapy and zlib; only the masks are written here, from
IBA vol1 7.8.1 (ICRC), 7.8.2 (VCRC) and annex A17 (RoCEv2). Nothing comes from driver, firmware or RTL.

A capture is a list of `Packet`; `faults(packet)` says what is wrong with one; `tshark(path)` is Wireshark's
opinion.
"""

import struct
import subprocess
import zlib
from collections import Counter
from dataclasses import dataclass

from scapy.contrib.roce import AETH, BTH
from scapy.fields import BitField, IntField, LongField, XIntField, XLongField
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet as Layer
from scapy.packet import Raw, bind_layers
from scapy.utils import RawPcapReader

ETHERNET, ERF, INFINIBAND = 1, 197, 247  # Link types of pcap.
ERF_INFINIBAND, ERF_INFINIBAND_LINK = 21, 25  # Types of ERF records.
ROCE_PORT = 4791
GRH_NEXT_IBA = 27
# Extended headers behind the BTH, by the opcode's operation (low five bits) of connected services.
OPERATIONS = {0x03: "ImmDt", 0x05: "ImmDt", 0x06: "RETH", 0x09: "ImmDt", 0x0A: "RETH", 0x0B: "RETH ImmDt",
              0x0C: "RETH", 0x0D: "AETH", 0x0F: "AETH", 0x10: "AETH", 0x11: "AETH", 0x12: "AETH AtomicAckETH",
              0x13: "AtomicETH", 0x14: "AtomicETH", 0x16: "IETH", 0x17: "IETH",
              0x1C: "FETH RETH", 0x1D: "RETH"}
HEADER_BYTES = {"RETH": 16, "AETH": 4, "ImmDt": 4, "AtomicETH": 28, "AtomicAckETH": 8, "DETH": 8, "IETH": 4,
                "XRCETH": 4, "FETH": 4}
SERVICES = ("RC", "UC", "RD", "UD", "CNP", "XRC")
OPERATION_NAMES = (
    "SEND First", "SEND Middle", "SEND Last", "SEND Last imm", "SEND Only", "SEND Only imm", "WRITE First",
    "WRITE Middle", "WRITE Last", "WRITE Last imm", "WRITE Only", "WRITE Only imm", "READ Request",
    "READ response First", "READ response Middle", "READ response Last", "READ response Only", "Acknowledge",
    "Atomic Acknowledge", "CmpSwap", "FetchAdd")
WITH_IMM = (0x03, 0x05, 0x09, 0x0B)


# ---- Layers that scapy does not have -----------------------------------------------------------------


class RETH(Layer):
    """RDMA extended transport header."""

    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), IntField("dmalen", 0)]

    def guess_payload_class(self, payload):
        return ImmDt if self.underlayer is not None and self.underlayer.opcode & 0x1F in WITH_IMM else Raw


class DETH(Layer):
    """Datagram extended transport header."""

    fields_desc = [XIntField("qkey", 0), BitField("resv", 0, 8), BitField("srcqp", 0, 24)]

    def guess_payload_class(self, payload):
        return ImmDt if self.underlayer is not None and self.underlayer.opcode & 0x1F in WITH_IMM else Raw


class ImmDt(Layer):
    """Immediate data."""

    fields_desc = [XIntField("data", 0)]


class AtomicETH(Layer):
    """Atomic extended transport header."""

    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), LongField("swap_or_add", 0),
                   LongField("compare", 0)]


class AtomicAckETH(Layer):
    """What an atomic operation found."""

    fields_desc = [XLongField("original", 0)]


LAYERS = {"RETH": RETH, "AETH": AETH, "ImmDt": ImmDt, "AtomicETH": AtomicETH, "DETH": DETH}
for _opcode in range(0x40):  # RC and UC
    _names = OPERATIONS.get(_opcode & 0x1F, "").split()
    if _names and _names[0] in LAYERS:
        bind_layers(BTH, LAYERS[_names[0]], opcode=_opcode)
for _opcode in (0x64, 0x65):  # UD SEND only, without and with immediate
    bind_layers(BTH, DETH, opcode=_opcode)
AETH.guess_payload_class = lambda layer, _: (
    AtomicAckETH if layer.underlayer is not None and layer.underlayer.opcode & 0x1F == 0x12 else Raw)


# ---- CRCs --------------------------------------------------------------------------------------------


def icrc(masked):
    """ICRC, as it is sent, of bytes whose variant fields are ones already."""
    return zlib.crc32(masked).to_bytes(4, "little")


def vcrc(data):
    """VCRC or LPCRC, as it is sent: the shift register of IBA vol1 7.8.2, polynomial 0x100B, bit after bit."""
    register = 0xFFFF
    for byte in data:
        for bit in range(8):  # The least significant bit of each byte goes first.
            feedback = register >> 15 ^ byte >> bit & 1
            register = register << 1 & 0xFFFF ^ (0x100B if feedback else 0)
    # Inverted, x^15 goes first; the first bit of a byte is its least significant one.
    mirrored = int(f"{register ^ 0xFFFF:016b}"[::-1], 2)
    return mirrored.to_bytes(2, "little")


# ---- Packets -----------------------------------------------------------------------------------------


@dataclass
class Packet:
    """An IBA packet of a capture; `kind` is "other" where it is none."""

    kind: str
    data: bytes  # From the first byte of the link's header to the last of the capture.
    start: int = 0  # Where the bytes that the ICRC covers begin: the IP header, or the LRH.
    bth: int = 0
    end: int = 0  # Behind the ICRC.

    @property
    def roce(self):
        return self.kind.startswith("RoCEv2")

    @property
    def opcode(self):
        return self.data[self.bth]

    @property
    def pad_bytes(self):
        return self.data[self.bth + 1] >> 4 & 3

    @property
    def psn(self):
        return int.from_bytes(self.data[self.bth + 9:self.bth + 12])

    @property
    def header_names(self):
        names = OPERATIONS.get(self.opcode & 0x1F, "")
        service = SERVICES[self.opcode >> 5] if self.opcode >> 5 < len(SERVICES) else ""
        if self.opcode >> 6 == 3:    # of the manufacturer's range: masked atomics, as those without masks
            service = "XRC" if self.opcode & 0x20 else "RC"
        if service == "XRC" and self.opcode & 0x1F not in range(0x0D, 0x13):
            names = f"XRCETH {names}"  # annex A14: in every request
        return (f"DETH {names}" if service == "UD" else names).split()

    def header(self, name):
        """Bytes of one extended header."""
        at = self.bth + 12
        for other in self.header_names:
            if other == name:
                return self.data[at:at + HEADER_BYTES[name]]
            at += HEADER_BYTES[other]
        raise KeyError(name)

    @property
    def payload(self):
        at = self.bth + 12 + sum(HEADER_BYTES[name] for name in self.header_names)
        return self.data[at:self.end - 4 - self.pad_bytes]

    @property
    def icrc(self):
        """As found."""
        return self.data[self.end - 4:self.end]

    def masked(self):
        """What the ICRC covers, its variant fields replaced with ones."""
        data = bytearray(self.data[self.start:self.end - 4])
        bth = self.bth - self.start
        data[bth + 4] = 0xFF  # FECN, BECN and reserved bits
        if self.kind == "RoCEv2 over IPv4":
            udp = bth - 8
            ones = [1, 8, 10, 11, udp + 6, udp + 7]  # type of service, time to live, both checksums
        elif self.kind == "RoCEv2 over IPv6":
            data[0] |= 0x0F
            ones = [1, 2, 3, 7, 46, 47]  # traffic class, flow label, hop limit, UDP checksum
        elif self.kind == "InfiniBand with GRH":
            data[8] |= 0x0F
            ones = [*range(8), 9, 10, 11, 15]  # LRH; traffic class, flow label, hop limit
        else:
            data[0] |= 0xF0  # virtual lane
            ones = []
        for at in ones:
            data[at] = 0xFF
        return bytes(8 * [0xFF] if self.roce else []) + bytes(data)


def ethernet_packet(data):
    """RoCEv2 or "other", which a fragment is, too: scapy and Wireshark see no UDP in it, either."""
    other = Packet("other", data)
    at = 14
    ethertype = int.from_bytes(data[12:14])
    if ethertype == 0x8100:
        at, ethertype = 18, int.from_bytes(data[16:18])
    if ethertype == 0x0800 and len(data) > at + 20 and data[at] == 0x45 and data[at + 9] == 17:
        if int.from_bytes(data[at + 6:at + 8]) & 0x3FFF:
            return other
        kind, udp, end = "RoCEv2 over IPv4", at + 20, at + int.from_bytes(data[at + 2:at + 4])
    elif ethertype == 0x86DD and len(data) > at + 40 and data[at] >> 4 == 6 and data[at + 6] == 17:
        kind, udp, end = "RoCEv2 over IPv6", at + 40, at + 40 + int.from_bytes(data[at + 4:at + 6])
    else:
        return other
    if int.from_bytes(data[udp + 2:udp + 4]) != ROCE_PORT:
        return other
    return Packet(kind, data, at, udp + 8, end)


def infiniband_packet(data):
    """Local (LNH 2) or global (LNH 3) IBA packet, or "other"."""
    next_header = data[1] & 3 if len(data) >= 8 else 0
    end = int.from_bytes(data[4:6]) % 2048 * 4 if next_header else 0
    if next_header == 2:
        return Packet("InfiniBand", data, 0, 8, end)
    if next_header == 3 and len(data) > 48 and data[14] == GRH_NEXT_IBA:
        return Packet("InfiniBand with GRH", data, 0, 48, end)
    return Packet("other", data)


def erf_packet(record):
    """InfiniBand packet of an ERF record without extension headers; "link" for a link packet (flow control)."""
    length, record_type, wire_bytes = int.from_bytes(record[10:12]), record[8], int.from_bytes(record[14:16])
    if length != len(record) or wire_bytes != length - 16:
        return Packet("other", record)
    if record_type == ERF_INFINIBAND_LINK:
        # Its six bytes; zeros follow, without which Wireshark 4.0 calls it malformed.
        return Packet("other" if any(record[22:]) else "link", record[16:22])
    return infiniband_packet(record[16:]) if record_type == ERF_INFINIBAND else Packet("other", record)


READERS = {ETHERNET: ethernet_packet, ERF: erf_packet, INFINIBAND: infiniband_packet}


def read(path):
    """All packets of a pcap file."""
    with RawPcapReader(str(path)) as reader:
        link = reader.linktype
        return [READERS[link](data) for data, _ in reader]


def write(path, link, packets):
    """A pcap file, byte by byte."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link))
        for data in packets:
            file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)


def length_fault(packet):
    """Lengths in the headers against the bytes that are there."""
    data, crc_bytes = packet.data, 4
    headers = 12 + sum(HEADER_BYTES[name] for name in packet.header_names)
    if packet.bth + headers + packet.pad_bytes + crc_bytes > packet.end:
        return "the headers do not fit"
    if (packet.end - packet.bth) % 4:
        return "not a multiple of 4 bytes"
    if packet.roce:
        udp = packet.bth - 8
        if int.from_bytes(data[udp + 4:udp + 6]) != packet.end - udp:
            return "UDP and IP lengths differ"
        return None if packet.end == len(data) else "IP length and frame differ"
    if packet.kind == "InfiniBand with GRH" and int.from_bytes(data[12:14]) != packet.end - 48:
        return "GRH and LRH lengths differ"
    return None if packet.end + 2 == len(data) else "LRH length and packet differ"


def scapy_icrc(packet):
    """What scapy would send."""
    bth = Ether(packet.data)[BTH]
    assert isinstance(bth.underlayer, UDP)
    return bth.compute_icrc(bytes(bth))


def link_faults(data):
    """Of a flow control packet (IBA vol1 7.9.4): operation, flow control totals and VL, LPCRC."""
    if len(data) != 6:
        return {"length"}
    found = set() if data[0] >> 4 in (0, 1) else {"operation"}
    return found if vcrc(data[:4]) == data[4:] else found | {"lpcrc"}


def faults(packet):
    """Names of what is wrong: "length", "icrc", "vcrc", "lpcrc". The ICRC of RoCEv2 is judged by scapy, too."""
    found = set()
    if packet.kind == "link":
        return link_faults(packet.data)
    if length_fault(packet):
        return {"length"}
    want = icrc(packet.masked())
    if packet.roce and packet.kind in ("RoCEv2 over IPv4", "RoCEv2 over IPv6"):
        assert scapy_icrc(packet) == want, "scapy and zlib with the specification's masks disagree"
    if packet.icrc != want:
        found.add("icrc")
    if not packet.roce and vcrc(packet.data[:packet.end]) != packet.data[packet.end:packet.end + 2]:
        found.add("vcrc")
    return found


def count(packets):
    """{opcode: packets} of IBA packets."""
    return Counter(packet.opcode for packet in packets if packet.kind not in ("other", "link"))


def opcode_name(opcode):
    """As in "RC SEND Only"."""
    service, operation = opcode >> 5, opcode & 0x1F
    if service < len(SERVICES) and operation < len(OPERATION_NAMES):
        return f"{SERVICES[service]} {OPERATION_NAMES[operation]}"
    return f"opcode {opcode:#04x}"


# ---- Wireshark ---------------------------------------------------------------------------------------

TSHARK_FIELDS = {
    "protocol": "_ws.col.Protocol", "layers": "frame.protocols", "opcode": "infiniband.bth.opcode",
    "psn": "infiniband.bth.psn", "icrc": "infiniband.invariant.crc", "vcrc": "infiniband.variant.crc",
    "malformed": "_ws.malformed", "severity": "_ws.expert.severity", "message": "_ws.expert.message"}
WARNING = 0x600000  # Expert severities: chat 0x200000, note 0x400000, warning, error 0x800000.


def tshark(path):
    """One {name: text} per packet. IPv4 header checksums are verified; no UDP checksum is RoCEv2's rule."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a",
               "-o", "ip.check_checksum:TRUE", "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]
    for field in TSHARK_FIELDS.values():
        command += ["-e", field]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except FileNotFoundError:
        raise RuntimeError("tshark is not installed: run scripts/setup.sh") from None
    return [dict(zip(TSHARK_FIELDS, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


def tshark_complaint(row):
    """What Wireshark finds wrong with a packet; "" for nothing."""
    severities = [int(text, 0) for text in row["severity"].split(",") if text]
    if row["malformed"] or any(severity >= WARNING for severity in severities):
        return row["message"] or "malformed"
    return ""
