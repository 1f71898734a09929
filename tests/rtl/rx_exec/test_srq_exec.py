"""hca_rx_exec with slots of a shared receive queue: whatever fails and whatever is held back, each slot has exactly one
completion."""

import cocotb
from common import simulate, struct
from exec_bench import NONE, SEND, WRITE, Env
from hca_abi import WcOpcode, WcStatus

GOOD, BAD = 0x1100, 0x2200
JOB, WC = struct("cqe_job_t"), struct("wc_t")


def slots_of(env):
    """Slots in the order of their completions, with status and vendor_err."""
    found = []
    for word in env.cqe.got:
        cqe = WC.unpack(JOB.unpack(word)["wc"])
        found.append((cqe["wqe_index"], cqe["status"], cqe["vendor_err"]))
    return found


def packet(env, qpn, slot, ends, key=GOOD, **fields):
    """A packet of a SEND."""
    sges = [(0x4000 + 64 * slot, 256, key)]
    env.item(SEND, qpn, 64, sges=sges, wqe_index=slot, msg_last=ends, shared=1, cqe={} if ends else None,
             rsp={"msn": 9}, **fields)


def refused_write(env, qpn, slot, ends=1, **fields):
    """A packet of a WRITE with immediate, by a wrong key."""
    env.item(WRITE, qpn, 64, va=0x9000, rkey=BAD, chk_bytes=64, wqe_index=slot, msg_last=ends, shared=1,
             cqe={"opcode": WcOpcode.RECV_RDMA_WITH_IMM} if ends else None, **fields)


def leaves(env, qpn, slot):
    """The QP goes to ERR with a slot."""
    env.item(NONE, qpn, frees=0, shared=1, wqe_index=slot, msg_last=0, cqe={"status": WcStatus.WR_FLUSH_ERR})


def resumes(env, qpn):
    """rx_ctrl's answer."""
    env.item(NONE, qpn, frees=0, resumes=1)


async def start(dut, seed=1, rate=1.0):
    env = Env(dut, seed, rate)
    env.xlate.bad.add(BAD)
    return await env.start(1, 2)


@cocotb.test()
async def a_failed_message_completes_once(dut):
    """In its first packet, its last, or the only one; what comes behind it is flushed, in order."""
    env = await start(dut)
    packet(env, 1, 10, 0, BAD)
    packet(env, 1, 10, 0)
    packet(env, 1, 10, 1)       # told already
    packet(env, 1, 11, 1)
    packet(env, 2, 20, 1)
    packet(env, 1, 12, 0)
    packet(env, 1, 12, 1)
    resumes(env, 1)
    packet(env, 1, 13, 1, BAD)
    packet(env, 1, 14, 1)
    resumes(env, 1)
    packet(env, 1, 15, 1)
    await env.drain()
    failed, flushed = WcStatus.LOC_PROT_ERR, WcStatus.WR_FLUSH_ERR
    assert slots_of(env) == [(10, failed, 0x63), (11, flushed, 0), (20, 0, 0), (12, flushed, 0), (13, failed, 0x63),
                             (14, flushed, 0), (15, 0, 0)]


@cocotb.test()
async def a_qp_that_leaves_behind_its_failure(dut):
    """The slot that it held is flushed, if it is not the one that failed."""
    env = await start(dut)
    packet(env, 1, 10, 0, BAD)
    leaves(env, 1, 10)
    resumes(env, 1)
    await env.init(1)
    packet(env, 2, 30, 0, BAD)
    packet(env, 2, 30, 1)
    packet(env, 2, 31, 0)
    leaves(env, 2, 31)
    resumes(env, 2)
    await env.drain()
    assert [(slot, status) for slot, status, _ in slots_of(env)] == [
        (10, WcStatus.LOC_PROT_ERR), (30, WcStatus.LOC_PROT_ERR), (31, WcStatus.WR_FLUSH_ERR)]


@cocotb.test()
async def a_refused_write_has_used_nothing(dut):
    """On UC what is lost says that its slot was not used, on RC that it is flushed."""
    for silent in (0, 1):
        env = await start(dut)
        refused_write(env, 1, 5, silent=silent)
        packet(env, 1, 6, 1, silent=silent)
        resumes(env, 1)
        refused_write(env, 1, 7, ends=0, silent=silent)
        refused_write(env, 1, 7, silent=silent)
        resumes(env, 1)
        packet(env, 1, 8, 1, silent=silent)
        await env.drain()
        flushed = (WcStatus.WR_FLUSH_ERR, 0x80 if silent else 0)
        assert slots_of(env) == [(5, *flushed), (6, *flushed), (7, *flushed), (8, 0, 0)]


@cocotb.test()
async def every_slot_once(dut):
    """Messages of two QPs at random, with failures, answers late or early, and ends of QPs; stalls on every side."""
    for seed in range(6):
        env = await start(dut, seed, 1.0 if seed % 2 else 0.5)
        slots = iter(range(10000))
        used = 0
        waiting = {1: None, 2: None}   # items until the answer comes
        for _ in range(120):
            qpn = env.rng.choice((1, 2))
            slot, packets = next(slots), env.rng.randint(1, 4)
            used += 1
            for n in range(packets):
                bad = env.rng.random() < 0.1
                if packets == 1 and env.rng.random() < 0.3:
                    (refused_write if bad else packet)(env, qpn, slot, 1)
                elif n == packets - 1 and env.rng.random() < 0.1:
                    leaves(env, qpn, slot)
                else:
                    packet(env, qpn, slot, int(n == packets - 1), BAD if bad else GOOD)
                if qpn in env.bad_rq:
                    left = waiting[qpn]
                    waiting[qpn] = env.rng.randrange(6) if left is None else left - 1
                    # An answer comes between messages: with it rx_ctrl ends the one in progress.
                    if waiting[qpn] <= 0 and n == packets - 1:
                        resumes(env, qpn)
                        waiting[qpn] = None
        await env.drain()
        found = [slot for slot, _, _ in slots_of(env)]
        assert sorted(found) == list(range(used)), f"seed {seed}"


def test_srq_exec():
    simulate("hca_rx_exec", __name__)
