"""hca_rx_ctrl: which packets are let in at all: state and service of the QP, port, partition, source."""

import cocotb
from common import simulate
from hca_abi import BthOpcode as Op
from hca_abi import HwEventKind, PathMigState, QpState, WrOpcode
from rx_bench import KIND_NONE, KIND_SEND, Env, Qp

EPSN = 0x200


@cocotb.test()
async def pkey_rule(dut):
    """KEY-9, KEY-14, KEY-15, KEY-17: partitions meet unless both are limited members; a violation drops, is
    counted and reported, and changes nothing."""
    env = await Env(dut).start()
    table = {1: 0x0001, 2: 0x8001, 3: 0x0000}
    violations = 0
    for index, key in table.items():
        qp = Qp(20 + index, pkey_index=index)
        await env.context(qp, state=QpState.RESET)
        await env.context(qp, init_sq=1, init_rq=1, state=QpState.RTS)
        psn = EPSN
        for pkey in (0x8001, 0x0001, 0x8002, 0x0002, 0x8000, 0xFFFF):
            good = (pkey ^ key) & 0x7FFF == 0 and (pkey | key) & 0x8000 and key & 0x7FFF
            out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1, pkey=pkey))
            if good:
                assert out.answer() == (0x1F, psn)
                psn += 1
            else:
                violations += 1
                assert [ev["kind"] for ev in out.ev] == [HwEventKind.PKEY_VIOLATION]
                out.ev = []
                assert out.dropped()
    assert env.strobes.count["pkey_viol", 0] == violations and not env.strobes.count["pkey_viol", 1]


@cocotb.test()
async def subnet_management_has_no_keys(dut):
    """KEY-16: QP0 takes a datagram of subnet management whatever its P_Key and Q_Key; any other datagram needs both."""
    env = await Env(dut).start()
    qp = Qp(24, service=3, pkey_index=2, qkey=0)
    await env.context(qp, state=QpState.RESET)
    await env.context(qp, init_sq=1, init_rq=1, state=QpState.RTS)
    await env.doorbell(qp, rq=64)
    for smp in (0, 1):
        for pkey, qkey in ((0x8001, 0), (0x7001, 0), (0x8001, 5), (0x7001, 5)):
            packet = env.packet(qp, Op.UD_SEND_ONLY, 0, 256, smp=smp, pkey=pkey, deth_qkey=qkey)
            item = (await env.send(packet)).rxw[0]
            assert (item["kind"] == KIND_SEND) == (smp or (pkey, qkey) == (0x8001, 0)), (smp, pkey, qkey)


@cocotb.test()
async def marks_and_cnps(dut):
    """A mark on data of a connection is told, one on an acknowledge or a datagram is not; a CNP is dropped, and told
    where it is for the QP, from its peer, of its partition, and no longer than it has to be."""
    qp = Qp(9, port=1)
    env = await Env(dut).start(qp)
    count = env.strobes.count
    for psn in range(EPSN, EPSN + 3):
        packet = env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1, marked=1)
        assert (await env.send(packet)).answer() == (0x1F, psn)
    await env.send(env.packet(qp, Op.RC_ACKNOWLEDGE, 0, 0, aeth_syndrome=0x1F, marked=1))
    assert count.pop(("marked", 0)) == 3 and not count
    lies = dict(port=1, dest_qpn=qp.qpn ^ 1 << 23, sgid=1, dgid=1, slid=qp.fields["dlid"] ^ 1, pkey=0x1234,
                payload_bytes=4)
    for name, lie in lies.items():
        out = await env.send(env.packet(qp, Op.CNP, 0, 0, **{"ib": 1 if name == "slid" else 0, name: lie}))
        assert out.dropped(), name
    assert count.pop(("stray", 1)) == 1 and count.pop(("stray", 0)) == len(lies) - 1 and not count
    for _ in range(2):
        assert (await env.send(env.packet(qp, Op.CNP, 0, 0, ib=0, marked=1))).dropped()
    assert count.pop(("cnp", 0)) == 2 and not count


