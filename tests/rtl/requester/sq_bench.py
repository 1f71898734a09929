"""Bench of hca_requester: send rings in host memory, and an oracle of the packets each QP may send next.

The oracle keeps a position (WQE, offset) per QP. A packet must be the one at that position, or the first one
after a move: rx_ctrl's rewind, or an acknowledge ahead of the position. Moves are queued when the bench sends
them; the requester may still send packets of its old pass until it has seen them.
"""

from collections import deque
from dataclasses import dataclass, field

from common import Bench, Sink, Source, constants, struct
from hca_abi import PUSH_SLOT_BYTES, PUSH_SLOTS, QpState, Service, WcStatus, WQE_INDEX_BITS, WrOpcode
from sq_streams import AfterContext, Doorbells

READ_BLOCK, PSN_MASK, WQE_MASK = 512, (1 << 24) - 1, (1 << WQE_INDEX_BITS) - 1
LIMITS = constants()
SEND_OPS = (WrOpcode.SEND, WrOpcode.SEND_WITH_IMM)
WRITE_OPS = (WrOpcode.RDMA_WRITE, WrOpcode.RDMA_WRITE_WITH_IMM)
IMM_OPS = (WrOpcode.SEND_WITH_IMM, WrOpcode.RDMA_WRITE_WITH_IMM)
MASKED = {WrOpcode.MASKED_ATOMIC_CMP_AND_SWP: 0x13, WrOpcode.MASKED_ATOMIC_FETCH_AND_ADD: 0x14}
ATOMICS = {WrOpcode.ATOMIC_CMP_AND_SWP: 0x13, WrOpcode.ATOMIC_FETCH_AND_ADD: 0x14, **MASKED}
ATOMIC_WRITE, FLUSH = {WrOpcode.ATOMIC_WRITE: 0x1D}, {WrOpcode.FLUSH: 0x1C}
ANSWERED = (WrOpcode.RDMA_READ, *ATOMICS, *ATOMIC_WRITE, *FLUSH)   # by a response, counted by max_rd_atomic


