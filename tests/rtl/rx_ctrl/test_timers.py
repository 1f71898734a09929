"""Transport and RNR timers of hca_rx_ctrl."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import QpState, WcStatus, WrOpcode
from rx_bench import MSG_SQ_ERROR, RNR_CYCLES_PER_US, Env, Qp, ack, sending, status_of

SPSN = 0x100
WRITE, SEND = WrOpcode.RDMA_WRITE, WrOpcode.SEND
SWEEP = 4 * 1024
PIPE_CYCLES = 512
AN_AGE = 1 << 15


def latest(period):
    """Cycles after which an acknowledge time is over at last, with nothing in the rings and few QPs."""
    return period + 3 * period // 16 + PIPE_CYCLES + 100


@cocotb.test()
async def rnr_wait(dut):
    """REL-8, REL-11: halt, wait at least the time of the code, then restart; code 7 of rnr_retry has no end."""
    env, qp, first = await sending(dut, (SEND, 8), rnr_retry=1)
    for code, micros in ((1, 10), (5, 60)):
        out = await env.send(ack(env, qp, first[0], 0x20 | code))
        assert out.upd[0]["halt"] and not out.upd[0]["rewind"] and not out.cqes()
        start = env.bench.cycle
        assert not (await env.send(ack(env, qp, first[0], 0x20 | code))).upd, "already waiting"
        assert not (await env.send(ack(env, qp, first[0], 0x60))).upd
        await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 60 * 250 + 5 * SWEEP, "restart")
        waited = env.bench.cycle - start
        assert micros * RNR_CYCLES_PER_US - 50 <= waited <= micros * RNR_CYCLES_PER_US + 2 * SWEEP + 100, waited
        out = await env.settle()
        assert out.upd[0]["rewind"] and not out.upd[0]["halt"] and out.upd[0]["una_psn"] == first[0]
        env, qp, first = await sending(dut, (SEND, 8), rnr_retry=7)
    env, qp, first = await sending(dut, (SEND, 8), (SEND, 8), rnr_retry=1)
    await env.send(ack(env, qp, first[0], 0x21))
    await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 20000, "restart")
    await env.settle()
    # progress: a new budget
    assert (await env.send(ack(env, qp, first[1], 0x21))).upd[0]["halt"]
    await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 20000, "restart")
    await env.settle()
    assert status_of(await env.send(ack(env, qp, first[1], 0x21))) == (1, WcStatus.RNR_RETRY_EXC_ERR)


@cocotb.test()
async def ack_timeout(dut):
    """REL-3, REL-6, REL-7: timeout restarts, then fails, never early; 0 never comes; a clock may jump at rest."""
    period = 1024 << 3
    env, qp, first = await sending(dut, timeout=3, retry_cnt=1)
    await env.bench.until(lambda: not env.bench.get("active_o"), period // 16 + 100, "rest: nothing is outstanding")
    env.time.now += 1 << 40
    for turn in range(2):
        await env.emit(qp, 0, WRITE, SPSN, 8)    # the second time: a repetition
        start = env.bench.cycle
        await env.bench.until(lambda: env.bench.get("active_o"), 4, "the timer")
        assert env.bench.get("wake_at_o") <= env.time.now + period // 16
        await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 2 * period + 3 * SWEEP, "timeout")
        waited = env.bench.cycle - start
        assert period - 20 <= waited <= latest(period), waited
        out = await env.settle()
        if turn:
            assert status_of(out) == (0, WcStatus.RETRY_EXC_ERR)
        else:
            assert out.upd[0]["rewind"] and out.upd[0]["una_psn"] == SPSN
    await env.bench.until(lambda: not env.bench.get("active_o"), 3 * SWEEP, "rest")
    env, qp, first = await sending(dut, (WRITE, 8), timeout=0, retry_cnt=1)
    await env.bench.step(4 * SWEEP)
    assert not env.upd.got and not env.bench.get("active_o"), "nothing to wait for"
    assert (await env.send(ack(env, qp, first[0]))).cqes() == [(0, 0)]
    await env.bench.until(lambda: not env.bench.get("active_o"), 3 * SWEEP, "rest")


@cocotb.test()
async def a_packet_that_has_not_left_is_not_waited_for(dut):
    """REL-3, REL-6: the time begins when the QP's newest packet is on the wire, again after a restart; another QP's
    packets before and behind it count for nothing, and a RNR wait goes by all the same."""
    period, other = 1024 << 3, Qp(qpn=9, timeout=3)
    env, qp, _ = await sending(dut, timeout=3)
    await env.context(other, state=QpState.RESET)
    await env.context(other, init_sq=1, init_rq=1, state=QpState.RTS)

    def timeouts():
        return len(env.upd.got) > env.marks["upd"]

    env.left.held = True
    for turn in range(2):
        await env.emit(other, turn, WRITE, SPSN + turn, 8)   # before it
        await env.emit(qp, 0, WRITE, SPSN, 8)                # the second time: a repetition
        await env.emit(other, turn, WRITE, SPSN + turn, 8)   # behind it
        await env.bench.step(3 * period)
        assert not timeouts(), "nothing has left"
        env.left.let_go = 1                                  # the other's, which has a second one behind
        await env.bench.step(2 * period)
        assert not timeouts(), "its own has not left"
        env.left.let_go, start = 1, env.bench.cycle
        await env.bench.until(timeouts, 2 * period + 3 * SWEEP, "timeout")
        waited = env.bench.cycle - start
        assert period - 20 <= waited <= latest(period), waited
        out = await env.settle()
        assert [(upd["qpn"], upd["rewind"]) for upd in out.upd] == [(qp.qpn, 1)]
        await env.bench.step(2 * period)
        assert not timeouts(), "nothing is repeated yet"
        await env.bench.step(2 * period)                     # nor will it be
        assert {upd["qpn"] for upd in env.news().upd} == {qp.qpn}, "the other's second packet has not left"
        env.left.let_go = 1
        await env.bench.step(2 * period)
        assert other.qpn in {upd["qpn"] for upd in env.news().upd}
    await env.emit(qp, 0, WRITE, SPSN, 8)
    await env.send(ack(env, qp, SPSN, 0x20 | 1))
    start = env.bench.cycle
    await env.bench.until(timeouts, 20000, "restart")
    assert env.bench.cycle - start <= 10 * RNR_CYCLES_PER_US + 2 * SWEEP, "REL-8: a RNR wait is for the peer"


@cocotb.test()
@cocotb.parametrize(first_mark=[0, 0xFFFF, 0x8000])
async def a_packet_in_its_ring_is_not_waited_for(dut, first_mark):
    """REL-6: the time begins when what was in the QP's ring has left it, whatever the epoch's number; a VL that never
    runs empty keeps nobody from his time-out, and neither does one that goes on all the time."""
    period = 1024 << 3
    env, qp, _ = await sending(dut, timeout=3, sl=5, traffic_class=0xC0)

    def timeouts():
        return len(env.upd.got) > env.marks["upd"]

    env.ring(empty=0, epoch=first_mark, mark=first_mark)
    await env.emit(qp, 0, WRITE, SPSN, 8)
    await env.bench.step(period + period // 2)
    asked = struct("lane_ask_t").unpack(env.bench.get("lane_ask_o"))
    assert not timeouts() and asked == dict(port=0, sl=5)
    env.ring(empty=0, epoch=first_mark + 1 & 0xFFFF, mark=first_mark + 1 & 0xFFFF)
    start = env.bench.cycle
    await env.bench.until(timeouts, 2 * period, "timeout")
    assert period - 20 <= env.bench.cycle - start <= period + period // 8 + 100
    await env.settle()
    await env.bench.step(period)      # it is repeated late
    await env.emit(qp, 0, WRITE, SPSN, 8)
    start = env.bench.cycle
    for turn in range(1, AN_AGE):     # the ring is never empty, and goes on
        if timeouts():
            break
        await env.bench.step(20)
        env.ring(empty=0, epoch=first_mark + turn & 0xFFFF, mark=first_mark + turn + 1 & 0xFFFF)
    waited = env.bench.cycle - start
    assert period - 20 <= waited <= latest(period) + period // 8, waited


@cocotb.test()
async def a_lane_that_is_stuck_fails_at_last(dut):
    """REL-3: a ring that lets nothing out for twice the QP's time is a path that has failed; so is a QP that cannot
    send again."""
    period = 1024 << 3
    env, qp, _ = await sending(dut, timeout=3, retry_cnt=1)
    env.ring(empty=0)
    await env.emit(qp, 0, WRITE, SPSN, 8)
    for turn in range(2):
        start = env.bench.cycle
        await env.bench.until(lambda env=env: len(env.upd.got) > env.marks["upd"], 5 * period, "timeout")
        assert 3 * period - 20 <= env.bench.cycle - start <= 4 * period, f"turn {turn}"
        out = await env.settle()
    assert status_of(out) == (0, WcStatus.RETRY_EXC_ERR)


@cocotb.test()
async def a_modified_qp_keeps_its_timer(dut):
    """REL-3: a QP that is modified again and again while something is outstanding times out all the same."""
    env, qp, _ = await sending(dut, (WRITE, 8), timeout=3, retry_cnt=1)
    period, start = 1024 << 3, env.bench.cycle
    while len(env.upd.got) == env.marks["upd"]:
        assert env.bench.cycle - start <= latest(period) + 400, "no timeout"
        await env.context(qp)
        await env.bench.step(150)
    assert env.bench.cycle - start >= period - 20


@cocotb.test()
@cocotb.parametrize(progress=[0, 1])
async def late_timeout(dut, progress):
    """REL-3, REL-5, REL-18: a timeout that waited while an acknowledge came is nobody's any more: with retry_cnt 0 it
    would end the QP. Without progress it stands."""
    period = 1024 << 1
    env, qp, first = await sending(dut, (WRITE, 8), (WRITE, 8), timeout=1, retry_cnt=0)
    await env.message("mgmt", MSG_SQ_ERROR, Qp(9))  # messages have turns in turn: the timer's will be the last
    other = Qp(6)
    await env.context(other, init_sq=1, init_rq=1)
    env.rxw.rate = 0.0
    for psn in range(90):                           # nothing leaves: no job starts
        env.rxd.put(env.packet(other, Op.RC_WRITE_ONLY, 0x200 + psn, 0, reth_bytes=0, ack_req=0))
    await env.bench.step(300)
    while len(env.rxd.queue) > 1:
        env.rxd.queue.pop()
    env.rxd.put(ack(env, qp, first[0] if progress else first[0] - 1))
    for source in ("doorbell", "requester", "gather"):
        env.msgs[source].put(struct("pipe_msg_t").pack(kind=MSG_SQ_ERROR, qpn=9))
    await env.bench.step(2 * period + 3 * SWEEP)
    env.rxw.rate = 1.0
    await env.bench.until(env.rxd.idle, what="packets")
    out = await env.settle()
    if progress:
        assert out.cqes() == [(0, 0)] and not out.ev, "the timeout was for what has been acknowledged"
        await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 2 * period + 3 * SWEEP, "its own timeout")
        out = await env.settle()
    assert status_of(out) == (progress, WcStatus.RETRY_EXC_ERR)


@cocotb.test()
@cocotb.parametrize(end=["reset", "error"])
async def nobody_waits_for_a_qp_that_has_ended(dut, end):
    """QPS-6: the longest time-out is looked at every 17 s, and a QP that ends with something outstanding is not waited
    for as long; the timer of another one goes on."""
    other, period = Qp(6, timeout=3, retry_cnt=0), 1024 << 3
    env, qp, first = await sending(dut, (WRITE, 8), timeout=31)
    await env.bench.step(SWEEP)
    assert env.bench.get("active_o") and env.bench.get("wake_at_o") > env.time.now + (1 << 36)
    if end == "reset":
        await env.context(qp, state=QpState.RESET)
    else:
        assert status_of(await env.send(ack(env, qp, first[0], 0x62))) == (0, WcStatus.REM_ACCESS_ERR)
    await env.bench.until(lambda: not env.bench.get("active_o"), SWEEP, "rest")
    for ended in (qp, other):
        await env.context(ended, state=QpState.RESET)
        await env.context(ended, init_sq=1, init_rq=1, state=QpState.RTS)
        await env.doorbell(ended, sq=1)
        await env.emit(ended, 0, WRITE, SPSN, 8)
    start = env.bench.cycle
    await env.bench.step(100)
    await env.context(qp, state=QpState.RESET)
    await env.settle()
    await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], latest(period) + 100, "timeout")
    assert env.bench.cycle - start >= period - 20
    assert status_of(await env.settle()) == (0, WcStatus.RETRY_EXC_ERR)
    await env.bench.until(lambda: not env.bench.get("active_o"), 3 * SWEEP, "rest")


# REL-11, in milliseconds, by code.
RNR_MS = (655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 2.56, 3.84,
          5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52)


async def goes_back(env, what):
    """Until the requester is told to go back; the clock jumps to when something is due. Returns the clock's cycles."""
    start = env.time.now
    for _ in range(60 * SWEEP):
        if len(env.upd.got) > env.marks["upd"]:
            assert env.news().upd[0]["rewind"], what
            return env.time.now - start
        await env.bench.step()
        due = env.bench.get("wake_at_o")
        if env.bench.get("active_o") and due > env.time.now + 20:
            env.time.now = due - 2
    raise AssertionError(f"{what}: nothing happens")


