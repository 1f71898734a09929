"""End-to-end credits (X-3, decision 0068) of hca_rx_ctrl: what the responder tells, what the limit becomes."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import QpState, WrOpcode
from rx_bench import KIND_NONE, PSN_MASK, RNR_CYCLES_PER_US, WQE_MASK, Env, Qp, ack, sending

EPSN, NONE = 0xFFFFF0, 0x1F
# IBA vol1 9.7.7.2: the table of credit counts.
COUNTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
          6144, 8192, 12288, 16384, 24576, 32768)
PROBE_US, SWEEP, MSG_MW_DONE = 160, 4 * 1024, 9
WRITE, SEND, READ, BIND = WrOpcode.RDMA_WRITE, WrOpcode.SEND, WrOpcode.RDMA_READ, WrOpcode.BIND_MW


def code_of(count):
    """The largest code that promises no more."""
    return max(code for code, least in enumerate(COUNTS) if least <= count)


class Receiver:
    """A QP with receives, and what its peer sends it."""

    def __init__(self, env, qp):
        self.env, self.qp, self.psn, self.msn, self.posted, self.taken = env, qp, EPSN, 0, 0, 0

    @classmethod
    async def make(cls, dut, **fields):
        """With no receive."""
        qp = Qp(5, **{"rq_psn": EPSN, "credits": 1, "rq_log_size": 15, **fields})
        return cls(await Env(dut).start(qp), qp)

    async def post(self, count):
        """Posts receives; returns what comes of it."""
        self.posted += count
        await self.env.doorbell(self.qp, rq=self.posted)
        return await self.env.settle()

    async def packet(self, opcode, size=8, **fields):
        """The next packet; returns what came of it."""
        fields = {"reth_bytes": size, "ack_req": 1, **fields}
        out = await self.env.send(self.env.packet(self.qp, opcode, self.psn, size, **fields))
        self.psn += 1
        self.msn += opcode not in (Op.RC_SEND_FIRST, Op.RC_SEND_MIDDLE)
        self.taken += opcode in (Op.RC_SEND_ONLY, Op.RC_SEND_LAST, Op.RC_WRITE_ONLY_IMM)
        return out

    def told(self, out):
        """The syndrome of the only item's answer, which is for all that has come."""
        rsp = out.item()["rsp"]
        assert (rsp["valid"], rsp["psn"], rsp["msn"]) == (1, (self.psn - 1) & PSN_MASK, self.msn)
        return rsp["syndrome"]


def credit(upd):
    """Credits that an update carries."""
    return struct("credit_t").unpack(upd["credit"])


@cocotb.test()
async def every_code_is_told(dut):
    """X-3: an ACK has the largest code that promises no more than there is, behind a message that takes a receive one
    less, at every border of the table; of a SEND whose rest is to come the receive counts still. PSNs wrap."""
    peer = await Receiver.make(dut)
    for count in sorted({1, 32767} | {c + d for c in COUNTS[1:-1] for d in (-1, 0, 1)} - {0}):
        await peer.post(count - (peer.posted - peer.taken))
        assert peer.told(await peer.packet(Op.RC_WRITE_ONLY)) == code_of(count), count
        assert peer.told(await peer.packet(Op.RC_SEND_FIRST, peer.qp.mtu)) == code_of(count)
        assert peer.told(await peer.packet(Op.RC_SEND_LAST)) == code_of(count - 1)
        peer.psn -= 1
        copy = peer.env.packet(peer.qp, Op.RC_SEND_LAST, peer.psn, 8, ack_req=1)
        peer.psn += 1
        assert peer.told(await peer.env.send(copy)) == code_of(count - 1), "a copy is told what there is"
        out = await peer.packet(Op.RC_READ_REQUEST, 0, reth_bytes=100)
        assert out.item()["rsp"]["read"] and peer.told(out) == code_of(count - 1), "a READ response has an AETH, too"
        peer.env.popped.queue.append(peer.qp.qpn)
        assert peer.told(await peer.packet(Op.RC_WRITE_ONLY_IMM) if count > 1 else await peer.packet(
            Op.RC_WRITE_ONLY)) == code_of(max(count - 2, 0))


