"""hca_rx_ctrl as responder: every rule of README table 1 by a directed test, and a random stream against an
oracle written from the rules."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import HwEventKind, HwEventWho, QpState, WcFlag, WcOpcode, WcStatus
from resp_oracle import Oracle
from rx_bench import (KIND_ATOMIC, KIND_NONE, KIND_READ_REQ, KIND_SEND, KIND_WRITE, MSG_FLUSH_RQ, MSG_FLUSH_SQ,
                      MSG_REQ_ERROR, MSG_RQ_ERROR, PSN_MASK, Env, Qp, send_ops, write_ops)

EPSN = 0x200


async def setup(dut, rq=0, **fields):
    """One QP with `rq` receive WQEs."""
    qp = Qp(5, **fields)
    env = await Env(dut).start(qp)
    await env.doorbell(qp, rq=rq)
    return env, qp


@cocotb.test()
async def write_is_placed_and_acknowledged(dut):
    """OP-3, REL-1, REL-2: a WRITE of three packets: addresses, ranges, one ACK, no receive WQE."""
    env, qp = await setup(dut)
    words = [env.packet(qp, op, EPSN + i, size, ack_req=i == 2, reth_va=0x10000, reth_rkey=0x77, reth_bytes=600)
             for i, (op, size) in enumerate(write_ops(600, 256))]
    out = await env.send(*words)
    assert [item["kind"] for item in out.rxw] == [KIND_WRITE] * 3
    assert [item["va"] for item in out.rxw] == [0x10000, 0x10100, 0x10200]
    assert [item["chk_bytes"] for item in out.rxw] == [600, 256, 88]
    assert {item["rkey"] for item in out.rxw} == {0x77} and {item["pd"] for item in out.rxw} == {0x105}
    assert [item["rsp"]["valid"] for item in out.rxw] == [0, 0, 1]
    rsp = out.rxw[2]["rsp"]
    assert (rsp["psn"], rsp["syndrome"], rsp["msn"], rsp["read"]) == (EPSN + 2, 0x1F, 1, 0)
    assert not out.cqes() and not out.list and all(item["frees"] for item in out.rxw)


@cocotb.test()
async def send_consumes_one_receive_wqe(dut):
    """OP-1, OP-18, OP-21: scatter offsets, one fetch per packet, one CQE with the message length."""
    env, qp = await setup(dut, rq=2, rq_log_stride=1)
    words = [env.packet(qp, op, EPSN + i, size, ack_req=0, solicited=1)
             for i, (op, size) in enumerate(send_ops(700, 256))]
    words.append(env.packet(qp, Op.RC_SEND_ONLY_IMM, EPSN + 3, 0, ack_req=1, imm=0xAABBCCDD, solicited=0))
    out = await env.send(*words)
    assert [item["kind"] for item in out.rxw] == [KIND_SEND] * 4
    assert [item["msg_offset"] for item in out.rxw] == [0, 256, 512, 0]
    assert [item["wqe_index"] for item in out.rxw] == [0, 0, 0, 1]
    assert [(req["addr"] - qp.fields["rq_base"], req["len_bytes"]) for req in out.list] == [
        (0, 128), (0, 128), (0, 128), (128, 128)]
    first, second = out.rxw[2]["cqe"], out.rxw[3]["cqe"]
    assert [item["cqe"]["valid"] for item in out.rxw] == [0, 0, 1, 1]
    assert (first["wqe_index"], first["opcode"], first["byte_len"], first["solicited"]) == (0, WcOpcode.RECV, 700, 1)
    assert (first["qpn"], first["src_qp"], first["cqn"], first["wc_flags"]) == (5, 0x55, 7, 0)
    # OP-2: immediate data, opcode stays RECV
    assert (second["opcode"], second["imm_data"], second["wc_flags"]) == (WcOpcode.RECV, 0xAABBCCDD, WcFlag.WITH_IMM)
    assert (second["byte_len"], second["solicited"]) == (0, 0)
    assert out.rxw[3]["rsp"]["msn"] == 2


@cocotb.test()
async def write_with_immediate_consumes_one_receive_wqe(dut):
    """OP-4: data under the R_Key, a CQE with the immediate, the WQE's own buffers untouched."""
    env, qp = await setup(dut, rq=1)
    words = [env.packet(qp, op, EPSN + i, size, ack_req=1, reth_va=64, reth_bytes=300, imm=9)
             for i, (op, size) in enumerate(write_ops(300, 256, imm=True))]
    out = await env.send(*words)
    assert [item["kind"] for item in out.rxw] == [KIND_WRITE] * 2 and not out.list
    cqe = out.rxw[1]["cqe"]
    assert cqe["valid"] and not out.rxw[0]["cqe"]["valid"]
    assert (cqe["opcode"], cqe["byte_len"], cqe["imm_data"]) == (WcOpcode.RECV_RDMA_WITH_IMM, 300, 9)


