"""hca_tx_wire: every opcode and odd length in both personalities against packets built in Python; rates."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, simulate, struct
from wire_ref import KNOWN, MASKED, UD, XRC, frame_of, mapped, random_packet

TXP, PAY, MAC, PORT = struct("txp_t"), struct("pay_t"), struct("mac_t"), struct("port_cfg_t")
ROUND = struct("tx_round_t")
# QP that a packet names which the link must refuse.
ANYBODY = 0xFFFFFF
QPC, QPC_WR = struct("qpc_t"), struct("qpc_wr_t")
MAC_ADDR, LID, QPS = (bytes.fromhex("02c0ffee0102"), bytes.fromhex("02c0ffee0201")), (0x1200, 0x3400), 16
# Datagrams: test_tx_datagrams.py.
OPCODES = sorted(op for op in KNOWN if op >> 5 != UD)
LENGTHS = (0, 1, 2, 3, 4, 5, 31, 60, 61, 63, 64, 65, 127, 128, 129, 256, 1000, 1024, 4093, 4096)
REQ, READ, ACK = range(3)


class Tx:
    """Bench with QPs of random addresses on both ports. Frames of a port are expected in the order of acceptance; `ib`:
    personality of both ports, or one for each."""

    def __init__(self, dut, seed, ib, rate=1.0, sink_rate=1.0, ipv4=None, is_global=None):
        self.bench = Bench(dut, seed)
        self.rng, self.ibs = self.bench.rng, ib if isinstance(ib, tuple) else (ib, ib)
        self.ipv4, self.is_global = ipv4, is_global
        self.qpc_wr = Source(self.bench, "qpc_wr", "qpc_wr_t")
        self.ack = Source(self.bench, "ack", "txp_t", rate=rate / 4)
        self.txp = Source(self.bench, "txp", "txp_t", rate=rate)
        self.pay = Source(self.bench, "pay", "pay_t", rate=rate)
        self.frames, self.ports, self.ends, self.part = [], [], [], b""
        self.sink = Sink(self.bench, "mac", rate=sink_rate, on_word=self.beat)
        self.expected, self.pending = [], {}
        self.turns = {}   # of frames: whether it is of a round, and which one of which QP
        self.ack.on_accept = self.txp.on_accept = lambda word: self.expected.append(self.pending[word].pop(0))
        self.qps, self.sl2vl = [], ([0] * 16, [0] * 16)

    def beat(self, word):
        beat = MAC.unpack(word)
        size = beat["len_bytes"]
        assert 1 <= size <= 64 and (beat["last"] or size == 64), "a beat in the middle must be full"
        port = self.bench.get("mac_port_o")
        if not self.part:
            self.ports.append(port)
            self.turn = self.bench.get("mac_round_o")
        assert port == self.ports[-1], "the port changes inside a packet"
        assert self.turn == self.bench.get("mac_round_o"), "the round changes inside a packet"
        self.part += beat["data"].to_bytes(64, "little")[:size]
        if beat["last"]:
            self.frames.append(self.part)
            valid, turn = self.turns.get(self.part, (ROUND.unpack(self.turn)["valid"], self.turn))
            assert valid == ROUND.unpack(self.turn)["valid"] and (not valid or turn == self.turn), "another round"
            self.ends.append(self.bench.cycle)
            self.part = b""

    async def start(self):
        await self.bench.start()
        rng = self.rng
        self.pkeys = pkeys = [rng.getrandbits(16) for _ in range(64)]
        self.bench.set("pkey_tbl_i", sum(key << 16 * i for i, key in enumerate(pkeys)))
        for port, ib in enumerate(self.ibs):
            cfg = PORT.pack(ib=ib, mac=int(MAC_ADDR[port].hex(), 16), lid=LID[port], lmc=3)
            self.bench.set("port_cfg_i", cfg, PORT.width * port, PORT.width)
            self.set_sl2vl([rng.randrange(16) for _ in range(16)], port)
        for qpn in range(QPS):
            port = rng.randrange(2)
            p = random_packet(rng, self.ibs[port], 0, 0, dict(mac=rng.randbytes(6), lid=rng.getrandbits(16)))
            p["is_ipv4"] = p["is_ipv4"] if self.ipv4 is None else self.ipv4
            p["is_global"] = p["is_global"] if self.is_global is None else self.is_global
            if p["is_ipv4"]:
                p["sgid"], p["dgid"] = mapped(rng.randbytes(4)), mapped(rng.randbytes(4))
            index, path = rng.randrange(32), rng.randrange(8)
            p.update(pkey=pkeys[32 * port + index], slid=LID[port] | path, smac=MAC_ADDR[port], port=port,
                     service=rng.choice((0, XRC)), path_mig_state=0 if p["mig_req"] else rng.choice((1, 2)))
            same = ("is_ipv4", "is_global", "dest_qpn", "udp_src_port", "dlid", "sl", "flow_label",
                    "traffic_class", "hop_limit", "dmac", "sgid", "dgid")
            context = {name: p[name] for name in (*same, "service", "path_mig_state")}
            if qpn == 0:
                context["udp_src_port"], p["udp_src_port"] = 0, 0xC000
            qpc = QPC.random(rng, **context, port=port + 1, pkey_index=index, src_path_bits=path, is_smi=0)
            self.qpc_wr.put(QPC_WR.pack(qpn=qpn, qpc=qpc))
            self.qps.append(p)
        await self.bench.until(self.qpc_wr.idle, what="contexts")
        return self

    def set_sl2vl(self, table, port=0):
        """VL of each SL, from the next packet taken on."""
        self.sl2vl[port][:] = table
        self.bench.set("sl2vl_i", sum(vl << 4 * sl for sl, vl in enumerate(table)), 64 * port, 64)

    def send(self, opcode, length, kind=REQ, pieces=None, aligned=False, resp_seq=0, qpn=None):
        """Queues one packet and the pieces of its payload."""
        rng = self.rng
        qpn = rng.randrange(QPS) if qpn is None else qpn
        p = dict(self.qps[qpn], vl=self.sl2vl[self.qps[qpn]["port"]][self.qps[qpn]["sl"]])
        del p["masks"]     # here they are payload
        if p["ib"] and p["vl"] == 15:
            p["dest_qpn"] = ANYBODY
        fields = dict(psn=24, ack_req=1, solicited=1, reth_va=64, reth_rkey=32, reth_bytes=32, swap_add=64, compare=64,
                      aeth_syndrome=8, aeth_msn=24, imm=32, xrcsrq=24, unacked=1, round=2)
        fields = {name: rng.getrandbits(width) for name, width in fields.items()}
        p.update(fields, opcode=opcode, payload=rng.randbytes(length))
        if kind != REQ and p["service"] == XRC:  # answers come as those of RC, and leave as the QP's
            p["opcode"] |= XRC << 5
        word = TXP.pack(kind=kind, qpn=qpn, opcode=MASKED.get(opcode, opcode), masked=opcode in MASKED,
                        payload_bytes=length, has_payload=length > 0, resp_seq=resp_seq, **fields)
        frame = frame_of(p)
        self.pending.setdefault(word, []).append((p["port"], frame))
        self.turns[frame] = (kind == REQ and not p["unacked"], ROUND.pack(valid=1, qpn=qpn, round=p["round"]))
        (self.ack if kind == ACK else self.txp).put(word)
        at = 0
        while at < length:
            lane = 0 if aligned else (rng.randrange(64) if at == 0 or pieces == "short" else 0)
            size = min(64 - lane, length - at)
            if pieces == "short":
                size = rng.randint(1, size)
            data = rng.getrandbits(512)
            mask = ((1 << 8 * size) - 1) << 8 * lane
            data = data & ~mask | int.from_bytes(p["payload"][at:at + size], "little") << 8 * lane
            at += size
            self.pay.put(PAY.pack(last=at == length, lane=lane, len_bytes=size, data=data))

    async def finish(self, count, limit=200000):
        await self.bench.until(lambda: len(self.frames) == count, limit=limit, what=f"{count} frames")
        await self.bench.step(20)
        assert len(self.expected) == count
        got = list(zip(self.ports, self.frames, strict=True))
        for ports in ((0, 1),) if self.ibs[0] == self.ibs[1] else ((0,), (1,)):
            pairs = zip(*([entry for entry in side if entry[0] in ports] for side in (got, self.expected)), strict=True)
            for number, ((port, frame), (want_port, want)) in enumerate(pairs):
                assert port == want_port, f"frame {number} on port {port}"
                assert frame == want, f"frame {number}:\ngot  {frame.hex()}\nwant {want.hex()}"


async def every_opcode(dut, ib, rate, sink_rate, seed):
    tx = await Tx(dut, seed, ib, rate, sink_rate).start()
    count = 0
    for length in LENGTHS:
        for opcode in OPCODES if length < 200 else tx.rng.sample(OPCODES, 3):
            tx.send(opcode, length, pieces="short" if length < 200 and tx.rng.random() < 0.3 else None)
            count += 1
            if tx.rng.random() < 0.3:
                tx.send(0x11, 0, kind=ACK)
                count += 1
    await tx.finish(count)


@cocotb.test()
async def roce_every_opcode(dut):
    """WIRE: RoCEv2 over IPv4 and IPv6, no stalls."""
    await every_opcode(dut, 0, 1.0, 1.0, 1)


@cocotb.test()
async def roce_stalls(dut):
    """Random gaps and stalls on every stream."""
    await every_opcode(dut, 0, 0.6, 0.7, 2)


@cocotb.test()
async def ib_every_opcode(dut):
    """WIRE: InfiniBand with and without GRH."""
    await every_opcode(dut, 1, 1.0, 1.0, 3)


@cocotb.test()
async def ib_stalls(dut):
    """InfiniBand with gaps and stalls."""
    await every_opcode(dut, 1, 0.6, 0.7, 4)


@cocotb.test()
async def both_personalities(dut):
    """One port InfiniBand, one Ethernet, at once: each packet has the framing and the addresses of its QP's port."""
    for seed, ibs in enumerate([(0, 1), (1, 0)]):
        await every_opcode(dut, ibs, 1.0, 1.0, 11 + seed)
        await every_opcode(dut, ibs, 0.6, 0.7, 13 + seed)


