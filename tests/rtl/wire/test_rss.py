"""hca_toeplitz against the verification suite that every maker of network cards prints (Microsoft's "Verifying the RSS
Hash Calculation"), and hca_rss against a model of it."""

import ipaddress
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from common import Bench, Sink, Source, simulate, struct
from hca_abi import RSS_ENTRIES, RSS_QPS

RXD, RSS_WR, RSS_QP_WR, RSS_ROW = (struct(s) for s in ("rxd_t", "rss_wr_t", "rss_qp_wr_t", "rss_row_t"))
KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
# Source, source port, destination, destination port; the hash with ports, and without.
SUITE = [
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x51CCC178, 0x323E8FC2),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xC626B0EA, 0xD718262A),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0x5C2B394A, 0xD2D0A5DE),
    ("38.27.205.30", 48228, "209.142.163.6", 2217, 0xAFC7327F, 0x82989176),
    ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x10E828A2, 0x5D1809C5),
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x40207D3D, 0x2CC18CD5),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0xDDE51BBF, 0x0F0C461C),
    ("3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024, 0x02D1FEEF, 0x4B61E985),
]
IPV4, IPV6, TCP, UDP = 1, 2, 4, 8   # layers_t


def toeplitz(key, data):
    """The hash by its definition, a bit at a time."""
    window, out = int.from_bytes(key, "big"), 0
    for i in range(8 * len(data)):
        if data[i // 8] >> (7 - i % 8) & 1:
            out ^= window >> (8 * len(key) - 32 - i)
    return out & 0xFFFFFFFF


def test_the_model_knows_the_suite():
    for src, sport, dst, dport, with_ports, without in SUITE:
        ips = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
        assert toeplitz(KEY, ips) == without
        assert toeplitz(KEY, ips + sport.to_bytes(2, "big") + dport.to_bytes(2, "big")) == with_ports


def hashed(fields, layers, src, dst, ports):
    """What is hashed (V-95): a field that is not selected is zeros."""
    if not layers & (IPV4 | IPV6):
        return b""
    is6 = bool(layers & IPV6)
    src, dst = (a if is6 else a[:4] for a in (src, dst))
    sport, dport = ports[:2], ports[2:]
    low = 2 if is6 else 0
    l4 = 4 if layers & TCP else 6
    keep = [fields >> low & 1, fields >> low + 1 & 1] + [fields >> l4 + i & 1 and layers & (TCP | UDP) for i in (0, 1)]
    return b"".join(p if k else bytes(len(p)) for p, k in zip((src, dst, sport, dport), keep, strict=True))


class Rss:
    """The bench, rows and entries, and what must come."""

    def __init__(self, dut, seed, rate, sink_rate):
        self.dut = dut
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.source = Source(self.bench, "in", rate=rate, payload=[("in_i", None), ("spread_i", None)])
        self.sink = Sink(self.bench, "out", rate=sink_rate)
        self.rows, self.entries, self.expected = {}, {}, []

    async def write(self, index, key, fields, log_size):
        self.rows[index] = (key, fields, log_size)
        row = RSS_ROW.pack(key=int.from_bytes(key, "little"), fields=fields, log_size=log_size)
        self.bench.set("rss_wr_i", RSS_WR.pack(valid=1, index=index, row=row))
        await self.bench.step()
        self.bench.set("rss_wr_i", 0)
        for entry in range(1 << log_size):
            qpn = self.rng.getrandbits(24)
            self.entries[index, entry] = qpn
            self.bench.set("rss_qp_wr_i", RSS_QP_WR.pack(valid=1, index=index * RSS_ENTRIES + entry, qpn=qpn))
            await self.bench.step()
        self.bench.set("rss_qp_wr_i", 0)

    def qpn(self, index, layers, src, dst, ports):
        key, fields, log_size = self.rows[index]
        return self.entries[index, toeplitz(key, hashed(fields, layers, src, dst, ports)) & (1 << log_size) - 1]

    def push(self, index, layers, src, dst, ports):
        """A frame for a row."""
        number = {"sgid": src, "dgid": dst, "ports": ports}
        word = RXD.random(self.rng, dest_qpn=index, layers=layers,
                          **{name: int.from_bytes(v, "little") for name, v in number.items()})
        self.source.put((word, 1))
        self.expected.append(dict(RXD.unpack(word), dest_qpn=self.qpn(index, layers, src, dst, ports)))

    def push_other(self):
        word = RXD.random(self.rng)
        self.source.put((word, 0))
        self.expected.append(RXD.unpack(word))

    async def finish(self):
        await self.bench.until(lambda: len(self.sink.got) >= len(self.expected), 100000, "frames")
        await self.bench.step(10)
        for one, want in zip((RXD.unpack(word) for word in self.sink.got), self.expected, strict=True):
            assert one == want


def random_frame(rng):
    layers = rng.choice([0, IPV4, IPV6]) | rng.choice([0, TCP, UDP])
    if not layers & (IPV4 | IPV6):
        layers = 0
    src, dst, ports = rng.randbytes(16), rng.randbytes(16), rng.randbytes(4)
    return layers, src, dst, ports


@cocotb.test()
async def rss_v_95_the_suite(dut):
    """Entry by entry the lower bits of the printed hashes, with ports and without."""
    rss = Rss(dut, 61, 1.0, 1.0)
    await rss.bench.start()
    await rss.write(3, KEY, 0xFF, 6)
    await rss.write(4, KEY, 0x0F, 6)
    for src, sport, dst, dport, with_ports, without in SUITE:
        src, dst = (ipaddress.ip_address(a).packed.ljust(16, b"\0") for a in (src, dst))
        ports = sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
        layers = (IPV4 if with_ports in [v[4] for v in SUITE[:5]] else IPV6) | TCP
        for index, value in ((3, with_ports), (4, without)):
            assert rss.qpn(index, layers, src, dst, ports) == rss.entries[index, value & 63]
            rss.push(index, layers, src, dst, ports)
    await rss.finish()


@cocotb.test()
async def rss_v_93_v_95_rows_of_all_kinds(dut):
    """Every size, any fields, frames of all kinds, packets between them, and both sides stalling."""
    rss = Rss(dut, 62, 0.8, 0.6)
    await rss.bench.start()
    for index in range(RSS_QPS):
        await rss.write(index, rss.rng.randbytes(40), rss.rng.choice([0xFF, 0x03, rss.rng.getrandbits(8)]), index % 7)
    for _ in range(600):
        rss.push(rss.rng.randrange(RSS_QPS), *random_frame(rss.rng))
        while rss.rng.random() < 0.4:
            rss.push_other()
    await rss.finish()


@cocotb.test()
async def rss_rates(dut):
    """A frame per cycle, eight cycles behind the first; what is not spread takes none."""
    rss = Rss(dut, 63, 1.0, 1.0)
    await rss.bench.start()
    await rss.write(0, KEY, 0xFF, 6)
    for _ in range(40):
        rss.push(0, *random_frame(rss.rng))
    await rss.finish()
    when = rss.sink.when
    assert when[-1] - when[0] == 39, when
    first = len(when)
    for _ in range(20):
        rss.push_other()
    await rss.finish()
    assert rss.sink.when[-1] - rss.sink.when[first] == 19


@cocotb.test()
async def hash_v_95_the_suite(dut):
    """All 32 bits of each hash of the suite, and of random data under random keys."""
    rng = Bench(dut, 64).rng
    cocotb.start_soon(Clock(dut.clk_i, 10).start())
    cases = []
    for src, sport, dst, dport, with_ports, without in SUITE:
        ips = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
        cases += [(KEY, ips + sport.to_bytes(2, "big") + dport.to_bytes(2, "big"), with_ports), (KEY, ips, without)]
    for _ in range(200):
        key, data = rng.randbytes(40), rng.randbytes(36)
        cases.append((key, data, toeplitz(key, data)))
    for i in range(len(cases) + 2):
        await FallingEdge(dut.clk_i)
        if i >= 2:
            assert int(dut.hash_o.value) == cases[i - 2][2], i
        if i < len(cases):
            dut.key_i.value = int.from_bytes(cases[i][0], "little")
            dut.data_i.value = int.from_bytes(cases[i][1], "little")


def test_rss():
    simulate("hca_rss", __name__, tests="rss_")


def test_toeplitz():
    simulate("hca_toeplitz", __name__, tests="hash_")
