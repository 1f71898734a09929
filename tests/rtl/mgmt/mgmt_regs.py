"""Registers of hca_mgmt: who reaches what, two masters at once, rate."""

import cocotb
from common import struct
from hca_abi import ABI_VERSION
from mgmt_bench import (CONTROL, COUNTERS, FUNCS, FW_END, LIMITS, LINK_DATA, LINK_SEL, MAILBOX, NUM_VLS, PORTS, Mgmt,
                        fn_reg)

M32 = 0xFFFFFFFF
NOW = 0x123456789ABCDEF0
CLOCK_HZ, VECTORS, VLS = 250_000_000, 32, 8
# Writable bits. A function's driver and firmware; of them memory:
FUNC_RAM = {0x10: M32, 0x14: M32, 0x18: M32, 0x1C: M32}
FUNC_RW = {0x0C: 3, 0x20: 0xF} | FUNC_RAM
# Firmware alone: the first and last words of the mailbox, and of the tables of each port.
FW_RW = {0x20000: M32, 0x20FFC: M32}
FW_RW |= {port + addr: mask for port in PORTS
          for addr, mask in {0x80: 0xFFFF, 0xFC: 0xFFFF, 0x100: M32, 0x1FC: M32}.items()}
# What firmware sets and does not read: zeros are there (none of these starts anything).
FW_WO = [0x10020, 0x10024, 0x10028, 0x1002C, 0x10030, 0x10040, 0x10044, 0x10050, 0x10060, 0x10064, 0x100C0, 0x10070,
         0x10080, 0x1008C, *[port + addr for port in PORTS for addr in (0x00, 0x08, 0x0C, 0x10, 0x14, 0x18)]]
SIZES = {0x100A0: "NumQps", 0x100A4: "NumCqs", 0x100A8: "NumEqs", 0x100AC: "NumMrs",
         0x100B4: "NumFuncs"}


class Model:
    """What every register reads, moved on by each access the bus accepts."""

    def __init__(self):
        self.rw = {0x1000 * f + a: 0 for f in range(FUNCS) for a in FUNC_RW} | dict.fromkeys(FW_RW, 0)
        self.rw |= {fn_reg(f, a): 0 for f in range(FUNCS) for a in (0, 4)}
        self.mask = {0x1000 * f + a: mask for f in range(FUNCS) for a, mask in FUNC_RW.items()} | FW_RW
        self.mask |= {fn_reg(f, a): mask for f in range(FUNCS) for a, mask in ((0, 7), (4, 0xFFFFFF))}
        self.fixed = {addr: LIMITS[name] for addr, name in SIZES.items()}
        self.fixed[NUM_VLS] = VLS
        for f in range(FUNCS):
            words = [0x48434131, ABI_VERSION, None, None, None, None, None, None, None, None, NOW & M32, NOW >> 32,
                     CLOCK_HZ, VECTORS << 16 | f]
            self.fixed |= {0x1000 * f + 4 * n: word for n, word in enumerate(words) if word is not None}

    def read(self, addr):
        func, offset = divmod(addr, 0x1000)
        if func < FUNCS and offset in (0x08, 0x24):
            return self.rw[fn_reg(func, 0 if offset == 0x08 else 4)]
        if addr in [fn_reg(f, a) for f in range(FUNCS) for a in (0, 4)]:
            return 0
        return self.rw.get(addr, self.fixed.get(addr, 0))

    def write(self, addr, data, strb=0xF):
        for f in range(FUNCS):
            if addr == fn_reg(f, 12) and data & 1:
                self.rw[0x1000 * f + CONTROL] = 0
        if addr in self.rw:
            bits = sum(0xFF << 8 * n for n in range(4) if strb >> n & 1) & self.mask[addr]
            self.rw[addr] = self.rw[addr] & ~bits | data & bits


