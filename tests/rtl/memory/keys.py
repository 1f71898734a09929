"""A key table for the tests of translation: rows, page lists, the ports of one client, and the rules written again."""

from collections import deque

from common import constants, host_bytes, host_line, struct

MPT, DMA_REQ, DMA_RSP = struct("mpt_t"), struct("dma_rd_req_t"), struct("dma_rd_rsp_t")
OK, KEY, PD, BOUNDS, ACCESS, DMA = range(6)
LOCAL_READ, LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = range(5)
DIRECT = 63
RIGHT = {LOCAL_WRITE: "local_write", REMOTE_WRITE: "remote_write", REMOTE_READ: "remote_read",
         REMOTE_ATOMIC: "remote_atomic"}


class PageLists:
    """Plays hca_dma_rd_port for the page lists: one line for each request, in order. `late`: cycles until an answer; `asked`:
    chance of ready per cycle."""

    def __init__(self, bench, late=(1, 60), asked=1.0, bad=()):
        self.bench, self.late, self.asked, self.bad = bench, late, asked, bad
        self.waiting = deque()   # [due cycle, func, line]
        self.requests = []
        self.ready = self.valid = False
        bench.agents.append(self)

    def drive(self):
        """Offers the oldest answer when its time has come."""
        bench = self.bench
        self.ready = bench.rng.random() < self.asked
        bench.set("list_req_ready_i", self.ready)
        if not self.valid and self.waiting and self.waiting[0][0] <= bench.cycle:
            self.valid = True
            _, func, line = self.waiting[0]
            err = line in self.bad
            bench.set("list_rsp_i", DMA_RSP.pack(last=1, err=err, data=0 if err else host_line(func, line)))
        bench.set("list_rsp_valid_i", self.valid)

    def sample(self):
        """Takes requests, lets go of answers."""
        bench = self.bench
        if self.valid and bench.get("list_rsp_ready_o"):
            self.waiting.popleft()
            self.valid = False
        if self.ready and bench.get("list_req_valid_o"):
            req = DMA_REQ.unpack(bench.get("list_req_o"))
            assert req["addr"] % 64 == 0 and req["len_bytes"] == 64, f"illegal read {req}"
            self.requests.append((req["func"], req["addr"] // 64))
            self.waiting.append((bench.cycle + bench.rng.randint(*self.late), *self.requests[-1]))


class KeyTable:
    """Plays hca_key_table for one client: data in the cycle after the read, held until the next read."""

    def __init__(self, bench, **lists):
        self.bench = bench
        self.rows = {}
        self.reads = []
        self.lists = PageLists(bench, **lists)
        bench.agents.append(self)

    def add(self, index, **fields):
        """Writes a row; returns its key."""
        row = dict(valid=1, tag=0, func=0, pd=0, page_shift=DIRECT, start=0, length=0, iova=0)
        row.update(fields)
        self.rows[index] = row
        return index << 8 | row["tag"]

    def drive(self):
        """Data of the reads seen in the last cycle."""
        for port, value in self.reads:
            self.bench.set(port, value)
        self.reads = []

    def sample(self):
        """Takes the reads of this cycle."""
        bench = self.bench
        if bench.get("mpt_re_o"):
            row = self.rows.get(bench.get("mpt_raddr_o"), {"valid": 0})
            self.reads.append(("mpt_rdata_i", MPT.pack(**row)))

    async def forget(self, index):
        """As before the row is written for a region with a list."""
        bench = self.bench
        bench.set("forget_valid_i", 1)
        bench.set("forget_index_i", index)
        await bench.until(lambda: bench.get("forget_ready_o"), what="forgetting")
        bench.set("forget_valid_i", 0)
        await bench.step()

    def verdict(self, seg):
        """xl_err of a segment (fields of seg_t)."""
        limits = constants()
        if seg["bypass"] or seg["len_bytes"] == seg["chk_bytes"] == 0:
            return OK
        index, tag = seg["key"] >> 8, seg["key"] & 0xFF
        row = self.rows.get(index)
        if index >= limits["NumMrs"] or not row or not row["valid"] or row["tag"] != tag or \
                row["func"] != seg["func"]:
            return KEY
        shift = row["page_shift"]
        if shift != DIRECT and not 12 <= shift <= 30:
            return KEY
        if row["pd"] != seg["pd"]:
            return PD
        access = seg["access"]
        if access != LOCAL_READ and not (access in RIGHT and row.get(RIGHT[access])):
            return ACCESS
        if access in (LOCAL_READ, LOCAL_WRITE) and row.get("is_window"):
            return ACCESS
        need = max(seg["chk_bytes"], seg["len_bytes"])
        offset = seg["va"] if row.get("zero_based") else seg["va"] - row["start"]
        if offset < 0 or offset + need > row["length"]:
            return BOUNDS
        return OK

    def bus(self, seg, step):
        """Bus address of byte `step` of a good segment; none where its part of the page list cannot be read."""
        if seg["bypass"]:
            return seg["va"] + step
        row = self.rows[seg["key"] >> 8]
        offset = (seg["va"] if row.get("zero_based") else seg["va"] - row["start"]) + step
        shift = row["page_shift"]
        if shift == DIRECT:
            return (row["iova"] + offset) % (1 << 64)
        va = row["start"] + offset
        page = (va >> shift) - (row["start"] >> shift)
        if row["iova"] // 64 + page // 8 in self.lists.bad:
            return None
        entry = int.from_bytes(host_bytes(row["func"], row["iova"] + 8 * page, 8), "little")
        return entry >> shift << shift | va % (1 << shift)

    def page_left(self, seg, step):
        """Bytes from byte `step` of a good segment to the end of its page."""
        row = self.rows.get(seg["key"] >> 8)
        if seg["bypass"] or row["page_shift"] == DIRECT:
            return 1 << 64
        offset = (seg["va"] if row.get("zero_based") else seg["va"] - row["start"]) + step
        return (1 << row["page_shift"]) - (row["start"] + offset) % (1 << row["page_shift"])

    def chunks(self, seg, size):
        """[(err, addr, len, seg_last)] that hca_xlate must give."""
        err = self.verdict(seg)
        if err or seg["len_bytes"] == 0:
            return [(err, None, 0, 1)]
        found, step, left = [], 0, seg["len_bytes"]
        while left:
            addr = self.bus(seg, step)
            n = min(left, self.page_left(seg, step))
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
        table.add(index, valid=rng.random() < 0.95, is_window=rng.random() < 0.1, tag=rng.getrandbits(8),
                  func=rng.randrange(2), pd=rng.randrange(2), page_shift=shift, start=start, length=length,
                  iova=rng.getrandbits(48) & (-1 if shift == DIRECT else ~63), **rights)


def random_seg(table, rng, rows=40, wild=0.15, **fixed):
    """A segment that mostly fits its row; `wild`: chance that one thing is wrong."""
    index = rng.randrange(rows)
    row = table.rows[index]
    length = rng.choice([0, 1, rng.randint(1, 64), rng.randint(1, 4096), 4096])
    length = min(length, row["length"])
    offset = rng.choice([0, row["length"] - length, rng.randint(0, row["length"] - length)])
    seg = dict(bypass=rng.random() < 0.05, access=rng.randrange(5), func=row["func"], pd=row["pd"],
               key=index << 8 | row["tag"], len_bytes=length, last=rng.getrandbits(1))
    seg["va"] = offset if row.get("zero_based") else row["start"] + offset
    longest = min(row["length"] - offset, (1 << 32) - 1)
    seg["chk_bytes"] = rng.choice([length, rng.randint(length, longest)])
    if rng.random() < wild:
        seg.update(rng.choice([
            {"func": seg["func"] ^ 1}, {"pd": seg["pd"] ^ 1}, {"key": seg["key"] ^ 1},
            {"key": seg["key"] | 1 << rng.randrange(18, 32)}, {"chk_bytes": (1 << 32) - 1},
            {"chk_bytes": min(longest + 1, (1 << 32) - 1)}, {"va": (seg["va"] - 1) % (1 << 64)},
            {"va": (1 << 64) - 1}, {"access": rng.randrange(8)}, {"va": rng.getrandbits(64)}]))
    seg["chk_bytes"] = max(seg["chk_bytes"], seg["len_bytes"])
    seg["va"] %= 1 << 64
    seg.update(fixed)
    return seg
