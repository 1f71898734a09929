"""A program of each family, of which an end is killed in mid-run: the other one learns of it and ends, nothing is left,
and the simulator serves the next pair. pingpong and perftest: test_robust.py."""

import signal

import pytest
from cards import free_port, listens, listens_by_cm
from test_fio import words as fio_words
from test_rdmacm_matrix import SERVER, rping, run, stream
from test_ucx import ucx

LINKS = ["eth", "ib"]
PORT = "PORT"  # in words: a TCP port of this run


def ucx_long(transport, kind):
    # The keepalive of datagrams is 20 s; connections notice by their retries.
    words = [*ucx(transport), "ucx_perftest", "-t", kind, "-n", 10_000_000, "-s", 2000, "-p", PORT]
    return words, [*words, "localhost"]


def fabric(kind):
    domain = "hca0-dgram" if kind == "dgram" else "hca0"
    words = ["fi_pingpong", "-p", "verbs", "-d", domain, "-e", kind, "-I", 10_000_000, "-S", 4000]
    return [*words, "-B", PORT], [*words, "-P", PORT, "localhost"]


def fio():
    server = fio_words(PORT, 4096, "--name=server", "--rw=read", "--iodepth=16")
    client = fio_words(PORT, 4096, "--name=client", "--rw=write", "--verb=write", f"--hostname={SERVER}", "--iodepth=4",
                       "--time_based", "--runtime=600")
    return server, client


# Words of both ends.
FAMILIES = {
    "rping": rping("-C", 1_000_000)[:2],
    "riostream": stream("riostream", words=("-S", 500, "-I", 1_000_000, "-C", 1))[:2],
    "ib_send_lat -R": (["ib_send_lat", "-R", "-n", 1_000_000, "-p", PORT],
                       ["ib_send_lat", "-R", "-n", 1_000_000, "-p", PORT, SERVER]),
    "ucx_perftest over rc_verbs": ucx_long("rc", "tag_lat"),
    "ucx_perftest over ud_verbs": ucx_long("ud", "tag_lat"),
    "fi_pingpong -e msg": fabric("msg"),
    "fi_pingpong -e rdm": fabric("rdm"),
    "fio": fio(),
}


def started(sim, name):
    """Both ends."""
    port = free_port()
    server, client = ([str(word).replace(PORT, str(port)) for word in words] for words in FAMILIES[name])
    first = sim.start(0, *server, live=True)
    by_tcp = name.startswith(("ucx", "fi_"))
    first.wait_until(lambda: listens(port) if by_tcp else listens_by_cm(first.pid), "it listened")
    return first, sim.start(1, *client, live=True)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("victim", ["server", "client"])
@pytest.mark.parametrize("name", FAMILIES)
def test_killed(simulators, row, tmp_path, link, victim, name):
    row(name, f"{victim} ended by SIGKILL in mid-run", link)
    sim = simulators(link=link)
    before = sim.sent(1)[0]
    server, client = started(sim, name)
    client.wait_until(lambda: sim.sent(1)[0] > before + 60, "60 packets were sent")
    killed, other = (server, client) if victim == "server" else (client, server)
    assert killed.kill().code == -signal.SIGKILL
    assert other.ended(100), f"it does not end: {other.kill()}"
    sim.wait_holds_nothing()
    run(sim, "rping -C 3", tmp_path)