def on_time(cycles, wanted, what):
    """Never early, at most three sixteenths of it and some sweeps late."""
    assert wanted - 50 <= cycles <= latest(wanted) + 2 * SWEEP, f"{what}: {cycles} cycles, not {wanted}"


@cocotb.test()
async def acc_7_every_code(dut):
    """ACC-7: REL-6 and REL-11, codes 0 to 31 of both tables; a time-out of 0 never comes (REL-7)."""
    for code, wait_ms in enumerate(RNR_MS):
        env, qp, first = await sending(dut, (SEND, 8), rnr_retry=7)
        await env.send(ack(env, qp, first[0], 0x20 | code))
        env.news()
        waited = await goes_back(env, f"RNR code {code}")
        on_time(waited, round(wait_ms * 1000 * RNR_CYCLES_PER_US), f"RNR code {code}")
    for code in range(1, 32):
        env, qp, _ = await sending(dut, timeout=code, retry_cnt=7)
        await env.emit(qp, 0, WRITE, SPSN, 8)
        waited = await goes_back(env, f"time-out {code}")
        on_time(waited, 1024 << code, f"time-out {code}")    # 4.096 us are 1024 cycles
    env, qp, _ = await sending(dut, (WRITE, 8), timeout=0, retry_cnt=7)
    await env.bench.until(lambda: not env.bench.get("active_o"), 3 * SWEEP, "rest")
    env.time.now += 1 << 45
    await env.bench.step(4 * SWEEP)
    assert not env.news().upd


def test_timers():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_timers")
