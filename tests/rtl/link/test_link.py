"""hca_link, two of them back to back: nothing lost, nothing out of order, no VL in another's way, whatever the
receivers do and whatever happens to flow control packets."""

import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import simulate
from pair import (
    ACTIVE, ARMED, DEFER, DOWN, INIT, OP_VLS, PERIOD, RX_FILL, RX_PACKETS, TX_BLOCKS, TX_PACKETS, TX_WAIT, VL15, Pair)

PACKETS = int(os.environ.get("LINK_PACKETS", "10000"))
SEED = int(os.environ.get("LINK_SEED", "1"))


@cocotb.test()
async def soak(dut):
    """VL-6: random packets over all VLs in both directions, random stalls of the receivers, flow control packets lost
    and spoilt for spells: no overflow, no loss, order per VL, no stall once FCPs come through again, every credit
    back."""
    pair = await Pair(dut, SEED).start()
    rng = random.Random(SEED)
    pair.set(enable=pair.data | 1 << VL15, budget=PACKETS // 2)
    last, idle = 0, 0
    await pair.run(50)
    while pair.words("idle_o", 1) != [1, 1]:
        bad = rng.random() < 0.3
        pair.set(fcp_loss=tuple(rng.choice((0, 20, 128, 250)) if bad else 0 for _ in range(2)),
                 fcp_flip=tuple(rng.choice((0, 10, 100)) if bad else 0 for _ in range(2)),
                 stall=tuple(rng.choice((0, 0, 60, 200)) for _ in range(2)),
                 spell=tuple(rng.choice((0, 0, 10, 80)) for _ in range(2)),
                 gap=tuple(rng.choice((0, 0, 200)) for _ in range(2)), max_beats=rng.choice((1, 4, 20, 66)))
        await pair.run(rng.randrange(1000, 4000))
        now = pair.received()
        idle = 0 if now > last else idle + 1
        assert idle < 30, "nothing moves any more"
        last = now
    pair.set(fcp_loss=0, fcp_flip=0, stall=0, spell=0)
    await pair.drained()
    pair.check_clean()
    sent, got, errors = pair.words("sent_o"), pair.words("packets_o"), await pair.errors()
    assert sum(map(sum, sent)) == PACKETS // 2 * 2
    for side in (0, 1):
        assert sent[side][:pair.vls] == got[1 - side][:pair.vls], "lost on a data VL"
        assert errors[1 - side]["excessive_buffer_overrun_errors"] == 0
        dropped = errors[1 - side]["vl15_dropped"] + errors[side]["port_xmit_discards"]
        assert sent[side][VL15] - got[1 - side][VL15] == dropped
        assert errors[side]["lpcrc_errors"] > 0 and errors[side]["symbol_error"] == 0
        fcps, lost = pair.words("fcps_o")[side], pair.words("fcps_lost_o")[side]
        assert abs(errors[side]["fcp_sent"] - fcps) <= 10 and lost > 0
        # The first ones met a peer that was not up yet, the last ones are on the cable.
        assert 0 <= fcps - lost - errors[1 - side]["fcp_received"] <= 20
    await pair.check_whole()
    for base, want in ((TX_PACKETS, sent), (RX_PACKETS, got)):
        assert [column[:pair.vls] for column in await pair.per_vl(base)] == [column[:pair.vls] for column in want]
    dut._log.warning(f"{PACKETS} packets, {int(dut.cycle_o.value)} cycles, {sum(pair.words('fcps_lost_o'))} FCPs lost")


@cocotb.test()
async def spoilt_data(dut):
    """Symbol errors in data packets: exactly those packets are missing, they are counted, and their credits come
    back."""
    pair = await Pair(dut, 2).start()
    pair.set(enable=pair.data, budget=1000, data_err=(200, 60))
    await pair.drained()
    pair.check_clean()
    sent, got, errors = pair.words("sent_o"), pair.words("packets_o"), await pair.errors()
    for side in (0, 1):
        missing = sum(sent[side]) - sum(got[1 - side])
        assert missing == errors[1 - side]["symbol_error"] == errors[1 - side]["port_rcv_errors"] > 10
        assert errors[1 - side]["excessive_buffer_overrun_errors"] == 0
    await pair.check_whole()


async def rate_of(pair, vl, cycles=10000):
    """Beats per cycle that arrive on a VL at side 1."""
    before, start = pair.words("beats_o")[1][vl], int(pair.dut.cycle_o.value)
    await pair.run(cycles)
    return (pair.words("beats_o")[1][vl] - before) / (int(pair.dut.cycle_o.value) - start)


@cocotb.test()
async def isolation(dut):
    """A VL whose receiver takes nothing, or whose credits do not come through, never slows another: its bandwidth is
    within 1 % of what it has alone."""
    pair = await Pair(dut, 3).start()
    one, other = pair.vls // 4, pair.vls * 5 // 8
    for vl, mask, how in ((one, 1 << other, "hold"), (pair.vls - 1, 1, "fcp"), (0, pair.data & ~1, "hold")):
        pair.set(enable=(1 << vl, 0), budget=0xFFFFFFFF, min_beats=33, max_beats=33)
        await pair.run(1000)
        alone = await rate_of(pair, vl)
        if how == "hold":
            pair.set(hold=(0, mask))
        else:
            pair.set(fcp_block=(0, mask))
        pair.set(enable=(1 << vl | mask, 0))
        await pair.until(lambda mask=mask: not pair.words("open_o", 16)[0] & mask, 60000, "stalled VLs closed")
        await pair.run(6000)         # until their last credits are used up
        beside = await rate_of(pair, vl)
        dut._log.warning(f"VL{vl} alone {alone:.4f} beats a cycle, beside {mask:#x} stalled {beside:.4f}")
        assert abs(beside / alone - 1) < 0.01 and alone > 0.75
        pair.set(hold=0, fcp_block=0, enable=0)
        await pair.drained()
    wait = await pair.per_vl(TX_WAIT)
    assert all(wait[0][vl] > 5000 for vl in (1, other, 0))
    pair.check_clean()
    assert pair.words("sent_o")[0] == pair.words("packets_o")[1]


@cocotb.test()
async def told_again(dut):
    """All VLs are told again at once; the one that needs credits does not wait for them: its bandwidth is that of a
    link with a single VL, but for the FCPs in between."""
    pair = await Pair(dut, 13).start()
    rates = []
    for lanes in (1, pair.vls):
        for side in (0, 1):
            await pair.ctrl(side, op_vls=OP_VLS[lanes])
        pair.set(enable=(1, 0), budget=0xFFFFFFFF, full_rate=1, min_beats=33, max_beats=33)
        await pair.run(3000)
        rates.append(await rate_of(pair, 0, 10 * PERIOD))
        pair.set(enable=0)
        await pair.drained()
    dut._log.warning(f"{pair.vls} VLs: {rates[1]:.4f} beats a cycle, one VL: {rates[0]:.4f}")
    assert rates[0] > 0.95 and rates[1] > 0.985 * rates[0]
    pair.check_clean()


@cocotb.test()
async def management_lane(dut):
    """VL15 packets pass while all data VLs are blocked, and before data while they are not."""
    pair = await Pair(dut, 4).start()
    pair.set(enable=pair.data, budget=0xFFFFFFFF, hold=0x7FFF)
    await pair.until(lambda: all(not o & pair.data for o in pair.words("open_o", 16)), 200000, "all data VLs closed")
    await pair.run(2000)
    before = pair.words("packets_o")
    pair.set(enable=1 << VL15, gap=255, max_beats=5)
    await pair.run(20000)
    after = pair.words("packets_o")
    for side in (0, 1):
        assert after[side][:VL15] == before[side][:VL15]
        assert after[side][VL15] > before[side][VL15] + 20
        assert sum(pair.words("sent_o")[1 - side][VL15:]) - after[side][VL15] <= 1
    pair.set(enable=0, hold=0)
    await pair.drained()
    pair.check_clean()
    assert pair.words("sent_o")[0] == pair.words("packets_o")[1]
    await pair.check_whole()


@cocotb.test()
async def states(dut):
    """VL-14 on both halves: what each state sends and what it receives."""
    pair = await Pair(dut, 5).start(DOWN, hoq_life=0)
    pair.set(gap=250, min_beats=1, max_beats=4, mind_open=0, budget=0xFFFFFFFF)
    table = {}
    for sender in (DOWN, INIT, ARMED, ACTIVE):
        for receiver in (DOWN, INIT, ARMED, ACTIVE):
            pair.set(enable=0)
            for side, state in ((0, sender), (1, receiver)):
                await pair.ctrl(side, state=DOWN)
                await pair.run(300)
                await pair.ctrl(side, state=state)
            await pair.run(600)
            before, told = pair.words("packets_o")[1], (await pair.errors())[1]["fcp_received"]
            pair.set(enable=(pair.data | 1 << VL15, 0))
            await pair.run(PERIOD + 600)
            after, heard = pair.words("packets_o")[1], (await pair.errors())[1]["fcp_received"]
            table[sender, receiver] = (sum(after[:8]) > sum(before[:8]), after[VL15] > before[VL15], heard > told)
    for (sender, receiver), row in table.items():
        up = sender != DOWN and receiver != DOWN
        assert row == (sender == ACTIVE and receiver in (ARMED, ACTIVE), up, up), f"{sender} to {receiver}: {row}"
    pair.check_clean()


async def works_like_new(pair):
    """Traffic on all data VLs, from here on: nothing is lost."""
    before = pair.words("sent_o"), pair.words("packets_o")
    pair.set(enable=pair.data)
    await pair.run(10000)
    pair.set(enable=0)
    await pair.drained()
    pair.check_clean()
    after = pair.words("sent_o"), pair.words("packets_o")
    for side in (0, 1):
        sent = [b - a for a, b in zip(before[0][side], after[0][side], strict=True)]
        got = [b - a for a, b in zip(before[1][1 - side], after[1][1 - side], strict=True)]
        assert sent == got and sum(sent) > 100


@cocotb.test()
async def recovery(dut):
    """The physical link goes away under traffic and comes back: ACTIVE_DEFER, what was in the rings is not lost; only
    what was on the cable is. Away for too long: DOWN, rings empty, counted; then it comes up like new."""
    pair = await Pair(dut, 6).start()
    pair.set(enable=pair.data, budget=0xFFFFFFFF, spell=4)
    for _ in range(10):
        await pair.run(1500)
        pair.set(phy_up=0)
        await pair.run(10)
        assert [w & 15 for w in await pair.stat(0)] == [DEFER, DEFER]
        await pair.run(500)
        pair.set(phy_up=1)
    pair.set(enable=0)
    await pair.drained()
    assert [w & 15 for w in await pair.stat(0)] == [ACTIVE | 8, ACTIVE | 8]
    sent, got = pair.words("sent_o"), pair.words("packets_o")
    pair.check_clean()
    for side in (0, 1):
        # On the cable: the packet that was cut, and whole ones within its 16 cycles.
        missing = sum(sent[side]) - sum(got[1 - side])
        assert missing <= 10 + pair.words("cut_o")[side], f"{missing} packets missing"
    await pair.check_whole()
    pair.set(enable=pair.data, hold=0xFFFF)
    await pair.run(4000)
    pair.set(phy_up=0)
    await pair.run(2000)
    errors = await pair.errors()
    assert [w & 15 for w in await pair.stat(0)] == [DOWN, DOWN]
    for side in (0, 1):
        assert errors[side]["link_error_recovery"] == 11 and errors[side]["link_downed"] == 1
    pair.set(enable=0, hold=0)
    await pair.run(3000)
    assert all(sum(column) == 0 for column in await pair.per_vl(RX_FILL))
    pair.set(phy_up=1)
    for side in (0, 1):
        await pair.ctrl(side, state=INIT)
    await pair.run(1000)
    for side in (0, 1):
        await pair.ctrl(side, state=ACTIVE)
    await works_like_new(pair)
    assert all(events > 20 for events in pair.words("events_o"))


@cocotb.test()
async def down_under_traffic(dut):
    """VL-14: a port goes DOWN in the middle of packets while its cable stalls: no offered beat is taken back and no
    packet is cut, for the other end is still up. When both have been DOWN the link comes up like new."""
    pair = await Pair(dut, 12).start()
    pair.set(enable=pair.data | 1 << VL15, budget=0xFFFFFFFF, min_beats=1, max_beats=9, mind_open=0)
    for _ in range(40):
        await pair.run(400 + pair.rng.randrange(200))
        await pair.ctrl(0, state=DOWN)
        await pair.run(pair.rng.randrange(1, 80))
        await pair.ctrl(0, state=ACTIVE)
    pair.check_clean()
    assert (await pair.errors())[1]["port_rcv_errors"] == 0
    pair.set(enable=0)
    for side in (0, 1):
        await pair.ctrl(side, state=DOWN)
    await pair.until(pair.quiet, 20000, "every ring empty")
    for side in (0, 1):
        await pair.ctrl(side, state=ACTIVE)
    pair.set(mind_open=1)
    await works_like_new(pair)
    await pair.check_whole()


@cocotb.test()
async def fewer_lanes(dut):
    """VL-4: with two operational VLs packets of other VLs are dropped by the sender and counted; a sender with more
    VLs than the receiver is seen there."""
    pair = await Pair(dut, 7).start(op_vls=2)
    pair.set(enable=pair.data, budget=800)
    await pair.drained()
    sent, got, errors = pair.words("sent_o"), pair.words("packets_o"), await pair.errors()
    for side in (0, 1):
        assert got[1 - side] == sent[side][:2] + [0] * 14 and min(sent[side][:8]) > 20
        assert errors[side]["port_xmit_constraint_errors"] == sum(sent[side][2:])
    await pair.check_whole(range(2))
    pair.check_clean()


@cocotb.test()
async def blocks(dut):
    """Blocks sent are the beats that arrived; the sizes of the rings can be read."""
    pair = await Pair(dut, 8).start()
    pair.set(enable=pair.data, budget=300)
    await pair.drained()
    blocks, beats = await pair.per_vl(TX_BLOCKS), pair.words("beats_o")
    assert blocks[0] == beats[1] and blocks[1] == beats[0] and sum(beats[0]) > 1000
    sizes = [pair.tx_ring, pair.rx_ring, pair.rx_ring // 2]
    assert [await pair.stat(word) for word in (1, 2, 3)] == [[size] * 2 for size in sizes]


@cocotb.test()
async def integrity(dut):
    """Many errors on the wire without good packets between them: local_link_integrity_errors."""
    pair = await Pair(dut, 10).start()
    pair.set(fcp_flip=(255, 0))
    await pair.run(8 * PERIOD)
    bad = (await pair.errors())[1]
    assert bad["lpcrc_errors"] > 40 and bad["local_link_integrity_errors"] == bad["lpcrc_errors"] // 9
    assert bad["port_rcv_errors"] == bad["lpcrc_errors"]
    assert (await pair.errors())[0]["local_link_integrity_errors"] == 0


@cocotb.test()
async def pause(dut):
    """Ethernet: a priority with PFC loses nothing against a receiver that stalls for long, one without drops and
    counts; a paused priority never slows another."""
    pair = await Pair(dut, 9, ib=0).start(pfc_enable=0b00001000)
    pair.set(enable=(0b00101000, 0), budget=1200, min_beats=20, spell=(0, 200))
    await pair.drained(limit=400000)
    sent, got, errors = pair.words("sent_o")[0], pair.words("packets_o")[1], await pair.errors()
    pair.check_clean()
    assert sent[3] == got[3] > 200 and sent[5] > got[5] > 100
    assert errors[1]["excessive_buffer_overrun_errors"] == sent[5] - got[5]
    pair.set(enable=(0b1, 0), budget=0xFFFFFFFF, spell=0, min_beats=33, max_beats=33)
    await pair.run(2000)
    alone = await rate_of(pair, 0)
    pair.set(enable=(0b1001, 0), hold=(0, 1 << 3))
    await pair.until(lambda: not pair.words("open_o", 16)[0] & 8, 30000, "priority 3 closed")
    beside = await rate_of(pair, 0)
    assert abs(beside / alone - 1) < 0.01 and alone > 0.75
    pair.set(enable=0, hold=0)
    await pair.drained()
    assert pair.words("sent_o")[0][3] == pair.words("packets_o")[1][3]


BENCH = Path(__file__).resolve().parent / "link_pair_bench.sv"
# Numbers of data VLs besides the eight of the card (VL-2); LINK_VLS=1,2,4,15 tries them all.
NUMBERS = [int(number) for number in os.environ.get("LINK_VLS", "1,15").split(",")]


def test_link():
    simulate("link_pair_bench", "test_link", source=BENCH)


@pytest.mark.parametrize("vls", NUMBERS)
def test_number_of_lanes(vls):
    tests = "soak|management_lane|down_under_traffic|told_again" + ("|isolation" if vls > 1 else "")
    simulate("link_pair_bench", "test_link", parameters={"NumVls": vls}, tests=tests, source=BENCH)
