"""Bench of hca_rx_exec: a receive buffer, a translation stand-in, WQE fetches, and an oracle that says which bytes
are written in which order and which end actions follow."""

from collections import deque

from common import Bench, Sink, Source, struct
from hca_abi import VENDOR_ERR_UNUSED, QpState, WcOpcode, WcStatus, WrOpcode

NONE, WRITE, SEND, READ_RESP, READ_REQ, ATOMIC, ATOMIC_RESP = range(7)
RESPONSES = READ_RESP, ATOMIC_RESP
SQ_ERROR, RQ_ERROR, REQ_ERROR = 3, 4, 5
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 3
BARE, IPV4, IPV6, GRH = range(1, 5)   # datagrams by what is before their transport headers
# Of it, (place in the packet, bytes) that go right before the payload, of whose list the first 40 bytes are free.
HEADERS = {0: (0, 0), BARE: (0, 0), IPV4: (0, 20), IPV6: (0, 40), GRH: (8, 40)}
BUF_BEATS, PARK_BEATS, PARK_SLOTS = 1024, 512, 128   # packets that have waited lie behind the others
XL_KEY = 1


class Buffer:
    """The receive buffer: synchronous reads, data held until the next one."""

    def __init__(self, bench):
        self.bench = bench
        self.beats = [bench.rng.getrandbits(512) for _ in range(BUF_BEATS + PARK_BEATS)]
        bench.agents.append(self)

    def drive(self):
        """Nothing: the data changes in sample."""

    def sample(self):
        """Reads."""
        if self.bench.get("buf_re_o"):
            addr = self.bench.get("buf_raddr_o")
            self.bench.set("buf_rdata_i", self.beat(addr >= BUF_BEATS, addr))

    def beat(self, parks, at):
        """One beat, as hca_rx_buf finds it."""
        return self.beats[BUF_BEATS + at % PARK_BEATS if parks else at % BUF_BEATS]

    def bytes(self, parks, beat, offset, count):
        """Payload bytes."""
        beats = -(-(offset + count) // 64)
        data = b"".join(self.beat(parks, beat + i).to_bytes(64, "little") for i in range(beats))
        return data[offset:offset + count]


def bus(key, va):
    """Bus address of a virtual address: pages are scattered."""
    return ((va >> 12) * 5 + (key >> 8) * 977) % (1 << 40) << 12 | va & 0xFFF


class Translate:
    """Stand-in of hca_xlate: chunks end at 4 KiB; keys in `bad` fail, those in `null` discard."""

    def __init__(self, bench, rate, latency):
        self.bench, self.bad, self.null, self.latency = bench, set(), set(), latency
        self.packets = 0   # segments that end a packet
        self.queue = deque()
        self.segs = Sink(bench, "seg", rate=rate, on_word=self.accept)
        self.chunks = Source(bench, "chunk", rate=rate)
        bench.agents.append(self)

    def accept(self, word):
        """A segment."""
        seg = struct("seg_t").unpack(word)
        assert not seg["bypass"] and seg["chk_bytes"] >= seg["len_bytes"]
        self.packets += seg["last"]
        kind = struct("chunk_t")
        if seg["key"] in self.bad:
            out = [dict(err=XL_KEY, seg_last=1, pkt_last=seg["last"])]
        else:
            out, va, left = [], seg["va"], seg["len_bytes"]
            while True:
                size = min(left, 4096 - va % 4096)
                left -= size
                out.append(dict(seg_last=not left, pkt_last=not left and seg["last"], func=seg["func"],
                                addr=bus(seg["key"], va) if size else 0, len_bytes=size, has_bytes=size > 0,
                                end_at=(va % 64 + size - 1) % 4096, discards=seg["key"] in self.null))
                va += size
                if not left:
                    break
        self.queue.append((self.bench.cycle + self.latency, [kind.pack(**chunk) for chunk in out]))

    def drive(self):
        """Hands out chunks after the latency."""
        while self.queue and self.queue[0][0] <= self.bench.cycle:
            self.chunks.put(*self.queue.popleft()[1])

    def sample(self):
        """Nothing to see."""


class Expected:
    """One word that must come out, the payload bytes that must have been written before, and the words of atomics."""

    def __init__(self, word, after, swapped=0):
        self.word, self.after, self.swapped = word, after, swapped


class Env:
    """The DUT with all its agents, and the oracle."""

    def __init__(self, dut, seed=1, rate=1.0, latency=12):
        self.bench = bench = Bench(dut, seed)
        self.rng = bench.rng
        self.buffer = Buffer(bench)
        self.xlate = Translate(bench, rate, latency)
        self.rxw, self.list = Source(bench, "rxw", rate=rate), Source(bench, "list", rate=rate)
        self.qpc = Source(bench, "qpc_wr")
        self.wr = Sink(bench, "wr", rate=rate, on_word=self._beat)
        self.rsp = Sink(bench, "rsp", rate=max(rate, 0.9), on_word=lambda word: self._end("rsp", word))
        self.cqe = Sink(bench, "cqe", rate=rate, on_word=lambda word: self._end("cqe", word))
        self.err = Sink(bench, "err", rate=rate, on_word=lambda word: self._end("err", word))
        self.placed = Sink(bench, "rd_placed", rate=rate, on_word=lambda word: self._end("rd_placed", word))
        self.expected = {name: deque() for name in ("rsp", "cqe", "err", "rd_placed", "free")}
        self.bytes = deque()         # (address, value) in the order of writing
        self.written = self.planned = 0
        self.swapped = self.to_swap = 0   # words written by atomics
        self.bad_sq, self.bad_rq = set(), set()
        self.told = set()            # QPs whose failed slot of an SRQ has had its completion
        self.burst = None
        self.place = [0, 0]          # next receive buffer beat, and that of packets that have waited
        self.packets = 0
        bench.agents.append(self)

    async def start(self, *qpns):
        """Reset, and both queues of the QPs initialised."""
        await self.bench.start()
        for qpn in qpns:
            await self.init(qpn)
        return self

    async def init(self, qpn, sq=1, rq=1):
        """Initialises queues of a QP."""
        qpc = struct("qpc_t").pack(state=QpState.INIT)
        self.qpc.put(struct("qpc_wr_t").pack(qpn=qpn, init_sq=sq, init_rq=rq, qpc=qpc))
        await self.bench.until(self.qpc.idle, what="qpc_wr")
        if sq:
            self.bad_sq.discard(qpn)
        if rq:
            self.bad_rq.discard(qpn)
            self.told.discard(qpn)

    async def drain(self, limit=100000):
        """Everything expected has come; nothing else comes."""
        await self.bench.until(lambda: self.rxw.idle() and not any(self.expected.values()) and not self.bytes,
                               limit, f"rest: { {k: len(v) for k, v in self.expected.items()} }")
        await self.bench.step(60)
        assert self.list.idle() and not self.xlate.queue

    # ---- What comes out --------------------------------------------------------------------------------

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """Buffer releases."""
        if self.bench.get("buf_free_o"):
            self._end("free", (self.bench.get("buf_free_beats_o"), self.bench.get("buf_free_place_o")))

    def _beat(self, word):
        beat = struct("dma_wr_t").unpack(word)
        assert not beat["msix"] and beat["addr"] % 64 == 0 and beat["strb"]
        if self.burst is not None:
            assert beat["addr"] == self.burst + 64 and beat["addr"] % 256, "a burst is consecutive, in one block"
        self.burst = None if beat["last"] else beat["addr"]
        data = beat["data"].to_bytes(64, "little")
        for lane in range(64):
            if beat["strb"] >> lane & 1:
                expected = self.bytes.popleft()
                assert expected == (beat["addr"] + lane, data[lane]), (hex(expected[0]), hex(beat["addr"] + lane))
                self.written += 1

    def _end(self, name, word):
        assert self.expected[name], f"{name} out of nothing"
        expected = self.expected[name].popleft()
        assert word == expected.word, (name, self._show(name, word), self._show(name, expected.word))
        assert self.written >= expected.after, f"{name} before its payload"
        assert self.swapped >= expected.swapped, f"{name} before an atomic in front of it"

    @staticmethod
    def _show(name, word):
        kinds = dict(rsp="rsp_job_t", cqe="cqe_job_t", err="pipe_msg_t")
        return struct(kinds[name]).unpack(word) if name in kinds else word

    # ---- What goes in ----------------------------------------------------------------------------------

    def item(self, kind, qpn, size=0, **fields):
        """Submits one item with random payload place; `sges` [(addr, length, key)] and `head` for its WQE."""
        sges, head, list_err = fields.pop("sges", None), fields.pop("head", {}), fields.pop("list_err", False)
        lead, offset = fields.get("lead", 0), fields.pop("payload_off", None)
        if offset is None:
            lead = fields.setdefault("lead", self.rng.choice((0, 0, 14, 18)))
            offset = self.rng.randrange(128 - lead)
        rsp, cqe = fields.pop("rsp", None), fields.pop("cqe", None)
        masks = fields.pop("masks", None)     # of a compare and swap, in the place of its completion
        frees = fields.pop("frees", 1)
        beats = max(1, -(-(lead + offset + size) // 64)) if frees else 0
        # Each third packet has waited.
        self.packets += frees
        parks = self.packets % 3 == 1
        start = self.place[parks]
        place = struct("rx_place_t").pack(parks=parks, slot=self.packets * 7 % PARK_SLOTS)
        values = dict(kind=kind, qpn=qpn, func=qpn & 3, pd=qpn, frees=frees, buf_beat=start, buf_beats=beats,
                      place=place, payload_off=offset, payload_bytes=size, wqe_index=7, msg_last=1,
                      msg_offset=0, dg=0)
        values.update(fields)
        rsp_values = dict(qpn=qpn, psn=1000 + start, msn=5, syndrome=0x1F)
        rsp_values.update(rsp or {}, valid=rsp is not None)
        values["rsp"] = struct("rsp_job_t").pack(**rsp_values)
        cqe_values = dict(qpn=qpn, wqe_index=values["wqe_index"], opcode=WcOpcode.RECV)
        cqe_values.update(cqe or {})
        cqe_word = struct("cqe_job_t").pack(valid=cqe is not None, cqn=3, wc=struct("wc_t").pack(**cqe_values))
        values["cqe"] = cqe_word if masks is None else masks
        if sges is not None:
            stride = values.setdefault("list_bytes", self._stride(kind, sges))
            values["needs_list"] = 1
            self._fetch(kind, values["wqe_index"], sges, stride, head, list_err)
        self.rxw.put(struct("rxw_t").pack(**values))
        header, header_size = HEADERS[values["dg"]]
        data = self.buffer.bytes(parks, start, lead + header, header_size)
        data += self.buffer.bytes(parks, start, lead + offset, size)
        if kind == ATOMIC_RESP:
            data = rsp_values["va"].to_bytes(8, "little")
        self.place[parks] = (start + beats) % (PARK_BEATS if parks else BUF_BEATS)
        error = self._error(kind, values, sges, bool(head) or list_err)
        self._expect(kind, values, rsp_values, cqe_values, cqe, data, sges, error)

    @staticmethod
    def _stride(kind, sges):
        need = {SEND: 16, ATOMIC_RESP: 48}.get(kind, 32) + 16 * len(sges)
        return next(size for size in (64, 128, 256, 512) if size >= need)

    def _fetch(self, kind, index, sges, stride, head, list_err):
        if kind == SEND:
            fields = dict(num_sge=len(sges), wqe_index=index, **{})
            fields.update(head)
            raw = struct("rq_wqe_ctrl_t").pack(**fields).to_bytes(16, "little")
        else:
            is_atomic = kind == ATOMIC_RESP
            opcode = WrOpcode.ATOMIC_FETCH_AND_ADD if is_atomic else WrOpcode.RDMA_READ
            fields = dict(opcode=opcode, num_sge=len(sges), wqe_index=index)
            fields.update(head)
            raw = struct("sq_wqe_ctrl_t").pack(**fields).to_bytes(32, "little") + bytes(16 * is_atomic)
        for addr, length, key in sges:
            raw += struct("sge_t").pack(addr=addr, length=length, lkey=key).to_bytes(16, "little")
        raw = raw.ljust(stride, b"\x5a")
        beats = [int.from_bytes(raw[i:i + 64], "little") for i in range(0, stride, 64)]
        if list_err:
            self.list.put(struct("dma_rd_rsp_t").pack(last=1, err=1))
            return
        for i, beat in enumerate(beats):
            self.list.put(struct("dma_rd_rsp_t").pack(last=i == len(beats) - 1, data=beat))

    def pieces(self, sges, offset, size):
        """[(addr, length, key)] of `size` bytes from `offset`, and what did not fit."""
        out = []
        for addr, length, key in sges:
            if offset >= length:
                offset -= length
                continue
            take = min(length - offset, size)
            if not size:
                break
            out.append((addr + offset, take, key))
            offset, size = 0, size - take
        return out, size

    @staticmethod
    def _range(values):
        """(start, size) of what is written, in the message: a datagram begins inside its first 40 bytes."""
        before = HEADERS[values["dg"]][1]
        return (40 - before if values["dg"] else values["msg_offset"]), before + values["payload_bytes"]

    def _error(self, kind, values, sges, garbage):
        """None, or (NAK syndrome, status)."""
        if kind in (WRITE, READ_REQ, ATOMIC):
            bad = values["chk_bytes"] and values["rkey"] in self.xlate.bad
            return (0x62, WcStatus.REM_ACCESS_ERR) if bad else None
        if sges is None:
            return None
        if garbage:
            return 0x63, WcStatus.LOC_QP_OP_ERR
        start, size = self._range(values)
        pieces, over = self.pieces(sges, start, size)
        # OP-22: the 40 bytes must be there, even where nothing is written.
        over = over or (values["dg"] and sum(length for _, length, _ in sges) < start + size)
        if over:
            return 0x61, WcStatus.LOC_LEN_ERR
        if any(key in self.xlate.bad for _, _, key in pieces):
            return 0x63, WcStatus.LOC_PROT_ERR
        return None

    def _expect(self, kind, values, rsp, cqe, cqe_given, data, sges, error):
        qpn = values["qpn"]
        is_sq = kind in RESPONSES or (kind == NONE and cqe_given is not None and cqe["opcode"] < 128)
        failed = self.bad_sq if is_sq else self.bad_rq
        if values.get("resumes"):
            failed.discard(qpn)
            self.told.discard(qpn)
        blocked = qpn in failed
        if not blocked and kind not in (READ_REQ, ATOMIC):
            self._bytes(kind, values, data, sges, error)
        after = self.planned
        if values.get("shared"):
            self._expect_slot(kind, values, cqe, cqe_given is not None, error, blocked, after)
        if error and not blocked:
            failed.add(qpn)
            self._expect_failure(kind, values, rsp, error, after)
        elif not blocked:
            if rsp["valid"]:
                self.expected["rsp"].append(Expected(values["rsp"], after, self.to_swap))
            if cqe_given is not None:
                self.expected["cqe"].append(Expected(values["cqe"], after, self.to_swap))
            if kind in RESPONSES and values["msg_last"]:
                self.expected["rd_placed"].append(Expected(qpn, after))
        if values["frees"]:
            self.expected["free"].append(Expected((values["buf_beats"], values["place"]), after, self.to_swap))

    def _expect_slot(self, kind, values, cqe, ends, error, blocked, after):
        """Of an SRQ's slot: a completion of what is held back, or failed."""
        qpn, status, vendor_err = values["qpn"], None, 0
        if error and not blocked and kind == SEND:
            vendor_err, status = error
            if not values["msg_last"]:
                self.told.add(qpn)
        elif ends and (blocked or error):
            status, vendor_err = WcStatus.WR_FLUSH_ERR, VENDOR_ERR_UNUSED if values.get("silent") else 0
            if blocked and qpn in self.told:
                self.told.discard(qpn)
                return
        if status is not None:
            fields = struct("wc_t").pack(**{**cqe, "status": status, "vendor_err": vendor_err})
            word = struct("cqe_job_t").pack(valid=1, cqn=3, wc=fields)
            self.expected["cqe"].append(Expected(word, after))

    def _expect_failure(self, kind, values, rsp, error, after):
        syndrome, status = error
        if values["dg"] or values.get("silent"):
            pass   # nobody waits for an answer
        elif kind not in RESPONSES:
            nak = dict(rsp, valid=1, read=0, syndrome=syndrome, msn=rsp["msn"] - values["msg_last"])
            self.expected["rsp"].append(Expected(struct("rsp_job_t").pack(**nak), after))
        else:
            syndrome = XL_KEY if status == WcStatus.LOC_PROT_ERR else 0
        message = {SEND: RQ_ERROR, READ_RESP: SQ_ERROR, ATOMIC_RESP: SQ_ERROR}.get(kind, REQ_ERROR)
        # READ data behind a gap fails the WQE that was the oldest one (decision 0071).
        oldest = values["wqe_index"] - (values.get("chk_bytes", 0) if kind == READ_RESP else 0)
        word = struct("pipe_msg_t").pack(kind=message, qpn=values["qpn"], wqe_index=oldest,
                                         status=status, syndrome=syndrome)
        self.expected["err"].append(Expected(word, after))

    def _bytes(self, kind, values, data, sges, error):
        if kind == WRITE:
            pieces = [(values["va"], len(data), values["rkey"])] if values["chk_bytes"] else []
        elif sges is not None:
            pieces = self.pieces(sges, *self._range(values))[0]
        else:
            return
        if error and error[1] not in (WcStatus.LOC_PROT_ERR, WcStatus.REM_ACCESS_ERR):
            return  # found before anything moved
        done = 0
        for addr, size, key in pieces:
            if key in self.xlate.bad:
                return
            if key not in self.xlate.null:
                self.bytes.extend((bus(key, addr + i), data[done + i]) for i in range(size))
                self.planned += size
            done += size
