"""Bench of hca_mgmt: a firmware bus master, a host that reads and writes registers, the tables behind the
context port, event sources, and host memory behind the mailbox DMA."""

from collections import deque

import hca_abi as abi
from common import Bench, HostReads, Sink, Source, constants, struct

LIMITS = constants()
FUNCS = LIMITS["NumFuncs"]
QPC_SINKS, EV_SOURCES = 6, 4
QPC_WR, EV, WR, LINK_WR = struct("qpc_wr_t"), struct("hw_ev_t"), struct("dma_wr_t"), struct("link_wr_t")
GID_WR = struct("gid_wr_t")

# Addresses, typed from abi/regs.
ID, ABI_VERSION, STATUS, CONTROL, LOG_SIZE, ADMIN_STATUS = 0x00, 0x04, 0x08, 0x0C, 0x20, 0x24
EV_STATUS, EV_W0, EV_POP = 0x10000, 0x10004, 0x10010
DMA_ADDR_LO, DMA_ADDR_HI, DMA_LEN, DMA_FUNC, DMA_LOCAL = 0x10020, 0x10024, 0x10028, 0x1002C, 0x10030
DMA_CTRL, DMA_STATUS = 0x10034, 0x10038
CTX_TABLE, CTX_INDEX, CTX_CMD, CTX_STATUS, CTX_FLAGS = 0x10040, 0x10044, 0x10048, 0x1004C, 0x10050
NUM_VLS, LINK_SEL, LINK_DATA = 0x100BC, 0x100C0, 0x100C4
MSG_KIND, MSG_QPN, MSG_GO = 0x10060, 0x10064, 0x10068
EQE_EQN, EQE_GO, EQE_DATA, GO_STATUS = 0x10070, 0x10074, 0x10080, 0x1009C
CTX_DATA, COUNTERS, MAILBOX = 0x10100, 0x10800, 0x20000
FW_END = 0x21000
PORTS = (0x10400, 0x10600)   # registers of each port


def fn_reg(func, offset):
    """Firmware's register of a function: 0 status, 4 admin_status, 8 admin_producer, 12 reset_done."""
    return 0x10200 + 16 * func + offset


class MgmtBench(Bench):
    """ev_i is an unpacked array: written element by element. Responses of the host have no tag here."""

    def set(self, port, value, lsb=0, width=None):
        """Drives a port."""
        if port != "rd_rsp_tag_i":
            super().set(port, value, lsb, width)

    def _flush(self):
        if "ev_i" in self._dirty:
            self._dirty.discard("ev_i")
            for index in range(EV_SOURCES):
                self.dut.ev_i[index].value = self._driven["ev_i"] >> index * EV.width & (1 << EV.width) - 1
        super()._flush()


class Access:
    """One access of the firmware."""

    def __init__(self, addr, data=None):
        self.addr, self.data = addr, data
        self.accepted = self.done = self.result = None


class Firmware:
    """Bus master. A request stays until it is not stalled; acknowledges come in order."""

    def __init__(self, bench, rate):
        self.bench, self.rate = bench, rate
        self.queue, self.flying, self.offered = deque(), deque(), False
        self.on_accept = None
        bench.agents.append(self)

    def put(self, addr, data=None):
        """Queues a read, or a write of `data`."""
        access = Access(addr, data)
        self.queue.append(access)
        return access

    def idle(self):
        """Everything was acknowledged."""
        return not self.queue and not self.flying

    def drive(self):
        """Offers the next access."""
        if not self.offered and self.queue and self.bench.rng.random() < self.rate:
            self.offered = True
            access = self.queue[0]
            self.bench.set("fw_we_i", access.data is not None)
            self.bench.set("fw_addr_i", access.addr)
            self.bench.set("fw_wdata_i", access.data or 0)
        self.bench.set("fw_req_i", self.offered)

    def sample(self):
        """Looks for an acknowledge, then for acceptance."""
        bench = self.bench
        read, write = bench.get("fw_rd_ack_o"), bench.get("fw_wr_ack_o")
        if read or write:
            access = self.flying.popleft()
            assert (read, write) == ((1, 0) if access.data is None else (0, 1))
            access.done = bench.cycle
            access.result = bench.get("fw_rdata_o")
        if self.offered and not bench.get("fw_req_stall_o"):
            self.offered = False
            access = self.queue.popleft()
            access.accepted = bench.cycle
            self.flying.append(access)
            if self.on_accept:
                self.on_accept(access)


