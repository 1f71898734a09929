"""hca_resp_sched against a small oracle: READ responses of every shape, one cumulative ACK behind them."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, constants, simulate, struct
from hca_abi import QpState

PSN_MASK = (1 << 24) - 1
RING = constants()["MaxDestRdAtomic"]
NAK = 0x60


class RespBench(Bench):
    """Oracle: per QP the READ jobs in order, and the newest ACK. The header stage is a random delay."""

    def __init__(self, dut, seed, rate=1.0, wire_rate=None):
        super().__init__(dut, seed)
        self.qpc = Source(self, "qpc_wr", "qpc_wr_t", rate=rate)
        self.rsp = Source(self, "rsp", "rsp_job_t", rate=rate)
        self.rsp.on_accept = self.on_job
        self.txp = Sink(self, "txp", rate=rate, on_word=self.on_txp)
        self.seg = Sink(self, "seg", rate=rate, on_word=self.on_seg)
        self.ack = Sink(self, "ack", rate=rate, on_word=self.on_ack)
        self.wire_rate = rate if wire_rate is None else wire_rate
        self.mtu, self.func, self.jobs, self.offset, self.pending = {}, {}, {}, {}, {}
        self.want_segs, self.segs, self.unsent, self.waiting = deque(), deque(), deque(), {}
        self.read_qpns = []
        self.seq, self.popped, self.acks, self.wait_max = 0, [], [], 0
        self.agents.append(self)

    async def begin(self):
        """Reset, and the scrubbing of the tables."""
        await self.start()
        self.set("sl_open_i", 0xFFFF)
        await self.step(constants()["NumQps"] + 4)
        return self

    def create(self, qpn, mtu_code=3, state=QpState.RTS, init=True):
        """Writes a QP's context."""
        self.mtu[qpn], self.func[qpn] = 128 << mtu_code, qpn & 3
        if init:
            self.jobs[qpn], self.offset[qpn], self.pending[qpn] = deque(), 0, None
        qpc = struct("qpc_t").pack(state=state, path_mtu=mtu_code, func=qpn & 3, pd=qpn + 5, qpn=0xABC000 | qpn)
        self.qpc.put(struct("qpc_wr_t").pack(init_rq=init, qpn=qpn, qpc=qpc))

    def read(self, qpn, psn, length, msn=1):
        """A READ job."""
        self.read_qpns.append(qpn)
        self.rsp.put(struct("rsp_job_t").pack(
            valid=1, read=1, qpn=qpn, psn=psn & PSN_MASK, msn=msn, rkey=qpn + 99, syndrome=self.rng.getrandbits(5),
            va=self.rng.getrandbits(48), len_bytes=length))

    def acknowledge(self, qpn, psn, syndrome=0x1F, msn=1):
        """An ACK or NAK job."""
        self.rsp.put(struct("rsp_job_t").pack(
            valid=1, qpn=qpn, psn=psn & PSN_MASK, syndrome=syndrome, msn=msn))

    def on_job(self, word):
        """The DUT has taken a job."""
        job = struct("rsp_job_t").unpack(word)
        qpn = job["qpn"]
        old = self.pending[qpn]
        if not job["read"]:
            # A repeated request's ACK says less than the NAK that waits.
            if not (old and old["syndrome"] & 0x60 and not job["syndrome"] & 0x60
                    and (job["psn"] - old["psn"]) & PSN_MASK >= 1 << 23):
                self.pending[qpn] = job
            return
        if old and not old["syndrome"] & 0x60 and (job["psn"] - old["psn"]) & PSN_MASK < 1 << 23:
            self.pending[qpn] = None
        self.jobs[qpn].append(job)

    def on_txp(self, word):
        """A READ response."""
        txp = struct("txp_t").unpack(word)
        qpn = txp["qpn"]
        assert self.jobs[qpn], f"QP {qpn}: READ response without a job"
        job, offset, mtu = self.jobs[qpn][0], self.offset[qpn], self.mtu[qpn]
        left = job["len_bytes"] - offset
        size, last = min(left, mtu), left <= mtu
        self.seq = (self.seq + 1) & 0xFFFF
        want = dict(kind=1, qpn=qpn, psn=(job["psn"] + offset // mtu) & PSN_MASK, payload_bytes=size,
                    has_payload=int(size > 0), aeth_syndrome=job["syndrome"], aeth_msn=job["msn"], resp_seq=self.seq,
                    opcode={(1, 1): 0x10, (1, 0): 0xD, (0, 1): 0xF, (0, 0): 0xE}[offset == 0, last],
                    ack_req=0, solicited=0)
        got = {key: txp[key] for key in want}
        assert got == want, f"{got}, expected {want}"
        if size:
            self.want_segs.append(dict(
                bypass=0, access=3, func=self.func[qpn], pd=qpn + 5, qpn=0xABC000 | qpn, key=job["rkey"],
                va=job["va"] + offset, len_bytes=size, chk_bytes=size, last=1))
            self.check_segs()
        self.unsent.append((self.seq, qpn, txp["psn"]))
        self.offset[qpn] = 0 if last else offset + size
        if last:
            self.jobs[qpn].popleft()

    def on_seg(self, word):
        """Segments in the order of the packets."""
        self.segs.append(struct("seg_t").unpack(word))
        self.check_segs()

    def check_segs(self):
        """Compares segments whose packet is known."""
        while self.segs and self.want_segs:
            got, want = self.segs.popleft(), self.want_segs.popleft()
            assert got == want, f"{got}, expected {want}"

    def on_ack(self, word):
        """An acknowledge: the newest, and behind all READ responses of its QP that are before it."""
        txp = struct("txp_t").unpack(word)
        qpn = txp["qpn"]
        self.acks.append((qpn, txp["psn"], txp["aeth_syndrome"]))
        before = [psn for _, other, psn in self.unsent if other == qpn and (txp["psn"] - psn) & PSN_MASK < 1 << 23]
        assert not before, f"QP {qpn}: ACK overtakes a READ response"
        want = self.pending[qpn]
        if want and txp["psn"] == want["psn"] and txp["aeth_syndrome"] == want["syndrome"]:
            self.pending[qpn] = None
        expected = dict(kind=2, opcode=0x11, ack_req=0, has_payload=0, payload_bytes=0)
        assert {key: txp[key] for key in expected} == expected

    def check_pops(self):
        """Every READ job was reported once."""
        assert sorted(self.popped) == sorted(self.read_qpns), "READ jobs reported"

    def drive(self):
        """The header stage lets packets pass, in order."""
        if self.unsent and self.rng.random() < self.wire_rate:
            self.set("resp_done_seq_i", self.unsent.popleft()[0])

    def sample(self):
        """Counts jobs that left their ring; `rsp` is never kept waiting for long."""
        if self.get("rsp_popped_valid_o"):
            self.popped.append(self.get("rsp_popped_qpn_o"))
        waits = self.rsp.offered and not self.get("rsp_ready_o")
        self.waiting = self.waiting + 1 if waits and self.waiting else int(waits)
        self.wait_max = max(self.wait_max, self.waiting)

    def finished(self):
        """All jobs have been served."""
        return self.rsp.idle() and self.qpc.idle() and not any(self.jobs.values()) and not self.want_segs \
            and not any(self.pending.values())

    async def run(self, limit=60000):
        """Until everything has been sent."""
        await self.until(self.finished, limit, "end of all jobs")
        await self.step(50)
        assert self.finished()


@cocotb.test()
@cocotb.parametrize(rates=[(1.0, 1.0), (0.5, 0.5), (1.0, 0.05), (0.3, 1.0)])
async def random_jobs(dut, rates):
    """READs of every shape and acknowledges over many QPs; the ACK seen last is the newest given."""
    bench = await RespBench(dut, 1, *rates).begin()
    psn, last_ack = {}, {}
    for n in range(40):
        bench.create(n * 5, 1 + n % 5)
        psn[n * 5] = 0xFFFFF0 + n
    await bench.until(bench.qpc.idle)
    for _ in range(900):
        qpn = 5 * min(bench.rng.randrange(40), bench.rng.randrange(40))
        mtu = bench.mtu[qpn]
        queued = sum(struct("rsp_job_t").unpack(word)["qpn"] == qpn for word in bench.rsp.queue)
        if bench.rng.random() < 0.4 and len(bench.jobs[qpn]) + queued < RING:
            length = bench.rng.choice([0, 1, mtu - 1, mtu, mtu + 1, 5 * mtu + 3])
            bench.read(qpn, psn[qpn], length, bench.rng.getrandbits(24))
            psn[qpn] += max(1, -(-length // mtu))
            last_ack.pop(qpn, None)
        else:
            syndrome = 0x1F if bench.rng.random() < 0.8 else NAK
            bench.acknowledge(qpn, psn[qpn], syndrome, bench.rng.getrandbits(24))
            last_ack[qpn] = psn[qpn] & PSN_MASK
            psn[qpn] += 1
        await bench.step(bench.rng.choice([0, 0, 1, 8]))
    await bench.run()
    for qpn, want in last_ack.items():
        assert [ack for ack in bench.acks if ack[0] == qpn][-1][1] == want
    assert bench.wait_max <= 12, f"rsp waited {bench.wait_max} cycles"
    bench.check_pops()


@cocotb.test()
async def ack_waits_for_reads(dut):
    """An ACK behind READ responses leaves only when the last of them has passed the header stage."""
    bench = await RespBench(dut, 2, wire_rate=0.0).begin()
    bench.create(7)
    bench.create(8)
    await bench.until(bench.qpc.idle)
    bench.acknowledge(7, 1)                 # nothing in the way
    await bench.step(20)
    assert bench.acks == [(7, 1, 0x1F)]
    bench.read(7, 2, 3000)
    bench.acknowledge(7, 5)
    bench.acknowledge(7, 6)                 # cumulative
    bench.acknowledge(8, 9)                 # another QP does not wait
    await bench.step(200)
    assert len(bench.txp.got) == 3 and bench.acks[1:] == [(8, 9, 0x1F)]
    for count in (2, 1):
        for _ in range(count):
            bench.set("resp_done_seq_i", bench.unsent.popleft()[0])
        await bench.step(50)
        assert len(bench.acks) == (3 if count == 1 else 2)
    assert bench.acks[2] == (7, 6, 0x1F)


@cocotb.test()
async def supersede(dut):
    """A READ acknowledges an ACK pending before it, not a NAK, and not an ACK that is newer than itself."""
    bench = await RespBench(dut, 3).begin()
    bench.ack.rate = bench.txp.rate = 0.0
    for qpn in range(8):
        bench.create(qpn)
    await bench.until(bench.qpc.idle)
    for qpn in (5, 6, 7):
        bench.acknowledge(qpn, 100)         # these fill the way out
    await bench.step(60)
    bench.acknowledge(1, 10)
    bench.read(1, 11, 64)
    bench.acknowledge(2, 10, NAK)
    bench.read(2, 11, 64)
    bench.acknowledge(3, 10)
    bench.read(3, 9, 64)                    # a repeated READ
    bench.acknowledge(4, 10, NAK)
    bench.acknowledge(4, 11)                # newer: the NAK is gone
    await bench.step(60)
    bench.ack.rate = bench.txp.rate = 1.0
    await bench.run()
    assert sorted(bench.acks)[:3] == [(2, 10, NAK), (3, 10, 0x1F), (4, 11, 0x1F)], bench.acks
    assert bench.popped.count(1) == bench.popped.count(2) == bench.popped.count(3) == 1


@cocotb.test()
async def repeated_request_behind_a_nak(dut):
    """REL-16, REL-19: the ACK of a repeated request does not replace a NAK that waits: the NAK acknowledges all of it,
    and nobody would ask again. The NAK falls to what is newer: its own PSN acknowledged, another NAK."""
    bench = await RespBench(dut, 9).begin()
    bench.ack.rate = 0.0
    naks = (NAK, 0x62, 0x2C)
    for qpn in range(20):
        bench.create(qpn)
    await bench.until(bench.qpc.idle)
    for qpn in (17, 18, 19):
        bench.acknowledge(qpn, 100)         # these fill the way out
    await bench.step(60)
    want = set()
    for n, nak in enumerate(naks):
        for k, (psn, later, code) in enumerate(((10, 9, 0x1F), (0, PSN_MASK, 0x1F), (0x800000, 0, 0x1F), (10, 10, 0x1F),
                                                (10, 9, 0x60))):
            qpn = 5 * n + k
            bench.acknowledge(qpn, psn, nak, msn=3)
            bench.acknowledge(qpn, later, code, msn=3)
            want.add((qpn, psn, nak) if k < 3 else (qpn, later, code))
    await bench.step(200)
    bench.ack.rate = 1.0
    await bench.run()
    assert {ack for ack in bench.acks if ack[0] < 15} == want, bench.acks


@cocotb.test()
async def refusal_behind_reads(dut):
    """REL-16, QPS-13: a fatal NAK moves its own QP to ERR; the READs before it are answered first, then it leaves, and
    what came behind is gone. In ERR without one nothing leaves."""
    bench = await RespBench(dut, 10, wire_rate=0.02).begin()
    bench.create(1, mtu_code=1)
    bench.create(2, mtu_code=1)
    await bench.until(bench.qpc.idle)
    bench.txp.rate = 0.0
    for qpn in (1, 2):
        bench.read(qpn, 5, 1000)
        bench.read(qpn, 9, 300)
    bench.acknowledge(1, 11, 0x62)
    await bench.until(bench.rsp.idle)
    bench.create(1, mtu_code=1, state=QpState.ERR, init=False)
    bench.create(2, mtu_code=1, state=QpState.ERR, init=False)
    await bench.until(bench.qpc.idle)
    bench.txp.rate = 1.0
    await bench.until(lambda: bench.acks, 5000, "NAK")
    await bench.step(100)
    assert bench.acks == [(1, 11, 0x62)] and not bench.jobs[1]
    words = [struct("txp_t").unpack(word) for word in bench.txp.got]
    assert [word["psn"] for word in words if word["qpn"] == 1] == [5, 6, 7, 8, 9, 10]
    assert sum(word["qpn"] == 2 for word in words) <= 2, "what had left the ring already"
    bench.read(1, 11, 100)
    await bench.step(100)
    assert len(bench.txp.got) == len(words) and bench.popped.count(1) == 2


@cocotb.test()
async def states(dut):
    """A QP that may not send loses its jobs, but not the NAK that says why; init_rq clears the ring."""
    bench = await RespBench(dut, 4).begin()
    bench.create(1, state=QpState.ERR)
    bench.create(2, state=QpState.RTR)
    bench.create(3, mtu_code=1)
    await bench.until(bench.qpc.idle)
    bench.read(1, 5, 100)
    bench.acknowledge(1, 9)
    bench.read(2, 5, 100)
    await bench.step(100)
    assert len(bench.txp.got) == 1 and not bench.acks
    bench.acknowledge(1, 9, NAK)            # no reason to be in ERR
    await bench.step(100)
    assert len(bench.txp.got) == 1 and not bench.acks
    bench.acknowledge(1, 9, 0x62)
    await bench.step(100)
    assert len(bench.txp.got) == 1 and bench.acks == [(1, 9, 0x62)]
    bench.create(1)                         # nothing left over
    for n in range(RING):
        bench.read(3, n * 400, 100000)
    await bench.step(400)
    sent = len(bench.txp.got)
    assert sent > 20
    assert len(bench.jobs[3]) == RING
    bench.create(3, mtu_code=1, init=False, state=QpState.RESET)
    await bench.step(60)
    sent = len(bench.txp.got)
    await bench.step(100)
    assert len(bench.txp.got) == sent
    bench.create(3, mtu_code=1)
    await bench.until(bench.qpc.idle)
    bench.read(3, 77, 600)
    bench.acknowledge(3, 80)
    await bench.run()
    assert len(bench.txp.got) == sent + 3 and bench.acks == [(1, 9, 0x62), (3, 80, 0x1F)]


@cocotb.test()
async def sequence_wrap(dut):
    """More than 2^16 response packets: an ACK of a QP whose last READ is long ago does not wait."""
    bench = await RespBench(dut, 5).begin()
    bench.create(1, mtu_code=1)
    bench.create(2, mtu_code=1)
    await bench.until(bench.qpc.idle)
    bench.read(1, 0, 1)
    await bench.run()
    bench.read(2, 0, 256 * 33000)
    await bench.run(150000)
    bench.acknowledge(1, 3)
    await bench.run(30)
    bench.read(2, 0, 256 * 33000)
    await bench.run(150000)
    bench.acknowledge(1, 4)
    bench.acknowledge(2, 4)
    await bench.run(30)


@cocotb.test()
async def rate(dut):
    """READ responses of one QP and of many: at most 5 cycles per packet; an ACK takes at most 5. READs of one packet of
    QPs of which nothing waits: at most 2.1."""
    bench = await RespBench(dut, 6).begin()
    for qpn in range(16):
        bench.create(qpn, mtu_code=1)
    await bench.until(bench.qpc.idle)
    bench.read(0, 0, 256 * 300)
    await bench.run()
    one = (bench.txp.when[-1] - bench.txp.when[0]) / 299
    for qpn in range(16):
        bench.read(qpn, 0, 256 * 30)
    await bench.run()
    many = (bench.txp.when[-1] - bench.txp.when[300]) / 479
    for n in range(320):
        bench.read(n % 16, 0x100 + n, 64)
    await bench.run()
    alone = (bench.txp.when[-1] - bench.txp.when[-300]) / 299
    for n in range(300):
        bench.acknowledge(n % 16, 1000 + n)
    await bench.run()
    jobs = (bench.rsp.taken[-1] - bench.rsp.taken[-300]) / 299
    print(f"RATE READ responses: one QP {one:.2f}, 16 QPs {many:.2f} cycles per packet, alone {alone:.2f}; "
          f"ACK jobs {jobs:.2f}")
    assert one <= 5 and many <= 5 and alone <= 2.1 and jobs <= 5


def test_resp_sched():
    """All of the above."""
    simulate("hca_resp_sched", __name__)