@cocotb.test()
async def no_receive_wqe_is_answered_by_rnr(dut):
    """REL-8, REL-10: RNR NAK with the QP's code, the rest of the message drops, the retry is accepted."""
    env, qp = await setup(dut)
    words = [env.packet(qp, op, EPSN + i, size, ack_req=1) for i, (op, size) in enumerate(send_ops(600, 256))]
    out = await env.send(words[0])
    assert out.answer() == (0x20 | 12, EPSN)
    for word in words[1:]:
        assert (await env.send(word)).dropped()
    assert (await env.send(words[0])).answer() == (0x20 | 12, EPSN)
    await env.doorbell(qp, rq=1)
    out = await env.send(*words)
    assert [item["kind"] for item in out.rxw] == [KIND_SEND] * 3
    # WRITE with immediate: only its last packet needs the WQE
    words = [env.packet(qp, op, EPSN + 3 + i, size, ack_req=0, reth_bytes=300, reth_va=0)
             for i, (op, size) in enumerate(write_ops(300, 256, imm=True))]
    assert (await env.send(words[0])).item()["kind"] == KIND_WRITE
    assert (await env.send(words[1])).answer() == (0x2C, EPSN + 4)
    await env.doorbell(qp, rq=2)
    out = await env.send(words[1])
    assert out.item()["kind"] == KIND_WRITE and out.item()["va"] == 256 and out.cqes() == [(1, 0)]


@cocotb.test()
async def gap_gives_one_nak(dut):
    """REL-16: one PSN-sequence NAK per gap; after progress the next gap is reported again."""
    env, qp = await setup(dut)

    def only(psn):
        return env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=0)

    assert (await env.send(only(EPSN + 1))).answer() == (0x60, EPSN)
    assert (await env.send(only(EPSN + 2))).dropped()
    assert (await env.send(only(EPSN))).item()["kind"] == KIND_WRITE
    assert (await env.send(only(EPSN + 5))).answer() == (0x60, EPSN + 1)


@cocotb.test()
async def duplicates_are_acknowledged_not_executed(dut):
    """REL-19, WIRE-17: a duplicate SEND or WRITE gets a cumulative ACK and moves nothing."""
    env, qp = await setup(dut, rq=4, rq_psn=0xFFFFFE)
    words = [env.packet(qp, Op.RC_SEND_ONLY, 0xFFFFFE + i, 8, ack_req=1) for i in range(4)]
    await env.send(*words)
    out = await env.send(words[0])
    assert out.answer() == (0x1F, 1) and not out.cqes() and out.item()["kind"] == KIND_NONE
    assert out.item()["rsp"]["msn"] == 4
    quiet = env.packet(qp, Op.RC_WRITE_ONLY, 0, 8, ack_req=0)
    assert (await env.send(quiet)).dropped()
    assert (await env.send(env.packet(qp, Op.RC_SEND_ONLY, 2, 8, ack_req=1))).rxw[0]["kind"] == KIND_NONE


HALF = 1 << 23


