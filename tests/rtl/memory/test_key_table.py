"""hca_key_table: both clients read what firmware wrote, at the same time, and data holds; a key with a page list waits
until both clients have forgotten."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import keys
from common import Bench, constants, simulate

MPT, ROWS = keys.MPT, constants()["NumMrs"]
INDEX_W = (ROWS - 1).bit_length()


def random_row(rng):
    """Rows with and without a list, and none."""
    return MPT.random(rng, valid=rng.random() < 0.7, page_shift=rng.choice([keys.DIRECT, 12, 21]))


async def write(bench, index, row, patience=0):
    """Writes a row; the clients answer one after the other, each after at most so many cycles."""
    fields = MPT.unpack(row)
    waits = bool(fields["valid"] and fields["page_shift"] != keys.DIRECT)
    bench.set("mpt_wr_valid_i", 1)
    bench.set("mpt_wr_index_i", index)
    bench.set("mpt_wr_i", row)
    for client in bench.rng.sample(range(2), 2) if waits else []:
        for _ in range(bench.rng.randint(0, patience)):
            await bench.step()
            assert bench.get("forget_valid_o", client, 1) and not bench.get("mpt_wr_ready_o")
            assert bench.get("forget_index_o") == index
        bench.set("forget_ready_i", 1 << client)
        await bench.step()
    await bench.until(lambda: bench.get("mpt_wr_ready_o") or waits, what="the write")
    bench.set("mpt_wr_valid_i", 0)
    bench.set("forget_ready_i", 0)
    await bench.step()
    assert not bench.get("forget_valid_o")


@cocotb.test()
async def reads_and_writes(dut):
    """Random writes, and reads on both ports, with read data held in between."""
    bench = Bench(dut, 1)
    await bench.start()
    rng = bench.rng
    stored, shown = {}, {}
    for row in range(0, ROWS, ROWS // 32):
        stored[row] = random_row(rng)
        await write(bench, row, stored[row])
    for _ in range(400):
        row = rng.choice(list(stored))
        if rng.random() < 0.3:
            stored[row] = random_row(rng)
            await write(bench, row, stored[row], patience=9)
        for client in range(2):
            read = rng.random() < 0.5
            at = rng.choice([row, rng.choice(list(stored))])
            bench.set("mpt_re_i", read, client, 1)
            bench.set("mpt_raddr_i", at, client * INDEX_W, INDEX_W)
            if read:
                shown[client] = stored[at]
        await bench.step()
        bench.set("mpt_re_i", 0)
        await bench.step(rng.randint(1, 2))
        for client, row in shown.items():
            assert bench.get("mpt_rdata_o", client * MPT.width, MPT.width) == row


def test_key_table():
    simulate("hca_key_table", __name__)
