"""hca_mw: random operations on random rows against the rules written again; the order of read, write, forgetting, fence
and answer; firmware forgetting beside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, constants, simulate, struct
from hca_abi import WcStatus

MPT, OP, INV, MSG = struct("mpt_t"), struct("mw_op_t"), struct("mw_inv_t"), struct("pipe_msg_t")
PLACE, FORGET, REQ, RSP, WR = (struct(f"{name}_t") for name in
                               ("key_place", "key_forget", "dma_rd_req", "dma_rd_rsp", "dma_wr"))
BIND = struct("sq_wqe_bind_t")
MSG_SQ_ERROR, MSG_MW_DONE, MSG_INV_DONE = 3, 9, 10
ROW_BITS = (constants()["NumMrs"] - 1).bit_length()
QP_BITS = (constants()["NumQps"] - 1).bit_length()
DIRECT, NAK_REMOTE_ACCESS = 63, 0x62
TABLES = {0: 0x7_0000_0000, 1: 0x9_0000_0040}   # by function; the others have none
LOG_ROWS, ROWS = 4, 12
REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, ZERO_BASED = 2, 4, 8, 32


def key_of(func, row, tag):
    """A key."""
    return (func << ROW_BITS | row) << 8 | tag


class Card:
    """What is around the block: memory, forgetting, the fence, and a log of what happened."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.rows = {(func, row): self.random_row(func, row) for func in TABLES for row in range(1, ROWS)}
        self.log = []
        self.waiting = []
        self.bad = set()         # lines that cannot be read
        self.fence = 0
        self.rsp_valid = False
        self.op = Source(self.bench, "op", "mw_op_t", rate=0.5)
        self.inv = []
        self.wr = Sink(self.bench, "wr", rate=0.5, on_word=self.written)
        self.msg = Sink(self.bench, "msg", rate=0.5, on_word=lambda word: self.log.append(("msg", MSG.unpack(word))))
        self.fw = Source(self.bench, "fw_forget", "key_forget_t", rate=0.05)
        self.forget = Sink(self.bench, "forget", rate=0.2,
                           on_word=lambda word: self.log.append(("forget", FORGET.unpack(word))))
        self.bench.agents.append(self)

    def random_row(self, func, row):
        """A region (rows up to 5) or a window."""
        rng = self.rng
        common = {"tag": rng.getrandbits(1), "func": func if rng.random() < 0.95 else 3, "pd": rng.getrandbits(1)}
        if row > 5:
            return dict(common, valid=rng.getrandbits(1), is_window=rng.random() < 0.95, is_type_2=rng.getrandbits(1),
                        qpn=rng.choice((1, 2, 1 << QP_BITS | 1)), region=1, remote_read=1)
        shift = rng.choice((DIRECT, 12, 21))
        start = 0x1000_0000 + rng.getrandbits(20)
        return dict(common, valid=rng.random() < 0.9, local_write=rng.getrandbits(1), mw_bind=rng.random() < 0.8,
                    flush_global=rng.getrandbits(1), start=start, length=5000, page_shift=shift,
                    iova=rng.getrandbits(40) << 6, list_offset=0 if shift == DIRECT else start % (1 << shift))

    def written(self, word):
        """A row is written: whole, in place."""
        fields = WR.unpack(word)
        assert fields["strb"] == (1 << 64) - 1 and fields["last"] and not fields["msix"]
        row = (fields["addr"] - TABLES[fields["func"]]) // 64
        self.rows[fields["func"], row] = MPT.unpack(fields["data"] & ((1 << MPT.width) - 1))
        self.log.append(("write", (fields["func"], row)))

    def drive(self):
        """Memory answers in order; the fence takes its time."""
        bench, rng = self.bench, self.rng
        bench.set("req_ready_i", rng.getrandbits(1))
        self.rsp_valid = bool(self.waiting) and self.waiting[0][0] <= bench.cycle
        bench.set("rsp_valid_i", self.rsp_valid)
        if self.rsp_valid:
            _, func, addr = self.waiting[0]
            row = self.rows.get((func, (addr - TABLES[func]) // 64), {})
            bench.set("rsp_i", RSP.pack(last=1, err=addr in self.bad, data=MPT.pack(**row)))
        bench.set("fence_busy_i", self.fence > 0)
        self.fence -= self.fence > 0
        send = bool(self.inv) and rng.random() < 0.2
        bench.set("inv_valid_i", send)
        if send:
            bench.set("inv_i", self.inv.pop(0))

    def sample(self):
        """Requests, and the start of a fence."""
        bench = self.bench
        if self.rsp_valid:
            self.waiting.pop(0)
        if bench.get("req_valid_o") and bench.get("req_ready_i"):
            req = REQ.unpack(bench.get("req_o"))
            assert req["len_bytes"] == 64 and req["addr"] % 64 == 0
            self.log.append(("read", (req["func"], (req["addr"] - TABLES[req["func"]]) // 64)))
            self.waiting.append((bench.cycle + self.rng.randint(1, 20), req["func"], req["addr"]))
        if bench.get("fence_start_o"):
            self.fence = self.rng.randint(1, 30)
            self.log.append(("fence", None))
        if self.fence:
            assert not bench.get("msg_valid_o"), "an answer before its fence is over"

    async def start(self):
        """Reset, and where the tables are."""
        await self.bench.start()
        for func, base in TABLES.items():
            self.bench.set("tables_i", PLACE.pack(valid=1, log_size=LOG_ROWS, base=base // 64), func * PLACE.width,
                           PLACE.width)
        return self


def row_at(card, func, key):
    """The row that a key names, if the function has one."""
    row = key >> 8 & (1 << ROW_BITS) - 1
    if func not in TABLES or key >> 8 + ROW_BITS != func or row >> LOG_ROWS:
        return None
    return row


def verdict(card, op, wqe):
    """(allowed, the row from then on) of an operation, by the rules."""
    row = row_at(card, op["func"], op["key"])
    if row is None:
        return False, None
    old = card.rows.get((op["func"], row), {})
    get = old.get
    if (TABLES[op["func"]] + 64 * row) in card.bad:
        return False, None
    if not get("is_window", 0) or get("func", 0) != op["func"] or get("pd", 0) != op["pd"]:
        return False, None
    if not op["bind_mw"]:
        good = (get("valid", 0) and get("is_type_2", 0) and get("qpn", 0) == op["qpn"]
                and get("tag", 0) == op["key"] % 256)
        return bool(good), dict(old, valid=0)
    if wqe["is_type_2"] != get("is_type_2", 0) or (get("is_type_2", 0) and get("valid", 0)):
        return False, None
    region_row = row_at(card, op["func"], wqe["lkey"])
    if region_row is not None and (TABLES[op["func"]] + 64 * region_row) in card.bad:
        return False, None
    if wqe["length"] == 0:
        return not wqe["is_type_2"], {"valid": 0, "is_window": 1, "tag": op["key"] % 256}
    region = card.rows.get((op["func"], region_row), {}) if region_row is not None else {}
    good = (region.get("valid") and not region.get("is_window") and region["func"] == op["func"]
            and region["pd"] == op["pd"] and region["tag"] == wqe["lkey"] % 256 and region.get("mw_bind")
            and not wqe["access"] & 0b10001
            and (region.get("local_write") or not wqe["access"] & (REMOTE_WRITE | REMOTE_ATOMIC))
            and op["va"] >= region["start"] and op["va"] + wqe["length"] <= region["start"] + region["length"])
    if not good:
        return False, None
    offset = op["va"] - region["start"]
    direct = region["page_shift"] == DIRECT
    return True, {
        "valid": 1, "is_window": 1, "is_type_2": wqe["is_type_2"], "tag": op["key"] % 256, "func": op["func"],
        "pd": op["pd"], "qpn": op["qpn"], "region": region_row, "start": op["va"], "length": wqe["length"],
        "page_shift": region["page_shift"], "iova": region["iova"] + (offset if direct else 0),
        "remote_write": bool(wqe["access"] & REMOTE_WRITE), "remote_read": bool(wqe["access"] & REMOTE_READ),
        "remote_atomic": bool(wqe["access"] & REMOTE_ATOMIC), "zero_based": bool(wqe["access"] & ZERO_BASED),
        "local_write": 0, "mw_bind": 0, "flush_global": 0,
        **({} if direct else {"list_offset": region["list_offset"] + offset})}


def random_op(card):
    """(fields of mw_op_t, of sq_wqe_bind_t): mostly sensible."""
    rng = card.rng
    func = rng.choice((0, 0, 0, 1, 1, 2))
    row, region = rng.randrange(4, ROWS + 1), rng.randrange(0, 7)
    window, target = card.rows.get((func, row), {}), card.rows.get((func, region), {})
    wrong = rng.random() < 0.2
    start = target.get("start", 0)
    op = {"bind_mw": rng.random() < 0.6, "func": func, "pd": window.get("pd", 0) ^ (rng.random() < 0.05),
          "qpn": rng.choice((window.get("qpn", 1), 2)), "wqe_index": rng.getrandbits(16)}
    tag = window.get("tag", 0) if not op["bind_mw"] and not wrong else rng.getrandbits(8)
    op["key"] = key_of(func if rng.random() < 0.97 else 1, row if rng.random() < 0.97 else 99, tag)
    op["va"] = max(start + rng.choice((0, 0, 7, 4990, 5000, -1)), 0)
    wqe = {"length": rng.choice((0, 1, 10, 4993, 5000, 5001, (1 << 64) - 1)),
           "lkey": key_of(func, region, target.get("tag", 0) ^ (rng.random() < 0.05)),
           "access": rng.choice((2, 4, 8, 14, 36, 46, 15, 30)),
           "is_type_2": window.get("is_type_2", 0) ^ (rng.random() < 0.1)}
    return op, wqe


@cocotb.test()
async def random_operations(dut):
    """MEM-13, MEM-14, OP-11, KEY-30: verdict, row, and order of every step."""
    card = await Card(dut, 3).start()
    rng, seen = card.rng, set()
    for _ in range(1500):
        op, wqe = random_op(card)
        remote = not op["bind_mw"] and rng.getrandbits(1)
        card.bad = {TABLES[rng.randrange(2)] + 64 * rng.randrange(ROWS)} if rng.random() < 0.1 else set()
        good, row = verdict(card, op, wqe)
        before = dict(card.rows)
        card.log.clear()
        if remote:
            card.inv.append(INV.pack(func=op["func"], pd=op["pd"], qpn=op["qpn"], key=op["key"]))
        else:
            card.op.put(OP.pack(**op, wqe=BIND.pack(**wqe)))
        await card.bench.until(lambda: card.log and card.log[-1][0] == "msg", what=f"an answer to {op} {wqe}")
        answer, steps = card.log[-1][1], [kind for kind, _ in card.log if kind != "read"]
        seen.add((remote, bool(op["bind_mw"]), good))
        assert answer["qpn"] == op["qpn"] % (1 << QP_BITS)
        if remote:
            assert answer["kind"] == MSG_INV_DONE and steps.pop(0) == "fence"
            assert (answer["status"], answer["syndrome"]) == (
                (0, 0) if good else (WcStatus.REM_ACCESS_ERR, NAK_REMOTE_ACCESS))
        else:
            assert answer["wqe_index"] == op["wqe_index"]
            assert (answer["kind"], answer["status"]) == (
                (MSG_MW_DONE, 0) if good else (MSG_SQ_ERROR, WcStatus.MW_BIND_ERR)), (op, wqe, answer)
        name = (op["func"], row_at(card, op["func"], op["key"]))
        if not good:
            assert steps == ["msg"] and card.rows == before, "a refusal changes nothing"
            continue
        had_users = before[name].get("valid", 0)
        assert steps == ["write", "forget"] + ["fence"] * bool(had_users) + ["msg"]
        forgotten = next(what for kind, what in card.log if kind == "forget")
        assert forgotten == {"all": 0, "pages": 0, "one": 0, "line": 0, "index": op["key"] >> 8}
        for field, value in row.items():
            assert card.rows[name].get(field, 0) == value, (field, op, wqe)
        if rng.random() < 0.3:
            card.rows[name] = card.random_row(*name)
    assert len(seen) == 6, seen


@cocotb.test()
async def in_turn(dut):
    """Every operation is answered, in the order of its kind; strobes for the fence; firmware forgets beside them."""
    card = await Card(dut, 4).start()
    bench = card.bench
    strobes = [0, 0]

    class Count:
        """Counts over_o."""

        def drive(self):
            """Nothing."""

        def sample(self):
            """A strobe each."""
            for bit in range(2):
                strobes[bit] += bench.get("over_o", bit, 1)

    bench.agents.append(Count())
    indices = list(range(60))
    for index in indices:
        op, wqe = random_op(card)
        card.op.put(OP.pack(**dict(op, wqe_index=index), wqe=BIND.pack(**wqe)))
        card.inv.append(INV.pack(func=0, pd=0, qpn=index, key=key_of(0, 8, 0)))
        card.fw.put(FORGET.pack(all=1, pages=1, index=index << ROW_BITS >> 4))
    await bench.until(lambda: sum(kind == "msg" for kind, _ in card.log) == 120 and card.fw.idle(), limit=60000)
    answers = [what for kind, what in card.log if kind == "msg"]
    assert [a["wqe_index"] for a in answers if a["kind"] != MSG_INV_DONE] == indices
    assert [a["qpn"] for a in answers if a["kind"] == MSG_INV_DONE] == indices
    assert strobes == [60, 60]
    assert sum(what["all"] for kind, what in card.log if kind == "forget") == 60


def test_mw():
    simulate("hca_mw", __name__)
