"""hca_link_tx: no packet lost, changed or out of order on its VL, whatever the cable and the peer do; nobody waits for
another VL; management packets first; states, life time, priorities."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from tx_bench import ACTIVE, ARMED, DEFER, DOWN, INIT, PHY, VL15, Ages, Tx

VLS = 8
SIZES = (30, 94, 106, 64, 128, 1054, 2078, 4126)


def fcp(vl, op=0, fccl=0):
    """A link packet as the receive half offers it: FCTBS and LPCRC void."""
    head = bytes([op << 4 | 0xA, 0x55, vl << 4 | fccl >> 8, fccl & 255, 0x12, 0x34])
    return PHY.pack(link=1, last=1, len_bytes=6, data=int.from_bytes(head, "little"))


def load(tx, count, sizes=SIZES, vls=range(VLS)):
    """Queues random packets."""
    for _ in range(count):
        tx.send(tx.rng.choice(list(vls)), tx.rng.choice(sizes))


@cocotb.test()
async def stalls(dut):
    """VL-6: random stalls of the cable, credits that come slowly, two of three promises lost: no overflow at the peer,
    no loss, order kept per VL; FCTBS of link packets is true at their place."""
    for seed, rate, loss, drain in ((1, 1.0, 0.0, 0.6), (2, 0.6, 0.0, 0.3), (3, 0.9, 0.66, 0.6)):
        tx = Tx(dut, seed, rate=rate)
        await tx.start()
        tx.stream.gapless = rate == 1.0
        tx.peer.loss, tx.peer.drain = loss, drain
        tx.source.rate = 0.8
        load(tx, 220)
        tx.ctl.rate = 0.02
        tx.ctl.put(*(fcp(tx.rng.randrange(VLS), fccl=tx.rng.randrange(4096)) for _ in range(60)))
        await tx.drain()
        await tx.bench.until(tx.ctl.idle, 20000, "link packets")
        await tx.bench.step(30)
        assert len(tx.stream.links) == 60 and tx.events["ctl"] == 60 and tx.events["packet"] == 220
        assert tx.events["discard"] == tx.events["refused"] == 0


@cocotb.test()
async def withheld(dut):
    """VL-6: VLs whose peer promises nothing, or takes nothing, do not slow the others by one per cent; they wait, close
    towards the send side, and go on when credits come."""
    rates = {}
    for blocked in (set(), {0}, {3, 4, 6}):
        tx = await Tx(dut, 7).start()
        tx.peer.blocked, tx.peer.drain = blocked, 1.0
        tx.peer.size = 256
        for _ in range(20):
            for vl in blocked:
                if tx.open(vl):
                    tx.send(vl, 2078)
            await tx.bench.until(tx.source.idle, 400, "door")
            await tx.bench.step(40)
        await tx.bench.step(600)
        assert all(tx.open(vl) for vl in range(VLS) if vl not in blocked)
        before, start = tx.stream.blocks[1], tx.bench.cycle
        for _ in range(60):
            tx.send(1, 2078)
        await tx.bench.until(lambda before=before, tx=tx: tx.stream.blocks[1] == before + 60 * 33, 6000, "VL1")
        rates[len(blocked)] = 60 * 33 / (tx.bench.cycle - start)
        waiting = tx.bench.get("wait_o")
        assert {vl for vl in range(VLS) if waiting >> vl & 1} == blocked
        tx.peer.blocked = set()
        await tx.drain()
    assert all(abs(rate / rates[0] - 1) < 0.01 for rate in rates.values()) and rates[0] > 0.95, rates


@cocotb.test()
async def what_has_left(dut):
    """REL-6: a ring tells when all that was in it at some moment has left, not earlier, and at last; also of a VL that
    never runs empty, and when packets are thrown away. A VL without credits tells nothing until it has some."""
    for seed, drain in ((1, 1.0), (2, 0.4)):
        tx = await Tx(dut, seed, rate=0.9).start()
        tx.stream.gapless = False
        tx.peer.drain = drain
        ages = Ages(tx.bench, tx)
        load(tx, 300, vls=(0, 1, 2, 5))
        await tx.drain()
        assert ages.answers > 100 and all(ages.age(vl)["empty"] for vl in range(VLS)), ages.answers
    tx = await Tx(dut, 3).start()
    tx.peer.blocked, tx.peer.silent = {4}, {4}
    for _ in range(20):
        tx.send(4, 2078)
    await tx.bench.step(1500)
    ages = Ages(tx.bench, tx)
    await tx.bench.step(1000)
    assert ages.asked[4][1] > 0 and not ages.age(4)["empty"], "it still waits"
    tx.configure(state=INIT)
    await tx.bench.step(1000)
    assert tx.events["discard"] > 0 and ages.age(4)["empty"] and ages.answers > 0


@cocotb.test()
async def open_and_closed(dut):
    """A VL closes towards the send side at TxOpenBytes; below, nothing is ever stalled at the door."""
    tx = await Tx(dut, 8).start()
    tx.peer.blocked, tx.peer.silent = {2}, {2}
    for number in range(80):
        fill = tx.bench.get("fill_o", 24, 12)
        assert tx.open(2) == (fill < 256), f"{fill} blocks"
        tx.send(2, 300)
        await tx.bench.step(12)
        assert tx.source.idle(), f"packet {number} was stalled"
    tx.peer.blocked, tx.peer.silent = set(), set()
    await tx.drain()
    assert tx.open(2)


@cocotb.test()
async def management_first(dut):
    """VL-9, VL-6: VL15 needs no credits and overtakes all that waits, link packets too; anything else on VL15 is
    refused; what is longer than a management datagram or finds its ring full is dropped and counted."""
    tx = await Tx(dut, 9).start()
    tx.peer.silent = tx.peer.blocked = set(range(VLS))
    load(tx, 40, sizes=(2078,))
    await tx.bench.step(1500)
    stuck = len(tx.stream.order)
    for _ in range(5):
        tx.send(VL15, 290)
        await tx.bench.step(40)
    assert tx.stream.order[stuck:] == [(VL15, 290)] * 5
    for qpn, lnh in ((1, 2), (0x800000, 2)):
        tx.send(VL15, 290, expect=False, qpn=qpn)
    tx.send(VL15, 640, expect=False)
    await tx.bench.step(40)
    assert tx.events["refused"] == 2 and tx.events["discard"] == 1
    tx.stream.rate = 0
    for _ in range(8):
        tx.send(VL15, 290, expect=False)
        await tx.bench.step(8)
    tx.ctl.put(fcp(0))
    tx.stream.rate = 1.0
    await tx.bench.step(60)
    kept = len(tx.stream.packets[VL15]) - 5
    assert 2 <= kept <= 5 and tx.events["discard"] == 1 + 8 - kept
    tx.expected[VL15] = list(tx.stream.packets[VL15])
    tx.peer.silent = tx.peer.blocked = set()
    tx.peer.size = 1024
    await tx.bench.step(300)
    # A burst of data: a management packet leaves after two packets at most.
    at = len(tx.stream.order)
    tx.send(VL15, 290)
    await tx.bench.until(lambda: (VL15, 290) in tx.stream.order[at:], 400, "management packet")
    assert tx.stream.order[at:].index((VL15, 290)) <= 3
    await tx.drain()


@cocotb.test()
async def states(dut):
    """VL-14: what each state lets out; data is discarded and counted where it may not go; link packets go always."""
    for state in (DOWN, INIT, ARMED, ACTIVE, DEFER):
        tx = await Tx(dut, 10).start(state=state)
        tx.bench.set("phy_up_i", state != DEFER)
        passes = state == ACTIVE
        for vl in range(VLS):
            tx.send(vl, 94, expect=passes)
            tx.send(vl, 2078, expect=passes)
        tx.send(VL15, 290, expect=state in (INIT, ARMED, ACTIVE))
        tx.ctl.put(fcp(1, op=1))
        await tx.bench.step(600)
        if state in (DOWN, DEFER):
            assert not tx.stream.order, "left while the link was down"
        tx.check() if state != DEFER else None
        assert tx.events["discard"] == (0 if state in (ACTIVE, DEFER) else 16 + (state == DOWN)), f"state {state}"
        if state == DEFER:
            # Back again: nothing was lost.
            tx.bench.set("phy_up_i", 1)
            tx.configure(state=ACTIVE)
            await tx.bench.step(800)
            assert len(tx.stream.order) == 17 and tx.events["discard"] == 0
        assert len(tx.stream.links) == 1 and tx.stream.links[0] == (1, 1, 0)


@cocotb.test()
async def down_and_up(dut):
    """VL-14: DOWN empties the rings; afterwards credits and accounts begin anew, and nothing goes to a peer that still
    initialises."""
    tx = await Tx(dut, 11).start()
    tx.peer.silent = {1, 5}
    tx.peer.blocked = {1, 5}
    load(tx, 60, sizes=(2078,), vls=(1, 5))
    await tx.bench.step(2200)
    assert tx.bench.get("fill_o", 12, 12) > 0
    sent = len(tx.stream.order)
    tx.configure(state=DOWN)
    await tx.bench.until(lambda: tx.source.idle() and tx.bench.get("fill_o") == 0, 3000, "the rest thrown away")
    await tx.bench.step(30)
    assert tx.events["discard"] + sent == 60
    tx.expected, tx.serial = {}, [0] * 16
    tx.stream.packets, tx.stream.order, tx.stream.blocks = {}, [], [0] * 16
    tx.peer.abr, tx.peer.used = [0] * VLS, [0] * VLS
    tx.peer.silent = tx.peer.blocked = set()
    tx.peer.init = True
    for state in (INIT, ARMED, ACTIVE):
        tx.configure(state=state)
        await tx.bench.step(150)
    load(tx, 40)
    await tx.bench.step(500)
    assert not tx.stream.order, "the peer initialises"
    tx.peer.init = False
    tx.ctl.put(*(fcp(vl) for vl in range(VLS)))
    await tx.drain()


@cocotb.test()
async def life_time(dut):
    """Packet life time: a head that waits longer than 1024 cycles << n is discarded and counted; the next one has its
    own time; other VLs go on; with 31 nothing is ever discarded."""
    tx = Tx(dut, 12)
    tx.peer.silent = {2}
    await tx.start(hoq_life=0)
    for number in range(3):
        tx.send(2, 300, expect=False)
        tx.send(3, 300)
        assert tx.events["discard"] == 0 or number
        await tx.bench.step(2)
    died = []
    for _ in range(9000):
        await tx.bench.step()
        if tx.events["discard"] > len(died):
            died.append(tx.bench.cycle)
        if len(died) == 3:
            break
    gaps = [b - a for a, b in zip(died, died[1:])]
    assert len(died) == 3 and all(1024 <= gap <= 2 * 1024 + 64 for gap in gaps), gaps
    tx.check()
    tx.configure(hoq_life=31)
    tx.send(2, 300)
    await tx.bench.step(9000)
    assert tx.events["discard"] == 3
    tx.peer.silent = set()
    await tx.drain()


@cocotb.test()
async def line_rate(dut):
    """QOS-5, VL-13: every cycle carries a beat, with packets of 64 bytes of payload and of 2 KiB, one VL or many, both
    policies, while link packets go between them."""
    worst = {}
    for size, count in ((94, 300), (2078, 40)):
        for vls in ([0], [0, 1], list(range(VLS))):
            for policy in (0, 1):
                for tables in ("low", "both"):
                    low = [(vl, 33) for vl in vls]
                    high, low = ([], low) if tables == "low" else (low[:len(low) // 2], low[len(low) // 2:])
                    tx = await Tx(dut, 13, rate=0).start(high, low, round_quantum=policy, limit=3, mtu=4)
                    tx.peer.size, tx.peer.drain = 2048, 1.0
                    await tx.bench.step(2 * tx.peer.period)
                    for number in range(count):
                        tx.send(vls[number % len(vls)], size)
                    await tx.bench.step(count * -(-size // 64) * 3 // 4)
                    tx.stream.rate = 1.0
                    await tx.bench.step(20)
                    first, start = tx.stream.beats, tx.bench.cycle
                    await tx.bench.until(lambda tx=tx, count=count: len(tx.stream.order) >= count - 8, 4000, "most")
                    rate = (tx.stream.beats - first) / (tx.bench.cycle - start)
                    worst[size] = min(worst.get(size, 2), rate)
                    await tx.drain()
    dut._log.warning(f"beats per cycle, worst: {worst}")
    assert min(worst.values()) >= 0.97, worst


@cocotb.test()
async def latency(dut):
    """Cycles from a packet's last beat at the door to its first beat on the stream, everything idle."""
    tx = await Tx(dut, 17).start()
    for vl, size in ((0, 30), (5, 2078), (VL15, 290)):
        beats = tx.stream.beats
        tx.send(vl, size)
        await tx.bench.until(tx.source.idle, 100, "door")
        await tx.bench.until(lambda beats=beats: tx.stream.beats > beats, 40, "first beat")
        cycles = tx.bench.cycle - 1 - tx.source.taken[-1]
        dut._log.warning(f"VL{vl}, {size} bytes: {cycles} cycles")
        assert cycles <= 10
        await tx.drain()


