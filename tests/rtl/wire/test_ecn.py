"""Congestion bits and CNPs at the wire: what hca_tx_wire makes of them and what hca_rx_wire finds, against Python."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import simulate, struct
from test_rx_wire import Rx, fix_crcs
from test_tx_wire import ACK, ANYBODY, READ, REQ, TXP, Tx
from wire_ref import CNP, frame_of

CC = struct("cc_tx_t")
CNP_KIND, CNP_CLASS = 3, (48 << 2, 12 << 2)


class Marking(Tx):
    """Tx whose ports say ECT, or not, and have a class for CNPs."""

    def set_cc(self, ect):
        self.ect = ect
        for port in range(2):
            self.bench.set("cc_i", CC.pack(ect=ect[port], cnp_class=CNP_CLASS[port]), CC.width * port, CC.width)

    def class_of(self, p, kind):
        """Traffic class that must leave."""
        if p["ib"]:
            return p["traffic_class"]
        if kind == CNP_KIND:
            return CNP_CLASS[p["port"]]
        return p["traffic_class"] & ~3 | 2 if self.ect[p["port"]] and kind != ACK else p["traffic_class"]

    def one(self, kind):
        """A packet of this kind, without payload, of any QP."""
        rng = self.rng
        qpn = rng.randrange(len(self.qps))
        base = dict(self.qps[qpn], payload=b"", psn=rng.getrandbits(24), ack_req=0, solicited=0, aeth_syndrome=31,
                    aeth_msn=5, imm=0, xrcsrq=0, reth_va=0, reth_rkey=0, reth_bytes=0)
        opcode = {REQ: 0x0A, READ: 0x10, ACK: 0x11}.get(kind, CNP)
        fields = {name: base[name] for name in ("psn", "aeth_syndrome", "aeth_msn")} if opcode != CNP else {}
        word = TXP.pack(kind=kind, qpn=qpn, opcode=opcode, **fields)
        base.update(opcode=opcode, traffic_class=self.class_of(base, kind), vl=self.sl2vl[base["port"]][base["sl"]])
        if base["ib"] and base["vl"] == 15:
            base["dest_qpn"] = ANYBODY
        if opcode == CNP:
            base["psn"] = 0
        elif base["service"] == 5 and kind != REQ:
            base["opcode"] = opcode | 5 << 5
        self.pending.setdefault(word, []).append((base["port"], frame_of(base)))
        (self.ack if opcode in (0x11, CNP) else self.txp).put(word)


@cocotb.test()
async def classes_that_leave(dut):
    """With ECT on, data of connections is ECT(0) and acknowledges are not; CNPs have their own class, BECN, no PSN
    and 16 bytes of zero, also those of XRC QPs; off, the class of the QP leaves as it is."""
    for ect in ((0, 0), (1, 0), (1, 1)):
        tx = await Marking(dut, 3, 0, rate=0.8, sink_rate=0.8).start()
        tx.set_cc(ect)
        for _ in range(120):
            tx.one(tx.rng.choice((REQ, READ, ACK, CNP_KIND)))
        await tx.finish(120)


@cocotb.test()
async def infiniband_has_none(dut):
    """A class on InfiniBand is the QP's, whatever the row says."""
    tx = await Marking(dut, 4, 1, is_global=True).start()
    tx.set_cc((1, 1))
    for _ in range(40):
        tx.one(tx.rng.choice((REQ, READ, ACK)))
    await tx.finish(40)


@cocotb.test()
async def marks_and_cnps_that_come(dut):
    """Only "congestion experienced" is a mark, in either IP header; a CNP is 16 bytes, and none on InfiniBand."""
    for ib in (0, 1):
        rx = await Rx(dut, 5, ib).start()
        for ecn in (0, 1, 2, 3) * 4:
            rx.push(rx.random(0x0A, rx.rng.randrange(100), traffic_class=rx.rng.randrange(64) << 2 | ecn))
            rx.push(rx.random(CNP, 0, traffic_class=rx.rng.randrange(64) << 2 | ecn), "malformed" if ib else "good")
        short = rx.random(CNP, 0, is_ipv4=False, is_global=True)
        assert fix_crcs(short, ib) == short
        await rx.finish()
        marked = sum(want["marked"] for want, _ in rx.expected)
        assert marked == (0 if ib else 8)


@pytest.mark.parametrize("top,name", [("hca_tx_wire", "classes_that_leave"), ("hca_tx_wire", "infiniband_has_none"),
                                      ("hca_rx_wire", "marks_and_cnps_that_come")])
def test_ecn(top, name):
    simulate(top, __name__, tests=name)
