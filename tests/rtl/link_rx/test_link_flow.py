"""hca_fcp_tx, hca_pfc_tx, hca_pfc_rx: when flow control goes out, what it says, how long a pause lasts."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent / "wire")]

import cocotb
from common import simulate
from link_ref import eth_frame, fcp, ib_packet, pfc
from link_rx_bench import ACTIVE, ARMED, CAP, DOWN, INIT, ME, NUM_VLS, Rx

PERIOD, GAP = 2048, 32      # as the bench is built


class Strobes:
    """Counts the cycles in which each priority's bit of a port is set."""

    def __init__(self, bench, port):
        self.bench, self.port, self.counts = bench, port, [0] * 8
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        for p in range(8):
            self.counts[p] += self.bench.get(self.port, p, 1)


@cocotb.test()
async def fcp_lifecycle(dut):
    """Operand "init" until ARMED, "normal" from then on; every operational VL at once after a change, and again in
    every period; none for other VLs, none when DOWN."""
    rx = await Rx(dut, 1, vls=4).start(DOWN)
    await rx.bench.step(2 * PERIOD)
    assert not rx.fcps
    for state, op in ((INIT, 1), (ARMED, 0)):
        rx.fcps.clear()
        await rx.set_state(state)
        await rx.bench.step(4 * (GAP + 4))
        assert {(o, vl, fccl) for _, o, _, vl, fccl in rx.fcps} == {(op, vl, CAP) for vl in range(4)}
        assert len(rx.fcps) <= 6
        await rx.bench.step(5 * PERIOD)
        for vl in range(4):
            times = [t for t, o, _, v, _ in rx.fcps if v == vl and o == op]
            assert len(times) >= 5
            assert all(b - a <= PERIOD + 4 * (GAP + 4) for a, b in zip(times, times[1:], strict=False))
        assert len(rx.fcps) <= 4 * 7 + 2
    rx.fcps.clear()
    await rx.set_state(ACTIVE)
    await rx.set_state(DOWN)
    await rx.bench.step(PERIOD)
    assert not rx.fcps


