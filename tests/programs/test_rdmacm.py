"""Debian's programs that connect by the connection manager: librdmacm.so.1 (CM-*)."""

import pathlib
import re
import signal
import subprocess

import pytest
from cards import listens_by_cm
from pairs import end, packets, run_pair

SERVER = "10.0.0.1"
LINKS = ["eth", "ib"]
LOSS = ("--faults", "loss=0.001")


def built(folder, name):
    """A program beside this file."""
    program, source = folder / name, pathlib.Path(__file__).with_name(f"{name}.c")
    words = ["cc", "-Wall", "-Werror", "-pthread", "-o", program, source, "-lrdmacm", "-libumad", "-libverbs"]
    subprocess.run(words, check=True)
    return program


def rping(count, *words):
    """CM-5, CM-6, CM-42: REQ to DREP, and between them SEND, WRITE and READ."""
    common = ["-a", SERVER, "-C", count, "-v", *words]
    return ["rping", "-s", *common], ["rping", "-c", *common]


def check_rping(done, count):
    for name, said in (("server", "server ping data"), ("client", "ping data")):
        found = re.findall(rf"^{said}: rdma-ping-(\d+)", end(done, name), re.MULTILINE)
        assert found == [str(n) for n in range(count)], done
    # The client may have ended before it says so, too.
    assert "server: server DISCONNECT EVENT" in done.stderr, done


# Program: both ends, and what each must have said.
PROGRAMS = {
    "rdma_server, rdma_client": (["rdma_server"], ["rdma_client", "-s", SERVER], ["end 0", "end 0"]),
    "ucmatose": (["ucmatose"], ["ucmatose", "-s", SERVER], ["return status 0"] * 2),
    "ucmatose -C 20 -S 100": (["ucmatose", "-c", 5, "-C", 20, "-S", 100],
                              ["ucmatose", "-s", SERVER, "-c", 5, "-C", 20, "-S", 100], ["return status 0"] * 2),
    "udaddy": (["udaddy"], ["udaddy", "-s", SERVER], ["return status 0"] * 2),
    "mckey": (["mckey", "-m", "239.1.2.3", "-b", SERVER], ["mckey", "-m", "239.1.2.3", "-b", "10.0.0.2", "-s"],
              ["return status 0"] * 2),
}
# The receiver must be a member before the sender sends: they do not talk before.
ALONE = {"mckey"}


@pytest.mark.parametrize("link", [pytest.param(link, marks=pytest.mark.quick) for link in LINKS])
def test_rping(hca, row, tmp_path, link):
    row("rping", "-C 10", link)
    capture = tmp_path / "link.pcap"
    done = run_pair(hca, *rping(10), "--link", link, capture=capture)
    assert done.returncode == 0, done
    check_rping(done, 10)
    found = packets(hca, capture)
    assert found["RDMA WRITE"] >= 10 and found["RDMA READ RESPONSE"] >= 10, found


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("words", [["-V", "-S", 4000], ["-V", "-S", 65000], ["-V", "-S", 100, "-q"]],
                         ids=lambda words: "".join(map(str, words)))
def test_rping_sizes(hca, row, link, words):
    row("rping", "-C 5 " + " ".join(map(str, words)), link)
    done = run_pair(hca, *rping(5, *words), "--link", link)
    assert done.returncode == 0, done
    assert "server DISCONNECT EVENT" in done.stderr, done


@pytest.mark.parametrize("address", [pytest.param("fd00::1", marks=pytest.mark.quick), "fe80::aff:fe00:1"])
def test_rping_ipv6(hca, row, address):
    row("rping", f"-a {address}", "eth")
    done = run_pair(hca, ["rping", "-s", "-a", address, "-C", 3, "-v"], ["rping", "-c", "-a", address, "-C", 3, "-v"])
    assert done.returncode == 0, done
    check_rping(done, 3)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.quick] * (name in ("ucmatose", "udaddy")))
                                  for name in PROGRAMS if name not in ALONE])
def test_programs(hca, row, link, name):
    row(name, "", link)
    server, client, said = PROGRAMS[name]
    done = run_pair(hca, server, client, "--link", link)
    assert done.returncode == 0, done
    assert all(word in end(done, who) for who, word in zip(("server", "client"), said, strict=True)), done


