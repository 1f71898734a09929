"""Packets in plain Python, independent of the RTL and of the Rust crates: build, parse, ICRC, VCRC."""

import ipaddress
import struct as pk
import zlib

RC, UC, UD, XRC = 0, 1, 3, 5
ROCE_PORT = 4791
# Extended headers by BTH opcode.
EXT = {0x03: "i", 0x05: "i", 0x06: "r", 0x09: "i", 0x0A: "r", 0x0B: "ri", 0x0C: "r", 0x0D: "a", 0x0F: "a",
       0x10: "a", 0x11: "a", 0x12: "aA", 0x13: "t", 0x14: "t", 0x16: "i", 0x17: "i",
       0x1C: "fr", 0x1D: "rw"}
KNOWN = {service << 5 | op for service in (RC, XRC) for op in (*range(0x18), 0x1C, 0x1D) if op != 0x15} \
    | {0x20 + op for op in range(0x0C)} | {0x64, 0x65}
# Of the manufacturer's range: the opcode without masks that each goes with.
MASKED = {0xD3: 0x13, 0xD4: 0x14, 0xF3: 0xB3, 0xF4: 0xB4}
KNOWN |= set(MASKED)
CNP = 0x81
# Letters beside the usual ones: w, 8 bytes of data; m, masks. Both are payload at the receiver. f, FETH.
SIZE = {"m": 16, "i": 4, "r": 16, "a": 4, "A": 8, "t": 28, "d": 8, "x": 4, "n": 16, "w": 8, "f": 4}


def ext_of(opcode):
    """Letters of the extended headers, in wire order."""
    if opcode >> 5 == UD:
        return "di" if opcode & 1 else "d"
    if opcode == CNP:
        return "n"
    if opcode in MASKED:
        return ext_of(MASKED[opcode]) + "m" * (opcode & 0x1F == 0x13)
    # Annex A14: every request of XRC names the SRQ, no answer does.
    ahead = "x" if opcode >> 5 == XRC and opcode & 0x1F not in range(0x0D, 0x13) else ""
    return ahead + EXT.get(opcode & 0x1F, "")


def pad_of(count):
    """Pad bytes behind a payload."""
    return -count % 4


def vcrc(data):
    """VCRC as sent, bit by bit: polynomial 0x100B, register of ones, bits of a byte from the low end."""
    register = 0xFFFF
    for byte in data:
        for bit in range(8):
            carry = (register >> 15) ^ (byte >> bit & 1)
            register = (register << 1) & 0xFFFF
            if carry:
                register ^= 0x100B
    register ^= 0xFFFF
    first = sum(((register >> (15 - i)) & 1) << i for i in range(8))
    second = sum(((register >> (7 - i)) & 1) << i for i in range(8))
    return bytes([first, second])


def icrc(packet, ib):
    """ICRC as sent; `packet` from the IP header or LRH up to the pad."""
    work = bytearray(packet)

    def ones(*offsets):
        for offset in offsets:
            work[offset] = 0xFF

    prefix = b"" if ib else b"\xff" * 8
    if ib and packet[1] & 3 == 3:
        ones(*range(8), 9, 10, 11, 15, 52)
        work[8] |= 0x0F
    elif ib:
        work[0] |= 0xF0
        ones(12)
    elif packet[0] >> 4 == 4:
        ones(1, 8, 10, 11, 26, 27, 32)
    else:
        ones(1, 2, 3, 7, 46, 47, 52)
        work[0] |= 0x0F
    return pk.pack("<I", zlib.crc32(prefix + bytes(work)))


