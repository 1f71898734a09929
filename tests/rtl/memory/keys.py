"""A key table for the tests of translation: rows, page lists, the ports of one client, and the rules written again."""

from collections import deque

from common import constants, host_bytes, host_line, struct

MPT, DMA_REQ, DMA_RSP = struct("mpt_t"), struct("dma_rd_req_t"), struct("dma_rd_rsp_t")
OK, KEY, PD, BOUNDS, ACCESS, DMA = range(6)
ACCESSES = 0, 1, 2, 3, 4, 6, 7
LOCAL_READ, LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, FLUSH, FLUSH_ALL = ACCESSES
DIRECT = 63
RIGHT = {LOCAL_WRITE: "local_write", REMOTE_WRITE: "remote_write", REMOTE_READ: "remote_read",
         REMOTE_ATOMIC: "remote_atomic", FLUSH: "flush_global", FLUSH_ALL: "flush_global"}


class Lines:
    """Plays hca_dma_rd_port for lines of 64 bytes: one for each request, in order. `late`: cycles until an answer;
    `asked`: chance of ready per cycle; `data(func, line)`: what is there."""

    def __init__(self, bench, index, data, late=(1, 60), asked=1.0, bad=()):
        self.bench, self.index, self.data, self.late, self.asked, self.bad = bench, index, data, late, asked, bad
        self.waiting = deque()   # [due cycle, func, line]
        self.requests = []
        self.ready = self.valid = False
        bench.agents.append(self)

    def drive(self):
        """Offers the oldest answer when its time has come."""
        bench, width = self.bench, DMA_RSP.width
        self.ready = bench.rng.random() < self.asked
        bench.set("line_req_ready_i", self.ready, self.index, 1)
        if not self.valid and self.waiting and self.waiting[0][0] <= bench.cycle:
            self.valid = True
            _, func, line = self.waiting[0]
            err = line in self.bad
            word = DMA_RSP.pack(last=1, err=err, data=0 if err else self.data(func, line))
            bench.set("line_rsp_i", word, self.index * width, width)
        bench.set("line_rsp_valid_i", self.valid, self.index, 1)

    def sample(self):
        """Takes requests, lets go of answers."""
        bench, width = self.bench, DMA_REQ.width
        if self.valid and bench.get("line_rsp_ready_o", self.index, 1):
            self.waiting.popleft()
            self.valid = False
        if self.ready and bench.get("line_req_valid_o", self.index, 1):
            req = DMA_REQ.unpack(bench.get("line_req_o", self.index * width, width))
            assert req["addr"] % 64 == 0 and req["len_bytes"] == 64, f"illegal read {req}"
            self.requests.append((req["func"], req["addr"] // 64))
            self.waiting.append((bench.cycle + bench.rng.randint(*self.late), *self.requests[-1]))


LOG_ROWS = 16
ROW_BITS = (constants()["NumMrs"] - 1).bit_length()
TABLES = {0: 0x7_0000_0000, 1: 0x9_0000_0040}   # by function; the others have none


def list_offset(row):
    """Where a row begins in its page list: a region in the first page."""
    if row.get("page_shift", DIRECT) == DIRECT:
        return 0
    return row.get("list_offset", row["start"] % (1 << row["page_shift"]))


class KeyTable:
    """Key tables of two functions in host memory, page lists, and the ports that read both."""

    def __init__(self, bench, **lines):
        self.bench = bench
        self.rows = {}
        self.keys = Lines(bench, 0, self.row_at, **lines)
        self.lists = Lines(bench, 1, host_line, **lines)
        bench.agents.append(self)

    def drive(self):
        """Where the tables are."""
        place = struct("key_place_t")
        for func, base in TABLES.items():
            self.bench.set("tables_i", place.pack(valid=1, log_size=LOG_ROWS, base=base // 64), func * place.width,
                           place.width)

    def sample(self):
        """Nothing to see."""

    def row_at(self, func, line):
        """The line of a key."""
        index = func << ROW_BITS | line - TABLES[func] // 64
        row = self.rows.get(index, {"valid": 0})
        return MPT.pack(**{**row, "list_offset": list_offset(row)})

    def add(self, index, **fields):
        """Writes a row; returns its key."""
        row = dict(valid=1, tag=0, func=0, pd=0, page_shift=DIRECT, start=0, length=0, iova=0)
        row.update(fields)
        row.setdefault("region", index)
        index |= row["func"] << ROW_BITS
        self.rows[index] = row
        return index << 8 | row["tag"]

    async def forget(self, index, pages=True, whole=False):
        """As after a row has changed; `whole`: of its function, everything."""
        bench, waits = self.bench, 1 | (pages or whole) << 1
        bench.set("forget_i", struct("key_forget_t").pack(all=whole, pages=pages, index=index))
        while waits:
            bench.set("forget_valid_i", waits)
            for _ in range(5000):
                done = bench.get("forget_ready_o") & waits
                await bench.step()
                if done:
                    break
            assert done, "forgetting never ends"
            waits &= ~done
        bench.set("forget_valid_i", 0)
        await bench.step()

    def verdict(self, seg):
        """xl_err of a segment (fields of seg_t)."""
        if seg["bypass"] or seg["len_bytes"] == seg["chk_bytes"] == 0:
            return OK
        index, tag = seg["key"] >> 8, seg["key"] & 0xFF
        func, row = seg["func"], self.rows.get(index)
        if func not in TABLES or index >> ROW_BITS != func or index % (1 << ROW_BITS) >= 1 << LOG_ROWS:
            return KEY
        if TABLES[func] // 64 + index % (1 << ROW_BITS) in self.keys.bad:
            return DMA
        if not row or not row["valid"] or row["tag"] != tag or row["func"] != func:
            return KEY
        if row.get("is_window") and row.get("is_type_2") and row["qpn"] != seg.get("qpn", 0):
            return KEY
        shift, is_null = row["page_shift"], row.get("is_null")
        if not is_null and shift != DIRECT and not 12 <= shift <= 30:
            return KEY
        if row["pd"] != seg["pd"]:
            return PD
        access = seg["access"]
        if access != LOCAL_READ and not (access in RIGHT and row.get(RIGHT[access])):
            return ACCESS
        if is_null and access == REMOTE_ATOMIC:
            return ACCESS
        if access in (LOCAL_READ, LOCAL_WRITE) and row.get("is_window"):
            return ACCESS
        if access == FLUSH_ALL:
            return OK
        need = seg["chk_bytes"] if access == FLUSH else max(seg["chk_bytes"], seg["len_bytes"])
        offset = seg["va"] if row.get("zero_based") else seg["va"] - row["start"]
        if not is_null and (offset < 0 or offset + need > row["length"]):
            return BOUNDS
        return OK

    @staticmethod
    def offset(seg, row):
        """Of a good segment in its region: what a FLUSH reads is its first byte."""
        if seg["access"] in (FLUSH, FLUSH_ALL):
            return 0
        return seg["va"] if row.get("zero_based") else seg["va"] - row["start"]

    def bus(self, seg, step):
        """Bus address of byte `step` of a good segment; none where its part of the page list cannot be read."""
        if seg["bypass"]:
            return (seg["va"] + step) % (1 << 64)
        row = self.rows[seg["key"] >> 8]
        if row.get("is_null"):
            return (row["iova"] + seg["va"] % 4096 + step) % (1 << 64)
        offset = self.offset(seg, row) + step
        shift = row["page_shift"]
        if shift == DIRECT:
            return (row["iova"] + offset) % (1 << 64)
        va = row["start"] + offset
        page = (list_offset(row) + offset) >> shift
        if row["iova"] // 64 + page // 8 in self.lists.bad:
            return None
        entry = int.from_bytes(host_bytes(row["func"], row["iova"] + 8 * page, 8), "little")
        return entry >> shift << shift | va % (1 << shift)

    def discards(self, seg):
        """Whether what is written there is forgotten (V-133)."""
        return int(not seg["bypass"] and (self.rows.get(seg["key"] >> 8) or {}).get("is_null", 0))

    def page_left(self, seg, step):
        """Bytes from byte `step` of a good segment to the end of its page."""
        row = self.rows.get(seg["key"] >> 8)
        if seg["bypass"] or row["page_shift"] == DIRECT or row.get("is_null"):
            return 1 << 64
        offset = self.offset(seg, row) + step
        return (1 << row["page_shift"]) - (row["start"] + offset) % (1 << row["page_shift"])

    def chunks(self, seg, size):
        """[(err, addr, len, seg_last)] that hca_xlate must give. What fails, fails in pieces that end at 4 KiB."""
        err = self.verdict(seg)
        if err or seg["len_bytes"] == 0:
            return [(err, None, 0, 1)]
        found, step, left = [], 0, seg["len_bytes"]
        while left:
            addr = self.bus(seg, step)
            n = min(left, (self.page_left(seg, step) - 1) % 4096 + 1)
            if addr is None:
                found.append((DMA, None, 0, int(n == left)))
            else:
                n = min(n, size - addr % size)
                found.append((OK, addr, n, int(n == left)))
            step, left = step + n, left - n
        return found


def random_table(table, rng, rows=40):
    """Rows of all kinds, those with pages with a list somewhere."""
    for index in range(rows):
        shift = rng.choice([DIRECT, DIRECT, 12, 12, 13, 16, 21, 30, 5])
        start = rng.choice([rng.getrandbits(47), rng.getrandbits(47) & ~0xFFF, (1 << 64) - (1 << 32)])
        length = rng.choice([1, 64, 4096, 10000, 100000, 1 << 31])
        rights = {name: rng.getrandbits(1) for name in list(RIGHT.values()) + ["zero_based", "mw_bind"]}
        table.add(index, valid=rng.random() < 0.95, is_window=rng.random() < 0.2, is_type_2=rng.getrandbits(1),
                  qpn=rng.randrange(2), tag=rng.getrandbits(8),
                  func=rng.randrange(2), pd=rng.randrange(2), page_shift=shift, start=start, length=length,
                  iova=rng.getrandbits(48) & (-1 if shift == DIRECT else ~63), is_null=rng.random() < 0.1, **rights)


def random_seg(table, rng, rows=40, wild=0.15, **fixed):
    """A segment that mostly fits its row; `wild`: chance that one thing is wrong."""
    index = sorted(table.rows)[rng.randrange(rows)]
    row = table.rows[index]
    length = rng.choice([0, 1, rng.randint(1, 64), rng.randint(1, 4096), 4096])
    length = min(length, row["length"])
    offset = rng.choice([0, row["length"] - length, rng.randint(0, row["length"] - length)])
    seg = dict(bypass=rng.random() < 0.05, access=rng.choice(ACCESSES), func=row["func"], pd=row["pd"], qpn=row["qpn"],
               key=index << 8 | row["tag"], len_bytes=length, last=rng.getrandbits(1))
    seg["va"] = offset if row.get("zero_based") else row["start"] + offset
    longest = min(row["length"] - offset, (1 << 32) - 1)
    seg["chk_bytes"] = rng.choice([length, rng.randint(length, longest)])
    if rng.random() < wild:
        seg.update(rng.choice([
            {"func": seg["func"] ^ 1}, {"pd": seg["pd"] ^ 1}, {"key": seg["key"] ^ 1},
            {"qpn": seg["qpn"] ^ 1},
            {"key": seg["key"] | 1 << rng.randrange(8 + LOG_ROWS, 32)}, {"chk_bytes": (1 << 32) - 1},
            {"chk_bytes": min(longest + 1, (1 << 32) - 1)}, {"va": (seg["va"] - 1) % (1 << 64)},
            {"va": (1 << 64) - 1}, {"access": rng.randrange(8)}, {"va": rng.getrandbits(64)}]))
    seg["chk_bytes"] = max(seg["chk_bytes"], seg["len_bytes"])
    seg["va"] %= 1 << 64
    seg.update(fixed)
    return seg
