"""The link layer in plain Python, from the specifications and independent of the RTL: packets with a VL, flow control
packets, PFC frames."""

import struct as pk

from wire_ref import vcrc

VL15 = 15
PFC_DMAC = bytes.fromhex("0180c2000001")


def ib_packet(rng, vl, size, qpn=None):
    """InfiniBand data packet of `size` bytes on a VL; only what the link layer reads is right."""
    qpn = (0 if vl == VL15 else rng.randrange(2, 1 << 24)) if qpn is None else qpn
    lnh = 3 if size >= 80 and rng.random() < 0.3 else 2
    body = bytearray(rng.randbytes(size))
    body[0:2] = bytes([vl << 4, rng.randrange(16) << 4 | lnh])
    bth = 8 if lnh == 2 else 48
    body[bth + 5:bth + 8] = qpn.to_bytes(3, "big")
    return bytes(body)


def eth_frame(rng, prio, size, kind):
    """Ethernet frame of a priority; kind: ipv4, ipv6, or other (priority 0). Some have a VLAN tag."""
    low = rng.randrange(32)
    head = rng.randbytes(12) + (b"\x81\x00" + rng.randbytes(2) if rng.random() < 0.3 else b"")
    if kind == "ipv4":
        head += b"\x08\x00\x45" + bytes([prio << 5 | low])
    elif kind == "ipv6":
        head += b"\x86\xdd" + (6 << 12 | prio << 9 | low << 4).to_bytes(2, "big")
    else:
        head += b"\x08\x06" + rng.randbytes(2)
    return head + rng.randbytes(max(size, 60) - len(head))


def fcp(op, vl, fctbs, fccl):
    """Flow control packet."""
    head = pk.pack(">HH", op << 12 | fctbs, vl << 12 | fccl)
    return head + vcrc(head)


def parse_fcp(data):
    """(op, fctbs, vl, fccl) and whether the LPCRC is right."""
    first, second = pk.unpack(">HH", data[:4])
    return (first >> 12, first & 0xFFF, second >> 12, second & 0xFFF), vcrc(data[:4]) == data[4:6]


def pfc(quanta, smac=bytes(6), opcode=0x0101):
    """PFC frame; quanta: {priority: quanta}."""
    vector = sum(1 << p for p in quanta)
    times = b"".join(quanta.get(p, 0).to_bytes(2, "big") for p in range(8))
    return (PFC_DMAC + smac + b"\x88\x08" + pk.pack(">HH", opcode, vector) + times).ljust(60, b"\0")


def blocks(packet):
    """64-byte blocks of a packet."""
    return (len(packet) + 63) // 64
