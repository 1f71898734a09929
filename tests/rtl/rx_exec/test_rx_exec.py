"""hca_rx_exec: placement of payloads, end actions, and every way to fail."""

import cocotb
from common import simulate
from exec_bench import NONE, READ_REQ, READ_RESP, SEND, WRITE, Env
from hca_abi import WcOpcode, WcStatus

GOOD, BAD, NULL = 0x1100, 0x2200, 0x3300
FLUSH = WcStatus.WR_FLUSH_ERR


def write(env, qpn, size, va=None, **fields):
    """A WRITE packet."""
    va = env.rng.getrandbits(44) if va is None else va
    env.item(WRITE, qpn, size, **{"va": va, "rkey": GOOD, "chk_bytes": size, **fields})


def lists(env, total, count, key=GOOD):
    """A scatter list of `count` entries that holds `total` bytes, some entries empty."""
    cuts = sorted(env.rng.randint(0, total) for _ in range(count - 1))
    lengths = [b - a for a, b in zip([0, *cuts], [*cuts, total])]
    return [(env.rng.getrandbits(40), length, key) for length in lengths]


@cocotb.test()
async def every_alignment(dut):
    """OP-3, MEM: source lanes, destination lanes and lengths: exactly the payload's bytes are written, in
    bursts inside 256-byte blocks."""
    env = await Env(dut).start(1)
    for source in (0, 1, 6, 31, 63, 70, 127):
        for dest in (0, 1, 6, 32, 63, 4090, 250):
            for size in (0, 1, 2, 58, 64, 65, 128, 257):
                write(env, 1, size, va=0x100000 + dest, payload_off=source, rsp={})
        await env.drain()
    for size in (4096, 4095, 1024):
        write(env, 1, size, rsp={})
    await env.drain()


@cocotb.test()
async def scatter_of_sends(dut):
    """OP-1, OP-21: the receive WQE's entries, from any message offset, up to 16 of them, empty ones too."""
    env = await Env(dut, seed=2).start(1)
    for _ in range(150):
        total, count = env.rng.choice((0, 1, 100, 3000)), env.rng.randint(1, 16)
        offset = env.rng.randint(0, total)
        size = env.rng.randint(0, min(total - offset, 1024))
        env.item(SEND, 1, size, sges=lists(env, total, count), msg_offset=offset, cqe={}, rsp={})
    env.item(SEND, 1, 0, sges=[], msg_offset=0, cqe={}, rsp={})
    await env.drain()


@cocotb.test()
async def null_regions(dut):
    """V-133: entries of a null region take their bytes of the payload, nothing is written; end actions as always."""
    env = await Env(dut, seed=9, rate=0.7).start(1)
    env.xlate.null.add(NULL)
    for turn in range(120):
        total, count = env.rng.choice((0, 1, 100, 3000)), env.rng.randint(1, 16)
        sges = [(addr, length, env.rng.choice((GOOD, NULL))) for addr, length, _ in lists(env, total, count)]
        if turn % 2:
            env.item(SEND, 1, min(total, 1024), sges=sges, msg_offset=0, cqe={}, rsp={})
        else:
            cqe = dict(opcode=WcOpcode.RDMA_READ)
            env.item(READ_RESP, 1, min(total, 1024), sges=sges, msg_offset=0, cqe=cqe)
    await env.drain()


@cocotb.test()
async def scatter_of_read_responses(dut):
    """OP-5: the send WQE's entries start at byte 32."""
    env = await Env(dut, seed=3).start(1)
    for _ in range(100):
        total, count = env.rng.choice((1, 500, 5000)), env.rng.randint(1, 16)
        offset = env.rng.randint(0, total)
        size = env.rng.randint(0, min(total - offset, 1024))
        env.item(READ_RESP, 1, size, sges=lists(env, total, count), msg_offset=offset,
                 cqe=dict(opcode=WcOpcode.RDMA_READ))
    env.item(READ_RESP, 1, 0, cqe=dict(opcode=WcOpcode.RDMA_READ))
    await env.drain()


@cocotb.test()
async def order_of_end_actions(dut):
    """KEY-31, law 4: end actions in order and only after the payload was accepted; items without payload."""
    env = await Env(dut, seed=4, rate=0.3).start(1, 2)
    for _ in range(60):
        write(env, 1, env.rng.choice((0, 64, 1000)), rsp={}, cqe=dict(opcode=WcOpcode.RECV_RDMA_WITH_IMM))
        env.item(NONE, 2, cqe=dict(opcode=WcOpcode.SEND), frees=env.rng.randint(0, 1))
        env.item(NONE, 2, rsp=dict(syndrome=0x60))
        env.item(READ_REQ, 2, va=5, rkey=GOOD, chk_bytes=100, rsp=dict(read=1, va=5, rkey=GOOD, len_bytes=100))
    await env.drain()


