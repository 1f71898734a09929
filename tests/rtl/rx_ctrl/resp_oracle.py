"""The responder's rules (README table 1) once more, in Python: invents packets and says what must come of them."""

from hca_abi import BthOpcode as Op
from rx_bench import KIND_ATOMIC, KIND_NONE, KIND_READ_REQ, KIND_SEND, KIND_WRITE, PSN_MASK, WQE_MASK

SENDS, WRITES = range(0, 6), range(6, 12)
FIRST, MIDDLE = (0, 6), (1, 7)
LAST, ONLY = (2, 3, 8, 9), (4, 5, 10, 11)
IMM = (3, 5, 9, 11)
ATOMICS = (Op.RC_CMP_SWAP, Op.RC_FETCH_ADD, Op.RC_ATOMIC_WRITE, Op.RC_FLUSH)   # the last two give no value back

# READ and atomic jobs counted at which repeated READs are ignored.
RD_JAM = 40


class Oracle:
    """Responder of one QP."""

    def __init__(self, qp, rng):
        self.qp, self.rng = qp, rng
        self.accepted = 0
        self.rd_open = 0
        self.restart(qp.fields["rq_psn"])

    def restart(self, psn):
        """The queue is initialised again."""
        self.qp.fields["rq_psn"] = self.epsn = psn
        self.msn = self.ci = self.pi = 0
        self.busy = None      # opcode class of the message in progress
        self.left = self.done = self.va = self.rkey = 0
        self.nak_sent = self.dead = False
        self.rd_open = 0      # READ jobs waiting, those asked for again counted twice until they are dropped
        self.rd_again = False  # such jobs may be among them: no reason to refuse

    def post(self, count):
        """Posts receive WQEs; returns the producer index."""
        room = 16 - (self.pi - self.ci)
        self.pi += min(count, room)
        return self.pi

    def pop(self, count):
        """READ jobs finish."""
        self.rd_open -= count
        return count

    def invent(self):
        """Mostly what comes next, sometimes anything."""
        rng, mtu = self.rng, self.qp.mtu
        fields = dict(swap_add=rng.getrandbits(64), compare=rng.getrandbits(64))
        fields.update(reth_va=rng.getrandbits(40), reth_rkey=rng.getrandbits(32), reth_bytes=0,
                      ack_req=rng.randint(0, 1), psn=self.epsn, imm=rng.getrandbits(32))
        if self.busy == "send":
            op = rng.choice((1, 2, 3))
            size = mtu if op == 1 else rng.randint(1, mtu)
        elif self.busy == "write":
            op = 7 if self.left > mtu else rng.choice((8, 9))
            size = min(mtu, self.left)
        else:
            op = rng.choice((0, 4, 5, 6, 10, 11, 12, *ATOMICS))
            size = {0: mtu, 6: mtu, 12: 0, 19: 0, 20: 0, 28: 0, 29: 8}.get(op, rng.randint(0, mtu))
            fields["reth_bytes"] = size
            if op == 6:
                fields["reth_bytes"] = mtu + rng.randint(1, 3 * mtu)
            if op == 12:
                fields["reth_bytes"] = rng.choice((0, 1, mtu, mtu + 1, 5 * mtu))
        chance = rng.random()
        if chance < 0.08:
            fields["psn"] = (self.epsn + rng.randint(1, 20)) & PSN_MASK
        elif chance < 0.18:
            fields["psn"] = (self.epsn - rng.choice((rng.randint(1, 20), (1 << 23) + rng.randint(-1, 1)))) & PSN_MASK
        elif chance < 0.19:
            op = rng.randrange(32)
        elif chance < 0.20:
            size = rng.randint(0, mtu + 1)
        if op in range(13, 19):
            op = 12
        if op in (Op.RC_SEND_LAST_INV, Op.RC_SEND_ONLY_INV):
            op = 31     # they are over when hca_mw has answered: test_windows
        if op in (Op.RC_CMP_SWAP, Op.RC_FETCH_ADD):
            fields.update(masked=rng.randint(0, 1), masks=rng.getrandbits(128))
            if size == 0 and fields["masked"] and op == Op.RC_CMP_SWAP:
                size = rng.choice((16,) * 50 + (0, 8))
        if op in ATOMICS:
            fields["reth_bytes"] = 8     # so says the parser, but of an ATOMIC WRITE the peer
            if op == Op.RC_ATOMIC_WRITE and rng.random() < 0.02:
                fields["reth_bytes"] = rng.choice((0, 4, 9, 16, 1 << 31))
            fields["reth_va"] &= ~7 if rng.random() < 0.98 else ~0
        if op == Op.RC_FLUSH:
            fields["reth_bytes"] = rng.choice((0, 1, 5 * mtu, 1 << 31, (1 << 32) - 1))
            feth = rng.choice((0x01, 0x11)) if rng.random() < 0.95 else rng.randrange(64)
            fields["swap_add"] = fields["swap_add"] & ~0x3F | feth
        return dict(opcode=op, size=size, **fields)

    def expect(self, pkt):
        """dict of what must come out."""
        if self.dead:
            return dict(kind=KIND_NONE, rsp=None)
        ahead = (pkt["psn"] - self.epsn) & PSN_MASK
        none_open, self.again = self.rd_open == 0, False
        out = self._by_psn(pkt, ahead)
        self.rd_again = self.again or (self.rd_again and not none_open)
        return out

    def _by_psn(self, pkt, ahead):
        if ahead == 0:
            return self._in_sequence(pkt)
        if ahead >= 1 << 23:
            return self._duplicate(pkt, (1 << 24) - ahead)
        if self.nak_sent:
            return dict(kind=KIND_NONE, rsp=None)
        return self._nak(0x60)

    def _nak(self, syndrome, fatal=False):
        self.nak_sent = True
        self.dead = self.dead or fatal
        return dict(kind=KIND_NONE, rsp=(syndrome, self.epsn, self.msn))

    def _psns(self, pkt):
        return 1 if pkt["opcode"] == Op.RC_FLUSH else max(1, -(-pkt["reth_bytes"] // self.qp.mtu))

    def _duplicate(self, pkt, behind):
        if pkt["opcode"] in (Op.RC_READ_REQUEST, *ATOMICS):
            if (self.rd_open >= RD_JAM or behind < self._psns(pkt) or self._oversized(pkt) or self._misaligned(pkt)
                    or self._persistent(pkt)):
                return dict(kind=KIND_NONE, rsp=None)
            self.rd_open += 1
            self.again = True
            if pkt["opcode"] in ATOMICS:   # never executed again
                return dict(kind=KIND_NONE, rsp=(0x1F, pkt["psn"], self.msn), job=(pkt, 1))
            return dict(kind=KIND_READ_REQ, rsp=(0x1F, pkt["psn"], self.msn))
        if not pkt["ack_req"]:
            return dict(kind=KIND_NONE, rsp=None)
        return dict(kind=KIND_NONE, rsp=(0x1F, (self.epsn - 1) & PSN_MASK, self.msn))

    @staticmethod
    def _oversized(pkt):
        masks = pkt["opcode"] == Op.RC_CMP_SWAP and pkt["masked"]
        return pkt["size"] != (8 if pkt["opcode"] == Op.RC_ATOMIC_WRITE else 16 if masks else 0)

    @staticmethod
    def _persistent(pkt):
        return pkt["opcode"] == Op.RC_FLUSH and pkt["swap_add"] & 2 != 0

    @staticmethod
    def _misaligned(pkt):
        if pkt["opcode"] == Op.RC_FLUSH:     # of no type, or none of the two levels
            return not 1 <= pkt["swap_add"] & 15 <= 3 or pkt["swap_add"] & 0x20 != 0
        return pkt["opcode"] in ATOMICS and (pkt["reth_va"] % 8 != 0 or pkt["reth_bytes"] != 8)

    def _malformed(self, pkt):
        """Opcode order and lengths."""
        op, size, mtu = pkt["opcode"], pkt["size"], self.qp.mtu
        answered = op == 12 or op in ATOMICS
        kind = "send" if op in SENDS else "write" if op in WRITES else "read" if answered else None
        starts = op in FIRST or op in ONLY or answered
        if kind is None or (starts and self.busy) or (not starts and self.busy != kind):
            return True
        if op in FIRST or op in MIDDLE:
            bad = size != mtu
        elif op in LAST:
            bad = not 1 <= size <= mtu
        else:
            bad = (self._oversized(pkt) if answered else size > mtu) or self._misaligned(pkt)
        if kind == "write":
            total = pkt["reth_bytes"] if starts else self.left
            bad = bad or (total <= mtu if op in FIRST or op in MIDDLE else total != size)
        return bad

    def _in_sequence(self, pkt):
        op, size = pkt["opcode"], pkt["size"]
        if self._malformed(pkt):
            return self._nak(0x61, fatal=True)
        if op == 12 or op in ATOMICS:
            return self._read(pkt)
        ends, imm = op in LAST or op in ONLY, op in IMM
        starts = not ends or op in ONLY
        starts = op in FIRST or op in ONLY
        needs = op in SENDS and starts or op in WRITES and ends and imm
        if needs and self.ci == self.pi:
            return self._nak(0x20 | self.qp.fields["min_rnr_timer"])
        if starts:
            self.done, self.left, self.va, self.rkey = 0, pkt["reth_bytes"], pkt["reth_va"], pkt["reth_rkey"]
        out = dict(kind=KIND_SEND if op in SENDS else KIND_WRITE, va=self.va, rkey=self.rkey, offset=self.done,
                   chk=self.left if starts else size, index=self.ci & WQE_MASK, cqe=None, rsp=None)
        self.done += size
        self.left -= size
        self.va += size
        self._advance(1, ends)
        self.busy = None if ends else "send" if op in SENDS else "write"
        if ends and (op in SENDS or imm):
            out["cqe"] = (self.ci & 0xFFFF, 129 if op in WRITES else 128, self.done, pkt["imm"] if imm else 0)
            self.ci += 1
        if pkt["ack_req"]:
            out["rsp"] = (0x1F, pkt["psn"], self.msn)
        return out

    def _read(self, pkt):
        if self._persistent(pkt):
            return self._nak(0x62, fatal=True)
        counts = pkt["opcode"] != Op.RC_FLUSH
        if counts and self.rd_open >= self.qp.fields["max_dest_rd_atomic"] and not self.rd_again:
            return self._nak(0x61, fatal=True)
        if self.rd_open >= RD_JAM:
            return dict(kind=KIND_NONE, rsp=None)
        self.rd_open += 1
        self._advance(self._psns(pkt), True)
        is_atomic = pkt["opcode"] in ATOMICS
        return dict(kind=KIND_ATOMIC if is_atomic else KIND_READ_REQ, rsp=(0x1F, pkt["psn"], self.msn),
                    va=pkt["reth_va"], rkey=pkt["reth_rkey"], chk=pkt["reth_bytes"],
                    job=(pkt, 0) if is_atomic else None)

    def _advance(self, psns, ends):
        self.epsn = (self.epsn + psns) & PSN_MASK
        self.msn = (self.msn + ends) & PSN_MASK
        self.nak_sent = False
        self.accepted += 1

    def compare(self, item, expected):
        """The item is what was expected."""
        assert item["kind"] == expected["kind"] and item["frees"], (item, expected)
        rsp = item["rsp"]
        assert rsp["valid"] == (expected["rsp"] is not None), (item, expected)
        if rsp["valid"]:
            assert (rsp["syndrome"], rsp["psn"], rsp["msn"]) == expected["rsp"], (rsp, expected)
            job = expected.get("job")
            assert rsp["read"] == (item["kind"] == KIND_READ_REQ or job is not None) and rsp["qpn"] == self.qp.qpn
            assert rsp["atomic"] == (job is not None)
            if job:
                pkt, again = job
                assert (rsp["again"], rsp["cas"], rsp["stores"]) == (
                    again, pkt["opcode"] in (Op.RC_CMP_SWAP, Op.RC_FLUSH),
                    pkt["opcode"] in (Op.RC_ATOMIC_WRITE, Op.RC_FLUSH))
                assert (rsp["va"], rsp["rkey"] << 32 | rsp["len_bytes"]) == (pkt["swap_add"], pkt["compare"])
                assert pkt["opcode"] in (Op.RC_ATOMIC_WRITE, Op.RC_FLUSH) or item["masks"] == pkt["masks"]
        names = dict(va="va", rkey="rkey", chk="chk_bytes")
        if item["kind"] == KIND_SEND:
            names = dict(offset="msg_offset", index="wqe_index")
        for name, field in names.items():
            if name in expected:
                assert item[field] == expected[name], (name, item[field], expected[name])
        cqe = item["cqe"]
        assert cqe["valid"] == (expected.get("cqe") is not None)
        if cqe["valid"]:
            assert (cqe["wqe_index"], cqe["opcode"], cqe["byte_len"], cqe["imm_data"]) == expected["cqe"]