@cocotb.test()
@cocotb.parametrize(epsn=[0, 5, HALF - 1, HALF, HALF + 1, PSN_MASK])
async def duplicate_region_has_half_of_all_psns(dut, epsn):
    """REL-19, X-4, X-6: the 2^23 PSNs before the expected one are duplicates, the first of them too, so a READ of
    2 GiB at MTU 256 can be asked for again; one PSN further back is a gap. The whole range of a READ counts."""
    qp = Qp(5, rq_psn=epsn, path_mtu=1)
    env = await Env(dut).start(qp)
    gib2 = 1 << 31
    for behind in (HALF - 1, HALF, HALF + 1):
        def packet(op, behind=behind, **fields):
            return env.packet(qp, op, epsn - behind, 0, **{"ack_req": 1, "reth_bytes": 0, **fields})

        for op, fields in ((Op.RC_SEND_ONLY, {}), (Op.RC_WRITE_ONLY, {}), (Op.RC_READ_REQUEST, dict(reth_bytes=8)),
                           (Op.RC_READ_REQUEST, dict(reth_bytes=gib2)),
                           (Op.RC_READ_REQUEST, dict(reth_bytes=gib2 - 256))):
            out = await env.send(packet(op, **fields))
            if behind > HALF:
                assert (out.answer() == (0x60, epsn)) if op == Op.RC_SEND_ONLY else out.dropped()
            elif op != Op.RC_READ_REQUEST:
                assert out.answer() == (0x1F, epsn - 1 & PSN_MASK) and out.item()["kind"] == KIND_NONE
            elif -(-fields["reth_bytes"] // 256) > behind:
                assert out.dropped()
            else:
                assert out.item()["kind"] == KIND_READ_REQ and out.item()["rsp"]["psn"] == (epsn - behind) & PSN_MASK
                assert not out.ev
    out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, epsn, 0, reth_bytes=0, ack_req=1))
    assert out.answer() == (0x1F, epsn)


@cocotb.test()
async def read_request_takes_its_psns(dut):
    """OP-5, X-6, OP-23: PSNs of the responses, ring limit, duplicates run again, the ring empties."""
    env, qp = await setup(dut, max_dest_rd_atomic=2)

    def read(psn, size):
        return env.packet(qp, Op.RC_READ_REQUEST, psn, 0, reth_va=0x5000, reth_rkey=3, reth_bytes=size, ack_req=1)

    out = await env.send(read(EPSN, 600))
    item = out.item()
    assert item["kind"] == KIND_READ_REQ and item["chk_bytes"] == 600 and item["va"] == 0x5000
    rsp = item["rsp"]
    assert rsp["valid"] and rsp["read"] and (rsp["psn"], rsp["va"], rsp["rkey"]) == (EPSN, 0x5000, 3)
    assert (rsp["len_bytes"], rsp["msn"]) == (600, 1)
    # duplicate of its second half: executed again, PSN and MSN stay
    env.popped.queue += [qp.qpn]
    await env.bench.step(4)
    again = (await env.send(read(EPSN + 1, 344))).item()
    assert again["kind"] == KIND_READ_REQ and again["rsp"]["psn"] == EPSN + 1 and again["rsp"]["msn"] == 1
    # reaching past the expected PSN it is no duplicate of anything
    assert (await env.send(read(EPSN + 2, 600))).dropped()
    assert (await env.send(read(EPSN + 3, 0))).item()["rsp"]["psn"] == EPSN + 3
    # two jobs in the ring: one asked for again makes the scheduler drop them, so it counts against nobody
    assert (await env.send(read(EPSN + 3, 0))).item()["kind"] == KIND_READ_REQ
    env.popped.queue += [qp.qpn] * 3
    await env.bench.step(6)
    # without repeats a READ beyond the ring is one too many
    assert (await env.send(read(EPSN + 4, 256))).item()["kind"] == KIND_READ_REQ
    assert (await env.send(read(EPSN + 5, 256))).item()["kind"] == KIND_READ_REQ
    out = await env.send(read(EPSN + 6, 256))
    assert out.answer() == (0x61, EPSN + 6)
    assert out.ev[0]["kind"] == HwEventKind.QP_ERROR and out.ev[0]["status"] == WcStatus.REM_ACCESS_ERR


