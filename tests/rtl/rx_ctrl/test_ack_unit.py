"""hca_rx_ctrl as requester's receive side: every rule of README table 2 by a directed test, and a lossy peer."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import HwEventKind, HwEventWho, PathMigState, QpState, WcOpcode, WcStatus, WrOpcode
from rx_bench import (KIND_ATOMIC_RESP, KIND_NONE, KIND_READ_RESP, MSG_FLUSH_SQ, MSG_SQ_DRAIN, MSG_SQ_ERROR, PSN_MASK,
                      WQE_MASK, Env, Qp, ack, responses, sending, status_of)

SPSN = 0x100
WRITE, SEND, READ = WrOpcode.RDMA_WRITE, WrOpcode.SEND, WrOpcode.RDMA_READ
SWEEP = 2 * 1024
ATOMICS = {WrOpcode.ATOMIC_CMP_AND_SWP: WcOpcode.COMP_SWAP, WrOpcode.ATOMIC_FETCH_AND_ADD: WcOpcode.FETCH_ADD}


def answer(env, qp, psn, value=0):
    """ATOMIC ACKNOWLEDGE."""
    return env.packet(qp, Op.RC_ATOMIC_ACKNOWLEDGE, psn, 0, aeth_syndrome=0x1F, swap_add=value)


@cocotb.test()
async def answers_of_atomics_are_placed(dut):
    """OP-10, STAT-2: the original goes to the entry of its WQE, its CQE is that of the operation."""
    swap, add = ATOMICS
    env, qp, first = await sending(dut, (WRITE, 8), (swap, 8), (add, 8, 0), (READ, 8), (add, 8), sq_log_stride=1)
    out = await env.send(answer(env, qp, first[1], 0x1122334455667788))
    item = out.rxw[-1]
    assert (item["kind"], item["wqe_index"], item["rsp"]["va"]) == (KIND_ATOMIC_RESP, 1, 0x1122334455667788)
    assert (item["payload_bytes"], item["needs_list"], item["msg_offset"], item["msg_last"]) == (8, 1, 0, 1)
    assert out.list[0]["addr"] - qp.fields["sq_base"] == 128 and len(out.list) == 1
    assert out.cqes() == [(0, 0), (1, 0)]
    assert (item["cqe"]["opcode"], item["cqe"]["byte_len"]) == (WcOpcode.COMP_SWAP, 8)
    out = await env.send(answer(env, qp, first[2], 7))
    assert out.rxw[-1]["kind"] == KIND_ATOMIC_RESP and not out.cqes() and out.upd[-1]["rd_done"] == 2
    # A READ in between has no data yet: an implied NAK, once.
    out = await env.send(answer(env, qp, first[4], 9))
    assert not out.cqes() and out.upd[-1]["rewind"] and out.upd[-1]["una_wqe"] == 3
    out = await env.send(*responses(env, qp, first[3], 8), answer(env, qp, first[4], 9))
    assert out.cqes() == [(3, 0), (4, 0)] and out.rxw[-1]["cqe"]["opcode"] == WcOpcode.FETCH_ADD
    # An ACK alone is an implied NAK.
    env, qp, first = await sending(dut, (add, 8), (WRITE, 8))
    out = await env.send(ack(env, qp, first[1]))
    assert not out.cqes() and out.upd[-1]["rewind"]
    assert status_of(await env.send(ack(env, qp, first[0], 0x62))) == (0, WcStatus.REM_ACCESS_ERR)


@cocotb.test()
async def atomic_writes_are_reads_of_nothing(dut):
    """OP-19, REL-1: a READ response without data completes it, of 8 bytes; nothing is placed; an ACK is none."""
    store, add = WrOpcode.ATOMIC_WRITE, WrOpcode.ATOMIC_FETCH_AND_ADD
    env, qp, first = await sending(dut, (store, 8), (store, 8, 0), (add, 8), (WRITE, 8), (store, 8))
    out = await env.send(*responses(env, qp, first[0], 0))
    item = out.rxw[-1]
    assert (item["kind"], item["payload_bytes"], item["needs_list"]) == (KIND_READ_RESP, 0, 0) and not out.list
    assert (item["cqe"]["opcode"], item["cqe"]["byte_len"]) == (WcOpcode.ATOMIC_WRITE, 8)
    assert out.cqes() == [(0, 0)] and out.upd[-1]["rd_done"] == 1
    out = await env.send(*responses(env, qp, first[1], 0))
    assert not out.cqes() and out.upd[-1]["rd_done"] == 2
    # Behind an atomic whose answer is missing: an implied NAK; then all of it.
    out = await env.send(*responses(env, qp, first[4], 0))
    assert not out.cqes() and out.upd[-1]["rewind"] and out.upd[-1]["una_wqe"] == 2
    out = await env.send(answer(env, qp, first[2]), *responses(env, qp, first[4], 0))
    assert out.cqes() == [(2, 0), (3, 0), (4, 0)]
    env, qp, first = await sending(dut, (store, 8), (WRITE, 8))
    out = await env.send(ack(env, qp, first[1]))
    assert not out.cqes() and out.upd[-1]["rewind"]
    # Data, or the value of an atomic, is nothing that it has asked for.
    for bad in (lambda env, qp, psn: responses(env, qp, psn, 8), lambda env, qp, psn: [answer(env, qp, psn)]):
        env, qp, first = await sending(dut, (store, 8))
        assert status_of(await env.send(*bad(env, qp, first[0]))) == (0, WcStatus.BAD_RESP_ERR)


@cocotb.test()
async def flushes_are_reads_of_nothing(dut):
    """A READ response without data completes it, of no bytes; an ACK behind it asks for it again; data is nothing."""
    flush = WrOpcode.FLUSH
    env, qp, first = await sending(dut, (flush, 0), (flush, 0, 0), (WRITE, 8))
    out = await env.send(*responses(env, qp, first[0], 0))
    cqe = out.rxw[-1]["cqe"]
    assert (cqe["opcode"], cqe["byte_len"]) == (WcOpcode.FLUSH, 0) and not out.list
    assert out.cqes() == [(0, 0)] and out.upd[-1]["rd_done"] == 1
    out = await env.send(ack(env, qp, first[2]))
    assert not out.cqes() and out.upd[-1]["rewind"]
    env, qp, first = await sending(dut, (flush, 0))
    assert status_of(await env.send(*responses(env, qp, first[0], 8))) == (0, WcStatus.BAD_RESP_ERR)
    env, qp, first = await sending(dut, (flush, 0))
    assert status_of(await env.send(ack(env, qp, first[0], 0x62))) == (0, WcStatus.REM_ACCESS_ERR)


@cocotb.test()
async def acknowledge_completes_in_order(dut):
    """REL-1, OP-19, OP-20, QPS-14: one ACK completes all before it, unsignaled ones without a CQE; PSN wrap."""
    env, qp, first = await sending(dut, (WRITE, 600), (SEND, 0, 0), (WrOpcode.SEND_WITH_IMM, 10), (WRITE, 10),
                                   sq_psn=0xFFFFFE)
    out = await env.send(ack(env, qp, first[2]))
    assert out.cqes() == [(0, 0), (2, 0)]
    cqes = [item["cqe"] for item in out.rxw if item["cqe"]["valid"]]
    assert [(cqe["opcode"], cqe["byte_len"], cqe["cqn"]) for cqe in cqes] == [
        (WcOpcode.RDMA_WRITE, 600, 6), (WcOpcode.SEND, 10, 6)]
    assert sum(item["frees"] for item in out.rxw) == 1 and out.rxw[-1]["frees"]
    (upd,) = out.upd
    assert (upd["una_wqe"], upd["una_psn"], upd["una_first_psn"]) == (3, first[3], first[3])
    assert not upd["rewind"] and not upd["halt"]


@cocotb.test()
async def partial_and_ghost_acknowledges(dut):
    """REL-1: an ACK inside a message moves the window only; PSNs not outstanding are ghosts."""
    env, qp, first = await sending(dut, (WRITE, 1000), (WRITE, 10))
    out = await env.send(ack(env, qp, first[0] + 1))
    assert not out.cqes()
    assert (out.upd[0]["una_wqe"], out.upd[0]["una_psn"], out.upd[0]["una_first_psn"]) == (0, first[0] + 2, first[0])
    for psn, syndrome in ((first[0] + 1, 0x1F), (first[1] + 1, 0x1F), (first[0], 0x60), (first[1] + 5, 0x62),
                          (first[0] - 100, 0x1F), (first[1], 0x9F), (first[1], 0x5F)):
        assert (await env.send(ack(env, qp, psn, syndrome))).dropped(), (psn, syndrome)
    assert (await env.send(ack(env, qp, first[1]))).cqes() == [(0, 0), (1, 0)]
    assert (await env.send(ack(env, qp, first[1]))).dropped()


@cocotb.test()
async def read_responses_are_placed(dut):
    """OP-5, OP-14: scatter offsets, one fetch each, the CQE with the last; a zero-length READ; rd_done."""
    env, qp, first = await sending(dut, (WRITE, 8), (READ, 600), (READ, 0), (READ, 256, 0), sq_log_stride=1)
    out = await env.send(*responses(env, qp, first[1], 600))
    placed = [item for item in out.rxw if item["kind"] == KIND_READ_RESP]
    assert [item["msg_offset"] for item in placed] == [0, 256, 512]
    assert {item["wqe_index"] for item in placed} == {1} and all(item["needs_list"] for item in placed)
    assert [req["addr"] - qp.fields["sq_base"] for req in out.list] == [128] * 3
    assert out.cqes() == [(0, 0), (1, 0)]
    cqe = placed[-1]["cqe"]
    assert (cqe["opcode"], cqe["byte_len"]) == (WcOpcode.RDMA_READ, 600)
    assert [upd["rd_done"] for upd in out.upd] == [0, 0, 1]
    out = await env.send(*responses(env, qp, first[2], 0), *responses(env, qp, first[3], 256))
    assert [(item["kind"], item["needs_list"]) for item in out.rxw] == [(KIND_READ_RESP, 0), (KIND_READ_RESP, 1)]
    assert out.cqes() == [(2, 0)] and out.upd[-1]["rd_done"] == 3 and out.upd[-1]["una_wqe"] == 4


@cocotb.test()
async def lost_read_response_rewinds_once(dut):
    """REL-16: responses behind a gap, or an ACK behind a READ without data, are an implied NAK: one rewind per
    gap; the rest arrives with new FIRST opcodes."""
    env, qp, first = await sending(dut, (READ, 1024), (WRITE, 8), retry_cnt=1)
    packets = responses(env, qp, first[0], 1024)
    out = await env.send(packets[0], packets[2], packets[3])
    assert [upd["rewind"] for upd in out.upd] == [0, 1]
    assert (out.upd[1]["una_psn"], out.upd[1]["una_wqe"], out.upd[1]["una_first_psn"]) == (first[0] + 1, 0, first[0])
    assert [item["kind"] for item in out.rxw] == [KIND_READ_RESP, KIND_NONE, KIND_NONE]
    assert not (await env.send(ack(env, qp, first[1]))).upd
    out = await env.send(*responses(env, qp, first[0], 1024, start=1))
    assert [item["msg_offset"] for item in out.rxw] == [256, 512, 768] and out.cqes() == [(0, 0)]
    assert (await env.send(packets[1])).dropped(), "data is never placed twice"
    assert (await env.send(ack(env, qp, first[1]))).cqes() == [(1, 0)]


@cocotb.test()
async def sequence_nak_rewinds(dut):
    """REL-3, REL-5, REL-9, REL-16: a sequence NAK acknowledges what is before it; each rewind without progress
    costs a retry; progress gives a new budget; then RETRY_EXC_ERR."""
    env, qp, first = await sending(dut, *[(WRITE, 8)] * 6, retry_cnt=2)
    for done in (1, 2):
        out = await env.send(ack(env, qp, first[done], 0x60))
        assert out.cqes() == [(done - 1, 0)]
        assert out.upd[0]["rewind"] and out.upd[0]["una_psn"] == first[done]
        out = await env.send(ack(env, qp, first[done], 0x60))
        assert out.upd[0]["rewind"] and not out.cqes()
    assert status_of(await env.send(ack(env, qp, first[2], 0x60))) == (2, WcStatus.RETRY_EXC_ERR)
    assert (await env.send(ack(env, qp, first[5]))).dropped()


@cocotb.test()
async def retries_begin_anew_on_another_path(dut):
    """APM-1: in ARMED the end of the retries is told of, the QP waits as after an RNR NAK and begins them anew, as
    often as it takes; in MIGRATED they end."""
    env, qp, first = await sending(dut, *[(WRITE, 8)] * 3, retry_cnt=1, rnr_retry=0)
    await env.context(qp, path_mig_state=PathMigState.ARMED)
    nak = ack(env, qp, first[0], 0x60)
    for _ in range(2):
        assert (await env.send(nak)).upd[0]["rewind"]
        out = await env.send(nak)
        assert [event["kind"] for event in out.ev] == [HwEventKind.PATH_FAILED] and not out.cqes()
        assert (out.upd[0]["halt"], out.upd[0]["rewind"], out.upd[0]["una_psn"]) == (1, 0, first[0])
        out.ev = []
        out = await env.send(nak)
        assert not out.upd and not out.ev, "it waits"
        await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], 60_000, "the other path")
        assert (await env.settle()).upd[0]["rewind"]
    # The peer has migrated in the middle of them: what is spent was spent on the old path (APM-5).
    assert (await env.send(nak)).upd[0]["rewind"]
    await env.context(qp, path_mig_state=PathMigState.MIGRATED)
    assert (await env.send(nak)).upd[0]["rewind"]
    assert status_of(await env.send(nak)) == (0, WcStatus.RETRY_EXC_ERR)


@cocotb.test()
async def no_retry_at_all(dut):
    """REL-18: retry_cnt = 0 and rnr_retry = 0 fail at once."""
    env, qp, first = await sending(dut, (WRITE, 8), retry_cnt=0)
    assert status_of(await env.send(ack(env, qp, first[0], 0x60))) == (0, WcStatus.RETRY_EXC_ERR)
    env, qp, first = await sending(dut, (WRITE, 8), rnr_retry=0)
    assert status_of(await env.send(ack(env, qp, first[0], 0x21))) == (0, WcStatus.RNR_RETRY_EXC_ERR)


@cocotb.test()
async def peer_refuses(dut):
    """REL-12, REL-16, QPS-13, QPS-14, STAT-2: fatal NAKs complete the WQE, even an unsignaled one, with their status;
    the rest is flushed; one event."""
    for syndrome, status in ((0x61, WcStatus.REM_INV_REQ_ERR), (0x62, WcStatus.REM_ACCESS_ERR),
                             (0x63, WcStatus.REM_OP_ERR)):
        env, qp, first = await sending(dut, (WRITE, 8), (WRITE, 600, 0), (SEND, 4))
        await env.doorbell(qp, sq=30)
        out = await env.send(ack(env, qp, first[1] + 1, syndrome))
        assert out.cqes() == [(0, 0), (1, status)]
        (event,) = out.ev
        assert (event["status"], event["syndrome"], event["who"]) == (status, syndrome, HwEventWho.ACK)
        assert out.upd[-1]["halt"] and sum(item["frees"] for item in out.rxw) == 1
        assert (await env.send(ack(env, qp, first[2]))).dropped()
        await env.context(qp, state=QpState.ERR)
        out = await env.message("mgmt", MSG_FLUSH_SQ, qp)
        assert out.cqes() == [(i, WcStatus.WR_FLUSH_ERR) for i in range(2, 30)]
        assert {item["cqe"]["cqn"] for item in out.rxw} == {qp.fields["send_cqn"]} and not out.ev


@cocotb.test()
async def refusal_behind_a_read_without_its_data(dut):
    """REL-16: a fatal NAK of a later request says nothing about a READ whose data is still missing: an implied NAK,
    the READ is asked for again, once per gap. A NAK inside the READ's own range refuses the READ itself."""
    env, qp, first = await sending(dut, (READ, 1024), (WRITE, 8), retry_cnt=1)
    await env.send(responses(env, qp, first[0], 1024)[0])
    out = await env.send(ack(env, qp, first[1], 0x62))
    assert not out.cqes() and not out.ev
    (upd,) = out.upd
    assert upd["rewind"] and not upd["halt"] and (upd["una_wqe"], upd["una_psn"]) == (0, first[0] + 1)
    assert (await env.send(ack(env, qp, first[1], 0x62))).dropped()
    out = await env.send(*responses(env, qp, first[0], 1024, start=1))
    assert out.cqes() == [(0, 0)]
    assert status_of(await env.send(ack(env, qp, first[1], 0x62))) == (1, WcStatus.REM_ACCESS_ERR)
    for arrived in (0, 1, 2):
        env, qp, first = await sending(dut, (WRITE, 8), (READ, 1024), (WRITE, 8))
        await env.send(ack(env, qp, first[0]), *responses(env, qp, first[1], 1024)[:arrived])
        out = await env.send(ack(env, qp, first[1] + 2, 0x63))
        assert status_of(out) == (1, WcStatus.REM_OP_ERR), arrived


