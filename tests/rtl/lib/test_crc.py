"""CRC cells: the ICRC sample of IBA vol1 7.8.1, random packets back to back, zlib as judge."""

import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

SAMPLE = bytes.fromhex("f01237 5c000e17d20a202487ff87b1b3000dec2a01710a1c015d400238f27a05000000 0e"
                       "bb884d85fd5cfba4728bc0690ed40000")


def crc16(data):
    """Register of the reflected CRC-16, polynomial 0x100B, before the final inversion."""
    register = 0xFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xD008 if register & 1 else 0)
    return register


def crc32(data):
    """Register of the CRC-32 before the final inversion."""
    return zlib.crc32(data) ^ 0xFFFFFFFF


class Crc:
    """Feeds packets, collects results."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.got = []
        self.bench.agents.append(self)

    def drive(self):
        """Inputs are set by packet()."""

    def sample(self):
        if self.bench.get("done_o"):
            self.got.append(self.bench.get("crc_o"))

    async def packet(self, data, init):
        """One packet, one beat per cycle; junk behind its end."""
        bench = self.bench
        for at in range(0, len(data), 64):
            piece = data[at:at + 64]
            last = at + 64 >= len(data)
            bench.set("valid_i", 1)
            bench.set("first_i", at == 0)
            bench.set("end_i", last)
            bench.set("len_i", len(piece) if last else bench.rng.randrange(65))
            bench.set("init_i", init if at == 0 else 0)
            bench.set("data_i", int.from_bytes(piece + bench.rng.randbytes(64 - len(piece)), "little"))
            await bench.step()
        bench.set("valid_i", 0)


async def random_packets(dut, granule, init, reference):
    crc = Crc(dut, 1)
    await crc.bench.start()
    rng, want = crc.bench.rng, []
    lengths = list(range(granule, 260, granule)) + [4096 + 64, 4180] + [granule, 64, 2 * granule] * 20
    rng.shuffle(lengths)
    for length in lengths:
        data = rng.randbytes(length)
        want.append(reference(data))
        await crc.packet(data, init)
        if rng.random() < 0.3:
            await crc.bench.step(rng.randrange(4))
    await crc.bench.step(10)
    assert crc.got == want


@cocotb.test()
async def crc32_random(dut):
    """Lengths that are multiples of four."""
    await random_packets(dut, 4, 0xFFFFFFFF, crc32)


@cocotb.test()
async def crc32_sample(dut):
    """The packet of the specification: ICRC 0x9625B75A, and its residue."""
    crc = Crc(dut, 2)
    await crc.bench.start()
    await crc.packet(SAMPLE, 0xFFFFFFFF)
    await crc.packet(SAMPLE + bytes.fromhex("9625b75a"), 0xFFFFFFFF)
    await crc.bench.step(10)
    sent = (crc.got[0] ^ 0xFFFFFFFF).to_bytes(4, "little")
    assert sent == bytes.fromhex("9625b75a") and crc.got[1] == 0xDEBB20E3


@cocotb.test()
async def crc16_random(dut):
    """Even lengths."""
    await random_packets(dut, 2, 0xFFFF, crc16)


@cocotb.test()
async def crc16_sample(dut):
    """VCRC of the sample packet as sent (VL 7, ICRC appended), and its residue."""
    sent = b"\x70" + SAMPLE[1:12] + b"\0" + SAMPLE[13:] + bytes.fromhex("9625b75a")
    crc = Crc(dut, 3)
    await crc.bench.start()
    await crc.packet(sent, 0xFFFF)
    await crc.packet(sent + bytes.fromhex("45fa"), 0xFFFF)
    await crc.bench.step(10)
    assert (crc.got[0] ^ 0xFFFF).to_bytes(2, "little") == bytes.fromhex("45fa") and crc.got[1] == 0x556F


def test_crc32():
    simulate("hca_crc32_512", __name__, tests="crc32")


def test_crc16():
    simulate("hca_crc16_512", __name__, tests="crc16")
