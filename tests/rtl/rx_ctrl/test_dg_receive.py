"""hca_rx_ctrl as receiver of datagrams (README table 3): who is let in, what is placed and reported, what drops
without a word; among packets of connections."""

from collections import Counter

import cocotb
from common import simulate
from hca_abi import BthOpcode as Op
from hca_abi import HwEventKind, QpState, Service, WcFlag, WcOpcode, WcStatus
from rx_bench import FULL_PKEY, KIND_NONE, KIND_SEND, LINE_BITS, MSG_FLUSH_RQ, MSG_RQ_ERROR, WQE_MASK, Env, Qp

ALIVE = (QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQE)
EPSN, QKEY = 0x200, 0x1234567
SENDS = (0x64, 0x65)
BARE, IPV4, IPV6, GRH = range(1, 5)
# What is before the transport headers: (InfiniBand, bytes).
FRONT = {BARE: (1, 8), IPV4: (0, 28), IPV6: (0, 48), GRH: (1, 48)}
ROOM = 40
VIOLATIONS = dict(pkey_viol=HwEventKind.PKEY_VIOLATION, qkey_viol=HwEventKind.QKEY_VIOLATION)


class Receiver:
    """A QP of datagrams, with its oracle."""

    def __init__(self, env, line, generation=0, **fields):
        self.env, self.rng = env, env.rng
        self.qp = Qp(line, **{"service": Service.UD, "qkey": QKEY + line, **fields})
        self.qp.fields["qpn"] = generation << 10 | line
        self.ci = self.pi = 0
        self.dead = False

    async def begin(self, posted=0):
        """Contexts, and receive WQEs."""
        state = self.qp.fields["state"]
        await self.env.context(self.qp, state=QpState.RESET)
        await self.env.context(self.qp, init_sq=1, init_rq=1, state=state)
        self.ci = self.pi = 0
        await self.post(posted)
        return self

    async def post(self, count):
        """More receive WQEs."""
        self.pi += min(count, (1 << self.qp.fields["rq_log_size"]) - self.pi + self.ci)
        await self.env.doorbell(self.qp, rq=self.pi)

    def invent(self, **fixed):
        """Fields of a datagram that is to be taken, but for `fixed`."""
        kind = self.rng.choice(list(FRONT))
        opcode = fixed.get("opcode", self.rng.choice(SENDS))
        ib, front = FRONT[kind]
        fields = dict(opcode=opcode, psn=self.rng.getrandbits(24), size=self.rng.choice((0, 1, 64, self.qp.mtu)),
                      dest_qpn=self.qp.fields["qpn"], deth_qkey=self.qp.fields["qkey"], ib=ib,
                      lead=0 if ib else self.rng.choice((0, 14, 18)),
                      payload_off=front + 20 + 4 * (opcode & 1), slid=self.rng.getrandbits(16), kind=kind,
                      sgid=self.rng.getrandbits(128), dgid=self.rng.getrandbits(128), imm=self.rng.getrandbits(32),
                      sl=self.rng.getrandbits(4), path_bits=self.rng.getrandbits(7), solicited=self.rng.getrandbits(1),
                      deth_src_qpn=self.rng.getrandbits(24), buf_beat=self.rng.getrandbits(10), port=self.qp.port,
                      buf_beats=self.rng.randint(1, 66), pkey=FULL_PKEY)
        fields.update(fixed)
        return fields

    def spoil(self, fields):
        """One more fault."""
        rng = self.rng
        fault = rng.choice(("qkey", "qkey", "pkey", "port", "generation", "opcode", "size", "service"))
        if fault == "qkey":
            fields["deth_qkey"] ^= 1 << rng.randrange(32)
        elif fault == "pkey":
            fields["pkey"] = 0x7001
        elif fault == "port":
            fields["port"] ^= 1
        elif fault == "generation":
            fields["dest_qpn"] ^= 1 << rng.randrange(10, 24)
        elif fault == "opcode":
            fields["opcode"] = rng.choice([op for op in range(0x60, 0x80) if op not in SENDS])
        elif fault == "size":
            fields["size"] = rng.choice((self.qp.mtu + 1, rng.randint(self.qp.mtu + 1, 8191)))
        else:
            fields["opcode"] = rng.choice((0x04, 0x0A, 0x0C, 0x10, 0x11, 0x24, 0x44, 0xA4))

    def word(self, fields):
        """The packet."""
        fields = dict(fields)
        fields.pop("kind")
        return self.env.packet(self.qp, fields.pop("opcode"), fields.pop("psn"), fields.pop("size"), **fields)

    def judge(self, fields):
        """(strobe or None, accepted) by the rules."""
        state = self.qp.fields["state"]
        if (state not in ALIVE or self.dead or fields["opcode"] >> 5 != Service.UD or fields["port"] != self.qp.port
                or fields["dest_qpn"] != self.qp.fields["qpn"]):
            return None, False
        if fields["pkey"] != FULL_PKEY:
            return "pkey_viol", False
        if fields["deth_qkey"] != self.qp.fields["qkey"]:
            return "qkey_viol", False
        taken = fields["opcode"] in SENDS and fields["size"] <= self.qp.mtu and self.ci != self.pi
        return None, taken

    def check(self, item, fetch, fields):
        """An accepted datagram."""
        qp, index = self.qp.fields, self.ci & WQE_MASK
        self.ci += 1
        want = dict(kind=KIND_SEND, dg=fields["kind"], qpn=self.qp.qpn, func=qp["func"], pd=qp["pd"], frees=1,
                    buf_beat=fields["buf_beat"], buf_beats=fields["buf_beats"], payload_off=fields["payload_off"],
                    lead=fields["lead"], payload_bytes=fields["size"], needs_list=1,
                    list_bytes=64 << qp.get("rq_log_stride", 0),
                    wqe_index=index, msg_offset=0, msg_last=1, resumes=0, silent=1)
        assert {name: item[name] for name in want} == want
        assert not item["rsp"]["valid"], "nobody is answered"
        imm = fields["opcode"] & 1
        flags = (0 if fields["kind"] == BARE else WcFlag.GRH) | (WcFlag.WITH_IMM if imm else 0)
        cqe = dict(valid=1, solicited=fields["solicited"], cqn=qp["recv_cqn"], wqe_index=index & 0xFFFF,
                   opcode=WcOpcode.RECV, status=WcStatus.SUCCESS, qpn=qp["qpn"], byte_len=fields["size"] + ROOM,
                   imm_data=fields["imm"] if imm else 0, src_qp=fields["deth_src_qpn"], wc_flags=flags,
                   sl=fields["sl"], slid=fields["slid"], dlid_path_bits=fields["path_bits"], vendor_err=0)
        assert {name: item["cqe"][name] for name in cqe} == cqe
        slot = index % (1 << qp["rq_log_size"])
        stride = 64 << qp.get("rq_log_stride", 0)
        assert fetch == dict(func=qp["func"], addr=qp["rq_base"] + slot * stride, len_bytes=stride)


