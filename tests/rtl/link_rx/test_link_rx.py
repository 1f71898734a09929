"""hca_link_rx: packets to rings and out again, credits that never promise too much, everything that must not come
in."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent / "wire")]

import cocotb
from common import simulate
from link_ref import VL15, blocks, eth_frame, fcp, ib_packet
from link_rx_bench import ACTIVE, ARMED, CAP, DOWN, INIT, NUM_VLS, UPD, Rx

SIZES = (26, 62, 63, 64, 65, 128, 129, 200, 1000, 2100, 4192)


def sizes(rng):
    return rng.choice(SIZES) if rng.random() < 0.7 else rng.randrange(26, 4193)


@cocotb.test()
async def credits_hold(dut):
    """VL-6: a sender that uses every credit it is given, over all VLs, against a slow receiver that stalls for long,
    with lost packets and lost FCPs: nothing overflows, nothing is lost in the ring, order holds per VL, no credit is
    lost."""
    rx = await Rx(dut, 1, rate=0.9, sink_rate=0.9, room_rate=0.5, fcp_rate=0.3).start()
    rng, budget = rx.rng, [1200]

    def feed():
        rx.room.rate = 0.0 if rx.bench.cycle // 1500 % 3 == 2 else 0.5     # stalls of 1500 cycles
        if not budget[0]:
            return
        if rng.random() < 0.05:       # the sender's own FCP: repairs what was lost
            vl = rng.randrange(NUM_VLS)
            rx.push(fcp(0, vl, rx.fctbs[vl], 0), "fcp", link=1)
            return
        vl, size = rng.choice((*range(NUM_VLS), VL15)), sizes(rng)
        if vl == VL15:
            if rng.random() < 0.2 and rx.bench.get("vl15_fill_o") == 0:
                rx.send(vl, 290)
        elif rx.credit(vl) >= (size + 63) // 64:
            budget[0] -= 1
            rx.send(vl, size, lose=rng.random() < 0.03)

    rx.phy.feed = feed
    await rx.bench.until(lambda: not budget[0], 100000, "all sent")
    rx.phy.feed, rx.room.rate = None, 1.0
    await rx.finish()
    assert rx.count["fcp"] > 20
    # After resynchronisation all of the ring is promised again.
    for vl in range(NUM_VLS):
        rx.push(fcp(0, vl, rx.fctbs[vl], 0), "fcp", link=1)
    await rx.bench.step(3000)
    for vl in range(NUM_VLS):
        assert rx.field("fill_o", vl, 9) == 0 and rx.field("abr_o", vl, 12) == rx.fctbs[vl]
        assert rx.credit(vl) == CAP, f"VL{vl}: {rx.credit(vl)} of {CAP} blocks"


@cocotb.test()
async def never_too_much(dut):
    """Nobody drains: a VL takes exactly the blocks it promised, then drops and counts; other VLs are not touched."""
    rx = await Rx(dut, 2, room_rate=0.0).start()
    await rx.bench.step(400)
    assert all(rx.credit(vl) == CAP for vl in range(NUM_VLS))
    left = CAP
    while left:
        packet = ib_packet(rx.rng, 3, sizes(rx.rng))
        if blocks(packet) <= left:
            left -= blocks(packet)
            rx.push(packet)
    for size in (26, 4192, 64, 26):
        rx.push(ib_packet(rx.rng, 3, size), "overrun")
        rx.push(ib_packet(rx.rng, 4, size))
    for _ in range(3):
        rx.push(ib_packet(rx.rng, VL15, 290))
    rx.push(ib_packet(rx.rng, VL15, 290), "vl15_drop")
    rx.push(ib_packet(rx.rng, VL15, 40))
    await rx.bench.until(rx.phy.idle)
    await rx.bench.step(10)
    assert rx.field("fill_o", 3, 9) == CAP and rx.counts() == rx.count
    rx.room.rate = 1.0
    await rx.finish()


@cocotb.test()
async def overrun_while_draining(dut):
    """A sender that knows no credits against a slow receiver: packets are missing as wholes and counted, those that
    come out are unchanged and in order."""
    rx = await Rx(dut, 10, room_rate=0.3, sink_rate=0.4).start()
    for _ in range(300):
        rx.want.append(ib_packet(rx.rng, rx.rng.choice((0, 0, 0, 1)), rx.rng.choice((64, 300, 2000, 4192))))
        rx.phy.put(rx.want[-1])
        await rx.bench.until(rx.phy.idle)
    rx.room.rate = rx.sink.rate = 1.0
    await rx.bench.step(5)
    counts = rx.counts()
    assert counts["packet"] + counts["overrun"] == 300 and min(counts["packet"], counts["overrun"]) > 50
    await rx.bench.until(lambda: len(rx.got) == counts["packet"], 5000, "packets out")
    for vl in (0, 1):
        sent = iter(packet for packet in rx.want if packet[0] >> 4 == vl)
        assert all(packet in sent for packet, _, _ in rx.got if packet[0] >> 4 == vl), "changed or out of order"


@cocotb.test()
async def bad_packets(dut):
    """Symbol errors in any beat, oversize, short beats, VLs that are not operational, VL15 with another QP (VL-9):
    each is dropped and counted once; good packets around them pass, and no ring slot or credit is lost."""
    rx = await Rx(dut, 3, rate=0.95, vls=4).start()
    rng = rx.rng
    for _ in range(150):
        size = sizes(rng)
        packet = ib_packet(rng, rng.randrange(4), size)
        kind = rng.randrange(8)
        if kind == 0:
            rx.push(packet, "symbol_err", err_at=rng.randrange(blocks(packet)))
        elif kind == 1:
            rx.push(ib_packet(rng, rng.randrange(4), rng.choice((4225, 4300, 9000, 17000))), "malformed")
        elif kind == 2:
            rx.push(ib_packet(rng, rng.randrange(4, 15), size), "vl_mismatch")
        elif kind == 3:
            rx.push(ib_packet(rng, VL15, 290, qpn=rng.randrange(1, 1 << 24)), "vl_mismatch")
        elif kind == 4 and size > 64:
            rx.push(packet, "malformed")
            beats = rx.phy.queue
            word, err = beats[-blocks(packet)]
            beats[-blocks(packet)] = (word & ~(0x7F << 512) | 40 << 512, err)   # first beat not full
        elif kind == 5 and not rng.randrange(3):
            rx.push(ib_packet(rng, VL15, rng.choice((26, 290))))
        else:
            rx.push(packet)
        if kind == 6:
            await rx.bench.until(rx.phy.idle)
    await rx.finish()
    for vl in range(4):
        assert (rx.field("fccl_o", vl, 12) - rx.field("abr_o", vl, 12)) % 4096 == CAP
        assert rx.field("fill_o", vl, 9) == 0


@cocotb.test()
async def flow_control_packets(dut):
    """LPCRC of an independent implementation is accepted, every single wrong bit of the packet refused; wrong operand,
    VL or length counts apart; fields arrive."""
    rx = await Rx(dut, 4, vls=8).start()
    good = fcp(0, 5, 0xABC, 0x123)
    for bit in range(48):
        bad = (int.from_bytes(good, "little") ^ 1 << bit).to_bytes(6, "little")
        rx.push(bad, "lpcrc_err", link=1)
    for op in range(2, 16):
        rx.push(fcp(op, 1, 7, 7), "fcp_malformed", link=1)
    for vl in range(8, 16):
        rx.push(fcp(0, vl, 7, 7), "fcp_malformed", link=1)
    rx.push(good + b"\0", "fcp_malformed", link=1)
    rx.push(rx.rng.randbytes(200), "fcp_malformed", link=1)
    rx.push(good, "symbol_err", link=1, err_at=0)
    await rx.bench.until(rx.phy.idle)
    await rx.bench.step(5)
    assert rx.counts() == rx.count and all(rx.field("abr_o", vl, 12) == 0 for vl in range(8))
    for _ in range(60):
        op, vl, fctbs, fccl = rx.rng.randrange(2), rx.rng.randrange(8), rx.rng.randrange(4096), rx.rng.randrange(4096)
        rx.push(fcp(op, vl, fctbs, fccl), "fcp", link=1)
        await rx.bench.until(lambda: rx.bench.get("fcp_o"), 10, "strobe")
        assert UPD.unpack(rx.bench.get("fcp_upd_o")) == dict(init=op, vl=vl, fccl=fccl)
        await rx.bench.step()
        assert rx.field("abr_o", vl, 12) == fctbs
    # Right behind a packet and right in front of one: the count is the sender's.
    packet = ib_packet(rx.rng, 2, 100)
    rx.push(packet)
    rx.push(fcp(0, 2, 1000, 0), "fcp", link=1)
    rx.push(packet)
    await rx.finish()
    assert rx.field("abr_o", 2, 12) == 1002


@cocotb.test()
async def states(dut):
    """VL-14, receive side: DOWN nothing, INIT VL15 and FCPs, ARMED and ACTIVE everything; DOWN empties the rings, but a
    packet that has begun to leave is finished."""
    rx = await Rx(dut, 5).start(DOWN)
    rng = rx.rng

    async def all_kinds(data, vl15, flow):
        rx.push(ib_packet(rng, 1, 300), data)
        rx.push(ib_packet(rng, VL15, 290), vl15)
        if flow:
            rx.push(fcp(0, 1, 0, 0), "fcp", link=1)
        else:
            rx.phy.put(fcp(0, 1, 0, 0), link=1)
        await rx.bench.until(rx.phy.idle)
        await rx.bench.step(30)
        assert rx.counts() == rx.count

    await all_kinds("state_drop", "state_drop", False)
    for state, data in ((INIT, "state_drop"), (ARMED, "packet"), (ACTIVE, "packet")):
        await rx.set_state(state)
        await all_kinds(data, "packet", True)
    await rx.finish()
    # Flush in the middle of a packet that leaves and of one that comes.
    rx.sink.rate = 0.0
    for vl in (1, 2, 3):
        rx.push(ib_packet(rng, vl, 1000))
    rx.push(ib_packet(rng, 4, 4000), "state_drop")
    await rx.bench.step(70)
    assert not rx.phy.idle()
    await rx.set_state(DOWN)
    await rx.bench.until(rx.phy.idle)
    await rx.set_state(ACTIVE)          # the drain is still inside its packet
    rx.push(ib_packet(rng, 5, 500), "state_drop")
    await rx.bench.step(20)
    rx.sink.rate = 1.0
    rx.want = rx.want[:-2]              # of the three only the first was under way
    await rx.bench.step(40)
    assert all(rx.field("fill_o", vl, 9) == 0 for vl in range(8))
    for vl in range(8):
        rx.push(ib_packet(rng, vl, 1000))
    await rx.finish()


@cocotb.test()
async def port_state(dut):
    """VL-14: ACTIVE_DEFER while the physical link is away, back or DOWN after the time-out; INIT and ARMED fall at
    once; nothing rises without a physical link."""
    rx = await Rx(dut, 6).start(DOWN)
    bench = rx.bench

    async def phy_up(value, cycles=3):
        bench.set("phy_up_i", value)
        await bench.step(cycles)
        return bench.get("state_o")

    await rx.set_state(ACTIVE)
    for _ in range(3):
        assert await phy_up(0) == 5
        rx.count["recovery"] += 1
        await rx.set_state(ACTIVE)
        assert bench.get("state_o") == 5
        assert await phy_up(1) == ACTIVE
    assert await phy_up(0, 250) == 5
    assert await phy_up(0, 10) == DOWN
    rx.count["recovery"] += 1
    rx.count["downed"] += 1
    for state in (INIT, ARMED, ACTIVE):
        await rx.set_state(state)
        assert bench.get("state_o") == DOWN
    await phy_up(1)
    for state in (INIT, ARMED):
        await rx.set_state(state)
        assert bench.get("state_o") == state
        for noop in (0, 5, 6, 7):
            await rx.set_state(noop)
            assert bench.get("state_o") == state
        assert await phy_up(0) == DOWN
        rx.count["downed"] += 1
        await phy_up(1)
    # A packet cut by the physical link is forgotten, the next one is whole.
    await rx.set_state(ACTIVE)
    rx.phy.put(ib_packet(rx.rng, 0, 2000))
    await bench.step(10)
    rx.phy.queue.clear()
    assert await phy_up(0) == 5
    rx.count["recovery"] += 1
    await phy_up(1)
    rx.push(ib_packet(rx.rng, 0, 2000))
    await rx.finish()


@cocotb.test()
async def lanes(dut):
    """A VL that is held never slows another; VL15 passes while all data VLs are blocked; round robin is fair."""
    rx = await Rx(dut, 7).start()
    rng = rx.rng
    rx.bench.set("hold_i", 1 << 2)
    for _ in range(40):
        for vl in range(4):
            if vl != 2 or rx.count["packet"] < 40:
                rx.push(ib_packet(rng, vl, 256))
    held = [p for p in rx.want if p[0] >> 4 == 2]
    await rx.bench.until(lambda: len(rx.got) == len(rx.want) - len(held), 5000, "others out")
    last_in, last_out = rx.phy.sent_last[-1], rx.got[-1][2]
    assert last_out - last_in < 12, "the line came out at its own speed"
    rx.bench.set("hold_i", 0x7FFF)
    await rx.bench.step(3)
    before = len(rx.got)
    for vl in (0, 1, 3, VL15):
        rx.push(ib_packet(rng, vl, 290))
    await rx.bench.until(lambda: len(rx.got) > before, 100, "VL15")
    await rx.bench.step(50)
    assert [p[0] >> 4 for p, _, _ in rx.got[before:]] == [VL15]
    rx.bench.set("hold_i", 0)
    await rx.finish()
    # Backlog of four VLs leaves in turns.
    rx.room.rate = 0.0
    await rx.bench.step(3)
    for vl in (0, 1, 2, 3):
        for _ in range(8):
            rx.push(ib_packet(rng, vl, 100))
    await rx.bench.until(rx.phy.idle)
    before, rx.room.rate = len(rx.got), 1.0
    await rx.finish()
    order = [p[0] >> 4 for p, _, _ in rx.got[before:]]
    assert all(len(set(order[i:i + 4])) == 4 for i in range(1, 25)), order


@cocotb.test()
async def rate_and_latency(dut):
    """One beat per cycle with packets of one beat on changing VLs; latency of store and forward."""
    rx = await Rx(dut, 8).start()
    for i in range(200):
        rx.push(ib_packet(rx.rng, i % 8, 60))
    await rx.finish()
    # The first one finds nothing in its way, and is a cycle ahead of the row.
    assert rx.got[1][1] - rx.got[0][1] == 2
    assert rx.got[-1][2] - rx.got[1][1] == 198
    cycles = []
    for size in (60, 4192):
        sent = len(rx.phy.sent_last)
        rx.push(ib_packet(rx.rng, 0, size))
        await rx.finish()
        cycles.append(rx.got[-1][1] - rx.phy.sent_last[sent])
    dut._log.warning(f"latency from the last beat in to the first beat out: {cycles} cycles")
    assert max(cycles) <= 4


@cocotb.test()
async def ethernet_trust(dut):
    """A frame goes by the map of all 64 DSCPs, or by the priority in its VLAN tag; without either to ring 0."""
    rx = await Rx(dut, 10, ib=0).start()
    rng, wanted = rx.rng, {}
    for trust_pcp in (False, True, False):
        dscp_map = [rng.randrange(8) for _ in range(64)]
        rx.classify(dscp_map, trust_pcp)
        rx.room.rate = 0.0
        await rx.bench.step(2)
        fill = [0] * NUM_VLS
        for number in range(150):
            kind, dscp, pcp = rng.choice(("ipv4", "ipv6", "other")), number % 64, rng.randrange(8)
            tag = b"\x81\x00" + (pcp << 13 | rng.getrandbits(13)).to_bytes(2, "big") if rng.random() < 0.5 else b""
            tos = dscp << 2 | rng.randrange(4)
            head = {"ipv4": b"\x08\x00\x45" + bytes([tos]),
                    "ipv6": b"\x86\xdd" + (6 << 12 | tos << 4).to_bytes(2, "big"),
                    "other": b"\x88\xcc" + bytes([tos, tos])}[kind]
            frame = rng.randbytes(12) + tag + head + rng.randbytes(90)
            if trust_pcp:
                wanted[frame] = pcp if tag else 0
            else:
                wanted[frame] = 0 if kind == "other" else dscp_map[dscp]
            rx.push(frame)
            await rx.bench.until(rx.phy.idle)
            await rx.bench.step(3)
            fill[wanted[frame]] += blocks(frame)
            assert [rx.field("fill_o", ring, 9) for ring in range(NUM_VLS)] == fill, (kind, dscp, pcp, trust_pcp)
        rx.room.rate = 1.0
        await rx.finish(key=wanted.get)


@cocotb.test()
async def ethernet_priorities(dut):
    """Frames go by the class selector of their DSCP, tagged or not; drop when full is counted; link packets mean
    nothing."""
    rx = await Rx(dut, 9, ib=0, rate=0.9, sink_rate=0.8, room_rate=0.6).start()
    prios = {}
    for _ in range(200):
        kind = rx.rng.choice(("ipv4", "ipv6", "other"))
        prio = 0 if kind == "other" else rx.rng.randrange(8)
        frame = eth_frame(rx.rng, prio, rx.rng.choice((60, 64, 200, 1514, 4206)), kind)
        prios[frame] = prio
        rx.push(frame)
        if rx.rng.random() < 0.1:
            rx.phy.put(fcp(0, 1, 5, 5), link=1)
        if rx.rng.random() < 0.2:
            await rx.bench.until(rx.phy.idle)
            await rx.bench.until(lambda: len(rx.got) == len(rx.want), 5000, "drained")
    await rx.finish(key=prios.get)
    rx.room.rate = 0.0
    await rx.bench.step(2)
    for i in range(30):
        frame = eth_frame(rx.rng, 6, 4206, "ipv4")
        prios[frame] = 6
        rx.push(frame, "packet" if i < CAP // 66 else "overrun")
    frame = eth_frame(rx.rng, 5, 4206, "ipv4")
    prios[frame] = 5
    rx.push(frame)
    await rx.bench.until(rx.phy.idle)
    rx.room.rate = 1.0
    await rx.finish(key=prios.get)


def test_link_rx():
    simulate("link_rx_bench", "test_link_rx", source=Path(__file__).resolve().parent / "link_rx_bench.sv")