async def expect_fatal(dut, words, syndrome, status, psn=EPSN, **fields):
    """The last of the packets is refused for good: NAK, one event, later packets drop."""
    env, qp = await setup(dut, rq=8, **fields)
    packets = [env.packet(qp, op, EPSN + i, size, **{"ack_req": 0, **more})
               for i, (op, size, more) in enumerate(words)]
    for packet in packets[:-1]:
        assert (await env.send(packet)).item()["kind"] != KIND_NONE
    out = await env.send(packets[-1])
    assert out.answer() == (syndrome, psn), out.item()["rsp"]
    assert [(ev["kind"], ev["status"], ev["syndrome"], ev["who"], ev["id"]) for ev in out.ev] == [
        (HwEventKind.QP_ERROR, status, syndrome, HwEventWho.RESPONDER, qp.qpn)]
    assert not out.cqes()
    assert (await env.send(env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1))).dropped()


@cocotb.test()
async def opcode_order(dut):
    """REL-13: opcodes out of order or unknown: NAK invalid request, QP_REQ_ERR."""
    reth = dict(reth_bytes=1000, reth_va=0)
    first_w, first_s = (Op.RC_WRITE_FIRST, 256, reth), (Op.RC_SEND_FIRST, 256, {})
    bad = WcStatus.REM_INV_REQ_ERR
    for words in ([(Op.RC_WRITE_MIDDLE, 256, {})], [(Op.RC_SEND_LAST, 4, {})], [(Op.RC_SEND_MIDDLE, 256, {})],
                  [first_w, (Op.RC_SEND_MIDDLE, 256, {})], [first_s, (Op.RC_WRITE_LAST, 4, {})],
                  [first_w, first_w], [first_s, (Op.RC_SEND_ONLY, 4, {})],
                  [first_s, (Op.RC_READ_REQUEST, 0, dict(reth_bytes=4))],
                  [first_s, (Op.RC_FETCH_ADD, 0, dict(reth_va=8))], [first_w, (Op.RC_CMP_SWAP, 0, dict(reth_va=8))],
                  [(Op.RC_SEND_LAST_INV, 4, {})], [(0x1F, 0, {})]):
        await expect_fatal(dut, words, 0x61, bad, EPSN + len(words) - 1)


@cocotb.test()
async def length_rules(dut):
    """WIRE-13, REL-13: packets other than the last carry exactly the MTU; a WRITE is as long as its RETH says."""
    def reth(size):
        return dict(reth_bytes=size, reth_va=0)

    bad, word = WcStatus.REM_ACCESS_ERR, dict(reth_va=8, reth_bytes=8)
    for words in ([(Op.RC_SEND_FIRST, 255, {})], [(Op.RC_SEND_ONLY, 257, {})],
                  [(Op.RC_SEND_FIRST, 256, {}), (Op.RC_SEND_LAST, 0, {})],
                  [(Op.RC_SEND_FIRST, 256, {}), (Op.RC_SEND_LAST, 257, {})],
                  [(Op.RC_SEND_FIRST, 256, {}), (Op.RC_SEND_MIDDLE, 100, {})],
                  [(Op.RC_WRITE_ONLY, 10, reth(11))], [(Op.RC_WRITE_FIRST, 256, reth(256))],
                  [(Op.RC_WRITE_FIRST, 256, reth(300)), (Op.RC_WRITE_LAST, 43, {})],
                  [(Op.RC_WRITE_FIRST, 256, reth(300)), (Op.RC_WRITE_LAST, 45, {})],
                  [(Op.RC_WRITE_FIRST, 256, reth(500)), (Op.RC_WRITE_MIDDLE, 256, {})],
                  [(Op.RC_WRITE_FIRST, 256, reth(0x80000001))],
                  [(Op.RC_READ_REQUEST, 0, reth(0x80000001))],
                  *([(Op.RC_CMP_SWAP, size, dict(word, masked=1))] for size in (0, 8, 15, 17, 24)),   # OP-8
                  *([(Op.RC_FETCH_ADD, size, dict(word, masked=1))] for size in (8, 16)),             # OP-9
                  [(Op.RC_FETCH_ADD, 4, word)], [(Op.RC_CMP_SWAP, 16, word)],
                  [(Op.RC_CMP_SWAP, 0, dict(reth_va=0x1004, reth_bytes=8))],
                  [(Op.RC_ATOMIC_WRITE, 8, dict(reth_va=0x1004, reth_bytes=8))], [(Op.RC_ATOMIC_WRITE, 8, reth(7))],
                  [(Op.RC_ATOMIC_WRITE, 4, reth(8))], [(Op.RC_ATOMIC_WRITE, 16, reth(16))],
                  [(Op.RC_ATOMIC_WRITE, 0, reth(8))], [(Op.RC_FLUSH, 4, dict(swap_add=1))],
                  *([(Op.RC_FLUSH, 0, dict(swap_add=feth))] for feth in (0, 4, 7, 8, 0x10, 0x21, 0x31))):
        await expect_fatal(dut, words, 0x61, bad, EPSN + len(words) - 1)