@cocotb.test()
async def send_queue_drains(dut):
    """QPS-10, QPS-11: in SQD one event says that all that was begun is acknowledged and every READ has its data; at
    once when there is nothing, never after an error."""
    env, qp, first = await sending(dut, (WRITE, 600), (READ, 8), (SEND, 4))
    await env.context(qp, state=QpState.SQD)
    assert not (await env.message("mgmt", MSG_SQ_DRAIN, qp)).ev
    assert not (await env.send(ack(env, qp, first[0]))).ev
    assert not (await env.send(ack(env, qp, first[1] - 1))).ev
    assert not (await env.send(*responses(env, qp, first[1], 8))).ev
    out = await env.send(ack(env, qp, first[2]))
    assert [(event["kind"], event["id"]) for event in out.ev] == [(HwEventKind.SQ_DRAINED, qp.qpn)]
    assert out.cqes() == [(2, 0)]
    assert not (await env.send(ack(env, qp, first[2]))).ev
    out = await env.message("mgmt", MSG_SQ_DRAIN, qp)
    assert [event["kind"] for event in out.ev] == [HwEventKind.SQ_DRAINED]
    await env.context(qp, state=QpState.RTS)
    await env.emit(qp, 3, WRITE, first[2] + 1, 8)
    await env.context(qp, state=QpState.SQD)
    assert not (await env.message("mgmt", MSG_SQ_DRAIN, qp)).ev
    assert status_of(await env.send(ack(env, qp, first[2] + 1, 0x62))) == (3, WcStatus.REM_ACCESS_ERR)
    assert not (await env.message("mgmt", MSG_SQ_DRAIN, qp)).ev