@cocotb.test()
async def write_refused(dut):
    """KEY-30, KEY-31, REL-13: R_Key failure: NAK 0x62, MsgReqError, nothing of the packet in memory; later
    items of the receive side, flushes too, only free their buffers until one resumes; send side and other QPs
    go on; init_rq ends it, too."""
    env = await Env(dut, seed=5).start(1, 2)
    env.xlate.bad.add(BAD)
    write(env, 1, 64, rsp={})
    write(env, 1, 300, rkey=BAD, chk_bytes=1000, rsp={}, msg_last=0)
    write(env, 1, 300, rsp={}, cqe={})
    env.item(SEND, 1, 10, sges=[(0, 10, GOOD)], cqe={}, rsp={})
    env.item(READ_REQ, 1, va=0, rkey=GOOD, chk_bytes=8, rsp=dict(read=1))
    env.item(READ_RESP, 1, 8, sges=[(99, 8, GOOD)], cqe=dict(opcode=WcOpcode.RDMA_READ))
    env.item(NONE, 1, cqe=dict(opcode=WcOpcode.RECV, status=FLUSH), frees=0)
    write(env, 2, 64, rsp={})
    env.item(NONE, 1, cqe=dict(opcode=WcOpcode.SEND, status=FLUSH), frees=0, resumes=1)  # of the other side
    env.item(NONE, 1, cqe=dict(opcode=WcOpcode.RECV, status=FLUSH), frees=0)
    env.item(NONE, 1, frees=0, resumes=1)
    env.item(NONE, 1, cqe=dict(opcode=WcOpcode.RECV, status=FLUSH), frees=0)
    await env.drain()
    write(env, 1, 300, rkey=BAD, chk_bytes=1000, rsp={}, msg_last=0)
    await env.drain()
    await env.init(1, sq=0)
    write(env, 1, 300, rsp={}, cqe={})
    env.item(READ_REQ, 1, va=0, rkey=BAD, chk_bytes=8, rsp=dict(read=1))
    await env.drain()
    # a zero-length WRITE needs no valid key
    await env.init(1)
    write(env, 1, 0, rkey=BAD, rsp={})
    await env.drain()


@cocotb.test()
async def send_refused(dut):
    """OP-21, STAT LOC_LEN_ERR, LOC_PROT_ERR, LOC_QP_OP_ERR: bad receive WQEs."""
    env = await Env(dut, seed=6).start(1)
    env.xlate.bad.add(BAD)
    good = [(100, 50, GOOD), (200, 50, GOOD)]
    for fields in (dict(sges=good, msg_offset=1), dict(sges=good, msg_offset=500), dict(sges=[], msg_offset=0),
                   dict(sges=[(0, 60, GOOD), (0, 60, BAD)]), dict(sges=good, head=dict(wqe_index=8)),
                   dict(sges=good, head=dict(num_sge=17)), dict(sges=good, head=dict(num_sge=4), list_bytes=64),
                   dict(sges=good, list_err=True), dict(sges=[(0, 8, GOOD)] * 12 + [(0, 1, GOOD)])):
        env.item(SEND, 1, 100, rsp={}, cqe={}, **{"msg_offset": 0, **fields})
        env.item(SEND, 1, 20, rsp={}, cqe={}, sges=good, msg_offset=0)
        await env.drain()
        await env.init(1, sq=0)
    env.item(SEND, 1, 0, rsp={}, cqe={}, sges=[], head=dict(wqe_index=6))
    await env.drain()