@cocotb.test()
async def qp_rights(dut):
    """KEY-31: the QP's own rights are checked besides the region's."""
    bad = WcStatus.REM_ACCESS_ERR
    await expect_fatal(dut, [(Op.RC_WRITE_ONLY, 4, dict(reth_bytes=4))], 0x62, bad, remote_write=0)
    await expect_fatal(dut, [(Op.RC_READ_REQUEST, 0, dict(reth_bytes=4))], 0x62, bad, remote_read=0)
    for op in (Op.RC_CMP_SWAP, Op.RC_FETCH_ADD):
        await expect_fatal(dut, [(op, 0, dict(reth_bytes=8, reth_va=64))], 0x62, bad, remote_atomic=0)
    await expect_fatal(dut, [(Op.RC_ATOMIC_WRITE, 8, dict(reth_bytes=8, reth_va=64))], 0x62, bad, remote_write=0)
    for feth in (1, 0x11):
        await expect_fatal(dut, [(Op.RC_FLUSH, 0, dict(swap_add=feth))], 0x62, bad, flush_global=0)
    for feth in (2, 3, 0x12):    # persistence is nobody's
        await expect_fatal(dut, [(Op.RC_FLUSH, 0, dict(swap_add=feth))], 0x62, bad)


@cocotb.test()
async def atomics_share_the_ring_of_reads(dut):
    """OP-23, REL-19: an atomic takes one PSN and a place among max_dest_rd_atomic; one that comes again is not
    executed, its answer is asked of the store."""
    env, qp = await setup(dut, max_dest_rd_atomic=2)

    def atomic(psn, op=Op.RC_FETCH_ADD):
        return env.packet(qp, op, psn, 0, reth_va=0x5008, reth_rkey=3, reth_bytes=8, swap_add=5 << 40,
                          compare=7 << 32 | 9)

    item = (await env.send(atomic(EPSN, Op.RC_CMP_SWAP))).item()
    assert (item["kind"], item["va"], item["rkey"], item["chk_bytes"]) == (KIND_ATOMIC, 0x5008, 3, 8)
    rsp = item["rsp"]
    assert rsp["valid"] and rsp["read"] and rsp["atomic"] and rsp["cas"] and not rsp["again"]
    assert (rsp["psn"], rsp["msn"], rsp["va"], rsp["rkey"], rsp["len_bytes"]) == (EPSN, 1, 5 << 40, 7, 9)
    item = (await env.send(atomic(EPSN))).item()
    assert item["kind"] == KIND_NONE and item["rsp"]["again"] and item["rsp"]["psn"] == EPSN
    env.popped.queue += [qp.qpn] * 2
    await env.bench.step(6)
    assert (await env.send(atomic(EPSN + 1))).item()["rsp"]["msn"] == 2
    read = env.packet(qp, Op.RC_READ_REQUEST, EPSN + 2, 0, reth_bytes=4)
    assert (await env.send(read)).item()["kind"] == KIND_READ_REQ
    out = await env.send(atomic(EPSN + 3))
    assert out.answer() == (0x61, EPSN + 3) and out.ev[0]["status"] == WcStatus.REM_ACCESS_ERR


