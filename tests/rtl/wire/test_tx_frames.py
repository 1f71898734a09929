"""hca_tx_wire with frames of raw QPs: they leave as they are, padded to 60 bytes, with checksums where asked for, as
scapy computes them; other packets pass between them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from frame_ref import random_frame
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from test_tx_wire import OPCODES, PAY, TXP, Tx

RAW_OPCODE = 7 << 5
MIN_FRAME = 60


def summed(frame):
    """What leaves when checksums are asked for: those of IPv4 without options, and of TCP or UDP, unless a fragment."""
    packet = Ether(frame)
    if IP not in packet or packet[IP].ihl != 5 or packet[IP].len > len(bytes(packet[IP])):
        return frame
    ip = packet[IP]
    whole = not (int(ip.flags) & 1 or ip.frag)
    at = len(frame) - len(bytes(ip))
    del ip.chksum
    if whole and (TCP in ip or UDP in ip):
        del (ip[TCP] if TCP in ip else ip[UDP]).chksum
    fresh = bytes(ip)
    return frame[:at] + fresh


class Frames(Tx):
    """The bench of hca_tx_wire, with frames."""

    def send_frame(self, frame, csum, port_qpn):
        """Queues one, of the QP, in pieces of any size."""
        rng, port = self.rng, self.qps[port_qpn]["port"]
        word = TXP.pack(kind=0, qpn=port_qpn, opcode=RAW_OPCODE, payload_bytes=len(frame), has_payload=1, csum=csum,
                        psn=rng.getrandbits(24), unacked=1)
        wanted = (summed(frame) if csum else frame).ljust(MIN_FRAME, b"\0")
        self.pending.setdefault(word, []).append((port, wanted))
        self.txp.put(word)
        at = 0
        while at < len(frame):
            lane = rng.randrange(64) if rng.random() < 0.3 else 0
            size = min(64 - lane, len(frame) - at)
            data = rng.getrandbits(512)
            mask = ((1 << 8 * size) - 1) << 8 * lane
            data = data & ~mask | int.from_bytes(frame[at:at + size], "little") << 8 * lane
            at += size
            self.pay.put(PAY.pack(last=at == len(frame), lane=lane, len_bytes=size, data=data))


def empty_sums(rng, frame):
    """The frame with something else in the place of its checksums."""
    packet = Ether(frame)
    if IP not in packet or packet[IP].ihl != 5:
        return frame
    packet[IP].chksum = rng.choice([0, 0xFFFF, rng.getrandbits(16)])
    for layer in (TCP, UDP):
        if layer in packet[IP] and not packet[IP].frag:
            packet[IP][layer].chksum = rng.choice([0, 0xFFFF, rng.getrandbits(16)])
    return bytes(packet)


async def frames(dut, seed, lengths, rate, sink_rate):
    tx = await Frames(dut, seed, 0, rate, sink_rate).start()
    count = 0
    for length in lengths:
        for csum in (0, 1):
            frame = random_frame(tx.rng, length)
            if csum:
                frame = empty_sums(tx.rng, frame)
            tx.send_frame(frame, csum, tx.rng.randrange(16))
            count += 1
            if tx.rng.random() < 0.4:
                tx.send(tx.rng.choice(OPCODES), tx.rng.randrange(200))
                count += 1
    await tx.finish(count)


@cocotb.test()
async def every_length(dut):
    """Payloads of every length to three beats, and the longest; packets of connections between them."""
    await frames(dut, 41, [*range(0, 150), 1460, 4000, 4034], 0.9, 0.7)


@cocotb.test()
async def one_after_the_other(dut):
    """Without gaps and stalls."""
    await frames(dut, 42, [0, 1, 30, 64, 65, 1000] * 8, 1.0, 1.0)


@cocotb.test()
async def every_short_frame(dut):
    """From 14 bytes on: padded with zeros to what a wire asks for, whatever lay behind it."""
    tx = await Frames(dut, 43, 0).start()
    head = bytes.fromhex("02c0ffee9999020000000001") + b"\x88\xb5"
    for length in range(14, 70):
        tx.send_frame((head + tx.rng.randbytes(60))[:length], 0, tx.rng.randrange(16))
    await tx.finish(56)


def test_tx_frames():
    simulate("hca_tx_wire", __name__)