@cocotb.test()
async def lrh(dut):
    """VL-8, ADDR-4: VL by the SL and the table of this moment; source LID = base LID | path bits."""
    tx = await Tx(dut, 10, 1, is_global=False).start()
    for n in range(QPS):
        tx.qps[n].update(port=0, sl=n, slid=LID[0] | n % 8, src_path_bits=n % 8)
        fields = ("dest_qpn", "dlid", "sl", "src_path_bits", "hop_limit", "path_mig_state")
        same = {name: tx.qps[n][name] for name in fields}
        tx.qps[n]["pkey"] = tx.pkeys[0]
        tx.qpc_wr.put(QPC_WR.pack(qpn=n, qpc=QPC.pack(**same)))
    await tx.bench.until(tx.qpc_wr.idle, what="contexts")
    tables = [[0] * 16, list(range(16)), [15 - sl for sl in range(16)], [tx.rng.randrange(16) for _ in range(16)]]
    for count, table in enumerate(tables):
        tx.set_sl2vl(table)
        for qpn in range(QPS):
            tx.send(0x0A, 64, qpn=qpn)
        await tx.finish(QPS * (count + 1))
        for qpn, frame in enumerate(tx.frames[-QPS:]):
            assert (frame[0] >> 4, frame[0] & 15) == (table[qpn], 0), "VL, LVer"
            assert frame[1] >> 4 == qpn, "the SL stays in the packet"
            assert int.from_bytes(frame[6:8], "big") == LID[0] + qpn % 8