@cocotb.test()
async def communication_established(dut):
    """QPS-8: the first accepted request in RTR raises COMM_EST, once."""
    env, qp = await setup(dut, state=QpState.RTR)
    word = env.packet(qp, Op.RC_WRITE_ONLY, EPSN + 9, 0, reth_bytes=0, ack_req=0)
    assert not (await env.send(word)).ev
    for psn, count in ((EPSN, 1), (EPSN + 1, 0)):
        out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=0))
        assert [ev["kind"] for ev in out.ev] == [HwEventKind.QP_COMM_EST] * count


@cocotb.test()
async def receives_posted_in_init_survive(dut):
    """QPS-7: receive WQEs posted in INIT are there in RTR; RESET forgets them."""
    env = await Env(dut).start()
    qp = Qp(9)
    await env.context(qp, state=QpState.RESET)
    await env.context(qp, state=QpState.INIT)
    await env.doorbell(qp, rq=1)
    await env.context(qp, init_rq=1, state=QpState.RTR)
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN, 4, ack_req=0))
    assert out.cqes() == [(0, 0)]
    await env.context(qp, state=QpState.RESET)
    await env.context(qp, init_rq=1, state=QpState.RTR)
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN, 4, ack_req=0))
    assert out.answer()[0] == 0x2C


@cocotb.test()
async def failed_receive_wqe(dut):
    """STAT LOC_PROT_ERR, QPS-13, QPS-14: the failing receive WQE gets its status, the rest is flushed, each
    WQE completes once although later ones had been consumed already."""
    env, qp = await setup(dut, rq=20)
    await env.send(*[env.packet(qp, Op.RC_SEND_ONLY, EPSN + i, 4, ack_req=0) for i in range(5)])
    out = await env.message("exec", MSG_RQ_ERROR, qp, 2, WcStatus.LOC_PROT_ERR, 0x63)
    assert out.cqes() == [(2, WcStatus.LOC_PROT_ERR)] and not out.item()["frees"] and out.item()["resumes"]
    assert [(ev["kind"], ev["status"], ev["syndrome"]) for ev in out.ev] == [(HwEventKind.QP_ERROR, 4, 0x63)]
    assert (await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN + 5, 4))).dropped()
    assert not (await env.message("mgmt", MSG_FLUSH_RQ, qp)).rxw, "only in ERR"
    await env.context(qp, state=QpState.ERR)
    out = await env.message("mgmt", MSG_FLUSH_RQ, qp)
    assert out.cqes() == [(i, WcStatus.WR_FLUSH_ERR) for i in range(3, 20)] and not out.ev
    assert {item["cqe"]["opcode"] for item in out.rxw} == {WcOpcode.RECV}
    assert {item["cqe"]["cqn"] for item in out.rxw} == {qp.fields["recv_cqn"]}
    await env.doorbell(qp, rq=22)
    assert (await env.message("doorbell", MSG_FLUSH_RQ, qp)).cqes() == [(20, 5), (21, 5)]


@cocotb.test()
async def refused_request_gives_back_receive_wqes(dut):
    """KEY-31, QPS-14: a WRITE that rx_exec refuses kills the QP; receive WQEs whose completions were held
    back behind it are flushed."""
    env, qp = await setup(dut, rq=3)
    await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN, 4, ack_req=0))
    out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, EPSN + 1, 4, reth_bytes=4, ack_req=1))
    index = out.item()["wqe_index"]
    await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN + 2, 4, ack_req=0))
    out = await env.message("exec", MSG_REQ_ERROR, qp, index, WcStatus.REM_ACCESS_ERR, 0x62)
    assert out.item()["resumes"] and not out.cqes()
    assert [(ev["status"], ev["syndrome"]) for ev in out.ev] == [(10, 0x62)]
    await env.context(qp, state=QpState.ERR)
    assert (await env.message("mgmt", MSG_FLUSH_RQ, qp)).cqes() == [(1, 5), (2, 5)]
    other = Qp(6)
    await env.context(other, init_rq=1, init_sq=1)
    out = await env.message("gather", MSG_REQ_ERROR, other, 99)
    assert [(ev["id"], ev["status"]) for ev in out.ev] == [(6, WcStatus.REM_ACCESS_ERR)]


