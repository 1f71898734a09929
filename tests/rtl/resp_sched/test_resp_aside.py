"""hca_resp_sched beside peers that repeat selectively: what is missing is answered beside the READ that it interrupts,
which goes on where it was (decision 0071)."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from test_resp_again import AgainBench, HALF, MTU, Peer, PSN_MASK, TXP

WINDOW, HOLE_MAX = 64, 31


class KeepingPeer(Peer):
    """Keeps what comes behind a gap, and asks for the first hole alone, as far as the READ goes that it begins in."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.here, self.taken, self.asked = set(), 0, 0

    def request_again(self, psn, length):
        """A request that the responder has had before."""
        self.bench.ask(self.qpn, psn, length, aside=1)

    def from_psn(self, psn):
        """All from a PSN on: a time-out."""
        for first, length in self.reads:
            packets = max(1, -(-length // MTU))
            skip = max(0, psn - first)
            if skip < packets:
                self.request_again(first + skip, length - skip * MTU)

    def ask_hole(self):
        """For what is missing first."""
        first, length = self.reads[0]
        skip = self.want - first
        missing = min(min(self.here) - self.want, HOLE_MAX)
        self.asked += 1
        self.request_again(self.want, min(length - skip * MTU, missing * MTU))

    def take(self, psn):
        self.taken += 1
        if self.bench.rng.random() < self.loss:
            self.lost += 1
            return
        ahead = (psn - self.want) & PSN_MASK
        at = self.want + ahead
        if 0 < ahead <= WINDOW and at not in self.here:
            first = not self.here
            self.here.add(at)
            if first or ahead % 16 == 0:
                self.ask_hole()
        elif ahead == 0:
            self.want += 1
            passed = 0
            while self.want in self.here:
                self.here.remove(self.want)
                self.want, passed = self.want + 1, passed + 1
            ends = 0
            while self.reads and self.reads[0][0] + max(1, -(-self.reads[0][1] // MTU)) <= self.want:
                self.reads.pop(0)
                ends += 1
            if self.here and (passed or ends):
                self.ask_hole()
        elif ahead < HALF:
            self.early += 1


class AsideBench(AgainBench):
    """Peers that keep."""

    def peer(self, qpn, first_psn=0xFFFFF0, loss=0.0):
        super().peer(qpn, first_psn, loss)
        self.peers[qpn] = KeepingPeer(self, qpn, first_psn, loss)
        return self.peers[qpn]


async def begin(dut, seed, *rates, **options):
    """A bench with one peer, PSNs over their end."""
    bench = await AsideBench(dut, seed, *rates, **options).begin()
    peer = bench.peer(5)
    await bench.until(bench.qpc.idle)
    return bench, peer


@cocotb.test()
async def a_hole_interrupts_and_nothing_begins_anew(dut):
    """REL-19: of the READ that is being answered, of one before it, of one that is all that there is: so many packets
    as were asked for, FIRST to LAST, and on from where it was with a MIDDLE."""
    for before, lengths, hole in ((10, (40 * MTU, 300), (3, 2)), (12, (4 * MTU, 40 * MTU), (1, 1)),
                                  (12, (4 * MTU, 40 * MTU), (2, 2)), (30, (8 * MTU, 8 * MTU, 30 * MTU, 1), (9, 5))):
        bench, peer = await begin(dut, before)
        for length in lengths:
            peer.ask(length)
        await bench.until(lambda bench=bench, n=before: len(bench.txp.got) >= n, 900, "some packets")
        bench.ask(5, 0xFFFFF0 + hole[0], hole[1] * MTU, aside=1)
        await bench.run()
        words = [TXP.unpack(word) for word in bench.txp.got]
        psns = [(word["psn"] - 0xFFFFF0) & PSN_MASK for word in words]
        turn = next(at for at in range(1, len(psns)) if psns[at] < psns[at - 1])
        asked = list(range(hole[0], hole[0] + hole[1]))
        assert psns[turn:turn + hole[1]] == asked, psns
        total = sum(-(-length // MTU) for length in lengths)
        assert psns[:turn] + psns[turn + hole[1]:] == list(range(total)), psns
        ops = [word["opcode"] for word in words[turn:turn + hole[1] + 1]]
        ends = [Op.RC_READ_RESPONSE_ONLY] if hole[1] == 1 else \
            [Op.RC_READ_RESPONSE_FIRST, *[Op.RC_READ_RESPONSE_MIDDLE] * (hole[1] - 2), Op.RC_READ_RESPONSE_LAST]
        assert ops == [*ends, Op.RC_READ_RESPONSE_MIDDLE], ops
        bench.check_pops()


@cocotb.test()
async def a_request_to_the_end_takes_the_place(dut):
    """REL-19: what is asked for to the end of the READ that is answered is not answered twice; what has not been sent
    is sent once; more than one interruption at a time."""
    bench, peer = await begin(dut, 4)
    peer.ask(4 * MTU)
    peer.ask(40 * MTU)
    await bench.until(lambda: len(bench.txp.got) >= 14, 900, "some packets")
    bench.ask(5, 0xFFFFF0 + 1, 2 * MTU, aside=1)
    bench.ask(5, 0xFFFFF0 + 6, 38 * MTU, aside=1)     # to the end of what was interrupted
    bench.ask(5, 0xFFFFF0 + 1, MTU, aside=1)
    await bench.run()
    await bench.step(500)
    psns = [(psn - 0xFFFFF0) & PSN_MASK for psn in bench.psns(5)]
    turn = next(at for at in range(1, len(psns)) if psns[at] < psns[at - 1])
    assert psns[turn:turn + 2] == [1, 2] and psns[-38:] == list(range(6, 44)), psns
    assert sorted(psns[turn:]) in (sorted([1, 2, *range(6, 44)]), sorted([1, 2, 1, *range(6, 44)])), psns
    bench.check_pops()


@cocotb.test()
async def who_was_answered_alone_is_in_front_of_all_others(dut):
    """REL-19: READs of one packet that came into no list, asked for again beside a new one."""
    bench, peer = await begin(dut, 7)
    for _ in range(4):
        peer.ask(MTU)
        await bench.step(20)
    await bench.run()
    bench.ask(5, 0xFFFFF0 + 1, 2 * MTU, aside=1)
    peer.ask(3 * MTU)
    bench.ask(5, 0xFFFFF0, MTU, aside=1)
    await bench.run()
    psns = [(psn - 0xFFFFF0) & PSN_MASK for psn in bench.psns(5)]
    assert psns[:4] == [0, 1, 2, 3] and psns[-3:] == [4, 5, 6] and sorted(psns[4:-3]) == [0, 1, 2], psns
    bench.check_pops()


@cocotb.test()
@cocotb.parametrize(loss=[0.01, 0.1], rate=[1.0, 0.6])
async def all_comes_and_little_twice(dut, loss, rate):
    """REL-19: READs of several QPs with loss: all data comes, and what is sent beyond it is what was lost, and what was
    asked for once more while it was under way."""
    bench = await AsideBench(dut, 6, rate=rate).begin()
    peers = [bench.peer(qpn, 0xFFFF00 + 7 * qpn, loss) for qpn in range(4)]
    await bench.until(bench.qpc.idle)
    for _ in range(800):
        peer = bench.rng.choice(peers)
        queued = sum(struct("rsp_job_t").unpack(word)["qpn"] == peer.qpn for word in bench.rsp.queue)
        if len(peer.reads) + queued < 8:
            peer.ask(bench.rng.choice([1, MTU, 5 * MTU + 3, 12 * MTU]))
        await bench.step(bench.rng.choice([0, 5, 30]))
    for _ in range(200):                     # what is lost last has nothing behind it: a time-out
        await bench.until(lambda: bench.rsp.idle() and not bench.get("txp_valid_o"), 60000, "rest")
        await bench.step(2000)
        late = [peer for peer in peers if peer.reads]
        for peer in late:
            peer.from_psn(peer.want)
        if not late:
            break
    await bench.run()
    assert all(peer.want == peer.next and not peer.here for peer in peers)
    assert sum(peer.lost for peer in peers) > 5
    bench.check_pops()


def test_resp_aside():
    """Runs the tests of this file."""
    simulate("hca_resp_sched", "test_resp_aside")