@cocotb.test()
async def acknowledge_of_what_was_not_sent(dut):
    """REL-1, QPS-11, REL-6: only PSNs that were sent are outstanding, inside a message too: an ACK or NAK further on is
    a ghost, the send queue is not drained and no timer runs while the rest waits; sending again moves nothing back."""
    qp = Qp(5, sq_psn=PSN_MASK - 1, timeout=1)
    env = await Env(dut).start(qp)
    await env.doorbell(qp, sq=2)
    first = qp.fields["sq_psn"]

    async def sent(count, index=0):
        last, length = (first + 5, 1500) if index == 0 else (first + 6, 8)
        await env.emit(qp, index, WRITE, last, length, next_psn=first + count)

    await sent(2)
    for psn, syndrome in ((2, 0x1F), (5, 0x1F), (2, 0x60), (3, 0x62), (6, 0x1F)):
        psn += first
        assert (await env.send(ack(env, qp, psn, syndrome))).dropped(), (psn, syndrome)
    out = await env.send(ack(env, qp, first + 1))
    assert out.upd[0]["una_psn"] == (first + 2) & PSN_MASK and not out.cqes()
    await env.context(qp, state=QpState.SQD)
    assert not (await env.message("mgmt", MSG_SQ_DRAIN, qp)).ev, "four packets are still to be sent"
    await env.bench.step(2048 + 4 * SWEEP)
    assert not env.news().upd, "nothing outstanding: no timeout"
    await sent(4)
    await sent(3)   # again
    assert (await env.send(ack(env, qp, first + 4))).dropped()
    assert (await env.send(ack(env, qp, first + 3))).upd[0]["una_psn"] == (first + 4) & PSN_MASK
    await sent(6)
    out = await env.send(ack(env, qp, first + 5))
    assert out.cqes() == [(0, 0)] and [event["kind"] for event in out.ev] == [HwEventKind.SQ_DRAINED]
    await sent(7, index=1)
    assert (await env.send(ack(env, qp, first + 6))).cqes() == [(1, 0)]