@cocotb.test()
async def long_flush_lets_packets_pass(dut):
    """SYS-7: a flush of 3000 WQEs does not hold up another QP."""
    env, qp = await setup(dut, rq=0, rq_log_size=12)
    other = Qp(6)
    await env.context(other, init_rq=1, init_sq=1)
    await env.doorbell(qp, rq=3000)
    await env.context(qp, state=QpState.ERR)
    env.msgs["mgmt"].put(struct("pipe_msg_t").pack(kind=MSG_FLUSH_RQ, qpn=qp.qpn))
    await env.bench.step(10)
    start = env.bench.cycle
    out = await env.send(*[env.packet(other, Op.RC_WRITE_ONLY, EPSN + i, 0, reth_bytes=0, ack_req=0)
                           for i in range(50)])
    packets = [item for item in out.rxw if item["frees"]]
    assert len(packets) == 50 and env.rxd.taken[-1] - start < 50 * 20
    assert out.cqes() == [(i, 5) for i in range(3000)]
    await env.doorbell(qp, rq=9999)  # outside the ring
    assert not (await env.message("mgmt", MSG_FLUSH_RQ, qp)).rxw


@cocotb.test()
async def flushes_take_turns(dut):
    """Design 9.4: who asks for a flush waits some cycles, however many WQEs others have to flush; queues, of which each
    QP has two, go on side by side; each WQE completes once and in order."""
    env, qp = await setup(dut, rq=0, rq_log_size=16, sq_log_size=10)
    short = Qp(6)
    await env.context(short, init_rq=1, init_sq=1)
    counts = {(qp, "rq"): 65536, (qp, "sq"): 1000, (short, "rq"): 40, (short, "sq"): 7}
    for each in (qp, short):
        await env.doorbell(each, sq=counts[each, "sq"], rq=counts[each, "rq"])
        await env.context(each, state=QpState.ERR)
    start = env.bench.cycle
    for each, source in ((qp, "doorbell"), (short, "mgmt")):
        for kind in (MSG_FLUSH_RQ, MSG_FLUSH_SQ, MSG_FLUSH_RQ):
            env.msgs[source].put(struct("pipe_msg_t").pack(kind=kind, qpn=each.qpn))
    await env.bench.until(lambda: all(msg.idle() for msg in env.msgs.values()), what="six messages")
    asked = env.bench.cycle
    assert asked - start < 6 * 6, "a message waits for a flush"
    await env.bench.step(250)
    early = env.news().cqes_of(short)
    assert early == {"rq": list(range(40)), "sq": list(range(7))}, "a short flush waits for a long one"
    out = await env.settle()
    assert out.cqes_of(short) == {"rq": [], "sq": []}
    left = out.cqes_of(qp)
    assert left["sq"][-1] == 999 and left["rq"][-1] == 65535
    assert all(indices == list(range(indices[0], indices[-1] + 1)) for indices in left.values())
    dut._log.warning("four flushes: %.2f cycles per WQE", (env.rxw.when[-1] - start) / sum(counts.values()))


