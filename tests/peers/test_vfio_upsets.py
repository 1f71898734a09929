"""What ends in the middle: programs, guests and cards in their slots. Whatever it was, the next program works."""

import time

import perftest
import pytest
import vfio
from guest import LIMIT_S

LONG = 1_000_000
KILLED = 128 + 9
SHORT = 8
"""4.096 us * 2^8: a millisecond of the card until it asks again."""
PORT = 18515


@pytest.fixture(scope="module")
def sim(hca):
    sim = vfio.two_cards(hca)
    yield sim
    sim.stop()


@pytest.fixture(scope="module")
def slots(boot, sim):
    slots = vfio.Slots(boot, "upsets", [sim.sockets / "card0.0", sim.sockets / "card1.0"])
    yield slots
    slots.guest.stop()


@pytest.fixture(autouse=True)
def the_next_one_works(slots, sim):
    """And of those before nothing is left with the simulator: no page of the guest's memory is mapped."""
    yield
    slots.guest.kill_all()
    sim.wait_holds_nothing()
    done = slots.pair(perftest.words("ibv_rc_pingpong", "-c", iterations=10, bytes_=4096)("hca0", 1))
    perftest.judge(done, 4096, 10)


def wait_sent(sim, card, packets):
    """Until the card has sent so many more."""
    first, end = sim.sent(card)[0], time.monotonic() + LIMIT_S
    while sim.sent(card)[0] < first + packets:
        assert time.monotonic() < end, f"card {card} has not sent {packets} packets in {LIMIT_S} s"


def opened(slots, job):
    """The card is open, and nothing more may be yet."""
    slots.guest.wait(lambda: job.pid is not None, LIMIT_S)
    slots.guest.check(f"until ls -l /proc/{job.pid}/fd 2>/dev/null | grep -q vfio; do usleep 1000; done")


def mapped(slots, job):
    """Its registers are mapped, rings and regions are on their way."""
    slots.guest.wait(lambda: job.pid is not None, LIMIT_S)
    slots.guest.check(f"until grep -q vfio-device /proc/{job.pid}/maps; do usleep 1000; done")


def waiting(slots, job):
    """All is made, and it waits for its peer."""
    slots.guest.wait_listens(job, PORT)


@pytest.mark.parametrize("point", [opened, mapped, waiting], ids=lambda point: point.__name__)
def test_killed_alone(slots, row, point):
    row("ib_write_bw", f"killed, {point.__name__}", "vfio")
    job = slots.start([*perftest.words("ib_write_bw", iterations=LONG, bytes_=65536)("hca0", 1), "-p", PORT], 0)
    point(slots, job)
    assert job.kill().code == KILLED, job.text
    row.result("the next program works")


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw", "ib_send_bw"])
@pytest.mark.parametrize("who", ["server", "client"])
def test_killed_in_mid_traffic(slots, sim, row, program, who):
    """The other end gets an error where it waits for the card, or hears by TCP that the first one is gone."""
    row(program, f"{who} killed in mid-traffic", "vfio <-> vfio")
    jobs = slots.start_pair(perftest.words(program, iterations=LONG, bytes_=65536, timeout=SHORT)("hca0", 1))
    wait_sent(sim, 0 if program == "ib_read_bw" else 1, 50)
    killed, other = jobs if who == "server" else reversed(jobs)
    assert killed.kill().code == KILLED, killed.text
    if other.ended(10):
        assert other.code != 0, other.text
    else:
        other.kill()  # a target of WRITEs, of READs or of SENDs that never come has nothing to notice
    row.result("the next program works")


@pytest.mark.quick
def test_guest_reset_in_mid_traffic(slots, sim, row):
    row("ib_write_bw", "guest reset in mid-traffic", "vfio <-> vfio")
    slots.start_pair(perftest.words("ib_write_bw", iterations=LONG, bytes_=65536)("hca0", 1))
    wait_sent(sim, 1, 50)
    slots.reset()
    row.result("the next program works")


@pytest.mark.parametrize("limit_kib", [64, 1024], ids=["rings", "region"])
def test_map_limit(slots, row, limit_kib):
    """Not root, and less memory may be locked than a card's rings need, or than the program's region of 4 MiB."""
    row("ibv_rc_pingpong", f"ulimit -l {limit_kib}, region of 4 MiB, not root", "vfio")
    slots.bind("--user", "nobody")
    words = "ibv_rc_pingpong -d hca0 -g 1 -s 4194304"
    command = f"{vfio.USE} export HCA_VFIO={slots.addresses[0]} IBV_SHOW_WARNINGS=1; exec {words}"
    done = slots.guest.run(f"ulimit -l {limit_kib}; su -s /bin/sh nobody -c '{command}'")
    assert done.code == 1, done
    for word in (f"may lock {limit_kib * 1024} bytes", "ulimit -l unlimited", "limits.conf", "LimitMEMLOCK"):
        assert word in done.text, f"{word!r}: {done}"
    row.result("ends; the error names limit and remedy")


def test_not_root_within_the_limit(slots, row):
    row("ibv_devinfo", "not root, after hca bind --user", "vfio")
    slots.bind("--user", "nobody")
    command = f"{vfio.USE} export HCA_VFIO={slots.addresses[0]}; exec ibv_devinfo"
    done = slots.guest.run(f"ulimit -l unlimited; su -s /bin/sh nobody -c '{command}'")
    assert done.code == 0 and "PORT_ACTIVE" in done.text, done


def test_qemu_killed_in_mid_traffic(hca, boot, row):
    """The guest with its cards is gone at once."""
    row("ib_write_bw", "QEMU killed in mid-traffic", "vfio <-> vfio")
    sim = vfio.two_cards(hca)
    doomed = vfio.Slots(boot, "doomed", [sim.sockets / "card0.0", sim.sockets / "card1.0"])
    doomed.start_pair(perftest.words("ib_write_bw", iterations=LONG, bytes_=65536)("hca0", 1))
    wait_sent(sim, 1, 50)
    assert sim.held()
    doomed.guest.stop()
    sim.wait_holds_nothing()
    sim.stop()
    row.result("the simulator holds no memory of the guest")


def test_lost_write(slots, sim, row):
    """A card that writes to an address that the vIOMMU does not map: its program finds out, the other card works on."""
    row("hca-parity", "a write to a bus address that nobody has mapped", "vfio <-> vfio")
    done = slots.run("hca-parity", "--only", "write_that_is_lost", *slots.addresses, limit_s=300)
    assert done.code == 0 and "1 of 1 passed" in done.text, done
    sim.wait_says(r"card1: function 0: a write to bus address 0x3ffffff000 was refused by the IOMMU")
    row.result("its program finds out; hca sim names card and address; the next program works")


def test_removed_in_mid_traffic(slots, sim, row):
    """As the kernel removes a card that is pulled out: it asks the program to let go."""
    row("ib_write_bw", "card removed in mid-traffic", "vfio <-> vfio")
    server, client = slots.start_pair(perftest.words("ib_write_bw", iterations=LONG, bytes_=65536)("hca0", 1))
    wait_sent(sim, 1, 50)
    removal = slots.guest.start(f"echo 1 >/sys/bus/pci/devices/{slots.addresses[1]}/remove")
    assert client.done(60).code not in (0, KILLED), client.text
    assert removal.done(60).code == 0, removal.text
    server.kill()
    assert slots.run("ibv_devinfo", card=1).code != 0
    slots.guest.check("echo 1 >/sys/bus/pci/rescan")
    slots.bind()
    row.result("client ends with an error; after a rescan the next program works")
