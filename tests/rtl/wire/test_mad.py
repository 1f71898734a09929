"""hca_mad_rx and hca_mad_tx: packets of management datagrams between the wire and firmware."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, simulate, struct

BEAT, TX_BEAT = struct("mad_beat_t"), struct("tx_beat_t")
SLOTS, BEATS = 8, 8
LOCAL, GLOBAL = 2, 3    # l3_e of InfiniBand, and LRH.LNH
FRAME = 4               # l3_e


class Rx:
    """Packets in, as they come; a firmware that reads them, now and then."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.arrived = 0

    async def start(self):
        await self.bench.start()
        self.bench.agents.append(self)
        return self

    def drive(self):
        """Nothing."""

    def sample(self):
        self.arrived += self.bench.get("arrived_o")

    async def packet(self, beats, take, port, pop_at=None, size=0):
        """Beats of a packet of `size` bytes, with gaps; those behind its end are not stored. Returns what is stored.
        The packet that waits goes with the gap before beat `pop_at`."""
        rng, data = self.rng, []
        trailing = rng.choice((0, 0, 1))
        for number in range(beats + trailing):
            while number == pop_at or rng.random() < 0.3:
                self.bench.set("in_i", BEAT.random(rng, valid=0))
                self.bench.set("pop_i", number == pop_at)
                pop_at = None if number == pop_at else pop_at
                await self.bench.step()
                self.bench.set("pop_i", 0)
            last, store = number == beats + trailing - 1, number < beats
            word = rng.getrandbits(512)
            if store:
                data.append(word)
            fields = dict(valid=1, store=store, last=last, data=word)
            fields.update(dict(take=take, port=port, bytes=size) if last else {})
            self.bench.set("in_i", BEAT.random(rng, **fields))
            await self.bench.step()
        self.bench.set("in_i", BEAT.random(rng, valid=0))
        return data

    async def read(self, beats):
        """The packet that waits, word by word."""
        words = []
        for word in range(16 * beats):
            self.bench.set("re_i", 1)
            self.bench.set("word_i", word)
            await self.bench.step()
            self.bench.set("re_i", 0)
            await self.bench.step()
            words.append(self.bench.get("data_o"))
        return [sum(word << 32 * i for i, word in enumerate(words[16 * n:16 * n + 16])) for n in range(beats)]


@cocotb.test()
async def packets_stay_until_they_are_read(dut):
    """MGMT-2: what is good, for firmware, and not too long stays whole and in order; eight of them; all else leaves no
    trace, and one that finds no place is lost."""
    rx = await Rx(dut, 1).start()
    rng, held, kept = rx.rng, [], 0
    for _ in range(300):
        if rng.random() < 0.6:
            beats, take, port = rng.choice((1, 2, 5, 6, 7, 8, 9, 10, 20)), rng.random() < 0.8, rng.randrange(2)
            pop_at = rng.randrange(1, beats) if held and beats > 1 and rng.random() < 0.3 else None
            has_place = len(held) < SLOTS
            size = rng.randrange(1024)
            data = await rx.packet(beats, take, port, pop_at, size)
            if pop_at is not None:
                held.pop(0)
            if take and beats <= BEATS and has_place:
                held.append((port, size, data))
                kept += 1
            await rx.bench.step(2)
        elif held and rng.random() < 0.7:
            port, size, data = held.pop(0)
            assert (rx.bench.get("port_o"), rx.bench.get("bytes_o")) == (port, size)
            assert await rx.read(len(data)) == data
            rx.bench.set("pop_i", 1)
            await rx.bench.step()
            rx.bench.set("pop_i", 0)
            await rx.bench.step()
        else:
            # A pop with nothing there changes nothing.
            rx.bench.set("pop_i", not held)
            await rx.bench.step()
            rx.bench.set("pop_i", 0)
            await rx.bench.step()
        assert rx.bench.get("pending_o") == bool(held)
    # The place of one that came too late becomes free while it comes: its first beats are lost, so all of it is.
    while len(held) < SLOTS:
        held.append((1, 0, await rx.packet(3, 1, 1)))
        kept += 1
    await rx.packet(6, 1, 0, pop_at=3)
    await rx.bench.step(4)
    assert rx.arrived == kept and kept > 60
    held.pop(0)
    held.append((0, 0, await rx.packet(6, 1, 0)))
    await rx.bench.step(4)
    assert rx.arrived == kept + 1


def test_mad_rx():
    """Runs the tests of the receiver."""
    simulate("hca_mad_rx", "test_mad", tests="packets_stay_until_they_are_read")


@cocotb.test()
@cocotb.parametrize(rate=[1, 0.3])
async def packets_leave_whole(dut, rate):
    """Every length, both headers, both ports, and frames through an Ethernet port; a length of nothing, of half a word
    or too many bytes send nothing, and the next packet goes."""
    bench = Bench(dut, 2)
    rng = bench.rng
    sink = Sink(bench, "out", rate=rate)
    await bench.start()
    for number in range(250):
        ib = rng.randrange(4)
        bench.set("ib_i", ib)
        size, port = rng.choice((4, 60, 64, 68, 128, 284, 324, 512, 4 * rng.randint(1, 128))), rng.randrange(2)
        fault = rng.choice((0, 2, 516, 1020)) if number % 5 == 4 else None
        data, lnh = rng.getrandbits(8 * size), rng.choice((LOCAL, GLOBAL))
        data = data & ~(3 << 8) | lnh << 8
        for word in range((size + 3) // 4):
            bench.set("we_i", 1)
            bench.set("word_i", word)
            bench.set("data_i", data >> 32 * word & 0xFFFFFFFF)
            await bench.step()
        bench.set("we_i", 0)
        sink.got.clear()
        bench.set("go_i", 1)
        bench.set("bytes_i", size if fault is None else fault)
        bench.set("port_i", port)
        await bench.step()
        bench.set("go_i", 0)
        await bench.step()
        if fault is None:
            assert bench.get("busy_o")
        await bench.until(lambda: not bench.get("busy_o"), 400, "the packet")
        got = [TX_BEAT.unpack(word) for word in sink.got]
        if fault is not None:
            assert not got
            continue
        assert [b["last"] for b in got] == [0] * (len(got) - 1) + [1]
        assert sum(b["len_bytes"] for b in got) == size
        assert sum(b["data"] << 512 * n for n, b in enumerate(got)) == data, "and zeros behind the end"
        assert {(b["port"], b["l3"]) for b in got} == {(port, lnh if ib >> port & 1 else FRAME)}
        assert not any(b["round"] for b in got), "firmware's packets are of no round"


def test_mad_tx():
    """Runs the tests of the sender."""
    simulate("hca_mad_tx", "test_mad", tests="packets_leave_whole")
