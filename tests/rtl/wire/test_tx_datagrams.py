"""hca_tx_wire with datagrams: their address is in their WQE, their source in the port's GID table; against packets
built in Python, among packets of connections."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import constants, simulate, struct
from test_tx_wire import ACK, ANYBODY, LID, MAC_ADDR, OPCODES, PAY, PORT, QPC, QPC_WR, QPS, TXP, Tx
from wire_ref import frame_of, mapped

AV, GID, WQE = struct("av_wr_t"), struct("gid_wr_t"), struct("sq_wqe_ud_ctrl_t")
SLOTS, GIDS = constants()["AvSlots"], constants()["NumGids"]
SEND, SEND_IMM = 0x64, 0x65
LINES = range(QPS, QPS + 8)   # QPs of datagrams
PERMISSIVE = 0xFFFF   # LID of whoever is there
CONTROLLED = 1 << 31


class Requester:
    """Hands out slots: the WQE of a datagram goes ahead, its packet follows two cycles later at the earliest, in order.
    A slot is free again when the header stage has taken the packet."""

    def __init__(self, bench, rate):
        self.bench, self.rate = bench, rate
        self.jobs = deque()          # (port, WQE or None, what brings the packet: f(slot, source GID))
        self.free = list(range(SLOTS))
        self.ready = deque()
        self.gids = {}
        self.writes = deque()        # (port, index, GID)
        self.most = 0
        bench.agents.append(self)

    def drive(self):
        """One strobe of each kind at most."""
        bench, rng = self.bench, self.bench.rng
        while self.ready:
            self.ready.popleft()()
        bench.set("gid_wr_i", 0)
        bench.set("av_wr_i", 0)
        if self.writes:
            port, index, gid = self.writes.popleft()
            bench.set("gid_wr_i", GID.pack(valid=1, port=port, index=index, gid=gid))
            self.gids[port, index] = gid
            return
        # Nothing valid: the rest of the strobes is noise.
        bench.set("gid_wr_i", GID.random(rng, valid=0))
        bench.set("av_wr_i", AV.random(rng, valid=0))
        if not self.jobs or rng.random() >= self.rate:
            return
        port, wqe, bring = self.jobs[0]
        if wqe is None:
            self.jobs.popleft()
            self.ready.append(lambda: bring(None, None))
        elif self.free:
            self.jobs.popleft()
            slot = self.free.pop(rng.randrange(len(self.free)))
            self.most = max(self.most, SLOTS - len(self.free))
            bench.set("av_wr_i", AV.pack(valid=1, slot=slot, port=port, wqe=WQE.pack(**wqe)))
            gid = self.gids[port, wqe["sgid_index"]]
            self.ready.append(lambda: bring(slot, gid))

    def sample(self):
        """Nothing to see."""


class DgTx(Tx):
    """The bench of hca_tx_wire, with QPs of datagrams beside those of connections."""

    def __init__(self, dut, seed, ib, rate=1.0, sink_rate=1.0, lmc=(3, 3)):
        super().__init__(dut, seed, ib, rate, sink_rate)
        self.lmc, self.lines = lmc, {}
        self.requester = Requester(self.bench, rate)
        self.slot_of = {}
        expect = self.txp.on_accept

        def accepted(word):
            expect(word)
            if word in self.slot_of:
                self.requester.free.append(self.slot_of.pop(word))

        self.txp.on_accept = accepted

    async def start(self):
        """Contexts and GID tables."""
        await super().start()
        rng = self.rng
        for port, ib in enumerate(self.ibs):
            cfg = PORT.pack(ib=ib, mac=int(MAC_ADDR[port].hex(), 16), lid=LID[port], lmc=self.lmc[port])
            self.bench.set("port_cfg_i", cfg, PORT.width * port, PORT.width)
            for index in range(GIDS):
                self.gid(port, index)
        for line in LINES:
            await self.context(line, line % 2)
        await self.bench.until(lambda: not self.requester.writes, what="GIDs")
        return self

    def gid(self, port, index):
        """A source GID, every other one an IPv4 address."""
        value = mapped(self.rng.randbytes(4)) if self.rng.random() < 0.5 else self.rng.getrandbits(128)
        self.requester.writes.append((port, index, value))

    async def context(self, line, port):
        """All of the address in the context is another one's: it must not count."""
        rng, index = self.rng, self.rng.randrange(32)
        own = dict(port=port, pkey=self.pkeys[32 * port + index], qkey=rng.getrandbits(32),
                   qpn=rng.getrandbits(14) << 10 | line)
        self.lines[line] = own
        is_gsi = rng.random() < 0.3
        own["is_gsi"], own["is_smi"] = is_gsi, not is_gsi and rng.random() < 0.3
        qpc = QPC.random(rng, port=port + 1, path_mig_state=0, pkey_index=index, qkey=own["qkey"], qpn=own["qpn"],
                         is_gsi=is_gsi, is_smi=own["is_smi"])
        if is_gsi or own["is_smi"]:
            own["qpn"] = int(is_gsi)   # MGMT-4, MGMT-2
        self.qpc_wr.put(QPC_WR.pack(qpn=line, qpc=qpc))
        await self.bench.until(self.qpc_wr.idle, what="context")

    def connection(self, opcode, length):
        """A packet of a connection, in its turn among the datagrams."""
        self.requester.jobs.append((0, None, lambda slot, gid: self.send(opcode, length)))

    def datagram(self, opcode, length, line=None, **fields):
        """A datagram with a random WQE but for `fields`."""
        rng = self.rng
        line = rng.choice(LINES) if line is None else line
        wqe = {name: rng.getrandbits(width) for name, (_, width) in WQE.fields.items()}
        if rng.random() < 0.1:
            wqe["udp_src_port"] = 0
        if rng.random() < 0.1:
            wqe["dlid"] = PERMISSIVE
        wqe.update(fields)
        head = dict(psn=rng.getrandbits(24), ack_req=0, solicited=rng.getrandbits(1), imm=rng.getrandbits(32))
        payload = rng.randbytes(length)
        self.requester.jobs.append((self.lines[line]["port"], wqe, lambda slot, gid: self._bring(
            line, wqe, slot, gid, dict(head, opcode=opcode, payload=payload))))

    def _bring(self, line, wqe, slot, gid, head):
        own, length = self.lines[line], len(head["payload"])
        port = own["port"]
        same = ("dgid", "dmac", "dlid", "flow_label", "hop_limit", "traffic_class", "sl", "is_global")
        p = dict({name: wqe[name] for name in same}, **head, ib=self.ibs[port], pkey=own["pkey"], sgid=gid,
                 smac=MAC_ADDR[port], vl=self.sl2vl[port][wqe["sl"]], dest_qpn=wqe["remote_qpn"],
                 udp_src_port=wqe["udp_src_port"] or 0xC000 | line, deth_src_qpn=own["qpn"],
                 is_ipv4=mapped(gid.to_bytes(16, "little")[12:]) == gid,
                 slid=LID[port] + wqe["src_path_bits"] % (1 << self.lmc[port]),
                 deth_qkey=own["qkey"] if wqe["qkey"] >= CONTROLLED else wqe["qkey"])
        if p["ib"] and p["vl"] == 15 and not own["is_smi"]:
            p["dest_qpn"] = ANYBODY   # VL-9
        if own["is_gsi"]:
            p["pkey"] = self.pkeys[32 * port + wqe["pkey_index"]]   # KEY-21: of any partition of the port
        if own["is_smi"]:
            p.update(vl=15, deth_qkey=own["qkey"])
            if p["dlid"] == PERMISSIVE:
                p["slid"] = PERMISSIVE   # the port need not have a LID
        word = TXP.pack(kind=0, qpn=line, opcode=head["opcode"], psn=head["psn"], ack_req=head["ack_req"],
                        solicited=head["solicited"], imm=head["imm"], payload_bytes=length, has_payload=length > 0,
                        datagram=1, av_slot=slot)
        self.pending.setdefault(word, []).append((port, frame_of(p)))
        self.slot_of[word] = slot
        self.txp.put(word)
        at = 0
        while at < length:
            lane = self.rng.randrange(64)
            size = min(64 - lane, length - at)
            data = int.from_bytes(head["payload"][at:at + size], "little") << 8 * lane
            at += size
            self.pay.put(PAY.pack(last=at == length, lane=lane, len_bytes=size, data=data))