class HostData:
    """Collects the answers to host reads."""

    def __init__(self, bench):
        self.bench, self.got = bench, []
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """Answers are never stalled."""
        if self.bench.get("mmio_rdata_valid_o"):
            self.got.append(self.bench.get("mmio_rdata_o"))


class KeyStrobes:
    """Collects (function, place) of the writes of key tables, which are taken at once."""

    def __init__(self, bench):
        self.bench, self.got = bench, []
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """One write per strobe."""
        if self.bench.get("key_wr_valid_o"):
            self.got.append((self.bench.get("key_wr_func_o"), self.bench.get("key_wr_o")))


class LinkStrobes:
    """Collects (index, data) of the link's rows."""

    def __init__(self, bench):
        self.bench, self.got = bench, []
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """One row per strobe."""
        row = LINK_WR.unpack(self.bench.get("link_wr_o"))
        if row["valid"]:
            self.got.append((row["port"] << 8 | row["row"], row["data"]))


class GidStrobes:
    """Collects (row, GID) of the GID tables, 16 rows of each port."""

    def __init__(self, bench):
        self.bench, self.got = bench, []
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """One row per strobe."""
        row = GID_WR.unpack(self.bench.get("gid_wr_o"))
        if row["valid"]:
            self.got.append((row["port"] << 4 | row["index"], row["gid"]))


class LinkStatus:
    """Status words of a link: a function of the address, one cycle later; `now` moves on every cycle."""

    def __init__(self, bench):
        self.bench, self.moving, self.addr = bench, False, 0
        bench.agents.append(self)

    def word(self, addr):
        """What the word holds now."""
        return (addr * 0x01010101 ^ 0xA5000000) + (self.bench.cycle if self.moving else 0) & 0xFFFFFFFF

    def drive(self):
        """The word asked for in the last cycle."""
        self.bench.set("link_stat_data_i", self.word(self.addr))

    def sample(self):
        """The address of this cycle."""
        self.addr = self.bench.get("link_stat_addr_o")


class CounterWords:
    """The counters' read port: the word asked for in the last cycle."""

    def __init__(self, bench):
        self.bench = bench
        self.words = {}
        self.word = None
        bench.agents.append(self)

    def drive(self):
        """Garbage where nothing was asked for."""
        known = self.words.get(self.word, 0) if self.word is not None else self.bench.rng.getrandbits(32)
        self.bench.set("counter_data_i", known)

    def sample(self):
        """The word of this cycle."""
        is_read, word = divmod(self.bench.get("counter_req_o"), 1 << 8)
        self.word = word if is_read else None


