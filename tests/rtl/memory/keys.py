"""A key table for the tests of translation: rows, the ports of one client, and the rules written again."""

from common import constants, struct

MPT = struct("mpt_t")
OK, KEY, PD, BOUNDS, ACCESS, DMA = range(6)
LOCAL_READ, LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = range(5)
DIRECT = 63
RIGHT = {LOCAL_WRITE: "local_write", REMOTE_WRITE: "remote_write", REMOTE_READ: "remote_read",
         REMOTE_ATOMIC: "remote_atomic"}


class KeyTable:
    """Plays hca_key_table for one client: data in the cycle after the read, held until the next read."""

    def __init__(self, bench):
        self.bench = bench
        self.rows = {}
        self.pages = {}
        self.reads = []
        bench.agents.append(self)

    def add(self, index, **fields):
        """Writes a row; returns its key."""
        row = dict(valid=1, tag=0, func=0, pd=0, page_shift=DIRECT, start=0, length=0, iova=0, mtt_base=0)
        row.update(fields)
        self.rows[index] = row
        return index << 8 | row["tag"]

    def map(self, index, first_row, rng):
        """Random pages for a paged row."""
        row = self.rows[index]
        row["mtt_base"] = first_row
        shift = row["page_shift"]
        first = row["start"] >> shift
        last = (row["start"] + max(row["length"], 1) - 1) >> shift
        for n in range(last - first + 1):
            self.pages[first_row + n] = rng.randrange(1 << (56 - shift)) << shift
        return first_row + last - first + 1

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
        if bench.get("mtt_re_o"):
            self.reads.append(("mtt_rdata_i", self.pages.get(bench.get("mtt_raddr_o"), 0xDEAD000)))

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
        if shift != DIRECT:
            position = row["start"] % (1 << shift) + offset
            if row["mtt_base"] + ((position + need - 1) >> shift) >= limits["NumMtts"]:
                return KEY
        return OK

    def bus(self, seg, step):
        """Bus address of byte `step` of a good segment."""
        if seg["bypass"]:
            return seg["va"] + step
        row = self.rows[seg["key"] >> 8]
        offset = (seg["va"] if row.get("zero_based") else seg["va"] - row["start"]) + step
        shift = row["page_shift"]
        if shift == DIRECT:
            return (row["iova"] + offset) % (1 << 64)
        va = row["start"] + offset
        page = (va >> shift) - (row["start"] >> shift)
        return self.pages[row["mtt_base"] + page] + va % (1 << shift)

    def chunks(self, seg, size):
        """[(err, addr, len, seg_last)] that hca_xlate must give."""
        err = self.verdict(seg)
        if err or seg["len_bytes"] == 0:
            return [(err, None, 0, 1)]
        found, step, left = [], 0, seg["len_bytes"]
        while left:
            addr = self.bus(seg, step)
            n = min(left, size - addr % size)
            found.append((OK, addr, n, int(n == left)))
            step, left = step + n, left - n
        return found


def random_table(table, rng, rows=40):
    """Rows of all kinds, pages for the paged ones; leaves one region that points past the page table."""
    next_page = 100
    for index in range(rows):
        shift = rng.choice([DIRECT, DIRECT, 12, 12, 13, 16, 21, 30, 5])
        start = rng.choice([rng.getrandbits(47), rng.getrandbits(47) & ~0xFFF, (1 << 64) - (1 << 32)])
        length = rng.choice([1, 64, 4096, 10000, 100000, 1 << 31])
        if shift == 12:
            length = min(length, 100000)
        rights = {name: rng.getrandbits(1) for name in list(RIGHT.values()) + ["zero_based", "mw_bind"]}
        table.add(index, valid=rng.random() < 0.95, is_window=rng.random() < 0.1, tag=rng.getrandbits(8),
                  func=rng.randrange(2), pd=rng.randrange(2), page_shift=shift, start=start, length=length,
                  iova=rng.getrandbits(48), **rights)
        if 12 <= shift <= 30:
            next_page = table.map(index, next_page, rng)
    table.add(rows, func=0, page_shift=12, start=0x5000, length=0x4000, mtt_base=constants()["NumMtts"] - 2,
              local_write=1)
    table.pages[constants()["NumMtts"] - 2] = 0x1000
    table.pages[constants()["NumMtts"] - 1] = 0x2000


def random_seg(table, rng, rows=41, wild=0.15, **fixed):
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
