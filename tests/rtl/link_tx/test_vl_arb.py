"""hca_vl_arb: the paper's ratios, the literal rule, and weighted sharing, on VLs that always have packets."""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from arb_common import BENCH, IBA, ROUND, Arb, Reference, formula
from common import simulate

# QOS-12, and the six points of the paper: (Q, H, L): ratio.
QOS_12 = {(1, 16, 1): 16, (1, 16, 4): 4, (1, 16, 8): 2, (1, 16, 9): 1.778, (1, 16, 15): 1.067, (1, 16, 16): 2,
          (1, 16, 23): 1.391, (1, 16, 24): 2, (1, 16, 31): 1.548, (1, 16, 32): 2, (4, 64, 15): 4.267, (4, 64, 8): 8,
          (2, 64, 31): 2.065, (2, 64, 32): 4}
PAPER = {(0, 2, 2): 1, (1, 16, 4): 4, (2, 3, 2): 3, (5, 10, 90): 10, (6, 8, 40): 12, (8, 25, 100): 16}


async def ratio(arb, q, h, low, cycles, **more):
    """Bandwidth of VL0 (high) over that of VL1 (low)."""
    await arb.setup([(0, h)], [(1, low)], limit=q, **more)
    size, _, _ = await arb.measure(cycles, mark=1 if formula(q, h, low) >= 1 else 0)
    return size[0] / size[1]


def near(got, want, percent=1.0):
    """Equal within a part in a hundred."""
    return abs(got - want) <= want * percent / 100


@cocotb.test()
async def sample_points(dut):
    """QOS-12, QOS-15, QOS-16: round-quantum gives the paper's numbers."""
    arb = await Arb(dut).start()
    for point, want in {**QOS_12, **PAPER}.items():
        assert abs(formula(*point) - want) < 0.001, point
        got = await ratio(arb, *point, cycles=40000)
        assert near(got, want), f"{point}: {got:.4f} instead of {want}"


@cocotb.test()
async def random_points(dut):
    """QOS-15: 200 random (Q, H, L), packets of 2 KiB and their headers."""
    arb = await Arb(dut).start()
    rng = random.Random(12)
    begin, worst = time.time(), 0
    for _ in range(200):
        q, h, low = rng.randrange(255), rng.randint(1, 255), rng.randint(1, 255)
        want = formula(q, h, low)
        got = await ratio(arb, q, h, low, cycles=int(20000 + 200 * want), size=2078)
        worst = max(worst, abs(got / want - 1))
        assert near(got, want), f"{q, h, low}: {got:.4f} instead of {want:.4f}"
    dut._log.warning(f"worst of 200 points: {100 * worst:.2f} %, {time.time() - begin:.1f} s")


@cocotb.test()
async def literal_rule(dut):
    """QOS-14, VL-12: policy iba gives 2Q packets of 2 KiB whatever the weights; limit 0 one packet, 255 all."""
    arb = await Arb(dut).start()
    for q, h, low in [(1, 16, 4), (2, 3, 2), (2, 64, 31), (6, 8, 40), (14, 255, 1), (40, 1, 255), (254, 7, 9)]:
        for size in (2048, 2078, 2094):
            got = await ratio(arb, q, h, low, cycles=3000 + 200 * q, policy=IBA, size=size)
            assert near(got, 2 * q), f"{q, h, low} size {size}: {got:.4f} instead of {2 * q}"
    assert await ratio(arb, 0, 1, 200, cycles=4000, policy=IBA, size=2078) == 1
    for policy in (IBA, ROUND):
        await arb.setup([(0, 1)], [(1, 255)], limit=255, policy=policy)
        _, packets, _ = await arb.measure(4000, mark=0)
        assert packets[1] == 0 and packets[0] > 300, "limit 255: low gets what high leaves"


def random_list(rng, vls, kind):
    """Entries in random order, some VLs more than once; weights small, large or mixed; some weights 0."""
    top = {"small": 3, "large": 255, "mixed": rng.choice([20, 255])}[kind]
    entries = [(vl, rng.randint(1, top)) for vl in vls for _ in range(rng.choice([1, 1, 1, 2, 4]))]
    entries += [(rng.randrange(16), 0) for _ in range(3)]
    rng.shuffle(entries)
    return entries


@cocotb.test()
async def every_decision(dut):
    """VL-12, QOS-2, QOS-14: each decision is the one of a plain model of the rules, in both policies: jumped laps,
    several VLs per list, several entries per VL, a VL in both lists, weights below a packet, any size."""
    arb = await Arb(dut).start()
    rng = random.Random(3)
    for trial in range(40):
        vls = list(range(arb.vls))
        rng.shuffle(vls)
        cut = rng.randint(0, arb.vls)
        kind = ["small", "large", "mixed"][trial % 3]
        high, low = random_list(rng, vls[:cut], kind), random_list(rng, vls[cut - (trial % 5 == 0):], kind)
        limit, policy = rng.choice([0, 1, 2, 9, 254, 255]), trial % 2
        mtu = rng.choice([256, 512, 1024, 2048, 4096])
        size, spread = rng.choice([(30, 0), (94, 0), (2078, 0), (30, 63), (26, 4095)])
        await arb.setup(high, low, limit, policy, mtu, size, spread, paced=rng.randrange(2))
        model = Reference(high, low, limit, policy, mtu)
        if not model.high.entries and not model.low.entries:
            continue
        await arb.run(2)
        for number, (vl, got_size) in enumerate(await arb.picks(150)):
            want, sent = model.next()
            assert vl == want, f"trial {trial}, decision {number}: VL{vl} instead of VL{want}"
            sent(vl, got_size)


