"""hca_resp_sched with requests that come again: copies of the network's take nothing away, and a peer that goes back
gets everything from there on, in the order of PSNs."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from test_resp_sched import PSN_MASK, RING, RespBench

TXP, SEG = struct("txp_t"), struct("seg_t")
MTU_CODE, MTU = 1, 256
HALF = 1 << 23


class Peer:
    """A requester of one QP: READs in order, one after the other in PSNs; takes data in order only. PSN n of a READ is
    at the address n * MTU, counted from its first PSN on without wrapping."""

    def __init__(self, bench, qpn, first_psn, loss=0.0):
        self.bench, self.qpn, self.loss = bench, qpn, loss
        self.reads, self.next, self.want = [], first_psn, first_psn   # (first, length), not wrapped
        self.lost = self.went_back = self.early = 0
        self.gap = False

    def ask(self, length):
        """A new READ."""
        self.reads.append((self.next, length))
        self.request(self.next, length)
        self.next += max(1, -(-length // MTU))

    def request(self, psn, length):
        """The request on the wire."""
        self.bench.ask(self.qpn, psn, length)

    def from_psn(self, psn):
        """Requests again from a PSN on: the READ that it is in from there, all later ones."""
        for first, length in self.reads:
            packets = max(1, -(-length // MTU))
            if first + packets <= psn:
                continue
            skip = max(0, psn - first)
            self.request(first + skip, length - skip * MTU)

    def take(self, psn):
        """A response packet."""
        if self.bench.rng.random() < self.loss:
            self.lost += 1
            return
        ahead = (psn - self.want) & PSN_MASK
        if ahead == 0:
            self.want += 1
            self.gap = False
            while self.reads and self.reads[0][0] + max(1, -(-self.reads[0][1] // MTU)) <= self.want:
                self.reads.pop(0)
        elif ahead < HALF:
            self.early += 1
            if not self.gap:
                self.gap = True
                self.went_back += 1
                self.from_psn(self.want)


class AgainBench(RespBench):
    """The oracle is the peers."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.peers, self.places, self.expected = {}, deque(), {}

    def peer(self, qpn, first_psn=0xFFFFF0, loss=0.0):
        """A QP with its peer."""
        self.create(qpn, MTU_CODE)
        self.peers[qpn] = Peer(self, qpn, first_psn, loss)
        return self.peers[qpn]

    def ask(self, qpn, psn, length, aside=0):
        """The job of a READ request: again, if its PSN is not that which is expected, or beyond."""
        self.read_qpns.append(qpn)
        expected = self.expected.get(qpn, psn)
        self.expected[qpn] = max(expected, psn + max(1, -(-length // MTU)))
        assert not aside or psn < expected
        self.rsp.put(struct("rsp_job_t").pack(valid=1, read=1, qpn=qpn, psn=psn & PSN_MASK, msn=psn & PSN_MASK,
                                              again=int(psn < expected), aside=aside, rkey=qpn + 99, va=psn * MTU,
                                              len_bytes=length))

    def on_job(self, word):
        """The peers know what they have asked for."""

    def on_txp(self, word):
        txp = TXP.unpack(word)
        self.seq = (self.seq + 1) & 0xFFFF
        self.unsent.append((self.seq, txp["qpn"], txp["psn"]))
        if txp["has_payload"]:
            self.places.append(txp["psn"])
            self.check_segs()
        self.peers[txp["qpn"]].take(txp["psn"])

    def check_segs(self):
        while self.segs and self.places:
            seg, psn = self.segs.popleft(), self.places.popleft()
            assert seg["va"] // MTU & PSN_MASK == psn and not seg["va"] % MTU

    def finished(self):
        return self.rsp.idle() and self.qpc.idle() and all(not peer.reads for peer in self.peers.values())

    def psns(self, qpn, since=0):
        """PSNs of a QP's response packets."""
        words = [TXP.unpack(word) for word in self.txp.got[since:]]
        return [word["psn"] for word in words if word["qpn"] == qpn]


@cocotb.test()
async def what_is_not_sent_yet_is_sent_once(dut):
    """REL-19: requests that come again while nothing of theirs has left change nothing; a 17th job is lost."""
    bench = await AgainBench(dut, 1).begin()
    one, two, three = bench.peer(1), bench.peer(2, 0), bench.peer(3)
    await bench.until(bench.qpc.idle)
    bench.txp.rate = 0.0
    three.ask(64)
    one.ask(64)                              # these two are on their way out
    await bench.step(60)
    for length in (1000, 0, 3000):
        one.ask(length)
    for _ in range(RING):
        two.ask(64)
    await bench.step(150)
    one.from_psn(0xFFFFF1)
    bench.ask(1, 0xFFFFF8, 2280)             # from the middle on
    bench.ask(2, 0, 64)
    bench.ask(2, RING, 64)                   # no slot
    await bench.step(150)
    bench.txp.rate = 1.0
    await bench.run()
    assert bench.psns(1) == [*range(0xFFFFF0, 1 << 24), 0, 1], bench.psns(1)
    assert bench.psns(2) == list(range(RING))
    bench.check_pops()


@cocotb.test()
async def the_head_goes_back(dut):
    """REL-19: the READ that is being answered is asked for again from the middle on, whole, or from beyond what has
    been sent; those behind it come once."""
    for back in (0, 3, 7, 30):
        bench = await AgainBench(dut, back, rate=1.0).begin()
        peer = bench.peer(5)
        await bench.until(bench.qpc.idle)
        peer.ask(40 * MTU)
        peer.ask(300)
        await bench.until(lambda bench=bench: len(bench.txp.got) >= 10, 500, "ten packets")
        if back == 30:      # the peer has what is between
            peer.want = 0xFFFFF0 + back
        bench.ask(5, 0xFFFFF0 + back, (40 - back) * MTU)
        await bench.run()
        psns = [(psn - 0xFFFFF0) & PSN_MASK for psn in bench.psns(5)]
        turn = next((at for at in range(1, len(psns)) if psns[at] <= psns[at - 1]), None)
        if back == 30:
            turn = next(at for at in range(1, len(psns)) if psns[at] != psns[at - 1] + 1)
            assert 10 <= turn <= 16 and psns == [*range(turn), *range(30, 42)], psns
        else:
            assert turn >= 10 and psns[:turn] == list(range(turn)) and psns[turn:] == list(range(back, 42)), psns
        assert not peer.early and peer.want == peer.next
        words = [TXP.unpack(word) for word in bench.txp.got]
        begins = (Op.RC_READ_RESPONSE_FIRST, Op.RC_READ_RESPONSE_ONLY)
        assert all((word["opcode"] in begins) == (at in (0, turn, len(words) - 2)) for at, word in enumerate(words)), \
            "the answer of a request begins with a FIRST"
        bench.check_pops()


@cocotb.test()
async def what_was_finished_comes_in_front(dut):
    """REL-19: a peer goes back while a later READ is answered: the older ones come first, in order, then the later ones
    from their beginning; nothing twice but what was asked for or interrupted."""
    bench = await AgainBench(dut, 3).begin()
    peer = bench.peer(9, 100)
    await bench.until(bench.qpc.idle)
    for length in (3 * MTU, 2 * MTU, 100, 30 * MTU, 200):      # 100..102, 103..104, 105, 106..135, 136
        peer.ask(length)
    await bench.until(lambda: 110 in bench.psns(9), 500, "the fourth READ")
    since = len(bench.txp.got)
    for psn, length in ((101, 2 * MTU), (103, 2 * MTU), (105, 100), (106, 30 * MTU), (136, 200)):
        bench.ask(9, psn, length)
    await bench.run()
    await bench.step(400)
    psns = bench.psns(9, since)
    turn = psns.index(101)
    assert turn <= 24 and psns[turn:] == list(range(101, 137)), psns
    bench.check_pops()


@cocotb.test()
@cocotb.parametrize(rates=[(1.0, 1.0), (0.5, 0.5), (0.3, 1.0)])
async def copies_take_nothing_away(dut, rates):
    """REL-19, REL-18: whatever the network copies, and whenever, the data of every READ comes whole and without a gap:
    no retry is spent."""
    bench = await AgainBench(dut, 4, *rates).begin()
    peers = [bench.peer(qpn, 0xFFFF80 + qpn) for qpn in range(12)]
    await bench.until(bench.qpc.idle)
    asked = {peer.qpn: deque(maxlen=6) for peer in peers}
    for _ in range(1200):
        peer = bench.rng.choice(peers)
        queued = sum(struct("rsp_job_t").unpack(word)["qpn"] == peer.qpn for word in bench.rsp.queue)
        if bench.rng.random() < 0.5 and len(peer.reads) + queued < 4:
            length = bench.rng.choice([0, 1, MTU, 5 * MTU + 3, 20 * MTU])
            asked[peer.qpn].append((peer.next, length))
            peer.ask(length)
        elif asked[peer.qpn]:
            bench.ask(peer.qpn, *bench.rng.choice(asked[peer.qpn]))
        await bench.step(bench.rng.choice([0, 1, 5, 30]))
    await bench.run()
    await bench.step(4000)
    assert all(peer.want == peer.next and not peer.early for peer in peers), [peer.early for peer in peers]
    bench.check_pops()


@cocotb.test()
@cocotb.parametrize(loss=[0.01, 0.1])
async def every_loss_costs_one_return(dut, loss):
    """REL-19, D14: a peer that misses a packet goes back once for it and gets all the rest, again and again."""
    bench = await AgainBench(dut, 5, rate=0.7).begin()
    peers = [bench.peer(qpn, 0xFFFF00 + 7 * qpn, loss) for qpn in range(8)]
    await bench.until(bench.qpc.idle)
    for _ in range(600):
        peer = bench.rng.choice(peers)
        queued = sum(struct("rsp_job_t").unpack(word)["qpn"] == peer.qpn for word in bench.rsp.queue)
        if len(peer.reads) + queued < 8:
            peer.ask(bench.rng.choice([0, 1, MTU, 5 * MTU + 3, 12 * MTU]))
        await bench.step(bench.rng.choice([0, 5, 30]))
    for _ in range(200):                     # what is lost last has nothing behind it: a time-out
        await bench.until(lambda: bench.rsp.idle() and not bench.get("txp_valid_o"), 60000, "rest")
        await bench.step(2000)
        for peer in peers:
            if peer.reads:
                peer.gap = False
                peer.from_psn(peer.want)
    await bench.run()
    assert all(peer.want == peer.next for peer in peers)
    for peer in peers:
        assert peer.went_back <= peer.lost, f"QP {peer.qpn}: {peer.went_back} returns for {peer.lost} losses"
    assert sum(peer.lost for peer in peers) > 5
    bench.check_pops()


def test_resp_again():
    """Runs the tests of this file."""
    simulate("hca_resp_sched", "test_resp_again")
