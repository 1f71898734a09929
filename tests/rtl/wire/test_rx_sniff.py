"""hca_rx_wire with sniffers: RoCEv2 packets are stored with their Ethernet header, for the transport as ever and, good
or bad, as whole frames for sniffers; where there is none, and on InfiniBand, everything is as without them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import constants, simulate
from frame_ref import is_roce
from test_rx_frames import MACS, RAW, Frames, other_frame
from test_rx_wire import ME, Rx, bad_variants
from wire_ref import KNOWN, parse

SNIFFED = 7 << 5 | 1    # opcode: a raw service's, of a packet
MAX_KEPT = 66 * 64
TAG = bytes.fromhex("81006abc")


def tagged(frame):
    return frame[:12] + TAG + frame[12:]


class Sniffs(Frames):
    """The bench with rules, whose sniffers have packets, too."""

    async def start(self):
        await super().start()
        self.whole = {}     # frames by the number of their descriptor
        return self

    async def sniff(self, index, port, **rule):
        await self.write(index, port=port, qpn=index, yields=0, value=bytes(64), mask=bytes(64), sniffs=1, **rule)

    def sniffers(self, port):
        return sum(1 << i for i, rule in self.rules.items() if rule and rule["port"] == port and rule.get("sniffs"))

    def push_any(self, frame, verdict="good", port=0):
        """A frame of any kind; `verdict`: of the transport."""
        rules = self.sniffers(port)
        if not is_roce(frame.ljust(64, b"\0"), MACS[port]):
            self.push_frame(frame, port)
        elif not rules or self.ibs[port]:
            self.push(frame, verdict, port)
        else:
            self.push_kept(frame, verdict, port, rules)

    def push_kept(self, frame, verdict, port, rules):
        count = self.other_count if port else self.count
        count[verdict] += 1
        self.raw_push(frame, port)
        kept = dict(port=port, rules=rules, buf_beats=-(-min(len(frame), MAX_KEPT) // 64), csum_ok=0)
        if verdict == "good":
            headers, payload = parse(frame, 0)
            lead = 18 if frame[12:14] == TAG[:2] else 14
            want = dict(headers, **kept, lead=lead, frame_bytes=len(frame))
        else:
            payload = b""
            want = dict(kept, kind=RAW, opcode=SNIFFED, smp=1, payload_bytes=len(frame), payload_off=0, lead=0)
        if len(frame) > MAX_KEPT:
            if verdict != "good":
                return
            want.update(rules=0)
            del want["frame_bytes"]
        else:
            self.whole[len(self.expected)] = frame
        self.expected.append((want, payload))

    async def finish(self, limit=100000):
        await super().finish(limit)
        for number, frame in self.whole.items():
            assert self.reader.done[number][1][:len(frame)] == frame, f"packet {number}: frame"


@cocotb.test()
@cocotb.parametrize(rates=[(1.0, 1.0, 1.0), (0.8, 0.5, 0.5)])
async def every_opcode(dut, rates):
    """V-155: packets of every opcode and length, IPv4 and IPv6, with and without a VLAN tag, on a port with sniffers,
    on one without; frames between them."""
    rx = await Sniffs(dut, 61, 0, *rates).start()
    for index in (3, 30):
        await rx.sniff(index, 0)
    await rx.write(5, port=1, qpn=5, yields=0, value=bytes(64), mask=bytes(64))
    for length in (*range(0, 70, 3), 127, 128, 200, 1024, 4096):
        for opcode in sorted(KNOWN) if length < 20 else rx.rng.sample(sorted(KNOWN), 4):
            port = int(rx.rng.random() < 0.2)
            frame = rx.random(opcode, length, port)
            rx.push_any(tagged(frame) if rx.rng.random() < 0.4 else frame, port=port)
            if rx.rng.random() < 0.1:
                rx.push_any(other_frame(rx.rng, port), port=port)
        await rx.quiet()
    await rx.finish()


@cocotb.test()
async def what_is_dropped(dut):
    """What the transport drops, for a wrong ICRC or as malformed, counts as ever, and sniffers have it."""
    rx = await Sniffs(dut, 62, 0, rate=0.95).start()
    await rx.sniff(9, 0)
    for _ in range(40):
        for frame, verdict in bad_variants(rx):
            if not is_roce(frame.ljust(64, b"\0"), MACS[0]):
                continue    # a frame
            rx.push_any(frame, verdict)
            if rx.rng.random() < 0.3:
                rx.push_any(tagged(frame), verdict)
            if rx.rng.random() < 0.7:
                rx.push_any(rx.random(0x0A, rx.rng.choice((0, 1, 64, 300))))
        await rx.quiet()
    kept = sum(want.get("opcode") == SNIFFED for want, _ in rx.expected)
    assert kept > 100 and rx.count["icrc_err"] > 30 and rx.count["malformed"] > 30
    await rx.finish()


@cocotb.test()
async def padding(dut):
    """Ethernet padding behind a packet is of the frame; what is longer than a link carries is not kept, and the packet
    in it is as good as ever."""
    assert constants()["MaxKept"] == MAX_KEPT
    rx = await Sniffs(dut, 63, 0).start()
    await rx.sniff(0, 0)
    for behind in (0, 1, 2, 17, 18, 19, 46, 63, 64, 65, 128, 4000, MAX_KEPT - 62 - 20, 4200, 5000, 9000):
        for tag in (False, True):
            frame = rx.random(0x04, 4 * rx.rng.randrange(5), is_ipv4=rx.rng.random() < 0.5) + bytes(behind)
            rx.push_any(tagged(frame) if tag else frame)
        await rx.quiet()
    await rx.finish()


@cocotb.test()
async def rules_come_and_go(dut):
    """A packet is kept if there is a sniffer when it begins; one on the other port, or an InfiniBand one, is none."""
    rx = await Sniffs(dut, 64, 0, rate=0.9, sink_rate=0.6, read_rate=0.6).start()
    for _ in range(40):
        for index in (1, 2):
            if rx.rng.random() < 0.5:
                await rx.sniff(index, rx.rng.randrange(2))
            else:
                await rx.write(index)
        for _ in range(6):
            port = rx.rng.randrange(2)
            rx.push_any(rx.random(rx.rng.choice(sorted(KNOWN)), rx.rng.randrange(200), port), port=port)
        await rx.quiet()
    await rx.finish()
    ib = await Sniffs(dut, 65, 1).start()
    await ib.sniff(1, 0)
    for _ in range(20):
        ib.push(ib.random(rx.rng.choice((0x04, 0x0A)), 100))
    await Rx.finish(ib)


@cocotb.test()
async def line_rate(dut):
    """With a sniffer, too, a beat is taken in every cycle."""
    rx = await Sniffs(dut, 66, 0, mac=ME["mac"]).start()
    await rx.sniff(1, 0)
    for _ in range(40):
        rx.push_any(rx.random(rx.rng.choice((0x04, 0x11, 0x0A, 0x10)), rx.rng.choice((0, 4, 8, 64, 96))))
    beats = len(rx.mac.queue)
    await rx.bench.until(rx.mac.idle, what="frames accepted")
    assert len(rx.mac.taken) == beats and rx.mac.taken[-1] - rx.mac.taken[0] == beats - 1
    await rx.finish()


def test_rx_sniff():
    simulate("hca_rx_wire", __name__)
