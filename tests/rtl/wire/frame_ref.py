"""Ethernet frames for raw QPs and what rules see of them, by scapy: independent of the RTL and of the Rust crates."""

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

# Few values, so that rules and frames often meet.
MACS = ["02:c0:ff:ee:02:03", "02:c0:ff:ee:02:04", "01:00:5e:01:02:03", "ff:ff:ff:ff:ff:ff"]
IPS, IPS6 = ["10.0.0.1", "10.0.0.2", "10.1.0.1"], ["fd00::1", "fd00::2", "fd01::1"]
PORTS = [80, 81, 4791, 1024]
# rule_key: where each field begins, and its bytes.
FIELDS = {"dmac": (0, 6), "smac": (6, 6), "vlan": (12, 2), "ether_type": (14, 2), "src_ip": (16, 16),
          "dst_ip": (32, 16), "proto": (48, 1), "tos": (49, 1), "ttl": (50, 1), "flags": (51, 1), "src_port": (52, 2),
          "dst_port": (54, 2), "flow_label": (56, 3)}


def random_frame(rng, length=None):
    """A frame of scapy's, checksums right; its layers at random."""
    pick = rng.choice
    packet = Ether(dst=pick(MACS), src=pick(MACS))
    if rng.random() < 0.4:
        packet /= Dot1Q(prio=rng.randrange(8), vlan=pick([0, 1, 5, 4095]))
    kind = rng.random()
    if kind < 0.5:
        packet /= IP(src=pick(IPS), dst=pick(IPS), tos=pick([0, 4, 0xE0]), ttl=pick([1, 64]),
                     flags=pick([0, "DF", "MF"]), frag=pick([0, 0, 0, 1, 300]), options=pick([[], [], [], b"\1\1\1\0"]))
    elif kind < 0.8:
        packet /= IPv6(src=pick(IPS6), dst=pick(IPS6), tc=pick([0, 0xAB]), fl=pick([0, 0x12345]), hlim=pick([1, 64]))
    else:
        packet.lastlayer().type = pick([0x88B5, 0x0806, 0x22F0])
        return bytes(packet / Raw(rng.randbytes(46 if length is None else length)))
    l4 = rng.random()
    if l4 < 0.45:
        packet /= UDP(sport=pick(PORTS), dport=pick(PORTS))
    elif l4 < 0.9:
        packet /= TCP(sport=pick(PORTS), dport=pick(PORTS), options=pick([[], [("NOP", None)] * 4]))
    else:
        packet.lastlayer().fields["proto" if kind < 0.5 else "nh"] = 89
    return bytes(packet / Raw(rng.randbytes(rng.randrange(80) if length is None else length)))


def key_of(frame):
    """rule_key, by scapy's reading."""
    packet, out = Ether(frame), {name: bytes(size) for name, (_, size) in FIELDS.items()}
    out["dmac"], out["smac"] = frame[:6], frame[6:12]
    flags, kind = 0, packet.type
    if Dot1Q in packet:
        tag = packet[Dot1Q]
        out["vlan"], kind, flags = frame[14:16], tag.type, 1
    out["ether_type"] = kind.to_bytes(2, "big")
    proto, first = None, False
    if kind == 0x0800 and IP in packet and packet[IP].version == 4 and packet[IP].ihl == 5:
        ip = packet[IP]
        flags |= 2 | (int(ip.flags) & 3) << 5
        out["src_ip"], out["dst_ip"] = (bytes(map(int, a.split("."))) + bytes(12) for a in (ip.src, ip.dst))
        out["tos"], out["ttl"], proto, first = bytes([ip.tos]), bytes([ip.ttl]), ip.proto, ip.frag == 0
    elif kind == 0x86DD and IPv6 in packet:
        ip = packet[IPv6]
        flags, raw = flags | 4, bytes(ip)
        out["src_ip"], out["dst_ip"] = raw[8:24], raw[24:40]
        out["tos"], out["ttl"], proto, first = bytes([ip.tc]), bytes([ip.hlim]), ip.nh, True
        out["flow_label"] = ip.fl.to_bytes(3, "big")
    if proto is not None:
        out["proto"] = bytes([proto])
    if first and proto in (6, 17):
        flags |= 8 if proto == 6 else 16
        at = len(frame) - len(bytes(packet[IP].payload if flags & 2 else packet[IPv6].payload))
        out["src_port"], out["dst_port"] = frame[at:at + 2], frame[at + 2:at + 4]
    out["flags"] = bytes([flags])
    return b"".join(out[name] for name in FIELDS).ljust(64, b"\0")


def is_roce(frame, mac):
    """A packet that the transport must judge: for this MAC address or a group, UDP port 4791 by its place."""
    if frame[:6] != mac and not frame[0] & 1:
        return False
    net = frame[16:] if frame[12:14] == b"\x81\x00" else frame[12:]
    kind, net = net[:2], net[2:]
    return (kind == b"\x08\x00" and net[9] == 17 and net[22:24] == b"\x12\xb7") \
        or (kind == b"\x86\xdd" and net[6] == 17 and net[42:44] == b"\x12\xb7")


def sums_are_right(frame):
    """IPv4 without options, TCP or UDP, no fragment, whole, and both checksums as scapy computes them."""
    packet = Ether(frame)
    if IP not in packet:
        return False
    ip = packet[IP]
    if ip.ihl != 5 or int(ip.flags) & 1 or ip.frag or ip.len > len(bytes(ip)) or not (UDP in ip or TCP in ip):
        return False
    layer = ip[UDP] if UDP in ip else ip[TCP]
    if UDP in ip and layer.chksum == 0:
        return False
    again = Ether(frame)[IP]
    for part in (again, again[UDP] if UDP in again else again[TCP]):
        del part.chksum
    fresh = IP(bytes(again))
    return (fresh.chksum, fresh.payload.chksum) == (ip.chksum, layer.chksum)
