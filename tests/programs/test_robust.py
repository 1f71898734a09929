"""Ends that are killed, and what the next one finds."""

import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from cards import LIMIT_S, TRIES, UNCALIBRATED, free_port
from test_perftest import GID as PERFTEST_GID
from test_perftest import measure
from test_pingpong import pingpong

FUNCTIONS = 4
LONG = ["-n", 1_000_000, "-s", 65536, "-u", 10]  # -u: a timeout of 4 ms, so that it gives up soon
FIRST_LINE_S = 10
SHARED = 2  # times slower may a machine be that has other work, too


def assert_serves(sim, link="eth"):
    """The simulator goes on: a pair of programs finds all as it should be."""
    assert sim.running()
    pingpong(sim, link, ["-c", "-n", 5])


@contextmanager
def watchers(sim, card, number):
    """So many processes that have the card open, and do nothing with it."""
    programs = [sim.start(card, "ibv_asyncwatch", live=True) for _ in range(number)]
    try:
        for program in programs:
            program.prints("async event FD")
        yield programs
    finally:
        for program in programs:
            program.kill()


def assert_all_functions_free(sim, card):
    with watchers(sim, card, FUNCTIONS):
        done = sim.run(card, "ibv_asyncwatch")
        assert done.code != 0, f"a fifth process has the card, which has four functions: {done}"


@pytest.mark.quick
def test_busy_functions_are_told_only_where_none_is_left(simulators):
    """A program that gets a card has nothing to warn of; one that gets none is told why, for each function."""
    sim = simulators()
    devinfo = ["env", "IBV_SHOW_WARNINGS=1", "ibv_devinfo", "-d", "hca0"]
    with watchers(sim, 0, FUNCTIONS - 1):
        done = sim.run(0, *devinfo)
        assert done.code == 0 and "refuses" not in done.text and "no free function" not in done.text, done
        with watchers(sim, 0, 1):
            done = sim.run(0, *devinfo)
            busy = done.text.count("refuses the connection")
            assert done.code != 0 and busy == FUNCTIONS and "no free function" in done.text, done
    # Who comes when one has just gone gets its function.
    for _ in range(5):
        with watchers(sim, 0, FUNCTIONS):
            pass


@pytest.mark.parametrize(("link", "program"), [
    pytest.param("eth", "ib_write_bw", marks=pytest.mark.quick), ("ib", "ib_write_bw"), ("eth", "ib_send_bw"),
    ("ib", "ib_send_bw"), ("eth", "ib_read_bw")])
def test_server_killed(simulators, row, link, program):
    """SIGKILL in mid-run: the client ends with the error of a peer that does not answer. Only a READ may still be told
    that there was no memory to read, because a process loses that a moment before its function."""
    row(program, "server ended by SIGKILL in mid-run", link)
    sim = simulators(link=link)
    source = 0 if "read" in program else 1
    before = sim.sent(source)[0]
    server, client = sim.start_pair([program, *PERFTEST_GID[link], *LONG])
    client.wait_until(lambda: sim.sent(source)[0] > before + 100, "100 packets were sent")
    assert server.kill().code == -9
    done = client.done()
    status = {f"Failed status {number}" for number in ((11, 12) if "read" in program else (12,))}
    assert done.code > 0 and any(words in done.text for words in status), done
    row.result(f"client ends with '{' or '.join(sorted(status))}'")
    assert_all_functions_free(sim, 0)
    assert_serves(sim, link)


def test_client_killed(simulators, row):
    row("ib_write_bw", "client ended by SIGKILL in mid-run")
    sim = simulators()
    before = sim.sent(1)[0]
    server, client = sim.start_pair(["ib_write_bw", *PERFTEST_GID["eth"], *LONG])
    client.wait_until(lambda: sim.sent(1)[0] > before + 100, "100 packets were sent")
    assert client.kill().code == -9
    done = server.done()
    message = "Couldn't read remote address"
    assert done.code > 0 and message in done.text, done
    row.result(f"server ends with '{message}'")
    assert_all_functions_free(sim, 1)
    assert_serves(sim)


@pytest.mark.quick
def test_killed_processes_leave_their_functions(simulators, row):
    row("ibv_asyncwatch", "four of them on a card, ended by SIGKILL")
    sim = simulators()
    assert_all_functions_free(sim, 0)
    assert_all_functions_free(sim, 0)
    row.result("runs; the fifth is refused")


