"""Datagrams for the bench of hca_requester: their WQEs, the header stage that keeps their destinations, and gates that
know the lane of every packet."""

from collections import deque
from dataclasses import dataclass, field

from common import constants, struct
from hca_abi import PUSH_SLOT_BYTES, QpState, WrOpcode
from sq_bench import PSN_MASK, SEND_OPS, Qp, SqBench, Wqe

LIMITS = constants()
AV_SLOTS = LIMITS["AvSlots"]
LANES, ALL = 32, 0xFFFFFFFF   # SLs of both ports
# From a gate to the strobe of the packet that it still lets pass: gate register, decision, packet.
LATENCY = 3
IPV4 = bytes(10) + b"\xff\xff"


@dataclass
class Datagram(Wqe):
    """A send work request of a UD QP; `dest`: fields of its header that say where it goes."""

    dest: dict = field(default_factory=dict)
    header_bytes = 64

    def head(self, index):
        """The bytes before entries or inline data."""
        return struct("sq_wqe_ud_ctrl_t").pack(**self.dest, **self.header(index)).to_bytes(64, "little")

    def path(self, ib):
        """(SL or priority, bytes on the wire)."""
        gid = self.dest["dgid"].to_bytes(16, "little")
        if ib:
            overhead = 66 if self.dest["is_global"] else 26
        else:
            overhead = 82 if gid[:12] == IPV4 else 102
        sl = self.dest["sl"] if ib else PRIORITY[self.dest["traffic_class"] >> 2]
        return sl, (self.length + 3 & ~3) + overhead + 8


# Priority of each DSCP, on Ethernet; and the QPs' lanes.
PRIORITY = [(3 * dscp + 1) % 8 for dscp in range(64)]
CLASS = struct("eth_class_t").pack(dscp=sum(prio << 3 * dscp for dscp, prio in enumerate(PRIORITY)))


def traffic_class(rng, sl):
    """A traffic class of the priority of this SL."""
    return rng.choice([dscp for dscp in range(64) if PRIORITY[dscp] == sl % 8]) << 2 | rng.getrandbits(2)


def destination(rng, sl=None):
    """Random address; `sl`: the SL, and on Ethernet (if below 8) the priority."""
    sl = rng.randrange(16) if sl is None else sl
    gid = rng.choice((rng.randbytes(16), IPV4 + rng.randbytes(4), b"\x01" + IPV4[1:] + rng.randbytes(4),
                      bytes(10) + b"\xff\xfe" + rng.randbytes(4)))
    fields = struct("sq_wqe_ud_ctrl_t").fields
    names = ("remote_qpn", "sgid_index", "qkey", "dmac", "dlid", "flow_label", "hop_limit", "is_global",
             "src_path_bits", "udp_src_port", "reserved3", "reserved4", "reserved6", "reserved7")
    dest = {name: rng.getrandbits(fields[name][1]) for name in names}
    return dict(dest, sl=sl, traffic_class=traffic_class(rng, sl), dgid=int.from_bytes(gid, "little"))


def datagram_qp(qpn, **options):
    """A UD QP. Its context names a rate group, which must mean nothing."""
    return Qp(qpn, **{**dict(service=3, rate_group=7, rate_interval=99, max_rd_atomic=0), **options})


async def go(bench, qps):
    """Creates QPs whose indices begin anywhere: they may send only when they know the producer index, too."""
    for qp in qps:
        qp.context["state"] = QpState.INIT
        bench.create(qp)
        bench.doorbell(qp, qp.start)
    await bench.until(lambda: bench.qpc.idle() and bench.ack.idle() and bench.db.idle(), what="contexts")
    for qp in qps:
        bench.modify(qp, state=QpState.RTS)
    return qps


