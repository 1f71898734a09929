"""Context port of hca_mgmt: the sweep after reset, rows of every table, refused rows."""

import cocotb
import hca_abi as abi
from common import struct
from mgmt_bench import (CTX_CMD, CTX_DATA, CTX_FLAGS, CTX_INDEX, CTX_STATUS, CTX_TABLE, LIMITS, QPC_WR, Mgmt)

PLACE, FORGET, GROUP, PAGE = (struct(name) for name in ("key_place_t", "key_forget_t", "group_wr_t", "dm_page_t"))
ROWS = {abi.CtxTable.QPC: ("qpc", LIMITS["NumQps"]), abi.CtxTable.CQC: ("cqc", LIMITS["NumCqs"]),
        abi.CtxTable.EQC: ("eqc", LIMITS["NumEqs"]), abi.CtxTable.KEY_TABLE: ("key_table", LIMITS["NumFuncs"]),
        abi.CtxTable.FORGET: ("forget", 1 << 24),
        abi.CtxTable.LINK: ("link_ctrl", abi.LINK_ROWS),
        abi.CtxTable.GID: ("gid_row", LIMITS["NumGids"] * LIMITS["NumPorts"]),
        abi.CtxTable.GROUP: ("group_row", abi.GROUP_ROWS), abi.CtxTable.SRQC: ("srqc", LIMITS["NumSrqs"]),
        abi.CtxTable.DEVICE_MEMORY: ("dm_row", abi.DM_PAGES)}


def delivered(table, index, row, flags):
    """What arrives of a row."""
    word = int.from_bytes(row, "little")
    fields = abi.unpack(ROWS[table][0], row) if table in (abi.CtxTable.KEY_TABLE, abi.CtxTable.FORGET) else {}
    if table == abi.CtxTable.QPC:
        return index, word, flags
    if table == abi.CtxTable.KEY_TABLE:
        return index, PLACE.pack(valid=fields["valid"], log_size=fields["log_size"], base=fields["base"] // 64)
    if table == abi.CtxTable.FORGET:
        return index, fields["pages"] | fields["all"] << 1
    if table == abi.CtxTable.GID:
        return index, word & (1 << 128) - 1
    if table == abi.CtxTable.DEVICE_MEMORY:
        return index, (word & 1, word >> 8 & 0xFF)
    return index, word


def random_row(rng, name):
    """Bytes of a row with random fields."""
    return abi.pack(name, **{field: rng.getrandbits(width)
                             for field, (_, width) in abi.STRUCTS[name]["fields"].items()})


def seen(mgmt):
    """{table: [(index, row)]} of all writes seen; every QPC listener must have seen the same."""
    for sink in mgmt.qpc[1:]:
        assert sink.got == mgmt.qpc[0].got
    qpc = [QPC_WR.unpack(word) for word in mgmt.qpc[0].got]
    forgets = [FORGET.unpack(word) for word in mgmt.forgets.got]
    groups = [GROUP.unpack(word) for word in mgmt.groups.got]
    pages = [PAGE.unpack(word) for word in mgmt.dms.got]
    return {abi.CtxTable.QPC: [(w["qpn"], w["qpc"], w["init_sq"] | w["init_rq"] << 1) for w in qpc],
            abi.CtxTable.CQC: mgmt.cqc.got, abi.CtxTable.EQC: mgmt.eqc.got,
            abi.CtxTable.SRQC: mgmt.srqc.got, abi.CtxTable.KEY_TABLE: mgmt.keys.got,
            abi.CtxTable.FORGET: [(w["index"], w["pages"] | w["all"] << 1) for w in forgets],
            abi.CtxTable.LINK: mgmt.link.got, abi.CtxTable.GID: mgmt.gids.got,
            abi.CtxTable.GROUP: [(w["index"], w["row"]) for w in groups],
            abi.CtxTable.DEVICE_MEMORY: [(w["page"], (w["there"], w["func"])) for w in pages]}


async def command(mgmt, table, index, row, flags=0):
    """One context write; returns ctx_status once it is done."""
    for n in range(0, len(row), 4):
        mgmt.fw.put(CTX_DATA + n, int.from_bytes(row[n:n + 4], "little"))
    for reg, value in [(CTX_TABLE, table), (CTX_INDEX, index), (CTX_FLAGS, flags), (CTX_CMD, 1)]:
        mgmt.fw.put(reg, value)
    return await mgmt.poll(CTX_STATUS)


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5])
async def sweep(dut, rate):
    """After reset every row of QPC, CQC, EQC, SRQC, GROUP and LINK is written once, with zeros, and nothing else;
    commands meanwhile are busy. The control row of a link is left alone."""
    mgmt = Mgmt(dut, 11, rate)
    await mgmt.bench.start()
    assert await mgmt.read(CTX_STATUS) == 1
    await mgmt.bench.until(lambda: len(mgmt.groups.got) == abi.GROUP_ROWS, 60000, "the sweep")
    await mgmt.poll(CTX_STATUS)
    writes = seen(mgmt)
    assert writes[abi.CtxTable.QPC] == [(n, 0, 3) for n in range(LIMITS["NumQps"])]
    for table in (abi.CtxTable.KEY_TABLE, abi.CtxTable.FORGET, abi.CtxTable.GID, abi.CtxTable.DEVICE_MEMORY):
        assert not writes[table]
    for table in (abi.CtxTable.CQC, abi.CtxTable.EQC, abi.CtxTable.SRQC, abi.CtxTable.GROUP):
        assert writes[table] == [(n, 0) for n in range(ROWS[table][1])]
    starts = range(0, LIMITS["NumPorts"] * abi.LINK_PORT_ROWS, abi.LINK_PORT_ROWS)
    assert writes[abi.CtxTable.LINK] == [(start + n, 0) for start in starts for n in range(abi.LINK_ROWS)
                                              if n != abi.LINK_ROW_CTRL]


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.3])
async def rows(dut, rate):
    """Rows of every table arrive once, with the bytes of the contract, before busy falls; a row that does
    not exist sets error and writes nothing."""
    mgmt = Mgmt(dut, 12)
    await mgmt.bench.start()
    await mgmt.swept()
    rng = mgmt.rng
    mgmt.fw.rate = max(rate, 0.6)
    for _ in range(60):
        for sink in [*mgmt.qpc, mgmt.cqc, mgmt.eqc, mgmt.srqc, mgmt.forgets, mgmt.groups, mgmt.dms]:
            sink.rate = 1.0 if rate == 1.0 else rng.choice([0.02, rate, 1.0])
        table = rng.choice(list(ROWS))
        name, count = ROWS[table]
        index = rng.choice([0, count - 1, rng.randrange(count)])
        row, flags, refused = random_row(rng, name), rng.randrange(4), rng.random() < 0.3
        if table == abi.CtxTable.LINK:   # the strobe has room for 32 bytes
            row += rng.randbytes(32 - len(row))
        if refused and rng.random() < 0.5:
            index = rng.choice([count, 1 << 30 | index, 1 << 31 | index, 0xFFFFFFFF])
        elif refused:
            table = rng.randrange(max(abi.CtxTable) + 1, 16)
        assert await command(mgmt, table, index, row, flags) == (2 if refused else 0)
        expected = {t: [] for t in ROWS}
        if not refused:
            expected[table] = [delivered(table, index, row, flags)]
        assert seen(mgmt) == expected
        mgmt.forget()


