"""Two guests with a card each, and a simulated cable between the cards."""

import perftest
import pytest
import vfio


@pytest.fixture(scope="module")
def guests(boot, hca):
    sim = vfio.two_cards(hca)
    slots = [vfio.Slots(boot, f"guest{number}", [sim.sockets / f"card{number}.0"]) for number in (0, 1)]
    yield slots
    for one in slots:
        one.guest.stop()
    sim.stop()


@pytest.mark.parametrize("program, options, bytes_, iterations", [
    ("ibv_rc_pingpong", ["-c"], 4096, 20),
    ("ibv_rc_pingpong", ["-c", "-e"], 4096, 20),
    ("ibv_rc_pingpong", ["-c"], 1 << 20, 2),
    ("ib_write_bw", [], 65536, 10),
    ("ib_read_bw", [], 65536, 10),
    ("ib_send_lat", [], 64, 10),
], ids=["pingpong", "pingpong-events", "pingpong-1MiB", "write", "read", "send"])
@pytest.mark.parametrize("server", [0, 1], ids=["server-first", "server-second"])
def test_between_two_guests(guests, row, program, options, bytes_, iterations, server):
    row(program, " ".join([*options, f"-s {bytes_}"]), f"vfio, guest {server} <- guest {1 - server}")
    words = perftest.words(program, *options, iterations=iterations, bytes_=bytes_)("hca0", 1)
    done = vfio.ends(lambda: vfio.start_between(guests[server], guests[1 - server], words))
    perftest.judge(done, bytes_, iterations)
