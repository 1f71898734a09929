"""Bench of hca_rx_ctrl: packets and messages in, items, fetches, acknowledge updates and events out."""

from collections import Counter as Counts

from common import Bench, Sink, Source, struct
from hca_abi import BthOpcode as Op
from hca_abi import WQE_INDEX_BITS, HwEventKind, QpState, WcOpcode, WrOpcode

PSN_MASK, WQE_MASK = (1 << 24) - 1, (1 << WQE_INDEX_BITS) - 1
FULL_PKEY = 0xFFFF
LINE_BITS = 10
KIND_NONE, KIND_WRITE, KIND_SEND, KIND_READ_RESP, KIND_READ_REQ, KIND_ATOMIC, KIND_ATOMIC_RESP = range(7)
MSG_SQ_DRAIN, MSG_FLUSH_SQ, MSG_FLUSH_RQ, MSG_SQ_ERROR, MSG_RQ_ERROR, MSG_REQ_ERROR = range(6)
MSG_SOURCES = ("gather", "requester", "exec", "doorbell", "mgmt", "mw")
RNR_CYCLES_PER_US = 250


class Qp:
    """Context of a QP, and the peer's view of its PSNs."""

    def __init__(self, qpn, **fields):
        self.qpn = qpn
        self.fields = dict(state=QpState.RTS, service=0, func=qpn & 3, pd=0x100 + qpn, pkey_index=0, path_mtu=1,
                           remote_write=1, remote_read=1, remote_atomic=1, flush_global=1,
                           dest_qpn=0x55, sq_base=(qpn + 1) << 32, sq_log_size=6,
                           rq_base=(qpn + 1) << 40, rq_log_size=6, send_cqn=qpn + 1, recv_cqn=qpn + 2,
                           timeout=0, retry_cnt=7, rnr_retry=7, min_rnr_timer=12, max_dest_rd_atomic=4,
                           sq_psn=0x100, rq_psn=0x200, dlid=0x300 + qpn, sgid=0x5A << 120 | qpn,
                           dgid=0xA5 << 120 | qpn)
        self.fields.update(fields)
        self.port = max(self.fields.get("port", 0), 1) - 1
        self.mtu = 128 << self.fields["path_mtu"]

    def write(self, init_sq=0, init_rq=0, **changes):
        """Context write word."""
        self.fields.update(changes)
        qpc = struct("qpc_t").pack(**self.fields)
        return struct("qpc_wr_t").pack(init_sq=init_sq, init_rq=init_rq, qpn=self.qpn, qpc=qpc)


class Counter:
    """Drives now_i; `jump` moves the clock as a simulator that skips idle time does."""

    def __init__(self, bench):
        self.bench, self.now = bench, 1000
        bench.agents.append(self)

    def drive(self):
        """One cycle on."""
        self.now += 1
        self.bench.set("now_i", self.now)

    def sample(self):
        """Nothing to see."""


class Popped:
    """Drives the strobe of finished READ jobs."""

    def __init__(self, bench):
        self.bench, self.queue = bench, []
        bench.agents.append(self)

    def drive(self):
        """One strobe per cycle, back to back."""
        self.bench.set("rsp_popped_i", bool(self.queue))
        if self.queue:
            self.bench.set("rsp_popped_qpn_i", self.queue.pop(0))

    def sample(self):
        """Nothing to see."""


class Left:
    """Says of each packet of the requester that it has left; `held` keeps them, but `let_go` of them."""

    def __init__(self, bench):
        self.bench, self.held, self.waiting, self.let_go = bench, False, 0, 0
        bench.agents.append(self)

    def drive(self):
        """One strobe per cycle."""
        going = self.waiting > 0 and (not self.held or self.let_go > 0)
        self.let_go -= going and self.held
        self.waiting -= going
        self.bench.set("left_i", going)

    def sample(self):
        """A packet more is on its way."""
        self.waiting += self.bench.get("omt_valid_i") and self.bench.get("omt_ready_o")


class Strobes:
    """Counts what the DUT reports, by kind and port."""

    def __init__(self, bench):
        self.bench, self.count = bench, Counts()
        bench.agents.append(self)

    def drive(self):
        """Nothing to do."""

    def sample(self):
        """Looks at all strobes."""
        word = struct("rx_strobes_t").unpack(self.bench.get("strobes_o"))
        port, _ = word.pop("port"), word.pop("qpn")
        self.count.update((kind, port) for kind, on in word.items() if on)