@cocotb.test()
@cocotb.parametrize(port=[0, 1, 2])
async def wrong_port(dut, port):
    """A packet counts only if it came in through the QP's port (a context without one: the first): requests and
    answers from elsewhere drop, and the QP goes on as if they had not been."""
    qp = Qp(7, port=port)
    env = await Env(dut).start(qp)
    psn, other = EPSN, 1 - qp.port
    for _ in range(3):
        for opcode, fields in [(Op.RC_WRITE_ONLY, dict(reth_bytes=0)), (Op.RC_SEND_ONLY, {}),
                               (Op.RC_ACKNOWLEDGE, dict(aeth_syndrome=0x60)), (Op.RC_WRITE_MIDDLE, {})]:
            assert (await env.send(env.packet(qp, opcode, psn, 0, port=other, **fields))).dropped()
        out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1))
        assert out.answer() == (0x1F, psn)
        psn += 1
    assert env.strobes.count == {("stray", other): 12}


@cocotb.test()
@cocotb.parametrize(ib=[0, 1], grh=[0, 1], is_global=[0, 1])
async def wrong_source(dut, ib, grh, is_global):
    """QPS-17: what does not come from the QP's peer drops and is counted, requests and answers, every bit of the
    addresses. InfiniBand compares the source LID, and the GIDs if both sides have a GRH; Ethernet the GIDs. A new path
    (SQD) counts from its context write on."""
    qp = Qp(7, is_global=is_global, port=2)
    env = await Env(dut).start(qp)
    await env.emit(qp, 0, WrOpcode.RDMA_WRITE, qp.fields["sq_psn"], 8)
    psn, bad = EPSN, 0
    for step in range(3):
        if step:
            await env.context(qp, dlid=0x8000 >> step, sgid=env.rng.getrandbits(128), dgid=env.rng.getrandbits(128))
        good = dict(ib=ib, slid=qp.fields["dlid"] if ib else 0)
        good.update(sgid=qp.fields["dgid"], dgid=qp.fields["sgid"]) if grh or not ib else good.update(sgid=0, dgid=0)
        faults = [("slid", bit) for bit in range(16) if ib]
        faults += [(name, bit) for name in ("sgid", "dgid") for bit in range(step, 128, 3)]
        for name, bit in faults:
            forged = {**good, name: good[name] ^ 1 << bit}
            counts = name == "slid" or not ib or is_global
            if ib and not grh and not is_global and name != "slid":
                continue    # the address of nobody
            words = [env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1, **forged)]
            if counts:
                words.append(env.packet(qp, Op.RC_ACKNOWLEDGE, qp.fields["sq_psn"], 0, aeth_syndrome=0x1F, **forged))
                out = await env.send(*words)
                assert [(item["kind"], item["rsp"]["valid"]) for item in out.rxw] == [(KIND_NONE, 0)] * 2, (name, bit)
                assert not out.ev and not out.upd and not out.cqes(), (name, bit)
                bad += len(words)
            else:
                assert (await env.send(*words)).answer() == (0x1F, psn)
                psn += 1
        out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1, **good))
        assert out.answer() == (0x1F, psn)
        psn += 1
    assert env.strobes.count["bad_source", 1] == bad and not env.strobes.count["bad_source", 0]
    wrong_key = env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, pkey=0x7001, **{**good, "slid": 1, "sgid": 1})
    assert [ev["kind"] for ev in (await env.send(wrong_key)).ev] == [HwEventKind.PKEY_VIOLATION]
    assert env.strobes.count["bad_source", 1] == bad, "one packet, one count"


