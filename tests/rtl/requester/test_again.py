"""Packets that are sent again alone: hca_sq_again goes back for some of them, and on from where it was."""

import cocotb
from common import simulate
from hca_abi import WrOpcode
from sq_bench import PSN_MASK, Qp, SqBench, Wqe, expected_packet

SLACK = 16    # packets that may leave between the word and the first one that is sent again
EIGHTH = 8


class AgainBench(SqBench):
    """Any packet that was posted may come, as it must be; which ones do is what the tests look at."""

    def __init__(self, dut, seed, **options):
        super().__init__(dut, seed, **options)
        self.auto_ack = False
        self.psns = []

    def match(self, qp, txp):
        """The position of the packet, by its PSN."""
        places = ((index, (txp["psn"] - wqe.first_psn) & PSN_MASK) for index, wqe in qp.wqes.items())
        index, packet = next(place for place in places if place[1] < qp.wqes[place[0]].packets(qp.mtu))
        for retx in (False, True):
            want, segments, behind = expected_packet(qp, (index, packet * qp.mtu), retx)
            diff = {key: (txp[key], value) for key, value in want.items() if txp[key] != value}
            if not diff:
                break
        assert not diff, f"packet {txp['psn']}: field: (got, want) {diff}"
        qp.states = {(behind, False, len(qp.moves))}
        self.psns.append(txp["psn"])
        return (index, packet * qp.mtu), segments


async def begin(dut, seed, **options):
    """A QP of selective repeat, MTU 256, first PSN 100."""
    bench = await AgainBench(dut, seed, latency=(40, 60), **options).begin()
    qp = bench.create(Qp(9, mtu_code=1, psn=100, selective=1))
    return bench, qp


def only_once(psns, again):
    """The packets from 100 on in order, each once but those that were asked for again; they come in one piece, between
    any two of the others. Returns where that is."""
    first = next(at for at in range(1, len(psns)) if psns[at] == again[0] and psns[at] <= psns[at - 1])
    assert psns[first:first + len(again)] == again, psns
    rest = psns[:first] + psns[first + len(again):]
    assert rest == list(range(100, 100 + len(rest))), psns
    return first


