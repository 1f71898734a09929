"""hca_rx_ctrl with XRC (annex A14): the packet names the SRQ, whose row says where its receives lie, complete and
belong; who names another one ends the connection; initiators and targets take what is theirs."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import QpState, Service, WcStatus
from rx_bench import KIND_ATOMIC, KIND_NONE, KIND_READ_REQ, KIND_SEND, KIND_WRITE, Env, Qp, send_ops

EPSN = 0x200
HEAD, ROW = struct("srq_head_t"), struct("xrc_srq_t")
XRC = Service.XRC << 5
FUNC, XRCD = 5 & 3, 0x21
NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_INVALID_RD_REQUEST = 0x61, 0x62, 0x64


class Srqs:
    """Rows by line; slots are given in turn."""

    def __init__(self, bench):
        self.bench, self.rows, self.slots, self.taken, self.looked = bench, {}, {}, [], None
        bench.agents.append(self)

    def add(self, number, **fields):
        """An SRQ with slots of 64 bytes."""
        row = dict(valid=1, func=FUNC, number=number, xrcd=XRCD, pd=number + 1, cqn=number % 500, log_size=6,
                   slots=(number + 1) << 20, log_stride=0)
        row.update(fields)
        self.rows[number & 127] = row
        self.slots[number & 127] = []
        return row

    def drive(self):
        """The head, in the cycle after a look; garbage else."""
        head = self.bench.rng.getrandbits(HEAD.width)
        if self.looked is not None:
            slots, row = self.slots.get(self.looked, []), self.rows.get(self.looked, {})
            head = HEAD.pack(ok=bool(slots), slot=slots[0] if slots else 0, xrc=ROW.pack(**row))
        self.bench.set("srq_head_i", head)

    def sample(self):
        """Taken?"""
        if self.bench.get("srq_pop_o"):
            self.taken.append((self.looked, self.slots[self.looked].pop(0)))
        self.looked = self.bench.get("srq_look_srqn_o") if self.bench.get("srq_look_o") else None


async def setup(dut, **fields):
    """A target whose own context names neither PD, CQ nor slots."""
    qp = Qp(5, xrcd=XRCD, rq_psn=EPSN, pd=0xFFFFFF, recv_cqn=0, rq_base=0, **fields)
    env = Env(dut)
    srqs = Srqs(env.bench)
    # As after the sweep: the row has been cleared.
    await env.start(qp)
    await env.context(qp, service=Service.XRC, is_target=1, init_sq=1, init_rq=1)
    return env, srqs, qp


def packet(env, qp, opcode, psn, length, number, **fields):
    return env.packet(qp, opcode | XRC, psn, length, xrcsrq=number, **fields)


@cocotb.test()
async def the_packet_names_the_srq(dut):
    """SPEC-3: slot, CQ and PD are of that SRQ, in each packet of a message."""
    env, srqs, qp = await setup(dut)
    rows = [srqs.add(number) for number in (0x305, 0x406)]
    srqs.slots[5], srqs.slots[6] = [40, 41], [7]
    psn = EPSN
    for row, slot in zip((rows[0], rows[1], rows[0]), (40, 7, 41), strict=True):
        for op, size in send_ops(600, 256):
            out = await env.send(packet(env, qp, op, psn, size, row["number"]))
            psn += 1
            item = out.item()
            assert (item["kind"], item["wqe_index"], item["pd"], item["shared"]) == (KIND_SEND, slot, row["pd"], 1)
            assert [req["addr"] for req in out.list] == [row["slots"] + 64 * slot]
        cqe = item["cqe"]
        assert (cqe["valid"], cqe["cqn"], cqe["is_xrc"], cqe["srqn"]) == (1, row["cqn"], 1, row["number"])
        assert (cqe["qpn"], cqe["wqe_index"], cqe["status"]) == (qp.qpn, slot, WcStatus.SUCCESS)
    assert srqs.taken == [(5, 40), (6, 7), (5, 41)]


@cocotb.test()
async def keys_are_held_against_its_pd(dut):
    """WRITE, READ and atomics take the PD of the SRQ that they name, and no receive."""
    env, srqs, qp = await setup(dut)
    rows = [srqs.add(number) for number in (0x10, 0x11)]
    reth = dict(reth_va=64, reth_rkey=1, reth_bytes=8)
    for n, row in enumerate(rows):
        for i, (op, size, kind) in enumerate([(Op.RC_WRITE_ONLY, 8, KIND_WRITE), (Op.RC_READ_REQUEST, 0, KIND_READ_REQ),
                                              (Op.RC_FETCH_ADD, 0, KIND_ATOMIC)]):
            item = (await env.send(packet(env, qp, op, EPSN + 3 * n + i, size, row["number"], **reth))).item()
            assert (item["kind"], item["pd"]) == (kind, row["pd"])
    # Again: a READ is carried out again, under the PD of whom it names.
    item = (await env.send(packet(env, qp, Op.RC_READ_REQUEST, EPSN + 1, 0, 0x11, **reth))).item()
    assert (item["kind"], item["pd"]) == (KIND_READ_REQ, rows[1]["pd"])
    assert not srqs.taken


@cocotb.test()
async def wrong_names(dut):
    """A14: another function's, a number that was, one that peers cannot name, another domain's: NAK 4, and the end."""
    for fields, name, status in [
        (dict(func=FUNC ^ 1), 0x305, WcStatus.REM_INV_REQ_ERR),
        (dict(), 0x285, WcStatus.REM_INV_REQ_ERR),
        (dict(valid=0), 0x305, WcStatus.REM_INV_REQ_ERR),
        (dict(xrcd=XRCD + 1), 0x305, WcStatus.REM_ACCESS_ERR),
    ]:
        for op in (Op.RC_SEND_ONLY, Op.RC_WRITE_ONLY, Op.RC_READ_REQUEST, Op.RC_CMP_SWAP):
            env, srqs, qp = await setup(dut)
            srqs.add(0x305, **fields)
            srqs.slots[5] = [1]
            size = 8 if op in (Op.RC_SEND_ONLY, Op.RC_WRITE_ONLY) else 0
            out = await env.send(packet(env, qp, op, EPSN, size, name, reth_va=0, reth_rkey=1, reth_bytes=8))
            item = out.item()
            assert item["kind"] == KIND_NONE and item["rsp"]["syndrome"] == NAK_INVALID_RD_REQUEST
            assert [ev["status"] for ev in out.ev] == [status] and not srqs.taken
            assert (await env.send(packet(env, qp, op, EPSN, size, 0x305))).dropped()


@cocotb.test()
async def one_message_one_srq(dut):
    """The SRQ changes inside a message: invalid request. What it held comes back with the QP's end, in the CQ of
    the SRQ that it was of."""
    env, srqs, qp = await setup(dut)
    first, other = srqs.add(0x305), srqs.add(0x406)
    srqs.slots[5], srqs.slots[6] = [40], [7]
    await env.send(packet(env, qp, Op.RC_SEND_FIRST, EPSN, 256, first["number"]))
    out = await env.send(packet(env, qp, Op.RC_SEND_LAST, EPSN + 1, 8, other["number"]))
    assert out.item()["rsp"]["syndrome"] == NAK_INVALID_REQUEST and srqs.taken == [(5, 40)]
    await env.context(qp, state=QpState.ERR)
    cqe = (await env.settle()).item()["cqe"]
    assert (cqe["wqe_index"], cqe["status"], cqe["cqn"]) == (40, WcStatus.WR_FLUSH_ERR, first["cqn"])
    assert (cqe["is_xrc"], cqe["srqn"]) == (1, first["number"])


@cocotb.test()
async def empty_is_rnr(dut):
    """RNR NAK for the SRQ that is empty, and not for the other one."""
    env, srqs, qp = await setup(dut)
    srqs.add(0x305), srqs.add(0x406)
    srqs.slots[6] = [7]
    out = await env.send(packet(env, qp, Op.RC_SEND_ONLY, EPSN, 8, 0x305))
    assert out.item()["rsp"]["syndrome"] == 0x20 | 12
    out = await env.send(packet(env, qp, Op.RC_SEND_ONLY, EPSN, 8, 0x406))
    assert out.cqes() == [(7, WcStatus.SUCCESS)]


@cocotb.test()
async def roles(dut):
    """A target takes no answers and no other service's requests; an initiator takes no requests."""
    env, srqs, qp = await setup(dut)
    srqs.add(0x305)
    srqs.slots[5] = [1]
    for opcode in (XRC | Op.RC_ACKNOWLEDGE, XRC | Op.RC_READ_RESPONSE_ONLY, Op.RC_SEND_ONLY, Op.RC_WRITE_ONLY):
        assert (await env.send(env.packet(qp, opcode, EPSN, 0, xrcsrq=0x305))).dropped()
    await env.context(qp, is_target=0, init_sq=1, init_rq=1)
    for op in (Op.RC_SEND_ONLY, Op.RC_WRITE_ONLY, Op.RC_READ_REQUEST, Op.RC_FETCH_ADD):
        assert (await env.send(packet(env, qp, op, EPSN, 0, 0x305))).dropped()
    assert not srqs.taken


def test_xrc_receive():
    simulate("hca_rx_ctrl", __name__)
