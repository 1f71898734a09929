"""Events to firmware, and what firmware sends into the pipeline."""

import cocotb
import hca_abi as abi
from common import struct
from mgmt_bench import (CONTROL, EQE_DATA, EQE_EQN, EQE_GO, EV, EV_POP, EV_STATUS, FUNCS, GO_STATUS, LIMITS,
                        MSG_GO, MSG_KIND, MSG_QPN, Mgmt, fn_reg)

ADMIN_DB, FUNC_CONTROL = abi.HwEventKind.ADMIN_DB, abi.HwEventKind.FUNC_CONTROL
MSG, EQE = struct("pipe_msg_t"), struct("eqe_job_t")


class Events:
    """All sources at once and a firmware that pops."""

    def __init__(self, dut, seed, rate):
        self.mgmt = Mgmt(dut, seed, rate)
        self.taken = [[] for _ in self.mgmt.ev]
        self.producer = {}
        self.popped = []
        for source, taken in zip(self.mgmt.ev, self.taken, strict=True):
            source.on_accept = lambda word, taken=taken: self.accept(EV.unpack(word), taken)

    def accept(self, event, taken):
        taken.append(event)
        if event["kind"] == ADMIN_DB:
            self.producer[event["func"]] = event["id"]

    def offer(self, source, count):
        """Queues events; bits 31:28 of the cause name the source. ADMIN_DB is the doorbell's alone."""
        rng = self.mgmt.rng
        for n in range(count):
            kinds = [ADMIN_DB] if source == 1 and rng.random() < 0.7 else [3, 4, 6, 10]
            self.mgmt.ev[source].put(EV.pack(kind=rng.choice(kinds), func=rng.randrange(FUNCS),
                                             id=rng.getrandbits(16), cause=source << 28 | n))

    async def pop(self):
        event = await self.mgmt.pop_event()
        if event:
            self.popped.append(event)
        return event is not None

    async def drain(self):
        """Pops until nothing is left."""
        while await self.pop() or not all(source.idle() for source in self.mgmt.ev):
            pass

    def check(self):
        """Per source: all of them, in order."""
        pick = [f for f in self.popped if f["kind"] != FUNC_CONTROL]
        for source, taken in enumerate(self.taken):
            got = [{name: event[name] for name in ("kind", "func", "id", "cause")}
                   for event in pick if event["cause"] >> 28 == source]
            assert got == [{name: event[name] for name in ("kind", "func", "id", "cause")} for event in taken]


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5, 0.05])
async def all_sources(dut, rate):
    """Every event of every source once and in its order; admin_producer follows ADMIN_DB."""
    ev = Events(dut, 31, rate)
    mgmt = ev.mgmt
    await mgmt.bench.start()
    mgmt.fw.rate = max(rate, 0.5)
    for source in range(len(mgmt.ev)):
        ev.offer(source, 80)
    writes = 0
    while not all(source.idle() for source in mgmt.ev):
        if mgmt.rng.random() < 0.1 and writes < 60:
            mgmt.host_wr.put((mgmt.rng.randrange(FUNCS), 0x08, mgmt.rng.getrandbits(64), 0xF0))
            writes += 1
        await ev.pop()
        if mgmt.rng.random() < 0.1:
            await mgmt.bench.step(mgmt.rng.randint(0, 200))
    assert mgmt.host_wr.idle()
    await ev.drain()
    ev.check()
    controls = sum(event["kind"] == FUNC_CONTROL for event in ev.popped)
    assert 0 < controls <= writes and len(ev.popped) == 320 + controls
    for func, producer in ev.producer.items():
        assert await mgmt.read(fn_reg(func, 8)) == producer
    assert mgmt.bench.get("fw_irq_o") == 0 and await mgmt.read(EV_STATUS) == 0


@cocotb.test()
async def all_wait(dut):
    """While firmware sleeps every source waits, the receive path, too (hca_rx_out has places for its events): nothing
    is lost, and none of them keeps another one back for ever."""
    ev = Events(dut, 32, 1.0)
    mgmt = ev.mgmt
    await mgmt.bench.start()
    for source in range(len(mgmt.ev)):
        ev.offer(source, 60)
    await mgmt.bench.step(200)
    assert not any(source.idle() for source in mgmt.ev)
    assert mgmt.bench.get("fw_irq_o") == 1
    await ev.drain()
    ev.check()
    assert len(ev.popped) == 60 * len(mgmt.ev)


@cocotb.test()
async def link_events(dut):
    """A change of a link is an event with the port's number; changes while it waits are merged, none is
    lost; functions that write CONTROL without end do not keep it back."""
    ev = Events(dut, 36, 1.0)
    mgmt = ev.mgmt
    bench = mgmt.bench
    await bench.start()
    for _ in range(20):
        mgmt.host_wr.put(*[(func, 0x08, 1 << 32, 0xF0) for func in range(FUNCS)])
        changes, which = mgmt.rng.randint(1, 30), mgmt.rng.randrange(2)
        for _ in range(changes):
            bench.set("link_event_i", 1 << which)
            await bench.step()
            bench.set("link_event_i", 0)
            await bench.step(mgmt.rng.randint(0, 2))
        ports = [event for event in await take_all(ev) if event["kind"] == abi.HwEventKind.PORT]
        assert 1 <= len(ports) <= min(changes, 17) and all(event["id"] == 1 + which for event in ports)


