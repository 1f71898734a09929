"""Debian's programs that know rsockets, and programs that know sockets alone, over the cards (RS-*)."""

import hashlib
import os
import pathlib
import re
import signal
import subprocess
from select import POLLERR, POLLHUP

import pytest
from cards import listens_by_cm
from pairs import end, packets, run_pair

SERVER = "10.0.0.1"
LINKS = ["eth", "ib"]
LOSS = ("--faults", "loss=0.001")
BOTH_LINKS = [pytest.param(link, marks=pytest.mark.quick) for link in LINKS]


def rstream(*options, server=SERVER):
    return ["rstream", "-b", server, *options], ["rstream", "-s", server, *options]


def riostream(*options):
    return ["riostream", "-b", SERVER, *options], ["riostream", "-s", SERVER, *options]


def judge(done):
    """Both ends have sent and received all."""
    assert done.returncode == 0, done
    for name in ("server", "client"):
        assert re.search(r"^custom +[\d.]+[km]? ", end(done, name), re.MULTILINE), done


@pytest.mark.parametrize("link", BOTH_LINKS)
def test_stream(hca, row, tmp_path, link):
    """RS-1: bytes as they were sent, by RDMA WRITE, and not by the machine's own network."""
    row("rstream", "-S 4000 -T v", link)
    capture = tmp_path / "link.pcap"
    words = rstream("-S", 4000, "-I", 5, "-C", 10, "-T", "v")
    judge(run_pair(hca, *words, "--link", link, capture=capture))
    assert packets(hca, capture)["RDMA WRITE"] >= 100


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("mode", ["a", "b", "n", "a-v", "n-v", "b-v", "r", "r-n-v"])
def test_modes(hca, row, link, mode):
    """RS-2: blocking, not blocking, by rpoll, addresses by rdma_getaddrinfo; every byte looked at."""
    options = [word for letter in mode.split("-") for word in ("-T", letter)]
    row("rstream", " ".join(options), link)
    judge(run_pair(hca, *rstream("-S", 1000, "-I", 3, "-C", 10, *options), "--link", link))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("size", [1, 63, 64, 65, 2047, 2048, 16385, 65536, 131073, 1000000])
def test_sizes(hca, row, link, size):
    row("rstream", f"-S {size} -T v", link)
    judge(run_pair(hca, *rstream("-S", size, "-I", 2, "-C", 3, "-T", "v"), "--link", link))


@pytest.mark.parametrize("options", [["-B", 4096], ["-B", 1000000], ["-i", 0], ["-i", 400], ["-k", 5]],
                         ids=lambda words: "".join(map(str, words)))
def test_options(hca, row, options):
    """RS-2, RS-3: buffers, inline data, keepalive."""
    row("rstream", " ".join(map(str, options)))
    judge(run_pair(hca, *rstream("-S", 20000, "-I", 2, "-C", 3, "-T", "v", *options)))


def test_all_of_rstream(hca, row):
    """Everything that it does by itself: sizes from 64 bytes to a megabyte, latency and bandwidth. Counts are its own,
    made for cards: a hundred thousand of the smallest."""
    row("rstream", "without options")
    done = run_pair(hca, *rstream())
    assert done.returncode == 0, done
    names = [f"{size}_{kind}" for kind in ("lat", "bw") for size in ("64", "4k", "64k", "1m")]
    for name in ("server", "client"):
        assert re.findall(r"^(\w+_(?:lat|bw)) ", end(done, name), re.MULTILINE) == names, done


@pytest.mark.parametrize("address", ["fd00::1", "fe80::aff:fe00:1"])
def test_ipv6(hca, row, address):
    row("rstream", f"-s {address}")
    options = ["-f", "ipv6", "-S", 1000, "-I", 3, "-C", 10, "-T", "v"]
    judge(run_pair(hca, *rstream(*options, server=address)))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("size", [100, pytest.param(3000, marks=pytest.mark.quick), 100000])
def test_direct_writes(hca, row, link, size):
    """RS-4, RS-5."""
    row("riostream", f"-S {size} -T v", link)
    judge(run_pair(hca, *riostream("-S", size, "-I", 3, "-C", 5, "-T", "v"), "--link", link))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("size", [1000, 20000])
def test_with_loss(hca, row, link, size):
    row("rstream", f"-S {size} -T v, loss 0.1 %", link)
    judge(run_pair(hca, *rstream("-S", size, "-I", 5, "-C", 30, "-T", "v"), "--link", link, *LOSS))


def started(sim, card, *words, live=False):
    """A server that listens."""
    server = sim.start(card, *words, live=live)
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    return server


def test_ten_times_in_a_row(simulators, row):
    row("rstream", "ten times in a row")
    sim = simulators()
    server, client = rstream("-S", 1000, "-I", 2, "-C", 3, "-T", "v")
    for _ in range(10):
        first = started(sim, 0, *server)
        second = sim.run(1, *client)
        assert (second.code, first.done().code) == (0, 0), second


