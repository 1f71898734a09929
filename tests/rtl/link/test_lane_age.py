"""hca_lane_age: the ring of a lane, by the port's table and number of VLs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import Bench, simulate, struct

AGE, ASK = struct("ring_age_t"), struct("lane_ask_t")


@cocotb.test()
async def rings(dut):
    """REL-6, VL-8: by the SL or priority and the table of its port; a lane without a ring has let everything out."""
    bench, vls = Bench(dut, 1), int(dut.NumVls.value)
    await bench.start()
    for _ in range(400):
        rng = bench.rng
        table = [[rng.randrange(16) for _ in range(16)] for _ in range(2)]
        ages = [[dict(empty=rng.getrandbits(1), epoch=rng.getrandbits(16), mark=rng.getrandbits(16))
                 for _ in range(vls)] for _ in range(2)]
        ask = dict(port=rng.getrandbits(1), sl=rng.randrange(16))
        bench.set("sl2vl_i", sum(vl << 4 * (16 * port + sl) for port in range(2) for sl, vl in enumerate(table[port])))
        bench.set("age_i", sum(AGE.pack(**age) << AGE.width * (vls * port + vl)
                               for port in range(2) for vl, age in enumerate(ages[port])))
        bench.set("ask_i", ASK.pack(**ask))
        await bench.step(2)
        port = ask["port"]
        vl = table[port][ask["sl"]]
        got = AGE.unpack(bench.get("age_o"))
        if vl < vls:
            assert got == ages[port][vl]
        else:
            assert got["empty"]


@pytest.mark.parametrize("vls", [1, 2, 8, 15])
def test_lane_age(vls):
    """Runs the tests of this file."""
    simulate("hca_lane_age", __name__, parameters={"NumVls": vls})