SILENT = "stray", "dry"
"""Reasons of which nobody is told but by counting."""


def violations_of(count):
    return Counter({key: n for key, n in count.items() if key[0] not in SILENT and n})


def violations(env):
    return violations_of(env.strobes.count)


async def some(env, receivers, count, faults, extra=()):
    """Random packets to the receivers, words of `extra` (packet, PSN) among them; all that comes of them is checked.
    Returns how many were accepted."""
    sent, before, strobes = [], env.strobes.count.copy(), violations(env)
    for _ in range(count):
        who = env.rng.choice(receivers)
        fields = who.invent()
        while env.rng.random() < faults:
            who.spoil(fields)
        sent.append((who, fields, who.word(fields)))
    for word, psn in extra:
        sent.insert(env.rng.randint(0, len(sent)), (None, psn, word))
    # Those of a connection stay in order.
    order = iter(extra)
    sent = [(None, *reversed(next(order))) if who is None else (who, fields, word) for who, fields, word in sent]
    out = await env.send(*[word for _, _, word in sent])
    assert len(out.rxw) == len(sent) and not out.upd
    fetches, events, accepted, dropped = iter(out.list), [], 0, 0
    for item, (who, fields, _) in zip(out.rxw, sent, strict=True):
        if who is None:
            assert (item["rsp"]["valid"], item["rsp"]["psn"], item["rsp"]["syndrome"]) == (1, fields, 0x1F)
            continue
        strobe, taken = who.judge(fields)
        if strobe:
            strobes[strobe, who.qp.port] += 1
        if strobe:
            events.append((VIOLATIONS[strobe], who.qp.fields["qpn"], fields["slid"]))
        if taken:
            who.check(item, next(fetches), fields)
            accepted += 1
        else:
            empty = dict(kind=KIND_NONE, frees=1, buf_beat=fields["buf_beat"], buf_beats=fields["buf_beats"],
                         needs_list=0)
            assert {name: item[name] for name in empty} == empty, fields
            assert not item["cqe"]["valid"] and not item["rsp"]["valid"]
            dropped += 1
    assert next(fetches, None) is None
    told = [(event["kind"], event["gen"] << LINE_BITS | event["id"], event["syndrome"] << 8 | event["status"])
            for event in out.ev]
    assert told == events
    silent = sum(env.strobes.count[key] - before[key] for key in list(env.strobes.count) if key[0] in SILENT)
    assert violations(env) == +strobes and silent + sum((strobes - violations_of(before)).values()) == dropped
    return accepted


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.4])
async def random_packets(dut, rate):
    """KEY-23, XPORT-4, OP-22: datagrams of every kind, good ones and such with one fault or several, to QPs of all
    ports, generations and path MTUs, with and without receive WQEs, and packets of a connection among them."""
    env = await Env(dut, 1, rate).start()
    receivers = [await Receiver(env, 3 + n, env.rng.getrandbits(14), port=n % 3, path_mtu=1 + n, rq_log_stride=n % 4,
                                rq_log_size=3 + n % 3, qkey=env.rng.getrandbits(32)).begin(5) for n in range(5)]
    other = Qp(100)
    await env.context(other, init_sq=1, init_rq=1)
    psn, accepted = EPSN, 0
    for _ in range(40):
        extra = [(env.packet(other, Op.RC_WRITE_ONLY, psn + n, 0, reth_bytes=0, ack_req=1), psn + n) for n in range(3)]
        psn += 3
        accepted += await some(env, receivers, 20, env.rng.choice((0.0, 0.2, 0.5)), extra)
        for who in env.rng.sample(receivers, 3):
            await who.post(env.rng.randint(0, 8))
    assert accepted > 150, accepted
    kinds = {kind for kind, _ in env.strobes.count}
    assert kinds == {"pkey_viol", "qkey_viol", *SILENT}


