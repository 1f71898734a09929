"""hca_resp_sched with atomics: their answers stand in line with those of READs, and are kept for who asks again."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import QpState
from test_resp_sched import PSN_MASK, RING, RespBench

JOB, TXP = struct("rsp_job_t"), struct("txp_t")
NAK_OP = 0x63


class AtomicBench(RespBench):
    """The oracle knows the results of the last atomics of each QP."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.kept = {}

    def create(self, qpn, *args, init=True, **options):
        super().create(qpn, *args, init=init, **options)
        if init:
            self.kept[qpn] = deque(maxlen=RING)

    def atomic(self, qpn, psn, value=0, again=0, syndrome=0x1F, msn=1, stores=0):
        """A job of an atomic; its key and length are what it compared with. Every other PSN's that stores: a FLUSH."""
        self.read_qpns.append(qpn)
        cas = psn % 2 if stores else self.rng.getrandbits(1)
        self.rsp.put(JOB.pack(valid=1, read=1, atomic=1, again=again, cas=cas, qpn=qpn, msn=msn,
                              stores=stores, psn=psn & PSN_MASK, va=value, syndrome=syndrome,
                              rkey=self.rng.getrandbits(32), len_bytes=self.rng.getrandbits(32)))

    def on_job(self, word):
        job = JOB.unpack(word)
        if not job["atomic"]:
            super().on_job(word)
            return
        kept = self.kept[job["qpn"]]
        failed = job["syndrome"] == NAK_OP
        if job["cas"] and job["stores"]:     # of a FLUSH nothing is kept: it is answered, however old it is
            pass
        elif job["again"]:
            found = [value for psn, value in kept if psn == job["psn"]]
            if not found:
                return
            job["va"] = found[-1]
        elif not failed:
            kept.append((job["psn"], job["va"]))
        job.update(len_bytes=0, failed=failed)
        super().on_job(JOB.pack(**{name: value for name, value in job.items() if name in JOB.fields}))
        self.jobs[job["qpn"]][-1] = job

    def on_txp(self, word):
        txp = TXP.unpack(word)
        qpn = txp["qpn"]
        job = self.jobs[qpn][0] if self.jobs[qpn] else {}
        if not job.get("atomic"):
            super().on_txp(word)
            return
        self.seq = (self.seq + 1) & 0xFFFF
        want = dict(kind=1, psn=job["psn"], payload_bytes=0, has_payload=0, aeth_msn=job["msn"], resp_seq=self.seq,
                    opcode=Op.RC_ATOMIC_ACKNOWLEDGE, aeth_syndrome=job["syndrome"], swap_add=job["va"])
        if job["stores"]:    # a READ of nothing
            want.update(opcode=Op.RC_READ_RESPONSE_ONLY)
            del want["swap_add"]
        if job["failed"]:
            want.update(opcode=Op.RC_ACKNOWLEDGE, aeth_syndrome=NAK_OP)
            want.pop("swap_add", None)
        assert {name: txp[name] for name in want} == want
        self.unsent.append((self.seq, qpn, txp["psn"]))
        self.jobs[qpn].popleft()