@cocotb.test()
async def resp_done(dut):
    """resp_done_seq_o follows the READ responses that were taken; requests leave it alone."""
    tx = await Tx(dut, 5, 0).start()
    assert tx.bench.get("resp_done_seq_o") == 0xFFFF
    for seq in range(3):
        tx.send(0x0D, 64, kind=READ, resp_seq=seq)
        tx.send(0x0A, 64)
        await tx.finish(2 * seq + 2)
        assert tx.bench.get("resp_done_seq_o") == seq


async def rate_of(dut, seed, ib, count, length, aligned=True, **kind):
    tx = await Tx(dut, seed, ib, **kind).start()
    for _ in range(count):
        tx.send(0x0A, length, aligned=aligned)
    await tx.finish(count)
    first, last = count // 2, count - 2   # the very last packet also waits for its CRC
    # One end may be a cycle late: packets of other alignment went before it.
    return (tx.ends[last] - tx.ends[first] - 1) / (last - first), -(-len(tx.frames[0]) // 64)


@cocotb.test()
async def packet_rate(dut):
    """A WRITE of 64 bytes takes at most 4 cycles, whatever its headers and its alignment."""
    for seed, (ib, kind) in enumerate([(0, dict(ipv4=True)), (0, dict(ipv4=False)),
                                       (1, dict(is_global=False)), (1, dict(is_global=True))]):
        for aligned in (True, False):
            cycles, _ = await rate_of(dut, seed, ib, 100, 64, aligned, **kind)
            dut._log.warning(f"64-byte WRITE, ib={ib} {kind} aligned={aligned}: {cycles:.2f} cycles")
            assert cycles <= 4.0


@cocotb.test()
async def latency(dut):
    """Cycles from the descriptor to the first beat on the wire, shortest packet, empty pipeline."""
    for ib in (0, 1):
        tx = await Tx(dut, 7, ib).start()
        tx.send(0x11, 0, kind=ACK)
        await tx.finish(1)
        cycles = tx.sink.when[0] - tx.ack.taken[0]
        dut._log.warning(f"latency of an ACK, ib={ib}: {cycles} cycles")
        assert cycles <= 24


@cocotb.test()
async def line_rate(dut):
    """Packets of 4096 bytes go out at one beat per cycle (one more at most per packet)."""
    for ib in (0, 1):
        for aligned in (True, False):
            cycles, beats = await rate_of(dut, 9, ib, 10, 4096, aligned, ipv4=True, is_global=False)
            dut._log.warning(f"4096-byte WRITE, ib={ib} aligned={aligned}: {cycles:.2f} of {beats}")
            assert cycles <= beats + 1


def test_tx_wire():
    simulate("hca_tx_wire", __name__)