@pytest.mark.parametrize("link", LINKS)
def test_connections_per_second(simulators, row, link):
    """cmtime's server never ends by itself."""
    row("cmtime", "-c 20", link)
    sim = simulators(link=link)
    server = sim.start(0, "cmtime", "-c", 20)
    client = sim.run(1, "cmtime", "-s", SERVER, "-c", 20)
    server.kill()
    assert client.code == 0 and "error" not in client.text, client
    assert re.search(r"^connect +: +[\d.]+", client.text, re.MULTILINE), client


@pytest.mark.parametrize("link", LINKS)
def test_multicast(simulators, row, link):
    """CM-52, MC-3: who is a member gets what is sent to the group."""
    row("mckey", "-m 239.1.2.3", link)
    server, client, _ = PROGRAMS["mckey"]
    sim = simulators(link=link)
    receiver = sim.start(0, *server, live=True)
    receiver.prints("joined dgid")
    sender = sim.run(1, *client)
    assert sender.code == 0 and "return status 0" in sender.text, sender
    done = receiver.done()
    assert done.code == 0 and "data transfers complete" in done.text, done


# -R: QPs of the connection manager; -z: it tells the ends of QPs that are connected without it. UC and XRC, which
# perftest refuses to connect so: test_absent.py.
PERFTEST = [("-R", words) for words in (
    ["ib_write_bw", "-n", 64], ["ib_read_bw", "-n", 64], ["ib_send_bw", "-n", 64], ["ib_atomic_bw", "-n", 64],
    ["ib_send_lat", "-n", 20], ["ib_write_lat", "-n", 20], ["ib_read_lat", "-n", 20], ["ib_atomic_lat", "-n", 20],
    ["ib_send_bw", "-n", 64, "-q", 4], ["ib_write_bw", "-n", 64, "-b"], ["ib_send_bw", "-n", 64, "-e"],
    ["ib_send_bw", "-n", 64, "-c", "UD", "-s", 1024], ["ib_send_lat", "-n", 20, "-c", "UD", "-s", 64])]
PERFTEST += [("-z", words) for words in (["ib_write_bw", "-n", 64], ["ib_send_lat", "-n", 20])]


def measured(done):
    assert done.returncode == 0, done
    assert re.search(r"^ +\d+ +(64|20|256) +[\d.]+", end(done, "client"), re.MULTILINE), done


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("way", "words"), PERFTEST, ids=lambda value: "".join(map(str, value)))
def test_perftest(hca, row, link, way, words):
    row(words[0], f"{way} " + " ".join(map(str, words[1:])), link)
    words = [*words, way]
    measured(run_pair(hca, words, [*words, SERVER], "--link", link))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"])
def test_perftest_with_loss(hca, row, link, program):
    row(program, "-R -n 256, loss 0.1 %", link)
    words = [program, "-n", 256, "-R"]
    measured(run_pair(hca, words, [*words, SERVER], "--link", link, *LOSS))


def test_ten_times_in_a_row(simulators, row):
    """Ports are free again, and numbers of one run do not meet those of the next."""
    row("rping", "-C 3, ten times in a row")
    sim = simulators()
    server, client = rping(3)
    for _ in range(10):
        ends = [sim.start(card, *words) for card, words in enumerate((server, client))]
        done = [end.done() for end in ends]
        assert [one.code for one in done] == [0, 0], "\n".join(map(str, done))


@pytest.mark.parametrize("link", LINKS)
def test_with_loss(hca, row, link):
    """CM messages and data are lost, and repeated."""
    row("rping", "-C 50, loss 0.1 %", link)
    done = run_pair(hca, *rping(50), "--link", link, *LOSS)
    assert done.returncode == 0, done
    check_rping(done, 50)


def test_nobody_listens(simulators, row):
    """CM 20: a card on which a process runs, but no service: REJECTED with reason 8, at once."""
    row("rping", "no listener: rejected")
    sim = simulators()
    other = sim.start(0, "rping", "-s", "-a", SERVER, "-p", 9999, "-P", live=True)
    try:
        client = sim.run(1, "rping", "-c", "-a", SERVER, "-C", 1, "-d")
        assert client.code != 0, client
        assert "RDMA_CM_EVENT_REJECTED, error 8" in client.text, client
    finally:
        other.kill()