@cocotb.test()
async def who_tells_none(dut):
    """X-3: 31 of a QP with an SRQ (SPEC-4), without the context's bit, and of a WRITE as of a SEND."""
    for fields in ({"credits": 0}, {"credits": 1, "has_srq": 1}):
        peer = await Receiver.make(dut, **fields)
        await peer.post(4)
        assert peer.told(await peer.packet(Op.RC_WRITE_ONLY)) == NONE
        if not fields.get("has_srq"):
            assert peer.told(await peer.packet(Op.RC_SEND_ONLY)) == NONE
            for _ in range(3):
                assert peer.told(await peer.packet(Op.RC_SEND_ONLY)) == NONE
            assert not (await peer.post(1)).rxw, "nobody waits for it"


@cocotb.test()
async def a_receive_that_comes_late_is_told(dut):
    """Who was told of no credit hears of the next receive that is posted, once, with the PSN that was acknowledged;
    also when the doorbell crosses the packet; not in another state, and not behind a gap that was told."""
    peer = await Receiver.make(dut)
    await peer.post(1)
    assert not (await peer.post(0)).rxw
    assert peer.told(await peer.packet(Op.RC_SEND_ONLY)) == 0
    assert not (await peer.post(0)).rxw, "nothing has come"
    out = await peer.post(6)
    assert peer.told(out) == code_of(6) and out.item()["kind"] == KIND_NONE and not out.item()["frees"]
    assert not (await peer.post(2)).rxw, "it knows of some"
    # Some cycles before and behind each packet that takes the last one.
    for delay in range(14):
        for _ in range(peer.posted - peer.taken - 1):
            await peer.packet(Op.RC_SEND_ONLY)
        peer.posted += 3
        peer.env.rxd.put(peer.env.packet(peer.qp, Op.RC_SEND_ONLY, peer.psn, 8, ack_req=1))
        await peer.env.bench.step(delay)
        await peer.env.doorbell(peer.qp, rq=peer.posted)
        out = await peer.env.settle()
        last = out.rxw[-1]["rsp"]
        assert (last["syndrome"], last["psn"], len(out.rxw)) in (
            (3, peer.psn & PSN_MASK, 1), (3, peer.psn & PSN_MASK, 2)), (delay, last)
        peer.psn, peer.taken, peer.msn = peer.psn + 1, peer.taken + 1, peer.msn + 1
    while peer.taken < peer.posted:
        await peer.packet(Op.RC_SEND_ONLY)
    await peer.env.context(peer.qp, state=QpState.ERR)
    assert not [item for item in (await peer.post(1)).rxw if item["rsp"]["valid"]]


@cocotb.test()
async def limit_of_a_requester(dut):
    """IBA vol1 9.7.7.2.5: the limit is the oldest WQE and the credits of the ACK that has led there; it never goes
    back; an ACK of the last PSN again moves it; 31 ends it until the queue is initialised."""
    env, qp, first = await sending(dut, (SEND, 8), (SEND, 600), (WRITE, 8), (READ, 300), (SEND, 8), (SEND, 8),
                                   credits=1)
    (upd,) = (await env.send(ack(env, qp, first[0], 5))).upd
    assert credit(upd) == dict(on=1, probe=0, limit=1 + 6) and upd["una_wqe"] == 1
    (upd,) = (await env.send(ack(env, qp, first[1], 3))).upd
    assert credit(upd)["limit"] == 7, "older than what is known"
    (upd,) = (await env.send(ack(env, qp, first[1], 8))).upd
    assert credit(upd)["limit"] == 1 + 16 and upd["una_psn"] == first[1] + 1, "news of what is acknowledged"
    assert not (await env.send(ack(env, qp, first[1], 8))).upd
    assert not (await env.send(ack(env, qp, first[0], 12))).upd, "of before"
    (upd,) = (await env.send(ack(env, qp, first[2], 9))).upd
    assert credit(upd)["limit"] == 3 + 24
    await env.send(*[env.packet(qp, word_op, psn, size, aeth_syndrome=10) for word_op, psn, size in (
        (Op.RC_READ_RESPONSE_FIRST, first[3], 256), (Op.RC_READ_RESPONSE_LAST, first[3] + 1, 44))])
    (upd,) = (await env.send(ack(env, qp, first[4], 0x60))).upd
    assert credit(upd)["limit"] == 4 + 32, "the READ's last response has told; a NAK tells nothing"
    (upd,) = (await env.send(ack(env, qp, first[4], NONE))).upd
    assert not credit(upd)["on"]
    (upd,) = (await env.send(ack(env, qp, first[5], 1))).upd
    assert not credit(upd)["on"], "for good"
    await env.context(qp, init_sq=1, init_rq=1)
    await env.emit(qp, 0, SEND, 0x100, 8)
    (upd,) = (await env.send(ack(env, qp, 0x100, 0))).upd
    assert credit(upd) == dict(on=1, probe=0, limit=1)


