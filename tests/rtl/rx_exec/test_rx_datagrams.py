"""hca_rx_exec with datagrams: payload behind 40 bytes that hold the packet's network header, as far as there is one."""

import cocotb
from common import simulate
from exec_bench import BARE, GRH, IPV4, IPV6, NONE, READ_REQ, READ_RESP, SEND, Env
from hca_abi import WcOpcode, WcStatus
from test_rx_exec import BAD, GOOD, lists, write

KINDS = (BARE, IPV4, IPV6, GRH)
FRONT = {BARE: 8, IPV4: 28, IPV6: 48, GRH: 48}   # bytes before the BTH
ROOM = 40
SIZES = (0, 1, 2, 20, 58, 63, 64, 65, 128, 257)


def datagram(env, dg, size, sges, qpn=1, **fields):
    """A datagram as hca_rx_ctrl passes it on; its transport headers have 20 bytes, or 24 with immediate data. Where
    there are sniffers its Ethernet header is before it."""
    offset = FRONT[dg] + env.rng.choice((20, 24))
    lead = env.rng.choice((0, 14, 18)) if dg in (IPV4, IPV6) else 0
    env.item(SEND, qpn, size, **{"dg": dg, "silent": 1, "sges": sges, "cqe": {}, "payload_off": offset, "lead": lead,
                                 **fields})


def cut(env, total, count, key=GOOD):
    """A list of `count` entries that holds `total` bytes; many end inside, at, or right behind the first 40."""
    rng = env.rng
    near = [place for place in (0, 1, 19, 20, 21, 39, 40, 40, 41, 64) if place <= total] or [0]
    cuts = sorted(rng.choice((rng.choice(near), rng.randint(0, total))) for _ in range(count - 1))
    return [(rng.getrandbits(40), b - a, key) for a, b in zip([0, *cuts], [*cuts, total])]


@cocotb.test()
async def every_alignment(dut):
    """OP-22, WIRE-12: every lane of memory, every length, one entry: payload at offset 40, header right before it."""
    env = await Env(dut, seed=21).start(1)
    for dg in KINDS:
        for lane in range(64):
            size = env.rng.choice(SIZES)
            datagram(env, dg, size, [(0x100000 + lane, ROOM + size, GOOD)])
        for size in SIZES:
            for place in (0, 24, 25, 63, 4096 - 41, 4096 - 40, 4096 - 39, 4096 - 10):
                datagram(env, dg, size, [(0x200000 + place, ROOM + size + env.rng.randint(0, 9), GOOD)])
        await env.drain()
        for size in (4096, 4095, 1024):
            datagram(env, dg, size, [(env.rng.getrandbits(40), ROOM + size, GOOD)])
        for offset in range(FRONT[dg], 128, 3):   # wherever the payload begins
            datagram(env, dg, 70, [(env.rng.getrandbits(40), ROOM + 70, GOOD)], payload_off=offset, lead=0)
        await env.drain()


@cocotb.test()
async def every_first_entry(dut):
    """OP-22: the first entry ends at every place around the 40 bytes, alone or behind an empty one."""
    env = await Env(dut, seed=22).start(1)
    for dg in KINDS:
        for first in range(70):
            for empty in (0, 1):
                size = env.rng.choice((0, 1, 30, 100))
                rest = max(ROOM + size - first, 0)
                sges = [(env.rng.getrandbits(40), length, GOOD) for length in [0] * empty + [first, 0, rest]]
                datagram(env, dg, size, sges)
        await env.drain()


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.4])
async def scattered(dut, rate):
    """OP-1, OP-21, OP-22: lists of up to 16 entries that end inside, at and behind the 40 bytes, some empty; packets
    of maximal size among them."""
    env, full = await Env(dut, seed=23, rate=rate).start(1), 0
    for turn in range(200):
        size = env.rng.choice((*SIZES, env.rng.randint(0, 4096) if turn % 5 == 0 else 3))
        total = ROOM + size + env.rng.choice((0, 0, 1, 300))
        dg = env.rng.choice(KINDS)
        datagram(env, dg, size, cut(env, total, env.rng.randint(1, 16)))
        full += size > 0 or dg != BARE
    await env.drain()
    assert env.xlate.packets == full, "one end of a packet each"


@cocotb.test()
async def too_short(dut):
    """OP-21, OP-22, STAT LOC_LEN_ERR: a list without room for 40 bytes and the payload: nothing is written, nobody is
    answered; later items of the receive side only free their buffer. One byte more suffices."""
    env = await Env(dut, seed=24).start(1)
    for dg in KINDS:
        for size in (0, 1, 30, 200):
            for total in {0, 1, 19, 20, 21, 39, ROOM - 1 + size, env.rng.randrange(ROOM + size)}:
                if total >= ROOM + size:
                    continue
                sges = cut(env, total, env.rng.randint(1, 5)) if total or env.rng.random() < 0.5 else []
                datagram(env, dg, size, cut(env, ROOM + size, 3))
                datagram(env, dg, size, sges)
                assert env.bad_rq == {1}
                datagram(env, dg, size, cut(env, ROOM + size, 3))
                write(env, 1, 8, rsp={})
                env.item(NONE, 1, cqe=dict(status=WcStatus.LOC_LEN_ERR), frees=0, resumes=1)
                datagram(env, dg, size, cut(env, ROOM + size, 3))
                assert not env.bad_rq
        await env.drain()


