"""hca_rx_steer against a model: copies of a frame for the QPs of its rules, in order, the last of which frees it;
copies for sniffers before a packet of the transport; and none for sniffers while they are held back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, simulate, struct
from hca_abi import RULES

RXD, RULE_WR, RULE_ROW = struct("rxd_t"), struct("rule_wr_t"), struct("rule_row_t")
QP, COPY, END, RAW = 0, 3, 4, 7
SNIFFED = 7 << 5 | 1    # opcode: a raw service's, of a packet


class Steer:
    """The bench, and the rules as they are."""

    def __init__(self, dut, seed, rate, sink_rate):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.source = Source(self.bench, "in", rate=rate)
        self.sink = Sink(self.bench, "out", rate=sink_rate)
        self.rules = {}
        self.expected = []
        self.counts = [[0, 0] for _ in range(RULES)]   # frames and bytes
        self.bench.agents.append(self)
        self.counted = [[0, 0] for _ in range(RULES)]
        self.spread = []
        self.lost = 0

    def drive(self):
        """The bench is another's to drive."""

    def sample(self):
        """What is counted, and which copies are to be spread."""
        get = self.bench.get
        self.lost += get("lost_o")
        if get("count_o"):
            one = self.counted[get("rule_o")]
            one[0], one[1] = one[0] + 1, one[1] + get("bytes_o")
        if get("out_valid_o") and get("out_ready_i"):
            self.spread.append(get("spread_o"))

    async def write(self, index, qpn, drops=0, spreads=0, sniffs=0):
        """A rule for a QP, or none (None)."""
        tag = self.rng.getrandbits(32)
        self.rules[index] = None if qpn is None else {"qpn": qpn, "tag": tag, "drops": drops, "spreads": spreads,
                                                           "sniffs": sniffs}
        row = RULE_ROW.pack(valid=qpn is not None, **self.rules[index] or {})
        self.bench.set("rule_wr_i", RULE_WR.pack(valid=1, index=index, row=row))
        await self.bench.step()
        self.bench.set("rule_wr_i", 0)

    def there(self, rules, held):
        """Those of the rules that get a copy."""
        there = [i for i in range(RULES) if rules >> i & 1 and self.rules.get(i)]
        return [i for i in there if not (held and self.rules[i]["sniffs"])]

    def push_packet(self, rules, held=False):
        """A packet of the transport that sniffers have, and what must come."""
        kind = self.rng.choice([k for k in range(8) if k != RAW])
        word = RXD.random(self.rng, kind=kind, rules=rules)
        fields = RXD.unpack(word)
        self.source.put(word)
        for i in self.there(rules, held):
            rule = self.rules[i]
            self.counts[i][0] += 1
            self.counts[i][1] += fields["frame_bytes"]
            kept = {name: fields[name] for name in ("port", "rules", "buf_beat", "buf_beats", "place")}
            self.expected.append(dict(dict.fromkeys(fields, 0), **kept, kind=COPY, smp=1, opcode=SNIFFED,
                                      payload_bytes=fields["frame_bytes"], dest_qpn=rule["qpn"], imm=rule["tag"],
                                      spread=rule["spreads"]))
        self.expected.append(dict(fields, spread=0))

    def push(self, rules, held=False):
        """A frame for these rules, and what must come."""
        word = RXD.random(self.rng, kind=RAW, rules=rules)
        fields = RXD.unpack(word)
        self.source.put(word)
        there = self.there(rules, held)
        for i in there:
            rule, last = self.rules[i], i == there[-1]
            self.counts[i][0] += 1
            self.counts[i][1] += fields["payload_bytes"]
            if not rule["drops"]:
                self.expected.append(dict(fields, kind=QP if last else COPY, dest_qpn=rule["qpn"], imm=rule["tag"],
                                          spread=rule["spreads"]))
        if not there or self.rules[there[-1]]["drops"]:
            self.expected.append(dict(fields, kind=END, spread=0))

    def push_other(self):
        kind = self.rng.choice([k for k in range(8) if k != RAW])
        word = RXD.random(self.rng, kind=kind, rules=0)
        self.source.put(word)
        self.expected.append(dict(RXD.unpack(word), spread=0))

    async def finish(self):
        await self.bench.until(lambda: len(self.sink.got) >= len(self.expected), 100000, "copies")
        await self.bench.step(10)
        got = [dict(RXD.unpack(word), spread=s) for word, s in zip(self.sink.got, self.spread, strict=True)]
        for one, want in zip(got, self.expected, strict=True):
            if want["kind"] == END:    # nobody's QPN and tag
                one = dict(one, dest_qpn=want["dest_qpn"], imm=want["imm"])
            assert one == want
        assert self.counted == self.counts


@cocotb.test()
async def copies(dut):
    """V-85, V-155: any number of rules, some of which are gone, drop, or spread; packets pass between."""
    steer = Steer(dut, 51, 0.8, 0.6)
    await steer.bench.start()
    for index in range(RULES):
        await steer.write(index, None)
    for _ in range(60):
        for index in steer.rng.sample(range(RULES), 6):
            kind = steer.rng.choice([{}, {"drops": 1}, {"spreads": 1}])
            await steer.write(index, steer.rng.choice([None, steer.rng.getrandbits(24)]), **kind)
        for _ in range(5):
            bits = steer.rng.choice([1, 1, 2, 5, RULES])
            steer.push(sum(1 << i for i in steer.rng.sample(range(RULES), bits)))
            if steer.rng.random() < 0.4:
                steer.push_other()
        await steer.bench.until(steer.source.idle, what="frames taken")
        await steer.bench.until(lambda: len(steer.sink.got) >= len(steer.expected), what="copies")
    await steer.finish()


