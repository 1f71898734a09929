"""hca_rx_ctrl with selective repeat: READ data that comes behind a gap is placed at once, and READs complete in order.
Directed, and a lossy network against an oracle written from the rules (decision 0071)."""

import cocotb
from common import simulate
from hca_abi import BthOpcode as Op, WcStatus, WrOpcode
from rx_bench import KIND_READ_RESP, PSN_MASK, responses, sending

READ, WRITE, ADD = WrOpcode.RDMA_READ, WrOpcode.RDMA_WRITE, WrOpcode.ATOMIC_FETCH_AND_ADD
MTU, WINDOW, HOLE_MAX = 256, 64, 31


def data(env, qp, psn, size=MTU, op=Op.RC_READ_RESPONSE_MIDDLE):
    """A packet of a READ response."""
    return env.packet(qp, op, psn & PSN_MASK, size, aeth_syndrome=0x1F)


def asked(out):
    """How many packets are asked for again from where; None: nothing is. 0 packets: all."""
    back = [(upd["una_psn"], upd["again"]) for upd in out.upd if upd["rewind"]]
    assert len(back) < 2
    return back[0] if back else None


def places(out):
    """WQE and offset of what is placed."""
    return [(item["wqe_index"], item["msg_offset"]) for item in out.rxw
            if item["kind"] == KIND_READ_RESP and item["frees"]]


@cocotb.test()
async def placed_at_once_and_completed_in_order(dut):
    """REL-1, REL-16, REL-19: over the ends of READs, of which one is unsignaled; copies go nowhere; who waits for a
    READ's data is told once of each."""
    env, qp, first = await sending(dut, (READ, 4 * MTU), (READ, 100, 0), (READ, 3 * MTU), (READ, 2 * MTU), selective=1)
    out = await env.send(data(env, qp, first[0] + 2))
    assert places(out) == [(0, 2 * MTU)] and asked(out) == (first[0], 2) and not out.item()["msg_last"]
    assert (await env.send(data(env, qp, first[0] + 2))).dropped(), "a copy"
    out = await env.send(data(env, qp, first[0] + 3, op=Op.RC_READ_RESPONSE_LAST), data(env, qp, first[2] + 1))
    assert places(out) == [(0, 3 * MTU), (2, MTU)] and not out.upd and not out.cqes()
    assert [item["chk_bytes"] for item in out.rxw] == [0, 2], "so many WQEs before it are not over"
    out = await env.send(data(env, qp, first[1], 100, Op.RC_READ_RESPONSE_ONLY))
    assert places(out) == [(1, 0)] and not out.upd
    out = await env.send(data(env, qp, first[0] + 1, op=Op.RC_READ_RESPONSE_LAST))
    assert places(out) == [(0, MTU)] and asked(out) == (first[0], 1), "of the hole the first one is missing"
    out = await env.send(data(env, qp, first[0], op=Op.RC_READ_RESPONSE_ONLY))
    assert places(out) == [(0, 0)] and out.cqes() == [(0, 0)]
    assert asked(out) == (first[2], 1), "the next hole"
    (upd,) = out.upd
    assert (upd["una_wqe"], upd["una_first_psn"], upd["rd_done"]) == (2, first[2], 2)
    assert [item["msg_last"] for item in out.rxw if item["kind"] == KIND_READ_RESP] == [1, 1]
    out = await env.send(data(env, qp, first[2], op=Op.RC_READ_RESPONSE_ONLY))
    assert not out.cqes() and out.upd[0]["una_psn"] == first[2] + 2 and asked(out) is None
    out = await env.send(data(env, qp, first[2] + 2, op=Op.RC_READ_RESPONSE_LAST),
                         *responses(env, qp, first[3], 2 * MTU))
    assert out.cqes() == [(2, 0), (3, 0)] and asked(out) is None and not out.ev