@cocotb.test()
async def shares_in_bytes(dut):
    """QOS-16, VL-12: random sizes, several VLs per list: bytes are shared as the weights say, also below a packet."""
    arb = await Arb(dut).start()
    for high, low, limit in [([(0, 3), (1, 100)], [(2, 40), (3, 7), (4, 1)], 2),
                             ([(0, 1), (5, 2)], [(3, 2), (2, 1)], 0),
                             ([], [(vl, vl + 1) for vl in range(arb.vls)], 4),
                             ([(0, 5), (1, 9), (0, 4)], [(2, 6), (3, 12), (2, 6)], 1)]:
        await arb.setup(high, low, limit, ROUND, size=26, spread=4095)
        size, _, _ = await arb.measure(60000, mark=low[0][0])
        total = {vl: sum(w for v, w in high if v == vl) for vl, _ in high}
        h, lows = sum(total.values()), sum(w for _, w in low)
        n = max(1, limit * 2 * lows // h) if h else 1
        total = {vl: n * weight for vl, weight in total.items()}
        for vl, weight in low:
            total[vl] = total.get(vl, 0) + weight
        for vl, weight in total.items():
            want = sum(size) * weight / sum(total.values())
            assert near(size[vl], want, 1.5), f"VL{vl}: {size[vl]} of {sum(size)} bytes instead of {want:.0f}"


@cocotb.test()
async def full_rate(dut):
    """VL-13, QOS-5: no setting costs bandwidth: while VLs have packets of 2 KiB the link is not idle (0.5 %), with
    weights of one unit too. What does cost: weights of one unit with packets of two beats,
    and tables full of such entries."""
    arb = await Arb(dut).start()
    every = list(range(arb.vls))
    lists = {"one and one": ([(0, 1)], [(1, 1)]), "all low": ([], [(vl, 1) for vl in every]),
             "one high": ([(0, 1)], [(vl, 1) for vl in every[1:]]), "all high": ([(vl, 1) for vl in every], []),
             "large": ([(0, 255)], [(1, 255)]), "uneven": ([(0, 1)], [(1, 255)]), "reverse": ([(0, 255)], [(1, 1)]),
             "64 entries": ([(vl % arb.vls, 1) for vl in range(64)], [(n % 2, 1) for n in range(64)]),
             "halves": ([(vl, 1) for vl in every[::2]], [(vl, 2) for vl in every[1::2]])}
    worst = {}
    for name, (high, low) in lists.items():
        for policy in (IBA, ROUND):
            for limit in (0, 1, 3, 254):
                for size, spread in ((2078, 0), (94, 0), (26, 4095)):
                    await arb.setup(high, low, limit, policy, size=size, spread=spread, paced=1)
                    _, _, idle = await arb.measure(3000)
                    key = size, name == "64 entries"
                    worst[key] = max(worst.get(key, (0,)), (idle / 30, name, policy, limit))
    dut._log.warning(f"idle cycles in a hundred, by size: {worst}")
    most = {(2078, False): 0.5, (94, False): 8, (26, False): 1, (2078, True): 3, (94, True): 20, (26, True): 7}
    assert all(worst[key][0] <= most[key] for key in most), worst


@cocotb.test()
async def work_conserving(dut):
    """VL-13: a list without packets leaves everything to the other; VLs with no weight get nothing; no VL that has
    a weight starves while the limit is not 255."""
    arb = await Arb(dut).start()
    high, low = [(0, 7), (1, 1)], [(2, 8), (3, 64), (4, 0)]
    for policy in (IBA, ROUND):
        for active in ([0], [1], [2], [3], [2, 3], [0, 3], [4], [4, 2], [0, 1, 2, 3, 4]):
            await arb.setup(high, low, 3, policy, size=94, paced=1, active=active)
            size, packets, idle = await arb.measure(12000, mark=active[-1] if active[-1] != 4 else active[0])
            served = {vl for vl in range(arb.vls) if packets[vl]}
            assert served == set(active) - {4}, f"policy {policy}, {active}: served {served}"
            assert idle <= 120 or active == [4], f"policy {policy}, {active}: {idle} idle cycles"


def test_vl_arb_sweep():
    simulate("arb_bench", __name__, {"NumVls": 2}, "sample_points|random_points", BENCH)


def test_vl_arb():
    others = "literal_rule|every_decision|shares_in_bytes|full_rate|work_conserving"
    simulate("arb_bench", __name__, {"NumVls": 15}, others, BENCH)