@cocotb.test()
async def goes_on_where_it_was(dut):
    """REL-16: inside the WQE that is being sent, of a WQE before it, and of the last one, behind which nothing is."""
    for lengths, sent, from_psn, count in (((60 * 256,), 20, 105, 2), ((3 * 256,) * 20, 24, 104, 4),
                                           ((700, 60 * 256), 30, 101, 1), ((256,) * 40, 33, 110, 7),
                                           ((20 * 256,), 20, 119, 1), ((20 * 256, 256), 21, 100, 1)):
        bench, qp = await begin(dut, 3)
        bench.post(qp, *[Wqe(WrOpcode.RDMA_WRITE, [(at << 20, size, 1)], remote_addr=at << 30, rkey=5)
                         for at, size in enumerate(lengths)])
        await bench.until(lambda sent=sent, qp=qp: qp.sent >= sent, 2000, "some packets")
        bench.send_ack(qp, from_psn, rewind=True, again=count)
        total = sum(-(-size // 256) for size in lengths)
        await bench.until(lambda total=total, count=count, qp=qp: qp.sent == total + count, 3000, "all of them")
        await bench.step(300)
        assert qp.sent == total + count, "nothing more"
        only_once(bench.psns, list(range(from_psn, from_psn + count)))
        bench.send_ack(qp, 100 + total)
        bench.post(qp, Wqe(WrOpcode.SEND, [(0, 5, 1)]))
        await bench.until(lambda total=total, count=count, qp=qp: qp.sent == total + count + 1, 500, "the next one")
        assert bench.psns[-1] == 100 + total and not bench.errors


@cocotb.test()
async def a_second_gap_keeps_the_place(dut):
    """Another gap while packets of the first one are still to be sent; an acknowledge of all of them; and a rewind that
    asks for all, which forgets the place."""
    bench, qp = await begin(dut, 4)
    bench.post(qp, *[Wqe(WrOpcode.RDMA_WRITE, [(at << 20, 512, 1)], rkey=5) for at in range(30)])
    await bench.until(lambda: qp.sent == 60, 2000, "all packets")
    bench.txp.rate = 0
    bench.send_ack(qp, 110, rewind=True, again=20)
    await bench.step(400)
    bench.txp.rate = 1.0
    await bench.until(lambda: qp.sent >= 64, 500, "some of them")
    bench.send_ack(qp, 140, rewind=True, again=3)
    await bench.step(600)
    assert bench.psns[-3:] == [140, 141, 142] and qp.sent < 90, bench.psns[60:]
    bench.post(qp, Wqe(WrOpcode.RDMA_WRITE, [(0, 300, 1)], rkey=5))
    await bench.step(400)
    assert bench.psns[-2:] == [160, 161], "it was behind all of them"
    bench.send_ack(qp, 145, rewind=True, again=2)
    bench.send_ack(qp, 145, rewind=True)
    await bench.step(600)
    assert bench.psns[-17:] == list(range(145, 162)), bench.psns[60:]
    assert not bench.errors


@cocotb.test()
async def a_hole_that_is_filled_before_it_is_taken(dut):
    """Data that only came late: the hole has been told of, and is filled before the requester has looked. The next READ
    is new, and whole."""
    for count in (1, 4):
        bench, qp = await begin(dut, 5)
        bench.post(qp, Wqe(WrOpcode.RDMA_READ, [(0, 256 * count, 1)], rkey=5))
        await bench.until(lambda qp=qp: qp.sent == 1, 500, "the first one")
        await bench.step(100)
        bench.post(qp, *[Wqe(WrOpcode.RDMA_READ, [(at << 20, 5 * 256, 1)], rkey=5) for at in (1, 2)])
        bench.send_ack(qp, 100, rewind=True, again=count)
        bench.send_ack(qp, 100 + count)
        await bench.step(600)
        assert bench.psns[-2:] == [100 + count, 105 + count] and not bench.errors, bench.psns


class Peer:
    """Loses packets, keeps what comes behind a gap, and tells of it; answers come late."""

    def __init__(self, bench, qp, loss):
        self.bench, self.qp, self.loss = bench, qp, loss
        self.epsn, self.here, self.behind, self.mark, self.said = qp.sq_psn, set(), 0, 0, False
        self.high = qp.sq_psn
        self.seen = 0
        self.answers = []
        bench.agents.append(self)

    def drive(self):
        """Answers that are due."""
        while self.answers and self.answers[0][0] <= self.bench.cycle:
            _, psn, again = self.answers.pop(0)
            self.bench.send_ack(self.qp, psn, rewind=bool(again), again=again)

    def sample(self):
        """Packets that have left."""
        for psn in self.bench.psns[self.seen:]:
            self.high = max(self.high, psn + 1)
            if self.bench.rng.random() >= self.loss:
                self.take(psn)
        self.seen = len(self.bench.psns)

    def take(self, psn):
        """One comes."""
        if psn < self.epsn or psn in self.here:
            return
        self.here.add(psn)
        old = self.epsn
        while self.epsn in self.here:
            self.here.remove(self.epsn)
            self.epsn += 1
        due = self.bench.cycle + 30
        if self.epsn != old:
            self.said = False
            self.answers.append((due, self.epsn, 0))
        if self.here and (not self.said or (psn - self.epsn) % EIGHTH == 0):
            self.said = True
            if self.epsn >= self.behind or psn >= self.mark + SLACK:
                again = min(min(self.here) - self.epsn, 31)
                self.behind, self.mark = self.epsn + again, self.high
                self.answers.append((due, self.epsn, again))


@cocotb.test()
async def a_lossy_peer_gets_all(dut):
    """At random: WRITEs of all sizes, one packet in twelve lost, those that are sent again too. All comes, and little
    more than what was lost is sent again."""
    for seed in range(3):
        bench, qp = await begin(dut, 20 + seed, out_rate=0.8)
        peer = Peer(bench, qp, 1 / 12)
        for at in range(150):
            await bench.until(lambda qp=qp: qp.tail - qp.una_wqe() < 60, 20000, "room in the ring")
            bench.post(qp, Wqe(WrOpcode.RDMA_WRITE, [(at << 20, bench.rng.randint(1, 3000), 1)], rkey=5))
            await bench.step(bench.rng.randint(0, 40))
        idle = 0
        while qp.una != qp.tail_psn:
            before = qp.sent
            await bench.step(500)
            # Behind the last one nothing comes that tells of a gap: a time-out.
            if qp.sent == before and not peer.answers:
                idle += 1
                peer.behind = 0
                bench.send_ack(qp, peer.epsn, rewind=True)
            assert idle < 8, f"PSN {qp.una} of {qp.tail_psn}"
        total = qp.tail_psn - 100
        dut._log.warning("%d packets, %d sent, %d time-outs", total, qp.sent, idle)
        assert qp.sent < total * 1.3 + 64 * idle and not bench.errors


class HoleBench(AgainBench):
    """READ requests, and for how many bytes; one that asks for less than what is left is otherwise as it must be."""

    def __init__(self, dut, seed, **options):
        super().__init__(dut, seed, **options)
        self.asked = []

    def match(self, qp, txp):
        self.asked.append((txp["psn"], txp["reth_bytes"]))
        wqe = next(wqe for wqe in qp.wqes.values() if (txp["psn"] - wqe.first_psn) & PSN_MASK < wqe.packets(qp.mtu))
        left = wqe.length - ((txp["psn"] - wqe.first_psn) & PSN_MASK) * qp.mtu
        assert txp["reth_bytes"] == left or (txp["reth_bytes"] < left and txp["reth_bytes"] % qp.mtu == 0)
        return super().match(qp, {**txp, "reth_bytes": left})


@cocotb.test()
async def a_hole_in_a_read_is_asked_for_alone(dut):
    """REL-16: as many packets as are missing, or what is left of the READ if that is less; then on from where it was. A
    rewind without a number asks for all."""
    for from_psn, count, asked in ((103, 2, 512), (107, 31, 768), (110, 5, 700), (110, 2, 512)):
        bench = await HoleBench(dut, 5, latency=(40, 60)).begin()
        qp = bench.create(Qp(9, mtu_code=1, psn=100, selective=1, max_rd_atomic=3))
        bench.post(qp, *[Wqe(WrOpcode.RDMA_READ, [(at << 20, size, 1)], remote_addr=at << 30, rkey=5)
                         for at, size in enumerate((10 * 256, 700, 300, 256))])
        await bench.until(lambda qp=qp: qp.sent >= 3, 2000, "as many READs as may be outstanding")
        bench.send_ack(qp, from_psn, rewind=True, again=count)
        await bench.until(lambda qp=qp: qp.sent == 4, 3000, "the hole")
        await bench.step(300)
        bench.send_ack(qp, 113)
        await bench.until(lambda qp=qp: qp.sent == 5, 3000, "the next READ")
        assert bench.asked == [(100, 2560), (110, 700), (113, 300), (from_psn, asked), (115, 256)], bench.asked
        bench.send_ack(qp, 113, rewind=True)
        await bench.until(lambda qp=qp: qp.sent == 7, 3000, "all again")
        assert bench.asked[5:] == [(113, 300), (115, 256)] and not bench.errors


def test_again():
    """Runs the tests of this file."""
    simulate("hca_requester", __name__)