@cocotb.test()
async def bad_responses(dut):
    """REL-16: a response that does not fit the WQE: BAD_RESP_ERR."""
    def bad(opcode, size, **more):
        return lambda env, qp, psn: env.packet(qp, opcode, psn, size, **more)

    cases = (((WRITE, 8), bad(Op.RC_READ_RESPONSE_ONLY, 8)), ((READ, 300), bad(Op.RC_READ_RESPONSE_FIRST, 255)),
             ((READ, 300), bad(Op.RC_READ_RESPONSE_ONLY, 256)), ((READ, 30), bad(Op.RC_READ_RESPONSE_ONLY, 31)),
             ((READ, 30), bad(Op.RC_READ_RESPONSE_FIRST, 30)), ((READ, 8), bad(Op.RC_ATOMIC_ACKNOWLEDGE, 8)),
             ((READ, 0), bad(Op.RC_ATOMIC_ACKNOWLEDGE, 0)), ((WRITE, 8), bad(Op.RC_ATOMIC_ACKNOWLEDGE, 0)),
             *(((opcode, 8), bad(*packet)) for opcode in ATOMICS for packet in (
                 (Op.RC_READ_RESPONSE_ONLY, 8), (Op.RC_READ_RESPONSE_ONLY, 0), (Op.RC_ATOMIC_ACKNOWLEDGE, 4))))
    for wqe, packet in cases:
        env, qp, first = await sending(dut, wqe)
        assert status_of(await env.send(packet(env, qp, first[0]))) == (0, WcStatus.BAD_RESP_ERR)