@pytest.mark.parametrize("link", LINKS)
def test_copy(simulators, row, tmp_path, link):
    """rcopy's server never ends by itself; it maps the file, and gets it by riowrite."""
    row("rcopy", "3 MB", link)
    sim = simulators(link=link)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(3_000_001))
    server = started(sim, 0, "rcopy")
    client = sim.run(1, "rcopy", source, f"{SERVER}:{target}")
    server.kill()
    assert client.code == 0 and "done" in client.text, client
    assert digest(target) == digest(source)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("letter", [pytest.param(None, marks=pytest.mark.quick), "e", "a", "b", "n"])
def test_datagrams(simulators, row, link, letter):
    """RS-2: SOCK_DGRAM over UD. The server never ends by itself."""
    mode = ["-T", letter] if letter else []
    row("udpong", " ".join(["-C 50 -S 500", *mode]), link)
    sim = simulators(link=link)
    server = started(sim, 0, "udpong", "-b", SERVER, "-C", 50, "-S", 500, *mode)
    client = sim.run(1, "udpong", "-s", SERVER, "-C", 50, "-S", 500, *mode)
    server.kill()
    assert client.code == 0, client
    assert re.search(r"^custom +500 +(50|100) ", client.text, re.MULTILINE), client


def test_a_port_is_taken_once(simulators, row):
    """EADDRINUSE, also from another process; another address is none of the card's."""
    row("rstream", "two listeners on one port")
    sim = simulators()
    first = started(sim, 0, "rstream", "-b", SERVER)
    try:
        second = sim.run(0, "rstream", "-b", SERVER)
        assert second.code != 0 and "rbind: Address already in use" in second.text, second
        other = sim.run(0, "rstream", "-b", "10.0.0.77")
        assert other.code != 0 and "rbind: Cannot assign requested address" in other.text, other
    finally:
        first.kill()


def test_nobody_listens(simulators, row):
    row("rstream", "no listener: refused")
    sim = simulators()
    other = started(sim, 0, "rstream", "-b", SERVER, "-p", 9999)
    try:
        client = sim.run(1, "rstream", "-s", SERVER)
        # By rpoll: it asks for no reason. Who asks is told (rs_wrong_use.c).
        assert client.code == POLLERR | POLLHUP and "rpoll: " in client.text, client
    finally:
        other.kill()


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("victim", ["server", "client"])
def test_killed(simulators, row, link, victim):
    """SIGKILL in mid-run, on either side. Who sends hears of it, and so does who only waits for data; nothing is left,
    and the next pair connects."""
    row("rstream", f"{victim} ended by SIGKILL in mid-run", link)
    sim = simulators(link=link)
    # Latency: both send in turns, so the other one waits, or sends to nobody.
    server = started(sim, 0, "rstream", "-b", SERVER, "-S", 64, "-I", 1000000, "-C", 1)
    before = sim.sent(1)[0]
    client = sim.start(1, "rstream", "-s", SERVER, "-S", 64, "-I", 1000000, "-C", 1)
    client.wait_until(lambda: sim.sent(1)[0] > before + 200, "it was in mid-run")
    killed, other = (server, client) if victim == "server" else (client, server)
    killed.kill()
    assert other.done().code != -signal.SIGKILL
    sim.wait_holds_nothing()
    words = rstream("-S", 1000, "-I", 2, "-C", 3, "-T", "v")
    server = started(sim, 0, *words[0])
    assert sim.run(1, *words[1]).code == 0
    assert server.done().code == 0


def test_who_sends_hears_of_a_peer_that_was_killed(simulators, row):
    row("rstream", "the sender after SIGKILL of the receiver")
    sim = simulators()
    server = started(sim, 0, "rstream", "-b", SERVER, "-S", 1000, "-I", 1, "-C", 1000000)
    before = sim.sent(1)[0]
    client = sim.start(1, "rstream", "-s", SERVER, "-S", 1000, "-I", 1, "-C", 1000000)
    client.wait_until(lambda: sim.sent(1)[0] > before + 200, "it was in mid-run")
    server.kill()
    done = client.done()
    assert done.code not in (0, -signal.SIGKILL) and "Connection reset by peer" in done.text, done


@pytest.mark.quick
@pytest.mark.parametrize("link", LINKS)
def test_calls(simulators, row, tmp_path, link):
    """RS-1 to RS-6: what every call does; wrongly used they are in test_wrong_use.py."""
    row("rs_calls", "", link)
    program = tmp_path / "rs_calls"
    source = pathlib.Path(__file__).with_name("rs_calls.c")
    subprocess.run(["cc", "-Wall", "-Werror", "-pthread", "-o", program, source, "-lrdmacm", "-libverbs"], check=True)
    done = simulators(link=link).run(0, program)
    assert done.code == 0 and " 0 wrong answers" in done.text, done
