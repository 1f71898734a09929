"""hca_id_queues against deques: order, bubbles, sorting of what was there when it was asked for."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

QUEUES, IDS = 5, 64


class Model:
    """Queues as deques; one cycle at a time."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.queues = [deque() for _ in range(QUEUES)]
        self.free = list(range(IDS))
        self.popped = None          # queue popped in the cycle before that fetches its next id now
        self.seen = {}              # outputs at the falling edge
        self.bench.agents.append(self)

    def drive(self):
        """Inputs are set by step()."""

    def sample(self):
        for name in ("valid", "pop_id", "sort_valid", "sort_queue"):
            self.seen[name] = self.bench.get(f"{name}_o")

    async def step(self, push=None, pop=None, sort=0):
        """Pushes a free id to `push`, pops `pop`, asks for sorting."""
        bench, popped = self.bench, None
        id_in = self.rng.choice(self.free) if push is not None else 0
        bench.set("push_i", push is not None)
        bench.set("push_queue_i", push or 0)
        bench.set("push_id_i", id_in)
        bench.set("pop_i", pop is not None)
        bench.set("pop_queue_i", pop or 0)
        bench.set("sort_i", sort)
        await bench.step()
        more = pop is not None and len(self.queues[pop]) > 1
        if pop is not None:
            popped = self.queues[pop].popleft()
            assert self.seen["pop_id"] == popped
            self.free.append(popped)
        if push is not None:
            self.free.remove(id_in)
            self.queues[push].append(id_in)
        self.popped = pop if more else None
        return popped

    def named(self):
        """(is a queue named for sorting, which) in the cycle before."""
        return self.seen.get("sort_valid", 0), self.seen.get("sort_queue", 0)

    def offered(self):
        """Queues that must offer an id in the next cycle."""
        return [q for q in range(QUEUES) if self.queues[q] and q != self.popped]


@cocotb.test()
@cocotb.parametrize(push=[0.3, 0.6, 1.0], pop=[0.4, 1.0])
async def random_traffic(dut, push, pop):
    """Every queue gives its ids in order; a queue that was popped and has more offers it two cycles later."""
    model = Model(dut, 1)
    await model.bench.start()
    rng = model.rng
    moved = 0
    for _ in range(4000):
        offered = model.offered()
        take = rng.choice(offered) if offered and rng.random() < pop else None
        give = rng.randrange(QUEUES) if model.free and rng.random() < push else None
        want = sum(1 << q for q in offered)
        await model.step(give, take)
        seen = model.seen["valid"]
        assert seen == want, f"offers {seen:#b}, expected {want:#b}"
        moved += take is not None
    assert moved > 1000


@cocotb.test()
async def sorting(dut):
    """All that was in a queue at that time is named for sorting once; what comes later is not."""
    model = Model(dut, 2)
    await model.bench.start()
    rng = model.rng
    due = {}        # id: named for sorting, not popped yet
    strobes, sorted_ids, pending = 0, 0, 0
    for _ in range(6000):
        named, queue = model.named()
        offered = model.offered()
        take = None
        if rng.random() < 0.7:
            # What is named may be popped in the cycle in which it is named; here one cycle later, if nobody took it.
            if named and queue in offered and rng.random() < 0.8:
                take = queue
            elif offered and rng.random() < 0.3:
                take = rng.choice(offered)
        sort = 1 << rng.randrange(QUEUES) if rng.random() < 0.01 else 0
        if sort:
            strobes += 1
            target = sort.bit_length() - 1
            due.update((one, target) for one in model.queues[target])
            pending = max(pending, len(due))
        give = rng.randrange(QUEUES) if model.free and rng.random() < 0.5 else None
        popped = await model.step(give, take, sort)
        if popped in due:
            del due[popped]
            sorted_ids += 1
    # Left alone, all of it is named and popped, and then the naming ends.
    for _ in range(4 * IDS):
        named, queue = model.named()
        take = queue if named and queue in model.offered() else None
        popped = await model.step(None, take)
        due.pop(popped, None)
    assert not due and not model.named()[0]
    assert strobes > 30 and pending > 10 and sorted_ids > 50, (strobes, pending, sorted_ids)


@cocotb.test()
async def sorted_back(dut):
    """Ids pushed back into the queue they were sorted out of are not sorted again: it ends."""
    model = Model(dut, 3)
    await model.bench.start()
    for _ in range(20):
        await model.step(push=2)
    before = list(model.queues[2])
    await model.step(sort=1 << 2)
    seen = []
    for _ in range(200):
        named, queue = model.named()
        take = 2 if named and model.popped is None else None
        assert not named or queue == 2
        popped = await model.step(pop=take)
        if popped is not None:
            seen.append(popped)
            model.free = [popped]
            await model.step(push=2)
            model.free = [one for one in range(IDS) if one not in model.queues[2]]
    assert seen == before and list(model.queues[2]) == before
    assert not model.named()[0]


def test_id_queues():
    simulate("hca_id_queues", __name__, parameters={"Queues": QUEUES, "Ids": IDS})