@cocotb.test()
async def refused(dut):
    """STAT LOC_PROT_ERR, LOC_QP_OP_ERR: bad keys of entries that are used, whichever part of the packet goes there, and
    bad receive WQEs; nobody is answered. An entry with none but undefined bytes needs no key."""
    env = await Env(dut, seed=25).start(1)
    env.xlate.bad.add(BAD)
    for dg in KINDS:
        for lengths in ((100,), (20, 80), (40, 60), (30, 20, 50), (0, 41, 59), (10, 10, 10, 10, 60)):
            for place in range(len(lengths)):
                sges = [(env.rng.getrandbits(40), length, BAD if place == n else GOOD)
                        for n, length in enumerate(lengths)]
                datagram(env, dg, env.rng.choice((0, 1, 60)), sges)
                datagram(env, dg, 60, cut(env, 100, 2))
                if env.bad_rq:
                    env.item(NONE, 1, cqe=dict(status=WcStatus.LOC_PROT_ERR), frees=0, resumes=1)
        await env.drain()
        good = [(100, 100, GOOD)]
        for fields in (dict(head=dict(wqe_index=8)), dict(head=dict(num_sge=17)), dict(list_err=True),
                       dict(head=dict(num_sge=4), list_bytes=64)):
            datagram(env, dg, 20, good, **fields)
            env.item(NONE, 1, cqe=dict(status=WcStatus.LOC_QP_OP_ERR), frees=0, resumes=1)
        await env.drain()


async def mix(dut, seed, rate, latency):
    """Datagrams of two QPs among all that connections have, with failures and new lives."""
    env = await Env(dut, seed, rate, latency).start(1, 2, 3, 1023)
    rng = env.rng
    env.xlate.bad.add(BAD)
    for turn in range(800):
        key = BAD if rng.random() < 0.02 else GOOD
        qpn, kind = rng.choice((1, 3)), rng.randrange(8)
        if kind < 4:
            size = rng.choice((0, 1, 64, 200, 1024))
            total = ROOM + size + rng.choice((0, 0, 5)) - (rng.random() < 0.03)
            sges = [(va, length, key if rng.random() < 0.5 else GOOD)
                    for va, length, _ in cut(env, total, rng.randint(1, 16))]
            datagram(env, KINDS[kind], size, sges, rng.choice((2, 1023)))
        elif kind == 4:
            write(env, qpn, rng.choice((0, 1, 64, 1024)), rkey=key, rsp=rng.choice((None, {})))
        elif kind == 5:
            env.item(READ_REQ, qpn, va=1, rkey=key, chk_bytes=9, rsp=dict(read=1))
        elif kind == 6:
            env.item(NONE, rng.choice((1, 2, 3, 1023)), frees=rng.randint(0, 1), resumes=rng.random() < 0.1,
                     cqe=rng.choice((None, {}, dict(opcode=WcOpcode.SEND))))
        else:
            total = rng.randint(0, 2000)
            offset = rng.randint(0, total)
            is_send = rng.random() < 0.5
            env.item(SEND if is_send else READ_RESP, qpn, rng.randint(0, min(1024, total - offset)),
                     sges=lists(env, total, rng.randint(1, 8), key), msg_offset=offset,
                     rsp={} if is_send else None, cqe=None if is_send else dict(opcode=WcOpcode.RDMA_READ))
        if turn % 100 == 99:
            await env.drain()
            for qpn in sorted(env.bad_sq | env.bad_rq):
                await env.init(qpn)
    await env.drain()


@cocotb.test()
async def mix_fast(dut):
    """Nothing stalls."""
    await mix(dut, 26, 1.0, 10)


@cocotb.test()
async def mix_stalled(dut):
    """Everything stalls."""
    await mix(dut, 27, 0.4, 3)


@cocotb.test()
async def throughput(dut):
    """Law 6: datagrams of 64 bytes, as fast as their list (a cycle, its entry, and where the header ends) and their
    beats allow."""
    for dg, limit in ((BARE, 2.1), (IPV6, 3.1)):
        env = await Env(dut, seed=28, latency=20).start(1)
        for _ in range(200):
            datagram(env, dg, 24, [(0x4000, 64, GOOD)], payload_off=72, lead=0)
        await env.drain()
        cycles = (env.cqe.when[-1] - env.cqe.when[50]) / 149
        dut._log.warning("datagram kind %d: %.2f cycles", dg, cycles)
        assert cycles <= limit, cycles


def test_rx_datagrams():
    """Runs the tests of this file."""
    simulate("hca_rx_exec", "test_rx_datagrams")