class Masters:
    """Drives both masters at random and compares every answer with the model."""

    def __init__(self, dut, seed, rate):
        self.mgmt = Mgmt(dut, seed, rate)
        self.model = Model()
        self.want_fw, self.want_host, self.fw_reads = [], [], []
        self.accepted = []
        self.mgmt.fw.on_accept = self.fw_accept
        self.mgmt.host_wr.on_accept = self.wr_accept
        self.mgmt.host_rd.on_accept = self.rd_accept

    def fw_accept(self, access):
        self.accepted.append(self.mgmt.bench.cycle)
        if access.data is None:
            self.fw_reads.append((access, self.model.read(access.addr)))
        else:
            self.model.write(access.addr, access.data)

    def host_turn(self):
        assert not self.mgmt.fw.offered, "the host went before firmware"
        self.accepted.append(self.mgmt.bench.cycle)

    def wr_accept(self, word):
        func, addr, data, strb = word
        self.host_turn()
        if func < FUNCS:
            self.model.write(0x1000 * func + addr, data & M32, strb & 0xF)
            self.model.write(0x1000 * func + addr + 4, data >> 32, strb >> 4)

    def rd_accept(self, word):
        func, addr = word
        self.host_turn()
        assert not self.mgmt.host_wr.offered, "a read went before a write"
        there = func < FUNCS and addr < 0x1000
        self.want_host.append(self.model.read(0x1000 * func + addr) if there else M32)

    def random_fw(self):
        rng, model = self.mgmt.rng, self.model
        addr = rng.choice([*model.rw, *model.rw, *model.fixed, *FW_WO, 0x8, 0x3024, 0x38, 0x1005C, FW_END, 0xFFFFC,
                           *[fn_reg(f, 12) for f in range(FUNCS)]])
        self.mgmt.fw.put(addr, None if rng.random() < 0.5 else rng.getrandbits(32))

    def random_host(self):
        rng = self.mgmt.rng
        func = rng.choice([0, 1, 2, 3, 0, 1, 2, 3, 4, 16, 17, 32, 255])
        if rng.random() < 0.5:
            addr = rng.choice([8 * rng.randrange(8), 8 * rng.randrange(512)])
            strb = rng.choice([0x0F, 0xF0, 0xFF, rng.getrandbits(8)])
            self.mgmt.host_wr.put((func, addr, rng.getrandbits(64), strb))
        else:
            addr = rng.choice([4 * rng.randrange(16), 4 * rng.randrange(16), 4 * rng.randrange(16384)])
            self.mgmt.host_rd.put((func, addr))


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.4, 0.1])
async def two_masters(dut, rate):
    """Random accesses of both masters: every answer right, no write lost, firmware first, then host writes.
    The host cannot reach other functions' registers or firmware's; all else reads as ones."""
    m = Masters(dut, 1, rate)
    await m.mgmt.bench.start()
    m.mgmt.bench.set("now_i", NOW)
    rams = [0x1000 * f + a for f in range(FUNCS) for a in FUNC_RAM]
    for addr in rams + [a for a in m.model.rw if a >= 0x10500]:
        await m.mgmt.write(addr, 0)
    for _ in range(1500):
        m.random_fw()
        m.random_host()
        if m.mgmt.rng.random() < 0.02:
            await m.mgmt.bench.step(m.mgmt.rng.randint(0, 60))

    def quiet():
        return m.mgmt.fw.idle() and m.mgmt.host_wr.idle() and m.mgmt.host_rd.idle()
    await m.mgmt.bench.until(quiet, 100000, "all accesses")
    await m.mgmt.bench.step(10)
    assert len(m.accepted) == len(set(m.accepted)), "two accesses in one cycle"
    for access, want in m.fw_reads:
        assert access.result == want, f"{access.addr:#x}: {access.result:#x}, not {want:#x}"
    assert m.mgmt.host_data.got == m.want_host
    for addr in m.model.rw:
        got = await m.mgmt.read(addr)
        assert got == m.model.read(addr), f"{addr:#x}: {got:#x} at the end"


@cocotb.test()
async def access_rate(dut):
    """A register takes 3 cycles, an external window that is read 4; at most 5 from request to answer."""
    mgmt = Mgmt(dut, 2)
    await mgmt.bench.start()
    for addr, cycles in [(0x0, 3), (0x10040, 3), (MAILBOX, 4), (COUNTERS, 4), (0x10480, 4), (0x10500, 4)]:
        for data, limit in ((None, cycles), (5, 3)):
            batch = [mgmt.fw.put(addr, data) for _ in range(20)]
            await mgmt.bench.until(mgmt.fw.idle, what="accesses")
            each = (batch[-1].accepted - batch[0].accepted) / 19
            assert each <= limit and batch[-1].done - batch[-1].accepted <= 5, f"{addr:#x}: {each} cycles"
    for _ in range(20):
        mgmt.host_wr.put((1, 0x10, mgmt.rng.getrandbits(64), 0xFF))
        mgmt.host_rd.put((1, 0x10))
    await mgmt.bench.until(mgmt.host_rd.idle, what="host accesses")
    for source in (mgmt.host_wr, mgmt.host_rd):
        assert source.taken[-1] - source.taken[0] <= 5 * 19