def test_two_pairs_of_perftest(simulators, row):
    row("ib_write_bw, ib_read_bw", "at once on four cards")
    sim = simulators(cards=4)
    words = ["-n", 50, "-s", 65536]
    pairs = {"ib_write_bw": (0, 1), "ib_read_bw": (2, 3)}
    with ThreadPoolExecutor() as both:
        started = [both.submit(measure, sim, "eth", program, words, cards) for program, cards in pairs.items()]
        assert all(done.code == 0 for pair in started for done in pair.result())


def memory(program, address, size):
    with open(f"/proc/{program.pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size)


def transfer(sim, program, size, iters):
    """[the target's bytes, the source's, what the target held before], as they are when all has been transferred.
    perftest fills its buffers with random bytes and does not look at them again; so they are looked at here, in the
    memory of both ends before they exit. None: perftest could not tell the processor's clock."""
    server, client = sim.start_pair([program, *PERFTEST_GID["eth"], "-n", iters, "-s", size], live=True)
    # From this line on the server only waits for the client's end; it must not exit before its memory has been read.
    server.prints("#bytes")
    server.signal(signal.SIGSTOP)
    line = client.prints(rf"(?m)^ {size} +{iters} .*\d\n|{UNCALIBRATED}")
    # An address printed is that of the buffer the peer uses; the buffer for one's own requests lies before it.
    theirs, ours = [int(end.prints("local address.*VAddr (0x[0-9a-f]+)")[1], 16) for end in (server, client)]
    found = None
    if UNCALIBRATED not in line[0]:
        at_server, at_client = memory(server, theirs, size), memory(client, ours - size, size)
        # If both have drawn the same random numbers, the target held what lies beside the source.
        found = ([at_server, at_client, memory(client, ours, size)] if program == "ib_write_bw" else
                 [at_client, at_server, memory(server, theirs - size, size)])
    server.signal(signal.SIGCONT)
    ends = [server.done(), client.done()]
    assert found is None or [done.code for done in ends] == [0, 0], ends
    return found


def sent_again(sim):
    return sum(card["ports"][0]["retransmitted_packets"] for card in sim.info())


@pytest.mark.quick
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw"])
def test_loss(simulators, row, program):
    """One packet of a thousand is lost on the cable; the data is right."""
    row(program, "0.1 % loss, bytes compared")
    sim = simulators(faults="loss=0.001")
    before, compared = sent_again(sim), 0
    for _ in range(2 * TRIES):
        found = transfer(sim, program, size=65536, iters=150)
        if found:
            target, source, past = found
            assert target == source, "wrong data"
            assert source != past and len(set(source)) > 1
            compared += 1
        if compared and sent_again(sim) > before:
            return
    pytest.fail(f"{compared} transfers, and none of their packets was lost")


def time_to_the_first_result(hca, words):
    """None: perftest could not tell the processor's clock."""
    start = time.monotonic()
    with subprocess.Popen([hca, "run", "--pair", "--", *words, "---", *words, "localhost"], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        lines, first = [], None
        for line in process.stdout:
            lines.append(line)
            if first is None and line.split()[1:3] == ["65536", "100"]:
                first = time.monotonic() - start
        code = process.wait(LIMIT_S)
    if any(UNCALIBRATED in line for line in lines):
        return None
    assert code == 0 and first is not None, lines
    return first


@pytest.mark.quick
def test_time_to_the_first_result(hca, row):
    """From `hca run --pair` to the first line of a result."""
    words = ["ib_write_bw", "-s", "65536", "-n", "100"]
    row("hca run --pair", " ".join(words))
    first = None
    for _ in range(TRIES):
        first = first or time_to_the_first_result(hca, [*words, "-p", str(free_port())])
    assert first is not None, f"perftest said {UNCALIBRATED!r} each time"
    row.figure(f"first result after {first:.1f} s")
    assert first <= FIRST_LINE_S * SHARED, f"{first:.1f} s"


def test_perftest_chooses_its_gid(simulators, row):
    """Without -x it finds the IPv4 GID of an Ethernet port by itself."""
    row("ib_write_bw", "without -x: chooses GID 1")
    ends = measure(simulators(), "ib", "ib_write_bw", ["-n", 10, "-s", 4096])
    assert all("GID index       : 1" in done.text for done in ends), ends
