"""A guest of 16 GiB, most of it above 4 GiB"""

import perftest
import pytest
import vfio

MEMORY_MIB = 16384


@pytest.fixture(scope="module")
def large(boot, hca):
    sim = vfio.two_cards(hca)
    slots = vfio.Slots(boot, "large", [sim.sockets / "card0.0", sim.sockets / "card1.0"], memory_mib=MEMORY_MIB)
    yield slots
    slots.guest.stop()
    sim.stop()


def test_16_gib(large, row):
    row("ibv_rc_pingpong", f"-c, {MEMORY_MIB // 1024} GiB of memory", "vfio <-> vfio")
    found = large.check("grep MemTotal /proc/meminfo")
    assert int(found.split()[1]) > (MEMORY_MIB - 1024) * 1024, found
    words = perftest.words("ibv_rc_pingpong", "-c", iterations=10, bytes_=1 << 20)
    done = large.pair(words("hca0", 1))
    perftest.judge(done, 1 << 20, 10)