class Env:
    """The DUT with all its agents."""

    def __init__(self, dut, seed=1, rate=1.0):
        self.bench = bench = Bench(dut, seed)
        self.rng = bench.rng
        self.time = Counter(bench)
        self.popped = Popped(bench)
        self.strobes = Strobes(bench)
        self.rxd = Source(bench, "rxd", rate=rate)
        self.qpc = Source(bench, "qpc_wr")
        self.sq_db, self.rq_db = Source(bench, "sq_db"), Source(bench, "rq_db")
        self.omt, self.left = Source(bench, "omt"), Left(bench)
        self.msgs = {name: Source(bench, f"msg_{name}") for name in MSG_SOURCES}
        self.rxw = Sink(bench, "rxw", rate=rate)
        self.list = Sink(bench, "list_req", rate=rate)
        self.upd = Sink(bench, "ack_upd", rate=rate)
        self.ev = Sink(bench, "ev", rate=rate)
        self.marks = dict.fromkeys(("rxw", "list", "upd", "ev"), 0)

    async def start(self, *qps):
        """Reset and the given QPs, through RESET and both initialisations."""
        await self.bench.start()
        table = sum(key << (16 * index) for index, key in enumerate((FULL_PKEY, 0x0001, 0x8001, 0x0000)))
        self.bench.set("pkey_tbl_i", table | table << 512)   # both ports
        self.ring()
        for qp in qps:
            state = qp.fields["state"]
            await self.context(qp, state=QpState.RESET)
            await self.context(qp, init_sq=1, init_rq=1, state=state)
        return self

    def ring(self, empty=1, epoch=0, mark=0):
        """What timers are told of every ring."""
        self.bench.set("lane_age_i", struct("ring_age_t").pack(empty=empty, epoch=epoch, mark=mark))

    async def context(self, qp, **changes):
        """Writes a context and waits until it is taken."""
        self.qpc.put(qp.write(**changes))
        await self.bench.until(self.qpc.idle, what="context write")

    async def doorbell(self, qp, sq=None, rq=None):
        """Moves producer indices."""
        for source, pi, is_sq in ((self.sq_db, sq, 1), (self.rq_db, rq, 0)):
            if pi is not None:
                source.put(struct("qp_db_t").pack(sq=is_sq, qpn=qp.qpn, pi=pi & WQE_MASK))
                await self.bench.until(source.idle, what="doorbell")

    def packet(self, qp, opcode, psn, size=0, **fields):
        """An rxd word."""
        values = dict(kind=0, smp=0, marked=0, masked=0, opcode=opcode, psn=psn & PSN_MASK, payload_bytes=size,
                      dest_qpn=qp.qpn, pkey=FULL_PKEY,
                      slid=qp.fields["dlid"], sgid=qp.fields["dgid"], dgid=qp.fields["sgid"], port=qp.port,
                      buf_beat=self.rng.randrange(1024), buf_beats=1 + (size + 90) // 64, payload_off=70)
        values.update(fields)
        return struct("rxd_t").random(self.rng, **values)

    async def send(self, *words):
        """Packets in; returns what came of them."""
        self.rxd.put(*words)
        await self.bench.until(self.rxd.idle, what="packets")
        return await self.settle()

    async def message(self, source, kind, qp, index=0, status=0, syndrome=0):
        """A message in; returns what came of it."""
        self.msgs[source].put(struct("pipe_msg_t").pack(kind=kind, qpn=qp.qpn, wqe_index=index & WQE_MASK,
                                                        status=status, syndrome=syndrome))
        await self.bench.until(self.msgs[source].idle, what="message")
        return await self.settle()

    async def emit(self, qp, index, opcode, last_psn, length=0, signaled=1, next_psn=None):
        """The requester emits a WQE, or what is before next_psn of it."""
        next_psn = last_psn + 1 if next_psn is None else next_psn
        self.omt.put(struct("omt_wr_t").pack(qpn=qp.qpn, wqe_index=index & WQE_MASK, opcode=opcode, signaled=signaled,
                                             last_psn=last_psn & PSN_MASK, next_psn=next_psn & PSN_MASK,
                                             len_bytes=length))
        await self.bench.until(self.omt.idle, what="omt")
        await self.bench.step(3)

    async def settle(self, cycles=40):
        """Waits until nothing comes out for a while; returns the news by stream."""
        quiet = 0
        while quiet < cycles:
            before = sum(len(sink.got) for sink in (self.rxw, self.list, self.upd, self.ev))
            await self.bench.step()
            after = sum(len(sink.got) for sink in (self.rxw, self.list, self.upd, self.ev))
            quiet = quiet + 1 if before == after else 0
        return self.news()

    def news(self):
        """What came out since the last call, unpacked."""
        out = News()
        for name in self.marks:
            sink = getattr(self, name)
            fresh = sink.got[self.marks[name]:]
            self.marks[name] = len(sink.got)
            unpack = self.item_of if name == "rxw" else getattr(self, f"_{name}")
            setattr(out, name, [unpack(word) for word in fresh])
        return out

    @staticmethod
    def item_of(word):
        """An item with its answer and its completion, unpacked."""
        item = struct("rxw_t").unpack(word)
        item["rsp"] = struct("rsp_job_t").unpack(item["rsp"])
        cqe_job = struct("cqe_job_t").unpack(item["cqe"])
        item["masks"] = cqe_job["wc"]   # of an atomic, in the place of its completion
        item["cqe"] = {**struct("wc_t").unpack(cqe_job.pop("wc")), **cqe_job}
        return item

    @staticmethod
    def _list(word):
        return struct("dma_rd_req_t").unpack(word)

    @staticmethod
    def _upd(word):
        return struct("ack_upd_t").unpack(word)

    @staticmethod
    def _ev(word):
        event = struct("hw_ev_t").unpack(word)
        cause = event.pop("cause")
        # The event names the whole QPN: the line here, its generation beside it.
        line, gen = event["id"] & (1 << LINE_BITS) - 1, event["id"] >> LINE_BITS
        return dict(kind=HwEventKind(event["kind"]), func=event["func"], id=line, gen=gen, status=cause & 0xFF,
                    syndrome=cause >> 8 & 0xFF, who=cause >> 16)


class News:
    """What came out: lists of dicts."""

    rxw = list = upd = ev = ()

    def item(self):
        """The only item."""
        assert len(self.rxw) == 1, f"{len(self.rxw)} items"
        return self.rxw[0]

    def dropped(self):
        """One packet came in and was dropped without a word."""
        item = self.item()
        assert item["frees"] and item["kind"] == KIND_NONE
        assert not item["rsp"]["valid"] and not item["cqe"]["valid"]
        return not self.ev and not self.upd

    def answer(self):
        """(syndrome, psn) of the only item's answer."""
        rsp = self.item()["rsp"]
        assert rsp["valid"] and not rsp["read"]
        return rsp["syndrome"], rsp["psn"]

    def cqes(self):
        """(wqe_index, status) of all completions, in order."""
        return [(item["cqe"]["wqe_index"], item["cqe"]["status"]) for item in self.rxw if item["cqe"]["valid"]]

    def cqes_of(self, qp):
        """wqe_index of all completions of a QP by work queue, in order."""
        found = {"sq": [], "rq": []}
        for item in self.rxw:
            cqe = item["cqe"]
            if cqe["valid"] and item["qpn"] == qp.qpn:
                found["rq" if cqe["opcode"] == WcOpcode.RECV else "sq"].append(cqe["wqe_index"])
        return found


def write_ops(size, mtu, imm=False):
    """BTH opcodes of a WRITE with their payload sizes."""
    return _ops(size, mtu, (Op.RC_WRITE_FIRST, Op.RC_WRITE_MIDDLE, Op.RC_WRITE_LAST_IMM if imm else Op.RC_WRITE_LAST,
                            Op.RC_WRITE_ONLY_IMM if imm else Op.RC_WRITE_ONLY))


def send_ops(size, mtu, imm=False):
    """BTH opcodes of a SEND with their payload sizes."""
    return _ops(size, mtu, (Op.RC_SEND_FIRST, Op.RC_SEND_MIDDLE, Op.RC_SEND_LAST_IMM if imm else Op.RC_SEND_LAST,
                            Op.RC_SEND_ONLY_IMM if imm else Op.RC_SEND_ONLY))


def read_ops(size, mtu):
    """BTH opcodes of READ responses with their payload sizes."""
    return _ops(size, mtu, (Op.RC_READ_RESPONSE_FIRST, Op.RC_READ_RESPONSE_MIDDLE, Op.RC_READ_RESPONSE_LAST,
                            Op.RC_READ_RESPONSE_ONLY))


def ack(env, qp, psn, syndrome=0x1F):
    """An acknowledge packet."""
    return env.packet(qp, Op.RC_ACKNOWLEDGE, psn, 0, aeth_syndrome=syndrome)


def responses(env, qp, psn, size, start=0):
    """READ responses of `size` bytes, from packet `start` on (the re-requested rest begins anew with FIRST)."""
    count = max(1, -(-size // qp.mtu)) - start
    return [env.packet(qp, op, psn + start + i, length)
            for i, (op, length) in enumerate(read_ops(size - start * qp.mtu, qp.mtu))][:count]


def _ops(size, mtu, ops):
    count = max(1, -(-size // mtu))
    if count == 1:
        return [(ops[3], size)]
    middle = [(ops[1], mtu)] * (count - 2)
    return [(ops[0], mtu), *middle, (ops[2], size - mtu * (count - 1))]


WRITE_CODES = (WrOpcode.RDMA_WRITE, WrOpcode.RDMA_WRITE_WITH_IMM)


async def sending(dut, *wqes, **fields):
    """One QP that has emitted WQEs (opcode, length[, signaled]); returns their first PSNs too."""
    qp = Qp(5, **fields)
    env = await Env(dut).start(qp)
    await env.doorbell(qp, sq=len(wqes))
    psn, firsts = qp.fields["sq_psn"], []
    for index, (opcode, length, *signaled) in enumerate(wqes):
        firsts.append(psn & PSN_MASK)
        psn += max(1, -(-length // qp.mtu))
        await env.emit(qp, index, opcode, psn - 1, length, signaled[0] if signaled else 1)
    return env, qp, firsts


def status_of(out):
    """The only error: (wqe_index, status), and its event."""
    (cqe,), (event,) = out.cqes(), out.ev
    assert event["kind"] == HwEventKind.QP_ERROR and event["status"] == cqe[1]
    assert out.upd[-1]["halt"] and not out.upd[-1]["rewind"]
    return cqe
