"""hca_key_table: both clients read what firmware wrote, at the same time, and data holds."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, constants, simulate, struct

MPT = struct("mpt_t")


@cocotb.test()
async def reads_and_writes(dut):
    """Random writes and reads of both tables on both ports, with read data held in between."""
    bench = Bench(dut, 1)
    await bench.start()
    rng = bench.rng
    tables = [("mpt", constants()["NumMrs"], MPT.width, 10), ("mtt", constants()["NumMtts"], 64, 16)]
    stored = {name: {} for name, *_ in tables}
    for name, depth, width, _ in tables:
        for row in range(0, depth, depth // 32):
            stored[name][row] = rng.getrandbits(width)
            bench.set(f"{name}_we_i", 1)
            bench.set(f"{name}_waddr_i", row)
            bench.set(f"{name}_wdata_i", stored[name][row])
            await bench.step()
        bench.set(f"{name}_we_i", 0)
    shown = {}
    for _ in range(600):
        for name, _, width, addr_width in tables:
            rows = list(stored[name])
            row = rng.choice(rows)
            write = rng.random() < 0.3
            bench.set(f"{name}_we_i", write)
            bench.set(f"{name}_waddr_i", row)
            new = rng.getrandbits(width)
            bench.set(f"{name}_wdata_i", new)
            for client in range(2):
                read = rng.random() < 0.5
                at = rng.choice([row, rng.choice(rows)])
                bench.set(f"{name}_re_i", read, client, 1)
                bench.set(f"{name}_raddr_i", at, client * addr_width, addr_width)
                if read:
                    shown[name, client] = stored[name][at]
            if write:
                stored[name][row] = new
        await bench.step()
        bench.set("mpt_re_i", 0)
        bench.set("mtt_re_i", 0)
        bench.set("mpt_we_i", 0)
        bench.set("mtt_we_i", 0)
        await bench.step(rng.randint(1, 2))
        for name, _, width, _ in tables:
            for client in range(2):
                if (name, client) in shown:
                    assert bench.get(f"{name}_rdata_o", client * width, width) == shown[name, client]


def test_key_table():
    simulate("hca_key_table", __name__)