@cocotb.test()
async def what_is_asked_for(dut):
    """REL-3, REL-16: the hole as far as the oldest READ goes; again with every sixteenth packet, which costs no retry;
    one more gap behind the first is asked for when that is filled. Without agreement all comes again."""
    env, qp, first = await sending(dut, (READ, 10 * MTU), (READ, 80 * MTU), selective=1, retry_cnt=1)
    start = first[0]
    assert asked(await env.send(data(env, qp, start + 12))) == (start, 10)
    for ahead in range(13, 70):
        out = await env.send(data(env, qp, start + ahead))
        assert asked(out) == ((start, 10) if ahead % 16 == 0 and ahead <= WINDOW else None), ahead
        assert bool(places(out)) == (ahead <= WINDOW)
    hole = [data(env, qp, start + psn) for psn in range(9)]
    out = await env.send(*hole, data(env, qp, start + 9, op=Op.RC_READ_RESPONSE_LAST))
    got = [upd["una_psn"] - start for upd in out.upd]
    assert got == list(range(1, 11)), str(got)
    assert asked(out) == (start + 10, 2) and out.cqes() == [(0, 0)]
    out = await env.send(data(env, qp, start + 10), data(env, qp, start + 11))
    assert out.upd[-1]["una_psn"] == start + WINDOW + 1 and asked(out) is None
    assert asked(await env.send(data(env, qp, start + 89, op=Op.RC_READ_RESPONSE_LAST))) == (start + 65, 24)
    env, qp, first = await sending(dut, (READ, 10 * MTU))
    out = await env.send(data(env, qp, first[0] + 3))
    assert asked(out) == (first[0], 0) and not places(out)


@cocotb.test()
async def what_is_no_read_data_waits(dut):
    """An atomic or a WRITE between: what is behind them is not placed, and all comes again. Data of a wrong length
    behind a gap goes nowhere."""
    for between, size in ((ADD, 8), (WRITE, 8)):
        env, qp, first = await sending(dut, (READ, 2 * MTU), (between, size), (READ, 2 * MTU), selective=1)
        out = await env.send(data(env, qp, first[2]))
        assert not places(out) and asked(out) == (first[0], 0)
        out = await env.send(data(env, qp, first[0] + 1, op=Op.RC_READ_RESPONSE_LAST))
        assert places(out) == [(0, MTU)]
        out = await env.send(data(env, qp, first[0]))
        assert out.cqes() == [(0, 0)]
    env, qp, first = await sending(dut, (READ, 3 * MTU), selective=1)
    for wrong in (data(env, qp, first[0] + 1, 100), data(env, qp, first[0] + 2, 100)):
        out = await env.send(wrong)
        assert not places(out) and not out.ev
    out = await env.send(*responses(env, qp, first[0], 3 * MTU))
    assert out.cqes() == [(0, 0)]


@cocotb.test()
async def nothing_is_sent_behind_what_is_passed(dut):
    """The last of eight READs, whose rows are one block, has come before the others: where the next one's row is shows
    only when there is a next one."""
    env, qp, first = await sending(dut, *[(READ, MTU)] * 8, selective=1)
    end, only = first[0] + 8, Op.RC_READ_RESPONSE_ONLY
    assert places(await env.send(data(env, qp, end - 1, op=only))) == [(7, 0)]
    out = await env.send(*[data(env, qp, psn, op=only) for psn in range(first[0], end - 1)])
    assert out.cqes() == [(index, 0) for index in range(8)]
    await env.doorbell(qp, sq=10)
    for index, opcode in ((8, WRITE), (9, ADD)):
        await env.emit(qp, index, opcode, end + index - 8, 8)
    out = await env.send(env.packet(qp, Op.RC_ATOMIC_ACKNOWLEDGE, end + 1, 0, aeth_syndrome=0x1F))
    assert out.cqes() == [(8, 0), (9, 0)] and not out.ev


@cocotb.test()
async def no_retry_is_left(dut):
    """REL-3: a gap costs a retry; without one the oldest READ fails, and nothing is placed then."""
    env, qp, first = await sending(dut, (READ, 3 * MTU), selective=1, retry_cnt=0)
    out = await env.send(data(env, qp, first[0] + 1))
    assert out.cqes() == [(0, WcStatus.RETRY_EXC_ERR)] and not places(out)