@cocotb.test()
async def link_rows(dut):
    """VL-8, VL-12, VL-14: every row of a link is one strobe with 32 bytes; rows and ports that do not exist
    are refused."""
    mgmt = Mgmt(dut, 14)
    await mgmt.bench.start()
    await mgmt.swept()
    ports, rows_of_port = LIMITS["NumPorts"], abi.LINK_PORT_ROWS
    for index in [0, 63, 64, 127, 128, 129, 130, 137, 138, 255, 256, 256 + 129, 512, 0x10000]:
        row = mgmt.rng.randbytes(32)
        there = index < ports * rows_of_port and index % rows_of_port < abi.LINK_ROWS
        assert await command(mgmt, abi.CtxTable.LINK, index, row) == (0 if there else 2)
        assert mgmt.link.got == ([(index, int.from_bytes(row, "little"))] if there else [])
        mgmt.forget()


@cocotb.test()
async def gid_rows(dut):
    """Sources of datagrams: every row of every port's GID table is one strobe with its port, its index and 16 bytes;
    a row of a port that does not exist is refused."""
    mgmt = Mgmt(dut, 15)
    await mgmt.bench.start()
    await mgmt.swept()
    count = LIMITS["NumGids"] * LIMITS["NumPorts"]
    for index in [*range(count), count, count + 1, 256, 1 << 24, 1 << 31 | 3]:
        row = mgmt.rng.randbytes(64)
        assert await command(mgmt, abi.CtxTable.GID, index, row) == (0 if index < count else 2)
        expected = {table: [] for table in ROWS}
        if index < count:
            expected[abi.CtxTable.GID] = [(index, int.from_bytes(row[:16], "little"))]
        assert seen(mgmt) == expected
        mgmt.forget()


@cocotb.test()
async def slow_listener(dut):
    """Busy until the last listener has the row; the row does not change under it."""
    mgmt = Mgmt(dut, 13)
    await mgmt.bench.start()
    await mgmt.swept()
    for slow in range(len(mgmt.qpc)):
        mgmt.qpc[slow].rate = 0.0
        row = random_row(mgmt.rng, "qpc")
        for n in range(0, 256, 4):
            mgmt.fw.put(CTX_DATA + n, int.from_bytes(row[n:n + 4], "little"))
        for reg, value in [(CTX_TABLE, 0), (CTX_INDEX, slow), (CTX_CMD, 1)]:
            mgmt.fw.put(reg, value)
        await mgmt.bench.until(mgmt.fw.idle, what="command")
        for n in range(64):   # the next row may already be written into the words
            mgmt.fw.put(CTX_DATA + 4 * n, mgmt.rng.getrandbits(32))
        await mgmt.bench.until(mgmt.fw.idle, what="words")
        assert await mgmt.read(CTX_STATUS) == 1
        assert [len(sink.got) for sink in mgmt.qpc] == [int(n != slow) for n in range(len(mgmt.qpc))]
        mgmt.qpc[slow].rate = 1.0
        assert await mgmt.poll(CTX_STATUS) == 0
        assert seen(mgmt)[abi.CtxTable.QPC] == [(slow, int.from_bytes(row, "little"), 0)]
        mgmt.forget()
