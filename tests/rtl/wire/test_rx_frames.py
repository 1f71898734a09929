"""hca_rx_wire with rules: which of them have a frame, and whether its checksums are right, against scapy's reading;
RoCEv2 packets among them are no rule's."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate, struct
from frame_ref import FIELDS, is_roce, key_of, random_frame, sums_are_right
from hca_abi import RULES
from test_rx_wire import ME, OTHER, Rx
from wire_ref import KNOWN

RULE_WR, RULE_ROW = struct("rule_wr_t"), struct("rule_row_t")
AGENT, RAW, RAW_OPCODE = 6, 7, 7 << 5     # rxd_kind_e; service, as in an opcode
MAD_BEAT = struct("mad_beat_t")
LLDP = bytes.fromhex("0180c200000e"), b"\x88\xcc"
MIN_BYTES, MAX_BYTES = 14, 4096 + 18
MACS = (ME["mac"], OTHER["mac"])


class Frames(Rx):
    """The bench of hca_rx_wire, with rules."""

    async def start(self):
        await super().start()
        self.rules = {}
        for index in range(RULES):
            await self.write(index)
        return self

    async def write(self, index, **rule):
        """A rule from now on, or none; nothing may be under way that it matches."""
        self.rules[index] = rule
        row = dict(valid=1, **{name: int.from_bytes(value, "little") if isinstance(value, bytes) else value
                               for name, value in rule.items()}) if rule else {}
        write = dict(index=index, row=RULE_ROW.pack(**row))
        self.bench.set("rule_wr_i", RULE_WR.pack(valid=1, **write))
        await self.bench.step()
        self.bench.set("rule_wr_i", RULE_WR.pack(valid=0, **write))
        await self.bench.step()
        await self.bench.until(lambda: not self.bench.get("rule_busy_o"), 40, "the end of a rule's write")
        self.bench.set("rule_wr_i", 0)

    async def write_random(self, index):
        """One that looks at some fields of some frame, at all of their bits or at some."""
        rng = self.rng
        key, mask = key_of(random_frame(rng)), bytearray(64)
        for at, size in rng.sample(list(FIELDS.values()), rng.choice((0, 1, 1, 2, 3))):
            mask[at:at + size] = rng.randbytes(size) if rng.random() < 0.3 else b"\xff" * size
        value = bytes(a & b for a, b in zip(key, mask, strict=True))
        yields = rng.getrandbits(32) & rng.getrandbits(32) & ~(1 << index)
        await self.write(index, port=rng.randrange(2), qpn=rng.getrandbits(24), yields=yields, value=value,
                         mask=bytes(mask))

    def who(self, frame, port):
        key, matched = key_of(frame), 0
        for index, rule in self.rules.items():
            if rule and rule["port"] == port and all(
                    k & m == v for k, m, v in zip(key, rule["mask"], rule["value"], strict=True)):
                matched |= 1 << index
        return sum(1 << i for i, rule in self.rules.items()
                   if matched >> i & 1 and not matched & rule["yields"])

    def push_frame(self, frame, port=0):
        """Queues a frame that is no RoCEv2 packet for the port."""
        assert not is_roce(frame, MACS[port])
        fits = MIN_BYTES <= len(frame) <= MAX_BYTES
        rules = self.who(frame, port) if fits else 0
        is_lldp = fits and (frame[:6], frame[12:14]) == LLDP
        if not rules and not is_lldp:
            return self.push(frame, "malformed", port)
        key = key_of(frame)
        number = {name: int.from_bytes(key[at:at + size], "little")
                  for name, at, size in (("sgid", 16, 16), ("dgid", 32, 16), ("ports", 52, 4))}
        want = dict(number, layers=key[51] >> 1 & 15, kind=RAW if rules else AGENT, opcode=RAW_OPCODE, smp=1,
                    rules=rules,
                    csum_ok=int(sums_are_right(frame)), port=port,
                    payload_off=0, payload_bytes=len(frame), buf_beats=-(-len(frame) // 64), deth_qkey=0)
        count = (self.other_count if port else self.count)
        count["good"] += 1
        self.raw_push(frame, port)
        self.expected.append((want, frame))
        return None

    def raw_push(self, frame, port):
        """The beats alone."""
        verdict = "ignored"
        (self.other_count if port else self.count)[verdict] = 0
        super().push(frame, verdict, port)
        del (self.other_count if port else self.count)[verdict]

    async def quiet(self):
        await self.bench.until(self.mac.idle, what="frames accepted")
        await self.bench.until(lambda: len(self.reader.done) == len(self.expected), 50000, "packets read")
        await self.bench.step(12)


def other_frame(rng, port, length=None):
    """A random frame that the transport does not judge."""
    while True:
        frame = random_frame(rng, length)
        if not is_roce(frame, MACS[port]):
            return frame


@cocotb.test()
async def rules_and_checksums(dut):
    """Random rules, random frames on both ports, RoCEv2 packets between them; rules change in between."""
    rx = await Frames(dut, 31, 0, rate=0.9, sink_rate=0.6, read_rate=0.6).start()
    met = 0
    for _ in range(25):
        for index in rx.rng.sample(range(RULES), 8):
            if rx.rng.random() < 0.2:
                await rx.write(index)
            else:
                await rx.write_random(index)
        for _ in range(16):
            port = rx.rng.randrange(2)
            frame = other_frame(rx.rng, port)
            if rx.rng.random() < 0.3:   # a wrong bit, behind what rules look at
                frame = frame[:-1] + bytes([frame[-1] ^ 1])
            met += bool(rx.who(frame, port))
            rx.push_frame(frame, port)
            if rx.rng.random() < 0.3:
                rx.push(rx.random(rx.rng.choice(sorted(KNOWN)), rx.rng.randrange(200)))
        await rx.quiet()
    assert met > 200, met
    await rx.finish()


class Kept:
    """What is offered to firmware: the packets that mad_o takes."""

    def __init__(self, bench):
        self.bench, self.part, self.got = bench, b"", []
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        beat = MAD_BEAT.unpack(self.bench.get("mad_o"))
        if beat["valid"]:
            self.part += beat["data"].to_bytes(64, "little") if beat["store"] else b""
            if beat["last"]:
                if beat["take"]:
                    self.got.append((beat["port"], self.part[:beat["bytes"]]))
                self.part = b""


@cocotb.test()
async def lldp_is_for_firmware(dut):
    """IEEE 802.1AB 7: a frame to 01:80:c2:00:00:0e of type 88cc is good without a rule and firmware gets it; rules have
    it as well; another address, type, or a VLAN tag makes it a frame like others."""
    rx = await Frames(dut, 34, 0).start()
    kept, want = Kept(rx.bench), []
    for with_rule in (False, True):
        if with_rule:
            await rx.write(3, port=1, qpn=5, yields=0, value=bytes(64), mask=bytes(64))
        for mac, kind, is_lldp in ((*LLDP, 1), (LLDP[0], b"\x88\xb5", 0), (bytes.fromhex("0180c2000003"), LLDP[1], 0),
                                   (LLDP[0], b"\x81\x00\x00\x05" + LLDP[1], 0)):
            for length in (60, 64, 130, 400):
                for port in (0, 1):
                    frame = mac + rx.rng.randbytes(6) + kind
                    frame += rx.rng.randbytes(length - len(frame))
                    rx.push_frame(frame, port)
                    if is_lldp:
                        want.append((port, frame))
        await rx.quiet()
    assert kept.got == want
    await rx.finish()


@cocotb.test()
async def every_length(dut):
    """From one byte to more than there can be, with a rule for all; without a gap."""
    rx = await Frames(dut, 32, 0).start()
    for port in range(2):
        await rx.write(port, port=port, qpn=5, yields=0, value=bytes(64), mask=bytes(64))
    lengths = [*range(1, 20), *range(59, 70), *range(120, 135), 1514, 1518, 4095, 4096, *range(4109, 4120), 6000, 9018]
    for number, length in enumerate(lengths):
        head = bytes.fromhex("02c0ffee9999020000000001") + b"\x88\xb5"
        rx.push_frame((head + rx.rng.randbytes(length))[:length], number & 1)
        await rx.quiet()
    await rx.finish()


@cocotb.test()
async def sums_of_every_length(dut):
    """Checksums over payloads of every length up to three beats, and the longest; with Ethernet padding behind them."""
    rx = await Frames(dut, 33, 0).start()
    for port in range(2):
        await rx.write(port, port=port, qpn=5, yields=0, value=bytes(64), mask=bytes(64))
    for length in [*range(0, 150), 1459, 1460, 4000, 4030]:
        frame = other_frame(rx.rng, 0, length)
        if rx.rng.random() < 0.3 and len(frame) < 4000:
            frame += bytes(rx.rng.randrange(1, 40))
        rx.push_frame(frame)
        if len(rx.expected) % 8 == 0:
            await rx.quiet()
    await rx.quiet()
    assert sum(want.get("csum_ok", 0) for want, _ in rx.expected) > 12
    await rx.finish()


@cocotb.test()
async def line_rate(dut):
    """Frames of one beat back to back: each has its rules, none is lost while there is room."""
    rx = await Frames(dut, 34, 0).start()
    for index in range(8):
        await rx.write_random(index)
    await rx.write(9, port=0, qpn=5, yields=0, value=bytes(64), mask=bytes(64))
    frames = []
    while len(frames) < 48:
        frame = other_frame(rx.rng, 0, 4)[:64]
        frames.append(frame.ljust(60, b"\0"))
    for frame in frames:
        rx.push_frame(frame)
    await rx.bench.until(rx.mac.idle, what="frames accepted")
    taken = rx.mac.taken
    assert taken[-1] - taken[0] == len(taken) - 1
    await rx.finish()


def test_rx_frames():
    simulate("hca_rx_wire", __name__)