@cocotb.test()
async def flushes_are_asked_for_at_random(dut):
    """Both sources of flushes ask for many queues in any cycle, while slices of others come back; every WQE
    completes once and in order, also those that are posted meanwhile."""
    env = Env(dut)
    qps = [Qp(qpn, rq_log_size=10, sq_log_size=10) for qpn in (0, 1, 5, 32, 33, 500, 1023)]
    await env.start(*qps)
    posted = {(qp.qpn, queue): 0 for qp in qps for queue in ("sq", "rq")}
    for qp in qps:
        await env.context(qp, state=QpState.ERR)
    for _ in range(400):
        qp, queue = env.rng.choice(qps), env.rng.choice(("sq", "rq"))
        posted[qp.qpn, queue] += env.rng.randrange(30)
        await env.doorbell(qp, **{queue: posted[qp.qpn, queue]})
        kind = MSG_FLUSH_SQ if queue == "sq" else MSG_FLUSH_RQ
        for source in env.rng.sample(("doorbell", "mgmt"), env.rng.randint(1, 2)):
            env.msgs[source].put(struct("pipe_msg_t").pack(kind=kind, qpn=qp.qpn))
        await env.bench.step(env.rng.randrange(40))
    out = await env.settle(100)
    for qp in qps:
        for queue, indices in out.cqes_of(qp).items():
            assert indices == list(range(posted[qp.qpn, queue])), f"QP {qp.qpn}, {queue}"


@cocotb.test()
async def throughput(dut):
    """Law 6: a request takes three cycles, two if the one before was of another QP."""
    env, qp = await setup(dut)
    other = Qp(6)
    await env.context(other, state=QpState.RESET)
    await env.context(other, init_sq=1, init_rq=1, state=QpState.RTS)
    for qps, limit in (((qp,), 3), ((qp, other), 2)):
        before = len(env.rxd.taken)
        psn = qp.fields["rq_psn"]
        env.rxd.put(*[env.packet(who, Op.RC_WRITE_ONLY, psn + i, 64, reth_bytes=64, ack_req=0)
                      for i in range(200) for who in qps])
        await env.bench.until(env.rxd.idle)
        cycles = (env.rxd.taken[-1] - env.rxd.taken[before]) / (len(env.rxd.taken) - before - 1)
        dut._log.warning("requests of %d QPs: %.2f cycles per packet", len(qps), cycles)
        assert cycles <= limit, cycles


async def random_stream(dut, seed, rate):
    """Several QPs, PSNs and indices that wrap, every kind of disorder, against the oracle."""
    env = Env(dut, seed, rate)
    rng = env.rng
    await env.start()
    oracles = []
    for qpn in (1, 2, 700):
        qp = Qp(qpn, rq_psn=rng.choice((0, PSN_MASK - 40, 0x7FFFF0)), path_mtu=rng.randint(1, 3),
                max_dest_rd_atomic=rng.choice((1, 4, 16)), rq_log_stride=rng.randint(0, 3), rq_log_size=4)
        oracles.append(Oracle(qp, rng))
    for oracle in oracles:
        await env.context(oracle.qp, state=QpState.RESET)
        await env.context(oracle.qp, state=QpState.RTS, init_sq=1, init_rq=1)
    for _ in range(2500):
        oracle = rng.choice(oracles)
        if rng.random() < 0.3:
            await env.doorbell(oracle.qp, rq=oracle.post(rng.randint(0, 3)))
        if oracle.rd_open and rng.random() < 0.4:
            env.popped.queue += [oracle.qp.qpn] * oracle.pop(rng.randint(1, oracle.rd_open))
            await env.bench.step(20)
        fields = oracle.invent()
        env.rxd.put(env.packet(oracle.qp, **fields))
        await env.bench.until(env.rxd.idle)
        expected = oracle.expect(fields)
        count = env.marks["rxw"] + 1
        await env.bench.until(lambda count=count: len(env.rxw.got) >= count, what="item")
        item = env.news().item()
        oracle.compare(item, expected)
        if oracle.dead:
            oracle.restart(rng.choice((0, PSN_MASK, 0x7FFFFF)))
            await env.context(oracle.qp, state=QpState.RESET)
            await env.context(oracle.qp, state=QpState.RTS, init_sq=1, init_rq=1)
    assert min(oracle.accepted for oracle in oracles) > 100


@cocotb.test()
async def random_fast(dut):
    """Random stream, nothing stalls."""
    await random_stream(dut, 1, 1.0)


@cocotb.test()
async def random_stalled(dut):
    """Random stream, everything stalls."""
    await random_stream(dut, 2, 0.4)


def test_resp_check():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_resp_check")