@cocotb.test()
async def shares(dut):
    """QOS-12: the paper's rule through rings and credits: (Q, H, L) = (1, 16, 4), (2, 3, 2), (0, 2, 2) give 4, 3, 1."""
    for q, h, low, want in ((1, 16, 4, 4), (2, 3, 2, 3), (0, 2, 2, 1)):
        tx = await Tx(dut, 14, rate=0.6).start([(0, h)], [(1, low)], limit=q, mtu=4)
        tx.stream.gapless = False
        tx.peer.size, tx.peer.drain = 2048, 1.0
        for _ in range(110):
            for vl in (0, 1):
                if tx.open(vl):
                    tx.send(vl, 2078)
            await tx.bench.until(tx.source.idle, 200, "door")
            await tx.bench.until(lambda tx=tx: tx.open(0) or tx.open(1), 400, "open VL")
        order = [vl for vl, _ in tx.stream.order]
        begin, end = [i for i, vl in enumerate(order) if vl == 1][2], len(order) - 1 - order[::-1].index(1)
        window = order[begin:end]
        ratio = window.count(0) / window.count(1)
        assert abs(ratio / want - 1) < 0.04, f"{q, h, low}: {ratio} in {len(window)} packets"
        await tx.drain()


@cocotb.test()
async def not_operational(dut):
    """VL-4, VL-8: packets of a VL that is not operational are refused and counted; such a VL counts as open."""
    tx = await Tx(dut, 15).start(vl_mask=0b11)
    for vl in range(15):
        tx.send(vl, 94, expect=vl < 2)
        tx.send(vl, 1054, expect=vl < 2)
    await tx.bench.until(tx.source.idle, 2000, "door")
    await tx.drain()
    assert tx.events["refused"] == 26 and tx.events["discard"] == 0
    assert all(tx.open(vl) for vl in range(15))