@cocotb.test()
async def qkey_rule(dut):
    """KEY-23: every bit of the Q_Key counts; its violation is counted where nothing else is wrong; a new Q_Key holds
    from its context write on. Whoever sent it and whatever its PSN, the next one is taken."""
    env = await Env(dut, 2).start()
    who = await Receiver(env, 9, 77, port=2).begin(60)
    for key in (0, 0xFFFFFFFF, 0x80010000, QKEY):
        await env.context(who.qp, qkey=key)
        for bit in range(32):
            before = violations(env)
            out = await env.send(who.word(who.invent(deth_qkey=key ^ 1 << bit)))
            assert [event["kind"] for event in out.ev] == [HwEventKind.QKEY_VIOLATION]
            out.ev = []
            assert out.dropped()
            before["qkey_viol", 1] += 1
            assert violations(env) == before
            worse = dict(deth_qkey=key ^ 1 << bit)
            for fault in (dict(port=0), dict(dest_qpn=9), dict(opcode=0x04), dict(opcode=0x11)):
                assert (await env.send(who.word(who.invent(**worse, **fault)))).dropped()
            out = await env.send(who.word(who.invent(pkey=0x7001, **worse)))
            assert [event["kind"] for event in out.ev] == [HwEventKind.PKEY_VIOLATION]
            before["pkey_viol", 1] += 1
            assert violations(env) == before, "one packet, one count"
        assert await some(env, [who], 4, 0.0) == 4


@cocotb.test()
async def services(dut):
    """XPORT-10: no packet of a connection gets into a QP of datagrams, and no datagram into one of connections,
    whatever their opcodes; nothing is told, nothing changes."""
    env = await Env(dut, 3).start()
    who = await Receiver(env, 9).begin(60)
    rc, uc = Qp(10, qkey=QKEY + 9), Qp(11, service=Service.UC, qkey=QKEY + 9)
    for qp in (rc, uc):
        await env.context(qp, init_sq=1, init_rq=1)
        await env.doorbell(qp, rq=4)
    for opcode in range(256):
        if opcode >> 5 != Service.UD or opcode not in SENDS:
            assert (await env.send(who.word(who.invent(opcode=opcode)))).dropped(), hex(opcode)
        for qp in (rc, uc):
            if opcode >> 5 != qp.fields["service"]:
                word = env.packet(qp, opcode, EPSN, 4, deth_qkey=QKEY + 9)
                assert (await env.send(word)).dropped(), hex(opcode)
    assert not violations(env) and env.strobes.count["stray", 0] > 600
    assert await some(env, [who], 4, 0.0) == 4
    out = await env.send(env.packet(rc, Op.RC_SEND_ONLY, EPSN, 4, ack_req=1))
    assert out.answer() == (0x1F, EPSN)