@dataclass
class Wqe:
    """One send work request. `raw` overrides header fields as written to memory (to make bad WQEs)."""

    opcode: WrOpcode
    sges: list = field(default_factory=list)  # (addr, length, lkey)
    inline: int = None                        # number of inline bytes
    signaled: bool = True
    solicited: bool = False
    fence: bool = False
    imm: int = 0
    remote_addr: int = 0
    rkey: int = 0
    operands: tuple = (0, 0)                  # of an atomic: compare or add, swap; else first: ATOMIC WRITE: its data;
                                              # FLUSH: length, placement type, selectivity level
    raw: dict = field(default_factory=dict)
    error: WcStatus = None                    # status the requester must report
    first_psn: int = None
    remote_srqn: int = 0                      # XRC
    header_bytes = 32                         # entries or inline data follow

    @property
    def length(self):
        """Bytes of the message."""
        return self.inline if self.inline is not None else sum(sge[1] for sge in self.sges)

    def packets(self, mtu):
        """PSNs it takes."""
        return max(1, -(-self.length // mtu))

    def header(self, index):
        """What the WQE says of itself and its message."""
        header = dict(opcode=self.opcode, signaled=self.signaled, solicited=self.solicited, fence=self.fence,
                      inline_data=self.inline is not None, num_sge=len(self.sges), imm_data=self.imm,
                      length=self.length, wqe_index=index & WQE_MASK)
        return {**header, **self.raw}

    def head(self, index):
        """The bytes before entries or inline data."""
        remote = dict(remote_addr=self.remote_addr, rkey=self.rkey, remote_srqn=self.remote_srqn, **self.header(index))
        return struct("sq_wqe_ctrl_t").pack(**remote).to_bytes(32, "little") + self.behind()

    def behind(self):
        """What stands between header and entries."""
        if self.opcode not in (*ATOMICS, *ATOMIC_WRITE, *FLUSH):
            return b""
        first, second = self.operands
        return struct("sq_wqe_atomic_t").pack(compare_add=first, swap=second).to_bytes(16, "little")

    def image(self, index, stride):
        """Bytes in the ring."""
        data = self.head(index)
        for addr, length, lkey in self.sges:
            data += struct("sge_t").pack(addr=addr, length=length, lkey=lkey).to_bytes(16, "little")
        return data.ljust(stride, b"\xa5")[:stride]


class Qp:
    """A QP of the model. Indices count from `start` and never wrap here."""

    def __init__(self, qpn, mtu_code=3, log_size=6, log_stride=0, base=None, psn=0, start=0, **context):
        self.qpn, self.mtu_code, self.log_size, self.log_stride = qpn, mtu_code, log_size, log_stride
        self.mtu = 128 << mtu_code
        self.stride = 64 << log_stride
        self.base = base if base is not None else (qpn + 1) << 32
        self.func = context.get("func", qpn & 3)
        self.context = dict(state=QpState.RTS, qpn=0xABC000 | qpn, pd=qpn + 0x1000, max_rd_atomic=16, sq_sig_all=0,
                            service=0) | context | {"func": self.func}
        self.start, self.sq_psn = start, psn
        self.wqes = {}            # index: Wqe
        self.tail, self.tail_psn = start, psn   # next index to post
        self.states = {((start, 0), False, 0)}  # (next packet, is the first after a rewind, moves seen)
        self.moves = []           # (position, is a rewind): where it has been told to go
        self.una, self.una_index = psn, start   # acknowledged up to here; WQE it was last seen in
        self.una_seen = None      # (una, tail) of that time
        self.reads_done = 0       # READs before that
        self.reads_placed = 0     # READs reported as placed
        self.high = (start, 0)    # position behind the furthest packet ever sent
        self.expected_err = deque()
        self.sent, self.probes = 0, set()  # probes: positions beyond the peer's credits
        self.push_slot = qpn % PUSH_SLOTS
        self.datagrams = self.context["service"] == Service.UD
        self.unacked = self.context["service"] not in (Service.RC, Service.XRC)

    def ring_bytes(self):
        """Size of the send ring."""
        return self.stride << self.log_size

    def psn_at(self, pos):
        """PSN of the packet at a position."""
        index, offset = pos
        first = self.wqes[index].first_psn if index < self.tail else self.tail_psn
        return (first + offset // self.mtu) & PSN_MASK

    def una_wqe(self):
        """Index of the WQE that una belongs to; the tail if everything is acknowledged."""
        if self.una_seen == (self.una, self.tail):
            return self.una_index
        self.una_seen = (self.una, self.tail)
        while self.una_index < self.tail:
            wqe = self.wqes[self.una_index]
            if ((self.una - wqe.first_psn) & PSN_MASK) < wqe.packets(self.mtu):
                break
            self.reads_done += wqe.opcode in ANSWERED
            self.una_index += 1
        return self.una_index

    def moved(self, pos, retx, move):
        """State after a move: a rewind always counts, an acknowledge only ahead of the position."""
        target, rewind = move
        return (target, rewind or retx) if rewind or target > pos else (pos, retx)

    @property
    def pos(self):
        """Position when every move has been seen (of the state furthest ahead)."""
        ends = []
        for pos, retx, used in self.states:
            for move in self.moves[used:]:
                pos, retx = self.moved(pos, retx, move)
            ends.append(pos)
        return max(ends)


def expected_packet(qp, pos, retx):
    """Oracle: (txp fields, segments, next position) of the packet at a position."""
    index, offset = pos
    wqe = qp.wqes[index]
    read = wqe.opcode in ANSWERED
    left = wqe.length - offset
    size = 0 if read else min(left, qp.mtu)
    first, last = offset == 0, read or left <= qp.mtu
    if read:
        opcode = (ATOMICS | ATOMIC_WRITE | FLUSH).get(wqe.opcode, 0x0C)
    else:
        opcode = (4 if first and last else 0 if first else 2 if last else 1) + 6 * (wqe.opcode in WRITE_OPS)
        opcode += last and wqe.opcode in IMM_OPS
    alone = bool(qp.context.get("selective")) and wqe.opcode == WrOpcode.RDMA_WRITE
    opcode = (10 if alone else opcode) + (qp.context["service"] << 5)
    fields = dict(
        kind=0, qpn=qp.qpn, opcode=opcode, psn=qp.psn_at(pos), payload_bytes=size, has_payload=int(size > 0),
        ack_req=int((last or retx or offset // qp.mtu % 16 == 15 or pos in qp.probes) and not qp.unacked),
        wqe_index=index & WQE_MASK, datagram=qp.datagrams, unacked=qp.unacked, masked=wqe.opcode in MASKED,
        solicited=int(last and wqe.solicited and wqe.opcode not in (WrOpcode.RDMA_WRITE, *ANSWERED)))
    fields.update({} if qp.datagrams else {"xrcsrq": wqe.remote_srqn})
    if read or alone or (first and wqe.opcode in WRITE_OPS):
        fields.update(reth_va=(wqe.remote_addr + offset) & (1 << 64) - 1, reth_rkey=wqe.rkey,
                      reth_bytes=left if read else size if alone else wqe.length)
    masks = wqe.opcode == WrOpcode.MASKED_ATOMIC_CMP_AND_SWP
    if masks or wqe.opcode == WrOpcode.ATOMIC_CMP_AND_SWP:
        fields.update(compare=wqe.operands[0], swap_add=wqe.operands[1])
    elif wqe.opcode in FLUSH:
        fields.update(reth_bytes=wqe.operands[0] & 0xFFFFFFFF, swap_add=wqe.operands[0] >> 32 & 0x3F)
    elif wqe.opcode in (*ATOMICS, *ATOMIC_WRITE):
        fields.update(compare=wqe.operands[1] if wqe.opcode in MASKED else 0, swap_add=wqe.operands[0])
    if last and wqe.opcode in IMM_OPS:
        fields["imm"] = wqe.imm
    segments = []
    slot = index & ((1 << qp.log_size) - 1)
    if masks:   # behind its entry, in the second block
        fields.update(payload_bytes=16, has_payload=1)
        segments = [(1, 0, qp.base + slot * qp.stride + 64, 16)]
    elif size and wqe.inline is not None:
        segments = [(1, 0, qp.base + slot * qp.stride + wqe.header_bytes + offset, size)]
    elif size:
        start = 0
        for addr, length, lkey in wqe.sges:
            low, high = max(start, offset), min(start + length, offset + size)
            if low < high:
                segments.append((0, lkey, addr + low - start, high - low))
            start += length
    return fields, segments, (index + 1, 0) if last else (index, offset + size)


class FetchHost:
    """Answers WQE reads in order after a latency, from the rings; checks that nothing else is read."""

    def __init__(self, bench, latency, rate):
        self.bench, self.latency, self.rate = bench, latency, rate
        self.pending = deque()   # [due, [beats]]
        self.requests = 0
        self.blocks = 0
        self.fail = set()        # (qpn, index) whose read fails
        self.offered = False
        bench.agents.append(self)

    def request(self, word):
        """A read of the requester."""
        req = struct("dma_rd_req_t").unpack(word)
        addr, count = req["addr"], req["len_bytes"]
        assert addr % 64 == 0 and count % 64 == 0 and 0 < count <= 512
        assert addr // READ_BLOCK == (addr + count - 1) // READ_BLOCK, f"{addr:#x}+{count} crosses 512 bytes"
        beats, err = [], False
        qp = self.bench.qp_at(req["func"], addr)
        for line in range(addr, addr + count, 64):
            data, bad = self.bench.ring_block(qp, line, self.fail)
            err |= bad
            beats.append([0, err, 0 if err else data])
            if err:
                break
        beats[-1][0] = 1
        self.pending.append([self.bench.cycle + self.bench.rng.randint(*self.latency), beats])
        self.requests += 1
        self.blocks += len(beats)

    def drive(self):
        """Offers the oldest beat when it is due."""
        if not self.offered and self.pending and self.pending[0][0] <= self.bench.cycle \
                and self.bench.rng.random() < self.rate:
            self.offered = True
            last, err, data = self.pending[0][1][0]
            self.bench.set("fetch_rsp_i", struct("dma_rd_rsp_t").pack(last=last, err=err, data=data))
        self.bench.set("fetch_rsp_valid_i", self.offered)

    def sample(self):
        """Beat taken?"""
        if self.offered and self.bench.get("fetch_rsp_ready_o"):
            self.offered = False
            beats = self.pending[0][1]
            beats.pop(0)
            if not beats:
                self.pending.popleft()


class PushPort:
    """Fills push slots, a word per cycle; what is to follow (a doorbell) comes behind the last word."""

    def __init__(self, bench):
        self.bench, self.queue = bench, deque()
        bench.agents.append(self)

    def write(self, func, slot, data, then=None):
        """Fills a slot from its beginning."""
        words = [int.from_bytes(data[at:at + 8], "little") for at in range(0, len(data), 8)]
        for number, word in enumerate(words):
            place = slot * PUSH_SLOT_BYTES // 8 + number
            self.queue.append((struct("push_wr_t").pack(func=func, word=place, data=word), None))
        if then:
            self.queue.append((None, then))

    def drive(self):
        """The next word."""
        word, then = self.queue.popleft() if self.queue else (None, None)
        self.bench.set("push_wr_valid_i", word is not None)
        if word is not None:
            self.bench.set("push_wr_i", word)
        if then:
            then()

    def sample(self):
        """Nothing to see."""


class SqBench(Bench):
    """Clock, streams, host memory and the oracle."""

    def __init__(self, dut, seed, rate=1.0, latency=(20, 150), out_rate=None):
        super().__init__(dut, seed)
        out = rate if out_rate is None else out_rate
        self.qps = {}
        self.qpc = Source(self, "qpc_wr", "qpc_wr_t", rate=rate)
        self.db = Doorbells(self, "sq_db", "qp_db_t", rate=rate)
        self.ack = AfterContext(self, "ack_upd", "ack_upd_t", rate=rate)
        self.placed = AfterContext(self, "rd_placed", rate=rate)
        self.host = FetchHost(self, latency, rate)
        self.push = PushPort(self)
        self.fetch = Sink(self, "fetch_req", rate=rate, on_word=self.host.request)
        self.omt = Sink(self, "omt", rate=out, on_word=self.on_omt)
        self.txp = Sink(self, "txp", rate=out, on_word=self.on_txp)
        self.seg = Sink(self, "seg", rate=out, on_word=self.on_seg)
        self.err = Sink(self, "err", rate=out, on_word=self.on_err)
        self.ack.on_accept = self.on_ack_taken
        self.need_segs = deque()  # packets whose segments have not all come
        self.segs = deque()       # segments whose packet has not come
        self.omts = set()
        self.auto_ack = True
        self.lossy = 0.0
        self.errors = []
        self.sent = 0             # packets
        self.expect_moves = deque()

    async def begin(self):
        """Reset, and the scrubbing of the tables."""
        await self.start()
        self.set("sl_open_i", 0xFFFF)
        self.set("msg_room_i", 1)
        await self.step(LIMITS["NumQps"] + 4)
        return self

    # ---- Rings ------------------------------------------------------------------------------------------
    def qp_at(self, func, addr):
        """The QP whose ring holds addr."""
        for qp in self.qps.values():
            if qp.func == func and qp.base <= addr < qp.base + qp.ring_bytes():
                return qp
        raise AssertionError(f"read outside every ring: function {func} address {addr:#x}")

    def ring_block(self, qp, line, fail):
        """(data, failed) of one 64-byte block; only blocks of posted WQEs may be read."""
        slot, part = divmod(line - qp.base, qp.stride)
        entries = 1 << qp.log_size
        index = qp.tail - 1 - ((qp.tail - 1 - slot) % entries)
        assert index in qp.wqes, f"QP {qp.qpn}: slot {slot} holds no posted WQE"
        image = qp.wqes[index].image(index, qp.stride)
        return int.from_bytes(image[part:part + 64], "little"), (qp.qpn, index) in fail

    # ---- Verbs --------------------------------------------------------------------------------------------
    def create(self, qp, init=True):
        """Writes a QP's context. Its indices begin at qp.start: it has been there before, and has its row again."""
        self.qps[qp.qpn] = qp
        at = qp.start & WQE_MASK
        qpc = struct("qpc_t").pack(
            path_mtu=qp.mtu_code, sq_base=qp.base, sq_log_size=qp.log_size, sq_log_stride=qp.log_stride,
            sq_psn=qp.sq_psn & PSN_MASK, restores=int(init and at != 0), sq_pi=at, una_wqe=at,
            una_psn=qp.sq_psn & PSN_MASK, **qp.context)
        self.qpc.put(struct("qpc_wr_t").pack(init_sq=init, qpn=qp.qpn, qpc=qpc))
        return qp

    def modify(self, qp, **context):
        """Changes the context without touching the send queue."""
        qp.context.update(context)
        self.create(qp, init=False)

    def post(self, qp, *wqes, ring=True, push=False):
        """Posts work requests and rings the doorbell. `push`: the last one rides with it."""
        for wqe in wqes:
            assert qp.tail - qp.una_wqe() < 1 << qp.log_size, "test posts too much"
            wqe.first_psn = qp.tail_psn
            qp.tail_psn = (qp.tail_psn + wqe.packets(qp.mtu)) & PSN_MASK
            qp.wqes[qp.tail] = wqe
            qp.tail += 1
        if push:
            index = qp.tail - 1
            image = qp.wqes[index].image(index, min(qp.stride, PUSH_SLOT_BYTES))
            self.push.write(qp.func, qp.push_slot, image, lambda: self.doorbell(qp, index + 1, qp.push_slot))
        elif ring:
            self.doorbell(qp, qp.tail)

    def doorbell(self, qp, index, push_slot=None):
        """Rings."""
        push = 0 if push_slot is None else struct("push_t").pack(valid=1, slot=push_slot)
        self.db.put(struct("qp_db_t").pack(sq=1, qpn=qp.qpn, pi=index & WQE_MASK, push=push))

    # ---- rx_ctrl ----------------------------------------------------------------------------------------
    def send_ack(self, qp, psn=None, rewind=False, halt=False, again=0, credit=0):
        """Tells the requester that everything before psn is acknowledged. `again`: a rewind for so many packets."""
        if psn is not None:
            qp.una = psn & PSN_MASK
        index = qp.una_wqe()
        first = qp.wqes[index].first_psn if index < qp.tail else qp.tail_psn
        word = struct("ack_upd_t").pack(
            rewind=rewind, halt=halt, again=again, qpn=qp.qpn, una_wqe=index & WQE_MASK, una_first_psn=first,
            una_psn=qp.una, rd_done=qp.reads_done & 0xFFFF, credit=credit)
        offset = ((qp.una - first) & PSN_MASK) * qp.mtu
        self.expect_moves.append((qp, (index, offset), rewind))
        self.ack.put(word)
        self.placed.put(*[qp.qpn] * (qp.reads_done - qp.reads_placed))
        qp.reads_placed = qp.reads_done

    def on_ack_taken(self, _word):
        """The oracle's positions move when the update is accepted, in order."""
        qp, target, rewind = self.expect_moves.popleft()
        qp.moves.append((target, rewind))

    # ---- Outputs ----------------------------------------------------------------------------------------
    def on_omt(self, word):
        """Keeps the records; they must be right and come before the packet."""
        omt = struct("omt_wr_t").unpack(word)
        qp = self.qps[omt["qpn"]]
        index = qp.tail - 1 - ((qp.tail - 1 - omt["wqe_index"]) & WQE_MASK)
        wqe = qp.wqes[index]
        first, next_psn = omt.pop("first"), omt.pop("next_psn")
        want = dict(qpn=qp.qpn, wqe_index=index & WQE_MASK, opcode=wqe.opcode, len_bytes=wqe.length,
                    signaled=int(wqe.signaled or qp.context["sq_sig_all"]),
                    last_psn=(wqe.first_psn + wqe.packets(qp.mtu) - 1) & PSN_MASK)
        assert omt == want, f"omt {omt}, expected {want}"
        assert (next_psn - wqe.first_psn - 1) & PSN_MASK < wqe.packets(qp.mtu)
        self.omts.add((qp.qpn, index, bool(first), next_psn))

    def match(self, qp, txp):
        """(position, segments) of the packet if it is a legal next one. Follows every state the requester can
        be in: each pending move may or may not have been seen."""
        reasons, after, found = [], set(), None
        if len(qp.moves) > 1000:
            low = min(used for _, _, used in qp.states)
            del qp.moves[:low]
            qp.states = {(pos, retx, used - low) for pos, retx, used in qp.states}
        for pos, retx, used in qp.states:
            for n in range(used, len(qp.moves) + 1):
                if n > used:
                    pos, retx = qp.moved(pos, retx, qp.moves[n - 1])
                if pos[0] >= qp.tail:
                    continue
                want, segments, behind = expected_packet(qp, pos, retx)
                diff = {key: (txp[key], value) for key, value in want.items() if txp[key] != value}
                if diff:
                    reasons.append((pos, retx, diff))
                else:
                    while n < len(qp.moves) and not qp.moves[n][1] and qp.moves[n][0] <= behind:
                        n += 1  # an acknowledge behind the position changes nothing
                    after.add((behind, False, n))
                    found = (pos, segments)
        assert found, f"QP {qp.qpn}: illegal packet {txp}: (position, retx, {{field: (got, want)}}) {reasons}"
        qp.states = after
        return found

    def on_txp(self, word):
        """A packet: compare it with the oracle."""
        txp = struct("txp_t").unpack(word)
        qp = self.qps[txp["qpn"]]
        assert qp.context["state"] in (QpState.RTS, QpState.SQD), f"QP {qp.qpn} is not in RTS"
        pos, segments = self.match(qp, txp)
        index, offset = pos
        assert qp.wqes[index].error is None, f"QP {qp.qpn}: bad WQE {index} was sent"
        wqe = qp.wqes[index]
        end = (wqe.first_psn + wqe.packets(qp.mtu) if wqe.opcode in ANSWERED else txp["psn"] + 1) & PSN_MASK
        assert (qp.qpn, index, offset == 0, end) in self.omts, f"QP {qp.qpn}: packet before its omt, WQE {index}"
        assert ((txp["psn"] - qp.una) & PSN_MASK) < LIMITS["WindowPackets"] or \
            ((txp["psn"] - qp.una) & PSN_MASK) >= 1 << 23, "window"
        qp.sent += 1
        self.sent += 1
        if txp["has_payload"]:
            self.need_segs.append((qp, deque(segments)))
            self.check_segs()
        qp.high = max(qp.high, max(behind for behind, _, _ in qp.states))
        if self.auto_ack:
            self.answer(qp, txp)

    def answer(self, qp, txp):
        """The peer: acknowledges what it asks for; forgets packets when the link is lossy."""
        if self.rng.random() < self.lossy:
            if self.rng.random() < 0.5:
                self.send_ack(qp, rewind=True)
            return
        ahead = (self.psn_behind(qp) - qp.una) & PSN_MASK
        if (txp["ack_req"] or qp.unacked) and 0 < ahead < 1 << 23:
            part = ahead if self.lossy == 0 or self.rng.random() < 0.5 else self.rng.randint(1, ahead)
            self.send_ack(qp, qp.una + part, rewind=self.lossy > 0 and self.rng.random() < 0.2)

    def psn_behind(self, qp):
        """PSN behind the furthest packet ever sent."""
        return qp.psn_at(qp.high)

    def on_seg(self, word):
        """Segments come in the order of the packets; the streams are independent otherwise."""
        self.segs.append(struct("seg_t").unpack(word))
        self.check_segs()

    def check_segs(self):
        """Compares segments whose packet is known."""
        while self.need_segs and self.segs:
            seg = self.segs.popleft()
            qp, segments = self.need_segs[0]
            bypass, key, va, length = segments.popleft()
            want = dict(bypass=bypass, access=0, func=qp.func, pd=qp.context["pd"], qpn=qp.context["qpn"], key=key,
                        va=va, len_bytes=length, chk_bytes=length, last=int(not segments))
            assert seg == want, f"segment {seg}, expected {want}"
            if not segments:
                self.need_segs.popleft()

    def on_err(self, word):
        """Reports of bad WQEs."""
        msg = struct("pipe_msg_t").unpack(word)
        assert msg["kind"] == 3
        self.errors.append((msg["qpn"], msg["wqe_index"], msg["status"]))

    def done(self):
        """Every posted WQE has been sent, and every segment has followed."""
        return not self.need_segs and self.db.idle() and not self.push.queue and self.ack.idle() and all(
            qp.pos[0] >= qp.tail for qp in self.qps.values())

    def complete(self):
        """Everything is acknowledged and nothing is under way."""
        return not self.need_segs and not self.segs and self.ack.idle() and self.db.idle() \
            and not self.push.queue \
            and all(qp.una == qp.tail_psn for qp in self.qps.values())
