"""hca_sl_open: the gate of an SL is that of its VL; of a priority that of its traffic class."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate


@cocotb.test()
async def gates(dut):
    """VL-8: by the table; an SL mapped to VL15 is open, the link drops what it sends."""
    bench = Bench(dut, 1)
    await bench.start()
    for _ in range(300):
        table = [bench.rng.randrange(16) for _ in range(16)]
        vls = bench.rng.getrandbits(16)
        bench.set("vl_open_i", vls)
        bench.set("sl2vl_i", sum(vl << 4 * sl for sl, vl in enumerate(table)))
        await bench.step(2)
        want = sum((vl == 15 or vls >> vl & 1) << sl for sl, vl in enumerate(table))
        assert bench.get("sl_open_o") == want


def test_sl_open():
    simulate("hca_sl_open", __name__)
