"""hca_key_table: places by function; a forgetting is over when all who were asked have forgotten."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, constants, simulate, struct

PLACE, FORGET = struct("key_place_t"), struct("key_forget_t")
FUNCS = constants()["NumFuncs"]


@cocotb.test()
async def places(dut):
    """After reset no function has a table; each keeps its own."""
    bench = Bench(dut, 1)
    await bench.start()
    rng = bench.rng

    def shown(func):
        return PLACE.unpack(bench.get("tables_o", func * PLACE.width, PLACE.width))

    assert not any(shown(func)["valid"] for func in range(FUNCS))
    wanted = {}
    for _ in range(40):
        func, word = rng.randrange(FUNCS), PLACE.random(rng)
        bench.set("wr_valid_i", 1)
        bench.set("wr_func_i", func)
        bench.set("wr_i", word)
        await bench.step()
        bench.set("wr_valid_i", 0)
        await bench.step()
        wanted[func] = PLACE.unpack(word)
        assert all(shown(func) == place for func, place in wanted.items())


@cocotb.test()
async def forgetting(dut):
    """Keys of both clients, page lists only where asked; each is asked until it is ready, once, in any order."""
    bench = Bench(dut, 2)
    await bench.start()
    rng = bench.rng
    for _ in range(200):
        word = FORGET.random(rng)
        fields = FORGET.unpack(word)
        waits = 0b1111 if fields["pages"] or fields["all"] else 0b0101
        bench.set("forget_valid_i", 1)
        bench.set("forget_i", word)
        while waits:
            ready = rng.getrandbits(4) & rng.getrandbits(4)
            bench.set("forget_ready_i", ready)
            await bench.step()
            # What was seen at the edge before.
            assert bench.get("forget_o") == word
            waits &= ~ready
            last = not waits
            if not last:
                bench.set("forget_ready_i", 0)
                await bench.step()
                assert bench.get("forget_valid_o") == waits and not bench.get("forget_ready_o")
        bench.set("forget_valid_i", 0)
        bench.set("forget_ready_i", 0)
        await bench.step()
        assert not bench.get("forget_valid_o")


def test_key_table():
    simulate("hca_key_table", __name__)
