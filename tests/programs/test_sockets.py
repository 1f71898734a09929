"""Programs that know sockets alone, as Debian has them, over the cards: `hca run --sockets` (RS-6)."""

import hashlib
import json
import os
import pathlib
import re
import subprocess

import pytest
from cards import listens_by_cm
from pairs import end, packets, run_pair

SERVER = "10.0.0.1"
LINKS = ["eth", "ib"]
BOTH_LINKS = [pytest.param(link, marks=pytest.mark.quick) for link in LINKS]
SOCKETS = ("--sockets",)
HERE = pathlib.Path(__file__).parent


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def over(sim, what):
    """Does something, and sees to it that card 1 has sent for it."""
    before = sim.sent(1)[0]
    result = what()
    assert sim.sent(1)[0] > before + 10, "nothing went over the card"
    return result


@pytest.mark.parametrize("faults", [(), ("--faults", "loss=0.001")])
@pytest.mark.parametrize("link", BOTH_LINKS)
def test_iperf3(hca, row, tmp_path, link, faults):
    row("iperf3 --sockets", "-n 1M, 0.1 % loss" if faults else "-n 1M", link)
    capture = tmp_path / "link.pcap"
    done = run_pair(hca, ["iperf3", "-s", "-1"], ["iperf3", "-c", SERVER, "-n", "1M", "-J"], *SOCKETS, "--link", link,
                    *faults, capture=capture)
    assert done.returncode == 0, done
    report = json.loads(end(done, "client"))
    assert report["end"]["sum_received"]["bytes"] > 0.9 * 2**20 and "error" not in report, report
    assert packets(hca, capture)["RDMA WRITE"] >= 256  # of 4096 bytes


@pytest.mark.parametrize("options", [["-R"], ["-P", 4], ["--bidir"], ["-l", 1000], ["-6"]],
                         ids=lambda words: "".join(map(str, words)))
def test_iperf3_ways(hca, row, options):
    """Backwards, four streams at once, both ways at once, small writes, IPv6."""
    row("iperf3 --sockets", "-n 500K " + " ".join(map(str, options)))
    server = "fd00::1" if "-6" in options else SERVER
    done = run_pair(hca, ["iperf3", "-s", "-1"], ["iperf3", "-c", server, "-n", "500K", "-J", *options], *SOCKETS)
    assert done.returncode == 0, done
    assert "error" not in json.loads(end(done, "client")), done


@pytest.mark.parametrize("link", BOTH_LINKS)
def test_netcat(hca, row, tmp_path, link):
    """A file there; netcat ends with its input."""
    row("nc --sockets", "500 kB", link)
    source, target, capture = tmp_path / "source", tmp_path / "target", tmp_path / "link.pcap"
    source.write_bytes(os.urandom(500_001))
    done = run_pair(hca, ["sh", "-c", f"exec nc -l -p 7000 >{target}"], ["sh", "-c", f"nc -N {SERVER} 7000 <{source}"],
                    *SOCKETS, "--link", link, capture=capture)
    assert done.returncode == 0, done
    assert digest(target) == digest(source)
    assert packets(hca, capture)["RDMA WRITE"] >= 120


def web_server(sim, folder, *words, port):
    server = sim.start(0, "python3", "-m", "http.server", *words, "-d", folder, port, options=SOCKETS)
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    return server


FETCH = {"curl": ["curl", "-sS", "--fail", "--output"], "wget": ["wget", "-nv", "-O"]}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("program", FETCH)
def test_web(simulators, row, tmp_path, link, program):
    """A web server on all addresses: over the card for who comes by the card's, over TCP for who comes by the
    machine's, at the same time. Then it is killed, and the next one has the port."""
    row(f"python3 -m http.server, {program} --sockets", "1 MB", link)
    sim = simulators(link=link)
    source = tmp_path / "file"
    source.write_bytes(os.urandom(1_000_003))
    for port in (8001, 8002) if program == "curl" else (8003, 8004):
        server = web_server(sim, tmp_path, port=port)
        for where in (SERVER, "127.0.0.1", SERVER):
            target = tmp_path / f"{where}-{port}"

            def fetch(where=where, target=target, port=port):
                done = sim.run(1, *FETCH[program], target, f"http://{where}:{port}/file", options=SOCKETS)
                assert done.code == 0, done

            if where == SERVER:
                over(sim, fetch)
            else:
                fetch()
            assert digest(target) == digest(source)
        server.kill()
    sim.wait_holds_nothing()


def test_many_at_once(simulators, row, tmp_path):
    """Ten connections of one process at the same time; the server has a thread for each."""
    row("curl --parallel --sockets", "10 files")
    sim = simulators()
    names = [f"file-{n}" for n in range(10)]
    for name in names:
        (tmp_path / name).write_bytes(os.urandom(50_000))
    server = web_server(sim, tmp_path, port=8005)
    words = [word for name in names for word in ("-o", tmp_path / f"{name}-got", f"http://{SERVER}:8005/{name}")]
    done = over(sim, lambda: sim.run(1, "curl", "-sS", "--fail", "--parallel", *words, options=SOCKETS))
    server.kill()
    assert done.code == 0, done
    assert all(digest(tmp_path / name) == digest(tmp_path / f"{name}-got") for name in names)


