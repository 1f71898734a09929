"""When hca_rx_ctrl tells of a gap: once per pass of the peer, and once more if that may have been lost."""

import cocotb
from common import simulate
from hca_abi import BthOpcode as Op
from rx_bench import KIND_WRITE
from test_resp_check import EPSN, setup


@cocotb.test()
async def each_pass_gets_its_nak(dut):
    """REL-16: what comes behind a gap with a PSN before one that was there is of the next pass, whose beginning is
    lost, too: told again. A copy, and what comes behind a RNR NAK, is not."""
    env, qp = await setup(dut)

    def only(psn, op=Op.RC_WRITE_ONLY):
        return env.packet(qp, op, psn, 0, reth_bytes=0, ack_req=0)

    assert (await env.send(only(EPSN + 1))).answer() == (0x60, EPSN)
    for psn in (EPSN + 1, EPSN + 2, EPSN + 3, EPSN + 3):
        assert (await env.send(only(psn))).dropped()
    assert (await env.send(only(EPSN + 1))).answer() == (0x60, EPSN)
    assert (await env.send(only(EPSN + 2))).dropped()
    assert (await env.send(only(EPSN + 1))).answer() == (0x60, EPSN), "and the one after it"
    assert (await env.send(only(EPSN))).item()["kind"] == KIND_WRITE
    env, qp = await setup(dut)
    assert (await env.send(only(EPSN + 4))).answer() == (0x60, EPSN)
    assert (await env.send(only(EPSN))).item()["kind"] == KIND_WRITE
    assert (await env.send(only(EPSN + 1, Op.RC_SEND_ONLY))).answer() == (0x20 | qp.fields["min_rnr_timer"], EPSN + 1)
    for psn in (EPSN + 2, EPSN + 3):
        assert (await env.send(only(psn))).dropped(), "of the pass that is refused"


@cocotb.test()
@cocotb.parametrize(code=[6, 14, 0])
async def a_nak_that_may_be_lost_is_sent_once_more(dut, code):
    """REL-3, REL-4: a pass that goes on for a sixteenth of the time-out (65 us at most) has not heard of its NAK: one
    more, and no third one; none where the time-out is 0 (REL-7)."""
    env, qp = await setup(dut, timeout=code)
    units = 1 << min(code - 2, 6) if code else 250

    def only(psn):
        return env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=0)

    assert (await env.send(only(EPSN + 1))).answer() == (0x60, EPSN)
    env.time.now += (units - 2) * 256    # some cycles pass beside it
    assert (await env.send(only(EPSN + 2))).dropped(), "not yet"
    env.time.now += 2 * 256
    out = await env.send(only(EPSN + 3))
    assert out.dropped() if not code else out.answer() == (0x60, EPSN)
    env.time.now += units * 256
    assert (await env.send(only(EPSN + 4))).dropped(), "twice is enough"
    assert (await env.send(only(EPSN + 2))).answer() == (0x60, EPSN), "of the next pass"
    env.time.now += units * 256
    out = await env.send(only(EPSN + 3))
    assert out.dropped() if not code else out.answer() == (0x60, EPSN)


def test_gaps():
    simulate("hca_rx_ctrl", __name__)