@cocotb.test()
async def states(dut):
    """QPS-4, QPS-12: datagrams are taken in RTR, RTS, SQD and SQE; without a receive WQE they drop without a word."""
    env = await Env(dut, 4).start()
    for state in QpState:
        who = await Receiver(env, 40 + state, state=state).begin(8)
        assert await some(env, [who], 5, 0.0) == (5 if state in ALIVE else 0)
        assert await some(env, [who], 5, 0.0) == (3 if state in ALIVE else 0)
        await who.post(1)
        assert await some(env, [who], 2, 0.0) == (1 if state in ALIVE else 0)


@cocotb.test()
async def refused_by_exec(dut):
    """OP-21, STAT LOC_LEN_ERR: a datagram whose WQE is too short: that WQE completes in error, later ones are flushed,
    one event, and nothing is taken any more; the next life begins clean."""
    env = await Env(dut, 5).start()
    who = await Receiver(env, 9).begin(8)
    assert await some(env, [who], 5, 0.0) == 5
    out = await env.message("exec", MSG_RQ_ERROR, who.qp, 2, WcStatus.LOC_LEN_ERR, 0x61)
    assert out.item()["resumes"] and out.cqes() == [(2, WcStatus.LOC_LEN_ERR)]
    assert [(event["kind"], event["status"]) for event in out.ev] == [(HwEventKind.QP_ERROR, WcStatus.LOC_LEN_ERR)]
    who.dead = True
    assert await some(env, [who], 3, 0.3) == 0
    await env.context(who.qp, state=QpState.ERR)
    out = await env.message("mgmt", MSG_FLUSH_RQ, who.qp)
    assert out.cqes() == [(index, WcStatus.WR_FLUSH_ERR) for index in range(3, 8)]
    who.dead, who.qp.fields["state"] = False, QpState.RTS
    await who.begin(3)
    assert await some(env, [who], 4, 0.0) == 3


def lets_in(key, pkey):
    """KEY-14, KEY-9."""
    return key & pkey & 0x7FFF == (key | pkey) & 0x7FFF != 0 and (key | pkey) >> 15 == 1


@cocotb.test()
async def qp1_is_of_all_partitions(dut):
    """KEY-14, KEY-16, KEY-21: a datagram for QP1 is taken if any P_Key of its port lets it in, and its completion names
    the first that does; a QP with the same index in its context takes those of that one only. What finds no receive
    is counted (STAT: QP1Dropped), of QP1 alone."""
    env = await Env(dut, 6).start()
    rng, keys = env.rng, [0] * 64
    qp1 = await Receiver(env, 20, qkey=0x80010000, is_gsi=1, pkey_index=31, rq_log_size=6).begin()
    qp = await Receiver(env, 21, qkey=0x80010000, pkey_index=5, rq_log_size=6).begin()
    indices = set()
    for _ in range(60):
        keys = [rng.choice((0, 0x8000)) | rng.choice((0, *range(1, 9), 0x7FFF)) for _ in range(64)]
        env.bench.set("pkey_tbl_i", sum(key << 16 * index for index, key in enumerate(keys)))
        for who in (qp1, qp):
            await who.post(rng.randint(0, 4))
            own = keys[32 * who.qp.port:][:32]
            places = [index for index in range(32) if who is qp1 or index == 5]
            for pkey in rng.sample(own, 3) + [rng.randrange(16), 0x8000]:
                found = [index for index in places if lets_in(own[index], pkey)]
                before, has_room = violations(env), who.ci != who.pi
                out = await env.send(who.word(who.invent(pkey=pkey)))
                out.list.clear()
                if not found:
                    assert [event["kind"] for event in out.ev] == [HwEventKind.PKEY_VIOLATION]
                    before["pkey_viol", who.qp.port] += 1
                elif has_room:
                    cqe = out.item()["cqe"]
                    assert (cqe["valid"], cqe["pkey_index"]) == (1, found[0] if who is qp1 else 0), (pkey, own)
                    who.ci += 1
                    indices.add(cqe["pkey_index"])
                else:
                    assert not out.item()["cqe"]["valid"]
                    before["qp1_drop", who.qp.port] += who is qp1
                assert violations(env) == +before, (hex(pkey), own)
    assert len(indices) > 8 and env.strobes.count["qp1_drop", qp1.qp.port] > 10


def test_dg_receive():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_dg_receive")