async def take_all(ev):
    """The events waiting, once nothing moves any more."""
    await ev.mgmt.bench.until(ev.mgmt.host_wr.idle, what="host writes")
    await ev.mgmt.bench.step(20)
    ev.popped.clear()
    await ev.drain()
    return list(ev.popped)


@cocotb.test()
async def function_control(dut):
    """One event per write of CONTROL with its first byte; none for other writes; no function shuts
    out another."""
    ev = Events(dut, 33, 1.0)
    mgmt = ev.mgmt
    await mgmt.bench.start()
    for n in range(40):
        func, value = n % FUNCS, mgmt.rng.getrandbits(2)
        await mgmt.host_write(func, 0x08, value << 32, 0xF0)
        assert await ev.pop() and not await ev.pop()
        assert (ev.popped[-1]["kind"], ev.popped[-1]["func"]) == (FUNC_CONTROL, func)
        assert await mgmt.host_read(func, CONTROL) == value
        await mgmt.host_write(func, 0x08, (1 << 64) - 1, 0x0F)    # STATUS beside it
        await mgmt.host_write(func, 0x08, (1 << 64) - 1, 0xE0)    # other bytes of CONTROL
        await mgmt.host_write(FUNCS + 4 * n, 0x08, (1 << 64) - 1, 0xF0)
        await mgmt.write(fn_reg(func, 12), 1)
        assert not await ev.pop()
    # Function 0 writes without end.
    for _ in range(30):
        await mgmt.host_write(0, 0x08, 1 << 32, 0xF0)
    ev.popped.clear()
    mgmt.host_wr.put((3, 0x08, 3 << 32, 0xF0))
    for _ in range(24):
        mgmt.host_wr.put(*[(0, 0x08, 1 << 32, 0xF0)] * 4)
        await ev.pop()
        await mgmt.bench.until(mgmt.host_wr.idle, what="host writes")
    assert [event["func"] for event in ev.popped].count(3) == 1, "function 0 shut out function 3"


@cocotb.test()
async def empty_pop(dut):
    """A pop of nothing does nothing."""
    ev = Events(dut, 34, 1.0)
    await ev.mgmt.bench.start()
    for _ in range(3):
        await ev.mgmt.write(EV_POP, 1)
    assert await ev.mgmt.read(fn_reg(1, 8)) == 0
    for source in range(4):
        ev.offer(source, 3)
    await ev.drain()
    ev.check()


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.05])
async def posts(dut, rate):
    """Messages and EQEs leave once, as written; their busy bit lasts until they are taken."""
    mgmt = Mgmt(dut, 35, rate)
    await mgmt.bench.start()
    mgmt.fw.rate = 1.0
    messages, entries = [], []
    for _ in range(60):
        if mgmt.rng.random() < 0.5:
            message = dict(kind=mgmt.rng.choice([1, 2]), qpn=mgmt.rng.randrange(LIMITS["NumQps"]))
            await mgmt.poll(GO_STATUS, 1)
            assert len(mgmt.msg.got) == len(messages)
            for reg, value in [(MSG_KIND, message["kind"]), (MSG_QPN, message["qpn"]), (MSG_GO, 1)]:
                await mgmt.write(reg, value)
            messages.append(MSG.pack(**message))
        else:
            entry = dict(eqn=mgmt.rng.randrange(LIMITS["NumEqs"]), kind=mgmt.rng.getrandbits(8),
                         **{name: mgmt.rng.getrandbits(32) for name in ("id", "data0", "data1")})
            await mgmt.poll(GO_STATUS, 2)
            assert len(mgmt.eqe.got) == len(entries)
            await mgmt.write(EQE_EQN, entry["eqn"])
            for n, name in enumerate(("kind", "id", "data0", "data1")):
                await mgmt.write(EQE_DATA + 4 * n, entry[name])
            await mgmt.write(EQE_GO, 1)
            entries.append(EQE.pack(**entry))
        status = mgmt.fw.put(GO_STATUS)
        before = len(mgmt.msg.got), len(mgmt.eqe.got)
        await mgmt.bench.until(mgmt.fw.idle, what="status")
        after = len(mgmt.msg.got), len(mgmt.eqe.got)
        if before == after:
            assert status.result == (len(messages) > after[0]) + 2 * (len(entries) > after[1])
    assert await mgmt.poll(GO_STATUS, 3) == 0
    assert (mgmt.msg.got, mgmt.eqe.got) == (messages, entries)