@cocotb.test()
async def who_runs_dry_probes(dut):
    """Without a credit and with nothing outstanding a packet beyond the limit may go after 160 us, not before; an ACK
    of credits ends the wait, one of none does not."""
    env, qp, first = await sending(dut, (SEND, 8), credits=1, timeout=0)
    (upd,) = (await env.send(ack(env, qp, first[0], 0))).upd
    assert credit(upd) == dict(on=1, probe=0, limit=1)
    start = env.bench.cycle
    assert not (await env.send(ack(env, qp, first[0], 0))).upd, "nothing new"
    await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 60000, "leave to probe")
    waited = env.bench.cycle - start
    period = PROBE_US * RNR_CYCLES_PER_US
    assert period - 100 <= waited <= period + 3 * period // 16 + SWEEP, waited
    (upd,) = (await env.settle()).upd
    assert credit(upd) == dict(on=1, probe=1, limit=1) and not upd["rewind"] and not upd["halt"]
    await env.bench.until(lambda: not env.bench.get("active_o"), 3 * SWEEP, "rest")
    # The probe is acknowledged: dry again; then the peer posts.
    await env.emit(qp, 1, SEND, first[0] + 1, 8)
    (upd,) = (await env.send(ack(env, qp, first[0] + 1, 0))).upd
    assert credit(upd) == dict(on=1, probe=0, limit=2)
    (upd,) = (await env.send(ack(env, qp, first[0] + 1, 4))).upd
    assert credit(upd) == dict(on=1, probe=0, limit=6)
    await env.bench.step(period + 3 * period // 16 + SWEEP)
    assert not env.news().upd and not env.bench.get("active_o")


@cocotb.test()
async def a_response_that_completes_more_may_be_the_last_word(dut):
    """A READ's response acknowledges the SEND before it, with no credit: nothing else will tell, so the wait begins."""
    env, qp, first = await sending(dut, (SEND, 8), (READ, 100), credits=1, timeout=0)
    word = env.packet(qp, Op.RC_READ_RESPONSE_ONLY, first[1], 100, aeth_syndrome=0)
    out = await env.send(word)
    assert out.cqes() == [(0, 0), (1, 0)] and credit(out.upd[-1]) == dict(on=1, probe=0, limit=2)
    await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 60000, "leave to probe")
    (upd,) = (await env.settle()).upd
    assert credit(upd) == dict(on=1, probe=1, limit=2)


@cocotb.test()
async def what_takes_no_receive_moves_the_limit(dut):
    """A local operation is no message of the MSN's: the limit goes on with it."""
    env, qp, first = await sending(dut, (SEND, 8), credits=1)
    (upd,) = (await env.send(ack(env, qp, first[0], 1))).upd
    assert credit(upd)["limit"] == 2
    await env.emit(qp, 1, BIND, first[0], 0, next_psn=first[0] + 1)
    (upd,) = (await env.message("mw", MSG_MW_DONE, qp, 1)).upd
    assert (upd["una_wqe"], credit(upd)["limit"]) == (2, 3)


@cocotb.test()
async def indices_wrap(dut):
    """The limit is an index as any other one, and counts on over its end."""
    qp = Qp(5, credits=1)
    env = await Env(dut).start(qp)
    psn = qp.fields["sq_psn"]
    for index in range(0, WQE_MASK + 0x21, 8):
        for part in range(8):
            env.omt.put(struct("omt_wr_t").pack(first=1, qpn=qp.qpn, wqe_index=(index + part) & WQE_MASK, opcode=SEND,
                                                signaled=0, last_psn=(psn + part) & PSN_MASK,
                                                next_psn=(psn + part + 1) & PSN_MASK, len_bytes=8))
        await env.bench.until(env.omt.idle, what="omt")
        await env.bench.step(2)
        env.rxd.put(ack(env, qp, psn + 7, 6))
        before = len(env.upd.got)
        await env.bench.until(lambda: len(env.upd.got) > before, 200, "update")
        psn += 8
        upd = struct("ack_upd_t").unpack(env.upd.got[-1])
        assert (upd["una_wqe"], credit(upd)["limit"]) == ((index + 8) & WQE_MASK, (index + 16) & WQE_MASK)


def test_credits():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", __name__)