@cocotb.test()
async def local_error_waits_for_its_turn(dut):
    """STAT LOC_*: MsgSqError completes its WQE only when all before it have completed."""
    env, qp, first = await sending(dut, (WRITE, 8), (READ, 8), (WRITE, 8), (WRITE, 8))
    assert not (await env.message("gather", MSG_SQ_ERROR, qp, 3, WcStatus.LOC_LEN_ERR)).rxw
    assert not (await env.message("gather", MSG_SQ_ERROR, qp, 2, WcStatus.LOC_PROT_ERR)).rxw
    assert (await env.send(ack(env, qp, first[0]))).cqes() == [(0, 0)]
    out = await env.send(*responses(env, qp, first[1], 8))
    assert out.cqes() == [(1, 0), (2, WcStatus.LOC_PROT_ERR)], "right behind the READ"
    assert out.ev[0]["who"] == HwEventWho.REQUESTER and out.upd[-1]["halt"] and out.upd[-1]["una_wqe"] == 3
    # at once when it is the oldest; an error of a WQE that has completed is stale
    env, qp, first = await sending(dut, (WRITE, 8), (WRITE, 8))
    await env.send(ack(env, qp, first[0]))
    assert not (await env.message("gather", MSG_SQ_ERROR, qp, 0, WcStatus.LOC_PROT_ERR)).rxw
    out = await env.message("requester", MSG_SQ_ERROR, qp, 1, WcStatus.LOC_QP_OP_ERR)
    assert status_of(out) == (1, WcStatus.LOC_QP_OP_ERR)
    assert not (await env.message("requester", MSG_SQ_ERROR, qp, 1, WcStatus.LOC_QP_OP_ERR)).rxw