@cocotb.test()
async def priorities(dut):
    """Ethernet: a paused priority waits and nobody else does; frames of the receive half go between packets; no
    credits."""
    tx = await Tx(dut, 16, ib=0, rate=0.9).start()
    tx.stream.gapless = False
    tx.bench.set("pfc_paused_i", 0b0010_0100)
    for _ in range(6):
        for prio in range(8):
            for kind in (4, 6):
                tx.send(prio, tx.rng.choice((70, 128, 1100)), kind=kind)
    tx.send(0, 100, kind=0)
    pause = bytes.fromhex("0180c2000001") + bytes(6) + bytes.fromhex("88080101") + bytes(range(44))
    for last in range(3):
        tx.ctl.put(PHY.pack(link=0, last=1, len_bytes=60, data=int.from_bytes(pause, "little")))
        assert last < 3
    await tx.bench.until(lambda: len(tx.stream.order) == 6 * 6 * 2 + 1, 6000, "priorities that are not paused")
    await tx.bench.step(300)
    assert set(tx.stream.packets) == {0, 1, 3, 4, 6, 7} and tx.stream.frames == [pause] * 3
    assert tx.bench.get("wait_o") == 0b0010_0100
    tx.configure(pfc_enable=0b1111_1011)
    await tx.bench.step(300)
    assert 2 in tx.stream.packets and 5 not in tx.stream.packets, "a priority without PFC ignores pauses"
    tx.bench.set("pfc_paused_i", 0)
    await tx.drain()