def test_a_port_is_taken_once(simulators, row):
    """CM-27: EADDRINUSE, also from another process."""
    row("rping", "two listeners on one port")
    sim = simulators()
    first = sim.start(0, "rping", "-s", "-a", SERVER, "-P", "-d", live=True)
    try:
        first.prints("rdma_listen")
        second = sim.run(0, "rping", "-s", "-a", SERVER, "-P")
        assert second.code != 0 and "rdma_bind_addr: Address already in use" in second.text, second
        other = sim.run(0, "rping", "-s", "-a", "10.0.0.77", "-P")
        assert other.code != 0 and "rdma_bind_addr: Cannot assign requested address" in other.text, other
    finally:
        first.kill()


@pytest.mark.quick
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", ["cm_statements", "cm_paths"])
def test_statements(simulators, row, tmp_path, link, name):
    """CM-1: one program for both link layers; CM-7: by rdma/rdma_cma.h and rdma/rdma_verbs.h. CM-2 to CM-6, CM-10 to
    CM-16, CM-20 to CM-23, CM-25 to CM-30, CM-32 to CM-42, CM-45 to CM-49, CM-52 to CM-61, CM-65 to CM-68, CM-70, RS-3,
    ACC-10: each as the C program names it where it looks. CM-43 is iWARP's: no card of ours speaks it (E-1)."""
    row("what every call promises", "paths of the program's own" if name == "cm_paths" else "", link)
    done = simulators(link=link).run(0, built(tmp_path, name))
    assert done.code == 0 and " 0 do not hold" in done.text, done


@pytest.mark.quick
def test_fork_at_any_moment(simulators, row, tmp_path):
    """V-2, V-12: threads open, bind and list while their process forks."""
    row("fork beside threads that open and close")
    done = simulators().run(0, built(tmp_path, "fork_at_any_moment"))
    assert done.code == 0 and "40 children, 0 failed" in done.text, done


def test_stopped_simulator(simulators, row, tmp_path):
    """CM-30, CM-52: a program lives through a simulator that stands still for longer than all of a request's tries
    would take by the host's clock, 16 s. (Which time counts is told by the tests of hca-rdmacm's clock.)"""
    row("rdma_connect", "the simulator is stopped for 18 s")
    sim = simulators()
    server = sim.start(0, "rping", "-s", "-a", SERVER, "-C", 1, live=True)
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    client = sim.start(1, built(tmp_path, "cm_stopped"), live=True)
    client.prints("ready")
    sim.process.send_signal(signal.SIGSTOP)
    client.signal(signal.SIGUSR1)
    assert not client.ended(within_s=18), client.text
    sim.process.send_signal(signal.SIGCONT)
    done = client.done()
    assert done.code == 0 and "RDMA_CM_EVENT_ESTABLISHED" in done.text, done
    server.done()


@pytest.mark.parametrize("link", [LINKS[0], pytest.param(LINKS[1], marks=pytest.mark.quick)])
def test_shared_receive_queue(hca, row, tmp_path, link):
    """CM-46, CM-50, CM-65: an id's SRQ, from which its QP receives, by the calls of rdma_verbs.h."""
    row("rdma_create_srq", "", link)
    program = built(tmp_path, "cm_srq")
    done = run_pair(hca, [program], [program, SERVER], "--link", link)
    assert done.returncode == 0, done
    assert re.findall(r"^received message (\d)", end(done, "server"), re.MULTILINE) == list("01234567"), done


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("victim", ["server", "client"])
def test_killed(simulators, row, link, victim):
    """SIGKILL in mid-run, on either side: the other one, which may send nothing, is told DISCONNECTED (event 10), as by
    a kernel's connection manager; or its READ fails, if one is under way. Nothing is left then, and
    the next pair connects."""
    row("rping", f"{victim} ended by SIGKILL in mid-run", link)
    sim = simulators(link=link)
    server = sim.start(0, "rping", "-s", "-a", SERVER, "-v", live=True)
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    client = sim.start(1, "rping", "-c", "-a", SERVER, "-C", 1000000, "-v", live=True)
    client.prints("ping data: rdma-ping-20")
    killed, other = (server, client) if victim == "server" else (client, server)
    killed.kill()
    other.prints("DISCONNECT EVENT|completion failed status 1[12]")
    assert other.done().code != -9
    sim.wait_holds_nothing()
    server = sim.start(0, "rping", "-s", "-a", SERVER, "-C", 3, "-v")
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    assert sim.run(1, "rping", "-c", "-a", SERVER, "-C", 3, "-v").code == 0
    assert server.done().code == 0