@cocotb.test()
async def read_that_could_not_be_placed(dut):
    """KEY-28, QPS-14: rx_exec refuses the data of a READ that already counted as complete: back to it, also
    behind a later fatal error, and flush from there."""
    env, qp, first = await sending(dut, (READ, 8), (WRITE, 8), (WRITE, 8), (WRITE, 8))
    await env.send(*responses(env, qp, first[0], 8), ack(env, qp, first[1]))
    out = await env.message("exec", MSG_SQ_ERROR, qp, 0, WcStatus.LOC_PROT_ERR)
    assert status_of(out) == (0, WcStatus.LOC_PROT_ERR)
    await env.context(qp, state=QpState.ERR)
    assert (await env.message("mgmt", MSG_FLUSH_SQ, qp)).cqes() == [(1, 5), (2, 5), (3, 5)]
    env, qp, first = await sending(dut, (READ, 8), (WRITE, 8), (WRITE, 8))
    await env.send(*responses(env, qp, first[0], 8), ack(env, qp, first[1], 0x62))
    out = await env.message("exec", MSG_SQ_ERROR, qp, 0, WcStatus.LOC_PROT_ERR)
    assert out.cqes() == [(0, WcStatus.LOC_PROT_ERR)] and not out.ev
    await env.context(qp, state=QpState.ERR)
    assert (await env.message("mgmt", MSG_FLUSH_SQ, qp)).cqes() == [(1, 5), (2, 5)]
    # A flush may have passed it, and rx_exec has held it back: again, without being asked.
    env, qp, first = await sending(dut, (READ, 8), (READ, 600), (WRITE, 8))
    await env.send(*responses(env, qp, first[0], 8), responses(env, qp, first[1], 600)[0])
    await env.context(qp, state=QpState.ERR)
    assert (await env.message("mgmt", MSG_FLUSH_SQ, qp)).cqes() == [(1, 5), (2, 5)]
    out = await env.message("exec", MSG_SQ_ERROR, qp, 1, WcStatus.LOC_PROT_ERR)
    assert out.cqes() == [(1, WcStatus.LOC_PROT_ERR), (2, 5)]
    assert [item["resumes"] for item in out.rxw] == [1, 0]