async def mix(dut, seed, ib, rate, sink_rate, lmc=(3, 3), count=250):
    """Datagrams, packets of connections and acknowledges in turns; the tables change between bursts."""
    tx = await DgTx(dut, seed, ib, rate, sink_rate, lmc).start()
    rng, sent = tx.rng, 0
    for _ in range(5):
        for _ in range(count // 5):
            length = rng.choice((0, 0, 1, 2, 3, 4, 30, 63, 64, 65, 200, 1023, rng.randint(0, 4096)))
            if rng.random() < 0.7:
                tx.datagram(rng.choice((SEND, SEND_IMM)), length)
            else:
                tx.connection(rng.choice(OPCODES), length)
            sent += 1
            if rng.random() < 0.1:
                tx.send(0x11, 0, kind=ACK)
                sent += 1
        await tx.finish(sent)
        for _ in range(10):
            tx.gid(rng.randrange(2), rng.randrange(GIDS))
        for line in rng.sample(LINES, 3):
            await tx.context(line, rng.randrange(2))
        for port in (0, 1):
            tx.set_sl2vl([rng.randrange(16) for _ in range(16)], port)
        await tx.bench.until(lambda: not tx.requester.writes, what="GIDs")
    assert sorted(tx.requester.free) == list(range(SLOTS))
    return tx


@cocotb.test()
@cocotb.parametrize(ib=[0, 1, (0, 1), (1, 0)], rates=[(1.0, 1.0), (0.5, 0.6)])
async def every_kind(dut, ib, rates):
    """KEY-24, ADDR-4, XPORT-4: datagrams over IPv4, IPv6, InfiniBand with and without GRH, with and without immediate
    data: every address field is the WQE's, the source its port's GID, the rest the context's."""
    await mix(dut, 21, ib, *rates)


@cocotb.test()
async def every_source(dut):
    """Each source GID of each port, on both personalities."""
    for ibs in ((0, 1), (1, 0)):
        tx = await DgTx(dut, 22, ibs, 0.8, 0.8).start()
        for line in (LINES[0], LINES[1]):
            for index in range(GIDS):
                tx.datagram(SEND, index, line, sgid_index=index, is_global=1)
        await tx.finish(2 * GIDS)


@cocotb.test()
async def path_bits(dut):
    """ADDR-4: the source LID is the base LID or'ed with the path bits, no more of them than the port's LMC has."""
    for lmc in range(8):
        tx = await DgTx(dut, 23, 1, lmc=(lmc, 7 - lmc)).start()
        for path in [0, 0x7F, 0x55, 0x2A, *[1 << bit for bit in range(7)]]:
            for line in (LINES[0], LINES[1]):
                tx.datagram(SEND, 8, line, src_path_bits=path)
        await tx.finish(22)


@cocotb.test()
async def controlled_qkey(dut):
    """KEY-24: a Q_Key with its top bit set is the context's instead, whatever the rest of it is."""
    tx = await DgTx(dut, 24, (0, 1)).start()
    keys = [0, 1, CONTROLLED - 1, CONTROLLED, CONTROLLED | 1, 0xFFFFFFFF, 0x80010000, 0x00010000]
    for key in keys:
        for line in LINES:
            tx.datagram(SEND_IMM, 4, line, qkey=key)
    await tx.finish(len(keys) * len(LINES))


@cocotb.test()
async def all_slots(dut):
    """As many datagrams under way as there are slots: a stalled wire mixes up no address."""
    tx = await DgTx(dut, 25, (1, 0), sink_rate=0.05).start()
    for _ in range(200):
        tx.datagram(SEND, tx.rng.choice((0, 64)))
    await tx.bench.step(800)
    assert tx.requester.most == SLOTS, tx.requester.most
    tx.sink.rate = 1.0
    await tx.finish(200)


def test_tx_datagrams():
    """Runs the tests of this file."""
    simulate("hca_tx_wire", __name__)
