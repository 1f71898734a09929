"""An end of a program is killed in mid-run: the other one learns of it and ends, nothing is left, and the simulator
serves the next pair. Who waits for events of the connection manager is told DISCONNECTED; who sends is told that nobody
answers; who looks at neither goes on waiting, as with a real card (fio, fi_pingpong): DISCONNECTED is there to be read.
pingpong, perftest: test_robust.py; rsockets: test_rsockets.py; ranks of MPI: test_mpi.py."""

import re
import signal
from pathlib import Path

import pytest
from cards import free_port, listens, listens_by_cm
from test_rdmacm_matrix import rping, run
from test_ucx import ucx

LINKS = ["eth", "ib"]
PORT = "PORT"  # in words: a TCP port of this run


def ucx_long(transport):
    words = [*ucx(transport), "ucx_perftest", "-t", "tag_bw", "-n", 10_000_000, "-s", 2000, "-p", PORT]
    return words, [*words, "localhost"]


def fio(*options):
    return ["fio", "--thread", "--ioengine=rdma", f"--port={PORT}", "--bs=4096", "--size=1G", "--iodepth=4", *options]


FIO = (fio("--name=server", "--rw=read"), fio("--name=client", "--rw=write", "--verb=write", "--hostname=10.0.0.1",
                                              "--iodepth_batch_complete_min=1"))
QPERF = ["qperf", "-lp", PORT]
FABRIC = ["fi_pingpong", "-p", "verbs", "-d", "hca0", "-e", "msg", "-I", 10_000_000]
FABRIC = ([*FABRIC, "-B", PORT], [*FABRIC, "-P", PORT, "localhost"])
QUIET_S = 3  # a retry counter is exceeded by then
# Words of both ends, what the end says that lives, and who may be killed.
BOTH, RECEIVER = ["server", "client"], ["server"]
TOLD = "DISCONNECT EVENT|completion failed status 1[12]"  # a READ that is under way may fail before
FAMILIES = {
    "rping": (rping("-C", 1_000_000)[:2], TOLD, BOTH),
    "rping -P": ((["rping", "-s", "-P", "-v"], rping("-C", 1_000_000)[1]), TOLD, RECEIVER),
    "ucx_perftest over rc_verbs": (ucx_long("rc"), "transport retry counter exceeded", RECEIVER),
    "ucx_perftest over ud_verbs": (ucx_long("ud"), "timeout error", RECEIVER),
    "fio": (FIO, r"cq completion status 12", RECEIVER),
    "fi_pingpong": (FABRIC, "", RECEIVER),
    "qperf": ((QPERF, [*QPERF, "-t", 20, "-to", 400, "localhost", "rc_bw"]), "", ["client"]),
}
# fio says what it was told, and then waits for more completions; fi_pingpong waits for a message. qperf's server is for
# the next client, when its time is over.
NEVER_END = ["fio", "fi_pingpong", "qperf"]
BY_CM = ("rping", "fio")  # and the port is the manager's
CASES = [(link, name, victim) for name, (*_, victims) in FAMILIES.items() for victim in victims for link in LINKS
         if (link, name) != ("eth", "qperf")]  # test_qperf.py: there it has one address for all


def started(sim, name):
    """Both ends."""
    port = free_port()
    server, client = ([str(word).replace(PORT, str(port)) for word in words] for words in FAMILIES[name][0])
    first = sim.start(0, *server, live=True)
    first.wait_until(lambda: listens_by_cm(first.pid) if name.startswith(BY_CM) else listens(port), "it listened")
    return first, sim.start(1, *client, live=True)


def has_unread_events(pid):
    """Is there something to be read from a channel of the connection manager? Its descriptor counts events."""
    for info in Path("/proc", str(pid), "fdinfo").iterdir():
        try:
            text = info.read_text(encoding="ascii")
        except FileNotFoundError:
            continue
        # Those that interrupts come through count differently; older kernels do not say it.
        if re.search(r"^eventfd-count: +[1-9a-f]", text, re.MULTILINE) and "eventfd-semaphore: 0" not in text:
            return True
    return False


@pytest.mark.parametrize(("link", "name", "victim"), CASES)
def test_killed(simulators, row, tmp_path, link, name, victim):
    row(name, f"{victim} ended by SIGKILL in mid-run", link)
    sim = simulators(link=link)
    said = FAMILIES[name][1]
    before = sim.sent(1)[0]
    server, client = started(sim, name)
    client.wait_until(lambda: sim.sent(1)[0] > before + 60, "60 packets were sent")
    killed, other = (server, client) if victim == "server" else (client, server)
    waits_unread = name in ("fio", "fi_pingpong")
    assert not (waits_unread and has_unread_events(other.pid)), "it has read what came before"
    assert killed.kill().code == -signal.SIGKILL
    other.prints(said)
    if name == "fi_pingpong" and other.ended(QUIET_S):
        # Its own message was under way, and nobody has answered.
        assert other.done().code != 0, other.text
    elif name in NEVER_END:
        assert not other.ended(), other.text
        if waits_unread:
            other.wait_until(lambda: has_unread_events(other.pid), "DISCONNECTED was there to be read")
        if name == "qperf":
            again = sim.run(1, *["1" if word == "20" else word for word in client.words])
            assert again.code == 0 and re.search(r"bw +=", again.text), again
        other.kill()
    else:
        done = other.done(200)
        assert done.code != -signal.SIGKILL and re.search(said, done.text), done
    sim.wait_holds_nothing()
    run(sim, "rping -C 3", tmp_path)
