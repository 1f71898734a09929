"""Mailbox of hca_mgmt: word port, DMA in both directions across block boundaries, refused and
failed commands."""

import cocotb
from common import host_bytes, struct
from mgmt_bench import DMA_STATUS, MAILBOX, WR, Mgmt

FROM_HOST, TO_HOST = 1, 2
RSP = struct("dma_rd_rsp_t")


class Mailbox:
    """The mailbox and its model."""

    def __init__(self, dut, seed, rate=1.0, bad=()):
        self.mgmt = Mgmt(dut, seed, rate, bad)
        self.bytes = bytearray(4096)

    async def fill(self):
        """Firmware writes every word."""
        await self.mgmt.bench.start()
        self.mgmt.fw.rate = 1.0
        for addr in range(0, 4096, 4):
            self.put(addr, self.mgmt.rng.getrandbits(32))
        await self.mgmt.bench.until(self.mgmt.fw.idle, what="mailbox writes")

    def put(self, addr, word):
        self.bytes[addr:addr + 4] = word.to_bytes(4, "little")
        self.mgmt.fw.put(MAILBOX + addr, word)

    async def check_words(self, count):
        """Firmware reads words back."""
        for _ in range(count):
            addr = 4 * self.mgmt.rng.randrange(1024)
            assert await self.mgmt.read(MAILBOX + addr) == int.from_bytes(self.bytes[addr:addr + 4], "little")

    async def to_host(self, func, addr, local, length, skip=0, spare=0):
        """Moves and compares the writes the host sees, without some bytes at the edges."""
        self.mgmt.wr.got.clear()
        assert await self.mgmt.dma(func, addr, local | skip << 16 | spare << 24, length, TO_HOST) == 0
        writes = [WR.unpack(word) for word in self.mgmt.wr.got]
        assert len(writes) == length // 64
        for n, write in enumerate(writes):
            line = addr + 64 * n
            last = n == len(writes) - 1 or line % 256 == 192
            data = int.from_bytes(self.bytes[local + 64 * n:local + 64 * n + 64], "little")
            strb = (1 << 64) - (1 << skip * (n == 0)) & (1 << 64 - spare * (n == len(writes) - 1)) - 1
            assert write == dict(msix=0, last=last, func=func, addr=line, strb=strb, data=data)

    async def check_all(self):
        """The whole mailbox, by way of the host."""
        await self.to_host(0, 0x1000, 0, 4096)

    async def refused(self, *command):
        """A command that must do nothing but set error."""
        requests, writes = self.mgmt.reads.requests, len(self.mgmt.wr.got)
        assert await self.mgmt.dma(*command) == 2, f"{command} was taken"
        await self.mgmt.bench.step(20)
        assert (self.mgmt.reads.requests, len(self.mgmt.wr.got)) == (requests, writes)


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5])
async def mailbox_both_ways(dut, rate):
    """Any lines, to and from any line of host memory; reads stay in 512-byte blocks (checked by the host),
    writes in 256-byte blocks; untouched lines keep their bytes."""
    box = Mailbox(dut, 21, rate)
    await box.fill()
    await box.check_words(60)
    await box.check_all()
    rng = box.mgmt.rng
    for _ in range(40):
        lines = rng.choice([1, 2, rng.randint(1, 64), 64])
        local = 64 * rng.randint(0, 64 - lines)
        addr = 64 * rng.getrandbits(rng.choice([10, 40, 57]))
        func = rng.randrange(4)
        if rng.random() < 0.5:
            skip = rng.choice([0, rng.randrange(64)])
            spare = rng.choice([0, rng.randrange(64 - skip if lines == 1 else 64)])
            await box.to_host(func, addr, local, 64 * lines, skip, spare)
        else:
            assert await box.mgmt.dma(func, addr, local, 64 * lines, FROM_HOST) == 0
            box.bytes[local:local + 64 * lines] = host_bytes(func, addr, 64 * lines)
            await box.check_words(3)
        box.put(4 * rng.randrange(1024), rng.getrandbits(32))
        await box.mgmt.bench.until(box.mgmt.fw.idle, what="word")
    await box.check_all()


@cocotb.test()
async def refused_commands(dut):
    """Not in whole lines, empty, or beyond the mailbox: error, nothing moves. The next good one clears it."""
    box = Mailbox(dut, 22)
    await box.fill()
    for command in (FROM_HOST, TO_HOST):
        for addr, local, length in [(0x1010, 0, 64), (0x1000, 32, 64), (0x1000, 0, 65), (0x1000, 0, 63),
                                    (0x1000, 0, 0), (0x1000, 0, 4160), (0x1000, 64, 4096),
                                    (0x1000, 4032, 128), (0x1000, 64, 8128),
                                    (0x1000, 4032, 8128), (0x1000, 2048, 6144)]:
            await box.refused(1, addr, local, length, command)
    await box.check_all()


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5])
async def host_errors(dut, rate):
    """The host refuses a line: error, the lines before it are there, nothing is moved or asked beyond."""
    bad = {0x40000 // 64 + n for n in (0, 65, 135, 200)}
    box = Mailbox(dut, 23, rate, bad)
    await box.fill()
    for start, lines, good in [(0, 8, 0), (1, 64, 64), (2, 64, 63), (130, 20, 5), (128, 64, 7), (199, 1, 1),
                               (200, 1, 0), (190, 64, 10)]:
        requests = box.mgmt.reads.requests
        addr = 0x40000 + 64 * start
        status = await box.mgmt.dma(2, addr, 0, 64 * lines, FROM_HOST)
        assert status == (0 if good == lines else 2)
        box.bytes[:64 * good] = host_bytes(2, addr, 64 * good) if good else b""
        await box.mgmt.bench.step(100)
        last = min(good, lines - 1) + start
        assert box.mgmt.reads.requests - requests == last // 8 - start // 8 + 1
        await box.check_all()


@cocotb.test()
async def beats_behind_an_error(dut):
    """An answer that goes on after its error: the rest is taken and dropped, busy until its last beat."""
    box = Mailbox(dut, 24)
    mgmt = box.mgmt
    await box.fill()
    mgmt.bench.agents.remove(mgmt.reads)
    await mgmt.dma(0, 0x2000, 0, 256, FROM_HOST, wait=False)
    await mgmt.bench.until(lambda: mgmt.reads.requests == 1, what="request")
    data = [mgmt.rng.getrandbits(512) for _ in range(4)]
    for n, err in enumerate([0, 1, 0, 0]):
        assert await mgmt.read(DMA_STATUS) & 1
        mgmt.bench.set("rd_rsp_i", RSP.pack(last=n == 3, err=err, data=data[n]))
        mgmt.bench.set("rd_rsp_valid_i", 1)
        await mgmt.bench.step()
        mgmt.bench.set("rd_rsp_valid_i", 0)
    assert await mgmt.poll(DMA_STATUS) == 2
    box.bytes[:64] = data[0].to_bytes(64, "little")
    await box.check_all()