@cocotb.test()
async def traffic_classes(dut):
    """IEEE 802.1Q 8.6.6: a priority waits in the ring of its traffic class, and a pause of one stops the class; strict
    classes go first, the highest before the others; those with weights share what is left, exactly."""
    tx = await Tx(dut, 17, ib=0).start([], [(0, 32), (1, 8)], vl_mask=0xFF, strict=0b1100)
    tx.prio_tc = [0, 0, 1, 1, 2, 2, 3, 3]
    tx.configure()
    # All classes have waited; priority 5 is paused, and with it class 2, until the others have sent.
    tx.bench.set("phy_ready_i", 0)
    tx.bench.set("pfc_paused_i", 1 << 5)
    tx.stream.rate = 0.0
    for prio in (0, 1, 2, 4, 7) * 40:
        tx.send(prio, 254)
    await tx.bench.until(tx.source.idle, 20000, "door")
    await tx.bench.step(20)
    tx.stream.rate = 1.0
    await tx.bench.until(lambda: len(tx.stream.order) == 160, 20000, "classes that are not paused")
    order = [tx.prio_tc[prio] for prio, _ in tx.stream.order]
    assert 2 not in order
    # What was chosen before the pause of the cable ended may be of any class.
    ahead = next(i for i, tc in enumerate(order) if tc == 3)
    assert ahead <= 8 and order[ahead:ahead + 40] == [3] * 40, order
    shared = order[ahead + 40:ahead + 90]
    assert abs(shared.count(0) - 4 * shared.count(1)) <= 5, shared
    assert tx.bench.get("wait_o") == 1 << 2
    tx.bench.set("pfc_paused_i", 0)
    await tx.drain()
    # A strict class that always has a packet leaves nothing to the others, not even in the cycle after each.
    for size in (70, 1054):
        tx.stream.order.clear()
        tx.stream.rate = 0.0
        for prio in (0, 6) * 20:
            tx.send(prio, size)
        await tx.bench.until(tx.source.idle, 20000, "door")
        await tx.bench.step(20)
        tx.stream.rate = 1.0
        await tx.bench.until(lambda: len(tx.stream.order) == 40, 20000, "packets")
        order = [prio for prio, _ in tx.stream.order]
        rest = order[8:]    # those before may have been chosen while the others came
        assert rest == sorted(rest, reverse=True), order


def test_link_tx():
    simulate("hca_link_tx", __name__, {"TxOpenBytes": 16384})