@pytest.mark.parametrize("link", LINKS)
def test_asyncio(simulators, row, link):
    """ACC-11: Python's event loop waits by epoll: eight echoes at once, each with more under way than buffers hold."""
    row("python3, asyncio --sockets", "8 echoes of 300 kB", link)
    sim = simulators(link=link)
    program = ["python3", HERE / "asyncio_end.py", SERVER, 8009]
    server = sim.start(0, *program, options=SOCKETS)
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    done = over(sim, lambda: sim.run(1, *program, 8, 300_000, options=SOCKETS))
    server.kill()
    assert done.code == 0 and "8 of 8 the same" in done.text, done


@pytest.mark.parametrize("link", LINKS)
def test_with_loss(hca, row, tmp_path, link):
    row("nc --sockets", "300 kB, loss 0.1 %", link)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(300_001))
    done = run_pair(hca, ["sh", "-c", f"exec nc -l -p 7000 >{target}"], ["sh", "-c", f"nc -N {SERVER} 7000 <{source}"],
                    *SOCKETS, "--link", link, "--faults", "loss=0.001")
    assert done.returncode == 0, done
    assert digest(target) == digest(source)


DEAF = "import signal, socket; one = socket.create_server(('', 8010)).accept(); print('accepted'); signal.pause()"


@pytest.mark.parametrize("link", LINKS)
def test_who_may_not_send_hears_of_a_peer_that_was_killed(simulators, row, tmp_path, link):
    """A server that reads nothing holds the client up, with nothing under way. Then it is killed."""
    row("nc --sockets", "a server that reads nothing, ended by SIGKILL", link)
    sim = simulators(link=link)
    source = tmp_path / "source"
    source.write_bytes(bytes(1_000_000))
    server = sim.start(0, "python3", "-u", "-c", DEAF, options=SOCKETS)
    server.wait_until(lambda: listens_by_cm(server.pid), "it listened")
    before = sim.sent(1)[0]
    client = sim.start(1, "sh", "-c", f"exec nc -N {SERVER} 8010 <{source}", options=SOCKETS)
    server.prints("accepted")
    client.wait_until(lambda: sim.sent(1)[0] >= before + 16, "it had sent as much as it may")
    server.kill()
    # It ends; netcat does not say why.
    assert client.done().code in (0, 1)


def test_a_port_is_taken_once(simulators, row, tmp_path):
    row("python3 -m http.server --sockets", "two listeners on one port")
    sim = simulators()
    server = web_server(sim, tmp_path, "--bind", SERVER, port=8006)
    second = sim.run(0, "python3", "-m", "http.server", "--bind", SERVER, 8006, options=SOCKETS)
    server.kill()
    assert second.code != 0 and "Address already in use" in second.text, second


def test_nobody_listens(simulators, row, tmp_path):
    row("curl --sockets", "no listener: refused")
    sim = simulators()
    server = web_server(sim, tmp_path, port=8007)
    done = sim.run(1, "curl", "-sS", f"http://{SERVER}:8008/", options=SOCKETS)
    server.kill()
    assert done.code != 0 and re.search("Connection refused|Failed to connect", done.text), done


@pytest.mark.parametrize("link", BOTH_LINKS)
def test_calls(simulators, row, tmp_path, link):
    """Calls that the programs here do not make: epoll of all kinds, copies of descriptors, sendfile, children."""
    row("every call, --sockets", "", link)
    program = tmp_path / "sockets"
    subprocess.run(["cc", "-Wall", "-Werror", "-pthread", "-o", program, HERE / "sockets.c"], check=True)
    done = simulators(link=link).run(0, program, SERVER, options=SOCKETS)
    assert done.code == 0 and " 0 wrong answers" in done.text, done


@pytest.mark.quick
def test_without_cards(hca, row, tmp_path):
    """The same program on the machine's own network: what is no card's address is as without the library."""
    row("every call, --sockets", "on 127.0.0.1")
    program = tmp_path / "sockets"
    subprocess.run(["cc", "-Wall", "-Werror", "-pthread", "-o", program, HERE / "sockets.c"], check=True)
    done = run_pair(hca, ["true"], [program, "127.0.0.1"], *SOCKETS, "--timeout", "60s")
    assert " 0 wrong answers" in end(done, "client"), done


@pytest.mark.parametrize("link", LINKS)
def test_fork(hca, row, link):
    """RS-6: a server that accepts and forks; the parent carries the child's bytes."""
    row("rstream --sockets", "-T s -T f", link)
    words = ["-T", "s", "-T", "f", "-S", 1000, "-I", 3, "-C", 10]
    server = ["env", "RDMAV_FORK_SAFE=1", "rstream", "-b", SERVER, *words]
    done = run_pair(hca, server, ["rstream", "-s", SERVER, *words], *SOCKETS, "--link", link)
    assert done.returncode == 0, done
    assert re.search(r"^custom +1000 ", end(done, "client"), re.MULTILINE), done