class Peer:
    """A responder that is asked for packets, and a network that loses, doubles and reorders what it sends."""

    def __init__(self, rng, end, mix):
        self.rng, self.end, self.mix = rng, end, mix
        self.at, self.wire, self.aside = 0, [], []

    def send(self, una):
        """The next packet, if there is one; no more of the main stream than the window of a requester."""
        if self.aside:
            psn = self.aside.pop(0)
        elif self.at < min(self.end, una + 100):
            psn, self.at = self.at, self.at + 1
        else:
            return False
        loss, copy, late = self.mix
        if self.rng.random() >= loss:
            place = len(self.wire) - (self.rng.randint(1, 3) if self.rng.random() < late else 0)
            self.wire.insert(max(0, place), psn)
            if self.rng.random() < copy:
                self.wire.append(psn)
        return True

    def ask(self, psn, count):
        """From the requester."""
        if count:
            self.aside = list(range(psn, psn + count))
        else:
            self.at, self.aside = psn, []


@cocotb.test()
@cocotb.parametrize(seed=[1, 2, 3, 4])
async def a_lossy_network(dut, seed):
    """Every packet of every READ is placed once; READs complete once and in order, each when all of it is there; what
    is asked for is missing. Loss, copies and disorder by seed, PSNs over their end."""
    rng_sizes = [(1, 40, 300, 2000, 16 * MTU)[(seed * 7 + at * at) % 5] for at in range(60)]
    wqes = [(READ, size, int((seed + at) % 3 != 0)) for at, size in enumerate(rng_sizes)]
    env, qp, _ = await sending(dut, *wqes, selective=1, retry_cnt=7, sq_psn=PSN_MASK - 150, sq_log_size=8)
    base, packets = qp.fields["sq_psn"], []
    for index, (_, size, _) in enumerate(wqes):
        packets += [(index, offset, min(MTU, size - offset)) for offset in range(0, size, MTU)]
    last = {index: at for at, (index, *_) in enumerate(packets)}
    net = Peer(env.rng, len(packets), ((0.05, 0, 0), (0.1, 0.02, 0.02), (0.02, 0.1, 0.1), (0.3, 0.1, 0.2))[seed - 1])
    una, here, done, completed = 0, set(), [], []
    while una < len(packets):
        sent = net.send(una)
        if (len(net.wire) < 8 and sent) or not net.wire:
            if not sent:     # nothing is under way: the time-out
                net.ask(una, 0)
            continue
        at = net.wire.pop(0)
        index, offset, size = packets[at]
        op = Op.RC_READ_RESPONSE_LAST if last[index] == at else Op.RC_READ_RESPONSE_MIDDLE
        out = await env.send(data(env, qp, base + at, size, op))
        completed += out.cqes()
        fits = at not in here and 0 <= at - una <= WINDOW
        assert places(out) == ([(index, offset)] if fits else []), (at - una, sorted(here)[:4])
        if fits:
            here.add(at)
        while una in here:
            here.remove(una)
            una += 1
        if out.upd:
            assert out.upd[-1]["una_psn"] == (base + una) & PSN_MASK
        assert [item["cqe"]["valid"] for item in out.rxw if item["msg_last"]] \
            == [wqes[at][2] for at in range(len(done), len(done) + sum(item["msg_last"] for item in out.rxw))]
        done += [None] * sum(item["msg_last"] for item in out.rxw)
        assert len(done) == sum(end < una for end in last.values())
        back = asked(out)
        if back:
            assert back[0] == (base + una) & PSN_MASK
            hole = range(una, una + back[1])
            assert not here.intersection(hole) and (not back[1] or hole[-1] <= last[packets[una][0]])
            net.ask(una, back[1])
    out = await env.settle()
    assert not out.ev and not out.rxw
    assert completed == [(at, 0) for at, wqe in enumerate(wqes) if wqe[2]]


def test_read_ahead():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_read_ahead")
