"""Programs for services that the card lacks: they say so themselves, and the simulator goes on."""

import pytest
from cards import free_port, listens
from test_robust import assert_serves

CANNOT_CREATE = "Unable to create QP"
MACS = ["-B", "02:00:0a:00:00:01", "-E", "02:00:0a:00:00:02"]


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


# Program and options, and what one of the two ends must say.
CASES = [
    quick(["ibv_rc_pingpong", "-g", 1, "-o"], "The device isn't ODP capable"),
    (["ib_write_bw", "-c", "DC", "-x", 1, "-n", 5], "Failed to create QP"),
    (["ib_send_bw", "-c", "SRD", "-x", 1, "-n", 5], CANNOT_CREATE),
    (["ib_send_bw", "-c", "UC", "-R", "-n", 5], "UC is not supported in librdmacm"),
    (["ib_send_bw", "-c", "XRC", "-R", "-n", 5], "XRC does not support RDMA_CM"),
    (["ib_write_bw", "--odp", "-x", 1, "-n", 5], "is not supported for RC transport"),
]


def refused(ends, row, message):
    """Both end by themselves, with an exit code, and at least one says what is missing."""
    for done in ends:
        assert done.code > 0, done
    texts = [done.text for done in ends]
    assert any(message in text for text in texts), texts
    line = next(line for text in texts for line in text.splitlines() if message in line)
    row.result(f"ends with '{line.strip()}'")


@pytest.mark.parametrize(("words", "message"), CASES, ids=lambda value: "".join(map(str, value)))
def test_absent_service(sim, row, words, message):
    row(words[0], " ".join(map(str, words[1:])))
    port = free_port()
    server = sim.start(0, *words, "-p", port)
    while not server.ended(0.02) and not listens(port):
        pass
    client = sim.start(1, *words, "-p", port, "localhost")
    refused([server.done(), client.done()], row, message)
    assert_serves(sim)


@pytest.mark.parametrize("words", [["raw_ethernet_bw"], ["raw_ethernet_lat"], ["raw_ethernet_fs_rate"],
                                   ["raw_ethernet_burst_lat", "--rate_limit_type=HW"]], ids=lambda words: words[0])
def test_raw_ethernet(sim, row, words):
    row(words[0], " ".join([*words[1:], "--server, --client"]))
    ends = [sim.run(card, *words, side, *MACS, "-n", 5) for card, side in enumerate(["--server", "--client"])]
    refused(ends, row, CANNOT_CREATE)
    assert_serves(sim)