@cocotb.test()
@cocotb.parametrize(rates=[(1.0, 1.0), (0.5, 0.5), (1.0, 0.05), (0.3, 1.0)])
async def random_jobs(dut, rates):
    """READs, atomics, acknowledges; atomics that come again when nothing waits, the latest ones and those too old."""
    bench = await AtomicBench(dut, 1, *rates).begin()
    psn, done = {}, {}
    for n in range(20):
        bench.create(n * 5, 1 + n % 5)
        psn[n * 5], done[n * 5] = 0xFFFFE0 + n, []
    await bench.until(bench.qpc.idle)
    again = lost = 0
    for _ in range(1500):
        qpn = 5 * min(bench.rng.randrange(20), bench.rng.randrange(20))
        queued = sum(JOB.unpack(word)["qpn"] == qpn for word in bench.rsp.queue)
        choice = bench.rng.random()
        if choice < 0.25 and done[qpn]:
            await bench.until(lambda q=qpn: not bench.jobs[q] and bench.rsp.idle(), 20000, "an empty ring")
            back = bench.rng.choice((bench.rng.randrange(RING), bench.rng.randrange(3 * RING)))
            if back < len(done[qpn]):
                old = done[qpn][-1 - back]
                bench.atomic(qpn, old, again=1, msn=bench.rng.getrandbits(24), stores=old % 3 == 0)
                again, lost = again + (back < RING), lost + (back >= RING)
        elif choice < 0.75 and len(bench.jobs[qpn]) + queued < RING:
            if bench.rng.random() < 0.8:
                bench.atomic(qpn, psn[qpn], bench.rng.getrandbits(64), msn=bench.rng.getrandbits(24),
                             stores=psn[qpn] % 3 == 0)
                done[qpn].append(psn[qpn])
                psn[qpn] += 1
            else:
                length = bench.rng.choice([0, 1, bench.mtu[qpn] + 1])
                bench.read(qpn, psn[qpn], length, bench.rng.getrandbits(24))
                psn[qpn] += max(1, -(-length // bench.mtu[qpn]))
        elif choice > 0.9:
            bench.acknowledge(qpn, psn[qpn])
            psn[qpn] += 1
        await bench.step(bench.rng.choice([0, 0, 1, 8]))
    await bench.run()
    assert again > 50 and lost > 10
    assert bench.wait_max <= 13, f"rsp waited {bench.wait_max} cycles"
    bench.check_pops()


@cocotb.test()
async def all_that_may_be_outstanding(dut):
    """REL-19: as many atomics as the ring has, asked for again and again, from any of them on: every answer is the one
    that it was. What a READ in between takes of the ring takes none of them away."""
    bench = await AtomicBench(dut, 2).begin()
    bench.create(9)
    await bench.until(bench.qpc.idle)
    bench.atomic(9, 0xFFFFF0, 1)
    for n in range(RING - 1):
        bench.atomic(9, 0xFFFFF1 + n, 1000 + n)
        await bench.step(20)
    await bench.run()
    for start in (1, 0, 5, 1, 14, 0):
        for n in range(start, RING):
            bench.read(9, 0xFFFFF1 + n - 1, 8)
            await bench.step(20)
            bench.atomic(9, 0xFFFFF0 + n, again=1)
            await bench.step(20)
        await bench.run()
    assert len(bench.txp.got) == RING + 2 * sum(RING - start for start in (1, 0, 5, 1, 14, 0))
    bench.atomic(9, 0, 77)
    bench.atomic(9, 0xFFFFF0, again=1)     # the oldest has made room
    bench.atomic(9, 0xFFFFEF, again=1)     # never was
    await bench.run()
    bench.check_pops()
    before = len(bench.txp.got)
    bench.create(9)                        # another life: nothing is left of the last one
    await bench.until(bench.qpc.idle)
    for psn in (0xFFFFEF, 0, *range(0xFFFFF1, 0xFFFFF1 + RING)):
        bench.atomic(9, psn, again=1)
    await bench.run()
    assert len(bench.txp.got) == before


@cocotb.test()
async def the_peer_goes_back(dut):
    """REL-19: an atomic that is asked for again while its answer waits changes nothing, nor does one that is too old;
    one that was answered comes in front of what waits."""
    bench = await AtomicBench(dut, 3).begin()
    bench.create(1)
    await bench.until(bench.qpc.idle)
    for n in range(RING + 4):
        bench.atomic(1, 10 + n, n)
        await bench.step(30)
    bench.txp.rate = 0.0
    await bench.step(5)
    for n in range(6):
        bench.atomic(1, 100 + n, 50 + n)
    await bench.step(60)
    bench.atomic(1, 10, again=1)
    await bench.step(60)
    bench.txp.on_word = None
    bench.atomic(1, 103, again=1)
    await bench.step(60)
    seen = len(bench.txp.got)
    bench.txp.rate = 1.0
    await bench.step(100)
    psns = [TXP.unpack(word)["psn"] for word in bench.txp.got[seen:]]
    assert psns == [100, 101, 102, 103, 104, 105]
    assert [TXP.unpack(word)["swap_add"] for word in bench.txp.got[seen:]] == list(range(50, 56))
    bench.txp.rate = 0.0
    for n in range(6, 12):
        bench.atomic(1, 100 + n, 50 + n)
    await bench.step(60)
    bench.atomic(1, 102, again=1)
    bench.atomic(1, 103, again=1)
    await bench.step(60)
    seen = len(bench.txp.got)
    bench.txp.rate = 1.0
    await bench.step(100)
    words = [TXP.unpack(word) for word in bench.txp.got[seen:]]
    psns = [word["psn"] for word in words]
    turn = psns.index(102)
    assert turn <= 3 and psns == [*range(106, 106 + turn), 102, 103, *range(106 + turn, 112)], psns
    assert all(word["swap_add"] == word["psn"] - 50 for word in words)
    bench.check_pops()


@cocotb.test()
async def memory_that_cannot_be_read(dut):
    """REL-13, REL-16: a NAK in the place of the answer, in line; it is not kept."""
    bench = await AtomicBench(dut, 4).begin()
    bench.create(3, mtu_code=1)
    bench.create(4, state=QpState.ERR)
    await bench.until(bench.qpc.idle)
    bench.read(3, 5, 600)
    bench.atomic(3, 8, syndrome=NAK_OP)
    bench.atomic(3, 9, 4)
    bench.atomic(4, 9, 4)
    await bench.step(200)
    bench.atomic(3, 8, again=1)
    bench.jobs[4].clear()
    await bench.run()
    assert [TXP.unpack(word)["opcode"] for word in bench.txp.got] == [0x0D, 0x0E, 0x0F, 0x11, 0x12]


@cocotb.test()
async def rate(dut):
    """Five cycles each, job and answer."""
    bench = await AtomicBench(dut, 5).begin()
    for qpn in range(16):
        bench.create(qpn)
    await bench.until(bench.qpc.idle)
    for n in range(320):
        bench.atomic(n % 16, n // 16, n)
    await bench.run()
    cycles = (bench.txp.when[-1] - bench.txp.when[0]) / 319
    print(f"RATE atomics: {cycles:.2f} cycles each")
    assert cycles <= 5.1


def test_resp_atomics():
    """All of the above."""
    simulate("hca_resp_sched", __name__)