@cocotb.test()
async def index_wraps(dut):
    """Indices are free-running, of 17 bits: 131,200 WQEs of one QP, window after window. A READ that failed when it
    was to be sent again, and was answered after all, leaves nothing behind for the one that has its index next."""
    qp = Qp(3, sq_psn=PSN_MASK - 5)
    env = await Env(dut).start(qp)
    psn, index = PSN_MASK - 5, 0
    await env.emit(qp, 0, WRITE, psn, 8, 1)
    await env.emit(qp, 1, READ, psn + 1, 8, 1)
    assert not (await env.message("requester", MSG_SQ_ERROR, qp, 1, WcStatus.LOC_QP_OP_ERR)).rxw
    assert (await env.send(*responses(env, qp, psn + 1, 8))).cqes() == [(0, 0), (1, 0)]
    for base in range(0, (1 << 17) + 128, 64):
        for index in range(base, base + 64):
            env.omt.put(struct("omt_wr_t").pack(qpn=qp.qpn, wqe_index=index & WQE_MASK, opcode=WRITE,
                                                last_psn=psn + index & PSN_MASK,
                                                next_psn=psn + index + 1 & PSN_MASK))
        await env.bench.until(env.omt.idle, what="omt")
        await env.bench.step(4)
        done = len(env.upd.got)
        env.rxd.put(ack(env, qp, psn + index))
        await env.bench.until(lambda: len(env.upd.got) > done, what="ack")
    out = await env.settle()
    assert out.upd[-1]["una_wqe"] == (index + 1) & WQE_MASK
    assert out.upd[-1]["una_psn"] == (psn + index + 1) & PSN_MASK


@cocotb.test()
async def throughput(dut):
    """Law 6: acknowledges of single WQEs, and one that covers 64."""
    env, qp, first = await sending(dut, *[(WRITE, 8)] * 60)
    other = Qp(6)
    await env.context(other, state=QpState.RESET)
    await env.context(other, init_sq=1, init_rq=1, state=QpState.RTS)
    for index in range(60):
        await env.emit(other, index, WRITE, SPSN + index, 8)
    cycles = {}
    for name, acks in {"one": [ack(env, qp, psn) for psn in first[:30]],
                       "two": [ack(env, who, psn) for psn in first[30:] for who in (qp, other)]}.items():
        before = len(env.rxd.taken)
        out = await env.send(*acks)
        assert len(out.cqes()) == (30 if name == "one" else 90)
        # The other one's first ACK is for 31 WQEs.
        cycles[name] = (env.rxd.taken[-1] - env.rxd.taken[before + 2]) / (len(acks) - 3)
    assert cycles["one"] <= 3.15 and cycles["two"] <= 2.15, cycles   # every eighth looks for its block first
    env, qp, first = await sending(dut, *[(WRITE, 8, 0)] * 64)
    start = env.bench.cycle
    env.rxd.put(ack(env, qp, first[-1]))
    await env.bench.until(lambda: len(env.upd.got) > env.marks["upd"], what="update")
    dut._log.warning("acknowledge: %s cycles each by QPs; 64 WQEs at once: %d", cycles, env.bench.cycle - start)
    assert env.bench.cycle - start <= 2 * 64 + 16


