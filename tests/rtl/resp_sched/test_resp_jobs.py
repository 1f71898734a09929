"""hca_resp_jobs beside lists of an oracle: nobody's job is lost or another's, and no place."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

OWNERS, PLACES = 8, 24
RING = 16
STROBES = ("put_i", "set_i", "link_i", "get_i", "free_i")


class Jobs:
    """The pool, and the jobs of each owner as (place, job)."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.lists = {owner: [] for owner in range(OWNERS)}
        self.new = self.more = self.next = self.job = None
        self.bench.agents.append(self)

    def drive(self):
        """Nothing of its own."""

    def sample(self):
        """What is there in this cycle."""
        self.new, self.more, self.next, self.job = (
            self.bench.get(name) for name in ("new_o", "more_o", "next_o", "job_o"))

    async def cycle(self, **fields):
        """One cycle with these inputs."""
        for name, value in fields.items():
            self.bench.set(name, value)
        await self.bench.step()
        for name in STROBES:
            self.bench.set(name, 0)

    async def put(self, owner):
        """One more job, at the end, in front or in between. False: there is no room."""
        jobs = self.lists[owner]
        if jobs and (len(jobs) == RING or not self.more):
            return False
        await self.cycle()
        place, job, at = self.new, self.rng.getrandbits(32), self.rng.randint(0, len(jobs))
        assert all(place != other for others in self.lists.values() for other, _ in others), f"place {place} is taken"
        first, behind = (jobs[at - 1][0], place) if at else (place, jobs[0][0] if jobs else 0)
        await self.cycle(put_i=1, put_job_i=job, link_i=bool(jobs), from_i=first, to_i=behind)
        assert self.new == place
        between = 0 < at < len(jobs)
        await self.cycle(**({"link_i": 1, "from_i": place, "to_i": jobs[at][0]} if between else {}))
        jobs.insert(at, (place, job))
        return True

    async def replace(self, owner):
        """Another job in the first one's place."""
        jobs = self.lists[owner]
        job = self.rng.getrandbits(32)
        await self.cycle(set_i=1, head_i=jobs[0][0], put_job_i=job)
        jobs[0] = (jobs[0][0], job)

    async def free(self, jobs, count):
        """The first ones go."""
        await self.cycle(free_i=1, free_head_i=jobs[0][0], free_tail_i=jobs[count - 1][0], free_count_i=count)
        del jobs[:count]

    async def serve(self, owner):
        """The first job, and it goes."""
        jobs = self.lists[owner]
        await self.cycle(get_i=1, head_i=jobs[0][0])
        fields = {"free_i": 1, "free_head_i": jobs[0][0], "free_tail_i": jobs[0][0], "free_count_i": 1}
        ends = self.rng.random() < 0.7
        await self.cycle(**(fields if ends else {}))
        assert self.job == jobs[0][1]
        if len(jobs) > 1:
            assert self.next == jobs[1][0]
        if ends:
            del jobs[0]


@cocotb.test()
@cocotb.parametrize(seed=[1, 2, 3])
async def random_jobs(dut, seed):
    """Design 9.4, 9.10: jobs come at any place, are served, dropped, replaced; who has none always finds room."""
    pool = Jobs(dut, seed)
    for name in STROBES:
        pool.bench.set(name, 0)
    await pool.bench.start()
    await pool.cycle()
    full = 0
    for _ in range(6000):
        owner, kind = pool.rng.randrange(OWNERS), pool.rng.random()
        jobs = pool.lists[owner]
        if kind < 0.6 or not jobs:
            was_empty = not jobs
            done = await pool.put(owner)
            assert done or not was_empty
            full += not done
        elif kind < 0.85:
            await pool.serve(owner)
        elif kind < 0.93:
            await pool.replace(owner)
        else:
            await pool.free(jobs, len(jobs))
        await pool.bench.step(pool.rng.choice([0, 0, 1, 3]))
        assert sum(map(len, pool.lists.values())) <= PLACES
    assert full > 100
    for jobs in pool.lists.values():
        if jobs:
            await pool.free(jobs, len(jobs))
    await pool.bench.step(4)
    # All are there again.
    for owner in range(OWNERS):
        assert await pool.put(owner)
    taken = OWNERS
    while await pool.put(0):
        taken += 1
    assert PLACES - OWNERS - 3 <= taken <= PLACES


def test_resp_jobs():
    """Runs the tests of this file."""
    simulate("hca_resp_jobs", __name__, parameters={"Owners": OWNERS, "Places": PLACES})