@cocotb.test()
@cocotb.parametrize(rates=[(0.8, 0.6), (1.0, 1.0)])
async def sniffers(dut, rates):
    """V-155: a copy of a packet to each sniffer, then the packet as it was, whoever it is for; of packets and frames
    none while they are held back, which counts, and costs nobody else's copy."""
    steer = Steer(dut, 54, *rates)
    await steer.bench.start()
    lost = 0
    for index in range(RULES):
        await steer.write(index, None)
    for turn in range(80):
        held = turn % 4 == 3
        steer.bench.set("hold_i", held)
        for index in steer.rng.sample(range(RULES), 6):
            kind = steer.rng.choice([{}, {"sniffs": 1}, {"sniffs": 1}, {"sniffs": 1, "spreads": 1}])
            await steer.write(index, steer.rng.choice([None, steer.rng.getrandbits(24)]), **kind)
        await steer.bench.step()
        sniffs = sum(1 << i for i, rule in steer.rules.items() if rule and rule["sniffs"])
        for _ in range(6):
            some = steer.rng.getrandbits(RULES) & steer.rng.getrandbits(RULES)
            is_packet = steer.rng.random() < 0.6
            rules = some & sniffs if is_packet else some | 1 << steer.rng.randrange(RULES)
            (steer.push_packet if is_packet else steer.push)(rules, held)
            lost += held and rules & sniffs != 0
            if steer.rng.random() < 0.4:
                steer.push_other()
        await steer.bench.until(steer.source.idle, what="packets taken")
        await steer.bench.until(lambda: len(steer.sink.got) >= len(steer.expected), what="copies")
    await steer.finish()
    assert steer.lost == lost > 30


@cocotb.test()
async def room_comes_and_goes(dut):
    """However they are held back: the packet comes last and once, and each sniffer's copy once at most."""
    steer = Steer(dut, 55, 0.9, 0.5)
    await steer.bench.start()
    for index in range(RULES):
        await steer.write(index, index, sniffs=1)
    words = [RXD.random(steer.rng, kind=0, psn=n, rules=steer.rng.getrandbits(8)) for n in range(400)]
    for word in words:
        steer.source.put(word)
    while not steer.source.idle():
        steer.bench.set("hold_i", steer.rng.random() < 0.4)
        await steer.bench.step()
    await steer.bench.step(20)
    got, lost = iter([RXD.unpack(word) for word in steer.sink.got]), 0
    for word in words:
        want, copies = RXD.unpack(word), []
        while (one := next(got))["opcode"] == SNIFFED and one["kind"] == COPY:
            copies.append(one["dest_qpn"])
        assert one == want
        assert copies == sorted(set(copies)) and all(want["rules"] >> i & 1 for i in copies)
        lost += len(copies) < want["rules"].bit_count()
    assert next(got, None) is None and steer.lost == lost > 50


@cocotb.test()
async def rates(dut):
    """Two cycles for a frame with one rule, one more for each further copy; none for what is no frame."""
    steer = Steer(dut, 52, 1.0, 1.0)
    await steer.bench.start()
    for index in range(RULES):
        await steer.write(index, index)
    for rules, cycles, count in ((1 << 7, 2, 1), (0b1011, 4, 3)):
        first = len(steer.sink.when)
        for _ in range(20):
            steer.push(rules)
        await steer.bench.until(lambda: len(steer.sink.got) == len(steer.expected), what="copies")
        when = steer.sink.when[first:]
        assert when[-1] - when[count - 1] == 19 * cycles, when
    # A packet with sniffers: three cycles with one, one more for each further one; one when they get nothing.
    for index in range(RULES):
        await steer.write(index, index, sniffs=1)
    for held, cycles, count in ((0, 3, 2), (0, 4, 3), (1, 1, 1)):
        first = len(steer.sink.when)
        steer.bench.set("hold_i", held)
        await steer.bench.step(2)
        for _ in range(20):
            steer.push_packet((1 << max(count - 1, 1)) - 1, held)
        await steer.bench.until(lambda: len(steer.sink.got) == len(steer.expected), what="copies")
        when = steer.sink.when[first:]
        assert when[-1] - when[count - 1] == 19 * cycles, when
    first = len(steer.sink.when)
    for _ in range(20):
        steer.push_other()
    await steer.finish()
    when = steer.sink.when[first:]
    assert when[-1] - when[0] == 19


@cocotb.test()
async def a_rule_goes_while_its_copy_waits(dut):
    """The copies of rules that are gone are not made; the last of those that are left frees the buffer."""
    steer = Steer(dut, 53, 1.0, 0.0)
    await steer.bench.start()
    for index in range(RULES):
        await steer.write(index, index + 100)
    steer.source.put(RXD.pack(kind=RAW, rules=0b111))
    await steer.bench.step(10)
    for index in (1, 2):
        await steer.write(index, None)
    steer.sink.rate = 1.0
    await steer.bench.until(steer.source.idle, what="the frame taken")
    await steer.bench.step(10)
    got = [(f["kind"], f["dest_qpn"]) for f in map(RXD.unpack, steer.sink.got)]
    assert got == [(COPY, 100), (END, 0)], got


def test_rx_steer():
    simulate("hca_rx_steer", __name__)