class Peer:
    """A requester that goes back N and a responder behind a bad wire: what the QP's packets and answers would be."""

    def __init__(self, env, qp, rng):
        self.env, self.qp, self.rng = env, qp, rng
        self.wqes, self.psn = [], qp.fields["sq_psn"]
        self.epsn = self.psn      # of the responder
        self.cqes = []

    async def post(self, count):
        """Emits WQEs."""
        for _ in range(count):
            opcode = self.rng.choice((WRITE, SEND, READ, READ, *ATOMICS))
            length = 8 if opcode in ATOMICS else self.rng.choice((0, 1, 256, 300, 1000))
            signaled = self.rng.randint(0, 1)
            first, self.psn = self.psn, self.psn + max(1, -(-length // self.qp.mtu))
            self.wqes.append((first, opcode, length, signaled))
            await self.env.emit(self.qp, len(self.wqes) - 1, opcode, self.psn - 1, length, signaled)

    def answers(self, una_psn):
        """All packets from una_psn on arrive; each answer may be lost; at random the wire starts to fail."""
        out = []
        for first, opcode, length, _ in self.wqes:
            last = first + max(1, -(-length // self.qp.mtu)) - 1
            if last < una_psn:
                continue
            if opcode == READ:
                out += responses(self.env, self.qp, first, length, max(0, una_psn - first))
            elif opcode in ATOMICS:
                out.append(answer(self.env, self.qp, last, first & PSN_MASK))
            else:
                out.append(ack(self.env, self.qp, last))
            if self.rng.random() < 0.05:
                out.append(ack(self.env, self.qp, last + 1, 0x60))
                break
        return [packet for packet in out if self.rng.random() > 0.15]


async def lossy(dut, seed, rate):
    """Answers get lost, the requester starts again; every signaled WQE completes once, in order, and every byte
    of every READ is placed once."""
    qp = Qp(77, sq_psn=PSN_MASK // 2, retry_cnt=7, timeout=1)
    env = Env(dut, seed, rate)
    await env.start(qp)
    peer = Peer(env, qp, env.rng)
    for _ in range(25):
        await peer.post(env.rng.randint(1, 12))
        una = env._upd(env.upd.got[-1])["una_psn"] if env.upd.got else qp.fields["sq_psn"]
        while una != peer.psn:
            env.rxd.put(*peer.answers(una))
            before = len(env.upd.got)
            await env.bench.until(env.rxd.idle, what="answers")
            await env.bench.step(60)
            if len(env.upd.got) == before or env._upd(env.upd.got[-1])["una_psn"] == una:
                await env.bench.until(lambda n=before: len(env.upd.got) > n, 30000, "timeout")
            await env.bench.step(60)
            una = env._upd(env.upd.got[-1])["una_psn"]
    out = await env.settle()
    assert not out.ev
    assert out.cqes() == [(i, 0) for i, wqe in enumerate(peer.wqes) if wqe[3]]
    placed = [(item["wqe_index"], item["msg_offset"], item["payload_bytes"]) for item in out.rxw
              if item["kind"] == KIND_READ_RESP]
    wanted = [(i, offset, min(qp.mtu, length - offset)) for i, (_, opcode, length, _) in enumerate(peer.wqes)
              if opcode == READ for offset in (range(0, length, qp.mtu) if length else (0,))]
    assert placed == wanted
    originals = [(item["wqe_index"], item["rsp"]["va"]) for item in out.rxw if item["kind"] == KIND_ATOMIC_RESP]
    assert originals == [(i, first & PSN_MASK) for i, (first, opcode, *_) in enumerate(peer.wqes) if opcode in ATOMICS]
    assert sum(item["needs_list"] for item in out.rxw) == len(out.list)


@cocotb.test()
async def lossy_fast(dut):
    """REL-1, REL-3, REL-19: nothing stalls."""
    await lossy(dut, 3, 1.0)


@cocotb.test()
async def lossy_stalled(dut):
    """REL-1, REL-3, REL-19: everything stalls."""
    await lossy(dut, 4, 0.4)


def test_ack_unit():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_ack_unit")