def random_datagram(rng, qp, sl=None, pushed=False):
    """A good one that fits the QP's stride (and a push slot)."""
    room = (min(qp.stride, PUSH_SLOT_BYTES) if pushed else qp.stride) - 64
    wqe = Datagram(rng.choice(SEND_OPS), signaled=rng.random() < 0.5, solicited=rng.random() < 0.3,
                   fence=rng.random() < 0.3, imm=rng.getrandbits(32), dest=destination(rng, sl))
    if rng.random() < 0.25:
        wqe.inline = rng.choice((0, min(room, qp.mtu), rng.randint(0, min(room, qp.mtu))))
        return wqe
    count = rng.randint(0, min(16, room // 16))
    length = rng.choice((0, 1, qp.mtu - 1, qp.mtu, rng.randint(0, qp.mtu))) if count else 0
    cuts = sorted(rng.choice((0, length, rng.randint(0, length))) for _ in range(max(0, count - 1)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, length], strict=True)][:count]
    wqe.sges = [(rng.getrandbits(48), size, rng.getrandbits(32)) for size in sizes]
    return wqe


def small(rng, sl=0, size=64):
    """One entry."""
    return Datagram(WrOpcode.SEND, [(0x10000, size, 0x1200)], dest=destination(rng, sl))


class HeaderStage:
    """Keeps destinations by slot. Datagrams leave in order, each with a chance of `rate` per cycle; then rx_ctrl is
    told how far they got. What is in use must be what the WQE said, and is not written."""

    def __init__(self, bench):
        self.bench, self.rate, self.drop = bench, 1.0, 0.0
        self.ram = {}
        self.busy = {}          # slot: (what its WQE said, or None: not looked at any more)
        self.waiting = deque()  # (slot, QP, PSN), taken from txp
        self.made = self.left = self.seen = self.most = 0
        bench.agents.append(self)

    def drive(self):
        """The oldest may leave."""
        bench = self.bench
        leaves = bool(self.waiting) and bench.rng.random() < self.rate
        bench.set("av_left_i", leaves)
        if leaves:
            slot, qp, psn = self.waiting.popleft()
            assert self.ram[slot] == self.busy.pop(slot), f"slot {slot}: destination has changed"
            self.left += 1
            behind = psn + 1 & PSN_MASK
            ahead = behind - qp.una & PSN_MASK
            if bench.qps[qp.qpn] is qp and 0 < ahead < 1 << 23 and bench.auto_ack:
                bench.send_ack(qp, behind)

    def sample(self):
        """Destinations come before their packets."""
        bench = self.bench
        write = struct("av_wr_t").unpack(bench.get("av_wr_o"))
        if write["valid"]:
            assert write["slot"] not in self.busy, f"slot {write['slot']} is in use"
            self.ram[write["slot"]] = write["wqe"]
        if bench.get("ev_emit_valid_o"):
            qp = bench.qps[bench.get("ev_emit_qpn_o")]
            if qp.datagrams:
                slot = self.made % AV_SLOTS
                index, wqe = wqe_at(qp, bench.get("ev_emit_psn_o"))
                want = int.from_bytes(wqe.image(index, qp.stride)[:64], "little")
                assert self.ram.get(slot) == want, f"slot {slot} is not WQE {index} of QP {qp.qpn}"
                self.busy[slot] = want
                self.made += 1
                self.most = max(self.most, len(self.busy))
                assert len(self.busy) < AV_SLOTS

    def packet(self, txp):
        """One is taken from txp."""
        assert txp["av_slot"] == self.seen % AV_SLOTS, f"slot {txp['av_slot']}, expected {self.seen % AV_SLOTS}"
        self.seen += 1
        self.waiting.append((txp["av_slot"], self.bench.qps[txp["qpn"]], txp["psn"]))


def wqe_at(qp, psn):
    """(index, WQE) of a UD QP's PSN."""
    index = qp.start + (psn - qp.sq_psn & PSN_MASK)
    return index, qp.wqes[index]


class Gates:
    """Drives the gates and looks at every packet made: what is charged, and that its lane was open a moment ago (not
    with `loose`: a packet that is decided may wait for its streams). Lane: 16 * port + SL. The ports have different
    personalities."""

    def __init__(self, bench, ib=True, loose=False):
        self.bench, self.ib, self.loose = bench, (ib, not ib), loose
        self.mask, self.toggle = ALL, 0.0
        self.history = [ALL] * (LATENCY + 1)
        self.passed = [0] * LANES    # datagrams
        bench.agents.append(self)

    def lanes(self, port):
        """SLs that packets of a port can be on: Ethernet has eight."""
        return range(16 if self.ib[port] else 8)

    def context(self, lane):
        """Context fields of a QP of this port and SL (Ethernet: priority)."""
        port, sl = divmod(lane, 16)
        return dict(sl=sl, port=port + 1)

    def drive(self):
        """Random ones."""
        rng = self.bench.rng
        if rng.random() < self.toggle:
            self.mask ^= 1 << rng.randrange(LANES)
        self.bench.set("ib_i", self.ib[0] | self.ib[1] << 1)
        self.bench.set("class_i", CLASS | CLASS << struct("eth_class_t").width)
        self.bench.set("sl_open_i", self.mask)
        self.bench.set("rate_open_i", 0x1)   # nothing here has a group
        self.history = [*self.history[1:], self.mask]

    def sample(self):
        """The packet made."""
        bench = self.bench
        if not bench.get("ev_emit_valid_o"):
            return
        qp = bench.qps[bench.get("ev_emit_qpn_o")]
        port = max(qp.context.get("port", 0), 1) - 1
        made = struct("tx_made_t").unpack(bench.get("made_o"))
        assert (made["gathered"], made["group"], made["interval"]) == (1, 0, 0)
        if qp.datagrams:
            sl, size = wqe_at(qp, bench.get("ev_emit_psn_o"))[1].path(self.ib[port])
            assert made["bytes"] == size
            self.passed[16 * port + sl] += 1
        else:
            sl = qp.context.get("sl", 0)
        lane = 16 * port + sl
        assert made["lane"] == lane, f"QP {qp.qpn}: charged to lane {made['lane']}, not {lane}"
        assert self.loose or any(mask >> lane & 1 for mask in self.history), f"QP {qp.qpn} sends, lane {lane} is shut"


class DatagramBench(SqBench):
    """The bench with a header stage, for RC and UD QPs side by side."""

    def __init__(self, dut, seed, **options):
        super().__init__(dut, seed, **options)
        self.stage = HeaderStage(self)

    def answer(self, qp, txp):
        """A peer answers messages; datagrams go to the header stage whoever answers."""
        if not qp.datagrams:
            super().answer(qp, txp)

    def on_txp(self, word):
        """A packet."""
        super().on_txp(word)
        txp = struct("txp_t").unpack(word)
        if txp["datagram"]:
            self.stage.packet(txp)