@cocotb.test()
async def states_and_services(dut):
    """QPS-4, QPS-7, XPORT-10: packets are processed in RTR, RTS, SQD, SQE of an RC QP; all else drops."""
    env = await Env(dut).start()
    alive = (QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQE)
    for state in QpState:
        qp = Qp(40 + state)
        await env.context(qp, state=QpState.RESET)
        await env.context(qp, init_sq=1, init_rq=1, state=state)
        out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, EPSN, 0, reth_bytes=0, ack_req=1))
        if state in alive:
            assert out.answer() == (0x1F, EPSN)
        else:
            assert out.dropped()
    uc = Qp(60, service=1)
    await env.context(uc, init_sq=1, init_rq=1)
    rc = Qp(61)
    await env.context(rc, init_sq=1, init_rq=1)
    assert (await env.send(env.packet(uc, Op.RC_WRITE_ONLY, EPSN, 0, reth_bytes=0))).dropped()
    assert (await env.send(env.packet(rc, Op.UC_SEND_ONLY, EPSN, 0))).dropped()


@cocotb.test()
async def generations(dut):
    """A packet is for the QP that has the line now, with its generation, and for none that had it or will have it."""
    env = await Env(dut).start()
    line, psn = 61, EPSN
    for generation in (0, 1, 5, 0x2AAA, 0x3FFF, 0):
        rc = Qp(line)
        rc.fields["qpn"] = generation << 10 | line
        await env.context(rc, init_sq=1, init_rq=1)
        others = {generation ^ 1 << bit for bit in range(14)} | {0, generation + 1 & 0x3FFF} - {generation}
        for other in sorted(others):
            words = env.packet(rc, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, dest_qpn=other << 10 | line)
            assert (await env.send(words)).dropped(), f"{other:#x} in {generation:#x}"
        own = dict(dest_qpn=generation << 10 | line)
        out = await env.send(env.packet(rc, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1, **own))
        assert out.answer() == (0x1F, psn)


def path_digest(packet):
    """What of the addresses of a packet firmware is told: the source LID, or both GIDs."""
    if packet["ib"]:
        return packet["slid"]
    source, dest = 0, 0
    for at in range(0, 128, 16):
        source ^= packet["sgid"] >> at & 0xFFFF
        dest ^= packet["dgid"] >> at & 0xFFFF
    return source ^ (dest << 1 | dest >> 15) & 0xFFFF


@cocotb.test()
@cocotb.parametrize(ib=[0, 1])
async def path_migration(dut, ib):
    """APM-3, APM-6: in REARM MigReq 0 is told of, and the packet counts; in ARMED MigReq 1 is told of, with what it
    came by, wherever it came from, and the packet drops; in MIGRATED neither matters."""
    qp = Qp(7, port=1)
    env = await Env(dut).start(qp)
    psn = EPSN
    for state in (PathMigState.MIGRATED, PathMigState.REARM, PathMigState.ARMED):
        await env.context(qp, path_mig_state=state)
        for mig_req in (0, 1, 1, 0):
            from_peer = dict(ib=ib, slid=qp.fields["dlid"], sgid=qp.fields["dgid"], dgid=qp.fields["sgid"],
                             port=qp.port, pkey=0xFFFF)
            other = dict(ib=ib, slid=env.rng.getrandbits(16), sgid=env.rng.getrandbits(128),
                         dgid=env.rng.getrandbits(128), port=1, pkey=env.rng.getrandbits(16))
            asks = mig_req and state == PathMigState.ARMED
            for packet in (from_peer, other) if asks else (from_peer,):
                out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1, mig_req=mig_req,
                                                **packet))
                events, out.ev = out.ev, []
                if asks:
                    assert out.dropped()
                    assert [event["kind"] for event in events] == [HwEventKind.PATH_ASKED]
                    told = packet["pkey"] & 0x7FFF ^ path_digest(packet)
                    assert (events[0]["syndrome"] << 8 | events[0]["status"]) == told
                    assert events[0]["who"] == packet["pkey"] >> 15 << 1 | packet["port"]
                    continue
                assert out.answer() == (0x1F, psn)
                psn += 1
                arms = not mig_req and state == PathMigState.REARM
                assert [event["kind"] for event in events] == [HwEventKind.PATH_ARMED] * arms
    assert {kind for kind, _ in env.strobes.count} <= {"stray"}, "a port that is none of the two paths"


def test_rx_filter():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_rx_filter")