@cocotb.test()
async def read_response_refused(dut):
    """STAT, QPS-14: a failed READ scatter: MsgSqError; every completion of the send side is held back until that of
    the WQE that failed, which resumes; the receive side goes on."""
    env = await Env(dut, seed=7).start(1)
    env.xlate.bad.add(BAD)
    for fields in (dict(sges=[(0, 50, BAD)]), dict(sges=[(0, 49, GOOD)]), dict(sges=[(0, 50, GOOD)], list_err=True),
                   dict(sges=[(0, 50, GOOD)], head=dict(opcode=0)), dict(sges=[(0, 50, BAD)], chk_bytes=3),
                   dict(sges=[(0, 50, GOOD)], head=dict(inline_data=1))):
        env.item(READ_RESP, 1, 50, msg_offset=0, cqe=dict(opcode=WcOpcode.RDMA_READ), **fields)
        for status in (WcStatus.SUCCESS, WcStatus.REM_ACCESS_ERR, WcStatus.RETRY_EXC_ERR, WcStatus.LOC_PROT_ERR, FLUSH):
            env.item(NONE, 1, cqe=dict(opcode=WcOpcode.SEND, status=status), frees=0)
        write(env, 1, 64, rsp={})
        if env.rng.random() < 0.5:
            env.item(NONE, 1, cqe=dict(opcode=WcOpcode.SEND, status=WcStatus.LOC_PROT_ERR), frees=0, resumes=1)
            env.item(NONE, 1, cqe=dict(opcode=WcOpcode.SEND, status=FLUSH), frees=0)
        await env.drain()
        await env.init(1, rq=0)
        env.item(READ_RESP, 1, 50, sges=[(0, 50, GOOD)], msg_offset=0, cqe=dict(opcode=WcOpcode.RDMA_READ))
        await env.drain()


@cocotb.test()
async def throughput(dut):
    """Law 6: a 64-byte WRITE or SEND per two cycles, translation latency hidden; a beat per cycle in long packets."""
    env = await Env(dut, seed=8, latency=20).start(1)
    for _ in range(200):
        write(env, 1, 64, va=0x4000, payload_off=70, rsp={})
    await env.drain()
    small = (env.wr.when[-1] - env.wr.when[0]) / 199
    assert small <= 2.01, small
    first = len(env.wr.when)
    for _ in range(200):
        env.item(SEND, 1, 64, payload_off=70, rsp={}, cqe={}, sges=[(0, 64, GOOD)], msg_offset=0)
    await env.drain()
    send = (env.wr.when[-1] - env.wr.when[first]) / 199
    assert send <= 2.1, send
    first = len(env.wr.when)
    for _ in range(20):
        write(env, 1, 4096, va=0x4000, payload_off=70, rsp={})
    await env.drain()
    beats = len(env.wr.when) - first
    large = (env.wr.when[-1] - env.wr.when[first]) / beats
    dut._log.warning("64-byte WRITE: %.2f cycles, SEND: %.2f; 4096-byte WRITE: %.3f cycles per beat",
                     small, send, large)
    assert beats == 20 * 64 and large < 1.06, large


async def mix(dut, seed, rate, latency):
    """Everything at random over three QPs, with failures and new lives."""
    env = await Env(dut, seed, rate, latency).start(1, 2, 1023)
    rng = env.rng
    env.xlate.bad.add(BAD)
    for turn in range(1000):
        qpn, kind = rng.choice((1, 2, 1023)), rng.randrange(5)
        key = BAD if rng.random() < 0.02 else GOOD
        rsp = {} if rng.random() < 0.5 else None
        if kind == WRITE:
            write(env, qpn, rng.choice((0, 1, 64, 200, 1024)), rkey=key, rsp=rsp, cqe=rng.choice((None, {})))
        elif kind == READ_REQ:
            env.item(READ_REQ, qpn, va=1, rkey=key, chk_bytes=9, rsp=dict(read=1))
        elif kind == NONE:
            env.item(NONE, qpn, rsp=rsp, frees=rng.randint(0, 1), resumes=rng.random() < 0.1,
                     cqe=rng.choice((None, {}, dict(opcode=WcOpcode.SEND), dict(status=FLUSH))))
        else:
            total = rng.randint(0, 2000)
            offset = rng.randint(0, total)
            size = rng.randint(0, min(1024, total - offset)) + (rng.random() < 0.02)
            opcode = WcOpcode.RECV if kind == SEND else WcOpcode.RDMA_READ
            env.item(kind, qpn, size, sges=lists(env, total, rng.randint(1, 8), key), msg_offset=offset,
                     rsp=rsp if kind == SEND else None, cqe=rng.choice((None, dict(opcode=opcode))))
        if turn % 100 == 99:
            await env.drain()
            for qpn in sorted(env.bad_sq | env.bad_rq):
                await env.init(qpn)
    await env.drain()


@cocotb.test()
async def mix_fast(dut):
    """Nothing stalls."""
    await mix(dut, 9, 1.0, 10)


@cocotb.test()
async def mix_stalled(dut):
    """Everything stalls."""
    await mix(dut, 10, 0.4, 3)


def test_rx_exec():
    """Runs the tests of this file."""
    simulate("hca_rx_exec", "test_rx_exec")
