"""hca_gather: payload bytes, order of acceptance, failed packets, store-and-forward, rates."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
import hca_abi as abi
import keys
from common import Bench, HostReads, Sink, Source, host_bytes, simulate, struct

SEG, TXP, PAY, MSG = struct("seg_t"), struct("txp_t"), struct("pay_t"), struct("pipe_msg_t")
TX_REQ, TX_READ, TX_ACK = 0, 1, 2
NAK_ACCESS, NAK_OPERATIONAL = 0x62, 0x63
MSG_SQ_ERROR, MSG_REQ_ERROR = 3, 5


class Gather:
    """Bench and oracle. A packet is known by its PSN; its expected outcome is fixed when it is queued."""

    def __init__(self, dut, seed, rate=1.0, mreq_rate=1.0, out_rate=1.0, **host):
        self.bench = Bench(dut, seed)
        self.table = keys.KeyTable(self.bench)
        self.txp = [Source(self.bench, "txp", "txp_t", index=n, rate=rate) for n in range(2)]
        self.seg = [Source(self.bench, "seg", "seg_t", index=n, rate=rate) for n in range(2)]
        self.host = HostReads(self.bench, "mrsp", **host)
        Sink(self.bench, "mreq", rate=mreq_rate, payload=[("mreq_tag_o", None), ("mreq_o", None)],
             on_word=lambda word: self.host.request(*word))
        self.out = Sink(self.bench, "txp", rate=out_rate, on_word=self.check_complete)
        self.pay = Sink(self.bench, "pay", rate=out_rate, on_word=self.collect)
        self.err = Sink(self.bench, "err", rate=out_rate)
        for source in self.txp:
            source.on_accept = self.accepted
        self.order, self.packets, self.beats, self.payloads = [], {}, [], []
        self.results = Counter()
        self.psn = 0

    def packet(self, source, segs):
        """Queues one packet with its segments (fields of seg_t, `last` is set here)."""
        psn, self.psn = self.psn, self.psn + 1
        count = sum(seg["len_bytes"] for seg in segs)
        kind = TX_READ if source else TX_REQ
        opcode = self.bench.rng.choice((0, 4, 12, 16, 18, abi.BthOpcode.RC_ACKNOWLEDGE if not segs else 14))
        word = TXP.random(self.bench.rng, kind=kind, psn=psn, payload_bytes=count, has_payload=bool(segs),
                          opcode=opcode)
        # The answer of an atomic that found no memory is a NAK when it comes in.
        refused = source and opcode == abi.BthOpcode.RC_ACKNOWLEDGE
        verdict, data, reads = keys.DMA if refused else keys.OK, b"", 0
        for n, seg in enumerate(segs):
            seg["last"] = n == len(segs) - 1
            self.seg[source].put(SEG.pack(**seg))
            for err, addr, size, _ in self.table.chunks(seg, 512):
                if not err and size:
                    reads += 1
                    lines = range(addr // 64, (addr + size - 1) // 64 + 1)
                    err = keys.DMA if any(line in self.host.bad for line in lines) else keys.OK
                    data += host_bytes(seg["func"], addr, size)
                verdict = verdict or err
        self.packets[psn] = (word, verdict, data, source, reads)
        self.results[verdict] += 1
        self.txp[source].put(word)

    def accepted(self, word):
        self.order.append(TXP.unpack(word)["psn"])

    def check_complete(self, word):
        """Store-and-forward: when a packet leaves, all reads of it and of those before are answered."""
        psn = TXP.unpack(word)["psn"]
        needed = sum(self.packets[p][4] for p in self.order[:self.order.index(psn) + 1])
        here = not self.packets[psn][2] or self.host.answered() >= needed
        assert here, f"packet {psn} left before its payload was here"

    def collect(self, word):
        """Joins the pieces of a packet."""
        pay = PAY.unpack(word)
        lane, count = pay["lane"], pay["len_bytes"]
        assert 1 <= count and lane + count <= 64
        self.beats.append(pay["data"].to_bytes(64, "little")[lane:lane + count])
        if pay["last"]:
            self.payloads.append(b"".join(self.beats))
            self.beats = []

    async def settle(self, limit=100000):
        naks = sum(1 for _, verdict, _, source, _ in self.packets.values() if verdict and source)
        await self.bench.until(lambda: len(self.out.got) + len(self.err.got) == len(self.packets) + naks, limit,
                               "packets")
        await self.bench.until(lambda: not self.host.waiting, limit, "reads")
        await self.bench.step(1000)
        good = [self.packets[psn] for psn in self.order if not self.packets[psn][1]]
        bad = [self.packets[psn] for psn in self.order if self.packets[psn][1]]
        leave = [packet for packet in map(self.packets.get, self.order) if not packet[1] or packet[3]]
        for word, (sent, verdict, data, *_) in zip(self.out.got, leave, strict=True):
            want = dict(TXP.unpack(sent), has_payload=int(bool(data and not verdict)))
            if verdict and want["opcode"] != abi.BthOpcode.RC_ACKNOWLEDGE:
                want |= dict(kind=TX_ACK, opcode=abi.BthOpcode.RC_ACKNOWLEDGE, payload_bytes=0)
                want["aeth_syndrome"] = NAK_OPERATIONAL if verdict == keys.DMA else NAK_ACCESS
            assert TXP.unpack(word) == want
        assert self.payloads == [data for _, _, data, *_ in good if data] and not self.beats
        for word, (sent, verdict, _, source, _) in zip(self.err.got, bad, strict=True):
            txp = TXP.unpack(sent)
            if source:
                status = abi.WcStatus.REM_OP_ERR if verdict == keys.DMA else abi.WcStatus.REM_ACCESS_ERR
            else:
                status = abi.WcStatus.LOC_PROT_ERR
            assert MSG.unpack(word) == dict(kind=MSG_REQ_ERROR if source else MSG_SQ_ERROR, qpn=txp["qpn"],
                                            wqe_index=txp["wqe_index"], status=status, syndrome=verdict)


class SomeBadLines:
    """Host lines whose reads fail: about one in 500."""

    def __contains__(self, line):
        return line * 0x9E3779B1 % (1 << 32) < (1 << 32) // 500


def direct(table, index=60, func=0):
    """A row that covers everything; returns segment fields."""
    key = table.add(index, func=func, start=0, length=1 << 40, iova=0, local_write=1, remote_read=1)
    return dict(bypass=0, access=keys.LOCAL_READ, func=func, pd=0, key=key, va=0, len_bytes=0, chk_bytes=0)


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1, 1), (0.5, 1, 1, 0.8), (1, 0.4, 1, 1), (1, 1, 0.3, 1), (0.6,) * 4])
async def random_packets(dut, rates):
    """Both sources, packets with and without payload, bad keys and bad reads, stalls everywhere."""
    gather = Gather(dut, 1, *rates[:3], latency=(1, 150))
    gather.host.rate = rates[3]
    gather.host.bad = SomeBadLines()
    await gather.bench.start()
    rng = gather.bench.rng
    keys.random_table(gather.table, rng)
    for _ in range(400):
        segs = []
        if rng.random() < 0.8:
            left = 4096
            for _ in range(rng.choice([1, 1, 1, 2, 3, 16])):
                seg = keys.random_seg(gather.table, rng, wild=0.02, access=keys.LOCAL_READ)
                seg["len_bytes"] = min(seg["len_bytes"], left)
                left -= seg["len_bytes"]
                segs.append(seg)
        gather.packet(rng.randrange(2), segs)
    await gather.settle()
    assert gather.results[keys.OK] > 100 and gather.results[keys.KEY] > 5 and gather.results[keys.DMA] > 2


@cocotb.test()
async def small_packets(dut):
    """One 64-byte packet per 4 cycles at 125 cycles of read latency."""
    gather = Gather(dut, 2, latency=(125, 125))
    await gather.bench.start()
    seg = direct(gather.table)
    for n in range(300):
        gather.packet(0, [dict(seg, va=n * 4096 + 4032, len_bytes=64, chk_bytes=64)])
    await gather.settle()
    per_packet = (gather.out.when[-1] - gather.out.when[0]) / 299
    assert per_packet <= 4, per_packet


@cocotb.test()
async def long_packets(dut):
    """4096-byte packets leave without a bubble, within and between them, at 125 cycles of read latency."""
    gather = Gather(dut, 3, latency=(125, 125), interleave=False)
    await gather.bench.start()
    seg = direct(gather.table)
    for n in range(40):
        gather.packet(n % 2, [dict(seg, va=n * 4096, len_bytes=4096, chk_bytes=4096)])
    await gather.settle()
    beats = len(gather.pay.when)
    assert beats == 40 * 64
    assert gather.pay.when[-1] - gather.pay.when[0] == beats - 1, "a bubble"


@cocotb.test()
async def whole_packets_only(dut):
    """A packet waits for its last read; then its payload comes without a gap, whatever its alignment."""
    gather = Gather(dut, 4, latency=(5, 400))
    await gather.bench.start()
    seg = direct(gather.table)
    for n in range(20):
        gather.packet(0, [dict(seg, va=n * 8192 + 77 * n, len_bytes=1000 + n, chk_bytes=1000 + n)])
        gather.packet(1, [])
    await gather.settle()
    starts = 0
    for data in gather.payloads:
        pieces, have = 0, 0
        while have < len(data):
            have += PAY.unpack(gather.pay.got[starts + pieces])["len_bytes"]
            pieces += 1
        when = gather.pay.when[starts:starts + pieces]
        assert when[-1] - when[0] == pieces - 1, "the payload starved"
        starts += pieces


@cocotb.test()
async def failed_packet_between_good_ones(dut):
    """Each kind of failure: one message, nothing on pay, on txp only the NAK of a READ response; neighbours
    untouched."""
    gather = Gather(dut, 5, latency=(10, 90))
    await gather.bench.start()
    seg = direct(gather.table)
    good = dict(seg, va=0x10000, len_bytes=700, chk_bytes=700)
    gather.host.bad = {0x20000 // 64 + 9, 0x30000 // 64}
    faults = [dict(key=seg["key"] ^ 1), dict(pd=1), dict(access=keys.REMOTE_WRITE), dict(func=1),
              dict(chk_bytes=(1 << 32) - 1, va=(1 << 40) - 700), dict(va=0x20000), dict(va=0x30000)]
    for source in (0, 1):
        for fault in faults:
            for place in range(3):
                segs = [dict(good, va=0x10000 * 8 + n * 1000) for n in range(3)]
                segs[place].update(fault)
                gather.packet(source, [dict(good)])
                gather.packet(source, segs)
        gather.packet(source, [dict(good, len_bytes=0, chk_bytes=0, key=0xFFFFFFFF)])
        gather.packet(source, [dict(good), dict(good, len_bytes=0)])
        gather.packet(source, [dict(good, len_bytes=0, chk_bytes=10, key=0xFFFFFFFF)])
    await gather.settle()
    assert len(gather.err.got) == 2 * (len(faults) * 3 + 1)


@cocotb.test()
async def latency(dut):
    """Descriptor to read request 5 cycles; last beat of the answer to txp 4 cycles, to pay 5."""
    gather = Gather(dut, 6, latency=(20, 20))
    await gather.bench.start()
    gather.packet(0, [dict(direct(gather.table), va=0, len_bytes=64, chk_bytes=64)])
    await gather.settle()   # the key is here
    gather.packet(0, [dict(direct(gather.table), va=4096, len_bytes=64, chk_bytes=64)])
    await gather.bench.until(lambda: gather.host.requests == 2, what="read")
    asked = gather.bench.cycle - 1
    await gather.bench.until(lambda: gather.bench.get("mrsp_valid_i"), what="answer")
    answered = gather.bench.cycle - 1
    await gather.settle()
    assert asked - gather.txp[0].taken[1] == 5
    assert (gather.out.when[1] - answered, gather.pay.when[1] - answered) == (4, 5)


def test_gather():
    simulate("hca_gather", __name__)
