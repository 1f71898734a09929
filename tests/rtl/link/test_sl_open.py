"""hca_sl_open: the gate of an SL is that of its VL; Ethernet has priorities in the place of SLs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate


@cocotb.test()
async def gates(dut):
    """VL-8: by the table on InfiniBand; an SL mapped to VL15 is open, the link drops what it sends."""
    bench = Bench(dut, 1)
    await bench.start()
    for _ in range(300):
        table = [bench.rng.randrange(16) for _ in range(16)]
        vls, ib = bench.rng.getrandbits(16), bench.rng.getrandbits(1)
        bench.set("ib_i", ib)
        bench.set("vl_open_i", vls)
        bench.set("sl2vl_i", sum(vl << 4 * sl for sl, vl in enumerate(table)))
        await bench.step(2)
        want = sum((vl == 15 or vls >> vl & 1) << sl for sl, vl in enumerate(table))
        assert bench.get("sl_open_o") == (want if ib else vls)


def test_sl_open():
    simulate("hca_sl_open", __name__)