class Mgmt:
    """hca_mgmt with everything around it. `rate` is the chance of every master to ask and of every sink to
    take in a cycle."""

    def __init__(self, dut, seed, rate=1.0, bad=()):
        bench = self.bench = MgmtBench(dut, seed)
        self.rng = bench.rng
        self.fw = Firmware(bench, rate)
        names = ["func", "addr", "data", "strb"]
        self.host_wr = Source(bench, "mmio_wr", rate=rate, payload=[(f"mmio_wr_{n}_i", None) for n in names])
        self.host_rd = Source(bench, "mmio_rd", rate=rate,
                              payload=[("mmio_rd_func_i", None), ("mmio_rd_addr_i", None)])
        self.host_data = HostData(bench)
        self.qpc = [Sink(bench, "qpc_wr", index=n, rate=rate, payload=[("qpc_wr_o", None)])
                    for n in range(QPC_SINKS)]
        self.cqc = Sink(bench, "cqc_wr", rate=rate, payload=[("cqc_wr_cqn_o", None), ("cqc_wr_o", None)])
        self.eqc = Sink(bench, "eqc_wr", rate=rate, payload=[("eqc_wr_eqn_o", None), ("eqc_wr_o", None)])
        self.keys = KeyStrobes(bench)
        self.forgets = Sink(bench, "forget", rate=rate)
        self.srqc = Sink(bench, "srqc_wr", rate=rate, payload=[("srqc_wr_srqn_o", None), ("srqc_wr_o", None)])
        self.groups = Sink(bench, "group_wr", rate=rate)
        self.dms = Sink(bench, "dm_wr", rate=rate)
        self.link, self.link_status, self.gids = LinkStrobes(bench), LinkStatus(bench), GidStrobes(bench)
        self.counters = CounterWords(bench)
        self.msg, self.eqe = Sink(bench, "msg", rate=rate), Sink(bench, "eqe", rate=rate)
        self.ev = [Source(bench, "ev", "hw_ev_t", index=n, rate=rate) for n in range(EV_SOURCES)]
        self.reads = HostReads(bench, "rd_rsp", rate=rate, bad=bad)
        self.rd_req = Sink(bench, "rd_req", rate=rate,
                           on_word=lambda word: self.reads.request(self.reads.requests, word))
        self.wr = Sink(bench, "wr", rate=rate)

    async def read(self, addr):
        """Firmware reads a word."""
        access = self.fw.put(addr)
        await self.bench.until(lambda: access.done is not None, what=f"read of {addr:#x}")
        return access.result

    async def write(self, addr, data):
        """Firmware writes a word."""
        access = self.fw.put(addr, data)
        await self.bench.until(lambda: access.done is not None, what=f"write of {addr:#x}")

    async def poll(self, addr, mask=1, limit=2000):
        """Firmware waits until the bits are 0; returns the word."""
        for _ in range(limit):
            word = await self.read(addr)
            if not word & mask:
                return word
        raise AssertionError(f"{addr:#x}: bits {mask:#x} stay 1")

    async def host_read(self, func, addr):
        """The host reads a word."""
        count = len(self.host_data.got)
        self.host_rd.put((func, addr))
        await self.bench.until(lambda: len(self.host_data.got) > count, what="host read")
        return self.host_data.got[-1]

    async def host_write(self, func, addr, data, strb=0x0F):
        """The host writes; returns when the register has the new value."""
        self.host_wr.put((func, addr, data, strb))
        await self.bench.until(self.host_wr.idle, what="host write")
        await self.bench.step(8)

    async def swept(self):
        """Waits until every table is cleared, and forgets what was written."""
        await self.poll(CTX_STATUS, limit=20000)
        self.forget()

    def forget(self):
        """Forgets all context writes seen."""
        for sink in [*self.qpc, self.cqc, self.eqc, self.srqc, self.keys, self.forgets, self.groups, self.dms,
                     self.link, self.gids]:
            sink.got.clear()

    async def pop_event(self):
        """Oldest event as fields, or None."""
        if not await self.read(EV_STATUS) & 0xFFFF:
            return None
        words = [self.fw.put(EV_W0 + 4 * n) for n in range(3)]
        await self.write(EV_POP, 1)
        return abi.unpack("hw_event", b"".join(word.result.to_bytes(4, "little") for word in words))

    async def dma(self, func, addr, local, length, command, wait=True):
        """Runs a mailbox command; returns dma_status."""
        for reg, value in [(DMA_ADDR_LO, addr & 0xFFFFFFFF), (DMA_ADDR_HI, addr >> 32), (DMA_LEN, length),
                           (DMA_FUNC, func), (DMA_LOCAL, local), (DMA_CTRL, command)]:
            self.fw.put(reg, value)
        await self.bench.until(self.fw.idle, what="DMA command")
        return await self.poll(DMA_STATUS) if wait else None