@cocotb.test()
async def fcp_on_progress(dut):
    """Drained blocks are told after a quarter of the ring; a peer that has less than a packet left hears of any
    block; the FCPs of many busy VLs never come closer than the gap, and each busy VL gets its turn."""
    rx = await Rx(dut, 2).start()
    bench, rng = rx.bench, rx.rng
    await bench.step(NUM_VLS * (GAP + 4))
    rx.fcps.clear()
    await bench.step(bench.cycle % PERIOD)
    # The peer has plenty: nothing is said before a quarter has moved.
    while bench.cycle % PERIOD < 600:
        await bench.step()
    rx.fcps.clear()
    for _ in range(CAP // 4 - 1):
        rx.send(0, 60)
    await rx.finish()
    assert not rx.fcps
    rx.send(0, 60)
    await rx.finish()
    assert [(vl, fccl) for _, _, _, vl, fccl in rx.fcps] == [(0, CAP + CAP // 4)]
    # Fill up what was promised; one block drained is told, though it is no quarter.
    bench.set("hold_i", 1 << 1)
    await bench.step(2)
    for _ in range(CAP):
        rx.send(1, 60)
    await bench.until(rx.phy.idle)
    await bench.step(60)
    rx.fcps.clear()
    bench.set("hold_i", 0)
    await bench.until(lambda: rx.fcps, 10, "FCP")
    assert rx.fcps[0][3] == 1 and 0 < (rx.fcps[0][4] - CAP) % 4096 < 8
    await rx.finish()
    # All VLs busy.
    start = bench.cycle

    def feed():
        vl = rng.randrange(NUM_VLS)
        if rx.credit(vl) >= 66 and bench.cycle < start + 8000:
            rx.send(vl, rng.choice((60, 600, 4192)))

    rx.phy.feed, rx.fcps[:] = feed, []
    await bench.step(8000)
    rx.phy.feed = None
    await rx.finish()
    times = [t for t, *_ in rx.fcps]
    assert min(b - a for a, b in zip(times, times[1:], strict=False)) > GAP
    share = len([t for t in times if t < start + 8000]) / 8000
    assert {vl for _, _, _, vl, _ in rx.fcps} == set(range(NUM_VLS)) and share < 0.02
    assert rx.bench.get("mac_valid_o") == 0 and rx.count["packet"] > 300
    dut._log.warning(f"share of the line that flow control took at full load: {share:.2%}")


@cocotb.test()
async def fcp_resync(dut):
    """Blocks that the cable lost are promised again after the sender's next FCP."""
    rx = await Rx(dut, 3).start()
    await rx.bench.step(NUM_VLS * (GAP + 4))
    for _ in range(3):
        rx.send(6, 4192, lose=True)
    assert rx.credit(6) == CAP - 3 * 66
    await rx.bench.step(2 * PERIOD)
    assert rx.credit(6) == CAP - 3 * 66, "nobody told the receiver"
    rx.push(fcp(0, 6, rx.fctbs[6], 0), "fcp", link=1)
    await rx.bench.step(100)
    assert rx.credit(6) == CAP
    await rx.finish()


@cocotb.test()
async def pfc_sent(dut):
    """XOFF at the upper mark, repeated while it lasts, XON at the lower mark; only enabled priorities; the frame is as
    IEEE 802.1Qbb says."""
    rx = await Rx(dut, 4, ib=0, room_rate=0.0, pfc=0b01001000).start()
    prios, stops = {}, Strobes(rx.bench, "pfc_sent_o")

    def fill(prio, beats):
        frame = eth_frame(rx.rng, prio, 64 * beats, "ipv6")
        prios[frame] = prio
        rx.push(frame)

    for prio, count in ((3, 2), (1, 3)):
        for _ in range(count):
            fill(prio, 60)
    await rx.bench.until(rx.phy.idle)
    await rx.bench.step(20)
    assert not rx.pfcs, "priority 1 is not enabled, 3 is below its mark"
    fill(3, 30)
    await rx.bench.until(rx.phy.idle)
    await rx.bench.step(20)
    assert [frame for _, frame in rx.pfcs] == [pfc({3: 0xFFFF, 6: 0}, ME)]
    await rx.bench.step(5000)
    assert 5 <= len(rx.pfcs) <= 6 and {frame for _, frame in rx.pfcs} == {pfc({3: 0xFFFF, 6: 0}, ME)}
    for _ in range(3):
        fill(6, 50)
    await rx.bench.until(rx.phy.idle)
    await rx.bench.step(20)
    assert rx.pfcs[-1][1] == pfc({3: 0xFFFF, 6: 0xFFFF}, ME)
    rx.room.rate = 1.0
    await rx.finish(key=prios.get)
    assert rx.pfcs[-1][1] == pfc({3: 0, 6: 0}, ME)
    sent = len(rx.pfcs)
    await rx.bench.step(3000)
    assert len(rx.pfcs) == sent
    told = [frame for _, frame in rx.pfcs]
    assert stops.counts == [sum(frame[18 + 2 * p:20 + 2 * p] != bytes(2) for frame in told) for p in range(8)]


@cocotb.test()
async def pfc_obeyed(dut):
    """A pause lasts its quanta, 1.28 cycles each; a new frame replaces it, zero ends it; priorities that are not
    enabled do not obey; the frames never go further."""
    rx = await Rx(dut, 5, ib=0, pfc=0b11110111).start()
    bench, stops = rx.bench, Strobes(rx.bench, "pfc_received_o")

    async def lasts(quanta):
        rx.phy.put(pfc(quanta))
        await bench.until(lambda: bench.get("pfc_paused_o"), 10, "pause")
        ends = {}
        start, before = bench.cycle, 0xFF
        while bench.get("pfc_paused_o"):
            now = bench.get("pfc_paused_o")
            ends.update({p: bench.cycle - start for p in range(8) if before & ~now & 1 << p})
            before = now
            await bench.step()
        ends.update({p: bench.cycle - start for p in range(8) if before & 1 << p})
        return ends

    for quanta in ({0: 1}, {0: 1000, 7: 3, 2: 77, 3: 500}, {1: 0, 4: 25}):
        ends = await lasts(quanta)
        for p in range(8):
            # Rounded up to whole cycles.
            want = -(-quanta.get(p, 0) * 128 // 100) if p != 3 else 0
            assert abs(ends[p] - want) <= 1 if want else ends[p] <= 1, f"{p}: {ends[p]}, wanted {want}"
    rx.phy.put(pfc({5: 0xFFFF}))
    await bench.step(1000)
    assert bench.get("pfc_paused_o") == 1 << 5
    rx.phy.put(pfc({5: 0xFFFF}, opcode=0x0001))
    rx.phy.put(pfc({2: 0xFFFF})[:33])
    rx.push(pfc({5: 0, 1: 0}), "symbol_err", err_at=0)
    await bench.step(20)
    assert bench.get("pfc_paused_o") == 1 << 5
    rx.phy.put(pfc({5: 0, 6: 2000}))
    await bench.step(20)
    assert bench.get("pfc_paused_o") == 1 << 6
    await rx.set_state(DOWN)
    await bench.step(3)
    assert bench.get("pfc_paused_o") == 0
    await rx.finish()
    assert not rx.got
    assert stops.counts == [2, 0, 1, 0, 1, 1, 1, 1], "good frames that stop a priority with PFC"


@cocotb.test()
async def personality(dut):
    """InfiniBand sends no PFC and takes MAC control frames for packets; Ethernet sends no FCP."""
    rx = await Rx(dut, 6, ib=1, room_rate=0.0, pfc=0xFF).start()
    while rx.field("fill_o", 0, 9) < CAP:
        rx.push(ib_packet(rx.rng, 0, 2048))
        await rx.bench.until(rx.phy.idle)
        await rx.bench.step(3)
    await rx.bench.step(2000)
    assert rx.fcps and not rx.pfcs and rx.bench.get("pfc_paused_o") == 0
    rx = await Rx(dut, 6, ib=0, pfc=0xFF).start()
    await rx.bench.step(3000)
    assert not rx.fcps


def test_link_flow():
    simulate("link_rx_bench", "test_link_flow", source=Path(__file__).resolve().parent / "link_rx_bench.sv")
