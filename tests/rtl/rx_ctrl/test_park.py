"""hca_rx_ctrl and packets for a QP that has not its line: one that lies where it may wait is left to hca_rx_park,
without an item; one that has no such place, or has waited, is dropped and told of (decision 0082)."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import HwEventKind
from rx_bench import KIND_NONE, KIND_WRITE, LINE_BITS, Env, Qp, ack

EPSN = 0x200
PLACE, SHUT = struct("rx_place_t"), struct("line_shut_t")


class Misses:
    """Strobes of packets that miss."""

    def __init__(self, env):
        self.bench, self.parked, self.missed = env.bench, [], []
        self.bench.agents.append(self)

    def drive(self):
        """Nothing to do."""

    def sample(self):
        """They come with the packet."""
        park, miss = self.bench.get("park_o"), self.bench.get("miss_valid_o")
        assert not (park and miss), "it waits, and is dropped"
        if park or miss:
            assert self.bench.get("rxd_valid_i") and self.bench.get("rxd_ready_o"), "a strobe of no packet"
            (self.parked if park else self.missed).append(self.bench.get("rxd_i"))

    def news(self):
        """(parked, missed) since the last call."""
        news = (self.parked, self.missed)
        self.parked, self.missed = [], []
        return news


async def begin(dut, seed=1, lines_on=1, **fields):
    """A QP that shares its line: (env, its strobes, the QP)."""
    qp = Qp(61, **{"is_shared": 1, **fields})
    qp.fields["qpn"] = 5 << LINE_BITS | qp.qpn
    env = await Env(dut, seed).start(qp)
    env.bench.set("lines_on_i", lines_on)
    return env, Misses(env), qp


def write(env, qp, psn, gen=5, parks=1, again=0, **fields):
    """A packet that asks for an acknowledge: (word, slot)"""
    slot = env.rng.randrange(128)
    return env.packet(qp, Op.RC_WRITE_ONLY, psn, 0, reth_bytes=0, ack_req=1, dest_qpn=gen << LINE_BITS | qp.qpn,
                      place=PLACE.pack(parks=parks, slot=slot), again=again, **fields), slot


def freed(out, parks, slot):
    """It is dropped, and its own place is free again."""
    item = out.item()
    return out.dropped() and item["frees"] and item["place"] == PLACE.pack(parks=parks, slot=slot)


@cocotb.test()
async def waits_or_drops(dut):
    """What misses waits if it has a place and has not waited; else it is dropped, and hca_lines hears of it."""
    env, misses, qp = await begin(dut)
    for gen in (4, 0, 6, 1 << 13) * 3:
        for parks, again in ((1, 0), (0, 0), (1, 1), (1, 0), (1, 0)):
            word, slot = write(env, qp, EPSN, gen, parks, again)
            out = await env.send(word)
            if parks and not again:
                assert misses.news() == ([word], []) and not out.rxw and not out.ev and not out.upd
            else:
                assert misses.news() == ([], [word]) and freed(out, parks, slot)
    # Nothing of it is left with who has the line.
    word, slot = write(env, qp, EPSN)
    out = await env.send(word)
    assert misses.news() == ([], []) and out.answer() == (0x1F, EPSN)
    assert out.item()["kind"] == KIND_WRITE and out.item()["place"] == PLACE.pack(parks=1, slot=slot)
    word, slot = write(env, qp, EPSN + 1, again=1)
    out = await env.send(word)
    assert misses.news() == ([], []) and out.answer() == (0x1F, EPSN + 1)
    assert out.item()["place"] == PLACE.pack(parks=1, slot=slot)


@cocotb.test()
@cocotb.parametrize(why=["off", "alone", "answer"])
async def nobody_to_wait_for(dut, why):
    """Hardware moves no lines (firmware does), the line is nobody else's, or it is an answer: the packet drops."""
    env, misses, qp = await begin(dut, lines_on=why != "off", is_shared=int(why != "alone"))
    for again in (0, 1):
        word, slot = write(env, qp, EPSN, 4, again=again)
        if why == "answer":
            word = ack(env, qp, qp.fields["sq_psn"])
            fields = struct("rxd_t").unpack(word)
            word = struct("rxd_t").pack(**fields | {"dest_qpn": 4 << LINE_BITS | qp.qpn, "again": again,
                                                    "place": PLACE.pack(parks=1, slot=slot)})
        out = await env.send(word)
        told, out.ev = [event["kind"] for event in out.ev], []
        assert misses.news() == ([], []) and freed(out, 1, slot)
        assert told == [HwEventKind.PACKET_MISS] * (why == "off")


@cocotb.test()
async def doors(dut):
    """Whose doors are shut misses as all others do; who drains, only with what takes time to answer."""
    env, misses, qp = await begin(dut, remote_read=1)
    psn = EPSN
    for drain, shut in ((1, 0), (1, 1), (0, 0)):
        env.bench.set("shut_i", SHUT.pack(valid=1, line=qp.qpn, drain=drain, shut=shut))
        await env.bench.step()
        env.bench.set("shut_i", 0)
        word, slot = write(env, qp, psn)
        out = await env.send(word)
        if shut:
            assert misses.news() == ([word], []) and not out.rxw
        else:
            assert misses.news() == ([], []) and out.answer() == (0x1F, psn)
            psn += 1
        if drain:
            read = env.packet(qp, Op.RC_READ_REQUEST, psn, 0, reth_bytes=64, dest_qpn=qp.fields["qpn"],
                              place=PLACE.pack(parks=1, slot=slot), again=0)
            out = await env.send(read)
            assert misses.news() == ([read], []) and not out.rxw


@cocotb.test()
async def many(dut):
    """Packets back to back, some for the QP that is there: each is taken once, waits, misses, or has its item."""
    env, misses, qp = await begin(dut, seed=7)
    words, parked, missed, places, psn = [], [], [], [], EPSN
    for _ in range(300):
        gen, parks, again = env.rng.choice((5, 5, 4, 9)), env.rng.randrange(2), env.rng.randrange(2)
        again = again if parks else 0
        word, slot = write(env, qp, psn, gen, parks, again)
        words.append(word)
        psn += gen == 5
        if gen != 5 and parks and not again:
            parked.append(word)
            continue
        if gen != 5:
            missed.append(word)
        places.append((PLACE.pack(parks=parks, slot=slot), KIND_WRITE if gen == 5 else KIND_NONE))
    out = await env.send(*words)
    assert misses.news() == (parked, missed)
    assert [(item["place"], item["kind"]) for item in out.rxw] == places and all(item["frees"] for item in out.rxw)


def test_park():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_park")