@cocotb.test()
async def function_registers(dut):
    """What firmware tells a driver; reset_done clears enable and reset of that function alone."""
    mgmt = Mgmt(dut, 3)
    await mgmt.bench.start()
    for f in range(FUNCS):
        await mgmt.write(fn_reg(f, 0), f + 1 & 7)
        await mgmt.write(fn_reg(f, 4), 0x5A0000 + f)
        await mgmt.host_write(f, 0x08, 3 << 32, 0xF0)
    for f in range(FUNCS):
        assert await mgmt.host_read(f, 0x08) == f + 1 & 7
        assert await mgmt.host_read(f, 0x24) == 0x5A0000 + f
    await mgmt.write(fn_reg(2, 12), 1)
    assert [await mgmt.host_read(f, CONTROL) for f in range(FUNCS)] == [3, 3, 0] + (FUNCS - 3) * [3]
    assert [await mgmt.host_read(2, page) for page in range(0x1000, 0x10000, 0x1000)] == [M32] * 15


@cocotb.test()
async def counters(dut):
    """Words of the counters, as their read port has them, at the address that names port, counter and half."""
    mgmt = Mgmt(dut, 4, rate=0.5)
    await mgmt.bench.start()
    words = mgmt.counters.words
    for _ in range(200):
        word = mgmt.rng.randrange(128)
        words.clear()
        words[word] = mgmt.rng.getrandbits(32)
        assert await mgmt.read(COUNTERS + 4 * word) == words[word], f"word {word}"


@cocotb.test()
async def link_status_words(dut):
    """link_sel names a port and a word, link_data shows that word as it is now, at any distance."""
    mgmt = Mgmt(dut, 6)
    await mgmt.bench.start()
    status = mgmt.link_status
    for _ in range(100):
        addr = mgmt.rng.randrange(512)
        mgmt.fw.put(LINK_SEL, addr)
        access = mgmt.fw.put(LINK_DATA)
        await mgmt.bench.until(mgmt.fw.idle, what="status word")
        assert access.result == status.word(addr), f"word {addr:#x}"
    status.moving = True
    first, second = mgmt.fw.put(LINK_DATA), mgmt.fw.put(LINK_DATA)
    await mgmt.bench.until(mgmt.fw.idle, what="moving word")
    assert second.result - first.result == second.done - first.done


@cocotb.test()
async def port_configuration(dut):
    """Port registers and the P_Key table of each port reach the data path; how many ports are fitted is read."""
    mgmt = Mgmt(dut, 5)
    await mgmt.bench.start()
    assert mgmt.bench.get("pkey_tbl_o") == 0
    tables, configs = 0, []
    for port, base in enumerate(PORTS):
        pkeys = [mgmt.rng.getrandbits(16) for _ in range(32)]
        for n, pkey in enumerate(pkeys):
            await mgmt.write(base + 0x80 + 4 * n, pkey)
        tables |= sum(pkey << 16 * n for n, pkey in enumerate(pkeys)) << 512 * port
        fields = dict(ib=1 - port, active=1, mac=0x0200C0FFEE42 + port, lid=0x1234 << port, lmc=5 - port)
        for addr, value in [(0x0C, fields["mac"] & M32), (0x10, fields["mac"] >> 32), (0x14, fields["lid"]),
                            (0x18, fields["lmc"]), (0x00, 6 | fields["ib"])]:
            await mgmt.write(base + addr, value)
        configs.append(fields)
    await mgmt.bench.step(2)
    assert mgmt.bench.get("pkey_tbl_o") == tables
    cfg = struct("port_cfg_t")
    assert [cfg.unpack(mgmt.bench.get("port_cfg_o", cfg.width * port, cfg.width)) for port in (0, 1)] == configs
    assert [await mgmt.read(base + 4) for base in PORTS] == [1, 1]
    for fitted in (1, 2):
        mgmt.bench.set("num_ports_i", fitted)
        assert await mgmt.read(0x100B8) == fitted