def ip_sum(header):
    """Internet checksum."""
    total = sum(pk.unpack(">10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def transport(p):
    """BTH and extended headers of packet description `p`."""
    flags = p["solicited"] << 7 | (p.get("mig_req", 1) or p["opcode"] == CNP) << 6 | pad_of(len(p["payload"])) << 4
    becn = (p["opcode"] == CNP) << 30
    out = pk.pack(">BBHII", p["opcode"], flags, p["pkey"], becn | p["dest_qpn"], p["ack_req"] << 31 | p["psn"])
    for letter in ext_of(p["opcode"]):
        if letter == "r":
            out += pk.pack(">QII", p["reth_va"], p["reth_rkey"], p["reth_bytes"])
        elif letter == "a":
            out += pk.pack(">I", p["aeth_syndrome"] << 24 | p["aeth_msn"])
        elif letter == "i":
            out += pk.pack("<I", p["imm"])
        elif letter == "d":
            out += pk.pack(">II", p["deth_qkey"], p["deth_src_qpn"])
        elif letter == "x":
            out += pk.pack(">I", p["xrcsrq"])
        elif letter == "t":
            out += pk.pack(">QIQQ", p["reth_va"], p["reth_rkey"], p["swap_add"], p["compare"])
        elif letter == "n":
            out += bytes(16)
        elif letter == "m":    # at the sender payload, as any
            out += pk.pack("<QQ", *p["masks"]) if "masks" in p else b""
        elif letter == "w":    # data, not a number: as it is in memory
            out += pk.pack("<Q", p["swap_add"])
        elif letter == "f":
            out += pk.pack(">I", p["swap_add"] & 0xFF)
        else:
            out += pk.pack(">Q", p["swap_add"])
    return out


def frame_of(p):
    """Frame of a packet description: personality `ib`, address fields as in qpc_t, transport fields as in
    rxd_t, `payload`. No FCS."""
    body = transport(p) + p["payload"] + bytes(pad_of(len(p["payload"])))
    sgid, dgid = p["sgid"].to_bytes(16, "little"), p["dgid"].to_bytes(16, "little")
    inner = len(body) + 4
    long_head = pk.pack(">I", 6 << 28 | p["traffic_class"] << 20 | p["flow_label"])
    if p["ib"]:
        lnh, grh = 2, b""
        if p["is_global"]:
            lnh, grh = 3, long_head + pk.pack(">HBB", inner, 0x1B, p["hop_limit"]) + sgid + dgid
        words = (8 + len(grh) + inner) // 4
        packet = pk.pack(">BBHHH", p.get("vl", 0) << 4, p["sl"] << 4 | lnh, p["dlid"], words, p["slid"]) + grh + body
        packet += icrc(packet, True)
        return packet + vcrc(packet)
    udp = pk.pack(">HHHH", p["udp_src_port"], ROCE_PORT, 8 + inner, 0)
    if p["is_ipv4"]:
        head = pk.pack(">BBHHHBBH", 0x45, p["traffic_class"], 28 + inner, 0, 0x4000, p["hop_limit"], 17, 0)
        head += sgid[12:] + dgid[12:]
        head = head[:10] + pk.pack(">H", ip_sum(head)) + head[12:]
    else:
        head = long_head + pk.pack(">HBB", 8 + inner, 17, p["hop_limit"]) + sgid + dgid
    packet = head + udp + body
    eth = p["dmac"].to_bytes(6, "little") + p["smac"] + pk.pack(">H", 0x0800 if p["is_ipv4"] else 0x86DD)
    return eth + packet + icrc(packet, False)


def mapped(addr):
    """GID of an IPv4 address."""
    return int.from_bytes(ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + addr).packed, "little")


# Kinds of descriptors (rxd_kind_e).
GSI, MULTICAST, SMI, AGENT = 1, 2, 5, 6


def is_for_agent(kind, mad):
    """Is the datagram a request that firmware answers?"""
    method, attribute = mad[3:4], int.from_bytes(mad[16:18], "big")
    if len(mad) != 256 or method not in (b"\1", b"\2", b"\7"):
        return False
    return (kind == SMI and attribute != 0x20) or (kind == GSI and mad[1] in (4, 5))


def parse(frame, ib):
    """Fields of rxd_t that a good frame must give, and the payload."""
    d = dict.fromkeys(("reth_va", "reth_rkey", "reth_bytes", "swap_add", "compare", "aeth_syndrome", "aeth_msn", "imm",
                       "deth_qkey", "deth_src_qpn", "xrcsrq", "slid", "sl", "sgid", "dgid", "kind", "smp", "marked"), 0)
    if ib:
        packet = frame[:-2]
        d["sl"], d["slid"] = packet[1] >> 4, int.from_bytes(packet[6:8], "big")
        at = 8
        if packet[1] & 3 == 3:
            d["sgid"], d["dgid"] = (int.from_bytes(packet[i:i + 16], "little") for i in (16, 32))
            at = 48
    else:
        packet = frame[18:] if frame[12:14] == b"\x81\x00" else frame[14:]
        if packet[0] >> 4 == 4:
            packet, at = packet[:int.from_bytes(packet[2:4], "big")], 28
            d["sgid"], d["dgid"], d["sl"] = mapped(packet[12:16]), mapped(packet[16:20]), 10  # A17.4.5.1
        else:
            packet, at = packet[:40 + int.from_bytes(packet[4:6], "big")], 48
            d["sgid"], d["dgid"] = (int.from_bytes(packet[i:i + 16], "little") for i in (8, 24))
            d["sl"] = 9
        traffic_class = packet[1] if at == 28 else int.from_bytes(packet[:2], "big") >> 4
        d["marked"] = int(traffic_class & 3 == 3)
    opcode, flags, pkey, qpn, psn = pk.unpack(">BBHII", packet[at:at + 12])
    d.update(ib=int(ib), opcode=opcode, solicited=flags >> 7, mig_req=flags >> 6 & 1, pkey=pkey,
             dest_qpn=qpn & 0xFFFFFF, ack_req=psn >> 31, psn=psn & 0xFFFFFF)
    d.update(opcode=MASKED.get(opcode, opcode), masked=int(opcode in MASKED))
    at += 12
    for letter in ext_of(opcode):
        chunk = packet[at:at + SIZE[letter]]
        at += SIZE[letter] if letter not in "wm" else 0    # payload, too
        if letter == "r":
            d["reth_va"], d["reth_rkey"], d["reth_bytes"] = pk.unpack(">QII", chunk)
        elif letter == "t":
            d["reth_va"], d["reth_rkey"], d["swap_add"], d["compare"] = pk.unpack(">QIQQ", chunk)
            d["reth_bytes"] = 8
            if d["opcode"] & 0x1F == 0x14 and not d["masked"]:
                d["compare"] = 0       # one field
        elif letter == "m":
            d["masks"] = int.from_bytes(chunk, "little")
        elif letter == "x":
            d["xrcsrq"] = int.from_bytes(chunk[1:], "big")
        elif letter == "A":
            d["swap_add"], = pk.unpack(">Q", chunk)
        elif letter == "a":
            d["aeth_syndrome"], d["aeth_msn"] = chunk[0], int.from_bytes(chunk[1:], "big")
        elif letter == "d":
            d["deth_qkey"], d["deth_src_qpn"] = pk.unpack(">II", chunk)
            d["deth_src_qpn"] &= 0xFFFFFF
            vl = frame[0] >> 4 if ib else 0
            d["smp"] = int(vl == 15 and opcode == 0x64 and (d["dest_qpn"], d["deth_src_qpn"]) == (0, 0))
            d["kind"] = SMI if d["smp"] else {1: GSI, 0xFFFFFF: MULTICAST}.get(d["dest_qpn"], 0)
            if ib and opcode == 0x64 and is_for_agent(d["kind"], packet[at:len(packet) - 4 - (flags >> 4 & 3)]):
                d["kind"] = AGENT
        elif letter == "i":
            d["imm"] = int.from_bytes(chunk, "little")
        elif letter == "f":
            d["swap_add"] = chunk[3]
        elif letter == "w":
            d["swap_add"] = int.from_bytes(chunk, "little")
    payload = packet[at:len(packet) - 4 - (flags >> 4 & 3)]
    d["payload_off"], d["payload_bytes"] = at, len(payload)
    d["buf_beats"] = (len(packet) + 63) // 64
    return d, payload


def random_packet(rng, ib, opcode, length, port):
    """Random packet description for frame_of, addressed to `port` (dict: mac bytes, lid)."""
    ipv4 = rng.random() < 0.5
    gid = (lambda: mapped(rng.randbytes(4))) if ipv4 and not ib else (lambda: rng.getrandbits(128))
    return dict(
        ib=ib, is_ipv4=ipv4, is_global=rng.random() < 0.5, opcode=opcode, solicited=rng.getrandbits(1),
        mig_req=rng.getrandbits(1), ack_req=rng.getrandbits(1), pkey=rng.getrandbits(16),
        dest_qpn=rng.choice((1, 0xFFFFFF, rng.getrandbits(24), rng.getrandbits(24))),
        psn=rng.getrandbits(24), reth_va=rng.getrandbits(64), reth_rkey=rng.getrandbits(32),
        reth_bytes=rng.getrandbits(32), swap_add=rng.getrandbits(64), compare=rng.getrandbits(64),
        aeth_syndrome=rng.getrandbits(8), aeth_msn=rng.getrandbits(24), imm=rng.getrandbits(32),
        deth_qkey=rng.getrandbits(32), deth_src_qpn=rng.getrandbits(24), xrcsrq=rng.getrandbits(24),
        sgid=gid(), dgid=gid(),
        traffic_class=rng.getrandbits(8), flow_label=rng.getrandbits(20), hop_limit=rng.getrandbits(8),
        sl=rng.getrandbits(4), dlid=port["lid"], slid=rng.getrandbits(16),
        udp_src_port=rng.randrange(1, 65536), dmac=int.from_bytes(port["mac"], "little"),
        masks=(rng.getrandbits(64), rng.getrandbits(64)), smac=rng.randbytes(6), payload=rng.randbytes(length))


def pcap_frames(path):
    """Frames of a pcap file."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, frames = 24, []
    while at < len(data):
        size = pk.unpack(order + "I", data[at + 8:at + 12])[0]
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


def beats_of(frame):
    """(last, len_bytes, data) of the 64-byte beats of a frame."""
    pieces = [frame[i:i + 64] for i in range(0, len(frame), 64)]
    return [(i == len(pieces) - 1, len(piece), int.from_bytes(piece, "little"))
            for i, piece in enumerate(pieces)]
